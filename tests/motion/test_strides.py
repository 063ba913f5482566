"""Gait statistics: a walk whose numbers are known, and real ones."""

from dataclasses import astuple

import mujoco
import numpy as np
import pytest

from spectral_skills.motion.gait import Stride, runs, strides
from spectral_skills.motion.ingest import ReadOptions, read_at_corpus_rate
from spectral_skills.motion.intake import Made
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

FPS = 50
HEIGHT, WIDTH, LIFT = 0.72, 0.24, 0.08


def footsteps(t: np.ndarray, phase: float, speed: float, cycle: float) -> np.ndarray:
    """(T, 2) how far ahead and how high a foot is that stands 60 % of its cycle."""
    turns = t / cycle + phase
    whole, part = np.floor(turns), turns % 1.0
    swing = np.clip((part - 0.6) / 0.4, 0.0, 1.0)
    moved = swing - np.sin(2 * np.pi * swing) / (2 * np.pi)
    ahead = speed * cycle * (whole - phase + moved + 0.3)
    return np.stack((ahead, 0.5 * LIFT * (1 - np.cos(2 * np.pi * swing))), axis=1)


def walking(speed: float, cadence: float, seconds: float = 8.0) -> np.ndarray:
    """(T, 36) rows of a walk with level soles, along a path 30 degrees to the left."""
    model = build_model(meshes=False, floor=False)
    data = mujoco.MjData(model)
    t = np.arange(round(seconds * FPS)) / FPS
    cycle = 2.0 / cadence
    feet = [footsteps(t, phase, speed, cycle) for phase in (0.0, 0.5)]
    rows = np.tile(g1.DEFAULT_QPOS, (len(t), 1))
    rows[:, 2] = HEIGHT
    rows[:, 0] = speed * t
    bodies = [model.body(name).id for name in g1.FEET]
    ground = -g1.SOLE_POINTS[0, 2] + g1.SOLE_RADIUS
    step, turn = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    row = rows[0].copy()
    for i in range(len(t)):
        row[:7] = rows[i, :7]
        for _ in range(8):
            data.qpos = row
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            for side, body in enumerate(bodies):
                aside = (0.5 - side) * WIDTH
                ahead, height = feet[side][i]
                goal = np.array((ahead, aside, ground + height))
                mujoco.mj_jacBody(model, data, step, turn, body)
                legs = slice(6 + 6 * side, 12 + 6 * side)
                tilt = -2 * data.xquat[body][1:]
                error = np.concatenate((goal - data.xpos[body], tilt))
                jacobian = np.concatenate((step[:, legs], turn[:, legs]))
                row[1 + legs.start : 1 + legs.stop] += np.linalg.solve(jacobian, error)
        rows[i] = row
    angle = np.pi / 6
    cosine, sine = np.cos(angle), np.sin(angle)
    rows[:, :2] = rows[:, :2] @ np.array([[cosine, sine], [-sine, cosine]])
    rows[:, 3], rows[:, 6] = np.cos(angle / 2), np.sin(angle / 2)
    return rows


def found(rows: np.ndarray) -> tuple[Stride, int]:
    """The medians over all strides, and how many there are."""
    every = [astuple(stride) for stride in strides(rows)]
    assert every
    return Stride(*np.median(every, axis=0).tolist()), len(every)


@pytest.mark.parametrize("speed, cadence", [(0.5, 1.6), (0.8, 1.9)])
def test_known_walk(speed, cadence):
    rows = walking(speed, cadence)
    stride, count = found(rows)
    assert count >= 8 * cadence - 5
    assert stride.speed == pytest.approx(speed, rel=0.02)
    assert stride.cadence == pytest.approx(cadence, rel=0.02)
    assert stride.step_length == pytest.approx(speed / cadence, rel=0.03)
    assert stride.step_width == pytest.approx(WIDTH, abs=0.003)
    assert stride.stance_share == pytest.approx(0.6, abs=0.1)
    assert stride.double_support_share == pytest.approx(0.2, abs=0.15)
    assert stride.flight_share == 0
    assert stride.clearance == pytest.approx(LIFT, abs=0.005)
    assert stride.pelvis_height == pytest.approx(HEIGHT)
    assert stride.pelvis_bob == pytest.approx(0, abs=1e-6)
    assert 0.2 < stride.knee_range < 1.5


def test_mirror_image_walks_alike():
    rows = walking(0.6, 1.8, seconds=5.0)
    image = rows.copy()
    image[:, [1, 4, 6]] *= -1
    image[:, 7:] = (rows[:, 7:] * g1.MIRROR_SIGNS)[:, g1.MIRROR_JOINTS]
    (ours, _), (theirs, _) = found(rows), found(image)
    assert theirs.step_width == pytest.approx(ours.step_width, abs=1e-3)
    assert theirs.cadence == pytest.approx(ours.cadence, rel=0.02)


@pytest.mark.parametrize("frames", [1, 2, 200])
def test_standing_has_no_gait(frames):
    assert not strides(np.tile(g1.DEFAULT_QPOS, (frames, 1)))


@pytest.mark.parametrize(
    "name, speed, cadence, flight",
    [
        ("walk1_subject1", (0.5, 1.5), (1.2, 2.3), (0.0, 0.02)),
        ("run1_subject2", (1.5, 4.0), (2.2, 3.5), (0.1, 0.5)),
    ],
)
def test_real_gaits(motions_folder, name, speed, cadence, flight):
    path = motions_folder / "lafan1" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    (made,) = read_at_corpus_rate(path, ReadOptions())
    assert isinstance(made, Made)
    stride, count = found(made.clip.qpos())
    assert count > 20
    for value, (low, high) in (
        (stride.speed, speed),
        (stride.cadence, cadence),
        (stride.flight_share, flight),
        (stride.step_width, (0.05, 0.25)),
        (stride.pelvis_height, (0.65, 0.8)),
    ):
        assert low <= value <= high


def test_runs_of_a_mask():
    mask = np.array([1, 1, 0, 1, 0, 0, 1], bool)
    assert runs(mask) == [(0, 2), (3, 4), (6, 7)]
    assert runs(~mask) == [(2, 3), (4, 6)]
    assert runs(np.zeros(3, bool)) == runs(np.zeros(0, bool)) == []

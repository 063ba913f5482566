"""A motion elsewhere is laid onto another, and strides are of the leg's length."""

from dataclasses import replace

import numpy as np
import pytest
from beside import Alignment, LegPace, by_speed, compare, human_paces, versus

from spectral_skills.motion.human.recording import POINTS, SIDES, Recording, point
from spectral_skills.plots.human import Pair
from spectral_skills.robot import g1


def walking(frames: int = 200) -> np.ndarray:
    """Rows along a curve; the joints tell every frame from the others."""
    rows, t = np.tile(g1.DEFAULT_QPOS, (frames, 1)), np.arange(frames) / 50
    rows[:, 7 + g1.joint_index("left_shoulder_pitch")] += 0.3 * np.sin(5 * t)
    rows[:, 0], rows[:, 1] = np.sin(t), 1 - np.cos(t)
    rows[:, 3], rows[:, 6] = np.cos(t / 2), np.sin(t / 2)
    return rows


def test_a_motion_elsewhere_and_later_is_the_same_motion():
    rows = walking()
    other = rows[12:].copy()
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    other[:, :2] = other[:, :2] @ turn.T + (4.0, 5.0)
    w, z = other[:, 3].copy(), other[:, 6].copy()
    other[:, 3] = np.cos(angle / 2) * w - np.sin(angle / 2) * z
    other[:, 6] = np.cos(angle / 2) * z + np.sin(angle / 2) * w
    for difference, one, laid in (compare(rows, other), compare(other, rows)):
        assert abs(difference.alignment.lag) == 12
        assert difference.alignment.scale == pytest.approx(1)
        np.testing.assert_allclose(one, laid, atol=1e-9)
        assert difference.root_mm == pytest.approx(0, abs=1e-6)
        assert difference.joints_deg == pytest.approx(0, abs=1e-6)


def test_differences_are_measured():
    rows = walking()
    other = rows.copy()
    other[:, 2] += 0.02
    other[:, 7 + g1.joint_index("left_elbow")] += 0.1
    difference, *_ = compare(rows, other)
    assert difference.root_mm == pytest.approx(20)
    assert difference.feet_mm == pytest.approx(20)
    assert difference.feet_from_root_mm == pytest.approx(0, abs=1e-6)
    assert difference.joints_deg == pytest.approx(np.degrees(0.1) / 29)
    assert difference.parts_deg["arm"] == pytest.approx(np.degrees(0.1) / 8)
    assert difference.parts_deg["leg"] == 0
    assert difference.hands_from_root_mm > 5


def person_walking(speed: float, cadence: float, leg_m: float) -> Recording:
    """Feet that stand 60 % of their cycle, on a path to the left."""
    t = np.arange(8 * 60) / 60
    cycle = 2 / cadence
    points = np.zeros((len(t), len(POINTS), 3))
    for side, phase, aside in zip(SIDES, (0.0, 0.5), (0.1, -0.1), strict=True):
        turns = t / cycle + phase
        swing = np.clip((turns % 1 - 0.6) / 0.4, 0, 1)
        moved = swing - np.sin(2 * np.pi * swing) / (2 * np.pi)
        ankle = points[:, point(f"{side}_ankle")]
        ankle[:, 0] = speed * cycle * (np.floor(turns) - phase + moved + 0.3)
        ankle[:, 2] = 0.09 + 0.06 * (1 - np.cos(2 * np.pi * swing))
        points[:, point(f"{side}_toe")] = ankle + (0.14, 0, -0.07)
        hip = points[:, point(f"{side}_hip")]
        hip[:, 0], hip[:, 2] = speed * t, 0.09 + leg_m
        points[:, point(f"{side}_knee")] = hip - (0, 0, 0.5 * leg_m)
        for part in ("hip", "knee", "ankle", "toe"):
            points[:, point(f"{side}_{part}"), 1] = aside
    turn = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
    return Recording("walk", 60.0, points @ turn.T)


@pytest.mark.parametrize("speed, cadence", [(1.0, 1.6), (1.5, 2.0)])
def test_known_walk_of_a_person(monkeypatch, speed, cadence):
    person = person_walking(speed, cadence, leg_m=0.9)
    monkeypatch.setattr(Recording, "leg_m", lambda _: 0.9)  # these shanks stretch
    paces = human_paces(person)
    assert len(paces) >= 8 * cadence - 5
    found = {k: np.median([getattr(p, k) for p in paces]) for k in vars(paces[0])}
    assert found["speed"] == pytest.approx(speed / 0.9, rel=0.02)
    assert found["froude"] == pytest.approx(speed**2 / (9.81 * 0.9), rel=0.04)
    assert found["cadence"] == pytest.approx(cadence, rel=0.02)
    assert found["step_length"] == pytest.approx(speed / cadence / 0.9, rel=0.03)
    assert found["step_width"] == pytest.approx(0.2 / 0.9, rel=0.02)
    assert found["stance_share"] == pytest.approx(0.6, abs=0.1)
    (row,) = by_speed(paces).values()
    assert row["strides"] == len(paces)


def test_paces_are_grouped_by_speed_and_flight():
    walk = LegPace(1.2, 0.1, 1.7, 0.7, 0.1, 0.6, 0.2, 0.0)
    run = replace(walk, speed=3.0, flight_share=0.3)
    found = by_speed([walk, replace(walk, cadence=1.9), run, replace(run, speed=0.1)])
    assert list(found) == ["walk 1 to 1.5 legs/s", "run 2 to 4 legs/s"]
    assert found["walk 1 to 1.5 legs/s"]["cadence"] == pytest.approx(1.8)


def test_another_version_is_brought_to_the_first():
    """It began 7 frames later, somewhere else and facing elsewhere."""
    ours, points = walking(80), person_walking(1.0, 1.6, 0.9).points[:80]
    far = Alignment(0, 80, 0, 2.0, (5.0, 1.0), 1.0)
    theirs = far.common(ours, ours)[1][7:]
    assert np.linalg.norm(theirs[:, :2] - ours[7:, :2], axis=1).min() > 0.5
    pair = versus(points, ours, theirs)
    assert pair.frames == 73 and pair.robots[0] == pytest.approx(ours[7:], abs=1e-6)
    assert pair.robots[1][:, :3] == pytest.approx(ours[7:, :3], abs=1e-5)
    assert pair.person == pytest.approx(Pair.of(points[7:], ours[7:]).person)

"""The figure of a corpus: what it measures, which factors it says meet."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.motion.synthetic.factors import FACTORS, LEFT_OUT
from spectral_skills.plots import coverage
from spectral_skills.plots.coverage import clips_with, from_above, measures
from spectral_skills.robot import g1

FPS = 50


def gliding(speed: float, direction: float, heading: float, turning: float = 0.0):
    """(T, 36) rows of a stiff robot that glides over the floor."""
    t = np.arange(200) / FPS
    rows = np.tile(g1.DEFAULT_QPOS, (len(t), 1))
    rows[:, 0] = 3.0 + speed * t * np.cos(direction)
    rows[:, 1] = -2.0 + speed * t * np.sin(direction)
    yaw = heading + turning * t
    rows[:, 3], rows[:, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
    return rows


def test_speeds_are_along_and_across_the_heading():
    """Gliding 30 degrees to the left of where it faces, wherever that is."""
    found = measures(gliding(0.8, direction=1.0 + np.pi / 6, heading=1.0))
    np.testing.assert_allclose(found["forward"], 0.8 * np.cos(np.pi / 6), atol=1e-6)
    np.testing.assert_allclose(found["sideways"], 0.8 * np.sin(np.pi / 6), atol=1e-6)
    np.testing.assert_allclose(found["turning"], 0, atol=1e-6)
    assert len(found["cadence"]) == len(found["clearance"]) == 0
    turning = measures(gliding(0.0, 0.0, heading=3.0, turning=-0.7))["turning"]
    np.testing.assert_allclose(turning, -0.7, atol=1e-6)


def test_posture_is_that_of_the_joints():
    """A bent waist pitches the torso; a lifted arm brings its hand up."""
    rows = gliding(0.0, 0.0, heading=2.0)
    rest = measures(rows)
    rows[:, 7 + g1.joint_index("waist_pitch")] += 0.4
    found = measures(rows)
    np.testing.assert_allclose(
        found["torso_pitch"] - rest["torso_pitch"], 0.4, atol=1e-3
    )
    rows = gliding(0.0, 0.0, heading=2.0)
    rows[:, 7 + g1.joint_index("left_shoulder_pitch")] -= 2.5
    left, right = (measures(rows)["hand_height"] - rest["hand_height"]).T
    assert (left > 0.3).all()
    np.testing.assert_allclose(right, 0, atol=1e-9)


def test_steps_are_counted_and_their_height_measured():
    """Two feet lifted in turn, each by 8 cm once a second: two steps a second."""
    rows = gliding(0.0, 0.0, heading=0.0)
    rows[:, 2] -= sole_height(rows)
    t = np.arange(len(rows)) / FPS
    for side, late in (("left", 0.0), ("right", 0.5)):
        phase = (t - late) % 1.0
        lift = np.where((t > late) & (phase < 0.4), np.sin(np.pi * phase / 0.4), 0.0)
        for joint, angle in (("hip_pitch", -0.5), ("knee", 1.0), ("ankle_pitch", -0.5)):
            rows[:, 7 + g1.joint_index(f"{side}_{joint}")] += angle * lift
    found = measures(rows)
    np.testing.assert_allclose(found["cadence"], 2.0)
    assert len(found["clearance"]) >= 7
    assert np.ptp(found["clearance"]) < 0.01 and found["clearance"].min() > 0.05


def sole_height(rows: np.ndarray) -> float:
    """How high the soles of a standing robot are."""
    return float(sole_heights(Kinematics(g1.FEET)(torch.from_numpy(rows[:1]))).min())


def test_paths_start_at_the_origin_facing_ahead():
    rows = gliding(1.0, direction=2.0, heading=2.0)
    right, ahead = from_above(rows[:, :2], rows).T
    np.testing.assert_allclose(right, 0, atol=1e-9)
    assert ahead[0] == 0 and ahead[-1] == pytest.approx(199 / FPS)


def test_counts_are_of_clips_that_hold_both():
    names = ["stand_0000", "forward_0001", "forward+raise_0002", "raise_0003"]
    names += ["forward+raise_0002_mirror", "turn+squat+carry_0004", "reach_up_0005"]
    counts = clips_with(names)
    assert counts[frozenset({"forward"})] == 3
    assert counts[frozenset({"raise"})] == 3
    assert counts[frozenset({"forward", "raise"})] == 2
    assert counts[frozenset({"turn", "carry"})] == 1
    assert counts[frozenset({"squat", "carry"})] == 1
    assert counts[frozenset({"reach_up"})] == 1
    assert counts[frozenset({"forward", "wave"})] == 0


def made_up(make_corpus, folder):
    """A corpus of stiff robots that are named as if they did something."""
    names = ["stand_0000", "forward_0001", "forward+raise_0002", "jog_0003"]
    names += ["forward+raise_0004", "sideways_0005"]
    clips = [
        Clip.from_qpos(gliding(0.1 * i, 0.3 * i, 1.0), name=name, fps=float(FPS))
        for i, name in enumerate(names)
    ]
    return make_corpus(folder, clips)


def test_numbers_of_the_matrix(make_corpus, tmp_path):
    """Counts stand in their fields, a ring in every field that is left out."""
    axes = Figure().add_subplot()
    coverage._pair_table(axes, made_up(make_corpus, tmp_path / "corpus"))
    texts = {t.get_position(): t.get_text() for t in axes.texts}
    place = {factor: i for i, factor in enumerate(FACTORS)}
    assert texts[place["forward"], place["raise"]] == "2"
    assert texts[place["forward"], place["forward"]] == "3"
    assert texts[place["forward"], place["wave"]] == "0"
    rings = [position for position, text in texts.items() if text == "◯"]
    assert len(rings) == len(LEFT_OUT)
    assert tuple(sorted((place["backward"], place["raise"]))) in rings


def test_the_figure_is_written(make_corpus, tmp_path):
    corpus = made_up(make_corpus, tmp_path / "corpus")
    coverage.draw_coverage(corpus, tmp_path / "c.png")
    with Image.open(tmp_path / "c.png") as image:
        image.load()
        assert image.width == 1600 and image.height > 1600

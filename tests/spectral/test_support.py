"""Support: windows described by hand, counted by hand."""

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1
from spectral_skills.spectral import support as module
from spectral_skills.spectral.support import (
    ATTRIBUTES,
    TOLERANCES,
    Descriptors,
    describe,
    describe_run,
    support,
)

FPS = 50


def motion(frames=200, speed=0.0, yaw=0.5, yaw_rate=0.0, joints=None) -> np.ndarray:
    """(T, 36) rows that walk straight ahead, or round, at a steady rate."""
    t = np.arange(frames) / FPS
    rows = np.tile(g1.DEFAULT_QPOS, (frames, 1))
    angle = yaw + yaw_rate * t
    step = speed / FPS * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    rows[:, :2] = np.cumsum(step, axis=0)
    rows[:, 3:7] = rotation.from_yaw(torch.as_tensor(angle)).numpy()
    for name, values in (joints or {}).items():
        rows[:, 7 + g1.joint_index(name)] = values
    return rows


def attributes(values: np.ndarray) -> dict[str, float]:
    return dict(zip(ATTRIBUTES, values.tolist(), strict=True))


def test_a_straight_walk_has_its_speed():
    """Forwards and backwards, in any heading, at its height, with its arms."""
    shoulders = {"left_shoulder_pitch": -1.2, "right_shoulder_roll": -0.7}
    for speed in (0.8, -0.5):
        found = attributes(describe_run(motion(speed=speed, yaw=2.9, joints=shoulders)))
        expected = {
            **dict.fromkeys(ATTRIBUTES, 0.0),
            "forward_speed": speed,
            "root_height": g1.DEFAULT_HEIGHT,
            "left_shoulder_roll": 0.2,
            "right_shoulder_pitch": 0.2,
            **shoulders,
        }
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("yaw_rate", [1.5, -3.0])
def test_a_turn_on_the_spot_has_its_rate(yaw_rate):
    """Also across the half turn where angles jump, and while walking a circle."""
    found = attributes(describe_run(motion(yaw_rate=yaw_rate)))
    assert found["yaw_rate"] == pytest.approx(yaw_rate, abs=1e-4)
    assert found["forward_speed"] == pytest.approx(0.0, abs=1e-4)
    found = attributes(describe_run(motion(yaw_rate=yaw_rate, speed=0.7)))
    assert found["forward_speed"] == pytest.approx(0.7, abs=1e-3)


def test_the_apex_is_the_range_of_the_ankles_height():
    """A leg swung from the hip, straight, lifts its ankle by a cosine."""
    swing = 0.6 * np.sin(2 * np.pi * np.arange(200) / FPS)
    rows = motion(joints={"left_hip_pitch": swing, "left_knee": 0.0})
    found = attributes(describe_run(rows))
    height = Kinematics(("left_ankle_roll_link",))(torch.as_tensor(rows).float())
    z = height.position[:, 0, 2]
    assert found["left_apex"] == pytest.approx(float(z.max() - z.min()), abs=1e-3)
    assert found["left_apex"] > 0.1
    assert found["right_apex"] == pytest.approx(0.0, abs=1e-5)


def test_ankle_heights_agree_with_the_kinematics():
    """In poses of every kind, to a hundredth of a millimetre."""
    random = torch.Generator().manual_seed(0)
    rows = torch.randn((2000, g1.QPOS_SIZE), generator=random)
    rows[:, 3:7] = rotation.normalize(rows[:, 3:7])
    expected = Kinematics(g1.FEET)(rows).position[..., 2].T
    found = module._ankle_heights(rows.T.contiguous())
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_only_the_given_steps_are_described():
    """A run is measured where its steering is full."""
    rows = np.concatenate((motion(100), motion(100, speed=1.0), motion(100)))
    found = attributes(describe_run(rows, slice(100, 200)))
    assert found["forward_speed"] == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(ValueError, match="50, 36"):
        describe_run(rows, slice(100, 149))


def test_windows_stay_within_clips(tmp_path, make_clip, make_corpus, monkeypatch):
    """Each is what a run of its own rows gives, however clips share rounds."""
    lengths = (49, 50, 74, 75, 140, 20, 99)
    clips = [make_clip(f"c{i}", n, seed=i) for i, n in enumerate(lengths)]
    corpus = make_corpus(tmp_path, clips)
    described = describe(corpus)
    assert described.clips.tolist() == [1, 2, 3, 3, 4, 4, 4, 4, 6, 6]
    assert described.starts.tolist() == [0, 0, 0, 25, 0, 25, 50, 75, 0, 25]
    assert described.values.dtype == np.float32
    for values, clip, start in zip(
        described.values, described.clips, described.starts, strict=True
    ):
        own = describe_run(corpus.qpos(clip), slice(start, start + 50))
        np.testing.assert_allclose(values, own, atol=1e-5)
    monkeypatch.setattr(module, "_CPU_FRAMES", 100)
    np.testing.assert_allclose(describe(corpus).values, described.values, atol=1e-5)
    assert describe(corpus.select([0, 5])).values.shape == (0, 9)


def test_a_mirror_image_swaps_the_sides(tmp_path, make_clip, make_corpus):
    """Left and right change places; yaw rate and shoulder rolls change sign."""
    corpus = make_corpus(tmp_path, [make_clip(f"c{i}", 120, seed=i) for i in range(3)])
    described = describe(corpus.with_mirror())
    plain, image = np.split(described.values, 2)
    assert described.clips[len(plain)] == 3
    names = [
        name.replace("left", "*").replace("right", "left").replace("*", "right")
        for name in ATTRIBUTES
    ]
    signs = [-1 if n == "yaw_rate" or n.endswith("roll") else 1 for n in ATTRIBUTES]
    swapped = plain[:, [ATTRIBUTES.index(name) for name in names]] * signs
    np.testing.assert_allclose(image, swapped, atol=1e-5)


def table(*changes: dict[str, float]) -> Descriptors:
    """Windows that differ from a base of zeros by the given changes."""
    values = np.zeros((len(changes), len(ATTRIBUTES)), np.float32)
    for row, change in zip(values, changes, strict=True):
        for name, value in change.items():
            row[ATTRIBUTES.index(name)] = value
    n = np.arange(len(changes))
    return Descriptors(values, clips=n, starts=0 * n)


def test_support_is_counted_by_hand():
    """Four fifths of every steered change, and everything else like the base."""
    windows = table(
        {"yaw_rate": 0.8, "left_shoulder_pitch": -1.61},  # enough of both
        {"yaw_rate": 5.0, "left_shoulder_pitch": -9.0},  # more than enough
        {"yaw_rate": 0.79, "left_shoulder_pitch": -2.0},  # turns too little
        {"yaw_rate": 1.0, "left_shoulder_pitch": 2.0},  # the wrong way
        {"yaw_rate": 1.0},  # one without the other
        {"yaw_rate": 1.0, "left_shoulder_pitch": -2.0, "forward_speed": 0.24},
        {"yaw_rate": 1.0, "left_shoulder_pitch": -2.0, "forward_speed": 0.26},
        {"yaw_rate": 1.0, "left_shoulder_pitch": -2.0, "left_apex": 0.06},
        {},
    )
    base = np.zeros(9)
    run = table({"yaw_rate": 1.0, "left_shoulder_pitch": -2.0}).values[0]
    steered = ("yaw_rate", "left_shoulder_pitch")
    assert support(windows, base, run, steered) == 4
    assert support(windows, base, run, steered, ATTRIBUTES) == 3
    assert support(windows, base, run, ("yaw_rate",)) == 1
    assert support(windows, base, base, ()) == 1
    with pytest.raises(ValueError, match="'jump'; there are forward_speed"):
        support(windows, base, run, ("jump",))


def test_every_attribute_has_a_tolerance():
    """The table says for all nine what moving alike means."""
    assert set(TOLERANCES) == set(ATTRIBUTES) and len(ATTRIBUTES) == 9
    assert all(value > 0 for value in TOLERANCES.values())

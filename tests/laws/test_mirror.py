"""The mirror image of a motion is a motion of the mirrored robot."""

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.motion.clip import mirror_rows, mirror_text
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

MIRROR_LINKS = np.array([0, *(g1.MIRROR_JOINTS + 1)])
"""The pelvis, and the links that the joints move."""


def to_matrix(q: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3): their columns are the rotated axes."""
    return rotation.rotate(q[..., None, :], torch.eye(3).to(q)).mT


def random_rows(count: int) -> torch.Tensor:
    random = np.random.default_rng(0)
    position = random.uniform(-3, 3, (count, 3))
    quaternion = random.normal(size=(count, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    low, high = g1.JOINT_LIMITS.T
    joints = random.uniform(low, high, (count, 29))
    rows = np.concatenate((position, quaternion, joints), axis=1)
    return torch.from_numpy(rows)


def test_involution():
    """Twice mirrored is as before, bit for bit, for arrays and tensors."""
    rows = random_rows(20).float()
    assert torch.equal(mirror_rows(mirror_rows(rows)), rows)
    array = rows.numpy()
    assert np.array_equal(mirror_rows(mirror_rows(array)), array)
    assert np.array_equal(mirror_rows(array), mirror_rows(rows).numpy())


def test_precision_and_shape_are_kept():
    """float32 stays float32, float64 float64, any leading shape."""
    for dtype in (torch.float32, torch.float64):
        rows = random_rows(6).to(dtype).reshape(2, 3, 36)
        assert mirror_rows(rows).dtype == dtype
        assert mirror_rows(rows).shape == rows.shape
    assert mirror_rows(np.zeros((4, 36), np.float32)).dtype == np.float32


def test_kinematics_of_the_mirrored_pose_is_the_reflection():
    """Every link lies where the reflection of its opposite link lies."""
    kinematics = Kinematics(dtype=torch.float64)
    rows = random_rows(100)
    before, after = kinematics(rows), kinematics(mirror_rows(rows))
    reflection = torch.tensor([1.0, -1, 1], dtype=torch.float64)
    expected = before.position[:, MIRROR_LINKS] * reflection
    # The model's own shoulders differ by 0.01 mm: 0.10022 left, 0.10021 right.
    assert (after.position - expected).norm(dim=-1).max() < 1.1e-5
    # The mirror image of a rotation is M R M.
    turned = to_matrix(before.quaternion[:, MIRROR_LINKS])
    turned = reflection[:, None] * turned * reflection
    assert torch.allclose(to_matrix(after.quaternion), turned, atol=1e-5)


def test_permutations_are_involutions():
    """Sides are swapped in pairs; the middle stays."""
    for order, names in ((g1.MIRROR_JOINTS, g1.JOINTS), (MIRROR_LINKS, g1.LINKS)):
        assert np.array_equal(order[order], np.arange(len(names)))
        for name, other in zip(names, order, strict=True):
            if name.startswith("left_"):
                assert names[other] == "right_" + name.removeprefix("left_")
            elif not name.startswith("right_"):
                assert names[other] == name


def test_robot_is_symmetric():
    """Limits, default pose and motors of one side are those of the other."""
    signs = g1.MIRROR_SIGNS[:, None]
    mirrored = np.sort(g1.JOINT_LIMITS[g1.MIRROR_JOINTS] * signs, axis=1)
    np.testing.assert_array_equal(mirrored, g1.JOINT_LIMITS)
    default = g1.DEFAULT_JOINTS[g1.MIRROR_JOINTS] * g1.MIRROR_SIGNS
    np.testing.assert_array_equal(default, g1.DEFAULT_JOINTS)
    for numbers in (g1.ARMATURE, g1.EFFORT_LIMIT, g1.VELOCITY_LIMIT):
        np.testing.assert_array_equal(numbers[g1.MIRROR_JOINTS], numbers)
    np.testing.assert_array_equal(mirror_rows(g1.DEFAULT_QPOS), g1.DEFAULT_QPOS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raises the left arm", "raises the right arm"),
        ("Right foot over left", "Left foot over right"),
        ("stands upright", "stands upright"),
        ("a bright rightful cleft", "a bright rightful cleft"),
        ("left-handed, (right).", "right-handed, (left)."),
        ("turn_left_90", "turn_right_90"),
        ("turn left\nstep right", "turn right\nstep left"),
        ("walks", "walks"),
        ("", ""),
        # A mirrored clip that still says leftwards is labelled wrongly.
        ("steps leftward", "steps rightward"),
        ("leans rightwards", "leans leftwards"),
        ("LEFT TURN", "RIGHT TURN"),
    ],
)
def test_text(text, expected):
    """Left and right are swapped as words, and swapped back."""
    assert mirror_text(text) == expected
    assert mirror_text(expected) == text

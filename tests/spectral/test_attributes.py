"""Attributes mean what their names say, and their gradients are gradients."""

import math

import pytest
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.windows import POSE_SIZE, WindowConfig, anchor_poses
from spectral_skills.robot import g1
from spectral_skills.spectral.response import (
    ATTRIBUTES,
    GROUPS,
    NAMES,
    UNITS,
    Attributes,
    kinds,
    standing,
    upright,
)

WINDOWS = WindowConfig()
FRAMES = WINDOWS.future


@pytest.fixture(scope="module")
def attributes() -> Attributes:
    return Attributes(WINDOWS, dtype=torch.float64)


def rows_of(forward=0.0, left=0.0, turn=0.0, yaw=0.0, **joints: float) -> Tensor:
    """(1, 11, 36) rows of a robot that walks and turns steadily from heading `yaw`."""
    rows = torch.tensor(g1.DEFAULT_QPOS).repeat(FRAMES, 1)
    heading = yaw + turn * torch.arange(FRAMES, dtype=torch.float64) / FPS
    ahead = torch.stack((heading.cos(), heading.sin()), dim=1)
    aside = torch.stack((-heading.sin(), heading.cos()), dim=1)
    steps = (forward * ahead + left * aside)[:-1] / FPS
    rows[1:, :2] += steps.cumsum(0)
    rows[:, 3:7] = rotation.from_yaw(heading)
    for name, value in joints.items():
        rows[:, 7 + g1.joint_index(name)] = value
    return rows[None]


def poses_of(rows: Tensor) -> Tensor:
    origin = rows.new_zeros(len(rows), 3)
    still = rows.new_tensor((1.0, 0.0, 0.0, 0.0)).expand(len(rows), 4)
    return anchor_poses(rows, origin, still, "heading")


def measured(attributes: Attributes, rows: Tensor) -> dict[str, float]:
    return dict(zip(NAMES, attributes(poses_of(rows))[0].tolist(), strict=True))


def wild(seed: int = 0, count: int = 3) -> Tensor:
    """Futures that move everything, as poses."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.cat([rows_of(0.5, 0.2, 0.8, yaw=0.3 * i) for i in range(count)])
    noise = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    rows = rows + 0.1 * noise
    rows[..., 3:7] = rotation.normalize(rows[..., 3:7])
    return poses_of(rows)


def test_every_attribute_has_a_name_a_unit_and_a_scale():
    assert len(set(NAMES)) == len(NAMES) == len(UNITS) == 46
    assert NAMES[:29] == g1.JOINTS
    assert set(UNITS) == {"rad", "m", "m/s", "rad/s"}
    assert all(a.scale > 0 and a.sense in (-1, 1) for a in ATTRIBUTES)


def test_groups_share_out_the_pose():
    columns = sorted(column for group in GROUPS.values() for column in group)
    assert columns == list(range(POSE_SIZE))


@pytest.mark.parametrize("yaw", [0.0, 2.0, -3.0])
def test_walking_and_turning(attributes, yaw):
    """Speeds are in the robot's own heading at each frame, whatever its heading."""
    found = measured(attributes, rows_of(0.7, 0.2, 0.9, yaw))
    assert math.isclose(found["forward_speed"], 0.7, abs_tol=1e-9)
    assert math.isclose(found["sideways_speed"], 0.2, abs_tol=1e-9)
    assert math.isclose(found["yaw_rate"], 0.9, abs_tol=1e-9)
    assert math.isclose(found["root_height"], g1.DEFAULT_HEIGHT)
    assert abs(found["lean_forward"]) + abs(found["lean_left"]) < 1e-9


def test_speed_counts_the_stride():
    """Poses two frames apart are 0.04 s apart."""
    windows = WindowConfig(stride=2)
    poses = poses_of(rows_of(0.7, turn=0.9))
    found = Attributes(windows, dtype=torch.float64)(poses)[0]
    assert math.isclose(found[NAMES.index("forward_speed")], 0.35, abs_tol=1e-9)
    assert math.isclose(found[NAMES.index("yaw_rate")], 0.45, abs_tol=1e-9)
    with pytest.raises(ValueError, match="two or more"):
        Attributes(WindowConfig(future=1))


def test_how_far_the_robot_is_off(attributes):
    """Place and heading are seen from the robot at t, which the motion has left."""
    rows = rows_of(yaw=0.2)
    rows[..., :2] += torch.tensor((0.3, -0.1), dtype=torch.float64)
    found = measured(attributes, rows)
    off = found["ahead"], found["aside"], found["facing"]
    assert off == pytest.approx((0.3, -0.1, 0.2), abs=1e-9)


def test_leaning(attributes):
    """Positive pitch leans forward, negative roll leans left, in any heading."""
    for axis, angle, name in (
        ((0.0, 1.0, 0.0), 0.3, "lean_forward"),
        ((1.0, 0.0, 0.0), -0.3, "lean_left"),
    ):
        rows = rows_of(yaw=1.2)
        axis = torch.tensor(axis, dtype=torch.float64)
        tilt = rotation.from_axis_angle(axis, torch.tensor(angle, dtype=axis.dtype))
        rows[..., 3:7] = rotation.multiply(rows[..., 3:7], tilt.expand(1, FRAMES, 4))
        found = measured(attributes, rows)
        assert math.isclose(found[name], 0.3, abs_tol=1e-9)


def test_who_lies_flat_has_a_lean_too():
    """In float32, where a component of the unit vector up is sometimes above 1."""
    yaw = torch.linspace(-3, 3, 200)[:, None].expand(-1, FRAMES)
    flat = torch.tensor(math.pi / 2)
    tilt = rotation.from_axis_angle(torch.tensor((0.0, 1.0, 0.0)), flat)
    quaternion = rotation.multiply(rotation.from_yaw(yaw), tilt.expand(200, FRAMES, 4))
    joints_and_place = torch.zeros((200, FRAMES, g1.NUM_JOINTS + 3))
    poses = torch.cat((joints_and_place, rotation.to_rot6d(quaternion)), dim=-1)
    lean = Attributes(WINDOWS)(poses)[:, NAMES.index("lean_forward")]
    torch.testing.assert_close(lean, flat.expand(200), rtol=0, atol=1e-3)


def test_feet_and_hands(attributes):
    """Feet are measured from the floor, hands from the pelvis in its heading."""
    still, turned = (measured(attributes, rows_of(yaw=yaw)) for yaw in (0.0, 1.9))
    for name in NAMES[29:-3]:
        assert math.isclose(still[name], turned[name], abs_tol=1e-9), name
    assert math.isclose(still["left_foot_height"], 0.0383, abs_tol=1e-3)
    assert math.isclose(still["left_hand_x"], 0.0973, abs_tol=1e-3)
    assert math.isclose(still["right_hand_y"], -0.2145, abs_tol=1e-3)
    assert math.isclose(still["left_hand_z"], 0.7356 - g1.DEFAULT_HEIGHT, abs_tol=1e-3)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "joint, seen, sign",
    [
        ("hip_pitch", "foot_height", 1),
        ("knee", "foot_height", 1),
        ("shoulder_pitch", "hand_x", 1),
        ("shoulder_roll", "hand_y", 1),
        ("elbow", "hand_z", 1),
        ("shoulder_yaw", "hand_y", 1),
    ],
)
def test_actions_name_what_happens(attributes, side, joint, seen, sign):
    """A joint moved in its sense does what its action says: up, forward, out."""
    attribute = ATTRIBUTES[NAMES.index(f"{side}_{joint}")]
    result = ATTRIBUTES[NAMES.index(f"{side}_{seen}")]
    base = g1.DEFAULT_JOINTS[g1.joint_index(attribute.name)]
    moved = rows_of(**{attribute.name: base + 0.2 * attribute.sense})
    before, after = measured(attributes, rows_of()), measured(attributes, moved)
    change = after[result.name] - before[result.name]
    assert change * result.sense * sign > 0.002


def test_gradients_are_finite_differences(attributes):
    """Of every attribute, in every coordinate of some poses, off the rotations too."""
    poses = wild()
    rows = attributes.rows(poses)
    assert rows.shape == (3, 46, FRAMES * POSE_SIZE)
    step = 1e-6
    for pose in (0, 4, 10):
        for column in range(POSE_SIZE):
            move = torch.zeros_like(poses)
            move[:, pose, column] = step
            change = (attributes(poses + move) - attributes(poses - move)) / (2 * step)
            found = rows[:, :, pose * POSE_SIZE + column]
            torch.testing.assert_close(found, change, rtol=1e-5, atol=1e-6)


def test_gradients_inside_no_grad(attributes):
    """Rows are the same wherever they are asked for, and leave no graph behind."""
    poses = wild()
    with torch.no_grad():
        rows = attributes.rows(poses)
    assert not rows.requires_grad
    torch.testing.assert_close(rows, attributes.rows(poses))
    single = Attributes(WINDOWS).rows(poses.float())
    torch.testing.assert_close(single.double(), rows, rtol=1e-3, atol=1e-4)


def test_upright_and_standing():
    """Lying down has no heading; walking is not standing."""
    rows = torch.cat((rows_of(), rows_of(forward=0.5), rows_of(forward=0.05)))
    assert standing(poses_of(rows), WINDOWS).tolist() == [True, False, True]
    for degrees, expected in ((0, True), (55, True), (65, False), (150, False)):
        tilt = torch.tensor((0.0, math.radians(degrees), 0.0), dtype=torch.float64)
        rows[..., 3:7] = rotation.exp(tilt)
        assert upright(poses_of(rows)).tolist() == [expected] * 3


def test_contexts_are_told_apart_by_what_the_robot_does(attributes):
    """Standing, walking, walking with a foot in the air, and lying."""
    bent = {"left_hip_pitch": -0.9, "left_knee": 1.5}
    lying = rows_of(forward=0.5)
    lying[..., 3:7] = torch.tensor((0.5**0.5, 0.0, 0.5**0.5, 0.0))
    some = rows_of(), rows_of(forward=0.5), rows_of(left=0.5, **bent), rows_of(**bent)
    poses = poses_of(torch.cat((*some, lying)))
    found = kinds(poses, attributes(poses), WINDOWS)
    assert {name: mask.int().tolist() for name, mask in found.items()} == {
        "effects": [1, 1, 1, 1, 0],
        "standing": [1, 0, 0, 1, 0],
        "walking": [0, 1, 1, 0, 0],
        "left_swing": [0, 0, 1, 0, 0],
        "right_swing": [0, 0, 0, 0, 0],
    }

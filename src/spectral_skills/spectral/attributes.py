"""Attributes of a motion that people would name, and their gradients.

A future of poses (n, k, 38) has one number for each attribute, an average over the
future. Joints, height and speeds of a straight path are linear in the poses; leaning,
turning, feet and hands are not, and their gradients are first order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.windows import POSE_SIZE, WindowConfig
from spectral_skills.robot import g1

_LEG, _ARM = ("hip", "knee", "ankle"), ("shoulder", "elbow", "wrist")


def _columns(side: str, parts: tuple[str, ...]) -> tuple[int, ...]:
    starts = tuple(f"{side}{part}" for part in parts)
    return tuple(i for i, joint in enumerate(g1.JOINTS) if joint.startswith(starts))


GROUPS: dict[str, tuple[int, ...]] = {
    "left_leg": _columns("left_", _LEG),
    "right_leg": _columns("right_", _LEG),
    "left_arm": _columns("left_", _ARM),
    "right_arm": _columns("right_", _ARM),
    "waist": _columns("", ("waist",)),
    "root_position": tuple(range(29, 32)),
    "root_rotation": tuple(range(32, POSE_SIZE)),
}
"""Columns of a pose by part of the body; each column belongs to one group."""


@dataclass(frozen=True)
class Attribute:
    """One property of a motion."""

    name: str
    unit: str
    scale: float
    """Noticeable change, by which attributes are compared."""
    action: str
    """Name of a change."""
    sense: int = 1
    """Sign of the change with that name."""


# What a joint does, and the sign that does it on the left. On the right, rotations
# about x and z (rolls and yaws) are mirrored.
_ACTIONS = {
    "hip_pitch": ("thigh forward", -1),
    "hip_roll": ("leg out", 1),
    "hip_yaw": ("toes out", 1),
    "knee": ("knee bend", 1),
    "ankle_pitch": ("toes down", 1),
    "ankle_roll": ("sole out", 1),
    "waist_yaw": ("torso turn left", 1),
    "waist_roll": ("torso lean left", -1),
    "waist_pitch": ("torso lean forward", 1),
    "shoulder_pitch": ("arm raise", -1),
    "shoulder_roll": ("arm out", 1),
    "shoulder_yaw": ("forearm out", 1),
    "elbow": ("elbow bend", -1),
    "wrist_roll": ("wrist roll in", 1),
    "wrist_pitch": ("wrist down", 1),
    "wrist_yaw": ("wrist out", 1),
}
_SIDES = {"left": 1, "right": -1}


def _joint(index: int, name: str) -> Attribute:
    action, sense = _ACTIONS[g1.part_of(name)]
    if name.startswith("right_"):
        sense *= int(g1.MIRROR_SIGNS[index])
    side = name.removesuffix(g1.part_of(name)).replace("_", " ")
    return Attribute(name, "rad", 0.5, side + action, sense)


ATTRIBUTES: tuple[Attribute, ...] = (
    *(_joint(i, name) for i, name in enumerate(g1.JOINTS)),
    Attribute("root_height", "m", 0.05, "rise"),
    Attribute("lean_forward", "rad", 0.2, "lean forward"),
    Attribute("lean_left", "rad", 0.2, "lean left"),
    Attribute("forward_speed", "m/s", 0.3, "faster"),
    Attribute("sideways_speed", "m/s", 0.3, "step left"),
    Attribute("yaw_rate", "rad/s", 0.5, "turn left"),
    *(Attribute(f"{s}_foot_height", "m", 0.05, f"{s} foot up") for s in _SIDES),
    *(
        attribute
        for side, out in _SIDES.items()
        for attribute in (
            Attribute(f"{side}_hand_x", "m", 0.2, f"{side} hand forward"),
            Attribute(f"{side}_hand_y", "m", 0.2, f"{side} hand out", out),
            Attribute(f"{side}_hand_z", "m", 0.2, f"{side} hand up"),
        )
    ),
)
NAMES: tuple[str, ...] = tuple(a.name for a in ATTRIBUTES)
UNITS: tuple[str, ...] = tuple(a.unit for a in ATTRIBUTES)


def scales() -> Tensor:
    """(a,) noticeable change of each attribute."""
    return torch.tensor([a.scale for a in ATTRIBUTES], dtype=torch.float64)


class Attributes:
    """Measures futures and their gradients.

    joints         mean angle
    root_height    mean height of the pelvis
    lean_*         mean lean of the pelvis, relative to its heading
    *_speed        mean speed of the pelvis, each frame in its own heading
    yaw_rate       turn of the heading from the first pose to the last, per second
    *_foot_height  mean height of the ankle roll link: smooth, where a maximum is not
    *_hand_xyz     mean place of the wrist yaw link, relative to pelvis and heading

    Up is that of the window's frame: with the anchor `pose`, the robot's own at t.
    """

    def __init__(
        self,
        windows: WindowConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        if windows.future < 2:
            raise ValueError(
                "a future of one pose has no speed; two or more are needed"
            )
        self.poses, self._step_s = windows.future, windows.stride / FPS
        self._links = Kinematics((*g1.FEET, *g1.WRISTS), device, dtype)

    def __call__(self, poses: Tensor) -> Tensor:
        """Attributes (n, a) of futures (n, k, 38)."""
        joints, position, rot6d = poses.split((g1.NUM_JOINTS, 3, 6), dim=-1)
        quaternion = rotation.from_rot6d(rot6d)
        links = self._links(torch.cat((position, quaternion, joints), dim=-1)).position
        heading = rotation.heading(quaternion)
        up = rotation.rotate(quaternion, poses.new_tensor((0.0, 0.0, 1.0)))
        # For a robot lying flat, rounding may make a component of `up` exceed 1.
        lean = rotation.rotate_inverse(heading, up)[..., :2].clamp(-1, 1).asin()
        velocity = position.diff(dim=1) / self._step_s
        velocity = rotation.rotate_inverse(heading[:, :-1], velocity)
        first, last = heading[:, 0], heading[:, -1]
        turn = rotation.yaw(rotation.multiply(last, rotation.conjugate(first)))
        feet, wrists = links[..., :2, 2], links[..., 2:, :] - position[..., None, :]
        hands = rotation.rotate_inverse(heading[..., None, :], wrists)
        parts = (
            joints.mean(1),
            position[..., 2:].mean(1),
            lean.mean(1),
            velocity[..., :2].mean(1),
            turn[:, None] / (self._step_s * (self.poses - 1)),
            feet.mean(1),
            hands.mean(1).flatten(1),
        )
        return torch.cat(parts, dim=1)

    def rows(self, poses: Tensor) -> Tensor:
        """Gradients (n, a, m): change of each attribute per number of the future."""
        n, k, _ = poses.shape
        rows = poses.new_zeros(n, len(ATTRIBUTES), k, POSE_SIZE)
        joints = torch.arange(g1.NUM_JOINTS)
        rows[:, joints, :, joints] = 1 / k
        with torch.enable_grad():
            poses = poses.detach().requires_grad_()
            # Futures are independent, so the gradient of the sum holds all of theirs.
            totals = self(poses).sum(0)
            for i in range(g1.NUM_JOINTS, len(ATTRIBUTES)):
                (rows[:, i],) = torch.autograd.grad(totals[i], poses, retain_graph=True)
        return rows.flatten(2)


def upright(poses: Tensor) -> Tensor:
    """(n,) whether the pelvis stays within 60 degrees of upright.

    Beyond that, heading and lean are no longer what people mean by them, and their
    gradients are unbounded.
    """
    r00, r01, r10, r11, _, _ = poses[..., 32:].unbind(-1)
    # The third column of a rotation is the product of the first two; this is R22.
    return ((r00 * r11 - r01 * r10) > 0.5).all(dim=1)


def standing(poses: Tensor, windows: WindowConfig) -> Tensor:
    """(n,) whether the pelvis moves slower than 0.1 m/s on average."""
    position = poses[..., g1.NUM_JOINTS : g1.NUM_JOINTS + 3]
    speed = position.diff(dim=1).norm(dim=-1).mean(1) * FPS / windows.stride
    return speed < 0.1

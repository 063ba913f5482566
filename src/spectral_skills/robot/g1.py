"""The Unitree G1: joints, links, motors, limits and default pose.

The numbers are those of SONIC's training environment: gains follow from each
motor's armature at a natural frequency of 10 Hz and a damping ratio of 2, and
hip pitch carries the larger 7520-22 motor. Joint arrays are in MuJoCo order
unless a name says IsaacLab. Only NumPy is needed here.
"""

import math
from dataclasses import dataclass

import numpy as np

_SIDES = ("left", "right")
_LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
_ARM = (
    *("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow"),
    *("wrist_roll", "wrist_pitch", "wrist_yaw"),
)

JOINTS: tuple[str, ...] = (
    *(f"{side}_{part}" for side in _SIDES for part in _LEG),
    *_WAIST,
    *(f"{side}_{part}" for side in _SIDES for part in _ARM),
)
"""The 29 joints in MuJoCo order, which is also the hardware's motor order."""

NUM_JOINTS = len(JOINTS)
QPOS_SIZE = 7 + NUM_JOINTS
"""Number of floats in a frame: root position 3, root quaternion wxyz 4, joints 29."""


def joint_index(name: str) -> int:
    """Return the index of a joint in MuJoCo order."""
    return JOINTS.index(name)


# IsaacLab numbers joints breadth-first over the tree: rank by rank, left before
# right, the waist after both legs.
_ISAACLAB_RANKS = (
    *("hip_pitch", "waist_yaw", "hip_roll", "waist_roll", "hip_yaw", "waist_pitch"),
    *("knee", "shoulder_pitch", "ankle_pitch", "shoulder_roll", "ankle_roll"),
    *("shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw"),
)
ISAACLAB_JOINTS: tuple[str, ...] = tuple(
    name
    for part in _ISAACLAB_RANKS
    for name in ([part] if part in _WAIST else [f"{s}_{part}" for s in _SIDES])
)

ISAACLAB_TO_MUJOCO = np.array([ISAACLAB_JOINTS.index(n) for n in JOINTS])
"""`x_mujoco = x_isaaclab[..., ISAACLAB_TO_MUJOCO]`."""

MUJOCO_TO_ISAACLAB = np.array([JOINTS.index(n) for n in ISAACLAB_JOINTS])
"""`x_isaaclab = x_mujoco[..., MUJOCO_TO_ISAACLAB]`."""

WITHOUT_WRISTS = np.array([i for i, n in enumerate(JOINTS) if "wrist" not in n])
"""Indices of the 23 joints of the G1 without wrists among the 29."""

# The body that waist_pitch moves is called torso_link.
LINKS: tuple[str, ...] = (
    "pelvis",
    *("torso_link" if n == "waist_pitch" else f"{n}_link" for n in JOINTS),
)
"""All 30 links; link i + 1 is moved by joint i."""

TRACKED_LINKS: tuple[str, ...] = (
    "pelvis",
    *(f"{s}_{p}_link" for s in _SIDES for p in ("hip_roll", "knee", "ankle_roll")),
    "torso_link",
    *(f"{s}_{p}_link" for s in _SIDES for p in ("shoulder_roll", "elbow", "wrist_yaw")),
)
"""The 14 links of every tracking metric and reward; the pelvis is the anchor."""

FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
WRISTS = ("left_wrist_yaw_link", "right_wrist_yaw_link")
END_EFFECTORS = (*FEET, *WRISTS)

SOLE_RADIUS = 0.01
SOLE_POINTS = np.array(
    [(x, y, -0.025) for x, y in ((-0.054, 0.0), (0.132, 0.0))]
    + [
        (x, side * y, -0.025)
        for x, y in ((-0.052, 0.01), (0.13, 0.01), (-0.044, 0.018), (0.123, 0.018))
        for side in (1, -1)
    ]
    + [(x, side * 0.026, -0.025) for x in (0.05, 0.1) for side in (1, -1)]
)
"""Ends of the model's foot capsules in the ankle roll frame, m: a sole's lowest point
is the lowest of these less `SOLE_RADIUS`."""


@dataclass(frozen=True)
class Motor:
    """One motor type; gains follow from its reflected inertia."""

    armature: float
    """Reflected inertia, kg m^2."""
    effort: float
    """Torque limit, Nm."""
    velocity: float
    """Speed limit, rad/s."""

    @property
    def stiffness(self) -> float:
        return self.armature * _NATURAL_FREQUENCY**2

    @property
    def damping(self) -> float:
        return 2.0 * _DAMPING_RATIO * self.armature * _NATURAL_FREQUENCY

    @property
    def action_scale(self) -> float:
        """Radians of joint target per unit of action."""
        return 0.25 * self.effort / self.stiffness


_NATURAL_FREQUENCY = 2.0 * math.pi * 10.0
_DAMPING_RATIO = 2.0
_M7520_22 = Motor(armature=0.025101925, effort=139.0, velocity=20.0)
_M7520_14 = Motor(armature=0.010177520, effort=88.0, velocity=32.0)
_M5020 = Motor(armature=0.003609725, effort=25.0, velocity=37.0)
_M5020_PAIR = Motor(armature=2 * 0.003609725, effort=50.0, velocity=37.0)
_M4010 = Motor(armature=0.00425, effort=5.0, velocity=22.0)

_MOTOR_OF_PART = {
    **dict.fromkeys(("hip_pitch", "hip_roll", "knee"), _M7520_22),
    **dict.fromkeys(("hip_yaw", "waist_yaw"), _M7520_14),
    **dict.fromkeys(
        ("ankle_pitch", "ankle_roll", "waist_roll", "waist_pitch"), _M5020_PAIR
    ),
    **dict.fromkeys(
        ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll"),
        _M5020,
    ),
    **dict.fromkeys(("wrist_pitch", "wrist_yaw"), _M4010),
}


def part_of(joint: str) -> str:
    """Return a joint's name without its side: `left_knee` is a `knee`."""
    return joint.removeprefix("left_").removeprefix("right_")


MOTORS: tuple[Motor, ...] = tuple(_MOTOR_OF_PART[part_of(n)] for n in JOINTS)
STIFFNESS = np.array([m.stiffness for m in MOTORS])
DAMPING = np.array([m.damping for m in MOTORS])
EFFORT_LIMIT = np.array([m.effort for m in MOTORS])
VELOCITY_LIMIT = np.array([m.velocity for m in MOTORS])
ARMATURE = np.array([m.armature for m in MOTORS])
ACTION_SCALE = np.array([m.action_scale for m in MOTORS])

# Ranges of the left side, rad; a right-hand roll range is the left one negated.
_RANGE_OF_PART = {
    "hip_pitch": (-2.5307, 2.8798),
    "hip_roll": (-0.5236, 2.9671),
    "hip_yaw": (-2.7576, 2.7576),
    "knee": (-0.087267, 2.8798),
    "ankle_pitch": (-0.87267, 0.5236),
    "ankle_roll": (-0.2618, 0.2618),
    "waist_yaw": (-2.618, 2.618),
    "waist_roll": (-0.52, 0.52),
    "waist_pitch": (-0.52, 0.52),
    "shoulder_pitch": (-3.0892, 2.6704),
    "shoulder_roll": (-1.5882, 2.2515),
    "shoulder_yaw": (-2.618, 2.618),
    "elbow": (-1.0472, 2.0944),
    "wrist_roll": (-1.97222, 1.97222),
    "wrist_pitch": (-1.61443, 1.61443),
    "wrist_yaw": (-1.61443, 1.61443),
}


def _range(joint: str) -> tuple[float, float]:
    low, high = _RANGE_OF_PART[part_of(joint)]
    mirrored = joint.startswith("right_") and joint.endswith("_roll")
    return (-high, -low) if mirrored else (low, high)


JOINT_LIMITS = np.array([_range(n) for n in JOINTS])
"""(29, 2) lower and upper limits, rad."""

SOFT_LIMIT_FACTOR = 0.9
_centre = JOINT_LIMITS.mean(axis=1, keepdims=True)
SOFT_LIMITS = _centre + SOFT_LIMIT_FACTOR * (JOINT_LIMITS - _centre)
"""(29, 2) limits shrunk to 0.9 of the range about its centre, rad."""

_DEFAULT_OF_PART = {
    "hip_pitch": -0.312,
    "knee": 0.669,
    "ankle_pitch": -0.363,
    "elbow": 0.6,
    "shoulder_pitch": 0.2,
}


def _default(joint: str) -> float:
    if part_of(joint) == "shoulder_roll":
        return 0.2 if joint.startswith("left_") else -0.2
    return _DEFAULT_OF_PART.get(part_of(joint), 0.0)


DEFAULT_JOINTS = np.array([_default(n) for n in JOINTS])
DEFAULT_HEIGHT = 0.76
"""Pelvis height of the default pose, m."""
DEFAULT_QPOS = np.array([0.0, 0.0, DEFAULT_HEIGHT, 1.0, 0.0, 0.0, 0.0, *DEFAULT_JOINTS])

PHYSICS_DT_S = 0.005
DECIMATION = 4
CONTROL_HZ = 50

# Reflection in the sagittal plane: swap the sides, negate rolls and yaws.
_OTHER_SIDE = {"left_": "right_", "right_": "left_"}


def _opposite(name: str) -> str:
    for side, other in _OTHER_SIDE.items():
        if name.startswith(side):
            return other + name.removeprefix(side)
    return name


MIRROR_JOINTS = np.array([JOINTS.index(_opposite(n)) for n in JOINTS])
MIRROR_SIGNS = np.array(
    [-1.0 if n.endswith(("_roll", "_yaw")) else 1.0 for n in JOINTS]
)
MIRROR_LINKS = np.array([LINKS.index(_opposite(n)) for n in LINKS])

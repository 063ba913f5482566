"""The Unitree G1: joints, links, motors, limits and default pose.

The numbers are those of SONIC's training environment: gains follow from each
motor's armature at a natural frequency of 10 Hz and a damping ratio of 2, and
hip pitch carries the larger 7520-22 motor. Joint arrays are in MuJoCo order
unless a name says IsaacLab. Only NumPy is needed here.
"""

import math

import numpy as np

# Motors: reflected inertia (kg m^2), torque limit (Nm) and speed limit (rad/s).
_M7520_22 = (0.025101925, 139.0, 20.0)
_M7520_14 = (0.010177520, 88.0, 32.0)
_M5020 = (0.003609725, 25.0, 37.0)
_M5020_PAIR = (2 * 0.003609725, 50.0, 37.0)
_M4010 = (0.00425, 5.0, 22.0)

# Motor, range and default of the left side's joints, rad; of a right-hand roll, all
# three are negated.
_LEG = {
    "hip_pitch": (_M7520_22, -2.5307, 2.8798, -0.312),
    "hip_roll": (_M7520_22, -0.5236, 2.9671, 0.0),
    "hip_yaw": (_M7520_14, -2.7576, 2.7576, 0.0),
    "knee": (_M7520_22, -0.087267, 2.8798, 0.669),
    "ankle_pitch": (_M5020_PAIR, -0.87267, 0.5236, -0.363),
    "ankle_roll": (_M5020_PAIR, -0.2618, 0.2618, 0.0),
}
_WAIST = {
    "waist_yaw": (_M7520_14, -2.618, 2.618, 0.0),
    "waist_roll": (_M5020_PAIR, -0.52, 0.52, 0.0),
    "waist_pitch": (_M5020_PAIR, -0.52, 0.52, 0.0),
}
_ARM = {
    "shoulder_pitch": (_M5020, -3.0892, 2.6704, 0.2),
    "shoulder_roll": (_M5020, -1.5882, 2.2515, 0.2),
    "shoulder_yaw": (_M5020, -2.618, 2.618, 0.0),
    "elbow": (_M5020, -1.0472, 2.0944, 0.6),
    "wrist_roll": (_M5020, -1.97222, 1.97222, 0.0),
    "wrist_pitch": (_M4010, -1.61443, 1.61443, 0.0),
    "wrist_yaw": (_M4010, -1.61443, 1.61443, 0.0),
}
_SIDES = ("left", "right")
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
    return JOINTS.index(name)


_MOTORS, _LOW, _HIGH, _DEFAULT = zip(
    *(
        (_LEG | _WAIST | _ARM)[name.removeprefix("left_").removeprefix("right_")]
        for name in JOINTS
    ),
    strict=True,
)
ARMATURE, EFFORT_LIMIT, VELOCITY_LIMIT = np.array(_MOTORS).T.copy()
_NATURAL_FREQUENCY, _DAMPING_RATIO = 2.0 * math.pi * 10.0, 2.0
STIFFNESS = ARMATURE * _NATURAL_FREQUENCY**2
DAMPING = 2.0 * _DAMPING_RATIO * ARMATURE * _NATURAL_FREQUENCY
ACTION_SCALE = 0.25 * EFFORT_LIMIT / STIFFNESS
"""Radians of joint target per unit of action."""

_NEGATED = np.array([n.startswith("right_") and n.endswith("_roll") for n in JOINTS])
JOINT_LIMITS = np.stack((_LOW, _HIGH), axis=1)
"""(29, 2) lower and upper limits, rad."""
JOINT_LIMITS[_NEGATED] = -JOINT_LIMITS[_NEGATED, ::-1]
_centre = JOINT_LIMITS.mean(axis=1, keepdims=True)
SOFT_LIMITS = _centre + 0.9 * (JOINT_LIMITS - _centre)
"""(29, 2) limits shrunk to 0.9 of the range about its centre, rad."""

MOST_REACH = 4.0
"""Reach with which a motor pushes a joint at its limit with all of its effort."""


def target_limits(reach: float) -> np.ndarray:
    """(29, 2) lowest and highest targets, rad. A motor pushes a joint that is at its
    limit with `reach` quarters of its effort at most; soft joints, such as ankles, need
    one."""
    return JOINT_LIMITS + reach * np.outer(ACTION_SCALE, (-1.0, 1.0))


DEFAULT_JOINTS = np.where(_NEGATED, 0.0 - np.array(_DEFAULT), _DEFAULT)
DEFAULT_HEIGHT = 0.76
"""Pelvis height of the default pose, m."""
DEFAULT_QPOS = np.array([0.0, 0.0, DEFAULT_HEIGHT, 1.0, 0.0, 0.0, 0.0, *DEFAULT_JOINTS])
PHYSICS_DT_S = 0.005
DECIMATION = 4
CONTROL_HZ = 50

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

# Reflection in the sagittal plane: swap the sides, negate rolls and yaws.
_SWAP = {f"{a}_{p}": f"{b}_{p}" for p in _LEG | _ARM for a, b in (_SIDES, _SIDES[::-1])}
MIRROR_JOINTS = np.array([JOINTS.index(_SWAP.get(name, name)) for name in JOINTS])
MIRROR_SIGNS = np.array(
    [-1.0 if n.endswith(("_roll", "_yaw")) else 1.0 for n in JOINTS]
)

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

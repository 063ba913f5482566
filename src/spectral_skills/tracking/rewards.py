"""Rewards of a control step.

A kernel is 1 on the reference and decays as exp(-e / width^2) with the squared error e;
a penalty is 0 for a robot that does nothing wrong. Every term is a function of a
`TrackingState` and gives one number per robot: the squared error, or the penalty.

There are three sets: `sonic`, SONIC's release except for anti-shake; `tuned`, with
kernels narrow enough to reward precision; `final`, which adds wrists and a wide kernel
that still attracts a robot from far away. The last two are of the paper's authors
(github.com/fei-yang-wu/IsaacLab-Imitation).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkStates
from spectral_skills.robot import g1
from spectral_skills.tracking.observations import TrackingState

STEP_S = 1.0 / g1.CONTROL_HZ
CONTACT_N = 1.0
"""Force above which a link counts as touching something."""
SHAKE_RAD_S = 1.5
"""Speed up to which wrists and torso turn without a penalty."""
HEAD_M = 0.5
"""Position of the head along the torso's vertical."""
HAND_M = (0.18, 0.025)
"""Position of the hand along the wrist's x and y axes; to -y on the left."""


@dataclass(frozen=True)
class Kernel:
    """Reward per second on the reference, and the error that leaves 1/e of it."""

    weight: float
    width: float
    """Width in metres, radians, m/s or rad/s."""


@dataclass(frozen=True)
class RewardConfig:
    """Kernels and weights of penalties; terms without a weight are not computed.

    The defaults are SONIC's.
    """

    anchor_position: Kernel = Kernel(0.5, 0.3)
    anchor_position_wide: Kernel = Kernel(0.0, 0.5)
    anchor_orientation: Kernel = Kernel(0.5, 0.4)
    link_position: Kernel = Kernel(1.0, 0.3)
    link_orientation: Kernel = Kernel(1.0, 0.4)
    link_linear_velocity: Kernel = Kernel(1.0, 1.0)
    link_angular_velocity: Kernel = Kernel(1.0, 3.14)
    head_and_hands: Kernel = Kernel(2.0, 0.1)
    hands_and_feet: Kernel = Kernel(0.0, 0.1)
    foot_position: Kernel = Kernel(0.0, 0.1)
    wrist_position: Kernel = Kernel(0.0, 0.1)
    posture: Kernel = Kernel(0.0, math.sqrt(0.5))
    action_rate: float = -0.1
    joint_limit: float = -10.0
    undesired_contacts: float = -0.1
    anti_shake: float = -5e-3
    foot_acceleration: float = -2.5e-6
    power: float = 0.0
    default_pose: float = 0.0

    def __post_init__(self):
        for name in KERNELS:
            kernel = getattr(self, name)
            if not 0 <= kernel.weight < math.inf:
                raise ValueError(f"reward {name}: weight {kernel.weight} is not >= 0")
            if not 0 < kernel.width < math.inf:
                raise ValueError(f"reward {name}: width {kernel.width} is not above 0")
        for name in PENALTIES:
            if not -math.inf < (weight := getattr(self, name)) <= 0:
                raise ValueError(f"reward {name}: weight {weight} is not <= 0")


def sonic() -> RewardConfig:
    """SONIC's release, with the torso in anti-shake as the authors have it."""
    return RewardConfig()


def tuned() -> RewardConfig:
    """The authors' set of 4 August, chosen by their search on LAFAN1."""
    return replace(
        sonic(),
        anchor_position=Kernel(2.0, 0.1),
        anchor_orientation=Kernel(2.0, 0.15),
        link_position=Kernel(2.0, 0.05),
        head_and_hands=Kernel(0.0, 0.1),
        hands_and_feet=Kernel(4.0, 0.1),
        foot_position=Kernel(2.0, 0.1),
        action_rate=0.0,
        foot_acceleration=-2.5e-7,  # a tenth of SONIC's by mistake
    )


def final() -> RewardConfig:
    """The set of the authors' ablations (2 B frames) and of the paper's controller."""
    return replace(
        tuned(),
        anchor_position_wide=Kernel(1.0, 0.5),
        wrist_position=Kernel(1.0, 0.1),
        action_rate=-0.03,
        foot_acceleration=-2.5e-6,
    )


def terms(state: TrackingState, config: RewardConfig) -> dict[str, Tensor]:
    """Reward (n,) of this step by each term that has a weight."""
    paid = {}
    for name in weighted(config):
        if name in KERNELS:
            kernel = getattr(config, name)
            error = KERNELS[name](state)
            value, weight = (error * (-1.0 / kernel.width**2)).exp(), kernel.weight
        else:
            value, weight = PENALTIES[name](state), getattr(config, name)
        paid[name] = value * (weight * STEP_S)
    return paid


def weighted(config: RewardConfig) -> list[str]:
    """Names of the terms with a weight, in the order of `terms`."""
    kernels = [name for name in KERNELS if getattr(config, name).weight]
    return kernels + [name for name in PENALTIES if getattr(config, name)]


def maximum(config: RewardConfig) -> float:
    """Largest reward of a step: on the reference, without any penalty."""
    return STEP_S * sum(getattr(config, name).weight for name in KERNELS)


# Squared errors of the kernels; for several links the mean over them.


def anchor_position(state: TrackingState) -> Tensor:
    """Position of the pelvis in the world."""
    error = state.robot.position[:, 0] - state.reference.position[:, 0]
    return error.square().sum(-1)


def anchor_orientation(state: TrackingState) -> Tensor:
    """Orientation of the pelvis in the world."""
    pelvises = state.robot.quaternion[:, 0], state.reference.quaternion[:, 0]
    return rotation.angle_between(*pelvises).square()


def link_position(state: TrackingState) -> Tensor:
    """Positions of links relative to the pelvis's place and heading."""
    return _mean_square(state.robot.position - state.relative_position)


def foot_position(state: TrackingState) -> Tensor:
    """As `link_position`, for the feet only."""
    return _mean_square(pick(state.robot.position - state.relative_position, FEET))


def wrist_position(state: TrackingState) -> Tensor:
    """As `link_position`, for the wrists only."""
    return _mean_square(pick(state.robot.position - state.relative_position, WRISTS))


def link_orientation(state: TrackingState) -> Tensor:
    """Orientations of links relative to the pelvis's heading."""
    angle = rotation.angle_between(state.robot.quaternion, state.relative_quaternion)
    return angle.square().mean(-1)


def link_linear_velocity(state: TrackingState) -> Tensor:
    """Linear velocities of links in the world."""
    return _mean_square(state.robot.linear - state.reference.linear)


def link_angular_velocity(state: TrackingState) -> Tensor:
    """Angular velocities of links in the world."""
    return _mean_square(state.robot.angular - state.reference.angular)


def head_and_hands(state: TrackingState) -> Tensor:
    """Positions of head and wrists in the pelvis frame."""
    return _mean_square(_head_and_hands(state.robot) - _head_and_hands(state.reference))


def hands_and_feet(state: TrackingState) -> Tensor:
    """Positions of hands and feet in the pelvis frame. The mean is over five points:
    the authors' fifth is the pelvis itself."""
    error = _hands_and_feet(state.robot) - _hands_and_feet(state.reference)
    return error.square().sum(-1).sum(-1) / 5


def posture(state: TrackingState) -> Tensor:
    """Joint angles; summed, not averaged."""
    return (state.joints - state.reference_joints).square().sum(-1)


def _mean_square(error: Tensor) -> Tensor:
    """(n,) mean over links of the squared lengths of vectors (n, links, 3)."""
    return error.square().sum(-1).mean(-1)


# Penalties.


def action_rate(state: TrackingState) -> Tensor:
    """Squared change of the action."""
    return (state.action - state.last_action).square().sum(-1)


def joint_limit(state: TrackingState) -> Tensor:
    """Radians that joints are past their soft limits."""
    low, high = constants(state.joints.device).soft
    past = (low - state.joints).relu() + (state.joints - high).relu()
    return past.sum(-1)


def undesired_contacts(state: TrackingState) -> Tensor:
    """Number of links that touch something and should not."""
    touches = state.contact_force > CONTACT_N
    return (touches * constants(touches.device).unwelcome).sum(-1)


def anti_shake(state: TrackingState) -> Tensor:
    """Squared excess of the turning speed of wrists and torso."""
    speed = pick(state.robot.angular, (*WRISTS, *TORSO)).norm(dim=-1)
    return (speed - SHAKE_RAD_S).relu().square().mean(-1)


def foot_acceleration(state: TrackingState) -> Tensor:
    """Squared accelerations of the ankle joints."""
    return pick(state.joint_accelerations, ANKLE_JOINTS).square().sum(-1)


def power(state: TrackingState) -> Tensor:
    """Mechanical power of all motors, braking included, W."""
    return (state.torque * state.joint_velocities).abs().sum(-1)


def default_pose(state: TrackingState) -> Tensor:
    """How far joints are from the default pose, rad, summed."""
    return (state.joints - constants(state.joints.device).default).abs().sum(-1)


def _named(*listed: Callable[[TrackingState], Tensor]) -> dict[str, Callable]:
    return {term.__name__: term for term in listed}


KERNELS = _named(
    *(anchor_position, anchor_orientation, link_position, link_orientation),
    *(link_linear_velocity, link_angular_velocity, head_and_hands, hands_and_feet),
    *(foot_position, wrist_position, posture),
) | {"anchor_position_wide": anchor_position}
PENALTIES = _named(
    *(action_rate, joint_limit, undesired_contacts, anti_shake),
    *(foot_acceleration, power, default_pose),
)

# Positions of links and joints among the tracked ones.
TORSO = (g1.TRACKED_LINKS.index("torso_link"),)
FEET = tuple(g1.TRACKED_LINKS.index(name) for name in g1.FEET)
WRISTS = tuple(g1.TRACKED_LINKS.index(name) for name in g1.WRISTS)
ANKLE_JOINTS = tuple(i for i, name in enumerate(g1.JOINTS) if "_ankle_" in name)

# SONIC allows ankle_roll, wrist_yaw and elbow. Our model carries the hand's collision
# geoms on the other wrist links too, so they count as the wrist.
_WELCOME = ("_ankle_roll_", "_elbow_", "_wrist_")


def pick(values: Tensor, columns: tuple[int, ...]) -> Tensor:
    """A few columns of (n, columns, ...)."""
    # Indexing with a list would copy it to the device in every step, and wait.
    return torch.stack([values[:, column] for column in columns], dim=1)


class Constants(NamedTuple):
    """Numbers of the robot on a device."""

    soft: Tensor
    stops: Tensor
    """(2, 29) lower and upper limits, rad."""
    unwelcome: Tensor
    """(30,) 1 for links that should touch nothing."""
    default: Tensor
    """(29,) joints of the default pose, rad."""
    hands: Tensor
    """(2, 3) the hands' points in the frames of the wrists, m."""


_NUMBERS = (
    g1.SOFT_LIMITS.T.tolist(),
    g1.JOINT_LIMITS.T.tolist(),
    [float(not any(part in name for part in _WELCOME)) for name in g1.LINKS],
    g1.DEFAULT_JOINTS.tolist(),
    [[HAND_M[0], -HAND_M[1], 0.0], [HAND_M[0], HAND_M[1], 0.0]],
)
_made: dict[torch.device, Constants] = {}


def constants(device: torch.device) -> Constants:
    """The constants on a device, created at the first call: compiled code takes them as
    inputs; if it had to create them it would compile twice."""
    if device not in _made:
        made = Constants(
            *(torch.tensor(n, dtype=torch.float32, device=device) for n in _NUMBERS)
        )
        # Tensors made on "cuda" are on "cuda:0".
        _made[device] = _made[made.soft.device] = made
    return _made[device]


def _head_and_hands(links: LinkStates) -> Tensor:
    """(n, 3, 3) in the pelvis frame."""
    torso = links.quaternion[:, TORSO[0]]
    zero = torch.zeros_like(torso[:, 0])
    up = torch.stack((zero, zero, zero + HEAD_M), dim=-1)
    head = links.position[:, TORSO[0]] + rotation.rotate(torso, up)
    return _in_pelvis(links, head[:, None], pick(links.position, WRISTS))


def _hands_and_feet(links: LinkStates) -> Tensor:
    """(n, 4, 3) in the pelvis frame."""
    offset = constants(links.position.device).hands
    wrists = pick(links.quaternion, WRISTS)
    hands = pick(links.position, WRISTS) + rotation.rotate(wrists, offset)
    return _in_pelvis(links, hands, pick(links.position, FEET))


def _in_pelvis(links: LinkStates, *points: Tensor) -> Tensor:
    back = rotation.conjugate(links.quaternion[:, :1])
    return rotation.rotate(back, torch.cat(points, dim=1) - links.position[:, :1])

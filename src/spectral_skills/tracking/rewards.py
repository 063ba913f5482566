"""What a robot is paid for in a control step: SONIC's twelve terms, and three more.

A kernel is 1 on the reference and falls off as exp(-e / std^2) with the squared error;
a penalty is 0 for a robot that does nothing wrong. Every term is a function of a
`Moment` and gives one number per robot; the weights are in `RewardConfig`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkStates
from spectral_skills.robot import g1
from spectral_skills.tracking.moment import Moment

STEP_S = 1.0 / g1.CONTROL_HZ
CONTACT_N = 1.0
"""Force above which a link counts as touching something."""
SHAKE_RAD_S = 1.5
"""Wrists may turn this fast at no cost."""
HEAD_M = 0.5
"""The head is a point so far along the torso's vertical."""


@dataclass(frozen=True)
class RewardConfig:
    """Weight of each term; a term without a weight is not computed.

    The defaults are those of SONIC's release. The last three are for deployment: SONIC
    v1.1 has power at -1e-4 and wrist_orientation at 0.4.
    """

    anchor_position: float = 0.5
    anchor_orientation: float = 0.5
    link_position: float = 1.0
    link_orientation: float = 1.0
    link_linear_velocity: float = 1.0
    link_angular_velocity: float = 1.0
    local_points: float = 2.0
    action_rate: float = -0.1
    joint_limit: float = -10.0
    undesired_contacts: float = -0.1
    anti_shake: float = -5e-3
    foot_acceleration: float = -2.5e-6
    power: float = 0.0
    posture: float = 0.0
    wrist_orientation: float = 0.0

    def __post_init__(self):
        for field in fields(self):
            weight = getattr(self, field.name)
            sign, wanted = (1, ">= 0") if field.name in KERNELS else (-1, "<= 0")
            if not 0 <= weight * sign < math.inf:
                raise ValueError(
                    f"reward weight {field.name}: {weight} is not {wanted}"
                )


def terms(moment: Moment, config: RewardConfig) -> dict[str, Tensor]:
    """What each term with a weight pays each robot (n,) for this step."""
    return {
        name: TERMS[name](moment) * (getattr(config, name) * STEP_S)
        for name in weighted(config)
    }


def weighted(config: RewardConfig) -> list[str]:
    """Names of the terms with a weight, in the order of `terms`."""
    return [name for name in TERMS if getattr(config, name) != 0.0]


def maximum(config: RewardConfig) -> float:
    """What a robot exactly on its reference is paid for a step."""
    return STEP_S * sum(getattr(config, name) for name in KERNELS)


# Kernels.


def anchor_position(moment: Moment, std: float = 0.3) -> Tensor:
    """Pelvis where the reference's is, in the world."""
    error = moment.robot.position[:, 0] - moment.reference.position[:, 0]
    return _kernel(error.square().sum(-1), std)


def anchor_orientation(moment: Moment, std: float = 0.4) -> Tensor:
    """Pelvis turned as the reference's, in the world."""
    angle = rotation.angle_between(
        moment.robot.quaternion[:, 0], moment.reference.quaternion[:, 0]
    )
    return _kernel(angle.square(), std)


def link_position(moment: Moment, std: float = 0.3) -> Tensor:
    """Links where they should be seen from the pelvis's place and heading."""
    error = moment.robot.position - moment.relative_position
    return _kernel(error.square().sum(-1).mean(-1), std)


def link_orientation(moment: Moment, std: float = 0.4) -> Tensor:
    """Links turned as they should be seen from the pelvis's heading."""
    angle = rotation.angle_between(moment.robot.quaternion, moment.relative_quaternion)
    return _kernel(angle.square().mean(-1), std)


def link_linear_velocity(moment: Moment, std: float = 1.0) -> Tensor:
    """Links as fast as the reference's, in the world."""
    error = moment.robot.linear - moment.reference.linear
    return _kernel(error.square().sum(-1).mean(-1), std)


def link_angular_velocity(moment: Moment, std: float = 3.14) -> Tensor:
    """Links that turn as fast as the reference's, in the world."""
    error = moment.robot.angular - moment.reference.angular
    return _kernel(error.square().sum(-1).mean(-1), std)


def local_points(moment: Moment, std: float = 0.1) -> Tensor:
    """Head and hands where they should be in the pelvis frame."""
    error = _head_and_hands(moment.robot) - _head_and_hands(moment.reference)
    return _kernel(error.square().sum(-1).mean(-1), std)


def wrist_orientation(moment: Moment, std: float = 0.1) -> Tensor:
    """Wrists turned as they should be in the pelvis frame."""
    return _kernel(_bend(moment, WRISTS).square().mean(-1), std)


# Penalties.


def action_rate(moment: Moment) -> Tensor:
    """Squared change of the action."""
    return (moment.action - moment.last_action).square().sum(-1)


def joint_limit(moment: Moment) -> Tensor:
    """Radians that joints are past their soft limits."""
    low, high = constants(moment.joints.device).soft
    past = (low - moment.joints).relu() + (moment.joints - high).relu()
    return past.sum(-1)


def undesired_contacts(moment: Moment) -> Tensor:
    """How many links touch something that should not."""
    touches = moment.contact_force > CONTACT_N
    return (touches * constants(touches.device).unwelcome).sum(-1)


def anti_shake(moment: Moment) -> Tensor:
    """Squared excess of the wrists' turning speed."""
    speed = pick(moment.robot.angular, WRISTS).norm(dim=-1)
    return (speed - SHAKE_RAD_S).relu().square().mean(-1)


def foot_acceleration(moment: Moment) -> Tensor:
    """Squared accelerations of the ankle joints."""
    return pick(moment.joint_accelerations, ANKLE_JOINTS).square().sum(-1)


def power(moment: Moment) -> Tensor:
    """Mechanical power of all motors, braking included, W."""
    return (moment.torque * moment.joint_velocities).abs().sum(-1)


def posture(moment: Moment) -> Tensor:
    """Squared distance of the waist from the reference's, mean over its joints."""
    # Its axes are nearly square to each other: squares of angles add up.
    return _bend(moment, TORSO).square().sum(-1) / 3.0


def _named(*listed: Callable[[Moment], Tensor]) -> dict[str, Callable]:
    return {term.__name__: term for term in listed}


KERNELS = _named(
    *(anchor_position, anchor_orientation, link_position, link_orientation),
    *(link_linear_velocity, link_angular_velocity, local_points, wrist_orientation),
)
PENALTIES = _named(
    *(action_rate, joint_limit, undesired_contacts, anti_shake),
    *(foot_acceleration, power, posture),
)
TERMS = KERNELS | PENALTIES

# Where things are among the tracked links and the joints.
TORSO = (g1.TRACKED_LINKS.index("torso_link"),)
FEET = tuple(g1.TRACKED_LINKS.index(name) for name in g1.FEET)
WRISTS = tuple(g1.TRACKED_LINKS.index(name) for name in g1.WRISTS)
ANKLE_JOINTS = tuple(i for i, name in enumerate(g1.JOINTS) if "_ankle_" in name)

# SONIC allows ankle_roll, wrist_yaw and elbow. Our model carries the hand's collision
# geoms on the other wrist links too, so they count as the wrist.
_WELCOME = ("_ankle_roll_", "_elbow_", "_wrist_")


def pick(values: Tensor, columns: tuple[int, ...]) -> Tensor:
    """A few columns of (n, columns, ...)."""
    # A list as index would be copied to the device in every step, and waited for.
    return torch.stack([values[:, column] for column in columns], dim=1)


class Constants(NamedTuple):
    """Numbers of the robot on a device."""

    soft: Tensor
    """(2, 29) lower and upper soft limits, rad."""
    stops: Tensor
    """(2, 29) lower and upper limits, rad."""
    unwelcome: Tensor
    """(30,) 1 for links that should touch nothing."""


_NUMBERS = (
    g1.SOFT_LIMITS.T.tolist(),
    g1.JOINT_LIMITS.T.tolist(),
    [float(not any(part in name for part in _WELCOME)) for name in g1.LINKS],
)
_made: dict[torch.device, Constants] = {}


def constants(device: torch.device) -> Constants:
    """The constants on a device, made at the first call.

    Compiled code takes them as inputs; where it has to make them it compiles twice.
    """
    if device not in _made:
        made = Constants(
            *(torch.tensor(n, dtype=torch.float32, device=device) for n in _NUMBERS)
        )
        # Tensors made on "cuda" are on "cuda:0".
        _made[device] = _made[made.soft.device] = made
    return _made[device]


def _kernel(squared: Tensor, std: float) -> Tensor:
    return torch.exp(squared * (-1.0 / std**2))


def _bend(moment: Moment, which: tuple[int, ...]) -> Tensor:
    """Angles between links of robot and reference, each in its pelvis frame."""
    robot, reference = (
        rotation.multiply(
            rotation.conjugate(links.quaternion[:, :1]), pick(links.quaternion, which)
        )
        for links in (moment.robot, moment.reference)
    )
    return rotation.angle_between(robot, reference)


def _head_and_hands(links: LinkStates) -> Tensor:
    """(n, 3, 3) in the pelvis frame."""
    torso = links.quaternion[:, TORSO[0]]
    zero = torch.zeros_like(torso[:, 0])
    up = torch.stack((zero, zero, zero + HEAD_M), dim=-1)
    head = links.position[:, TORSO[0]] + rotation.rotate(torso, up)
    points = torch.cat((head[:, None], pick(links.position, WRISTS)), dim=1)
    back = rotation.conjugate(links.quaternion[:, :1])
    return rotation.rotate(back, points - links.position[:, :1])

"""When an episode has failed: the robot is too far from its reference.

There is no test of a fall: a robot that lies where its reference lies does well. Where
the reference has been near the floor for a while, heights are judged mildly, since
there the ground decides them.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.tracking.moment import Moment
from spectral_skills.tracking.rewards import FEET, WRISTS, constants, pick

LOW_M = 0.5
LOW_SHARE = 0.1
"""Share of the newest height in the moving average that tells a low posture."""


@dataclass(frozen=True)
class TerminationConfig:
    """How far is too far; None never fails. The defaults are SONIC's for training."""

    anchor_height_m: float | None = 0.15
    """Difference in height of the two pelvises."""
    anchor_angle_rad: float | None = math.sqrt(0.2)
    """Angle between the two pelvises; SONIC writes it squared, as 0.2."""
    end_effector_height_m: float | None = 0.15
    """Difference in height of any foot or wrist."""
    foot_position_m: float | None = 0.2
    """Distance of a foot from where it should be, seen from the pelvis."""
    joint_limit_rad: float | None = None
    """How far a joint is past its stop."""
    low_height_m: float | None = 0.75
    """Takes the place of both heights where the reference is low."""


def evaluation() -> TerminationConfig:
    """The paper's rule of success: 0.25 m, 0.25 m and 1 rad, low or not.

    SONIC's own evaluation also keeps the 0.2 m of the feet.
    """
    return TerminationConfig(
        anchor_height_m=0.25,
        anchor_angle_rad=1.0,
        end_effector_height_m=0.25,
        foot_position_m=None,
        low_height_m=None,
    )


def failures(moment: Moment, config: TerminationConfig) -> Tensor:
    """(n, causes) bool: by which of `CAUSES` each robot has failed."""
    never = torch.zeros_like(moment.low)
    found = []
    for error, threshold, eased in (
        (anchor_height, config.anchor_height_m, True),
        (anchor_angle, config.anchor_angle_rad, False),
        (end_effector_height, config.end_effector_height_m, True),
        (foot_position, config.foot_position_m, False),
        (joint_limit, config.joint_limit_rad, False),
    ):
        if threshold is None:
            found.append(never)
            continue
        distance = error(moment)
        # Not `>`: a robot whose state is not a number fails.
        far = ~(distance <= threshold)
        if eased and config.low_height_m is not None:
            far = torch.where(moment.low, ~(distance <= config.low_height_m), far)
        found.append(far)
    return torch.stack(found, dim=1)


CAUSES = (
    "anchor_height",
    "anchor_orientation",
    "end_effector_height",
    "foot_position",
    "joint_limit",
)


def anchor_height(moment: Moment) -> Tensor:
    """Difference in height of the pelvises, m."""
    return (moment.robot.position[:, 0, 2] - moment.reference.position[:, 0, 2]).abs()


def anchor_angle(moment: Moment) -> Tensor:
    """Angle between the pelvises, rad."""
    return rotation.angle_between(
        moment.robot.quaternion[:, 0], moment.reference.quaternion[:, 0]
    )


def end_effector_height(moment: Moment) -> Tensor:
    """Largest difference in height of feet and wrists, m."""
    error = moment.robot.position[..., 2] - moment.relative_position[..., 2]
    return pick(error, (*FEET, *WRISTS)).abs().amax(-1)


def foot_position(moment: Moment) -> Tensor:
    """Larger of the feet's distances from the relative reference, m."""
    error = moment.robot.position - moment.relative_position
    return pick(error, FEET).norm(dim=-1).amax(-1)


def joint_limit(moment: Moment) -> Tensor:
    """How far the worst joint is past its stop, rad; negative when all are within."""
    low, high = constants(moment.joints.device).stops
    return torch.maximum(low - moment.joints, moment.joints - high).amax(-1)


def lowered(ema: Tensor, height: Tensor, fresh: Tensor) -> Tensor:
    """Moving average (n,) of the reference's pelvis height; fresh ones start anew."""
    return torch.where(fresh, height, ema + LOW_SHARE * (height - ema))


def is_low(ema: Tensor) -> Tensor:
    """Whether the reference is near the floor."""
    return ema < LOW_M

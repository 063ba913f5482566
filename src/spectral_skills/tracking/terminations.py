"""When an episode has failed: the robot is too far from its reference.

Falls are not tested for: a robot that lies where its reference lies does well. Where
the reference is near the floor, limits of heights are wider, since the ground decides
them there. A run may start with looser rules than it ends with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills import rotation
from spectral_skills.tracking.observations import TrackingState
from spectral_skills.tracking.rewards import FEET, WRISTS, constants, pick

LOW_M = 0.5
LOW_SHARE = 0.1
"""Share of the newest height in the moving average that detects a low posture."""
LOOSE = {
    "anchor_height_m": 0.25,
    "anchor_angle_rad": 1.0,
    "end_effector_height_m": 0.25,
    "foot_position_m": 0.3,
    "place_m": math.inf,
    "low_height_m": 0.75,
}
"""Thresholds before annealing: those of the paper's authors, who have no rule on the
place and never tighten the heights of low references."""


@dataclass(frozen=True)
class TerminationConfig:
    """Largest errors; None never fails. The defaults are SONIC's for training."""

    anchor_height_m: float | None = 0.15
    """Difference in height of the two pelvises."""
    anchor_angle_rad: float | None = math.sqrt(0.2)
    """Angle between the two pelvises; SONIC writes it squared, as 0.2."""
    end_effector_height_m: float | None = 0.15
    """Difference in height of any foot or wrist."""
    foot_position_m: float | None = 0.2
    """Distance of a foot from its place relative to the pelvis."""
    place_m: float | None = None
    """Horizontal distance of the two pelvises."""
    joint_limit: float | None = None
    """How far a joint is past its soft limit, as a share of the way to its stop."""
    low_height_m: float | None = 0.75
    """Replaces both limits of heights where the reference is low."""
    low_average: bool = True
    """Whether a moving average of its height decides that the reference is low, as in
    SONIC; otherwise the height of the frame, as with the paper's authors."""
    anneal_frames: tuple[int, int] | None = None
    """Frames of all robots at which the thresholds start to change from `LOOSE`, and at
    which they reach the values above; None starts with these. The angle changes
    linearly in its square."""
    loose_share: float = 0.0
    """Share of the robots whose thresholds stay `LOOSE`: they practise to recover from
    where the others have failed."""

    def __post_init__(self):
        configs.require(self, "loose_share", 0 <= self.loose_share <= 1, "0 to 1")
        if self.anneal_frames is not None:
            first, last = self.anneal_frames
            if not 0 <= first < last:
                raise ValueError(
                    f"anneal_frames = {first} {last}: annealing must begin at 0 or "
                    "later, and end after it began"
                )


def evaluation() -> TerminationConfig:
    """The paper's rule of success: 0.25 m, 0.25 m and 1 rad, low or not. SONIC's own
    evaluation also keeps the 0.2 m of the feet."""
    return TerminationConfig(0.25, 1.0, 0.25, foot_position_m=None, low_height_m=None)


def thresholds(config: TerminationConfig, frames: int | None = None) -> list[float]:
    """Threshold of each of `CAUSES` after so many frames (None: at the end), and last
    that of the heights of low references; inf never fails."""
    share = 1.0
    if frames is not None and config.anneal_frames is not None:
        first, last = config.anneal_frames
        share = min(max((frames - first) / (last - first), 0.0), 1.0)
    return _tightened(config, share)


def thresholds_of(config: TerminationConfig, frames: int, robots: int) -> Tensor:
    """Thresholds (causes + 1, robots) of each robot; the loose ones come first."""
    loose = round(config.loose_share * robots)
    each = torch.tensor(thresholds(config, frames))[:, None].repeat(1, robots)
    each[:, :loose] = torch.tensor(_tightened(config, 0.0))[:, None]
    return each


def _tightened(config: TerminationConfig, share: float) -> list[float]:
    """Thresholds after that share of the way from `LOOSE` to those of the config."""
    found = []
    for name in (*(field for field, _, _ in _RULES.values()), "low_height_m"):
        limit = getattr(config, name)
        if limit is not None and share < 1.0 and name in LOOSE:
            power = 2 if name == "anchor_angle_rad" else 1
            loose, tight = LOOSE[name] ** power, limit**power
            limit = ((1 - share) * loose + share * tight) ** (1 / power)
        found.append(math.inf if limit is None else limit)
    return found


def failures(
    state: TrackingState,
    config: TerminationConfig,
    limits: Sequence[float] | Tensor | None = None,
) -> Tensor:
    """(n, causes) bool: by which of `CAUSES` each robot has failed.

    Other thresholds than the last may be given: `thresholds` of some state, a tensor
    of them, or one of every robot's.
    """
    limits = thresholds(config) if limits is None else limits
    never = torch.zeros_like(state.low)
    found = []
    for i, (field, error, widened) in enumerate(_RULES.values()):
        if getattr(config, field) is None:
            found.append(never)
            continue
        distance = error(state)
        # Not `>`: a robot whose state is not a number fails.
        far = ~(distance <= limits[i])
        if widened and config.low_height_m is not None:
            far = torch.where(state.low, ~(distance <= limits[-1]), far)
        found.append(far)
    return torch.stack(found, dim=1)


def anchor_height(state: TrackingState) -> Tensor:
    """Difference in height of the pelvises, m."""
    return (state.robot.position[:, 0, 2] - state.reference.position[:, 0, 2]).abs()


def anchor_angle(state: TrackingState) -> Tensor:
    """Angle between the pelvises, rad."""
    return rotation.angle_between(
        state.robot.quaternion[:, 0], state.reference.quaternion[:, 0]
    )


def end_effector_height(state: TrackingState) -> Tensor:
    """Largest difference in height of feet and wrists, m."""
    error = state.robot.position[..., 2] - state.relative_position[..., 2]
    return pick(error, (*FEET, *WRISTS)).abs().amax(-1)


def foot_position(state: TrackingState) -> Tensor:
    """Larger of the feet's distances from the relative reference, m."""
    error = state.robot.position - state.relative_position
    return pick(error, FEET).norm(dim=-1).amax(-1)


def place(state: TrackingState) -> Tensor:
    """Horizontal distance of the pelvises, m."""
    error = state.robot.position[:, 0, :2] - state.reference.position[:, 0, :2]
    return error.norm(dim=-1)


def joint_limit(state: TrackingState) -> Tensor:
    """How far the worst joint is past its soft limit, as a share of the way to its
    stop; negative when all are within."""
    known = constants(state.joints.device)
    (low, high), (least, most) = known.soft, known.stops
    below, above = low - state.joints, state.joints - high
    return torch.maximum(below / (low - least), above / (most - high)).amax(-1)


_RULES = {
    "anchor_height": ("anchor_height_m", anchor_height, True),
    "anchor_orientation": ("anchor_angle_rad", anchor_angle, False),
    "end_effector_height": ("end_effector_height_m", end_effector_height, True),
    "foot_position": ("foot_position_m", foot_position, False),
    "place": ("place_m", place, False),
    "joint_limit": ("joint_limit", joint_limit, False),
}
"""By cause of a failure: the field of the config that limits an error, the error, and
whether a low reference widens the limit."""
CAUSES = tuple(_RULES)


def lowered(ema: Tensor, height: Tensor, fresh: Tensor) -> Tensor:
    """Moving average (n,) of the reference's pelvis height; fresh ones restart."""
    return torch.where(fresh, height, ema + LOW_SHARE * (height - ema))


def is_low(ema: Tensor) -> Tensor:
    """Whether the reference is near the floor."""
    return ema < LOW_M

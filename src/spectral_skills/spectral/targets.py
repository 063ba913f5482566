"""Directions for a goal: least squares on the effects that matter.

A target asks for changes of some attributes, leaves some free and holds the rest:

    min_v  E_i[ sum_goals w (E_i v - goal)^2 + hold sum_held w (E_i v)^2 ] + ridge |v|^2

with w = 1 / scale^2, so that attributes count by what is noticeable. E_i is the effect
of the skill on attributes in context i; the minimum needs only its moments.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spectral_skills.robot import g1
from spectral_skills.spectral.attributes import GROUPS, NAMES, scales
from spectral_skills.spectral.response import Effects, Responses

HOLD = 1.0
RIDGE = 0.1
"""Ridge as a share of the mean eigenvalue, so that it means the same for every encoder.
A smaller one holds a little better and needs a much larger amplitude."""
ENOUGH_STANDING = 32
"""Least number of standing contexts for hand maps; with fewer, all are used."""


@dataclass(frozen=True)
class Target:
    """What should change, and what may."""

    name: str
    goals: dict[str, float]
    """Change of each attribute, in the attribute's unit."""
    free: frozenset[str]
    """Attributes that may change freely; all others are held."""


def _joints(*groups: str) -> frozenset[str]:
    """Joints of parts of the body."""
    return frozenset(g1.JOINTS[i] for group in groups for i in GROUPS[group])


def _hand(side: str) -> frozenset[str]:
    return frozenset(f"{side}_hand_{axis}" for axis in "xyz")


_ARMS = {s: _joints(f"{s}_arm") | _hand(s) for s in ("left", "right")}
_LEGS = _joints("left_leg", "right_leg")
_FEET = frozenset(("left_foot_height", "right_foot_height"))
_SPREAD = {"left_shoulder_roll": 0.6, "right_shoulder_roll": -0.6}

TARGETS: tuple[Target, ...] = (
    Target("right_arm", {"right_shoulder_pitch": -1.0}, _ARMS["right"]),
    Target("left_arm", {"left_shoulder_pitch": -1.0}, _ARMS["left"]),
    Target("spread", _SPREAD, _ARMS["left"] | _ARMS["right"]),
    Target("speed", {"forward_speed": 0.3}, _LEGS | _FEET),
    # A quarter turn to the left in 4 s.
    Target("turn", {"yaw_rate": math.pi / 2 / 4.0}, _LEGS | _FEET),
    # With free feet the whole robot would sink through the floor.
    Target("stance_height", {"root_height": -0.10}, _LEGS),
    Target("foot_clearance", dict.fromkeys(sorted(_FEET), 0.05), _LEGS),
)
"""The paper's goals where it has one."""


def solve(
    effects: Effects, target: Target, hold: float = HOLD, ridge: float = RIDGE
) -> tuple[Tensor, float]:
    """Unit direction (d,) of a target, and the amplitude that reaches the goal on
    average, as nearly as the direction can.

    It uses the predictions of the lowest noise level, which are the smallest.
    """
    goals = effects.mean.new_zeros(len(NAMES), 1)
    for name, change in target.goals.items():
        goals[NAMES.index(name)] = change
    wanted, held = _masks(frozenset(target.goals), target.free, goals)
    v = _least_squares(effects, goals, wanted, held, hold, ridge)[:, 0]
    v = v / v.norm().clamp_min(1e-300)
    # The ridge shortens the solution; along it the goal is farther.
    reached, goal = effects.along(v[None])[0][0][wanted], goals[wanted, 0]
    weight = scales().to(v).reciprocal().square()[wanted]
    energy = (weight * reached.square()).sum().clamp_min(1e-300)
    return v, float((weight * goal * reached).sum() / energy)


def hand_map(
    effects: Effects,
    side: Literal["left", "right"],
    hold: float = HOLD,
    ridge: float = RIDGE,
) -> Tensor:
    """(d, 3) skill change for each metre of hand motion in x, y and z.

    Legs, waist, root and the other arm are held; the hand's own arm is free, and the
    other hand follows from what is held. Least squares fall short of a metre and go
    astray, because of the ridge and of what is held. The map is corrected for both, so
    that on average the hand is predicted to go where it is asked to.
    """
    goals = effects.mean.new_zeros(len(NAMES), 3)
    places = [NAMES.index(f"{side}_hand_{axis}") for axis in "xyz"]
    goals[places] = torch.eye(3).to(goals)
    other = "left" if side == "right" else "right"
    free = _joints(f"{side}_arm") | _hand(other) | _FEET
    wanted, held = _masks(_hand(side), free, goals)
    short = _least_squares(effects, goals, wanted, held, hold, ridge)
    return straightened(short, effects.mean[places])


def straightened(hand_map: Tensor, hand_rows: Tensor) -> Tensor:
    """A map (d, 3) for which rows (3, d) give exactly what was asked for."""
    return hand_map @ torch.linalg.pinv(hand_rows @ hand_map)


def hand_maps(responses: Responses) -> tuple[Tensor, int, bool]:
    """Both maps (2, d, 3), the number of contexts, and whether they were standing."""
    stands = responses.standing.contexts >= ENOUGH_STANDING
    effects = responses.standing if stands else responses.effects
    maps = torch.stack([hand_map(effects, "left"), hand_map(effects, "right")])
    return maps, effects.contexts, stands


def _masks(
    wanted: frozenset[str], free: frozenset[str], like: Tensor
) -> tuple[Tensor, Tensor]:
    """(a,) which attributes have a goal, and which are held."""
    has_goal = torch.tensor([name in wanted for name in NAMES], device=like.device)
    is_free = torch.tensor([name in free for name in NAMES], device=like.device)
    return has_goal, ~has_goal & ~is_free


def _least_squares(
    effects: Effects,
    goals: Tensor,
    wanted: Tensor,
    held: Tensor,
    hold: float,
    ridge: float,
) -> Tensor:
    """(d, c): the minimum of the module's objective for goals (a, c)."""
    w = scales().to(goals).reciprocal().square()
    weight = w * (wanted + hold * held)
    H = torch.einsum("a,ade->de", weight, effects.mean_square)
    size = H.diagonal().mean().clamp_min(1e-300)
    H = H + ridge * size * torch.eye(len(H), dtype=H.dtype, device=H.device)
    b = effects.mean.T @ (weight[:, None] * goals)
    return torch.linalg.solve(H, b)

"""Directions for a goal: least squares on the rows of the response that matter.

A target asks for changes of some attributes, leaves some free and holds the rest:

    min_v  E_i[ sum_goals w (E_i v - goal)^2 + hold sum_held w (E_i v)^2 ] + ridge |v|^2

with w = 1 / scale^2, so that attributes count by what one notices. E_i is the effect
of the skill on attributes in context i; the minimum needs its moments alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from spectral_skills.motion.windows import WindowSampler
from spectral_skills.robot import g1
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.attributes import ATTRIBUTES, GROUPS, NAMES, UNITS, scales
from spectral_skills.spectral.direction_file import LIMBS, Directions, Family
from spectral_skills.spectral.response import Effects, Responses, measure

Side = Literal["left", "right"]
HOLD = 1.0
RIDGE = 0.1
"""Of the mean eigenvalue of what the ridge is added to, so that it means the same for
every encoder. A smaller one holds a little better and needs a much larger amplitude."""
ENOUGH_STANDING = 32
"""Contexts; with fewer that stand, hand maps are computed from all."""


@dataclass(frozen=True)
class Target:
    """What should change, and what may."""

    name: str
    goals: dict[str, float]
    """Attribute and its change, in the attribute's unit."""
    free: frozenset[str]
    """Attributes that may change as they like; all others are held."""


def _joints(*groups: str) -> frozenset[str]:
    """Joints of parts of the body."""
    return frozenset(g1.JOINTS[i] for group in groups for i in GROUPS[group])


def _hand(side: str) -> frozenset[str]:
    return frozenset(f"{side}_hand_{axis}" for axis in "xyz")


_ARMS = {s: _joints(f"{s}_arm") | _hand(s) for s in ("left", "right")}
_LEGS = _joints("left_leg", "right_leg")
_FEET = frozenset(("left_foot_height", "right_foot_height"))

TARGETS: tuple[Target, ...] = (
    Target("right_arm", {"right_shoulder_pitch": -1.0}, _ARMS["right"]),
    Target("left_arm", {"left_shoulder_pitch": -1.0}, _ARMS["left"]),
    Target(
        "spread",
        {"left_shoulder_roll": 0.6, "right_shoulder_roll": -0.6},
        _ARMS["left"] | _ARMS["right"],
    ),
    Target("speed", {"forward_speed": 0.3}, _LEGS | _FEET),
    # A quarter turn to the left in 4 s.
    Target("turn", {"yaw_rate": math.pi / 2 / 4.0}, _LEGS | _FEET),
    # With free feet the whole robot would sink through the floor.
    Target("stance_height", {"root_height": -0.10}, _LEGS),
    Target("foot_clearance", dict.fromkeys(sorted(_FEET), 0.05), _LEGS),
)
"""The paper's goals where it has one."""


@dataclass(frozen=True)
class TargetDirection:
    """The best direction for a target, and what is predicted at full amplitude."""

    target: Target
    vector: Tensor
    """(d,) of length 1."""
    amplitude: float
    """Reaches the goal on average, as nearly as this direction can, by the predictions
    of the lowest noise level, which are the smallest."""
    effect_mean: Tensor
    """(a,) at that amplitude."""
    effect_std: Tensor
    """(a,) over contexts, at that amplitude."""
    leak: float
    """Root of the summed mean squares of held attributes over that of the goals, all
    in scales: 0 if nothing else changes, 1 if the rest changes as much."""


def solve(
    effects: Effects, target: Target, hold: float = HOLD, ridge: float = RIDGE
) -> TargetDirection:
    """The direction of a target."""
    goals = effects.mean.new_zeros(len(NAMES), 1)
    for name, change in target.goals.items():
        goals[NAMES.index(name)] = change
    wanted, held = _masks(frozenset(target.goals), target.free, goals)
    v = _least_squares(effects, goals, wanted, held, hold, ridge)[:, 0]
    v = v / v.norm().clamp_min(1e-300)
    mean, std = (x[0] for x in effects.along(v[None]))
    w = scales().to(v).reciprocal().square()
    # The ridge shortens the solution; along it the goal is farther.
    reached, goal = mean[wanted], goals[wanted, 0]
    weight = w[wanted]
    energy = (weight * reached.square()).sum().clamp_min(1e-300)
    amplitude = float((weight * goal * reached).sum() / energy)
    square = w * (mean.square() + std.square())
    leak = square[held].sum().sqrt() * amplitude
    leak = leak / (weight * goal.square()).sum().sqrt()
    return TargetDirection(
        target=target,
        vector=v,
        amplitude=amplitude,
        effect_mean=amplitude * mean,
        effect_std=abs(amplitude) * std,
        leak=float(leak),
    )


def hand_map(
    effects: Effects, side: Side, hold: float = HOLD, ridge: float = RIDGE
) -> Tensor:
    """(d, 3) skill change for each metre of hand motion in x, y and z.

    Legs, waist, root, and the other arm are held; the hand's own arm is free. The
    other hand follows from what is held. Least squares fall short of a metre, by the
    ridge and by what is held, and go astray: the map is corrected for both, so that
    on average the hand is predicted to go where it is asked to.
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
    """A map (d, 3) after which rows (3, d) give back what was asked for."""
    achieved = hand_rows @ hand_map
    return hand_map @ torch.linalg.pinv(achieved)


def hand_maps(responses: Responses) -> tuple[Tensor, int, bool]:
    """Both maps (2, d, 3), the contexts used, and whether those were standing ones."""
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


# Spectral, body-part and target directions of a skill model, with their effects.
#
#     C = V diag(lambda) V^T,  lambda_1 >= ... >= lambda_d >= 0
#
# v_k is the unit step that changes the predicted motion most among those orthogonal to
# v_1 .. v_{k-1}, and sqrt(lambda_k) is the rms change. Where eigenvalues are close, the
# contexts happen to decide which vectors one gets: each is compared with its
# counterpart from an independent half of the contexts.

PART_DIRECTIONS = 3
"""At most so many are kept of each limb."""


def eigenpairs(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (d,) in descending order, none negative, and eigenvectors (d, d).

    Row k of the eigenvectors is v_k.
    """
    lam, V = torch.linalg.eigh(gram)
    return lam.flip(0).clamp_min(0), V.T.flip(0)


def orient(vectors: Tensor, effects: Effects) -> Tensor:
    """Choose signs: the strongest mean effect, in scales, is the one it is named for.

    A direction that moves the right shoulder most points where the arm goes up.
    """
    strongest, sense = _strongest(effects.along(vectors)[0])
    return vectors * (sense * strongest.sign()).where(strongest != 0, 1.0)[:, None]


def stability(first: Tensor, second: Tensor) -> Tensor:
    """(k,) |cos| between unit vectors (k, d) of two halves of the contexts."""
    return (first * second).sum(-1).abs()


def find(
    model: SkillModel,
    sampler: WindowSampler,
    contexts: int = 4096,
    seed: int = 0,
    data_hash: str = "",
) -> Directions:
    """All directions of a skill model over random contexts."""
    first, second = measure(model, sampler, contexts, seed)
    return from_responses(first, second, model.encoder.fingerprint(), seed, data_hash)


def from_responses(
    first: Responses,
    second: Responses,
    encoder: str,
    seed: int = 0,
    data_hash: str = "",
) -> Directions:
    """All directions from the responses of two halves of the contexts."""
    both = first + second
    if not both.effects.contexts:
        raise ValueError(
            f"the robot is upright in none of {both.contexts} contexts, so there is no "
            "effect to find directions by; take more contexts, or clips that stand"
        )
    families = (_spectral, _parts, _targets)
    whole, *halves = [[family(r) for family in families] for r in (both, first, second)]
    vectors = torch.cat([found.vectors for found in whole])
    split = [torch.cat([found.vectors for found in half]) for half in halves]
    mean, std = both.effects.along(vectors)
    energy = _energy(both.group_grams, vectors)
    gains = energy.sum(1).sqrt()
    alike = (vectors @ both.mean_response.T).norm(dim=1)
    shares = energy / energy.sum(1, keepdim=True).clamp_min(1e-300)
    prefixes = [prefix for found in whole for prefix in found.prefixes]
    maps, hand_contexts, stands = hand_maps(both)
    found = Directions(
        names=name(prefixes, *map(_array, (mean, std, shares))),
        families=tuple(f.family for f in whole for _ in f.prefixes),
        vectors=_array(vectors),
        gains=_array(gains),
        amplitudes=_array(torch.cat([f.amplitudes for f in whole])),
        stability=_array(stability(*split)),
        sameness=_array(alike / gains.clamp_min(1e-300)),
        effect_mean=_array(mean),
        effect_std=_array(std),
        group_shares=_array(shares),
        hand_maps=_array(maps),
        attributes=NAMES,
        units=UNITS,
        groups=tuple(GROUPS),
        encoder=encoder,
        data_hash=data_hash,
        contexts=both.contexts,
        seed=seed,
        hand_contexts=hand_contexts,
        hand_standing=stands,
    )
    # A limb may have fewer directions that deserve its name, or none.
    pairs = zip(found.names, found.single_limb, strict=True)
    own = np.array([limb != "" and name.startswith(limb) for name, limb in pairs])
    return found.select((np.array(found.families) != "part") | own)


@dataclass(frozen=True)
class _Found:
    """Directions of one family."""

    family: Family
    prefixes: list[str]
    """Beginnings of names; one that ends in a space is followed by the effect."""
    vectors: Tensor
    amplitudes: Tensor


def _spectral(responses: Responses) -> _Found:
    _, V = eigenpairs(responses.response_gram)
    prefixes = [f"s{k + 1:02d} " for k in range(len(V))]
    V = orient(V, responses.effects)
    return _Found("spectral", prefixes, V, torch.ones_like(V[:, 0]))


def _parts(responses: Responses) -> _Found:
    """Directions that move a limb most and the rest least.

    Leading eigenvectors of C_g less the Gram of all other rows. Those of C_g alone
    move the rest of the body as they like: from the second on, hardly the limb.
    """
    C = responses.response_gram
    prefixes, vectors = [], []
    for group, gram in zip(GROUPS, responses.group_grams, strict=True):
        if group in LIMBS:
            V = torch.linalg.eigh(2 * gram - C)[1].T.flip(0)[:PART_DIRECTIONS]
            prefixes += [f"{group}_{k + 1} " for k in range(len(V))]
            vectors.append(orient(V, responses.effects))
    V = torch.cat(vectors)
    return _Found("part", prefixes, V, torch.ones_like(V[:, 0]))


def _targets(responses: Responses) -> _Found:
    found = [solve(responses.effects, target) for target in TARGETS]
    vectors = torch.stack([f.vector for f in found])
    amplitudes = vectors.new_tensor([f.amplitude for f in found])
    return _Found("target", [f.target.name for f in found], vectors, amplitudes)


def _energy(grams: Tensor, vectors: Tensor) -> Tensor:
    """(k, groups) mean squared change v^T C_g v."""
    return torch.einsum("kd,gde,ke->kg", vectors, grams, vectors).clamp_min(0)


def _strongest(effect_mean: Tensor) -> tuple[Tensor, Tensor]:
    """(k,) the mean effect that is largest in scales, and its attribute's sense."""
    best = (effect_mean / scales().to(effect_mean)).abs().argmax(1)
    sense = effect_mean.new_tensor([a.sense for a in ATTRIBUTES])
    return effect_mean.gather(1, best[:, None])[:, 0], sense[best]


def name(
    prefixes: Sequence[str], mean: np.ndarray, std: np.ndarray, shares: np.ndarray
) -> tuple[str, ...]:
    """Names that claim no more than is predicted.

    An effect that is larger on average than its spread over contexts gives the name;
    if there is none, the name says which part of the body varies.
    """
    best = np.abs(mean / scales().numpy()).argmax(1)
    names = []
    for k, prefix in enumerate(prefixes):
        if not prefix.endswith(" "):
            names.append(prefix)
        elif abs(mean[k, best[k]]) > std[k, best[k]]:
            names.append(prefix + _action(mean[k], best[k]))
        else:
            part = list(GROUPS)[shares[k].argmax()].replace("_", " ")
            names.append(f"{prefix}{part} varies")
    return tuple(names)


def _action(effect: np.ndarray, index: int) -> str:
    """What is done to an attribute, by one side, by both, or by one against the other.

    The other side has a part in it from half the effect on.
    """
    attribute = ATTRIBUTES[index]
    side = attribute.name.split("_")[0]
    other = {"left": "right", "right": "left"}.get(side)
    if other is None:
        return attribute.action
    twin = NAMES.index(attribute.name.replace(side, other, 1))
    ratio = effect[twin] * ATTRIBUTES[twin].sense / (effect[index] * attribute.sense)
    if abs(ratio) < 0.5:
        return attribute.action
    _, part, *what = attribute.action.split()
    plural = {"foot": "feet", "toes": "toes"}.get(part, f"{part}s")
    return " ".join(("both" if ratio > 0 else "opposed", plural, *what))


def _array(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()

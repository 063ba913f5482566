"""Spectral, body-part and target directions of a skill model, with their effects.

    C = V diag(lambda) V^T,  lambda_1 >= ... >= lambda_d >= 0

v_k is the unit step that changes the predicted motion most among those orthogonal to
v_1 .. v_{k-1}, and sqrt(lambda_k) is the rms change. Where eigenvalues are close, the
vectors depend on the choice of contexts: each is compared with its counterpart from
an independent half of the contexts.

A target asks for changes of some attributes, leaves some free and holds the rest:

    min_v  E_i[ sum_goals w (E_i v - goal)^2 + hold sum_held w (E_i v)^2 ] + ridge |v|^2

with w = 1 / scale^2, so that attributes count by what is noticeable. E_i is the effect
of the skill on attributes in context i; the minimum needs only its moments. Contexts
are those in which a direction will be used: walks for a turn, and for the height of a
foot its own swings. Where a robot was measured too, its response is one more context,
and counts more than all others together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from spectral_skills.motion.windows import WindowSampler
from spectral_skills.robot import g1
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import (
    BY_PREDICTION,
    LIMBS,
    Directions,
    Family,
)
from spectral_skills.spectral.response import (
    ATTRIBUTES,
    GROUPS,
    NAMES,
    TABLES,
    UNITS,
    Contexts,
    Effects,
    Responses,
    measure,
    scales,
)

HOLD = 1.0
RIDGE = 0.1
"""Ridge as a share of the mean eigenvalue, so that it means the same for every encoder.
A smaller one holds a little better and needs a much larger amplitude."""
LEVEL = 2
"""Noise level of the responses. The paper's is the lowest, where the noisy future shows
nearly all; from this one on, predicted arms move as far as a robot's."""
PREDICTED = 0.3
"""Weight of predicted effects beside those of a robot. With less of them directions are
stronger, and robots fall."""
PART_DIRECTIONS = 3
"""Largest number of directions of each limb."""


def attributes_of(*parts: str) -> frozenset[str]:
    """Attributes of parts of the body, joints of groups and those of hands and feet,
    and attributes by their own names."""
    joints = {g1.JOINTS[i] for part in parts for i in GROUPS.get(part, ())}
    ends = tuple(f"{p}_" for p in parts if p.endswith(("hand", "foot")))
    named = {name for name in NAMES if name in parts or name.startswith(ends)}
    return frozenset(joints | named)


@dataclass(frozen=True)
class Target:
    """What should change, and what may."""

    name: str
    goals: dict[str, float]
    """Change of each attribute, in the attribute's unit."""
    free: frozenset[str]
    """Attributes that may change freely; all others are held."""
    contexts: Contexts = "upright"
    """Where it will be used."""

    def effects(self, responses: Responses, robot: Effects | None = None) -> Effects:
        """Effects in its contexts, those on a foot's height in swings of that foot;
        beside what a robot was measured to do, where it was."""
        found = responses.among(self.contexts)
        if "left_foot_height" in self.goals:
            found = found.with_row("left_foot_height", responses.among("left_swing"))
        if "right_foot_height" in self.goals:
            found = found.with_row("right_foot_height", responses.among("right_swing"))
        return found if robot is None else robot.beside(found, PREDICTED)


def _target(name: str, goals: dict, free: list[str], **contexts: Contexts) -> Target:
    return Target(name, goals, attributes_of(*free), **contexts)


TARGETS = tuple(_target(name, **one) for name, one in TABLES["targets"].items())


def solve(
    effects: Effects, target: Target, hold: float = HOLD, ridge: float = RIDGE
) -> tuple[Tensor, float]:
    """Unit direction (d,) of a target, and the amplitude that reaches the goal on
    average, as nearly as the direction can.

    Amplitudes are those of the predictions, which grow with the noise level.
    """
    wanted = {name: (change,) for name, change in target.goals.items()}
    v = _least_squares(effects, wanted, target.free, hold, ridge)[:, 0]
    v = v / v.norm().clamp_min(1e-300)
    # The ridge shortens the solution; along it the goal is farther.
    places = sorted(NAMES.index(name) for name in wanted)
    goal = v.new_tensor([target.goals[NAMES[i]] for i in places])
    reached = effects.along(v[None])[0][0][places]
    weight = scales().to(v).reciprocal().square()[places]
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
    metres = np.eye(3).tolist()
    wanted = {f"{side}_hand_{axis}": metres[i] for i, axis in enumerate("xyz")}
    other = "left" if side == "right" else "right"
    free = attributes_of(f"{side}_arm", f"{other}_hand", "left_foot", "right_foot")
    short = _least_squares(effects, wanted, free, hold, ridge)
    rows = effects.mean[[NAMES.index(name) for name in wanted]]
    return short @ torch.linalg.pinv(rows @ short)


def hand_maps(responses: Responses) -> tuple[Tensor, int, bool]:
    """Both maps (2, d, 3), the number of contexts, and whether they were standing."""
    effects = responses.among("standing")
    maps = torch.stack([hand_map(effects, "left"), hand_map(effects, "right")])
    return maps, effects.contexts, effects is responses.standing


def _least_squares(
    effects: Effects,
    wanted: Mapping[str, Sequence[float]],
    free: frozenset[str],
    hold: float,
    ridge: float,
) -> Tensor:
    """(d, c): the minimum of the module's objective, for c goals of each attribute that
    is wanted."""
    columns = len(next(iter(wanted.values())))
    goals = effects.mean.new_tensor([wanted.get(n, (0.0,) * columns) for n in NAMES])
    counts = dict.fromkeys(NAMES, hold) | dict.fromkeys(free, 0.0)
    counts |= dict.fromkeys(wanted, 1.0)
    w = scales().to(goals).reciprocal().square()
    weight = w * goals.new_tensor(list(counts.values()))
    H = torch.einsum("a,ade->de", weight, effects.mean_square)
    size = H.diagonal().mean().clamp_min(1e-300)
    H = H + ridge * size * torch.eye(len(H), dtype=H.dtype, device=H.device)
    b = effects.mean.T @ (weight[:, None] * goals)
    return torch.linalg.solve(H, b)


Identify = Callable[[Callable[[Effects], Tensor]], tuple[Effects, Effects]]
"""Finds what robots do, by halves, from what solves directions (k, d) by it."""


def find(
    model: SkillModel,
    sampler: WindowSampler,
    contexts: int = 4096,
    seed: int = 0,
    data_hash: str = "",
    targets: Sequence[Target] = TARGETS,
    level: int = LEVEL,
    identify: Identify | None = None,
) -> Directions:
    """All directions of a skill model over random contexts, at a noise level; targets
    are solved by what robots do as well, where that can be found."""
    halves = measure(model, sampler, contexts, seed, level=level)
    both, robot = halves[0] + halves[1], None
    if identify is not None:
        robot = identify(lambda found: _vectors(_knobs(both, targets, found)))
    encoder = model.encoder.fingerprint()
    return from_responses(*halves, encoder, seed, data_hash, targets, level, robot)


def from_responses(
    first: Responses,
    second: Responses,
    encoder: str,
    seed: int = 0,
    data_hash: str = "",
    targets: Sequence[Target] = TARGETS,
    level: int = LEVEL,
    robot: tuple[Effects, Effects] | None = None,
) -> Directions:
    """All directions from the responses of two halves of the contexts."""
    both = first + second
    robots = (None,) * 3 if robot is None else (robot[0] + robot[1], *robot)
    if not both.effects.contexts:
        raise ValueError(
            f"the robot is upright in none of {both.contexts} contexts, so there is no "
            "effect to find directions by; take more contexts, or clips that stand"
        )
    parts = zip((both, first, second), robots, strict=True)
    found, *halves = (_find_all(responses, targets, one) for responses, one in parts)
    families, prefixes, vectors, amplitudes = zip(*found, strict=True)
    vectors = torch.stack(vectors)
    split = (_vectors([one[1:] for one in half]) for half in halves)
    mean, std = both.effects.along(vectors)
    # Mean squared change v^T C_g v of each part of the body, (k, groups).
    energy = torch.einsum("kd,gde,ke->kg", vectors, both.group_grams, vectors)
    energy = energy.clamp_min(0)
    gains = energy.sum(1).sqrt()
    alike = (vectors @ both.mean_response.T).norm(dim=1)
    shares = energy / energy.sum(1, keepdim=True).clamp_min(1e-300)
    maps, hand_contexts, stands = hand_maps(both)
    found = Directions(
        names=name(prefixes, *map(_array, (mean, std, shares))),
        families=families,
        vectors=_array(vectors),
        gains=_array(gains),
        amplitudes=np.array(amplitudes, np.float32),
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
        level=level,
        hand_contexts=hand_contexts,
        hand_standing=stands,
    )
    # A limb may have fewer directions that deserve its name, or none.
    pairs = zip(found.names, found.single_limb, strict=True)
    own = np.array([limb != "" and name.startswith(limb) for name, limb in pairs])
    return found.select((np.array(found.families) != "part") | own)


def _find_all(
    responses: Responses, targets: Sequence[Target], robot: Effects | None
) -> list[tuple[Family, str, Tensor, float]]:
    families: dict[Family, Found] = {
        "spectral": _spectral(responses),
        "part": _parts(responses),
        "target": _knobs(responses, targets),
    }
    if robot is not None:
        alone = families["target"]
        families["target"] = [(BY_PREDICTION + name, v, a) for name, v, a in alone]
        families["robot"] = _knobs(responses, targets, robot)
    return [(family, *one) for family, some in families.items() for one in some]


def eigenpairs(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (d,) in descending order, none negative, and eigenvectors (d, d).

    Row k of the eigenvectors is v_k.
    """
    lam, V = torch.linalg.eigh(gram)
    return lam.flip(0).clamp_min(0), V.T.flip(0)


def orient(vectors: Tensor, effects: Effects) -> Tensor:
    """Choose signs so that the strongest mean effect, in scales, has its named sense.

    A direction that moves the right shoulder most points where the arm goes up.
    """
    mean = effects.along(vectors)[0]
    best = (mean / scales().to(mean)).abs().argmax(1)
    strongest = mean.gather(1, best[:, None])[:, 0]
    sense = mean.new_tensor([a.sense for a in ATTRIBUTES])[best]
    return vectors * (sense * strongest.sign()).where(strongest != 0, 1.0)[:, None]


def stability(first: Tensor, second: Tensor) -> Tensor:
    """(k,) |cos| between unit vectors (k, d) of two halves of the contexts."""
    return (first * second).sum(-1).abs()


# Families: the beginning of a name, the vector and the amplitude of each direction. A
# beginning that ends in a space is followed by the effect.
Found = list[tuple[str, Tensor, float]]


def _knobs(
    responses: Responses, targets: Sequence[Target], robot: Effects | None = None
) -> Found:
    return [(t.name, *solve(t.effects(responses, robot), t)) for t in targets]


def _vectors(found: Found) -> Tensor:
    return torch.stack([vector for _, vector, _ in found])


def _spectral(responses: Responses) -> Found:
    V = orient(eigenpairs(responses.response_gram)[1], responses.effects)
    return [(f"s{k:02d} ", v, 1.0) for k, v in enumerate(V, 1)]


def _parts(responses: Responses) -> Found:
    """Directions that move a limb most and the rest least.

    They are leading eigenvectors of C_g minus the Gram of all other rows. Those of C_g
    alone also move the rest of the body, and from the second on hardly the limb.
    """
    C, found = responses.response_gram, []
    for group, gram in zip(GROUPS, responses.group_grams, strict=True):
        if group in LIMBS:
            V = torch.linalg.eigh(2 * gram - C)[1].T.flip(0)[:PART_DIRECTIONS]
            V = orient(V, responses.effects)
            found += [(f"{group}_{k} ", v, 1.0) for k, v in enumerate(V, 1)]
    return found


def name(
    prefixes: Sequence[str], mean: np.ndarray, std: np.ndarray, shares: np.ndarray
) -> tuple[str, ...]:
    """Names that claim no more than is predicted.

    An effect whose mean exceeds its spread over contexts gives the name; if there is
    none, the name says which part of the body varies.
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
    """What happens to an attribute: on one side, on both, or on one against the other.

    The other side counts from half the effect on.
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

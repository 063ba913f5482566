"""Where a ladder leads among skills: on a map of clips, and along two directions."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch

from spectral_skills.experiments.composition.lab import Executed
from spectral_skills.experiments.composition.neighbours import Neighbours
from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.motion.kinds import OTHER
from spectral_skills.skill.codes import SkillBank
from spectral_skills.skill.tsne import MOST_POINTS, place, tsne
from spectral_skills.spectral.support import ATTRIBUTES, TOLERANCES, describe_run

_KINDS = 6
"""Kinds of motion that have a colour of their own."""
_CORNER = "walk"
"""The base whose part of the map is enlarged."""
RAISED_RAD, TURNED_DEG_S = 0.8, 20.0
"""How much higher than the base's the right shoulder of a window must be, and how much
faster it must turn to the left, to count as a raised arm and as a turn."""
Stages = Mapping[str, slice]
"""Steady steps, in the order of time."""
Trail = Mapping[str, np.ndarray]
"""(d,) mean skill of each stage."""


def stood(executed: Executed, stages: Stages) -> dict[str, slice]:
    """The stages that a run has stood through."""
    fell_at = executed.fell_at
    ends = np.inf if fell_at is None else fell_at
    return {name: steps for name, steps in stages.items() if steps.stop <= ends}


def done(near: Neighbours, executed: Executed, stages: Stages) -> Trail:
    """Skills of what the robot did, encoded again."""
    return {
        name: near.encode(executed.rows[steps]).mean(dim=0).double().cpu().numpy()
        for name, steps in stood(executed, stages).items()
    }


def asked(executed: Executed, stages: Stages) -> Trail:
    """Skills that the robot was given."""
    return {
        name: executed.run.skills[steps].mean(axis=0, dtype=np.float64)
        for name, steps in stood(executed, stages).items()
    }


def maps(near: Neighbours, trails: Mapping[str, Trail]) -> list[Chart]:
    """All clips, with the trail of every base, and the part around the walk's."""
    clips, means = SkillBank(near.skills, near.clips, near.times).clip_means()
    some = torch.randperm(len(clips), generator=torch.Generator().manual_seed(0))
    some = some[:MOST_POINTS]
    kinds = np.array([near.kinds[i] for i in clips.cpu()[some].tolist()])
    means = means.cpu()[some].double()
    dots = tsne(means)
    ways = {
        name: place(means, dots, torch.as_tensor(np.array([*trail.values()]))).numpy()
        for name, trail in trails.items()
        if trail
    }
    groups = _kinds(dots.numpy(), kinds)
    told = f"Each dot is the mean skill of one of {len(some):,} clips and mirror images"
    told += "." if len(some) == len(clips) else f", drawn from {len(clips):,}."
    lines = [
        _series(f"ladder on the {name}", way, (name,), "trail")
        for name, way in ways.items()
    ]
    note = (
        f"{told} Like skills lie together (t-SNE); how far groups are apart means "
        "nothing. A ladder joins its stages: each is the mean skill of what the robot "
        "did, put in the middle of the clips nearest to it."
    )
    title = "Clips of the corpus, and where the ladder leads"
    found = [Chart(title, "map", "", "", (*groups, *lines), note)]
    if _CORNER in ways:
        line = _series("ladder", ways[_CORNER], tuple(trails[_CORNER]), "trail")
        title = f"The same map, enlarged around the ladder on the {_CORNER}"
        found.append(Chart(title, "map", "", "", (*_around(groups, line), line)))
    return found


def _kinds(places: np.ndarray, kinds: np.ndarray) -> list[Series]:
    """Dots by kind of motion; those without a colour behind the others."""
    counts = Counter(name for name in kinds.tolist() if name != OTHER)
    common = [name for name, _ in counts.most_common(_KINDS)]
    rest = ~np.isin(kinds, common)
    behind = [_series(OTHER, places[rest], role="behind")] if rest.any() else []
    return behind + [_series(name, places[kinds == name]) for name in common]


def _around(groups: list[Series], line: Series) -> list[Series]:
    """Points in a square around a trail; at least a third of the map's width."""
    points = np.array((line.x, line.y))
    low, high = points.min(axis=1), points.max(axis=1)
    widest = max(np.ptp(np.concatenate([one.x for one in groups])), 1e-9)
    half = max(0.75 * float((high - low).max()), widest / 6)
    found = []
    for one in groups:
        places = np.array((one.x, one.y)).T
        inside = (np.abs(places - (low + high) / 2) <= half).all(axis=1)
        # Empty ones too: colours are given in turn.
        found.append(_series(one.name, places[inside], role=one.role))
    return found


def arm_and_turn(
    base: str, near: Neighbours, axes: np.ndarray, steered: Executed, stages: Stages
) -> Chart:
    """Skills along the directions (2, d) of arm and turn: windows of the corpus that
    move like the base, and the stages of a run, the first of which is unsteered."""
    first = next(iter(stages.values()))
    zero = axes @ steered.run.skills[first].mean(axis=0, dtype=np.float64)
    trails = {
        "given to the robot": asked(steered, stages),
        "what the robot does": done(near, steered, stages),
    }
    like, raises, turns = _windows(near, describe_run(steered.run.base.rows, first))
    places = near.window_skills() @ axes.T - zero
    parts = {
        "with the right arm raised": raises & ~turns,
        "turning left": turns & ~raises,
        "both": raises & turns,
    }
    others = places[like & ~raises & ~turns]
    dots = [_series("corpus windows like the base", others, role="behind")]
    dots += [_series(name, places[like & of]) for name, of in parts.items()]
    ways = [
        _series(name, np.array([*one.values()]) @ axes.T - zero, tuple(one), "trail")
        for name, one in trails.items()
        if one
    ]
    note = (
        f"Dots are the mean skills of {int(like.sum()):,} windows of a second with the "
        f"height and speed of the {base}; coloured where the right arm is raised "
        f"{RAISED_RAD:g} rad or the turn {TURNED_DEG_S:g} deg/s beyond the base's. "
        f"Windows with both: {int((like & raises & turns).sum()):,}. Lines join the "
        "stages of the ladder. Zero is the base's own skill."
    )
    title = f"Ladder on the {base}: skills along arm and turn"
    labels = "along the right arm direction", "along the turn direction"
    return Chart(title, "scatter", *labels, (*dots, *ways), note)


def _windows(
    near: Neighbours, base: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(w,) which windows move like a base, raise the right arm, and turn left."""
    change = dict(zip(ATTRIBUTES, (near.windows.values - base).T, strict=True))
    close = [
        np.abs(change[name]) <= TOLERANCES[name]
        for name in ("forward_speed", "root_height")
    ]
    raises = change["right_shoulder_pitch"] <= -RAISED_RAD
    return np.all(close, axis=0), raises, change["yaw_rate"] >= np.radians(TURNED_DEG_S)


def _series(
    name: str,
    places: np.ndarray,
    names: tuple[str, ...] = (),
    role: Literal["", "behind", "trail"] = "",
) -> Series:
    """Points (n, 2), the first of which have names."""
    x, y = np.asarray(places, float).reshape(-1, 2).T.tolist()
    marks = (*names, *("",) * (len(x) - len(names))) if names else ()
    return Series(name, tuple(x), tuple(y), marks, role)

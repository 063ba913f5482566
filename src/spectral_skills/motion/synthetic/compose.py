"""Piece by piece: which factors a clip combines, in which order, in which words."""

import math
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate, combinations

import numpy as np

from spectral_skills.motion.synthetic import factors, gestures, moves
from spectral_skills.motion.synthetic.curves import FPS
from spectral_skills.motion.synthetic.score import Score
from spectral_skills.motion.synthetic.sentences import sentences
from spectral_skills.motion.synthetic.sketch import Sketch

_GOLDEN = 0.6180339887498949
_ALONE = {
    "": 4.0,
    "forward": 9.0,
    "backward": 4.0,
    "sideways": 4.0,
    "turn": 8.0,
    "arc": 16.0,
    "jog": 9.0,
    "high": 4.0,
    "crouch": 2.0,
    "squat": 3.0,
    "bow": 2.0,
}
"""Weight of each factor by itself; a gesture by itself has `_GESTURE`."""
_GESTURE, _PAIR, _PAIR_FORWARD, _TRIPLE = 1.8, 0.75, 2.2, 0.15
_POSE, _POSE_FORWARD = 6.0, 16.0
"""Weights of gestures of any height: by themselves, and in a walk."""


@dataclass(frozen=True)
class Piece:
    """A clip before it is performed."""

    name: str
    text: str
    """Sentences, one a line."""
    score: Score
    crop: tuple[int, int]
    """First frame that is kept and the one after the last."""


def repertoire() -> dict[frozenset[str], float]:
    """Every combination of factors that occurs, and its weight."""
    weights: dict[frozenset[str], float] = {}
    for factor in ("", *factors.FACTORS):
        usual = _POSE if factor in gestures.POSES else _GESTURE
        weights[frozenset({factor} - {""})] = _ALONE.get(factor, usual)
    for pair, mark in factors.PAIRS.items():
        if mark == "x":
            forward = _POSE_FORWARD if pair & gestures.POSES else _PAIR_FORWARD
            weights[pair] = forward if "forward" in pair else _PAIR
    for three in combinations(factors.FACTORS, 3):
        pairs = combinations(three, 2)
        travels = len(set(three) & set(factors.TRAVELS))
        if travels == 1 and all(factors.PAIRS[frozenset(p)] == "x" for p in pairs):
            weights[frozenset(three)] = _TRIPLE
    return weights


def chosen(seed: int, number: int) -> frozenset[str]:
    """Factors of clip `number`: few clips have much of the variety of many."""
    weights = repertoire()
    bounds = list(accumulate(weights.values()))
    place = ((number + 0.5) * _GOLDEN + seed / math.sqrt(2)) % 1.0 * bounds[-1]
    return list(weights)[bisect(bounds, place)]


def compose(seed: int, number: int) -> Piece:
    """Clip `number` of a corpus; the same for the same seed."""
    rng = np.random.default_rng((seed, number))
    return compose_factors(chosen(seed, number), rng, number)


def compose_factors(
    wanted: frozenset[str], rng: np.random.Generator, number: int = 0
) -> Piece:
    """A clip with the given factors."""
    sketch = Sketch(rng)
    sketch.lift = sketch.uniform(0.04, 0.06)
    for factor in sorted(wanted):
        sketch.add(factor)
    sketch.wait(0.4, 0.9)
    for factor, manner in moves.MANNER.items():
        if factor in wanted:
            manner(sketch)
    acts = [act for factor, act in moves.TRAVEL.items() if factor in wanted]
    acts += [act for factor, act in moves.STANDING.items() if factor in wanted]
    if not acts:
        acts = [moves.march if "high" in wanted else moves.stand]
    sketch.patience = 0.8 if len(acts) == 1 else 0.3
    for index in rng.permutation(len(acts)):
        acts[index](sketch)
    sketch.wait(0.1, 0.5)
    for factor, gesture in gestures.GESTURE.items():
        if factor in wanted:
            gesture(sketch)
    score = sketch.score()
    name = factors.name_of(sketch.factors, number)
    return Piece(name, sentences(sketch), score, _crop(sketch, score.frames))


def _crop(sketch: Sketch, frames: int) -> tuple[int, int]:
    """Half of the walks are shown under way, without their start and stop."""
    if len(sketch.walks) != 1 or sketch.factors & set(moves.STANDING):
        return 0, frames
    if sketch.uniform(0, 1) < 0.5:
        return 0, frames
    start, end = sketch.walks[0]
    kept = (start + sketch.uniform(0.6, 1.2), end - sketch.uniform(0.0, 0.4))
    if kept[1] - kept[0] < 3.0:
        return 0, frames
    return int(kept[0] * FPS), int(kept[1] * FPS)

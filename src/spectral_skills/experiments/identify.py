"""How a robot answers changes of its skills: measured, where a predictor foretells.

Random unit vectors are added to the skills of clips that walk, once with each sign, and
what a robot does is described by the attributes of `spectral.response`, in the same
windows. Effects are so nearly linear in the vector that ridge regression finds the
change of each attribute per unit of every skill number. Directions that are solved by
that are tried on every clip, and the regression is repeated with these runs as well:
without them, walks that a direction was to keep straight turned, all to the same side.
No base of an experiment takes part.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.experiments.effects import hold
from spectral_skills.experiments.findings import grid
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.windows import MotionTensors, WindowConfig, WindowSampler
from spectral_skills.spectral.response import NAMES, Attributes, Effects, kinds

GRID = grid("identify")


def walking_clips(corpora: list[Corpus], count: int, seed: int = 0) -> list[Base]:
    """The beginnings of some clips, drawn at random, that walk upright all the time."""
    generator = np.random.default_rng(seed)
    places = [(corpus, i) for corpus in corpora for i in range(len(corpus))]
    found: list[Base] = []
    for k in generator.permutation(len(places)):
        corpus, i = places[k]
        rows = np.asarray(corpus.qpos(i), np.float32)[: GRID.steps + 1]
        if len(rows) == GRID.steps + 1 and _walks(rows):
            found.append(Base(corpus.names[i], rows, bases.FALL_M))
        if len(found) == count:
            return found
    raise ValueError(
        f"{len(found)} of {len(places)} clips walk for {GRID.steps / FPS:g} s, and "
        f"{count} are needed; take a corpus with more walks"
    )


def _walks(rows: np.ndarray) -> bool:
    half = FPS // 2
    speed = np.linalg.norm(rows[half:, :2] - rows[:-half, :2], axis=1) * FPS / half
    low, high = GRID.speeds
    return bool(((speed > low) & (speed < high)).all() and (rows[:, 2] > 0.6).all())


def describe(runs: Sequence[Executed], windows: WindowConfig) -> Tensor:
    """(n, a) attributes of runs of equal length: means over windows at full amplitude,
    a foot's height while it swings."""
    steps = hold(runs[0].run.base)
    rows = [torch.as_tensor(np.asarray(one.rows[steps], np.float32)) for one in runs]
    sampler = WindowSampler(MotionTensors.of_clips(rows), windows)
    count = sampler.total // len(runs)
    numbers = torch.arange(sampler.total).view(-1, count)[:, :: GRID.every].contiguous()
    future = sampler.at(*sampler.locate(numbers.flatten())).future
    values = Attributes(windows)(future)
    masks = kinds(future, values, windows)
    weight = torch.ones_like(values)
    for side in ("left", "right"):
        column = NAMES.index(f"{side}_foot_height")
        # Where a foot never swings, its height counts all the time.
        weight[:, column] = masks[f"{side}_swing"].to(weight) + 1e-6
    values, weight = (one.unflatten(0, numbers.shape) for one in (values, weight))
    return (values * weight).sum(1) / weight.sum(1)


def identify(
    runner: Runner,
    corpora: list[Corpus],
    solve: Callable[[Effects], Tensor],
    count: int = GRID.vectors,
    seed: int = 0,
) -> tuple[Effects, Effects]:
    """Effects per unit of each skill number, by halves of the runs.

    `solve` gives the directions (k, d) that will be used, by effects found so far.
    """
    clips = walking_clips(corpora, GRID.clips, seed)
    width = runner.skills(clips[0]).shape[1]
    vectors = np.random.default_rng(seed).normal(size=(count, width))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    drawn = [(clips[i % len(clips)], vector) for i, vector in enumerate(vectors)]
    tried = [_changes(runner, drawn[i::2]) for i in (0, 1)]
    first, second = (_effects(*some) for some in tried)
    # Errors along a direction that is used matter most, and it is part of no other.
    used = solve(first + second).cpu().numpy()
    for i in (0, 1):
        x, y = _changes(runner, [(clip, one) for clip in clips[i::2] for one in used])
        tried[i] = torch.cat((tried[i][0], x)), torch.cat((tried[i][1], y))
    return _effects(*tried[0]), _effects(*tried[1])


def _changes(
    runner: Runner, tried: Sequence[tuple[Base, np.ndarray]]
) -> tuple[Tensor, Tensor]:
    """Vectors (n, d) of which robots withstood both signs, and the changes (n, a) of
    attributes per unit of each."""
    runs = [
        runner.steered(base, sign * GRID.amplitude * vector, f"r{i}")
        for i, (base, vector) in enumerate(tried)
        for sign in (1, -1)
    ]
    done = runner.execute(runs, "the robot's own response")
    pairs = list(zip(done[::2], done[1::2], strict=True))
    kept = [i for i, pair in enumerate(pairs) if all(one.stands for one in pair)]
    if len(kept) < len(tried) / 2:
        raise ValueError(
            f"in {len(tried) - len(kept)} of {len(tried)} pairs a robot fell: this "
            "controller does not withstand changes of its skills"
        )
    signs = zip(*(pairs[i] for i in kept), strict=True)
    up, down = (describe(some, runner.encoder.windows).double() for some in signs)
    vectors = np.stack([tried[i][1] for i in kept]).astype(np.float64)
    return torch.from_numpy(vectors), (up - down) / (2 * GRID.amplitude)


def _effects(x: Tensor, y: Tensor) -> Effects:
    """Effects of one context: ridge regression of changes (n, a) on vectors (n, d)."""
    gram = x.T @ x + GRID.ridge * torch.eye(x.shape[1], dtype=x.dtype)
    return Effects.of(torch.linalg.solve(gram, x.T @ y).T[None])

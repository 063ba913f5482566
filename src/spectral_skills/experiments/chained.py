"""Runs of several skills, blended over a few steps, and what the joints feel.

Nothing but the stream knows of a switch: there is no transition policy, and no skill
depends on where the robot is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from spectral_skills.control.source import chain
from spectral_skills.experiments.composition.batch import Run
from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.composition.runner import Executed, Runner
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.generate import embedded_corpus

POOL = (
    *bases.NAMES,
    *("sideways", "arc", "raise", "bow"),
)
"""Bases and motions that sequences are drawn from."""
SEQUENCES = 42
"""As many as in the paper."""
LENGTHS = (2, 3, 4)
"""Skills of a sequence."""
SWITCHES = (0, 2, 5, 10, 20, 30)
"""Steps of a switch; 0 is a hard one."""
SEGMENT = 175
"""Steps of a skill."""
SETTLING = 25
"""Steps after a switch that still belong to it."""


@dataclass(frozen=True)
class Chained:
    """A run of several skills."""

    names: tuple[str, ...]
    switch: int
    run: Run
    switches: tuple[slice, ...]
    """Steps at which it goes from one skill to the next."""


@dataclass(frozen=True)
class Smoothness:
    """Root mean square joint acceleration, rad/s^2, up to a fall."""

    during: float
    """Switches and the steps after them; nan where none was reached."""
    outside: float
    peak: float
    """Of the roughest step of a switch."""


def chained(
    lab: Lab,
    names: Sequence[str],
    switch: int,
    steps: int = SEGMENT,
    seed: int | None = None,
) -> Chained:
    """A sequence, and where it switches.

    The robot starts on the first skill; the fall rule is that of the lowest one.
    """
    # Longer than its segment by what skills look ahead.
    parts = segments(lab, names, steps + lab.encoder.last)
    streams = [torch.from_numpy(lab.skills(part)[:steps]) for part in parts]
    skills, switches = chain(streams, switch)
    # Where the robot starts; past its end the first skill stands still.
    at = np.arange(len(skills) + 1).clip(max=steps)
    fall_m = min(part.fall_m for part in parts)
    base = Base("-".join(names), parts[0].rows[at], fall_m)
    run = Run(f"switch {switch}", base, skills.numpy(), seed)
    return Chained(tuple(names), switch, run, tuple(switches))


def segments(runner: Runner, names: Sequence[str], steps: int) -> list[Base]:
    """The motions of a sequence: bases, or clips of the embedded corpus; `bow` is the
    first clip that is named after nothing but a bow."""
    if not names:
        raise ValueError("no skill to begin with; name at least one")
    return [
        runner.base(name, steps)
        if name in bases.NAMES
        else bases.of_clip(_corpus(), _clip(name), steps)
        for name in names
    ]


def _clip(name: str) -> str:
    """Name of a clip, or of the first that has the name and a number."""
    numbered = (one for one in _corpus().names if one.rpartition("_")[0] == name)
    return next(numbered, name)


@cache
def _corpus() -> Corpus:
    return Corpus.open(embedded_corpus())


def draw(pool: Sequence[str], count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Sequences of two to four skills, as many of each, none twice in a row."""
    random = np.random.default_rng(seed)
    drawn: list[tuple[str, ...]] = []
    while len(drawn) < count:
        names = [pool[int(random.integers(len(pool)))]]
        while len(names) < LENGTHS[len(drawn) % len(LENGTHS)]:
            others = [name for name in pool if name != names[-1]]
            names.append(others[int(random.integers(len(others)))])
        if tuple(names) not in drawn:
            drawn.append(tuple(names))
    return drawn


def smoothness(
    rows: np.ndarray, switches: Sequence[slice], fell_at: int | None = None
) -> Smoothness:
    """How rough a run (T + 1, 36) is in its switches and elsewhere."""
    joints = np.asarray(rows, np.float64)[:fell_at, 7:]
    # Step t leads to row t + 1, which is the last of difference t - 1.
    square = np.square(np.diff(joints, n=2, axis=0) * FPS**2).mean(axis=1)
    inside = np.zeros(len(square), bool)
    for switch in switches:
        inside[max(switch.start - 1, 0) : switch.stop - 1 + SETTLING] = True
    return Smoothness(
        _root_mean(square[inside]),
        _root_mean(square[~inside]),
        float(np.sqrt(square[inside].max())) if inside.any() else float("nan"),
    )


def _root_mean(square: np.ndarray) -> float:
    return float(np.sqrt(square.mean())) if len(square) else float("nan")


@dataclass(frozen=True)
class Outcome:
    """A chained run, executed."""

    chained: Chained
    done: Executed
    smooth: Smoothness


def execute(
    runner: Runner,
    sequences: Sequence[Sequence[str]],
    switches: Sequence[int],
    steps: int = SEGMENT,
    seed: int | None = None,
    plan: Callable[..., Chained] = chained,
) -> list[Outcome]:
    """All sequences with all lengths of switch, planned for a kind of tracker."""
    plans = [plan(runner, n, s, steps, seed) for s in switches for n in sequences]
    done = runner.execute([one.run for one in plans], "chained runs")
    return [
        Outcome(one, made, smoothness(made.rows, one.switches, made.fell_at))
        for one, made in zip(plans, done, strict=True)
    ]


def smoother(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> tuple[int, int]:
    """Of the sequences that both finish on their feet, how many are smoother in
    `ours`, and how many there are."""
    pairs = [
        (a.smooth.during, b.smooth.during)
        for a, b in zip(ours, theirs, strict=True)
        if a.done.stands and b.done.stands
    ]
    return sum(a < b for a, b in pairs), len(pairs)

"""Sequences of two to four skills: how smooth their switches are, and which ones fall.

Only the stream of skills knows of a switch: there is no transition policy, and no skill
depends on where the robot is. The paper compares with SONIC over the same sequences;
here a hard switch is the yardstick and, where they are given, skill controllers of
other models and an explicit tracker. An explicit tracker has no skills to chain: it
follows the motions of a sequence joined to one reference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.steering import chain
from spectral_skills.experiments.effects import falls
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.motion.windows import move_rows

NAME = "chaining"
EXPLICIT = "explicit"
GRID = grid(NAME)
DURING, OUTSIDE = "acceleration in switches", "acceleration elsewhere"
PEAK = "peak acceleration"
"""Root mean square joint accelerations up to a fall, rad/s^2: in switches and while
they settle, elsewhere, and at the roughest step of a switch."""
Planned = tuple[Run, list[slice]]
"""A run of several skills, and the steps of its switches."""


@dataclass(frozen=True)
class ChainRun:
    """A sequence of skills, executed."""

    names: tuple[str, ...]
    switch: int
    executed: Executed
    acceleration: dict[str, float]
    """`DURING`, `OUTSIDE` and `PEAK`; nan where no such step was reached."""


def chained(
    runner: Runner,
    names: Sequence[str],
    switch: int,
    steps: int = GRID.steps,
    seed: int | None = None,
) -> Planned:
    """A sequence of skills; the lowest base decides what counts as a fall."""
    # Longer than its segment by what skills look ahead.
    parts = segments(runner, names, steps + runner.encoder.last)
    skills, switches = chain([runner.skills(part)[:steps] for part in parts], switch)
    # The base only says where the robot starts; past its end the first skill stops.
    at = np.arange(len(skills) + 1).clip(max=steps)
    base = Base("-".join(names), parts[0].rows[at], min(p.fall_m for p in parts))
    return Run(f"switch {switch}", base, skills, seed), switches


def joined(
    tracker: Runner,
    names: Sequence[str],
    switch: int,
    steps: int = GRID.steps,
    seed: int | None = None,
) -> Planned:
    """A sequence as one reference, for an explicit tracker."""
    parts = segments(tracker, names, steps)
    rows, switches = join([torch.from_numpy(part.rows) for part in parts], switch)
    base = Base("-".join(names), rows.numpy(), min(part.fall_m for part in parts))
    return Run(f"explicit, switch {switch}", base, None, seed), switches


def join(motions: Sequence[Tensor], switch: int) -> tuple[Tensor, list[slice]]:
    """One motion (T + 1, 36) of several, and the steps at which it switches.

    Step t leads to row t + 1, so a motion of n + 1 rows has n steps. Each motion is
    moved over the ground and turned about the vertical, so that it begins at the place
    and heading that the previous one has at that step. Weights over a switch are those
    of chained skills.
    """
    placed = list(motions[:1])
    for rows in motions[1:]:
        placed.append(move_rows(rows, rows[0], placed[-1][-1 - switch]))
    blended, switches = chain([rows[1:].numpy() for rows in placed], switch)
    total = torch.from_numpy(blended)
    weight = torch.arange(1, switch + 1).to(total) / (switch + 1)
    for before, after, steps in zip(placed, placed[1:], switches, strict=False):
        leaving = before[len(before) - switch :, 3:7]
        total[steps, 3:7] = rotation.slerp(leaving, after[1 : switch + 1, 3:7], weight)
    return torch.cat((motions[0][:1], total)), switches


def segments(runner: Runner, names: Sequence[str], steps: int) -> list[Base]:
    """The motions of a sequence: bases, or clips of the embedded corpus; `bow` is the
    first clip that is named after nothing but a bow."""
    if not names:
        raise ValueError("no skill to begin with; name at least one")
    return [
        runner.base(name, steps)
        if name in runner.known
        else bases.of_clip(_corpus(), _clip(name), steps)
        for name in names
    ]


def _clip(name: str) -> str:
    """A clip's name, or that of the first clip with this name and a number."""
    numbered = (one for one in _corpus().names if one.rpartition("_")[0] == name)
    return next(numbered, name)


@cache
def _corpus() -> Corpus:
    return Corpus.open(embedded_corpus())


def draw(pool: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Distinct sequences of each length in turn, with no skill twice in a row."""
    random = np.random.default_rng(0)
    drawn: list[tuple[str, ...]] = []
    while len(drawn) < count:
        names = [pool[int(random.integers(len(pool)))]]
        while len(names) < GRID.lengths[len(drawn) % len(GRID.lengths)]:
            others = [name for name in pool if name != names[-1]]
            names.append(others[int(random.integers(len(others)))])
        if tuple(names) not in drawn:
            drawn.append(tuple(names))
    return drawn


def accelerations(
    rows: np.ndarray, switches: Sequence[slice], fell_at: int | None = None
) -> dict[str, float]:
    """How rough a run (T + 1, 36) is in its switches and elsewhere."""
    joints = np.asarray(rows, np.float64)[:fell_at, 7:]
    # Step t leads to row t + 1, which is the last of difference t - 1.
    square = np.square(np.diff(joints, n=2, axis=0) * FPS**2).mean(axis=1)
    inside = np.zeros(len(square), bool)
    for switch in switches:
        inside[max(switch.start - 1, 0) : switch.stop - 1 + GRID.settling] = True
    peak = square[inside].max(keepdims=True) if inside.any() else square[inside]
    parts = {DURING: square[inside], OUTSIDE: square[~inside], PEAK: peak}
    return {
        name: float(np.sqrt(part.mean())) if len(part) else float("nan")
        for name, part in parts.items()
    }


def execute(
    runner: Runner,
    sequences: Sequence[Sequence[str]],
    switches: Sequence[int],
    steps: int = GRID.steps,
    seed: int | None = None,
    plan: Callable[..., Planned] = chained,
) -> list[ChainRun]:
    keys = list(product(switches, sequences))
    plans = [plan(runner, names, switch, steps, seed) for switch, names in keys]
    done = runner.execute([run for run, _ in plans], "chained runs")
    return [
        ChainRun(tuple(n), s, one, accelerations(one.rows, where, one.fell_at))
        for (s, n), (_, where), one in zip(keys, plans, done, strict=True)
    ]


def smoother(ours: Sequence[ChainRun], theirs: Sequence[ChainRun]) -> tuple[int, int]:
    """How many sequences are smoother in `ours`, of those that both finish upright."""
    pairs = [
        (a.acceleration[DURING], b.acceleration[DURING])
        for a, b in zip(ours, theirs, strict=True)
        if a.executed.stands and b.executed.stands
    ]
    return sum(a < b for a, b in pairs), len(pairs)


def _by_switch(runs: Sequence[ChainRun]) -> dict[int, list[ChainRun]]:
    lengths = dict.fromkeys(one.switch for one in runs)
    return {s: [one for one in runs if one.switch == s] for s in lengths}


def _by_skills(runs: Sequence[ChainRun]) -> dict[int, list[ChainRun]]:
    counts = sorted({len(one.names) for one in runs})
    return {n: [one for one in runs if len(one.names) == n] for n in counts}


def _falls(runs: Sequence[ChainRun]) -> int:
    return falls(one.executed for one in runs)


def _mean(runs: Sequence[ChainRun], what: str) -> tuple[float, int]:
    """Mean over the sequences that reached a switch, and their number."""
    values = [one.acceleration[what] for one in runs]
    values = [value for value in values if np.isfinite(value)]
    return (float(np.mean(values)) if values else float("nan")), len(values)


def chaining(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    others: Mapping[str, Runner] | None = None,
    explicit: Runner | None = None,
    **changes: Any,
) -> Findings:
    """Chain drawn sequences; `others` are skill controllers of other models, `explicit`
    is a tracker of poses."""
    run, report = grid(NAME, **changes), Draft(NAME, runner)
    drawn, runners = draw(run.pool, run.sequences), {"": runner, **(others or {})}
    asked = drawn, run.switches, run.steps
    found = {name: execute(one, *asked) for name, one in runners.items()}
    if explicit is not None:
        runners[EXPLICIT] = explicit
        found[EXPLICIT] = execute(explicit, *asked, plan=joined)
    ours = found[""]
    report.add("all", {"sequences": len(drawn)})
    for name, runs in found.items():
        add_rows(report, name, runs, ours, runners[name])
    for name, runs in found.items():
        hard = _by_switch(runs).get(0) if name else None
        for switch, some in _by_switch(ours).items() if hard else ():
            count, n = smoother(some, hard or ())
            cell = {f"smoother than hard {name}": count}
            report.add(f"switch {switch}", cell, n, unit="sequences")
    alone = runner.execute([chained(runner, [n], 0, run.steps)[0] for n in run.pool])
    report.add("each skill alone", {"falls": falls(alone)}, len(alone))
    for seed in seeds:
        again = execute(runner, *asked, seed)
        for switch, some in _by_switch(again).items():
            row = f"switch {switch}, seed {seed}"
            report.add(row, {"falls": _falls(some)}, len(some), seed=seed)
    add_charts(report, found)
    # Films of the longest soft sequences without a fall, beside their first skill.
    soft = [one for one in ours if one.switch and one.executed.stands]
    soft.sort(key=lambda one: (-len({*one.names}), abs(one.switch - 10)))
    for one in soft[:2] if runner.records else ():
        plain, _ = chained(runner, one.names[:1], 0, one.executed.run.steps)
        runner.execute([plain])
        report.film(", ".join(one.names), one.executed.run, plain)
    counts = {"falls": _falls(ours), "runs": len(ours), "falls_alone": falls(alone)}
    return report.findings(**counts, others=_compared(report, found))


def add_rows(
    report: Draft,
    name: str,
    runs: Sequence[ChainRun],
    ours: Sequence[ChainRun],
    runner: Runner,
) -> None:
    """A controller's rows; those of other, named ones are compared with ours."""
    start, own = f"{name}, " if name else "", _by_switch(ours)
    for switch, some in _by_switch(runs).items():
        row = f"{start}switch {switch}"
        for metric in (DURING, OUTSIDE, PEAK):
            value, n = _mean(some, metric)
            report.add(row, {metric: value}, n, runner=runner)
        report.add(row, {"falls": _falls(some)}, len(some), runner=runner)
        if name:
            metric, compared = "smoother with ours", (own[switch], some)
        elif switch and 0 in own:
            metric, compared = "smoother than hard", (some, own[0])
        else:
            continue
        count, n = smoother(*compared)
        papers = paper(NAME, f"switch {switch}")
        report.add(row, {metric: count}, n, papers=papers, runner=runner)
    for skills, some in _by_skills(runs).items():
        row = f"{start}{skills} skills"
        report.add(row, {"falls": _falls(some)}, len(some), runner=runner)


def add_charts(report: Draft, found: Mapping[str, Sequence[ChainRun]]) -> None:
    lines, bars = [], []
    for name, runs in found.items():
        start = f"{name}: " if name else ""
        for what in (DURING, OUTSIDE):
            means = {s: _mean(some, what) for s, some in _by_switch(runs).items()}
            points = {switch: mean for switch, (mean, n) in means.items() if n}
            if points:
                lines.append(Series.of(start + what, points, points.values()))
        groups = _by_skills(runs)
        shares = [100.0 * _falls(some) / len(some) for some in groups.values()]
        bars.append(Series.of(start + "falls", groups, shares))
    report.chart("acceleration", lines)
    report.chart("falls", bars)


def _compared(report: Draft, found: Mapping[str, Sequence[ChainRun]]) -> str:
    ours, hard, parts = found[""], _by_switch(found[""]).get(0), ""
    soft = [smoother(s, hard) for n, s in _by_switch(ours).items() if n and hard]
    if soft:
        count, n = (sum(values) for values in zip(*soft, strict=True))
        parts += f" A blended switch is smoother than a hard one in {count} of {n}."
    for name, runs in found.items():
        if name:
            count, n = smoother(ours, runs)
            parts += (
                f" Of the {n} runs that ours and {name} both finish, ours is smoother "
                f"in {count}; {_falls(runs)} of {len(runs)} of {name} fall."
            )
    if EXPLICIT in found:
        return parts + report.text("explicit")
    return f"{parts} No explicit tracker was compared."

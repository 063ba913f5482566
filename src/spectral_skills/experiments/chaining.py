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

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.mixer import chain
from spectral_skills.experiments.findings import Draft, Findings, Series, paper
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.generate import embedded_corpus

NAME = "chaining"
EXPLICIT = "explicit"
POOL = (*bases.NAMES, "sideways", "arc", "raise", "bow")
"""Names of the bases and clips that sequences are drawn from."""
SEQUENCES = 42
"""Number of sequences, as in the paper."""
LENGTHS = (2, 3, 4)
"""Numbers of skills in a sequence."""
SWITCHES = (0, 2, 5, 10, 20, 30)
"""Lengths of a switch in steps; 0 is a hard switch."""
SEGMENT = 175
"""Number of steps of each skill."""
SETTLING = 25
"""Number of steps after a switch that still belong to it."""
_METRICS = {
    "during": "acceleration in switches",
    "outside": "acceleration elsewhere",
    "peak": "peak acceleration",
}


@dataclass(frozen=True)
class Chain:
    """A run of several skills, and the steps of its switches."""

    names: tuple[str, ...]
    switch: int
    run: Run
    switches: tuple[slice, ...]


@dataclass(frozen=True)
class Smoothness:
    """Root mean square joint acceleration up to a fall, rad/s^2."""

    during: float
    """Acceleration in switches and while they settle; nan where none was reached."""
    outside: float
    peak: float
    """Acceleration of the roughest step of a switch."""


@dataclass(frozen=True)
class ChainRun:
    """A chain, executed."""

    chain: Chain
    executed: Executed
    smoothness: Smoothness


def chained(
    runner: Runner,
    names: Sequence[str],
    switch: int,
    steps: int = SEGMENT,
    seed: int | None = None,
) -> Chain:
    """A sequence of skills; the lowest base decides what counts as a fall."""
    # Longer than its segment by what skills look ahead.
    parts = segments(runner, names, steps + runner.encoder.last)
    skills, switches = chain([runner.skills(part)[:steps] for part in parts], switch)
    # The base only says where the robot starts; past its end the first skill stops.
    at = np.arange(len(skills) + 1).clip(max=steps)
    base = Base("-".join(names), parts[0].rows[at], min(p.fall_m for p in parts))
    run = Run(f"switch {switch}", base, skills, seed)
    return Chain(tuple(names), switch, run, tuple(switches))


def joined(
    tracker: Runner,
    names: Sequence[str],
    switch: int,
    steps: int = SEGMENT,
    seed: int | None = None,
) -> Chain:
    """A sequence as one reference, for an explicit tracker."""
    parts = segments(tracker, names, steps)
    rows, switches = join([torch.from_numpy(part.rows) for part in parts], switch)
    base = Base("-".join(names), rows.numpy(), min(part.fall_m for part in parts))
    run = Run(f"explicit, switch {switch}", base, None, seed)
    return Chain(tuple(names), switch, run, tuple(switches))


def join(motions: Sequence[Tensor], switch: int) -> tuple[Tensor, list[slice]]:
    """One motion (T + 1, 36) of several, and the steps at which it switches.

    Step t leads to row t + 1, so a motion of n + 1 rows has n steps. Each motion is
    moved over the ground and turned about the vertical, so that it begins at the place
    and heading that the previous one has at that step. Weights over a switch are those
    of chained skills.
    """
    placed = list(motions[:1])
    for rows in motions[1:]:
        placed.append(place(rows, placed[-1][-1 - switch]))
    blended, switches = chain([rows[1:].numpy() for rows in placed], switch)
    total = torch.from_numpy(blended)
    weight = torch.arange(1, switch + 1).to(total) / (switch + 1)
    for before, after, steps in zip(placed, placed[1:], switches, strict=False):
        leaving = before[len(before) - switch :, 3:7]
        total[steps, 3:7] = rotation.slerp(leaving, after[1 : switch + 1, 3:7], weight)
    return torch.cat((motions[0][:1], total)), switches


def place(rows: Tensor, where: Tensor) -> Tensor:
    """A motion (T, 36) that begins at the ground place and heading of a row (36,)."""
    first = rotation.heading(rows[0, 3:7])
    turn = rotation.multiply(rotation.heading(where[3:7]), rotation.conjugate(first))
    turn = turn.expand(len(rows), -1)
    start = torch.cat((rows[0, :2], rows.new_zeros(1)))
    target = torch.cat((where[:2], rows.new_zeros(1)))
    position = rotation.rotate(turn, rows[:, :3] - start) + target
    quaternion = rotation.multiply(turn, rows[:, 3:7])
    return torch.cat((position, quaternion, rows[:, 7:]), dim=1)


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
    """A clip's name, or that of the first clip with this name and a number."""
    numbered = (one for one in _corpus().names if one.rpartition("_")[0] == name)
    return next(numbered, name)


@cache
def _corpus() -> Corpus:
    return Corpus.open(embedded_corpus())


def draw(pool: Sequence[str], count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Distinct sequences of each length in turn, with no skill twice in a row."""
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
    peak = square[inside].max(keepdims=True) if inside.any() else square[inside]
    parts = square[inside], square[~inside], peak
    means = (float(np.sqrt(p.mean())) if len(p) else float("nan") for p in parts)
    return Smoothness(*means)


def execute(
    runner: Runner,
    sequences: Sequence[Sequence[str]],
    switches: Sequence[int],
    steps: int = SEGMENT,
    seed: int | None = None,
    plan: Callable[..., Chain] = chained,
) -> list[ChainRun]:
    """All sequences with all lengths of switch, planned for a kind of tracker."""
    plans = [plan(runner, n, s, steps, seed) for s in switches for n in sequences]
    done = runner.execute([one.run for one in plans], "chained runs")
    return [
        ChainRun(one, made, smoothness(made.rows, one.switches, made.fell_at))
        for one, made in zip(plans, done, strict=True)
    ]


def smoother(ours: Sequence[ChainRun], theirs: Sequence[ChainRun]) -> tuple[int, int]:
    """How many sequences are smoother in `ours`, of those that both finish upright."""
    pairs = [
        (a.smoothness.during, b.smoothness.during)
        for a, b in zip(ours, theirs, strict=True)
        if a.executed.stands and b.executed.stands
    ]
    return sum(a < b for a, b in pairs), len(pairs)


def _by_switch(runs: Sequence[ChainRun]) -> dict[int, list[ChainRun]]:
    lengths = dict.fromkeys(one.chain.switch for one in runs)
    return {s: [one for one in runs if one.chain.switch == s] for s in lengths}


def _by_skills(runs: Sequence[ChainRun]) -> dict[int, list[ChainRun]]:
    counts = sorted({len(one.chain.names) for one in runs})
    return {n: [one for one in runs if len(one.chain.names) == n] for n in counts}


def _falls(runs: Sequence[ChainRun]) -> int:
    return sum(not one.executed.stands for one in runs)


def _mean(runs: Sequence[ChainRun], what: str) -> tuple[float, int]:
    """Mean over the sequences that reached a switch, and their number."""
    values = [getattr(one.smoothness, what) for one in runs]
    values = [value for value in values if np.isfinite(value)]
    return (float(np.mean(values)) if values else float("nan")), len(values)


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    others: Mapping[str, Runner] | None = None,
    explicit: Runner | None = None,
    pool: Sequence[str] = POOL,
    sequences: int = SEQUENCES,
    switches: Sequence[int] = SWITCHES,
    steps: int = SEGMENT,
) -> Findings:
    """Chain drawn sequences; `others` are skill controllers of other models, `explicit`
    is a tracker of poses."""
    report = Draft.begin(NAME, runner)
    drawn, runners = draw(pool, sequences), {"": runner, **(others or {})}
    found = {name: execute(r, drawn, switches, steps) for name, r in runners.items()}
    if explicit is not None:
        runners[EXPLICIT] = explicit
        found[EXPLICIT] = execute(explicit, drawn, switches, steps, plan=joined)
    ours = found[""]
    report.add("all", "sequences", len(drawn))
    for name, runs in found.items():
        add_rows(report, name, runs, ours, runners[name])
    for name, runs in found.items():
        hard = _by_switch(runs).get(0) if name else None
        for switch, some in _by_switch(ours).items() if hard else ():
            count, n = smoother(some, hard or ())
            metric = f"smoother than hard {name}"
            report.add(f"switch {switch}", metric, count, "sequences", n)
    alone = runner.execute([chained(runner, [name], 0, steps).run for name in pool])
    falls_alone = sum(not one.stands for one in alone)
    report.add("each skill alone", "falls", falls_alone, "runs", len(alone))
    for seed in seeds:
        again = execute(runner, drawn, switches, steps, seed)
        for switch, some in _by_switch(again).items():
            row = f"switch {switch}, seed {seed}"
            report.add(row, "falls", _falls(some), "runs", len(some), seed)
    add_charts(report, found)
    # Films of the longest soft sequences without a fall, beside their first skill.
    soft = [one for one in ours if one.chain.switch and one.executed.stands]
    soft.sort(key=lambda one: (-len({*one.chain.names}), abs(one.chain.switch - 10)))
    for one in soft[:2] if runner.records else ():
        run, names = one.chain.run, one.chain.names
        plain = chained(runner, names[:1], 0, run.steps).run
        runner.execute([plain])
        report.film(", ".join(names), run, plain)
    counts = {"falls": _falls(ours), "runs": len(ours), "falls_alone": falls_alone}
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
        for what, metric in _METRICS.items():
            value, n = _mean(some, what)
            if n:
                report.add(row, metric, value, "rad/s^2", n, runner=runner)
        report.add(row, "falls", _falls(some), "runs", len(some), runner=runner)
        if name:
            metric, compared = "smoother with ours", (own[switch], some)
        elif switch and 0 in own:
            metric, compared = "smoother than hard", (some, own[0])
        else:
            continue
        count, n = smoother(*compared)
        printed = paper(NAME, f"switch {switch}", metric)
        report.add(row, metric, count, "sequences", n, None, printed, runner)
    for skills, some in _by_skills(runs).items():
        row, n = f"{start}{skills} skills", len(some)
        report.add(row, "falls", _falls(some), "runs", n, runner=runner)


def add_charts(report: Draft, found: Mapping[str, Sequence[ChainRun]]) -> None:
    """Accelerations by the length of a switch, and falls by the number of skills."""
    lines, bars = [], []
    for name, runs in found.items():
        start = f"{name}: " if name else ""
        for what in ("during", "outside"):
            means = [(s, *_mean(some, what)) for s, some in _by_switch(runs).items()]
            points = [(switch, mean) for switch, mean, n in means if n]
            if points:
                x, y = zip(*points, strict=True)
                lines.append(Series.of(start + _METRICS[what], x, y))
        groups = _by_skills(runs)
        shares = [100.0 * _falls(some) / len(some) for some in groups.values()]
        bars.append(Series.of(start + "falls", groups, shares))
    report.chart("acceleration", lines)
    report.chart("falls", bars)


def _compared(report: Draft, found: Mapping[str, Sequence[ChainRun]]) -> str:
    """Sentences on hard switches and on other trackers."""
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

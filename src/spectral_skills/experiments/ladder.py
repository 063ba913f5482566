"""The ladder: one direction after the other on a moving robot, then all released.

Each stage is measured over its steady steps: what the robot does, how far its motion,
encoded again, is from the corpus, and how many windows of the corpus move like it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.control.schedules import RAMP_STEPS, Knob, schedule
from spectral_skills.experiments.effects import headings, measure
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.experiments.neighbours import (
    Neighbours,
    add_arm_and_turn,
    add_maps,
    stood,
    trail,
)
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.spectral.catalogue import NOTICED, strongest
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.support import (
    ATTRIBUTES,
    describe_run,
    leave_one_clip_out,
    support,
)

NAME = "ladder"
STEPS = 1000
STEADY = 2 * RAMP_STEPS
"""Number of steps after a change that belong to no stage."""
BEGINS = {name: first for name, (first, _) in grid(NAME)["stages"].items() if first}
"""Steps at which something changes."""
RELEASE = BEGINS["released"]
STAGES = {n: slice(a + STEADY, b) for n, (a, b) in grid(NAME)["stages"].items()}
"""Steady steps of each stage."""
AMPLITUDES: dict[str, float] = grid(NAME)["amplitudes"]
STEERED: dict[str, list[str]] = grid(NAME)["steered"]
MEASURES: dict[str, str] = grid(NAME)["measures"]
_CURVES = {
    "speed": (("speed",), 1.0),
    "yaw_rate": (("heading",), 1.0),
    "shoulder": (("right_shoulder_pitch",), 1.0),
    "apex": (("left_apex", "right_apex"), 100.0),
}
"""Charts over time: their measures, and the factor from a measure's unit."""
_LIFT = {"left_apex": 1, "right_apex": 1}
_NOUNS = {"backward": "backward walk"}
_EVERY = 10
"""Number of steps between points of a chart."""
_SPREAD = 5000
"""Number of skills of the corpus that are measured against those of other clips."""


def knobs(directions: Directions) -> list[Knob]:
    """The three directions of the ladder: the parts and targets that are solved for arm
    and turn, and for clearance the one measured to lift both feet most."""
    clearance, sign = strongest(directions, _LIFT, "foot_clearance")
    names = {"+ right arm": ("right_arm_1", 1), "+ turn": ("turn", 1)}
    names["+ clearance"] = clearance, sign
    return [
        Knob(name, sign * AMPLITUDES[stage], BEGINS[stage], RELEASE + RAMP_STEPS)
        for stage, (name, sign) in names.items()
    ]


@dataclass(frozen=True)
class StageResult:
    """What one run does in one stage."""

    values: dict[str, float]
    """Values of all `MEASURES`."""
    support: int | None
    """Number of windows of the corpus that move like it; None once released."""


Found = dict[str, StageResult]
"""Stages that a run has stood through."""


def stages(near: Neighbours, executed: Executed) -> Found:
    """Measure the stages that a run has stood through."""
    rows, found = executed.rows, {}
    for name, steps in stood(executed, STAGES).items():
        seen = measure(rows, steps)
        values = (
            seen["speed"],
            seen["heading"] / ((steps.stop - steps.start - 1) / FPS),
            seen["right_shoulder_pitch"],
            100 * seen["left_apex"],
            100 * seen["right_apex"],
            float(np.median(near.distances(rows[steps]))),
        )
        count = None
        if name in STEERED:
            base, now = (describe_run(rows, STAGES[n]) for n in ("base", name))
            count = support(near.windows, base, now, STEERED[name], ATTRIBUTES)
        found[name] = StageResult(dict(zip(MEASURES, values, strict=True)), count)
    return found


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (0, 1, 2),
    *,
    bases: Sequence[str] = ("walk", "jog", "backward"),
    corpus: Corpus | None = None,
) -> Findings:
    """The ladder on every base: once without randomness, and once per seed."""
    near = Neighbours.build(runner.encoder, corpus)
    report = Draft.begin(NAME, runner, near.corpus)
    directions, turned = runner.directions, knobs(runner.directions)
    change = schedule(turned, STEPS, directions.names) @ directions.vectors
    axes = np.stack([runner.direction(str(knob.direction)) for knob in turned[:2]])
    spread = leave_one_clip_out(near.skills, near.clips, _SPREAD)
    report.add("corpus", "distance, median", spread.median, n=spread.n)
    report.add("corpus", "distance, 90th percentile", spread.p90, n=spread.n)
    trails: dict[str, Mapping[str, np.ndarray]] = {}
    runs_of: dict[str, tuple[Executed, Executed]] = {}
    both: list[tuple[Found, Found]] = []
    for name in bases:
        base, noun = runner.base(name, STEPS), _NOUNS.get(name, name)
        runs = [runner.plain(base)]
        runs += [runner.steered(base, change, NAME, seed=s) for s in (None, *seeds)]
        runs += [runner.plain(base, seed) for seed in seeds]
        plain, alone, *random = runner.execute(runs, f"{NAME}, {name}")
        steered = alone, *random[: len(seeds)]
        others = plain, *random[len(seeds) :]
        found, without = stages(near, alone), stages(near, plain)
        row, metric = f"{name}: all stages", "runs that fell"
        for suffix, some in (("", steered), (", unsteered", others)):
            fallen = sum(not one.stands for one in some)
            report.add(row, metric + suffix, fallen, n=len(some))
        pairs = zip(seeds, steered[1:], strict=True)
        by_seed = {seed: stages(near, one) for seed, one in pairs}
        for stage in STAGES:
            add_stage(report, f"{name}: {stage}", stage, found, without)
            add_seeds(report, f"{name}: {stage}", stage, by_seed)
        trails[name], runs_of[name] = trail(near, alone, STAGES), (plain, alone)
        both.append((found, without))
        report.film(f"The ladder on the {noun}", alone.run, plain.run)
    add_maps(report, near, trails)
    for name, (_, alone) in runs_of.items():
        add_arm_and_turn(report, _NOUNS.get(name, name), near, axes, alone, STAGES)
    add_headings(report, {name: plain for name, (plain, _) in runs_of.items()})
    for name, pair in runs_of.items():
        add_charts(report, _NOUNS.get(name, name), *pair, near)
    rises = [r > 0 for f, _ in both for r in step_changes(f, "distance").values()]
    pairs = [(f, u, s) for f, u in both for s in [*STEERED][1:] if s in f and s in u]
    above = [_distance(f, s) > _distance(u, s) for f, u, s in pairs]
    by_base = {_NOUNS.get(n, n): f for n, (f, _) in zip(bases, both, strict=True)}
    return report.findings(
        **{"rises": sum(rises), "added": len(rises), "above": sum(above)},
        **{"stages": len(above), "windows": len(near.windows.values)},
        **{"clearance": turned[2].direction, "where": failures(by_base)},
    )


def _distance(found: Found, stage: str) -> float:
    return found[stage].values["distance"]


def step_changes(found: Found, name: str) -> dict[str, float]:
    """Change of a measure from each stage to the next that the run stood through."""
    pairs = [(a, b) for a, b in pairwise(STEERED) if b in found]
    return {b: found[b].values[name] - found[a].values[name] for a, b in pairs}


def failures(by_base: Mapping[str, Found]) -> str:
    """Sentences on the bases where the distance always rises, and on those where a
    direction does not do what it is for."""
    rising, low, wrong = [], [], []
    for base, found in by_base.items():
        away = step_changes(found, "distance")
        if len(away) == len(AMPLITUDES) and min(away.values()) > 0:
            rising.append(base)
        raised = step_changes(found, "right shoulder pitch").get("+ right arm", -np.inf)
        if raised > -NOTICED["right_shoulder_pitch"]:
            low.append(base)
        if step_changes(found, "yaw rate").get("+ turn", np.inf) <= 0:
            wrong.append(base)
    return "".join(
        f" {what}: {', '.join(names) or 'no base'}."
        for what, names in (
            ("The distance rises with every direction on", rising),
            ("The arm rises by less than people notice on", low),
            ("The turn has the wrong sign on", wrong),
        )
    )


def add_stage(
    report: Draft, row: str, stage: str, found: Found, unsteered: Found
) -> None:
    """Numbers of the run without randomness; unsteered robots drift, so that is shown
    beside."""
    if stage not in found:
        return
    for name, unit in MEASURES.items():
        report.add(row, name, found[stage].values[name], unit)
    for name in ("yaw rate", "distance") if stage in unsteered else ():
        value = unsteered[stage].values[name]
        report.add(row, f"{name}, unsteered", value, MEASURES[name])
    if (count := found[stage].support) is not None:
        report.add(row, "support", count, "windows")


def add_seeds(
    report: Draft, row: str, stage: str, by_seed: Mapping[int, Found]
) -> None:
    """Mean and sample SD over the seeds that stand, and the support of each."""
    standing = {seed: one[stage] for seed, one in by_seed.items() if stage in one}
    for name, unit in MEASURES.items():
        values = [one.values[name] for one in standing.values()]
        if n := len(values):
            report.add(row, f"{name}, mean of seeds", np.mean(values), unit, n)
        if n > 1:
            report.add(row, f"{name}, SD of seeds", np.std(values, ddof=1), unit, n)
    for seed, one in standing.items():
        if one.support is not None:
            metric = f"support, seed {seed}"
            report.add(row, metric, one.support, "windows", 1, seed)


def add_charts(
    report: Draft, base: str, plain: Executed, steered: Executed, near: Neighbours
) -> None:
    """Measures, distance, path and drift of a base over time, up to a fall."""
    runs = {"steered": steered, "unsteered": plain}
    runs = {name: one.rows[: one.fell_at] for name, one in runs.items()}
    kept = {name: rows for name, rows in runs.items() if len(rows) > 2 * FPS}
    time = {name: over_time(rows) for name, rows in kept.items()}
    for chart, (measures, scale) in _CURVES.items():
        series = []
        for name, one in product(kept, measures):
            label = name if len(measures) == 1 else f"{name}, {one.split('_')[0]}"
            steps, found = time[name]
            marked = one == measures[0]
            series.append(_series(label, steps, scale * found[one], marked))
        report.chart(chart, series, base=base)
    first, wanted = -near.encoder.first, plain.run.base.rows
    series = [_series(n, *smoothed(near.distances(r), first)) for n, r in kept.items()]
    report.chart("distance", series, base=base)
    paths = [_path(name, rows) for name, rows in kept.items()]
    paths.append(replace(_path("the base's motion", wanted), role="behind"))
    report.chart("path", paths, base=base)
    away = [_series(n, *_every(distance_away(r, wanted))) for n, r in kept.items()]
    report.chart("drift", away, base=base)


def add_headings(report: Draft, plain: Mapping[str, Executed]) -> None:
    """How far unsteered runs turn away from their bases' headings, up to a fall."""
    series = []
    for name, one in plain.items():
        rows, wanted = one.rows[: one.fell_at], one.run.base.rows
        count = min(len(rows), len(wanted))
        turned = headings(rows[:count]) - headings(wanted[:count])
        series.append(_series(name, *_every(np.degrees(turned - turned[0]))))
    report.chart("heading", series)


def distance_away(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(T,) along the ground, from where a motion has its root at the same time, m."""
    count = min(len(rows), len(wanted))
    return np.linalg.norm(rows[:count, :2] - wanted[:count, :2], axis=1)


def over_time(rows: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Steps in the middle of windows of a second, and all measures there."""
    starts = np.arange(0, len(rows) - FPS, _EVERY)
    seen = [measure(rows, slice(s, s + FPS + 1)) for s in starts.tolist()]
    # A window is a second long, so its turn is a rate.
    return starts + FPS // 2, {n: np.array([one[n] for one in seen]) for n in seen[0]}


def smoothed(values: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and means over a second of values that begin at a step."""
    mean = np.convolve(values, np.full(FPS, 1 / FPS), "valid")[::_EVERY]
    return first + FPS // 2 + _EVERY * np.arange(len(mean)), mean


def _every(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    steps = np.arange(0, len(values), _EVERY)
    return steps, values[steps]


def _series(
    name: str, steps: np.ndarray, values: np.ndarray, marked: bool = True
) -> Series:
    return Series.of(name, steps / FPS, values, _marks(name, steps, marked))


def _path(name: str, rows: np.ndarray) -> Series:
    steps = np.arange(0, len(rows), _EVERY)
    x, y = rows[steps, :2].T
    return Series.of(name, x, y, _marks(name, steps))


def _marks(name: str, steps: np.ndarray, marked: bool = True) -> list[str]:
    """Names of the stages at the first point after each begins, on steered runs."""
    if not name.startswith("steered"):
        return []
    found = [""] * len(steps)
    for stage, at in BEGINS.items() if marked else ():
        later = np.flatnonzero(steps >= at)
        if len(later):
            found[later[0]] = stage
    return found

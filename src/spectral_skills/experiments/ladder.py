"""The ladder: one direction after the other on a moving robot, then all released.

Each stage is measured over its steady steps: what the robot does, how far its motion,
encoded again, is from the corpus, and how many windows of the corpus move like it.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.control.steering import RAMP_STEPS, Knob, schedule
from spectral_skills.experiments.effects import Steered, falls, headings, measure
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
GRID = grid(NAME)
STEPS = GRID.steps
STEADY = 2 * RAMP_STEPS
"""Number of steps after a change that belong to no stage."""
BEGINS = {name: first for name, (first, _) in GRID.stages.items() if first}
"""Steps at which something changes."""
RELEASE = BEGINS["released"]
STAGES = {name: slice(a + STEADY, b) for name, (a, b) in GRID.stages.items()}
"""Steady steps of each stage."""
AMPLITUDES: dict[str, float] = GRID.amplitudes
STEERED: dict[str, list[str]] = GRID.steered
_EVERY = 10
"""Number of steps between points of a chart."""


def knobs(directions: Directions) -> list[Knob]:
    """The three directions of the ladder: the parts and targets that are solved for arm
    and turn, and for clearance the one measured to lift both feet most."""
    lift = {"left_apex": 1, "right_apex": 1}
    clearance, sign = strongest(directions, lift, "foot_clearance")
    names = {"+ right arm": ("right_arm_1", 1), "+ turn": ("turn", 1)}
    names["+ clearance"] = clearance, sign
    return [
        Knob(name, sign * AMPLITUDES[stage], BEGINS[stage], RELEASE + RAMP_STEPS)
        for stage, (name, sign) in names.items()
    ]


Found = dict[str, dict[str, float]]
"""Measures of the stages that a run has stood through; the support counts windows of
the corpus that move alike, and is of the steered stages."""


def stages(near: Neighbours, executed: Executed) -> Found:
    """Measure the stages that a run has stood through."""
    rows, found = executed.rows, {}
    for name, steps in stood(executed, STAGES).items():
        seen = measure(rows, steps)
        found[name] = {
            "speed": seen["speed"],
            "yaw rate": seen["heading"] / ((steps.stop - steps.start - 1) / FPS),
            "right shoulder pitch": seen["right_shoulder_pitch"],
            "left apex": 100 * seen["left_apex"],
            "right apex": 100 * seen["right_apex"],
            "distance": float(np.median(near.distances(rows[steps]))),
        }
        if name in STEERED:
            base, now = (describe_run(rows, STAGES[n]) for n in ("base", name))
            count = support(near.windows, base, now, STEERED[name], ATTRIBUTES)
            found[name]["support"] = count
    return found


def ladder(
    runner: Runner,
    seeds: tuple[int, ...] = (0, 1, 2),
    *,
    corpus: Corpus | None = None,
    **changes: Any,
) -> Findings:
    """The ladder on every base: once without randomness, and once per seed."""
    run, near = grid(NAME, **changes), Neighbours.build(runner.encoder, corpus)
    report = Draft(NAME, runner, near.corpus)
    directions, turned = runner.directions, knobs(runner.directions)
    change = schedule(turned, STEPS, directions.names) @ directions.vectors
    axes = np.stack([runner.direction(str(knob.direction)) for knob in turned[:2]])
    far = leave_one_clip_out(near.bank.skills, near.bank.clips, run.spread)
    spread = {"distance, median": far.median, "distance, 90th percentile": far.p90}
    report.add("corpus", spread, far.n)
    nouns = {name: run.nouns.get(name, name) for name in run.bases}
    pairs, both = dict[str, Steered](), list[tuple[Found, Found]]()
    for name, noun in nouns.items():
        base = runner.base(name, STEPS)
        runs = [runner.plain(base)]
        runs += [runner.steered(base, change, NAME, seed=s) for s in (None, *seeds)]
        runs += [runner.plain(base, seed) for seed in seeds]
        plain, alone, *random = runner.execute(runs, f"{NAME}, {name}")
        steered = alone, *random[: len(seeds)]
        others = plain, *random[len(seeds) :]
        down = {"runs that fell": falls(steered)}
        down["runs that fell, unsteered"] = falls(others)
        report.add(f"{name}: all stages", down, len(steered))
        found, without = stages(near, alone), stages(near, plain)
        by_seed = dict(zip(seeds, (stages(near, o) for o in steered[1:]), strict=True))
        for stage in STAGES:
            add_stage(report, f"{name}: {stage}", stage, found, without)
            add_seeds(report, f"{name}: {stage}", stage, by_seed)
        pairs[name] = Steered(alone, plain)
        both.append((found, without))
        report.film(f"The ladder on the {noun}", alone.run, plain.run)
    trails = {name: trail(near, one.executed, STAGES) for name, one in pairs.items()}
    add_maps(report, near, trails)
    for name, one in pairs.items():
        add_arm_and_turn(report, nouns[name], near, axes, one.executed, STAGES)
    add_headings(report, {name: one.plain for name, one in pairs.items()})
    for name, one in pairs.items():
        add_charts(report, nouns[name], one.plain, one.executed, near)
    rises = [r > 0 for f, _ in both for r in step_changes(f, "distance").values()]
    above = [
        found[stage]["distance"] > without[stage]["distance"]
        for found, without in both
        for stage in [*STEERED][1:]
        if stage in found and stage in without
    ]
    by_base = dict(zip(nouns.values(), (found for found, _ in both), strict=True))
    return report.findings(
        **{"rises": sum(rises), "added": len(rises), "above": sum(above)},
        **{"stages": len(above), "windows": len(near.windows.values)},
        **{"clearance": turned[2].direction, "where": failures(by_base)},
    )


def step_changes(found: Found, name: str) -> dict[str, float]:
    """Change of a measure from each stage to the next that the run stood through."""
    pairs = [(a, b) for a, b in pairwise(STEERED) if b in found]
    return {b: found[b][name] - found[a][name] for a, b in pairs}


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
    values: dict[str, float | None] = {**found.get(stage, {})}
    count = values.pop("support", None)
    for name in ("yaw rate", "distance") if values and stage in unsteered else ():
        values[f"{name}, unsteered"] = unsteered[stage][name]
    report.add(row, values | {"support": count})


def add_seeds(
    report: Draft, row: str, stage: str, by_seed: Mapping[int, Found]
) -> None:
    """Mean and sample SD over the seeds that stand, and the support of each."""
    standing = {seed: one[stage] for seed, one in by_seed.items() if stage in one}
    for name in (n for n in next(iter(standing.values()), {}) if n != "support"):
        values = [one[name] for one in standing.values()]
        deviation = np.std(values, ddof=1) if len(values) > 1 else None
        cells = {"mean": np.mean(values), "SD": deviation}
        cells = {f"{name}, {how} of seeds": value for how, value in cells.items()}
        report.add(row, cells, len(values))
    for seed, one in standing.items():
        report.add(row, {f"support, seed {seed}": one.get("support")}, seed=seed)


def add_charts(
    report: Draft, base: str, plain: Executed, steered: Executed, near: Neighbours
) -> None:
    """Measures, distance, path and drift of a base over time, up to a fall."""
    wanted = plain.run.base.rows
    lines: dict[str, list[Series]] = {"path": []}
    for name, one in {"steered": steered, "unsteered": plain}.items():
        rows = one.rows[: one.fell_at]
        if len(rows) <= 2 * FPS:
            continue
        starts = np.arange(0, len(rows) - FPS, _EVERY)
        # A window is a second long, so its turn is a rate.
        seen = [measure(rows, slice(s, s + FPS + 1)) for s in starts.tolist()]
        for chart, (measures, scale) in GRID.curves.items():
            for what in measures:
                label = name if len(measures) == 1 else f"{name}, {what.split('_')[0]}"
                values = scale * np.array([found[what] for found in seen])
                line = _line(label, starts + FPS // 2, values, what == measures[0])
                lines.setdefault(chart, []).append(line)
        far = np.convolve(near.distances(rows), np.full(FPS, 1 / FPS), "valid")
        begin, far = FPS // 2 - near.encoder.first, far[::_EVERY]
        steps = begin + _EVERY * np.arange(len(far))
        lines.setdefault("distance", []).append(_line(name, steps, far))
        steps = np.arange(0, len(rows), _EVERY)
        lines["path"].append(Series.of(name, *rows[steps, :2].T, _marks(name, steps)))
        steps = steps[steps < len(wanted)]
        off = np.linalg.norm(rows[steps, :2] - wanted[steps, :2], axis=1)
        lines.setdefault("drift", []).append(_line(name, steps, off))
    path = Series.of("the base's motion", *wanted[::_EVERY, :2].T, role="behind")
    lines["path"].append(path)
    for chart in (*GRID.curves, "distance", "path", "drift"):
        report.chart(chart, lines.get(chart, ()), base=base)


def add_headings(report: Draft, plain: Mapping[str, Executed]) -> None:
    """How far unsteered runs turn away from their bases' headings, up to a fall."""
    series = []
    for name, one in plain.items():
        rows, wanted = one.rows[: one.fell_at], one.run.base.rows
        count = min(len(rows), len(wanted))
        turned = headings(rows[:count]) - headings(wanted[:count])
        away = np.degrees(turned - turned[0])[::_EVERY]
        series.append(_line(name, _EVERY * np.arange(len(away)), away))
    report.chart("heading", series)


def _line(
    name: str, steps: np.ndarray, values: np.ndarray, marked: bool = True
) -> Series:
    return Series.of(name, steps / FPS, values, _marks(name, steps, marked))


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

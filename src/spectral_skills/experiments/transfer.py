"""Transfer: directions on other bases, and a steered walk under pushes.

Which directions work is decided by the rule of the catalogue. Pushes come to a steered
and an unsteered walk alike, on robots drawn by seed.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from spectral_skills.control.batch import Runner
from spectral_skills.control.steering import MARGIN_STEPS, RAMP_STEPS, Knob
from spectral_skills.experiments.catalogue import BOTH, SIGNS, outcome
from spectral_skills.experiments.effects import attempt, beside, falls, measure
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.tracking.randomization import RandomizationConfig

NAME = "transfer"
GRID = grid(NAME)


def transfer(
    runner: Runner, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), **changes: Any
) -> Findings:
    """Every direction on every base without randomness; pushes once per seed."""
    run, report = grid(NAME, **changes), Draft(NAME, runner)
    found: dict[str, dict[str, str]] = {}
    amplitudes = run.amplitude, -run.amplitude
    for name in run.bases:
        base = runner.base(name, run.steps)
        keys = list(product(run.directions, amplitudes))
        runs = {key: attempt(runner, base, *key) for key in keys}
        done = beside(runner, base, runs, f"transfer, {name}")
        effects = {key: one.effect if one.stands else None for key, one in done.items()}
        found[name] = {
            one: outcome(*(effects[one, a] for a in amplitudes))
            for one in run.directions
        }
        counts = [*found[name].values()]
        report.add(name, {one: counts.count(one) for one in SIGNS}, len(counts))
        report.add(name, {"runs that fell": falls(done.values())}, len(done))
        if len(report.films) < 3:
            first = done[keys[0]]
            report.film(f"{first.run.name} on the {name}", first.run, first.plain.run)
    works = [d for d in run.directions if all(one[d] == BOTH for one in found.values())]
    for suffix, some in (("", run.directions), (", arms", run.arms)):
        n = sum(name in some for name in run.directions)
        report.add("all bases", {BOTH + suffix: sum(d in some for d in works)}, n)
    for direction in run.directions:
        for name, one in found.items():
            metric = f"signs that work on {name}"
            report.add(direction, {metric: SIGNS[one[direction]]})
    _add_charts(report, found)
    push_walks(report, seeds)
    everywhere = ", ".join(works) or "none"
    return report.findings(count=len(run.directions), everywhere=everywhere)


def _add_charts(report: Draft, found: dict[str, dict[str, str]]) -> None:
    """Outcomes by base beside the paper's, and signs that work by direction."""
    names = [*found]
    counted = []
    for kind in SIGNS:
        counts = [[*one.values()].count(kind) for one in found.values()]
        counted.append(Series.of(kind, range(len(names)), counts, names))
    known = {i: paper(NAME, name).get(BOTH) for i, name in enumerate(names)}
    known = {i: float(value) for i, value in known.items() if value}
    labels = [names[i] for i in known]
    counted.append(Series.of("both signs, paper", known, known.values(), labels))
    report.chart("counted", counted)
    each = [
        Series.of(name, range(len(one)), (SIGNS[kind] for kind in one.values()), one)
        for name, one in found.items()
    ]
    report.chart("each", each)


def draw_push(seed: int) -> tuple[int, np.ndarray]:
    """Step of a push, and the velocity (6,) that it adds to the root."""
    random, config = np.random.default_rng(seed), RandomizationConfig()
    width = np.array((*config.push_linear_m_s, *config.push_angular_rad_s))
    step = int(random.integers(GRID.pushes[0], GRID.pushes[1] + 1))
    return step, random.uniform(-width, width)


def push_walks(report: Draft, seeds: tuple[int, ...]) -> None:
    """Falls and speeds of pushed walks, with the right arm raised and without."""
    if not seeds:
        return
    runner, steps = report.runner, GRID.pushed_steps
    base, curve = runner.base("walk", steps), Knob("", 1.0, MARGIN_STEPS).curve(steps)
    change = runner.direction("right_arm", GRID.pushed_amplitude)
    runs = []
    for seed in seeds:
        steered = runner.steered(base, change, "right arm, pushed", curve, seed)
        for one in (steered, runner.plain(base, seed)):
            runs.append(replace(one, push=draw_push(seed)))
    executed = runner.execute(runs, "transfer, pushes")
    measured, series = slice(MARGIN_STEPS + RAMP_STEPS, steps + 1), []
    for name, some in (("steered", executed[::2]), ("unsteered", executed[1::2])):
        row = f"walk pushed, {name}"
        report.add(row, {"runs that fell": falls(some)}, len(some))
        standing = [one for one in some if one.stands]
        speeds = [measure(one.rows, measured)["speed"] for one in standing]
        if speeds:
            values = {"speed, lowest": min(speeds), "speed, highest": max(speeds)}
            report.add(row, values, len(speeds))
        series.append(Series.of(name, (one.run.seed or 0 for one in standing), speeds))
    report.chart("pushed", series)
    report.film("A push on the walk", runs[0], runs[1])

"""Does a direction work on other bases, and does a steered walk withstand a push?

What counts as working is the catalogue's rule (`catalogue.outcome`). Pushes come to a
steered and an unsteered walk alike, on robots drawn by seed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spectral_skills.control.batch import Runner
from spectral_skills.control.schedules import MARGIN_STEPS, RAMP_STEPS, Knob
from spectral_skills.experiments.catalogue import attempt, outcome
from spectral_skills.experiments.effects import effect, measure
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.synthetic.bases import BASES
from spectral_skills.tracking.randomization import RandomizationConfig

NAME = "transfer"
AMPLITUDE = 2.0
ARMS: list[str] = grid(NAME)["arms"]
DIRECTIONS: list[str] = ARMS + grid(NAME)["others"]
BOTH = "both signs"
SIGNS = {BOTH: 2, "one sign": 1, "weak": 0, "falls": 0}
"""Number of signs that work, by outcome."""
PUSHED_STEPS = 350
FIRST_PUSH, LAST_PUSH = 200, 290
"""Steps between which a push comes; a fall has time to show after the last."""
PUSHED_AMPLITUDE = 1.8


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    *,
    bases: Sequence[str] = BASES,
    directions: Sequence[str] = DIRECTIONS,
    steps: int = 400,
) -> Findings:
    """Every direction on every base without randomness; pushes once per seed."""
    report = Draft.begin(NAME, runner)
    found: dict[str, dict[str, str]] = {}
    for name in bases:
        base = runner.base(name, steps)
        signed = [(d, a) for d in directions for a in (AMPLITUDE, -AMPLITUDE)]
        runs = [runner.plain(base), *(attempt(runner, base, d, a) for d, a in signed)]
        plain, *steered = runner.execute(runs, f"{NAME}, {name}")
        signs = [effect(one, plain) if one.stands else None for one in steered]
        pairs = zip(directions, signs[::2], signs[1::2], strict=True)
        found[name] = {direction: outcome(*both) for direction, *both in pairs}
        counts = [*found[name].values()]
        for one in SIGNS:
            report.add(name, one, counts.count(one), "directions", len(directions))
        report.add(name, "runs that fell", signs.count(None), n=len(signs))
        if len(report.films) < 3:
            report.film(f"{runs[1].name} on the {name}", runs[1], runs[0])
    everywhere = [d for d in directions if all(found[b][d] == BOTH for b in bases)]
    for suffix, some in (("", directions), (", arms", ARMS)):
        works = sum(name in some for name in everywhere)
        n = sum(name in some for name in directions)
        report.add("all bases", BOTH + suffix, works, "directions", n)
    for direction in directions:
        for name, one in found.items():
            metric = f"signs that work on {name}"
            report.add(direction, metric, SIGNS[one[direction]])
    _add_charts(report, found)
    push_walks(report, seeds)
    listed = ", ".join(everywhere) or "none"
    return report.findings(count=len(directions), everywhere=listed)


def _add_charts(report: Draft, found: dict[str, dict[str, str]]) -> None:
    """Outcomes by base beside the paper's, and signs that work by direction."""
    names = [*found]
    counted = []
    for kind in SIGNS:
        counts = [[*one.values()].count(kind) for one in found.values()]
        counted.append(Series.of(kind, range(len(names)), counts, names))
    known = {i: paper(NAME, name, BOTH) for i, name in enumerate(names)}
    known = {i: float(value) for i, value in known.items() if value}
    labels = [names[i] for i in known]
    counted.append(Series.of("both signs, paper", known, known.values(), labels))
    each = [
        Series.of(name, range(len(one)), (SIGNS[kind] for kind in one.values()), one)
        for name, one in found.items()
    ]
    report.chart("counted", counted)
    report.chart("each", each)


def draw_push(seed: int) -> tuple[int, np.ndarray]:
    """Step of a push, and the velocity (6,) that it adds to the root."""
    random, config = np.random.default_rng(seed), RandomizationConfig()
    width = np.array((*config.push_linear_m_s, *config.push_angular_rad_s))
    return int(random.integers(FIRST_PUSH, LAST_PUSH + 1)), random.uniform(
        -width, width
    )


def push_walks(report: Draft, seeds: tuple[int, ...]) -> None:
    """Falls and speeds of pushed walks, with the right arm raised and without."""
    if not seeds:
        return
    runner, base = report.runner, report.runner.base("walk", PUSHED_STEPS)
    curve = Knob(0, 1.0, MARGIN_STEPS).curve(PUSHED_STEPS)
    change = runner.direction("right_arm_1", PUSHED_AMPLITUDE)
    runs = []
    for seed in seeds:
        steered = runner.steered(base, change, "right arm, pushed", curve, seed)
        for one in (steered, runner.plain(base, seed)):
            runs.append(replace(one, push=draw_push(seed)))
    executed = runner.execute(runs, f"{NAME}, pushes")
    measured, series = slice(MARGIN_STEPS + RAMP_STEPS, PUSHED_STEPS + 1), []
    for name, some in (("steered", executed[::2]), ("unsteered", executed[1::2])):
        row = f"walk pushed, {name}"
        report.add(row, "runs that fell", sum(not r.stands for r in some), n=len(some))
        speeds = {
            one.run.seed or 0: measure(one.rows, measured)["speed"]
            for one in some
            if one.stands
        }
        for how, of in (("lowest", min), ("highest", max)) if speeds else ():
            value, n = of(speeds.values()), len(speeds)
            report.add(row, f"speed, {how}", value, "m/s", n)
        series.append(Series.of(name, speeds, speeds.values()))
    report.chart("pushed", series)
    report.film("A push on the walk", runs[0], runs[1])

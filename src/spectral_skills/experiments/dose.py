"""Dose: how the effect grows with the amplitude, and how well it is predicted.

The slope of a knob is that of a line through the origin over the runs up to the linear
amplitude in which the robot stands. Predicted is the mean effect per unit that the
skill model gives over the contexts of the corpus, whatever the base.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from spectral_skills.control.batch import Runner
from spectral_skills.experiments.catalogue import AMPLITUDE
from spectral_skills.experiments.effects import (
    Steered,
    attempt,
    beside,
    effect,
    falls,
    hold,
    predicted,
)
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.motion.corpus import FPS
from spectral_skills.spectral.catalogue import (
    LOOSELY_PREDICTED,
    NOTICED,
    PREDICTED_BY,
    UNITS,
    Parts,
)
from spectral_skills.spectral.direction_file import Directions

NAME = "dose"
GRID = grid(NAME)


@dataclass(frozen=True)
class Dose:
    """A knob on a base: its own measure against signed amplitudes."""

    knob: str
    parts: Parts
    amplitudes: np.ndarray
    runs: list[Steered]
    effects: np.ndarray
    """(n,) effects, measured until the fall where there is one."""

    @property
    def stands(self) -> np.ndarray:
        """(n,) whether the robot stands."""
        return np.array([one.stands for one in self.runs])

    def line(self) -> tuple[float, float, int]:
        """Slope, R^2 and the number of runs behind them; of an unsteered robot that
        falls there is nothing to compare with."""
        near = self.stands & (np.abs(self.amplitudes) <= GRID.linear)
        near &= self.runs[0].plain.stands
        line = through_origin(self.amplitudes[near], self.effects[near])
        return *line, int(near.sum())


def through_origin(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of y = s x, and the share of the squares of y that it explains."""
    if not x.any() or not y.any():
        return math.nan, math.nan
    slope = float(x @ y / (x @ x))
    return slope, float(1.0 - np.square(y - slope * x).sum() / (y @ y))


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation about zero, not the means: signs of directions are arbitrary."""
    size = math.sqrt(float((x @ x) * (y @ y)))
    return float(x @ y) / size if size else math.nan


def leg_knob(directions: Directions) -> dict[str, Parts]:
    """The direction of a leg or of the feet that has the largest predicted gain."""
    short = [name.split(" ")[0] for name in directions.names]
    ours = [i for i, name in enumerate(short) if "leg" in name or "foot" in name]
    if not ours:
        return {}
    name = short[max(ours, key=lambda i: directions.gains[i])]
    sides = [side for side in ("left", "right") if name.startswith(side)]
    return {name: {f"{side}_apex": 1 for side in sides or ("left", "right")}}


def turn_up(
    runner: Runner,
    base_name: str,
    knobs: Mapping[str, Parts],
    amplitudes: Sequence[float],
    seed: int | None = None,
) -> list[Dose]:
    """Every knob at every amplitude, in both signs."""
    base, signed = (
        runner.base(base_name),
        sorted({a * s for a in amplitudes for s in (-1, 1)}),
    )
    runs = {
        (knob, a): attempt(runner, base, knob, a, seed)
        for knob, a in product(knobs, signed)
    }
    done = beside(runner, base, runs, f"doses on {base_name}", seed)
    doses = []
    for knob, parts in knobs.items():
        ours = [done[knob, a] for a in signed]
        effects = np.array([until_fall(one, hold(base), parts) for one in ours])
        doses.append(Dose(knob, parts, np.array(signed), ours, effects))
    return doses


def until_fall(one: Steered, steps: slice, parts: Parts) -> float:
    """Effect while both robots stand; none where that is less than a second."""
    ends = [steps.stop, one.executed.fell_at, one.plain.fell_at]
    end = min(end for end in ends if end is not None)
    if end - steps.start < FPS:
        return 0.0
    return effect(one.executed, one.plain, slice(steps.start, end)).along(parts)


def experiment(runner: Runner, seeds: tuple[int, ...] = (), **changes: Any) -> Findings:
    """Turn six knobs up and down on some bases, and compare the directions with what is
    predicted on the first."""
    run, report = grid(NAME, **changes), Draft(NAME, runner)
    knobs = run.knobs | leg_knob(runner.directions)
    fits: list[float] = []
    for base in run.bases:
        doses = turn_up(runner, base, knobs, run.amplitudes)
        _add_lines(report, base, doses)
        _add_curves(report, base, doses)
        # A film of the largest positive amplitude at which the robot stands.
        standing = [one for one in doses[0].runs if one.stands and "+" in one.run.name]
        for one in standing[-1:]:
            title = f"{one.run.name.replace('_', ' ')} on {base}"
            report.film(title, one.run, one.plain.run)
        fits += [fit for dose in doses if not math.isnan(fit := dose.line()[1])]
        for seed in seeds:
            again = turn_up(runner, base, knobs, run.amplitudes, seed)
            _add_lines(report, base, again, seed)
    compare(report, run.bases[0], run.compared)
    counts = {"straight": sum(fit >= 0.9 for fit in fits), "fits": len(fits)}
    return report.findings(linear=run.linear, base=run.bases[0], **counts)


def _add_lines(
    report: Draft, base: str, doses: list[Dose], seed: int | None = None
) -> None:
    """Slopes beside the predicted ones, and falls."""
    runner = report.runner
    known = predicted(runner.directions, hold(runner.base(base)))
    suffix = "" if seed is None else f", seed {seed}"
    for dose in doses:
        k = runner.directions.index(dose.knob)
        expected: list = [
            math.nan if part in LOOSELY_PREDICTED else sign * known[part][k]
            for part, sign in dose.parts.items()
        ]
        unit = f"{UNITS[next(iter(dose.parts))]} per unit"
        row = f"{dose.knob} on {base}{suffix}: {' and '.join(dose.parts)}"
        row, (slope, fit, n) = row.replace("_", " "), dose.line()
        report.add(row, {"slope": slope}, n, seed=seed, unit=unit)
        report.add(row, {"R^2": fit}, n, seed=seed)
        contexts, mean = (
            runner.directions.contexts,
            {"predicted slope": np.mean(expected)},
        )
        report.add(row, mean, contexts, seed=seed, unit=unit)
        report.add(row, {"falls": falls(dose.runs)}, len(dose.runs), seed=seed)


def _add_curves(report: Draft, base: str, doses: list[Dose]) -> None:
    """All knobs of a base in one chart."""
    series = []
    for dose in doses:
        x, y = np.append(dose.amplitudes, 0.0), np.append(dose.effects, 0.0)
        marks = np.append(np.where(dose.stands, "", "fall"), "")
        order, y = x.argsort(), y / NOTICED[next(iter(dose.parts))]
        points = x[order], y[order], marks[order].tolist()
        series.append(Series.of(dose.knob.replace("_", " "), *points))
    report.chart("curves", series, base=base)


def compare(report: Draft, base_name: str, names: Sequence[str] = ()) -> None:
    """Executed change per unit of many directions against the predicted one."""
    runner, directions = report.runner, report.runner.directions
    base = runner.base(base_name)
    chosen = [directions.index(name) for name in names or directions.names]
    runs = {
        (i, sign): attempt(runner, base, directions.names[i], sign * AMPLITUDE)
        for i, sign in product(chosen, (1, -1))
    }
    done = beside(runner, base, runs, "predicted and executed")
    both = {i: (done[i, 1], done[i, -1]) for i in chosen}
    both = {i: pair for i, pair in both.items() if not falls(pair)}
    known, series = predicted(directions, hold(base)), []
    for measure in PREDICTED_BY:
        x = known[measure][[*both]].astype(float)
        signs = [
            [one.effect.changes[measure] for one in pair] for pair in both.values()
        ]
        y = np.array([(up - down) / 2 for up, down in signs]) / AMPLITUDE
        name, loose = measure.replace("_", " "), measure in LOOSELY_PREDICTED
        values = {
            "predicted and executed, correlation": correlation(x, y),
            "executed over predicted": None if loose else through_origin(x, y)[0],
        }
        report.add(f"{name} of directions on {base_name}", values, len(both))
        x, y = (v * AMPLITUDE / NOTICED[measure] for v in (x, y))
        series.append(Series.of(name, x, y))
    report.chart("predicted", series, base=base_name, amplitude=AMPLITUDE)

"""Dose: how the effect grows with the amplitude, and how well it is predicted.

The slope of a knob is that of a line through the origin over the runs up to `LINEAR` in
which the robot stands. Predicted is the mean effect per unit that the skill model gives
over the contexts of the corpus, whatever the base.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.experiments.catalogue import AMPLITUDE, attempt
from spectral_skills.experiments.effects import effect, hold, predicted
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
AMPLITUDES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
LINEAR = 2.0
BASES = ("walk", "stand", "squat")
DOSE_KNOBS: dict[str, Parts] = grid(NAME)["knobs"]


@dataclass(frozen=True)
class Dose:
    """A knob on a base: its own measure against signed amplitudes."""

    knob: str
    parts: Parts
    amplitudes: np.ndarray
    runs: list[Executed]
    effects: np.ndarray
    """(n,) effects, measured until the fall where there is one."""
    plain_stands: bool = True
    """Whether the unsteered robot stands; else there is nothing to compare with."""

    @property
    def stands(self) -> np.ndarray:
        """(n,) whether the robot stands."""
        return np.array([one.stands for one in self.runs])

    def line(self) -> tuple[float, float, int]:
        """Slope, R^2 and the number of runs behind them."""
        near = self.stands & (np.abs(self.amplitudes) <= LINEAR) & self.plain_stands
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
    base = runner.base(base_name)
    signed = sorted([-a for a in amplitudes] + [*amplitudes])
    runs = [runner.plain(base, seed)]
    runs += [attempt(runner, base, knob, a, seed) for knob in knobs for a in signed]
    plain, *made = runner.execute(runs, f"doses on {base_name}")
    doses = []
    for i, (knob, parts) in enumerate(knobs.items()):
        ours = made[i * len(signed) : (i + 1) * len(signed)]
        effects = np.array([until_fall(one, plain, hold(base), parts) for one in ours])
        about = (knob, parts, np.array(signed), ours, effects, plain.stands)
        doses.append(Dose(*about))
    return doses


def until_fall(one: Executed, plain: Executed, steps: slice, parts: Parts) -> float:
    """Effect while both robots stand; none where that is less than a second."""
    ends = [end for end in (steps.stop, one.fell_at, plain.fell_at) if end is not None]
    if min(ends) - steps.start < FPS:
        return 0.0
    return effect(one, plain, slice(steps.start, min(ends))).along(parts)


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    bases: tuple[str, ...] = BASES,
    amplitudes: tuple[float, ...] = AMPLITUDES,
    compared: Sequence[str] | None = None,
) -> Findings:
    """Turn six knobs up and down on some bases.

    On the first base, all directions or some of them are compared with what is
    predicted.
    """
    report = Draft.begin(NAME, runner)
    knobs = DOSE_KNOBS | leg_knob(runner.directions)
    fits: list[float] = []
    for base in bases:
        doses = turn_up(runner, base, knobs, amplitudes)
        _add_lines(report, base, doses)
        _add_curves(report, base, doses)
        # A film of the largest positive amplitude at which the robot stands.
        standing = [one for one in doses[0].runs if one.stands and "+" in one.run.name]
        if standing:
            run, plain = standing[-1].run, runner.plain(runner.base(base))
            report.film(f"{run.name.replace('_', ' ')} on {base}", run, plain)
        fits += [fit for dose in doses if not math.isnan(fit := dose.line()[1])]
        for seed in seeds:
            again = turn_up(runner, base, knobs, amplitudes, seed)
            _add_lines(report, base, again, seed)
    compare(report, bases[0], compared)
    straight = sum(fit >= 0.9 for fit in fits)
    counts = {"straight": straight, "fits": len(fits)}
    return report.findings(linear=LINEAR, base=bases[0], **counts)


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
        slope, fit, n = dose.line()
        fallen, contexts = int((~dose.stands).sum()), runner.directions.contexts
        for metric, value, units, count in (
            ("slope", slope, unit, n),
            ("R^2", fit, "", n),
            ("predicted slope", float(np.mean(expected)), unit, contexts),
            ("falls", fallen, "runs", len(dose.runs)),
        ):
            if not math.isnan(value):
                report.add(row.replace("_", " "), metric, value, units, count, seed)


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


def compare(report: Draft, base_name: str, names: Sequence[str] | None = None) -> None:
    """Executed change per unit of many directions against the predicted one."""
    runner, directions = report.runner, report.runner.directions
    base = runner.base(base_name)
    chosen = [directions.index(name) for name in names or directions.names]
    runs = [runner.plain(base)]
    for i in chosen:
        for sign in (1, -1):
            runs.append(attempt(runner, base, directions.names[i], sign * AMPLITUDE))
    plain, *made = runner.execute(runs, "predicted and executed")
    pairs = zip(chosen, made[::2], made[1::2], strict=True)
    both = [(i, up, down) for i, up, down in pairs if up.stands and down.stands]
    effects = [(effect(up, plain), effect(down, plain)) for _, up, down in both]
    known, kept = predicted(directions, hold(base)), [i for i, _, _ in both]
    series = []
    for measure in PREDICTED_BY:
        x = known[measure][kept].astype(float)
        halves = [(a.changes[measure] - b.changes[measure]) / 2 for a, b in effects]
        y = np.array(halves) / AMPLITUDE
        row = f"{measure.replace('_', ' ')} of directions on {base_name}"
        loose = measure in LOOSELY_PREDICTED
        ratio = math.nan if loose else through_origin(x, y)[0]
        for metric, value in (
            ("predicted and executed, correlation", correlation(x, y)),
            ("executed over predicted", ratio),
        ):
            if not math.isnan(value):
                report.add(row, metric, value, n=len(kept))
        x, y = (v * AMPLITUDE / NOTICED[measure] for v in (x, y))
        series.append(Series.of(measure.replace("_", " "), x, y))
    report.chart("predicted", series, base=base_name, amplitude=AMPLITUDE)

"""How linear effects are: against the amplitude, and when directions are added.

Dose: the slope of a knob is that of a line through the origin over the runs up to the
linear amplitude in which the robot stands. Predicted is the mean effect per unit that
the skill model gives over the contexts of the corpus, whatever the base.

Additivity: pairs and triples held together against the sum of each alone, and four
directions one after the other, at most three at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from spectral_skills.control.batch import Runner
from spectral_skills.control.steering import Knob
from spectral_skills.experiments.catalogue import AMPLITUDE
from spectral_skills.experiments.effects import (
    Effect,
    Steered,
    attempt,
    beside,
    effect,
    falls,
    headings,
    hold,
    predicted,
)
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.corpus import FPS
from spectral_skills.spectral.catalogue import (
    LOOSELY_PREDICTED,
    NOTICED,
    PREDICTED_BY,
    UNITS,
    Parts,
)
from spectral_skills.spectral.direction_file import Directions

DOSE, SUMS = grid("dose"), grid("additivity")
Combination = tuple[str, ...]


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
        near = self.stands & (np.abs(self.amplitudes) <= DOSE.linear)
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
    base = runner.base(base_name)
    signed = sorted({a * s for a in amplitudes for s in (-1, 1)})
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


def dose(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    others: Sequence[Directions] = (),
    **changes: Any,
) -> Findings:
    """Turn six knobs up and down on some bases, and compare the directions with what is
    predicted on the first, by their own file and by `others` of the same skills, found
    at other noise levels."""
    run, report = grid("dose", **changes), Draft("dose", runner)
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
    compare(report, run.bases[0], run.compared, others)
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
        mean = {"predicted slope": np.mean(expected)}
        report.add(row, mean, runner.directions.contexts, seed=seed, unit=unit)
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


def compare(
    report: Draft,
    base_name: str,
    names: Sequence[str] = (),
    others: Sequence[Directions] = (),
) -> None:
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
    vectors, series = directions.vectors[[*both]], []
    signs = [[one.effect.changes for one in pair] for pair in both.values()]
    for file in (directions, *others):
        if file.encoder != directions.encoder:
            raise ValueError(
                f"directions of the encoder {file.encoder} say nothing about skills of "
                f"{directions.encoder}"
            )
        known = predicted(file, hold(base), vectors)
        suffix = "" if file is directions else f", level {file.level}"
        for measure in PREDICTED_BY:
            x = known[measure].astype(float)
            y = np.array([(up[measure] - down[measure]) / 2 for up, down in signs])
            y, name = y / AMPLITUDE, measure.replace("_", " ")
            loose = measure in LOOSELY_PREDICTED
            values = {
                "predicted and executed, correlation": correlation(x, y),
                "executed over predicted": None if loose else through_origin(x, y)[0],
            }
            row = f"{name} of directions on {base_name}{suffix}"
            report.add(row, values, len(both))
            if file is directions:
                x, y = (v * AMPLITUDE / NOTICED[measure] for v in (x, y))
                series.append(Series.of(name, x, y))
    report.chart("predicted", series, base=base_name, amplitude=AMPLITUDE)


@dataclass(frozen=True)
class Sum:
    """A combination that stands, and its parts alone."""

    base: str
    names: Combination
    together: Effect
    alone: tuple[Effect, ...]

    @property
    def label(self) -> str:
        return f"{self.base}: {' + '.join(self.names)}"

    @property
    def pose(self) -> np.ndarray:
        """(29,) sum of the changes of the mean joint angles, rad."""
        return np.sum([one.pose for one in self.alone], axis=0)

    @property
    def values(self) -> dict[str, float]:
        """Cosine between what was done and the sum, size as a share of the sum's, and
        both headings."""
        done, pose = self.together.pose, self.pose
        return {
            "cosine": cosine(done, pose),
            "size": float(np.linalg.norm(done) / np.linalg.norm(pose)),
            "heading": self.together.changes["heading"],
            "heading of the sum": sum(one.changes["heading"] for one in self.alone),
        }


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two patterns; 0 where one of them is zero."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else 0.0


def additivity(runner: Runner, seeds: tuple[int, ...] = (), **changes: Any) -> Findings:
    """Every combination on every base, once without randomness and once per seed."""
    run, report = grid("additivity", **changes), Draft("additivity", runner)
    combinations = [tuple(names) for names in run.combinations]
    alone = dict.fromkeys((name,) for names in combinations for name in names)
    sums: list[Sum] = []
    for name in run.bases:
        base = runner.base(name, run.steps)
        for seed in (None, *seeds):
            runs = {}
            for names in (*alone, *combinations):
                parts = [runner.direction(*SUMS.knobs[one]) for one in names]
                change = np.sum(parts, axis=0)
                runs[names] = runner.steered(base, change, " + ".join(names), seed=seed)
            steered = beside(runner, base, runs, f"additivity, {name}", seed)
            found = combined(name, steered, combinations)
            _add_summary(report, name, seed, found, steered)
            if seed is not None:
                continue
            sums += found
            for one in found:
                report.add(one.label, one.values)
            if found and len(report.films) < 2:
                most = max(found, key=lambda one: len(one.names))
                shown = steered[most.names]
                report.film(most.label, shown.run, shown.plain.run)
    _add_sums(report, run.bases, sums)
    overlap(report, run.overlap_steps)
    reached = sum(one.values["cosine"] >= run.goal for one in sums)
    sizes = {one.label: one.values["size"] for one in sums}
    # Where no combination stands together with all its parts there is no farthest.
    far = max(sizes, key=lambda label: abs(np.log(sizes[label])), default=None)
    label = f"{far} with {sizes[far]:.2f} of it" if far else "none"
    return report.findings(reached=reached, count=len(sums), goal=run.goal, far=label)


def combined(
    base: str,
    steered: Mapping[Combination, Steered],
    combinations: Sequence[Combination],
) -> list[Sum]:
    """Combinations that stand, and whose parts and unsteered robot stand too."""
    found = []
    for names in combinations:
        together, alone = steered[names], [steered[(name,)] for name in names]
        if not falls((together, together.plain, *alone)):
            effects = tuple(one.effect for one in alone)
            found.append(Sum(base, names, together.effect, effects))
    return found


def _add_summary(
    report: Draft,
    base: str,
    seed: int | None,
    sums: list[Sum],
    steered: Mapping[Combination, Steered],
) -> None:
    row = f"{base}: all" if seed is None else f"{base}: all, seed {seed}"
    runs = [next(iter(steered.values())).plain, *steered.values()]
    report.add(row, {"runs that fell": falls(runs)}, len(runs), seed=seed)
    for count, kind in ((2, "pairs"), (3, "triples")):
        cosines = [one.values["cosine"] for one in sums if len(one.names) == count]
        if cosines:
            values = {
                f"{kind}: lowest cosine": np.min(cosines),
                f"{kind}: median cosine": np.median(cosines),
            }
            known = {"seed": seed, "papers": paper("additivity", "all")}
            report.add(row, values, len(cosines), **known)


def _add_sums(report: Draft, bases: Sequence[str], sums: list[Sum]) -> None:
    for base in bases:
        joints = [
            Series.of(" + ".join(one.names), one.pose, one.together.pose)
            for one in sums
            if one.base == base
        ]
        report.chart("joints", joints, base=base)
    places, labels = range(len(sums)), [one.label for one in sums]
    bars = [
        Series.of(name, places, (one.values[metric] for one in sums), labels)
        for name, metric in (("together", "heading"), ("sum", "heading of the sum"))
    ]
    report.chart("headings", bars)


def overlap_curves(steps: int) -> dict[str, np.ndarray]:
    """(steps,) share of full amplitude of each knob of the overlap."""
    return {
        name: Knob("", 1.0, round(begin * steps), round(end * steps)).curve(steps)
        for name, (begin, end) in SUMS.overlap.items()
    }


def overlap(report: Draft, steps: int) -> None:
    """Four directions in turn on the walk, and each alone in its own time: does the
    turn arrive?"""
    row, runner = "walk: four directions in turn", report.runner
    base = runner.base("walk", steps)
    changes = {
        name: curve[:, None] * runner.direction(*SUMS.knobs[name])
        for name, curve in overlap_curves(steps).items()
    }
    changes = {"four directions": np.sum([*changes.values()], axis=0)} | changes
    runs = {name: runner.steered(base, c, name) for name, c in changes.items()}
    done = beside(runner, base, runs, "additivity, overlap")
    four, turn = done["four directions"], done["turn left"]
    executed = [four.plain, *(one.executed for one in done.values())]
    usual, *turned = (np.degrees(headings(one.rows)) for one in executed)
    turned = [one - one[0] - (usual - usual[0]) for one in turned]
    curves = {
        "all four": turned[0],
        "turn alone": turned[list(changes).index("turn left")],
        "sum of the four alone": np.sum(turned[1:], axis=0),
    }
    report.add(row, {"runs that fell": falls(executed)}, len(executed))
    if not falls(executed):  # The heading of a robot on the ground means nothing.
        begin, end = (round(share * steps) for share in SUMS.overlap["turn left"])
        whiles = "while turning", "of the turn alone", "of the sum"
        ways = zip(whiles, curves.values(), strict=True)
        report.add(row, {f"heading {m}": way[end] - way[begin] for m, way in ways})
    time_s = (np.arange(steps + 1) / FPS)[::10]
    series = [Series.of(name, time_s, curve[::10]) for name, curve in curves.items()]
    report.chart("overlap", series)
    shown = {"all four": four.executed, "turn alone": turn.executed}
    paths = [
        Series.of(name, *one.rows[: one.fell_at : 10, :2].T)
        for name, one in {**shown, "unsteered": four.plain}.items()
    ]
    report.chart("path", paths)
    report.film(row, four.run, four.plain.run)

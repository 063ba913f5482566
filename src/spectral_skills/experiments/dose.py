"""Dose: how the effect grows with the amplitude, and how well it is foretold.

The slope of a knob is that of a line through no effect at no amplitude, over the runs
up to `LINEAR` in which the robot stands. What is foretold is the mean effect per unit
that the predictor gives over the contexts of the corpus, whatever the base.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.experiments.composition.foretold import (
    ALIKE,
    compare,
    foretold,
    through_origin,
)
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.survey import attempt
from spectral_skills.experiments.effects import (
    NOTICED,
    UNITS,
    effect,
)
from spectral_skills.experiments.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.motion.corpus import FPS
from spectral_skills.results import Result
from spectral_skills.spectral.direction_file import Directions

AMPLITUDES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
LINEAR = 2.0
BASES = ("walk", "stand", "squat")
Parts = Mapping[str, int]
"""Measures of a knob, each with the sign in which the knob moves it."""
KNOBS: dict[str, Parts] = {
    "right_arm_1": {"right_shoulder_pitch": -1},
    "left_arm_1": {"left_shoulder_pitch": -1},
    "turn": {"heading": 1},
    "speed": {"speed": 1},
    "spread": {"left_shoulder_roll": 1, "right_shoulder_roll": -1},
}
"""By direction; one of a leg or of the feet is added."""


@dataclass(frozen=True)
class Dose:
    """A knob on a base: its own measure against signed amplitudes."""

    knob: str
    parts: Parts
    amplitudes: np.ndarray
    runs: list[Executed]
    effects: np.ndarray
    """Until the fall, where there is one."""
    plain_stands: bool = True
    """Whether the unsteered robot does: else there is nothing to compare with."""

    @property
    def stands(self) -> np.ndarray:
        """(n,) whether the robot does."""
        return np.array([one.stands for one in self.runs])

    def line(self) -> tuple[float, float, int]:
        """Slope, R^2 and the number of runs that decide them."""
        near = self.stands & (np.abs(self.amplitudes) <= LINEAR) & self.plain_stands
        line = through_origin(self.amplitudes[near], self.effects[near])
        return *line, int(near.sum())


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (),
    *,
    bases: tuple[str, ...] = BASES,
    amplitudes: tuple[float, ...] = AMPLITUDES,
    compared: Sequence[str] | None = None,
) -> Findings:
    """Turn six knobs up and down on some bases.

    On the first one, all directions or some are compared with what is foretold of
    them.
    """
    knobs = KNOBS | leg_knob(lab.directions)
    results: list[Result] = []
    charts: list[Chart] = []
    films: list[Film] = []
    fits: list[float] = []
    for base in bases:
        doses = turn_up(lab, base, knobs, amplitudes)
        results += _lines(lab, base, doses)
        charts.append(_curves(base, doses))
        films += _film(lab, base, doses[0])
        fits += [fit for dose in doses if not math.isnan(fit := dose.line()[1])]
        for seed in seeds:
            again = turn_up(lab, base, knobs, amplitudes, seed)
            results += _lines(lab, base, again, seed)
    cells, chart = compare(lab, "dose", bases[0], compared)
    straight = sum(fit >= 0.9 for fit in fits)
    return Findings(
        "dose",
        "Effect against amplitude",
        (*results, *cells),
        (*charts, chart),
        tuple(films),
        f"Up to {LINEAR:g}, a line through zero explains at least 90 % of the effect "
        f"in {straight} of {len(fits)} knobs and bases. The paper draws the change of "
        "the targeted joints; here it is the measure that a knob is for. What is "
        "foretold is a mean over the corpus at the predictor's short horizon; the "
        f"robot is measured for longer, and on one base ({bases[0]}).",
    )


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
    lab: Lab,
    base_name: str,
    knobs: Mapping[str, Parts],
    amplitudes: Sequence[float],
    seed: int | None = None,
) -> list[Dose]:
    """Every knob at every amplitude, in both signs."""
    base, signed = lab.base(base_name), sorted([-a for a in amplitudes] + [*amplitudes])
    runs = [attempt(lab, base, knob, a, seed) for knob in knobs for a in signed]
    told = f"doses on {base_name}"
    plain, *made = lab.execute([lab.plain(base, seed), *runs], told)
    doses = []
    for i, (knob, parts) in enumerate(knobs.items()):
        ours = made[i * len(signed) : (i + 1) * len(signed)]
        effects = [until_fall(one, plain, lab.hold(base), parts) for one in ours]
        doses.append(
            Dose(
                *(knob, parts, np.array(signed), ours, np.array(effects)),
                plain_stands=plain.stands,
            )
        )
    return doses


def until_fall(one: Executed, plain: Executed, hold: slice, parts: Parts) -> float:
    """Effect while both robots stand; none where that is less than a second."""
    ends = [end for end in (hold.stop, one.fell_at, plain.fell_at) if end is not None]
    if min(ends) - hold.start < FPS:
        return 0.0
    return effect(one.rows, plain.rows, slice(hold.start, min(ends))).along(parts)


def _lines(
    lab: Lab, base: str, doses: list[Dose], seed: int | None = None
) -> list[Result]:
    """Slopes beside what is foretold, and falls."""
    predicted = foretold(lab.directions, lab.hold(lab.base(base)))
    told = "" if seed is None else f", seed {seed}"
    cells = []
    for dose in doses:
        k = lab.directions.index(dose.knob)
        expected = [
            math.nan if part in ALIKE else sign * predicted[part][k]
            for part, sign in dose.parts.items()
        ]
        per_unit = f"{UNITS[next(iter(dose.parts))]} per unit"
        row = f"{dose.knob} on {base}{told}: {' and '.join(dose.parts)}"
        slope, fit, n = dose.line()
        fallen = int((~dose.stands).sum())
        foreseen, contexts = float(np.mean(expected)), lab.directions.contexts
        for metric, value, unit, count in (
            ("slope", slope, per_unit, n),
            ("R^2", fit, "", n),
            ("predicted slope", foreseen, per_unit, contexts),
            ("falls", fallen, "runs", len(dose.runs)),
        ):
            if not math.isnan(value):
                cells.append(
                    lab.cell(
                        *("dose", row.replace("_", " "), metric, value, unit),
                        n=count,
                        seed=seed or 0,
                    )
                )
    return cells


def _curves(base: str, doses: list[Dose]) -> Chart:
    """All knobs of a base in one chart."""
    series = []
    for dose in doses:
        x, y = np.append(dose.amplitudes, 0.0), np.append(dose.effects, 0.0)
        marks = np.append(np.where(dose.stands, "", "fall"), "")
        order, y = x.argsort(), y / NOTICED[next(iter(dose.parts))]
        x, y, marks = (tuple(values[order].tolist()) for values in (x, y, marks))
        series.append(Series(dose.knob.replace("_", " "), x, y, marks))
    return Chart(
        f"Dose on {base}",
        "line",
        "amplitude",
        "change, in smallest changes that one notices",
        tuple(series),
        "Each knob by its own measure. Marked: the robot falls, measured until then.",
    )


def _film(lab: Lab, base_name: str, dose: Dose) -> list[Film]:
    """The largest amplitude at which the robot stands."""
    standing = [one for one in dose.runs if one.stands and one.run.name.count("+")]
    plain = lab.record(lab.plain(lab.base(base_name)))
    run = lab.record(standing[-1].run) if standing else None
    if run is None or plain is None:
        return []
    title = f"{standing[-1].run.name.replace('_', ' ')} on {base_name}"
    return [Film(title, run.name, plain.name)]

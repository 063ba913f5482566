"""How well the predictor foretells the robot: predicted and executed effects."""

import math
from collections.abc import Sequence

import numpy as np

from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.composition.survey import AMPLITUDE, attempt
from spectral_skills.experiments.effects import NOTICED, SHOULDERS
from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.motion.corpus import FPS
from spectral_skills.results import Result
from spectral_skills.spectral.direction_file import Directions

FORETOLD: dict[str, str] = {
    **{name: name for name in SHOULDERS},
    "heading": "yaw_rate",
    "speed": "forward_speed",
    "root_height": "root_height",
    "left_apex": "left_foot_height",
    "right_apex": "right_foot_height",
}
"""Measures, and the attribute that foretells each."""
ALIKE = ("left_apex", "right_apex")
"""Foretold by another quantity, a foot's mean height: sizes are not to be compared."""


def foretold(directions: Directions, hold: slice) -> dict[str, np.ndarray]:
    """(k,) predicted change of each measure per unit of every direction."""
    found = {
        measure: directions.effect_mean[:, directions.attributes.index(attribute)]
        for measure, attribute in FORETOLD.items()
    }
    seconds = (hold.stop - hold.start - 1) / FPS
    return found | {"heading": np.degrees(found["heading"]) * seconds}


def compare(
    lab: Lab, experiment: str, base_name: str, names: Sequence[str] | None = None
) -> tuple[list[Result], Chart]:
    """Executed change per unit of many directions against the predicted one."""
    base, directions = lab.base(base_name), lab.directions
    chosen = [directions.index(name) for name in names or directions.names]
    runs = [
        attempt(lab, base, directions.names[i], sign * AMPLITUDE)
        for i in chosen
        for sign in (1, -1)
    ]
    plain, *made = lab.execute([lab.plain(base), *runs], "predicted and executed")
    up, down = made[::2], made[1::2]
    both = [i for i in range(len(chosen)) if up[i].stands and down[i].stands]
    pairs = [(lab.effect(up[i], plain), lab.effect(down[i], plain)) for i in both]
    predicted = foretold(directions, lab.hold(base))
    kept = [chosen[i] for i in both]
    cells, series = [], []
    for measure in FORETOLD:
        x = predicted[measure][kept].astype(float)
        halves = [(a.changes[measure] - b.changes[measure]) / 2 for a, b in pairs]
        y = np.array(halves) / AMPLITUDE
        row = f"{measure.replace('_', ' ')} of directions on {base_name}"
        ratio = math.nan if measure in ALIKE else through_origin(x, y)[0]
        for metric, value in (
            ("predicted and executed, correlation", correlation(x, y)),
            ("executed over predicted", ratio),
        ):
            if not math.isnan(value):
                cells.append(lab.cell(experiment, row, metric, value, n=len(kept)))
        x, y = (v * AMPLITUDE / NOTICED[measure] for v in (x, y))
        points = tuple(x.tolist()), tuple(y.tolist())
        series.append(Series(measure.replace("_", " "), *points))
    chart = Chart(
        f"Predicted and executed effect on {base_name}, a = {AMPLITUDE:g}",
        "scatter",
        "predicted change, in smallest changes that one notices",
        "executed change, in the same",
        tuple(series),
        "A point is a direction and a measure: half the difference of the two signs.",
    )
    return cells, chart


def through_origin(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of y = s x, and the share of the squares of y that it explains."""
    if not x.any() or not y.any():
        return math.nan, math.nan
    slope = float(x @ y / (x @ x))
    return slope, float(1.0 - np.square(y - slope * x).sum() / (y @ y))


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """About zero, not about the means: the sign of a direction is arbitrary."""
    size = math.sqrt(float((x @ x) * (y @ y)))
    return float(x @ y) / size if size else math.nan

"""A steered and an unsteered walk under the same push, on robots drawn by seed."""

from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.control.schedules import MARGIN_STEPS, RAMP_STEPS, Knob
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import measure
from spectral_skills.experiments.findings import Chart, Film, Series
from spectral_skills.results import Result
from spectral_skills.tracking.randomization import RandomizationConfig

STEPS = 350
FIRST, LAST = 200, 290
"""Steps between which the push comes; a fall has time to show after the last."""
AMPLITUDE = 1.8
NOTE = (
    "Pushes come between 4 and 5.8 s; runs last 7 s instead of 6, so that a fall after "
    "the last push would be seen, and are steered to their end."
)
_MEASURED = slice(MARGIN_STEPS + RAMP_STEPS, STEPS + 1)
_PAPER = {"steered": "0.76 to 0.80", "unsteered": "0.69 to 0.73"}


@dataclass(frozen=True)
class Pushed:
    """What became of the walks."""

    results: list[Result]
    charts: list[Chart]
    films: list[Film]


def draw(seed: int) -> tuple[int, np.ndarray]:
    """Step of a push, and the velocity (6,) that it gives to the root."""
    random, config = np.random.default_rng(seed), RandomizationConfig()
    width = np.array((*config.push_linear_m_s, *config.push_angular_rad_s))
    return int(random.integers(FIRST, LAST + 1)), random.uniform(-width, width)


def walk(lab: Lab, experiment: str, seeds: tuple[int, ...]) -> Pushed:
    """Falls and speeds with the right arm raised and without."""
    base = lab.base("walk", STEPS)
    curve = Knob(0, 1.0, MARGIN_STEPS).curve(STEPS)
    change = lab.direction("right_arm_1", AMPLITUDE)
    runs = []
    for seed in seeds:
        steered = lab.steered(base, change, "right arm, pushed", curve, seed)
        for one in (steered, lab.plain(base, seed)):
            runs.append(replace(one, push=draw(seed)))
    executed = lab.execute(runs, f"{experiment}, pushes")
    both = {"steered": executed[::2], "unsteered": executed[1::2]}
    results, series = [], []
    for name, some in both.items():
        row = f"walk pushed, {name}"
        fallen = sum(not one.stands for one in some)
        paper = "0" if name == "steered" else ""
        if some:
            results.append(
                lab.cell(
                    experiment, row, "runs that fell", fallen, "", len(some), paper
                )
            )
        speeds = {one.run.seed: speed(one) for one in some if one.stands}
        for how, of in (("lowest", min), ("highest", max)):
            if speeds:
                value, n = of(speeds.values()), len(speeds)
                metric = f"speed, {how}"
                results.append(
                    lab.cell(experiment, row, metric, value, "m/s", n, _PAPER[name])
                )
        x = tuple(float(seed or 0) for seed in speeds)
        series.append(Series(name, x, tuple(speeds.values())))
    chart = Chart("Pushed walks", "bar", "seed", "speed (m/s)", tuple(series))
    films = []
    if runs and (run := lab.record(runs[0])) and (other := lab.record(runs[1])):
        films.append(Film("A push on the walk", run.name, other.name))
    return Pushed(results, [chart] if runs else [], films)


def speed(executed: Executed) -> float:
    """Along the path while steered in full, m/s."""
    return measure(executed.rows, _MEASURED)["speed"]

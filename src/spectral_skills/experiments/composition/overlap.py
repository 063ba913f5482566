"""Four directions one after the other, at most three at once: does the turn arrive?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.schedules import Knob
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import headings
from spectral_skills.experiments.findings import Chart, Film, Series
from spectral_skills.motion.corpus import FPS
from spectral_skills.results import Result

STEPS = 500
SHARES = {
    "left arm": (0.08, 0.44),
    "right arm": (0.20, 0.60),
    "turn left": (0.32, 0.72),
    "faster": (0.52, 0.92),
}
"""When each is on, as shares of the run."""
_ROW = "walk: four directions in turn"


@dataclass(frozen=True)
class Overlap:
    """What became of the schedule."""

    results: list[Result]
    charts: tuple[Chart, Chart]
    films: list[Film]


def curves(steps: int) -> dict[str, np.ndarray]:
    """(steps,) share of full amplitude of each knob."""
    return {
        name: Knob(0, 1.0, round(begin * steps), round(end * steps)).curve(steps)
        for name, (begin, end) in SHARES.items()
    }


def four_directions(
    lab: Lab, knobs: Mapping[str, tuple[str, float]], experiment: str, steps: int
) -> Overlap:
    """All four on the walk, and each alone in its own time."""
    base, plain = lab.base("walk", steps), lab.plain(lab.base("walk", steps))
    changes = {
        name: curve[:, None] * lab.direction(*knobs[name])
        for name, curve in curves(steps).items()
    }
    whole = np.sum(list(changes.values()), axis=0)
    together = lab.steered(base, whole, "four directions")
    alone = [lab.steered(base, change, name) for name, change in changes.items()]
    executed = lab.execute([plain, together, *alone], f"{experiment}, overlap")
    turned = [np.degrees(headings(one.rows)) for one in executed]
    turned = [one - one[0] - (turned[0] - turned[0][0]) for one in turned]
    _, done, *singles = turned
    summed = np.sum(singles, axis=0)
    at = list(changes).index("turn left")
    turn = singles[at]
    begin, end = (round(share * steps) for share in SHARES["turn left"])

    def cell(metric: str, value: float, unit: str, paper: str = "") -> Result:
        return lab.cell(experiment, _ROW, metric, value, unit, paper=paper)

    fallen = sum(not one.stands for one in executed)
    row = (experiment, _ROW, "runs that fell", fallen)
    results = [lab.cell(*row, n=len(executed))]
    # Of a robot on the ground no heading tells anything.
    if all(one.stands for one in executed):
        gained = {
            name: float(curve[end] - curve[begin])
            for name, curve in (("all", done), ("sum", summed), ("turn", turn))
        }
        results += [
            cell("heading while turning", gained["all"], "deg", "15"),
            cell("heading of the turn alone", gained["turn"], "deg", "85"),
            cell("heading of the sum", gained["sum"], "deg"),
        ]
    names = {"all four": done, "turn alone": turn, "sum of the four alone": summed}
    time_s = tuple((np.arange(steps + 1) / FPS)[::10].tolist())
    series = tuple(
        Series(name, time_s, tuple(curve[::10].tolist()))
        for name, curve in names.items()
    )
    told = "Heading beyond the unsteered walk's, four directions partly at once"
    chart = Chart(told, "line", "time (s)", "heading (deg)", series)
    shown = {"all four": 1, "turn alone": 2 + at, "unsteered": 0}
    paths = tuple(_path(name, executed[i]) for name, i in shown.items())
    told = "Four directions partly at once: path from above"
    path = Chart(told, "path", "x (m)", "y (m)", paths)
    run, unsteered = lab.record(together), lab.record(plain)
    films = [Film(_ROW, run.name, unsteered.name)] if run and unsteered else []
    return Overlap(results, (chart, path), films)


def _path(name: str, one: Executed) -> Series:
    """Where a robot went, up to a fall."""
    x, y = one.rows[: one.fell_at : 10, :2].T.tolist()
    return Series(name, tuple(x), tuple(y))

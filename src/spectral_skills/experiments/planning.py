"""The paper's two tables of planners: which commands a planner should plan.

A row is one route at one replanning interval: 20 episodes of every motion.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.experiments.findings import Chart, Findings, Series
from spectral_skills.experiments.stage import Score, Stage
from spectral_skills.models import Models
from spectral_skills.planner.model import Planner
from spectral_skills.planner.routes import Route, longest
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.results import Result, hardware

EVERY = (1, 10, 21, 30)
"""Steps after which is planned anew."""
_ROUTES: dict[Route, str] = {
    "skills": "Skills (z to z)",
    "re-encode": "Re-encode (o to z)",
    "explicit": "Explicit (o to o)",
}
_METRICS: tuple[str, ...] = ("mpjpe_local_mm", "mpjpe_global_mm", "success_rate")
_PAPER = {
    "Skill tracker: oracle": ("17.19", "51.7", "1.000"),
    "Skills (z to z), N=1": ("50.76", "", "0.843"),
    "Skills (z to z), N=10": ("42.83", "230.2", "0.911"),
    "Skills (z to z), N=30": ("38.41", "251.2", "0.914"),
    "Re-encode (o to z), N=1": ("41.64", "", "0.945"),
    "Re-encode (o to z), N=10": ("60.19", "425.1", "0.771"),
    "Re-encode (o to z), N=21": ("88.64", "796.8", "0.546"),
    "Explicit tracker: oracle": ("17.64", "", "1.000"),
    "Explicit (o to o), N=10": ("116.46", "704.9", "0.525"),
    "Explicit (o to o), N=30": ("117.42", "707.1", "0.516"),
    "FSQ tracker: oracle": ("20.47", "90.5", ""),
    "FSQ latent, temporal ensembling": ("45.49", "220.5", "0.904"),
    "FSQ latent, no ensembling": ("52.30", "246.5", "0.877"),
    "FSQ re-encode": ("44.75", "252.0", "0.902"),
}
"""Its tables tab:planner-interface (and, of N = 1, the text) and app-fsq-planner."""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    score: Score


class Table:
    """Scores of rows, as results."""

    def __init__(self, title: str, stage: Stage, encoder: TextEncoder, run: str):
        self.title, self.stage, self.encoder, self.run = title, stage, encoder, run
        self.command = f"spectral evaluate planning {title}"
        self.rows: list[Row] = []

    def text(self, planner: Planner) -> TextStates:
        """For every robot one of the sentences that its motion was learned with."""
        return self.stage.text(self.encoder, sentences(planner, self.stage))

    def add(self, name: str, score: Score) -> None:
        """Take in a row."""
        self.rows.append(Row(name, score))

    def cell(
        self, row: str, metric: str, value: float, unit: str, n: int, goal: str = ""
    ) -> Result:
        """A number of this table, beside the paper's or a goal."""
        paper = dict(zip(_METRICS, _PAPER.get(row, ("", "", "")), strict=True))
        return Result(
            *(f"Planning: {self.title}", row, metric, float(value), unit, n),
            seed=self.stage.seed,
            run=self.run[:8],
            paper=goal or paper.get(metric, ""),
            command=self.command,
            hardware=hardware(str(self.stage.device)),
        )

    def results(self) -> list[Result]:
        """All cells."""
        return [cell for row in self.rows for cell in self._cells(row)]

    def _cells(self, row: Row) -> Iterator[Result]:
        score, n = row.score, len(row.score.success)
        errors = score.local_mm, score.global_mm
        for metric, values in zip(_METRICS, errors, strict=False):
            # Where all fell at once there is no error to tell.
            if np.isfinite(values).any():
                yield self.cell(row.name, metric, float(np.nanmean(values)), "mm", n)
        yield self.cell(row.name, _METRICS[2], score.success.mean(), "", n)
        yield self.cell(row.name, "fall_free_share", 1 - score.fell.mean(), "", n)
        if score.refused:
            yield self.cell(row.name, "plans_refused", score.refused, "", n)

    def by_motion(self, names: Sequence[str]) -> Chart:
        """Success of some rows, motion by motion."""
        shape = len(self.stage.names), self.stage.episodes
        series = []
        for row in self.rows:
            if row.name in names:
                share = row.score.success.reshape(shape).mean(axis=1)
                at = tuple(float(i) for i in range(1, shape[0] + 1))
                series.append(
                    Series(row.name, at, tuple(share.tolist()), self.stage.names)
                )
        return Chart(
            "Success of each motion",
            "bar",
            "motion",
            "share of the episodes",
            tuple(series),
            "In the order in which the motions were learned.",
        )


def sentences(
    planner: Planner, stage: Stage, held_out: bool = False
) -> list[tuple[str, ...]]:
    """What a planner has learned to call the motions of a stage, or has not."""
    known = {motion.name: motion for motion in planner.config.about.motions}
    missing = [name for name in stage.names if name not in known]
    if missing:
        raise ValueError(
            f"the planner has not learned {missing[0]}; it was trained on other motions"
        )
    motions = [known[name] for name in stage.names]
    found = [m.held_out if held_out else m.sentences for m in motions]
    if not all(found):
        silent = stage.names[found.index(())]
        raise ValueError(f"the planner's rows hold no other words for {silent}")
    return found


def interfaces(
    stage: Stage,
    encoder: TextEncoder,
    skills: tuple[Models, Planner],
    poses: Planner | None,
    explicit: tuple[Models, Planner] | None,
    every: Sequence[int] = EVERY,
    run: str = "",
) -> Findings:
    """Table tab:planner-interface: skills, poses that are encoded again, poses."""
    table = Table("interfaces", stage, encoder, run)
    actor, planner = skills
    table.add("Skill tracker: oracle", stage.oracle(actor))
    _planned(table, "skills", actor, planner, every)
    if poses is not None:
        assert actor.encoder is not None
        _planned(table, "re-encode", actor, poses, every)
    if explicit is not None:
        table.add("Explicit tracker: oracle", stage.oracle(explicit[0]))
        _planned(table, "explicit", *explicit, every)
    shown = [f"{_ROUTES[route]}, N=10" for route in ("skills", "re-encode")]
    return Findings(
        "interfaces",
        "What a planner should plan",
        tuple(table.results()),
        (_by_interval(table), table.by_motion(shown)),
        note="Errors are means over the frames before a fall, of all episodes.",
    )


def _planned(
    table: Table, route: Route, actor: Models, planner: Planner, every: Sequence[int]
) -> None:
    text = table.text(planner)
    limit = longest(route, actor.encoder)
    for odometry in (False, True)[: 1 + (route != "skills")]:
        told = f"{_ROUTES[route]}{', odometry' if odometry else ''}"
        for steps in every:
            # A plan that is followed for a step needs none.
            if 1 + odometry <= steps <= limit:
                score = table.stage.planned(
                    actor, planner, text, steps, odometry=odometry
                )
                table.add(f"{told}, N={steps}", score)


def _by_interval(table: Table) -> Chart:
    """Success over the replanning interval, a line for each route."""
    series = []
    odometry = [f"{told}, odometry" for told in _ROUTES.values()]
    for told in (*_ROUTES.values(), *odometry):
        ours = [row for row in table.rows if row.name.startswith(f"{told}, N=")]
        x = [float(row.name.rpartition("=")[2]) for row in ours]
        y = [float(row.score.success.mean()) for row in ours]
        if ours:
            series.append(Series(told, tuple(x), tuple(y)))
    return Chart(
        "Success over the replanning interval",
        "line",
        "control steps between plans",
        "share of the episodes",
        tuple(series),
        "The longer a plan is followed, the more it matters what was planned.",
    )


def fsq(
    stage: Stage,
    encoder: TextEncoder,
    actor: Models,
    latent: Planner,
    poses: Planner,
    every: int = 10,
    run: str = "",
) -> Findings:
    """Table app-fsq-planner: an FSQ tracker that holds a skill for ten steps."""
    table = Table("fsq", stage, encoder, run)
    table.add("FSQ tracker: oracle", stage.oracle(actor))
    text = table.text(latent)
    for told, ensemble in (("temporal", True), ("no", False)):
        score = stage.planned(actor, latent, text, every, ensemble)
        table.add(f"FSQ latent, {told} ensembling", score)
    again = stage.planned(actor, poses, table.text(poses), every)
    table.add("FSQ re-encode", again)
    shown = [row.name for row in table.rows if "oracle" not in row.name]
    return Findings(
        "fsq",
        "Planning tokens of an FSQ tracker",
        tuple(table.results()),
        (table.by_motion(shown),),
    )

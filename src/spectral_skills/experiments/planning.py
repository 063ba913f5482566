"""The paper's two tables of planners: which commands a planner should plan.

A row is one route at one replanning interval: 20 episodes of every described motion.
As in the paper, episodes begin on the reference, robots sense with noise, and nothing
ends an episode but a fall or its last step. Success and errors are those of the frames
that the reference has; after it, only a fall counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control import metrics
from spectral_skills.control.rollout import Rollout, fallen
from spectral_skills.control.run import ReferenceSource, SkillSource, Tracker, run
from spectral_skills.experiments.findings import (
    Chart,
    Draft,
    Findings,
    MeasuredWith,
    Series,
)
from spectral_skills.models import Models
from spectral_skills.motion.corpus import Corpus
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.planner.motions import described
from spectral_skills.planner.routes import PlannedSource, Route, longest
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import References

EPISODES, STEPS = 20, 2000
EVERY = (1, 10, 21, 30)
"""Numbers of steps between plans."""
FALLEN_M = 0.35
"""Height of the pelvis below which a robot has fallen: no described motion is."""
_ROUTES: dict[Route, str] = {
    "skills": "Skills (z to z)",
    "re-encode": "Re-encode (o to z)",
    "explicit": "Explicit (o to o)",
}


@dataclass(frozen=True)
class EpisodeScores:
    """Scores of the episodes of a row."""

    success: np.ndarray
    """(n,) whether the thresholds were kept as long as there was a reference."""
    local_mm: np.ndarray
    """(n,) mean over the frames before a fall."""
    global_mm: np.ndarray
    fell: np.ndarray
    """(n,) whether the robot fell, at any time."""
    refused: int = 0
    """Number of plans that were not finite."""


class Stage:
    """The described motions of a corpus, with robots for some episodes of each."""

    def __init__(
        self,
        corpus: Corpus,
        words: TextEncoder,
        device: str = "cpu",
        episodes: int = EPISODES,
        steps: int = STEPS,
        seed: int = 0,
        motions: Sequence[str] | None = None,
    ):
        """`motions` are names of some of the described clips; all by default."""
        if episodes < 1 or steps < 2:
            raise ValueError(f"{episodes} episodes of {steps} steps: nothing to run")
        clips = described(corpus)
        self.clips = clips if motions is None else clips.select(motions)
        self.corpus, self.words, self.names = corpus, words, self.clips.names
        self.device, self.steps, self.seed = torch.device(device), steps, seed
        self.episodes = episodes
        self.references = References.build(self.clips.to(self.device))
        numbers = torch.arange(len(self.clips), device=self.device)
        self.motion = numbers.repeat_interleave(episodes)
        """(n,) motion of each robot."""
        self._physics: Physics | None = None

    def of(self, motions: Sequence[str], episodes: int, steps: int) -> "Stage":
        """Another stage of the same corpus; a motion may be named several times."""
        rest = str(self.device), episodes, steps, self.seed, motions
        return Stage(self.corpus, self.words, *rest)

    def text(self, sentences: Sequence[Sequence[str]]) -> TextStates:
        """A sentence for each robot: those of its motion in turn."""
        chosen = [own[i % len(own)] for own in sentences for i in range(self.episodes)]
        return self.words.encode(chosen).to(self.device)

    def reference(self, models: Models) -> ReferenceSource:
        """The motions themselves as a source of commands."""
        names = [self.names[i] for i in self.motion.tolist()]
        command = models.controller.config.command
        return ReferenceSource(
            *(self.references, self.motion, models.encoder),
            command=command,
            names=names,
        )

    def oracle(self, models: Models) -> EpisodeScores:
        """Score the reference itself in place of a planner."""
        tracker = Tracker(models.controller)
        return self.score(self.execute(tracker, self.reference(models)))

    def source(
        self, models: Models, text: TextStates, every: int, **options
    ) -> tuple[Tracker, PlannedSource]:
        """A planner as a source of commands, with the tracker that it senses by."""
        tracker = Tracker(models.controller)
        parts = models.skill_planner, tracker, text, every, models.encoder
        return tracker, PlannedSource(*parts, seed=self.seed, **options)

    def planned(
        self, models: Models, text: TextStates, every: int, **options
    ) -> EpisodeScores:
        """Score a planner that plans every so many steps."""
        track = self.reference(models).track
        tracker, source = self.source(models, text, every, track=track, **options)
        return self.score(self.execute(tracker, source), int(source.refused))

    def execute(
        self, tracker: Tracker, source: SkillSource, label: str = "episodes"
    ) -> Rollout:
        """Run all robots from the first frames of their motions."""
        if self._physics is None:
            self._physics = simulate(self.device, len(self.motion))
        begin = self.references.at(self.motion, torch.zeros_like(self.motion))
        cuda = [self.device] if self.device.type == "cuda" else []
        bar = tqdm(total=self.steps, desc=label, unit=" steps", disable=None)
        with torch.random.fork_rng(devices=cuda), bar:
            torch.manual_seed(self.seed)
            return run(
                *(self._physics, tracker, source, (begin.rows, begin.qvel), self.steps),
                noise=RandomizationConfig(),
                poses_only=True,
                bar=bar,
            )

    def score(self, rollout: Rollout, refused: int = 0) -> EpisodeScores:
        """Score every episode of a record."""
        found = metrics.episodes(rollout)
        errors = found.upright_local_mm, found.upright_global_mm
        down = fell(rollout.robot).cpu().numpy()
        return EpisodeScores(found.success, *errors, down, refused)


def fell(rows: Tensor) -> Tensor:
    """(n,) which robots of rows (T, n, 36) were ever down; a broken one was."""
    return fallen(rows, FALLEN_M).any(dim=0)


def sentences(
    models: Models, stage: Stage, held_out: bool = False
) -> list[tuple[str, ...]]:
    """The learned sentences of each motion of a stage, or the held-out ones."""
    known = {m.name: m for m in models.skill_planner.config.about.motions}
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


class ScoreTable:
    """Rows of scores on a stage, and the findings that they become."""

    def __init__(self, name: str, stage: Stage, models: Models):
        self.stage, self.rows = stage, dict[str, EpisodeScores]()
        measured = MeasuredWith.of(models, str(stage.device), "planner")
        begun = Draft.begin(name, measured, stage.corpus.hash)
        self.report = replace(begun, table=f"Planning: {name}", seed=stage.seed)

    def add(self, row: str, scores: EpisodeScores) -> None:
        """Add a row; where all robots fell at once it has no errors."""
        self.rows[row], n = scores, len(scores.success)
        for metric, values in (
            ("mpjpe_local_mm", scores.local_mm),
            ("mpjpe_global_mm", scores.global_mm),
        ):
            if np.isfinite(values).any():
                self.report.add(row, metric, np.nanmean(values), "mm", n)
        self.report.add(row, "success_rate", scores.success.mean(), n=n)
        self.report.add(row, "fall_free_share", 1 - scores.fell.mean(), n=n)
        if scores.refused:
            self.report.add(row, "plans_refused", scores.refused, n=n)

    def by_motion(self, rows: Sequence[str]) -> None:
        """Add a chart of the success of some rows, motion by motion."""
        names = self.stage.names
        shape, at = (len(names), self.stage.episodes), range(1, len(names) + 1)
        series = [
            Series.of(row, at, scores.success.reshape(shape).mean(axis=1), names)
            for row, scores in self.rows.items()
            if row in rows
        ]
        labels = "Success of each motion", "bar", "motion", "share of the episodes"
        note = "In the order in which the motions were learned."
        self.report.charts.append(Chart(*labels, tuple(series), note))


def interfaces(
    stage: Stage,
    models: Models,
    poses: Models | None = None,
    explicit: Models | None = None,
    every: Sequence[int] = EVERY,
) -> Findings:
    """Table tab:planner-interface: skills, poses that are encoded again, poses.

    `poses` are the same models with a planner of poses, `explicit` a controller of
    poses with its planner.
    """
    table = ScoreTable("interfaces", stage, models)
    table.add("Skill tracker: oracle", stage.oracle(models))
    _add_route(table, "skills", models, every)
    if poses is not None:
        _add_route(table, "re-encode", poses, every)
    if explicit is not None:
        table.add("Explicit tracker: oracle", stage.oracle(explicit))
        _add_route(table, "explicit", explicit, every)
    table.report.chart("interval", _by_interval(table))
    shown = [f"{_ROUTES[route]}, N=10" for route in ("skills", "re-encode")]
    table.by_motion(shown)
    return table.report.findings()


def _add_route(
    table: ScoreTable, route: Route, models: Models, every: Sequence[int]
) -> None:
    """Add a row for every interval, and for poses the same with odometry."""
    stage = table.stage
    text = stage.text(sentences(models, stage))
    limit = longest(route, models.encoder)
    for odometry in (False, True)[: 1 + (route != "skills")]:
        label = f"{_ROUTES[route]}{', odometry' if odometry else ''}"
        for steps in every:
            # A plan that is followed for one step needs no odometry.
            if 1 + odometry <= steps <= limit:
                scores = stage.planned(models, text, steps, odometry=odometry)
                table.add(f"{label}, N={steps}", scores)


def _by_interval(table: ScoreTable) -> list[Series]:
    """Success over the replanning interval, a line for each route."""
    series = []
    odometry = [f"{label}, odometry" for label in _ROUTES.values()]
    for label in (*_ROUTES.values(), *odometry):
        own = {r: s for r, s in table.rows.items() if r.startswith(f"{label}, N=")}
        steps = [float(row.rpartition("=")[2]) for row in own]
        if own:
            shares = [scores.success.mean() for scores in own.values()]
            series.append(Series.of(label, steps, shares))
    return series


def fsq(stage: Stage, models: Models, poses: Models, every: int = 10) -> Findings:
    """Table app-fsq-planner: an FSQ tracker that holds a skill for ten steps."""
    table = ScoreTable("fsq", stage, models)
    table.add("FSQ tracker: oracle", stage.oracle(models))
    text = stage.text(sentences(models, stage))
    for label, ensemble in (("temporal", True), ("no", False)):
        scores = stage.planned(models, text, every, ensemble=ensemble)
        table.add(f"FSQ latent, {label} ensembling", scores)
    text = stage.text(sentences(poses, stage))
    table.add("FSQ re-encode", stage.planned(poses, text, every))
    table.by_motion([row for row in table.rows if "oracle" not in row])
    return table.report.findings()

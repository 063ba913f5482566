"""Robots that try the motions of a planner, and how they are scored.

As in the paper, episodes begin on the reference, robots sense with noise, and nothing
ends an episode but a fall or its last step. Success and errors are those of the frames
that the reference has; after it, only a fall counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control import metrics
from spectral_skills.control.rollout import Rollout, fallen
from spectral_skills.control.run import ReferenceSource, SkillSource, Tracker, run
from spectral_skills.experiments.findings import Draft, MeasuredWith, Series
from spectral_skills.models import Models
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.planner.listener import FALLEN_M
from spectral_skills.planner.motions import Motions
from spectral_skills.planner.routes import PlannedSource
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import References

EPISODES, STEPS = 20, 2000


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
    """Motions, with robots for some episodes of each."""

    def __init__(
        self,
        clips: Motions,
        corpus: str,
        words: TextEncoder,
        device: str = "cpu",
        episodes: int = EPISODES,
        steps: int = STEPS,
        seed: int = 0,
    ):
        """`corpus` is the hash of what the motions are from."""
        if episodes < 1 or steps < 2:
            raise ValueError(f"{episodes} episodes of {steps} steps: nothing to run")
        self.clips, self.corpus, self.words = clips, corpus, words
        self.names = clips.names
        self.device, self.steps, self.seed = torch.device(device), steps, seed
        self.episodes = episodes
        self.references = References.build(self.clips.to(self.device))
        numbers = torch.arange(len(self.clips), device=self.device)
        self.motion = numbers.repeat_interleave(episodes)
        """(n,) motion of each robot."""
        self._physics: Physics | None = None

    def of(self, motions: Sequence[str], episodes: int, steps: int) -> "Stage":
        """A stage of some of these motions; one may be named several times."""
        some, rest = self.clips.select(motions), (episodes, steps, self.seed)
        return Stage(some, self.corpus, self.words, str(self.device), *rest)

    def said(self, sentences: Sequence[Sequence[str]]) -> list[str]:
        """A sentence for each robot: those of its motion in turn."""
        return [own[i % len(own)] for own in sentences for i in range(self.episodes)]

    def text(self, sentences: Sequence[Sequence[str]]) -> TextStates:
        """These sentences as planners read them."""
        return self.words.encode(self.said(sentences)).to(self.device)

    def reference(self, models: Models) -> ReferenceSource:
        """The motions themselves as a source of commands."""
        return ReferenceSource(
            *(self.references, self.motion, models.encoder),
            command=models.controller.config.command,
            names=[self.names[i] for i in self.motion.tolist()],
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
                keep=(),
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


class ScoreTable(Draft):
    """Rows of scores on a stage, and the findings that they become."""

    def __init__(self, name: str, stage: Stage, models: Models):
        measured = MeasuredWith.of(models, str(stage.device), "planner")
        about = stage.corpus, f"Planning: {name}", stage.seed
        super().__init__(name, measured, *about)
        self.stage, self.rows = stage, dict[str, EpisodeScores]()

    def score(self, row: str, scores: EpisodeScores) -> None:
        """Add a row; where all robots fell at once it has no errors."""
        self.rows[row] = scores
        errors = {
            "mpjpe_local_mm": scores.local_mm,
            "mpjpe_global_mm": scores.global_mm,
        }
        values: dict[str, Any] = {
            name: np.nanmean(one) if np.isfinite(one).any() else None
            for name, one in errors.items()
        }
        values["success_rate"] = scores.success.mean()
        values["fall_free_share"] = 1 - scores.fell.mean()
        values["plans_refused"] = scores.refused or None
        self.add(row, values, len(scores.success))

    def by_motion(self, rows: Sequence[str]) -> None:
        """Add a chart of the success of some rows, motion by motion."""
        names = self.stage.names
        shape, at = (len(names), self.stage.episodes), range(1, len(names) + 1)
        series = [
            Series.of(row, at, scores.success.reshape(shape).mean(axis=1), names)
            for row, scores in self.rows.items()
            if row in rows
        ]
        self.chart("motions", series)

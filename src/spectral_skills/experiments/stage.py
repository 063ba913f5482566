"""Where planners are tried: robots that begin on described motions, and scores.

As in the paper, episodes begin on the reference, robots sense with noise, and nothing
ends an episode but a fall or its last step. Success and errors are those of the frames
that the reference has; what comes later can only be a fall.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.control.rollout import Rollout, fallen
from spectral_skills.control.run import ReferenceSource, SkillSource, Tracker, run
from spectral_skills.models import Models
from spectral_skills.motion.corpus import Corpus
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.planner import motions as planned
from spectral_skills.planner.model import Planner
from spectral_skills.planner.routes import PlannedSource
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import References

EPISODES, STEPS = 20, 2000
FALLEN_M = 0.35
"""A robot whose pelvis is lower has fallen: no motion of the corpus is."""


@dataclass(frozen=True)
class Score:
    """What became of the episodes of a row."""

    success: np.ndarray
    """(n,) whether the thresholds were kept as long as there was a reference."""
    local_mm: np.ndarray
    """(n,) mean over the frames before a fall."""
    global_mm: np.ndarray
    fell: np.ndarray
    """(n,) whether the robot fell, at any time."""
    refused: int = 0
    """Plans that were not finite."""


class Stage:
    """The described motions of a corpus, and robots for some episodes of each."""

    def __init__(
        self,
        corpus: Corpus,
        device: str = "cpu",
        episodes: int = EPISODES,
        steps: int = STEPS,
        seed: int = 0,
        motions: Sequence[str] | None = None,
    ):
        """`motions` are names of some of the described clips; all by default."""
        clips = planned.described(corpus)
        if motions is not None:
            clips = clips.select(motions)
        if episodes < 1 or steps < 2:
            raise ValueError(f"{episodes} episodes of {steps} steps: nothing to run")
        self.corpus, self.clips, self.names = corpus, clips, clips.names
        self.device, self.steps, self.seed = torch.device(device), steps, seed
        self.episodes = episodes
        self.references = References.build(clips.to(self.device))
        self.motion = torch.arange(len(clips), device=self.device).repeat_interleave(
            episodes
        )
        """(n,) motion of each robot."""
        self._physics: Physics | None = None

    def of(self, motions: Sequence[str], episodes: int, steps: int) -> "Stage":
        """Another stage of the same corpus; a motion may be named several times."""
        return Stage(self.corpus, str(self.device), episodes, steps, self.seed, motions)

    def text(
        self, encoder: TextEncoder, sentences: Sequence[Sequence[str]]
    ) -> TextStates:
        """A sentence for each robot: those of its motion in turn."""
        chosen = [own[i % len(own)] for own in sentences for i in range(self.episodes)]
        return encoder.encode(chosen).to(self.device)

    def oracle(self, actor: Models) -> Score:
        """The reference itself, in place of a planner."""
        tracker = Tracker(actor.controller)
        return self.score(self.execute(tracker, self._reference(actor)))

    def planned(
        self,
        actor: Models,
        planner: Planner,
        text: TextStates,
        every: int,
        ensemble: bool = False,
        odometry: bool = False,
    ) -> Score:
        """A planner that is asked every so many steps."""
        tracker = Tracker(actor.controller)
        source = PlannedSource(
            *(planner, tracker, text, every, actor.encoder, ensemble, odometry),
            track=self._reference(actor).track,
            seed=self.seed,
        )
        return self.score(self.execute(tracker, source), int(source.refused))

    def _reference(self, actor: Models) -> ReferenceSource:
        command = actor.controller.config.command
        names = [self.names[i] for i in self.motion.tolist()]
        return ReferenceSource(
            self.references, self.motion, actor.encoder, command=command, names=names
        )

    def execute(
        self, tracker: Tracker, source: SkillSource, told: str = "episodes"
    ) -> Rollout:
        """Run all robots from the first frames of their motions."""
        if self._physics is None:
            self._physics = simulate(self.device, len(self.motion))
        begin = self.references.at(self.motion, torch.zeros_like(self.motion))
        cuda = [self.device] if self.device.type == "cuda" else []
        bar = tqdm(total=self.steps, desc=told, unit=" steps", disable=None)
        with torch.random.fork_rng(devices=cuda), bar:
            torch.manual_seed(self.seed)
            return run(
                self._physics,
                tracker,
                source,
                (begin.rows, begin.qvel),
                self.steps,
                noise=RandomizationConfig(),
                poses_only=True,
                bar=bar,
            )

    def score(self, rollout: Rollout, refused: int = 0) -> Score:
        """Judge every episode."""
        found: Episodes = metrics.episodes(rollout)
        return Score(
            success=found.success,
            local_mm=found.upright_local_mm,
            global_mm=found.upright_global_mm,
            fell=fell(rollout.robot).cpu().numpy(),
            refused=refused,
        )


def fell(rows: Tensor) -> Tensor:
    """(n,) which robots of rows (T, n, 36) were ever down; a broken one was."""
    return fallen(rows, FALLEN_M).any(dim=0)

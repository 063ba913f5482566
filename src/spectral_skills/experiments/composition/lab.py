"""Where steered runs are made.

A run is a stream of skills for a robot on a base; steering, blending and adding skills
differ in nothing but the stream.
"""

import hashlib
from pathlib import Path

import numpy as np
import torch

from spectral_skills.control.mixer import full_amplitude, standard
from spectral_skills.control.run import check_match
from spectral_skills.control.source import ReplaySource
from spectral_skills.experiments.composition.batch import Run
from spectral_skills.experiments.composition.runner import Executed, Runner
from spectral_skills.experiments.effects import Effect, effect
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.policy import Controller


class Lab(Runner):
    """A controller, a skill space and its directions, on a device."""

    commands = "skill"

    def __init__(
        self,
        controller: Controller,
        encoder: SkillEncoder,
        directions: Directions | None,
        device: str = "cpu",
        records: Path | None = None,
        robots: int | None = None,
    ):
        """Without directions a space can be steered by vectors alone."""
        super().__init__(controller, device, records, robots)
        check_match(controller, encoder)
        if directions is not None:
            directions.check(encoder.fingerprint())
        self.encoder, self._directions = encoder, directions
        self._skills: dict[bytes, np.ndarray] = {}

    @property
    def directions(self) -> Directions:
        """Those of the skill space, where it has some."""
        if self._directions is None:
            raise ValueError("this skill space has no directions; give a file of them")
        return self._directions

    def skills(self, base: Base) -> np.ndarray:
        """(T, d) the base's own skills, as a robot on it would see them."""
        key = hashlib.blake2b(base.rows.tobytes()).digest()
        if key not in self._skills:
            rows = torch.from_numpy(base.rows)
            encoded = ReplaySource.encode(self.encoder, [rows]).skills[:-1, 0]
            self._skills[key] = encoded.cpu().numpy()
        return self._skills[key]

    def plain(self, base: Base, seed: int | None = None) -> Run:
        """The base unsteered."""
        return Run("base", base, self.skills(base), seed)

    def steered(
        self,
        base: Base,
        change: np.ndarray,
        name: str,
        curve: np.ndarray | None = None,
        seed: int | None = None,
    ) -> Run:
        """The base's skills and a change (d,), in the paper's schedule or along a
        curve (T,); a change of every step (T, d) is added as it is."""
        skills = self.skills(base)
        if change.ndim == 1:
            if curve is None:
                curve = standard(1.0, base.steps)[:, 0]
            change = curve[:, None] * change
        return Run(name, base, (skills + change).astype(np.float32), seed)

    def direction(self, name: str, amplitude: float = 1.0) -> np.ndarray:
        """(d,) a direction by name, of a length."""
        return amplitude * self.directions.vectors[self.directions.index(name)]

    def hold(self, base: Base) -> slice:
        """Rows over which effects are measured."""
        return full_amplitude(base.steps)

    def effect(self, steered: Executed, plain: Executed) -> Effect:
        """What steering has changed over the steps of full amplitude."""
        return effect(steered.rows, plain.rows, self.hold(steered.run.base))

"""The trained models that belong together: controller, encoder, directions, planner."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectral_skills.planner.model import Planner
    from spectral_skills.skill.encoder import SkillEncoder
    from spectral_skills.spectral.direction_file import Directions
    from spectral_skills.tracking.policy import Controller

BASE = Path("base")
"""Name of the models that come with the package."""


@dataclass(frozen=True)
class TrackerPaths:
    """Where a controller and its skill model are."""

    controller: Path = BASE
    """Folder of the controller; `base` comes with the package."""
    skill: Path = BASE
    """Folder of the skill model it was trained with; `base` comes with the package."""


@dataclass(frozen=True)
class SteeringPaths(TrackerPaths):
    """Where a controller, its skill model and directions to steer by are."""

    directions: Path | None = BASE
    """File of `spectral directions`; `base` comes with the package, None for none."""


@dataclass(frozen=True)
class ModelPaths(SteeringPaths):
    """Where all models of a release are."""

    planner: Path | None = BASE
    """Folder of the planner; `base` comes with the package, None for none."""


RELEASED_TRACKER, RELEASED_STEERING = TrackerPaths(), SteeringPaths()
RELEASED = ModelPaths()
"""Paths of the models that come with the package."""


@dataclass(frozen=True)
class Models:
    """Models that were checked to have been made for each other."""

    controller: "Controller"
    encoder: "SkillEncoder | None" = None
    """The encoder of the controller's skills; None for a controller of poses."""
    directions: "Directions | None" = None
    planner: "Planner | None" = None
    hashes: dict[str, str] = field(default_factory=dict)
    """Weight hashes by role: controller, skill, directions, planner."""

    @property
    def skill_encoder(self) -> "SkillEncoder":
        """The encoder; refuses a controller that follows poses and so has none."""
        if self.encoder is None:
            raise ValueError("this controller follows poses; one of skills is needed")
        return self.encoder

    @property
    def known_directions(self) -> "Directions":
        """The directions; refuses models that were loaded without."""
        if self.directions is None:
            raise ValueError("directions are needed: name a file, --directions FILE")
        return self.directions

    @property
    def skill_planner(self) -> "Planner":
        """The planner; refuses models that were loaded without."""
        if self.planner is None:
            raise ValueError("a planner is needed: name its folder, --planner DIR")
        return self.planner

    @classmethod
    def load(
        cls,
        controller: Path | str = BASE,
        skill: Path | str = BASE,
        directions: Path | str | None = None,
        planner: Path | str | None = None,
        device: str = "cpu",
        plans: str | None = None,
        smoothing: float | None = None,
    ) -> "Models":
        """Read models and refuse those that do not match.

        `plans` is what the planner must plan, "skill" or "pose", where that matters.
        `smoothing` is the share of the last action that stays in the next one.
        """
        from spectral_skills.artifact import load_provenance
        from spectral_skills.control.run import check_match
        from spectral_skills.skill.model import SkillModel
        from spectral_skills.tracking.policy import KIND, Controller

        actor = Controller.load(controller, device, smoothing)
        acts = load_provenance(controller, KIND)
        hashes = {"controller": acts.weights_hash}
        encoder, fingerprint = None, ""
        if actor.config.command.kind == "skill":
            encoder = SkillModel.load(skill, device).encoder
            check_match(actor, encoder)
            hashes["skill"] = fingerprint = encoder.fingerprint()
        known = speaker = None
        if directions is not None:
            from spectral_skills.spectral.direction_file import Directions

            known = Directions.load(directions)
            known.check(fingerprint)
            hashes["directions"] = known.fingerprint()
        if planner is not None:
            from spectral_skills.planner import model as planners

            speaker = planners.Planner.load(planner, device)
            output = speaker.config.output
            if plans not in (None, output):
                raise ValueError(f"{planner}: plans {output}s, not {plans}s")
            planners.check_match(speaker, acts, fingerprint)
            hashes["planner"] = load_provenance(planner, planners.KIND).weights_hash
        return cls(actor, encoder, known, speaker, hashes)

    @classmethod
    def at(
        cls, paths: TrackerPaths, device: str = "cpu", smoothing: float | None = None
    ) -> "Models":
        """Read the models that a group of command-line options names."""
        return cls.load(**vars(paths), device=device, smoothing=smoothing)

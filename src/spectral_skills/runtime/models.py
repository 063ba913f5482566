"""The trained models that a bundle is made of."""

from pathlib import Path
from typing import NamedTuple

from spectral_skills import artifact
from spectral_skills.control.controller import check_match
from spectral_skills.planner import model as planners
from spectral_skills.planner.model import Planner
from spectral_skills.runtime import graphs
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.model import SkillModel, place
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking import policy
from spectral_skills.tracking.policy import Controller


class Models(NamedTuple):
    """Models that were made for each other."""

    controller: Controller
    controller_hash: str
    """Of its weights."""
    encoder: SkillEncoder
    directions: Directions | None = None
    planner: Planner | None = None
    planner_hash: str = ""

    @classmethod
    def load(
        cls,
        controller: Path,
        skill: Path,
        directions: Path | None = None,
        planner: Path | None = None,
    ) -> "Models":
        """Read them, `base` or by their folders; refuses what does not match."""
        actor = Controller.load(controller)
        graphs.check_exportable(actor)
        encoder = SkillModel.load(skill).encoder
        check_match(actor, encoder)
        fingerprint = encoder.fingerprint()
        found = cls(actor, _weights_hash(controller, policy.KIND), encoder)
        if directions is not None:
            known = Directions.load(directions)
            known.check(fingerprint)
            found = found._replace(directions=known)
        if planner is not None:
            speaker = Planner.load(planner)
            if (output := speaker.config.output) != "skill":
                raise ValueError(
                    f"{planner}: plans {output}s; a bundle needs a planner of skills"
                )
            planners.check_match(speaker, found.controller_hash, fingerprint)
            its_hash = _weights_hash(planner, planners.KIND)
            found = found._replace(planner=speaker, planner_hash=its_hash)
        return found


def _weights_hash(folder: Path, kind: str) -> str:
    return artifact.load_provenance(place(folder, kind)).weights_hash

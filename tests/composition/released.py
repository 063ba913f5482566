"""The released controller, encoder and directions, read once."""

from functools import cache

from spectral_skills.evaluation.composition.bases import Base
from spectral_skills.evaluation.composition.lab import Lab
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.policy import Controller


@cache
def released() -> tuple:
    """What a lab is made of."""
    encoder = SkillModel.load("base").encoder
    return Controller.load("base"), encoder, Directions.load("base")


class Short(Lab):
    """Bases of half the usual length."""

    def base(self, name: str, steps: int = 200) -> Base:
        return super().base(name, steps)

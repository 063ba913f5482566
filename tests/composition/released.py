"""The released controller, encoder and directions, read once."""

from functools import cache

from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.policy import Controller


@cache
def released() -> tuple:
    """What a lab is made of."""
    encoder = SkillModel.load("base").encoder
    return Controller.load("base"), encoder, Directions.load("base")

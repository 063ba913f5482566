"""Directions that a way of steering has to choose from, for each target."""

import numpy as np

from spectral_skills.experiments.composition.pass_rule import TARGETS, Target
from spectral_skills.experiments.token_directions import Described, principal, ridge
from spectral_skills.spectral.direction_file import Directions

Vectors = dict[str, np.ndarray]
"""Directions by name, as long as an amplitude of 1."""
Options = dict[Target, Vectors]


def spectral(directions: Directions, count: int) -> Options:
    """The spectral directions that are foretold to do most for a target."""
    places = directions.family("spectral")
    found: Options = {}
    for target in TARGETS:
        predicted = target.predicted(directions)[places]
        signs = [-1.0 if share < 0 else 1.0 for share in predicted]
        top = np.argsort(-np.abs(predicted))[:count].tolist()
        vectors = directions.vectors[places]
        found[target] = {
            _signed(signs[i], f"s{i + 1:02d}"): signs[i] * vectors[i] for i in top
        }
    return found


def components(described: Described, count: int, unit: float = 1.0) -> Options:
    """Principal components of skills, both signs of each, the same for all targets."""
    vectors = {
        _signed(sign, f"pc{i + 1}"): sign * unit * vector
        for i, vector in enumerate(principal(described.skills, count))
        for sign in (1.0, -1.0)
    }
    return dict.fromkeys(TARGETS, vectors)


def fitted(described: Described, unit: float = 1.0) -> Options:
    """The direction that ridge regression finds for a target, and no other."""
    rolls = [described.attribute(f"{side}_shoulder_roll") for side in ("left", "right")]
    attributes = {
        "right arm": -described.attribute("right_shoulder_pitch"),
        "spread": rolls[0] - rolls[1],
        "speed": described.attribute("forward_speed"),
        "turn": described.attribute("yaw_rate"),
    }
    return {
        t: {f"{t.name} ridge": unit * ridge(described.skills, attributes[t.name])}
        for t in TARGETS
    }


def _signed(sign: float, name: str) -> str:
    return f"{'-' if sign < 0 else '+'}{name}"

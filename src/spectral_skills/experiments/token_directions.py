"""Directions that need no predictor: from a tracker's skills over a corpus alone.

They are the alternatives to the response of a predictor, for any skill space: principal
components of the skills, which know no goal, and ridge regression from skills to an
attribute of the motion they stand for.
"""

from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import reference_poses
from spectral_skills.skill.encoder import SkillBank, SkillEncoder
from spectral_skills.spectral.attributes import NAMES, Attributes

PENALTY = 1e-2
"""Penalty of the ridge, as a share of the variance of a normalised skill number."""


@dataclass(frozen=True)
class Described:
    """Skills, and attributes of the motions they were encoded from."""

    skills: np.ndarray
    """(n, d)"""
    attributes: np.ndarray
    """(n, a) of the same windows, columns as in `spectral.attributes.NAMES`."""
    clips: np.ndarray
    """(n,) position of each window's clip in the corpus."""

    def attribute(self, name: str) -> np.ndarray:
        """(n,) one attribute."""
        return self.attributes[:, NAMES.index(name)]

    @property
    def spread(self) -> float:
        """Standard deviation of the skills in one dimension, averaged over all d."""
        return float(self.skills.std(axis=0).mean())


def describe(encoder: SkillEncoder, corpus: Corpus, every: int = 10) -> Described:
    """Skills of a corpus at every `every`-th frame, and the chunks they stand for."""
    bank = SkillBank.build(encoder, corpus, every)
    chunk = replace(encoder.windows, future=encoder.windows.chunk)
    device = encoder.steps.device
    attributes, motions = Attributes(chunk, device), corpus.to(device)
    steps = encoder.steps[encoder.steps >= 0]
    batches = zip(bank.clips.split(4096), bank.times.split(4096), strict=True)
    parts = [
        attributes(reference_poses(motions, clips, times, steps, "heading"))
        for clips, times in batches
    ]
    values = np.concatenate([part.cpu().numpy() for part in parts])
    skills = bank.skills.cpu().numpy().astype(np.float64)
    return Described(skills, values, bank.clips.cpu().numpy())


def principal(skills: np.ndarray, count: int) -> np.ndarray:
    """(count, d) unit directions in which skills (n, d) vary most, largest first.

    Their signs mean nothing; the largest number of each is positive.
    """
    centred = skills - skills.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(skills))
    found = vectors.T[np.argsort(-values)][:count]
    largest = np.abs(found).argmax(axis=1)
    return found * np.sign(found[np.arange(len(found)), largest])[:, None]


def ridge(
    skills: np.ndarray, attribute: np.ndarray, penalty: float = PENALTY
) -> np.ndarray:
    """(d,) unit direction in which a linear fit of an attribute (n,) grows fastest.

    Numbers of a skill are fitted in their standard deviations, so that the penalty
    treats them alike; the weights are then those of raw skills again.
    """
    # Equal values may differ from their mean in the last digit and then have a
    # deviation, so the values themselves are asked. What never varies has no weight.
    if not np.ptp(attribute) > 0:
        raise ValueError("the attribute is the same everywhere: no direction")
    scale = np.where(np.ptp(skills, axis=0) > 0, skills.std(axis=0), np.inf)
    x = (skills - skills.mean(axis=0)) / scale
    y = attribute - attribute.mean()
    gram = x.T @ x / len(x) + penalty * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, x.T @ y / len(x)) / scale
    size = np.linalg.norm(weights)
    if not size > 0:
        raise ValueError("the attribute never changes with the skills: no direction")
    return weights / size

"""What the skill space was trained on: its skills, and windows of what it moves like.

Built anew where it is needed: a few seconds for the embedded corpus.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.skill.codes import SkillBank, encode_rows
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.nearest import nearest
from spectral_skills.spectral.support import Descriptors, describe

EVERY = 10
"""Frames between skills of the corpus."""


@dataclass(frozen=True)
class Neighbours:
    """A corpus and its mirror image, as skills and as windows."""

    encoder: SkillEncoder
    skills: Tensor
    """(n, d)"""
    clips: Tensor
    """(n,) clip of each skill."""
    windows: Descriptors

    @classmethod
    def build(
        cls, encoder: SkillEncoder, corpus: Corpus | None = None, every: int = EVERY
    ) -> "Neighbours":
        """Of a corpus; None is the embedded one, which released models were made of."""
        if corpus is None:
            corpus = Corpus.open(embedded_corpus())
        corpus = corpus.with_mirror()
        bank = SkillBank.build(encoder, corpus, every)
        return cls(encoder, bank.skills, bank.clips, describe(corpus))

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """(T',) from each skill of a motion (T, 36) to the nearest of the corpus.

        The first is of frame `-encoder.first`.
        """
        encoded = encode_rows(self.encoder, np.asarray(rows, np.float32))
        return nearest(self.skills, encoded).cpu().numpy()

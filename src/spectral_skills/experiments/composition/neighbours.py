"""What the skill space was trained on: its skills, and windows of what it moves like.

Built anew where it is needed: a few seconds for the embedded corpus.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.kinds import kind
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.skill.codes import SkillBank, encode_rows
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.support import WINDOW, Descriptors, describe, nearest

EVERY = 10
"""Frames between skills of the corpus."""
_FAR = 1 << 32
"""Frames from one clip to the next, to put all in one row: longer than any clip."""


@dataclass(frozen=True)
class Neighbours:
    """A corpus and its mirror image, as skills and as windows."""

    encoder: SkillEncoder
    skills: Tensor
    """(n, d)"""
    clips: Tensor
    """(n,) clip of each skill."""
    times: Tensor
    """(n,) frame of its clip, rising within a clip."""
    windows: Descriptors
    kinds: tuple[str, ...]
    """Of motion, one a clip."""

    @classmethod
    def build(
        cls, encoder: SkillEncoder, corpus: Corpus | None = None, every: int = EVERY
    ) -> "Neighbours":
        """Of a corpus; None is the embedded one, which released models were made of."""
        if corpus is None:
            corpus = Corpus.open(embedded_corpus())
        corpus = corpus.with_mirror()
        bank = SkillBank.build(encoder, corpus, every)
        entries = [corpus.entry(i) for i in range(len(corpus))]
        kinds = tuple(kind(entry.name, entry.text) for entry in entries)
        return cls(
            *(encoder, bank.skills, bank.clips, bank.times), describe(corpus), kinds
        )

    def encode(self, rows: np.ndarray) -> Tensor:
        """(T', d) skills of a motion (T, 36), from frame `-encoder.first` on."""
        return encode_rows(self.encoder, np.asarray(rows, np.float32))

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """(T',) from each skill of a motion (T, 36) to the nearest of the corpus."""
        return nearest(self.skills, self.encode(rows)).cpu().numpy()

    def window_skills(self) -> np.ndarray:
        """(w, d) mean of the skills within each window; NaN where there is none."""
        skills = self.skills.double().cpu().numpy()
        total = np.concatenate((np.zeros_like(skills[:1]), skills.cumsum(axis=0)))
        place = self.clips.cpu().numpy() * _FAR + self.times.cpu().numpy()
        starts = self.windows.clips * _FAR + self.windows.starts
        first, end = (np.searchsorted(place, at) for at in (starts, starts + WINDOW))
        with np.errstate(invalid="ignore"):
            return (total[end] - total[first]) / (end - first)[:, None]

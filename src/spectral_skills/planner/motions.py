"""The motions of a corpus that a planner learns: each with words of its own.

Of generated corpora one clip for each of 28 things to say, as many as the paper's; of
others every clip that is described.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.planner.sections import Section, section

STEPS = 500
"""Frames of a motion at most, as in the paper."""
_LEFT, _RIGHT = "left", "right"
_PACE = "pace|slow|quick|fast"
_SAID: tuple[tuple[str, str, str], ...] = (
    # factors, words that are said, words that are not
    ("", "stand", ""),
    ("forward", "walk", _PACE),
    ("forward", "slow", ""),
    ("forward", "quick|brisk|fast", ""),
    ("backward", "walk", ""),
    ("sideways", _LEFT, ""),
    ("sideways", _RIGHT, ""),
    ("turn", _LEFT, "around"),
    ("turn", _RIGHT, "around"),
    ("arc", _LEFT, ""),
    ("arc", _RIGHT, ""),
    ("jog", "jog", ""),
    ("high", "march", ""),
    ("forward high", "walk", ""),
    ("forward crouch", "walk", ""),
    ("squat", "squat", ""),
    ("bow", "bow", ""),
    ("raise", _LEFT, "halfway|a little"),
    ("raise", _RIGHT, "halfway|a little"),
    ("wave", _LEFT, ""),
    ("wave", _RIGHT, ""),
    ("spread", "spread", "halfway|a little"),
    ("reach_up", "both", "halfway|a little"),
    ("reach", "both", "a little"),
    ("punch", "both", ""),
    ("forward carry", "carry", ""),
    ("forward wave", _LEFT, ""),
    ("forward wave", _RIGHT, ""),
)


class Motions:
    """Clips with words of their own, cut to the parts that a planner can plan."""

    def __init__(self, clips: Corpus, sections: Sequence[Section]):
        self.clips, self.sections = clips, tuple(sections)
        self.names = tuple(clips.names)
        self.lengths = np.array([s.end - s.first for s in sections])
        self.loops = np.array([s.loop for s in sections])
        """Frames from which motions go on when they are over."""

    def __len__(self) -> int:
        return len(self.sections)

    def select(self, names: Sequence[str]) -> "Motions":
        """Some of them, in the given order; one may be named several times."""
        chosen = [self.clips.index(name) for name in names]
        return Motions(self.clips.select(chosen), [self.sections[i] for i in chosen])

    def qpos(self, index: int) -> np.ndarray:
        """(T, 36) rows of a motion."""
        one = self.sections[index]
        return self.clips.qpos(index)[one.first : one.end]

    def to(self, device: torch.device | str) -> MotionTensors:
        """All of them on a device."""
        whole = self.clips.to(device)
        first = torch.tensor([s.first for s in self.sections], device=device)
        lengths = torch.from_numpy(self.lengths).to(whole.lengths)
        return replace(whole, starts=whole.starts + first, lengths=lengths)

    def sentences(self) -> list[list[str]]:
        """What the corpus says of each of them."""
        texts = [self.clips.entry(i).text for i in range(len(self))]
        return [[s.strip() for s in text.splitlines() if s.strip()] for text in texts]


def described(corpus: Corpus) -> Motions:
    """The motions to plan; of a generated corpus also mirror images."""
    both = corpus.with_mirror()
    if found := _one_of_each(both):
        return Motions(both.select(list(found)), list(found.values()))
    chosen = [i for i in range(len(corpus)) if corpus.entry(i).text.strip()]
    if not chosen:
        raise ValueError("no clip of this corpus is described in words")
    return Motions(
        corpus.select(chosen), [section(corpus.qpos(i), STEPS) for i in chosen]
    )


def _one_of_each(corpus: Corpus) -> dict[int, Section]:
    """Of each thing to say the clip with the best part; none if one lacks."""
    found: dict[int, Section] = {}
    for factors, said, unsaid in _SAID:
        wanted = frozenset(factors.split())
        fits = [
            i
            for i, name in enumerate(corpus.names)
            if factors_of(name) == wanted
            and re.search(said, corpus.entry(i).text)
            and not (unsaid and re.search(unsaid, corpus.entry(i).text))
        ]
        if not fits:
            return {}
        parts = {i: section(corpus.qpos(i), STEPS) for i in fits}
        best = max(parts, key=lambda i: parts[i].worth)
        found[best] = parts[best]
    return found

"""The sentences a planner was trained with, and which of them is meant."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills.planner import inflection
from spectral_skills.planner.opposites import differences, opposed, rests, traits
from spectral_skills.planner.text import TextEncoder, pooled

NEAR = 0.52
"""Cosine from which a sentence is taken for a known one."""
_SURE = 0.85
"""The same for a sentence with a word of `_OTHER` that no known one has."""
_DIFFERENCE = 0.1
"""What a trait that only one of two sentences names costs, in cosines."""
_OPPOSED = -4.0
"""Added to the cosine of an opposite: less than any other."""
_OTHER = set(
    """
    backflip build cartwheel catch clean climb cook crawl dance drink drive eat fight
    fly flip handstand hop jump kick kneel ladder leap lie pick play push-ups pushups
    read ride roll shoot sing sit skip sleep slide somersault stairs swim throw write
    """.split()
)
"""What a robot may be asked to do that is near to what others do, and is not it."""
_JOIN = re.compile(r",? while |,? and (?:also |meanwhile )?| as (?:you|it) ")
_STATE = re.compile(r",? with (?=.*\b(?:raised|lifted|spread|stretched|up|out|down)$)")
_WORDS = re.compile(r"[\w-]+")


class Near(NamedTuple):
    """A known sentence and how near it is."""

    sentence: str
    motion: str
    cosine: float


class Known:
    """Sentences of motions, with their vectors."""

    def __init__(
        self,
        motions: Mapping[str, Sequence[str]],
        vectors: Tensor,
        encoder: TextEncoder,
    ):
        """`vectors` (m, width) are pooled ones, in the order of all the sentences."""
        pairs = [(motion, s) for motion, own in motions.items() for s in own]
        if len(pairs) != len(vectors) or not pairs:
            raise ValueError(f"{len(vectors)} vectors for {len(pairs)} sentences")
        self.motions, self.sentences = zip(*pairs, strict=True)
        self.vectors, self._encoder = vectors.float().cpu(), encoder
        self._traits = [traits(sentence) for sentence in self.sentences]
        self._single = torch.tensor([len(parts(s)) == 1 for s in self.sentences])
        self._still = torch.tensor([rests(s) for s in self.sentences])
        self._words = {w for s in self.sentences for w in _WORDS.findall(s)}

    @classmethod
    def of(cls, motions: Mapping[str, Sequence[str]], encoder: TextEncoder) -> "Known":
        """Sentences of motions, encoded here."""
        every = [sentence for own in motions.values() for sentence in own]
        return cls(motions, pooled(encoder.encode(every)), encoder)

    def nearest(self, sentence: str, *, single: bool = False) -> Near:
        """The known sentence that is meant; with `single`, one of a single act."""
        allowed = self._single if single else torch.ones_like(self._single)
        return self._nearest(sentence, allowed)

    def at_rest(self, sentence: str) -> Near | None:
        """The nearest one that tells to be still, if any does."""
        return self._nearest(sentence, self._still) if self._still.any() else None

    def of_motion(self, sentence: str, motion: str) -> Near:
        """The nearest one of a motion."""
        return self._nearest(
            sentence, torch.tensor([m == motion for m in self.motions])
        )

    def is_near(self, sentence: str, near: Near) -> bool:
        """Whether a sentence may be taken for a known one."""
        words = set(_WORDS.findall(sentence))
        other = {w for w in words if inflection.ORDERS.get(w, w) in _OTHER}
        return near.cosine >= (_SURE if other - self._words else NEAR)

    def together(self, motions: frozenset[str]) -> str | None:
        """The motion that consists of others done at once, if one does."""
        return self._composed.get(motions)

    @cached_property
    def _composed(self) -> dict[frozenset[str], str]:
        """Motions by the single motions that their parts are."""
        found: dict[frozenset[str], str] = {}
        several = torch.nonzero(~self._single).flatten().tolist()
        self._encoder.encode([p for at in several for p in parts(self.sentences[at])])
        for at in several:
            told = [self.nearest(p, single=True) for p in parts(self.sentences[at])]
            singles = frozenset(near.motion for near in told)
            if len(singles) == len(told):
                found.setdefault(singles, self.motions[at])
        return found

    def _nearest(self, sentence: str, allowed: Tensor) -> Near:
        # Not by a matrix product: that rounds equal rows unlike, and of two motions
        # with the same sentence another one would be meant on another processor.
        cosines = (self.vectors * pooled(self._encoder.encode([sentence]))).sum(dim=1)
        asked = traits(sentence)
        costs = [differences(asked, own) for own in self._traits]
        scores = cosines - _DIFFERENCE * torch.tensor(costs)
        scores[torch.tensor([opposed(asked, own) for own in self._traits])] += _OPPOSED
        scores[~allowed] = 2 * _OPPOSED
        best = int(scores.argmax())
        # Where all are opposed, none is near.
        cosine = float(cosines[best]) if scores[best] > _OPPOSED / 2 else 0.0
        return Near(self.sentences[best], self.motions[best], cosine)


def parts(clause: str) -> list[str]:
    """What is to be done at once: `walk while waving` is `walk` and `wave`."""
    found, at = [], 0
    for join in _JOIN.finditer(clause):
        follows = _WORDS.match(clause, join.end())
        if follows and follows[0] in inflection.ORDERS:
            found.append(clause[at : join.start()])
            at = join.end()
    found.append(clause[at:])
    if len(found) == 1:
        found = _STATE.split(clause, maxsplit=1)
    return [
        inflection.order(one.strip()) or one.strip() for one in found if one.strip()
    ]

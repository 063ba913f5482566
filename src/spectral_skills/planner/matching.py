"""Which of the sentences that a planner has learned is meant by another one.

A language model says how near two sentences are. It hardly tells left from right or up
from down, so opposites are compared by the patterns of `words.toml`.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills.planner.phrases import PLAIN_VERBS, WORDS, as_order
from spectral_skills.planner.text import TextEncoder, pooled

NEAR = 0.52
"""Cosine from which a sentence is taken for a known one."""
_SURE = 0.85
"""The same for a sentence with a word of `_OTHER` that no known sentence has."""
_DIFFERENCE = 0.1
"""Cost, in cosines, of a trait that only one of two sentences names."""
_OPPOSED = -4.0
"""Number added to the cosine of an opposite: less than any other."""
_OTHER = set(WORDS["verbs"]["other"].split())
_JOIN = re.compile(r",? while |,? and (?:also |meanwhile )?| as (?:you|it) ")
_STATE = re.compile(r",? with (?=.*\b(?:raised|lifted|spread|stretched|up|out|down)$)")
_WORDS = re.compile(r"[\w-]+")
_TRAITS = {
    trait: {value: re.compile(rf"\b(?:{words})\b") for value, words in values.items()}
    for trait, values in WORDS["opposites"].items()
}
_PACES = re.compile(
    r"\bwithout (?:any )?hurry\b|\b\w+ speed\b|\bspeed up\b|\bat speed\b"
)
_STOP = re.compile(
    r"(?:stop|halt|freeze|wait|hold on|hold it|pause|stand by|(?:don'?t|do not) move)\b"
)
_NEGATED = re.compile(r"\b(?:don'?t|do not|not|never|no longer)\b")
_STILL = re.compile(r"\b(?:still|without moving|motionless|stay standing)\b")
Traits = Mapping[str, frozenset[str]]


class Match(NamedTuple):
    """A known sentence and how near it is."""

    sentence: str
    motion: str
    cosine: float


class KnownSentences:
    """Sentences of motions, with their vectors."""

    def __init__(
        self,
        sentences: Sequence[tuple[str, str]],
        encoder: TextEncoder,
        vectors: Tensor | None = None,
    ):
        """`sentences` are pairs of a motion and a sentence; `vectors` (m, width) are
        their pooled states, encoded here if they are not given."""
        if not sentences or (vectors is not None and len(vectors) != len(sentences)):
            count = 0 if vectors is None else len(vectors)
            raise ValueError(f"{count} vectors for {len(sentences)} sentences")
        self.motions, self.sentences = zip(*sentences, strict=True)
        if vectors is None:
            vectors = pooled(encoder.encode(self.sentences))
        self.vectors, self._encoder = vectors.float().cpu(), encoder
        self._traits = [traits(sentence) for sentence in self.sentences]
        self._single = torch.tensor([len(parts(s)) == 1 for s in self.sentences])
        self._still = torch.tensor([is_still(s) for s in self.sentences])
        self._words = {w for s in self.sentences for w in _WORDS.findall(s)}

    def nearest(self, sentence: str, *, single: bool = False) -> Match:
        """The known sentence that is meant; with `single`, one of a single act."""
        allowed = self._single if single else torch.ones_like(self._single)
        return self._nearest(sentence, allowed)

    def at_rest(self, sentence: str) -> Match | None:
        """The nearest sentence that asks to be still, if there is any."""
        return self._nearest(sentence, self._still) if self._still.any() else None

    def of_motion(self, sentence: str, motion: str) -> Match:
        """The nearest sentence of one motion."""
        return self._nearest(
            sentence, torch.tensor([m == motion for m in self.motions])
        )

    def is_near(self, sentence: str, match: Match) -> bool:
        """Whether a sentence may be taken for a known one."""
        words = set(_WORDS.findall(sentence))
        other = {w for w in words if PLAIN_VERBS.get(w, w) in _OTHER}
        return match.cosine >= (_SURE if other - self._words else NEAR)

    def combined(self, motions: frozenset[str]) -> str | None:
        """The motion that does several others at once, if there is one."""
        return self._combined.get(motions)

    @cached_property
    def _combined(self) -> dict[frozenset[str], str]:
        """Motions by the single motions that their parts are."""
        found: dict[frozenset[str], str] = {}
        several = torch.nonzero(~self._single).flatten().tolist()
        self._encoder.encode([p for at in several for p in parts(self.sentences[at])])
        for at in several:
            own = [self.nearest(p, single=True) for p in parts(self.sentences[at])]
            singles = frozenset(match.motion for match in own)
            if len(singles) == len(own):
                found.setdefault(singles, self.motions[at])
        return found

    def _nearest(self, sentence: str, allowed: Tensor) -> Match:
        # Not by a matrix product: its rounding differs between equal rows, so of two
        # motions with the same sentence another would be meant on another processor.
        cosines = (self.vectors * pooled(self._encoder.encode([sentence]))).sum(dim=1)
        asked = traits(sentence)
        costs = [differences(asked, own) for own in self._traits]
        scores = cosines - _DIFFERENCE * torch.tensor(costs)
        scores[torch.tensor([opposed(asked, own) for own in self._traits])] += _OPPOSED
        scores[~allowed] = 2 * _OPPOSED
        best = int(scores.argmax())
        # If all are opposed, none is near.
        cosine = float(cosines[best]) if scores[best] > _OPPOSED / 2 else 0.0
        return Match(self.sentences[best], self.motions[best], cosine)


def parts(clause: str) -> list[str]:
    """What is to be done at once: `walk while waving` is `walk` and `wave`."""
    found, at = [], 0
    for join in _JOIN.finditer(clause):
        follows = _WORDS.match(clause, join.end())
        if follows and follows[0] in PLAIN_VERBS:
            found.append(clause[at : join.start()])
            at = join.end()
    found.append(clause[at:])
    if len(found) == 1:
        found = _STATE.split(clause, maxsplit=1)
    return [as_order(one.strip()) or one.strip() for one in found if one.strip()]


def traits(sentence: str) -> dict[str, frozenset[str]]:
    """The opposites that a sentence names."""
    sentence = sentence.lower().replace("’", "'")
    # `at a low speed` says nothing of heights, `without hurry` is not in a hurry.
    bare = _PACES.sub(" ", sentence)
    slow = _TRAITS["pace"]["slow"].search(sentence)
    found = {}
    for trait, values in _TRAITS.items():
        text = bare if trait != "pace" or slow else sentence
        named = {value for value, words in values.items() if words.search(text)}
        if trait == "pace" and slow:
            named.add("slow")
        found[trait] = frozenset(named)
    return found


def opposed(some: Traits, others: Traits) -> bool:
    """Whether both name a trait and share none of its values.

    One arm instead of both is different, but not the opposite.
    """
    return any(
        some[trait] and others[trait] and not some[trait] & others[trait]
        for trait in _TRAITS
        if "both" not in some[trait] | others[trait]
    )


def differences(some: Traits, others: Traits) -> int:
    """Number of values that only one of the two names."""
    return sum(len(some[trait] ^ others[trait]) for trait in _TRAITS)


def stops(sentence: str) -> bool:
    """Whether a sentence asks to stop what is being done."""
    return _STOP.match(sentence.replace("’", "'")) is not None


def is_negated(sentence: str) -> bool:
    """Whether a sentence says what not to do."""
    return _NEGATED.search(sentence.replace("’", "'")) is not None


def is_still(sentence: str) -> bool:
    """Whether a sentence asks to be still."""
    return _STILL.search(sentence) is not None

"""Which known sentence is meant by another one.

A language model says how near two sentences are. Two things are done better here. It
hardly tells left from right or up from down, so opposites are compared by the patterns
of `words.toml`. And it does not know what does not matter: directions in which ways to
say one motion differ count less, and a motion is near if its sentences are, not only
one of them.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from string import ascii_lowercase
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from spectral_skills.planner.phrases import PATTERNS, PLAIN_VERBS, WORDS, as_order
from spectral_skills.planner.text import TextEncoder, pooled

SURE = 0.85
"""Cosine from which a sentence is taken for a known one, whatever its words are."""
_NEAR, _NEAR_OTHER_VERB = 0.47, 0.53
"""Nearness from which a motion is meant: usually, and if a sentence begins with a verb
that the motion has not."""
_LIKE, _LIKE_OTHER_VERB = 0.5, 0.6
"""The cosine that is needed besides: of sentences that were left out in turn, what is
less like a known one is mostly not it where the verb is another."""
_BEGINS_OTHERWISE, _OTHER_ACT = 0.06, 0.1
"""Costs of a motion that has not the verb that a sentence begins with, or another act
that it names: chosen on sentences of motions that were left out in turn."""
_MANY, _NEAR_OF_FEW = 1000, 0.4
"""With fewer known sentences, hardly anything is near that is not meant: the nearness
from which one is."""
_MEAN = 0.5
"""How much the mean over the sentences of a motion counts, beside the best of them."""
_EVEN = 0.3
"""Variance of wordings that is added in every direction, as a share of the mean."""
_OFFERED, _TRIED = 3, 12
"""Number of motions that are named where none is meant, and of known sentences whose
parts are compared with those of a clause."""
_DIFFERENCE, _OPPOSED = 0.1, -4.0
"""Cost, in cosines, of a trait that only one of two sentences names, and the number
added to the cosine of an opposite: less than any other."""

WORD = re.compile(r"[\w-]+")
_OTHER, _GENERAL = (set(WORDS["verbs"][kind].split()) for kind in ("other", "general"))
_STRANGE = set(WORDS["verbs"]["strange"].split())
_TRAITS = {
    trait: {value: re.compile(rf"\b(?:{words})\b") for value, words in values.items()}
    for trait, values in WORDS["opposites"].items()
}
_SIDES = {"left", "right"}
_VALUES = [(trait, value) for trait, values in _TRAITS.items() for value in values]


class Match(NamedTuple):
    """A known sentence and how near it is."""

    sentence: str
    motion: str
    cosine: float
    nearness: float
    """How near its motion is by all its sentences; at most 1."""


class KnownSentences:
    """Sentences of motions, with their vectors; of motions that have orders, these."""

    def __init__(
        self,
        sentences: Sequence[tuple[str, str]],
        encoder: TextEncoder,
        vectors: Tensor | None = None,
        as_said: Collection[str] = (),
    ):
        """`sentences` are pairs of a motion and a sentence; `vectors` (m, width) are
        their pooled states, encoded here if they are not given. Of the motions
        `as_said` all sentences are kept."""
        if not sentences or (vectors is not None and len(vectors) != len(sentences)):
            count = 0 if vectors is None else len(vectors)
            raise ValueError(f"{count} vectors for {len(sentences)} sentences")
        ordered = {motion for motion, sentence in sentences if is_order(sentence)}
        kept = [
            i
            for i, (motion, sentence) in enumerate(sentences)
            if motion not in ordered - set(as_said) or is_order(sentence)
        ]
        self.motions, self.sentences = zip(*(sentences[i] for i in kept), strict=True)
        if vectors is None:
            vectors = pooled(encoder.encode(self.sentences))
        else:
            vectors = vectors[kept]
        self._vectors, self.encoder = vectors.float().cpu(), encoder
        self._names = list(dict.fromkeys(self.motions))
        numbers = {name: i for i, name in enumerate(self._names)}
        self._motion = torch.tensor([numbers[motion] for motion in self.motions])
        self._map = _telling(self._vectors, self._motion)
        self._told = functional.normalize(self._vectors @ self._map)
        self._named = named(self.sentences)
        self.single = torch.tensor([len(parts(s)) == 1 for s in self.sentences])
        """(m,) sentences of a single act."""
        self.still = torch.tensor(
            [bool(PATTERNS.still.search(s)) for s in self.sentences]
        )
        """(m,) sentences that ask to be still."""

    def nearest(self, sentence: str, among: Tensor | None = None) -> Match:
        """The known sentence that is meant, among all or some (m,) of them."""
        cosines, scores = self._scores(sentence)
        if among is not None:
            scores[~among] = 2 * _OPPOSED
        near = self._nearness(scores)
        motion = int((near - self._verb_costs(sentence)).argmax())
        best = int(scores.masked_fill(self._motion != motion, -torch.inf).argmax())
        # If all are opposed, none is near.
        fits = bool(scores[best] > _OPPOSED / 2)
        cosine, nearness = float(cosines[best]), float(near[motion])
        found = (cosine, nearness) if fits else (0.0, 0.0)
        return Match(self.sentences[best], self.motions[best], *found)

    def _verb_costs(self, sentence: str) -> Tensor:
        """What it costs motions that none of their sentences has a verb of this one."""
        words = plain_words(sentence)
        first, other = set(words[:1]) - _GENERAL, _OTHER.intersection(words)
        each = [self._words[name] for name in self._names]
        begins = torch.tensor([bool(first - own) for own in each])
        differs = torch.tensor([bool(other - own) for own in each])
        return _BEGINS_OTHERWISE * begins + _OTHER_ACT * differs

    def spelled(self, text: str) -> str:
        """A text whose words are spelled as known ones, if one letter is wrong."""
        written = getattr(self.encoder, "pieces", None)
        if written is None:
            return text

        def right(found: re.Match[str]) -> str:
            word = found[0]
            verbs = PLAIN_VERBS.keys() | _STRANGE | _OTHER
            if word in self._spelled or word in written or word in verbs:
                return word
            near = {one for one in one_letter_off(word) if one in self._spelled}
            return min(near, key=lambda one: (-self._spelled[one], one), default=word)

        return re.sub(r"(?<![\w'-])[a-z]{4,}(?![\w'-])", right, text)

    @cached_property
    def _spelled(self) -> Counter[str]:
        """Known words, and how often they are said."""
        return Counter(w for s in self.sentences for w in WORD.findall(s))

    def said_of(self, motion: str) -> list[str]:
        """The sentences of a motion."""
        own = self._names.index(motion)
        return [self.sentences[i] for i in (self._motion == own).nonzero().flatten()]

    def exactly(self, sentence: str) -> Match:
        """A sentence that is known."""
        at = self.sentences.index(sentence)
        return Match(sentence, self.motions[at], 1.0, 1.0)

    def _scores(self, sentence: str) -> tuple[Tensor, Tensor]:
        """(m,) cosines to all known sentences, and how near they are."""
        # Not by a matrix product: its rounding differs between equal rows, so of two
        # motions with the same sentence another would be meant on another processor.
        vector = pooled(self.encoder.encode([sentence]))
        told = functional.normalize(vector @ self._map)
        cosines = (self._vectors * vector).sum(dim=1)
        near = (self._told * told).sum(dim=1)
        return cosines, near - costs(sentence, self._named)

    def _nearness(self, scores: Tensor) -> Tensor:
        """How near motions are, by the scores (m,) of their sentences."""
        none = torch.full((len(self._names),), 2 * _OPPOSED)
        best = none.scatter_reduce(0, self._motion, scores, "amax")
        kinds = {"reduce": "mean", "include_self": False}
        mean = none.scatter_reduce(0, self._motion, scores.clamp_min(-1.0), **kinds)
        return (best + _MEAN * mean) / (1 + _MEAN)

    def like(self, sentence: str, count: int = _OFFERED) -> list[str]:
        """The first known sentences of the motions that are nearest."""
        near = self._nearness(self._scores(sentence)[1]).argsort(descending=True)
        motions = [self._names[i] for i in near[:count].tolist()]
        return [self.sentences[self.motions.index(motion)] for motion in motions]

    def is_near(self, sentence: str, match: Match) -> bool:
        """Whether a sentence may be taken for a known one."""
        words, own = plain_words(sentence), self._words[match.motion]
        acting = PATTERNS.meanwhile.sub("", sentence)
        sides = traits(acting)["side"] & _SIDES
        if len(sides) == 2 and len(traits(match.sentence)["side"] & sides) == 1:
            return False  # of two sides, one would be left out or taken for the other
        if match.cosine >= SURE:
            return True
        if _OTHER.intersection(words) - own or (
            PATTERNS.cannot.search(sentence)
            and not PATTERNS.cannot.search(match.sentence)
        ):
            return False
        if words and words[0] in _STRANGE - own:
            return False
        if len(self.sentences) < _MANY:
            return match.nearness >= _NEAR_OF_FEW
        fits = bool(words) and words[0] in own | _GENERAL
        least, cosine = (_NEAR, _LIKE) if fits else (_NEAR_OTHER_VERB, _LIKE_OTHER_VERB)
        return match.nearness >= least and match.cosine >= cosine

    @cached_property
    def _words(self) -> dict[str, set[str]]:
        """Words of the sentences of each motion; verbs in their plain form."""
        found: dict[str, set[str]] = {}
        for motion, sentence in zip(self.motions, self.sentences, strict=True):
            found.setdefault(motion, set()).update(plain_words(sentence))
        return found

    def together(self, clause: str, motions: Sequence[str]) -> Match | None:
        """A motion that has the parts of a clause at once, whose motions are given."""
        if len(set(motions)) < len(motions):
            return None
        scores = self._scores(clause)[1].masked_fill(self.single, 2 * _OPPOSED)
        for at in scores.topk(min(_TRIED, len(scores))).indices.tolist():
            own = [
                self.nearest(p, self.single).motion for p in parts(self.sentences[at])
            ]
            if sorted(own) == sorted(motions):
                return self.nearest(clause, self._motion == self._motion[at])
        return None


def _telling(vectors: Tensor, motion: Tensor) -> Tensor:
    """(width, width) a map in which ways to say one motion are alike."""
    sums = torch.zeros(int(motion.max()) + 1, vectors.shape[1])
    counts = torch.bincount(motion)[:, None]
    own = vectors - (sums.index_add(0, motion, vectors) / counts)[motion]
    variances, axes = torch.linalg.eigh(own.T @ own / len(own))
    even = _EVEN * variances.mean()
    if even < 1e-6:  # no motion has two sentences
        return torch.eye(vectors.shape[1])
    return axes / (variances.clamp_min(0.0) + even).sqrt()


def plain_words(sentence: str) -> list[str]:
    """The words of a sentence; verbs in their plain form."""
    return [PLAIN_VERBS.get(word, word) for word in WORD.findall(sentence)]


def one_letter_off(word: str) -> Iterator[str]:
    """Words with one letter missing, added, changed or swapped with the next."""
    for i in range(len(word) + 1):
        before, after = word[:i], word[i:]
        yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        for letter in ascii_lowercase:
            yield before + letter + after
            yield before + letter + after[1:]


def is_order(sentence: str) -> bool:
    """Whether a sentence begins with a verb in its plain form."""
    first = sentence.split(" ")[0]
    return PLAIN_VERBS.get(first) == first


def named(sentences: Sequence[str]) -> Tensor:
    """(m, v) which values of traits sentences name."""
    found = [traits(sentence) | {"side": _side(sentence)} for sentence in sentences]
    return torch.tensor([[value in own[t] for t, value in _VALUES] for own in found])


def _side(sentence: str) -> frozenset[str]:
    """The side that acts: of `the left arm, the right one hangs` it is the left."""
    sides = traits(sentence)["side"]
    limb = PATTERNS.limb.search(sentence.lower())
    first = PATTERNS.one_side.search(sentence.lower())
    if not (limb and first and _SIDES <= sides):
        return sides
    if PATTERNS.each_side.search(sentence.lower()) or limb[1] != first[0]:
        return sides
    return sides - _SIDES | {limb[1]}


def costs(sentence: str, others: Tensor) -> Tensor:
    """What a sentence's differences from what others name (m, v) cost, in cosines."""
    asked = named([sentence])
    against = torch.zeros(len(others), dtype=torch.bool)
    for trait in _TRAITS:
        own = [i for i, (t, _) in enumerate(_VALUES) if t == trait]
        both = [i for i in own if _VALUES[i][1] == "both"]
        ours, theirs = asked[:, own], others[:, own]
        apart = ours.any(dim=1) & theirs.any(dim=1) & ~(ours & theirs).any(dim=1)
        against |= apart & ~(asked[:, both] | others[:, both]).any(dim=1)
    return _DIFFERENCE * (asked ^ others).sum(dim=1) - _OPPOSED * against


def traits(sentence: str) -> dict[str, frozenset[str]]:
    """The opposites that a sentence names."""
    sentence = sentence.lower()
    # `at a low speed` says nothing of heights, `without hurry` is not in a hurry.
    bare = PATTERNS.paces.sub(" ", sentence)
    slow = _TRAITS["pace"]["slow"].search(sentence)
    found = {}
    for trait, values in _TRAITS.items():
        text = bare if trait != "pace" or slow else sentence
        own = {value for value, words in values.items() if words.search(text)}
        if trait == "pace" and slow:
            own.add("slow")
        found[trait] = frozenset(own)
    return found


def opposed(one: str, other: str) -> bool:
    """Whether both sentences name a trait and share none of its values.

    One arm instead of both is different, but not the opposite.
    """
    return bool(costs(one, named([other]))[0] >= -_OPPOSED)


def other_side(clause: str, done: Iterable[str]) -> bool:
    """Whether a clause asks for one side, and all that is done has only the other."""
    asked = traits(clause)["side"] & _SIDES
    sides = {side for one in done for side in traits(one)["side"]} & _SIDES
    return len(asked) == len(sides) == 1 and asked != sides


def parts(clause: str) -> list[str]:
    """What is to be done at once: `walk while waving` is `walk` and `wave`."""
    found, at = [], 0
    for join in PATTERNS.join.finditer(clause):
        follows = WORD.match(clause, join.end())
        if follows and follows[0] in PLAIN_VERBS:
            found.append(clause[at : join.start()])
            at = join.end()
    found.append(clause[at:])
    if len(found) == 1:
        found = PATTERNS.state.split(clause, maxsplit=1)
    return [as_order(one.strip()) or one.strip() for one in found if one.strip()]

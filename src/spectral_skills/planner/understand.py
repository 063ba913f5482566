"""From typed text to instructions, which are motions that a planner knows and knobs.

A text is split into clauses that follow each other. The parts of a clause are done at
once: by one motion that has them all, as a motion with knobs on top, or else one after
the other. Text that is far from everything known is not guessed. A language model says
how near two sentences are; it hardly tells left from right or up from down, so
opposites are compared by the patterns of `words.toml`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills.planner.phrases import (
    PATTERNS,
    PLAIN_VERBS,
    WORDS,
    as_order,
    parse,
    plain,
)
from spectral_skills.planner.text import TextEncoder, pooled
from spectral_skills.spectral import catalogue
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions

LONGEST_TEXT = 1000
"""Largest number of characters of a text."""
_NEAR, _SURE = 0.52, 0.85
"""Cosines from which a sentence is taken for a known one: usually, and with a word of
`_OTHER` that no known sentence has."""
_MANY, _NEAR_OF_MANY, _NEAR_OTHER_VERB = 1000, 0.6, 0.8
"""With so many known sentences, something is near to any text: cosines for these, and
where a text begins with a verb that other motions have and the nearest has not."""
_OFFERED = 3
"""Number of motions that are named where none is meant."""
_NEAR_WISH = 0.68
"""Cosine from which a text is taken for a wish."""
_DIFFERENCE, _OPPOSED = 0.1, -4.0
"""Cost, in cosines, of a trait that only one of two sentences names, and the number
added to the cosine of an opposite: less than any other."""
_AS_KNOB = 0.05
"""A part of a clause becomes a knob rather than a motion if its cosine to the knob's
wish is smaller by no more than this."""
_AS_WHOLE = 0.1
"""A clause becomes one motion rather than several if its cosine is larger by this."""

_NUMBERS = WORDS["numbers"]
_SECONDS = re.compile(
    rf"[ ,]*(?:\bfor )?(?:about )?(\d+(?:\.\d+)?|\b(?:{'|'.join(_NUMBERS)}))"
    r"[ -]?(s|secs?|seconds?|min|minutes?)\b"
)
_WORD = re.compile(r"[\w-]+")
_BODY, _OTHER, _GENERAL = (
    set(WORDS["verbs"][kind].split()) for kind in ("body", "other", "general")
)
_WISHES = [(s, wish) for wish in WORDS["wishes"] for s in wish["sentences"]]
_TRAITS = {
    trait: {value: re.compile(rf"\b(?:{words})\b") for value, words in values.items()}
    for trait, values in WORDS["opposites"].items()
}
_VALUES = [(trait, value) for trait, values in _TRAITS.items() for value in values]


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
        self._vectors, self.encoder = vectors.float().cpu(), encoder
        self._named = _named(self.sentences)
        self.single = torch.tensor([len(parts(s)) == 1 for s in self.sentences])
        """(m,) sentences of a single act."""
        self.still = torch.tensor(
            [bool(PATTERNS.still.search(s)) for s in self.sentences]
        )
        """(m,) sentences that ask to be still."""
        self._words = {w for s in self.sentences for w in _WORD.findall(s)}

    def nearest(self, sentence: str, among: Tensor | None = None) -> Match:
        """The known sentence that is meant, among all or some (m,) of them."""
        cosines, scores = self._scores(sentence)
        if among is not None:
            scores[~among] = 2 * _OPPOSED
        best = int(scores.argmax())
        # If all are opposed, none is near.
        cosine = float(cosines[best]) if scores[best] > _OPPOSED / 2 else 0.0
        return Match(self.sentences[best], self.motions[best], cosine)

    def _scores(self, sentence: str) -> tuple[Tensor, Tensor]:
        """(m,) cosines to all known sentences, and what is left of them."""
        # Not by a matrix product: its rounding differs between equal rows, so of two
        # motions with the same sentence another would be meant on another processor.
        cosines = (self._vectors * pooled(self.encoder.encode([sentence]))).sum(dim=1)
        return cosines, cosines - _costs(sentence, self._named)

    def like(self, sentence: str, count: int = _OFFERED) -> list[str]:
        """Known sentences of the motions that are nearest, an order of each."""
        nearest = self._scores(sentence)[1].argsort(descending=True).tolist()
        motions = list(dict.fromkeys(self.motions[i] for i in nearest))[:count]
        return [self._orders[motion] for motion in motions]

    @cached_property
    def _orders(self) -> dict[str, str]:
        """The first sentence of each motion that is an order, or else the first."""
        found: dict[str, str] = {}
        for motion, sentence in zip(self.motions, self.sentences, strict=True):
            kept = found.setdefault(motion, sentence)
            if not _is_order(kept) and _is_order(sentence):
                found[motion] = sentence
        return found

    def of_motion(self, sentence: str, motion: str) -> Match:
        return self.nearest(sentence, torch.tensor([m == motion for m in self.motions]))

    def is_near(self, sentence: str, match: Match) -> bool:
        """Whether a sentence may be taken for a known one."""
        words = _WORD.findall(sentence)
        if {w for w in words if PLAIN_VERBS.get(w, w) in _OTHER} - self._words:
            return match.cosine >= _SURE
        if len(self.sentences) < _MANY:
            return match.cosine >= _NEAR
        verb = PLAIN_VERBS.get(words[0], "") if words else ""
        elsewhere = any(verb in verbs for verbs in self._verbs.values())
        other = elsewhere and verb not in self._verbs[match.motion] | _GENERAL
        return match.cosine >= (_NEAR_OTHER_VERB if other else _NEAR_OF_MANY)

    @cached_property
    def _verbs(self) -> dict[str, set[str]]:
        """Verbs of the sentences of each motion."""
        found: dict[str, set[str]] = {}
        for motion, sentence in zip(self.motions, self.sentences, strict=True):
            verbs = {PLAIN_VERBS.get(word, "") for word in _WORD.findall(sentence)}
            found.setdefault(motion, set()).update(verbs)
        return found

    @cached_property
    def combined(self) -> dict[frozenset[str], str]:
        """Motions by the single motions that their parts are."""
        found: dict[frozenset[str], str] = {}
        several = torch.nonzero(~self.single).flatten().tolist()
        self.encoder.encode([p for at in several for p in parts(self.sentences[at])])
        for at in several:
            own = [self.nearest(p, self.single) for p in parts(self.sentences[at])]
            singles = frozenset(match.motion for match in own)
            if len(singles) == len(own):
                found.setdefault(singles, self.motions[at])
        return found


def _is_order(sentence: str) -> bool:
    """Whether a sentence begins with a verb in its plain form."""
    first = sentence.split(" ")[0]
    return PLAIN_VERBS.get(first) == first


def _named(sentences: Sequence[str]) -> Tensor:
    """(m, v) which values of traits sentences name."""
    found = [traits(sentence) for sentence in sentences]
    return torch.tensor([[value in own[t] for t, value in _VALUES] for own in found])


def _costs(sentence: str, others: Tensor) -> Tensor:
    """What a sentence's differences from what others name (m, v) cost, in cosines."""
    asked = _named([sentence])
    against = torch.zeros(len(others), dtype=torch.bool)
    for trait in _TRAITS:
        own = [i for i, (t, _) in enumerate(_VALUES) if t == trait]
        both = [i for i in own if _VALUES[i][1] == "both"]
        ours, theirs = asked[:, own], others[:, own]
        apart = ours.any(dim=1) & theirs.any(dim=1) & ~(ours & theirs).any(dim=1)
        against |= apart & ~(asked[:, both] | others[:, both]).any(dim=1)
    return _DIFFERENCE * (asked ^ others).sum(dim=1) - _OPPOSED * against


def parts(clause: str) -> list[str]:
    """What is to be done at once: `walk while waving` is `walk` and `wave`."""
    found, at = [], 0
    for join in PATTERNS.join.finditer(clause):
        follows = _WORD.match(clause, join.end())
        if follows and follows[0] in PLAIN_VERBS:
            found.append(clause[at : join.start()])
            at = join.end()
    found.append(clause[at:])
    if len(found) == 1:
        found = PATTERNS.state.split(clause, maxsplit=1)
    return [as_order(one.strip()) or one.strip() for one in found if one.strip()]


def traits(sentence: str) -> dict[str, frozenset[str]]:
    """The opposites that a sentence names."""
    sentence = sentence.lower()
    # `at a low speed` says nothing of heights, `without hurry` is not in a hurry.
    bare = PATTERNS.paces.sub(" ", sentence)
    slow = _TRAITS["pace"]["slow"].search(sentence)
    found = {}
    for trait, values in _TRAITS.items():
        text = bare if trait != "pace" or slow else sentence
        named = {value for value, words in values.items() if words.search(text)}
        if trait == "pace" and slow:
            named.add("slow")
        found[trait] = frozenset(named)
    return found


def opposed(one: str, other: str) -> bool:
    """Whether both sentences name a trait and share none of its values.

    One arm instead of both is different, but not the opposite.
    """
    return bool(_costs(one, _named([other]))[0] >= -_OPPOSED)


@dataclass(frozen=True)
class Instruction:
    sentence: str
    """What was typed, without what was understood separately."""
    motion: str
    """Name of the motion to execute."""
    nearest: str
    """Known sentence that is nearest to what was typed."""
    cosine: float
    knobs: tuple[Choice, ...] = ()
    seconds: float | None = None
    """Duration, if the text says how long."""
    why: str = ""
    """Why it was not understood; empty if it was."""

    @property
    def understood(self) -> bool:
        return not self.why


class _Refusal(Exception):  # noqa: N818
    def __init__(self, match: Match, why: str):
        self.match, self.why = match, why


@dataclass(frozen=True)
class Interpreter:
    """Understands texts by known sentences and, if there are any, by directions."""

    known: KnownSentences
    directions: Directions | None = None

    def interpret(self, text: str) -> list[Instruction]:
        """The instructions of a text, including those that were not understood."""
        if not text.strip():
            raise ValueError("there is no text: say what to do, such as `walk forward`")
        if len(text) > LONGEST_TEXT:
            raise ValueError(
                f"the text has {len(text)} characters, and at most {LONGEST_TEXT} are "
                "read"
            )
        found: list[Instruction] = []
        for clause, seconds in _clauses(text):
            if clause:
                # A wish cannot change what was not understood.
                before = found[-1] if found and found[-1].understood else None
                found += self._clause(clause, before)
            if found:
                found[-1] = replace(found[-1], seconds=seconds)
        return found or [_refused(text, self._unknown(text, self.known.nearest(text)))]

    def _unknown(self, text: str, match: Match) -> _Refusal:
        """A refusal that names what could be done instead."""
        offered = ", ".join(map(repr, self.known.like(text)))
        near = f"the nearest that can be done: {offered}"
        return _Refusal(match, f"{near} (cosine {match.cosine:.2f})")

    def _clause(self, clause: str, before: Instruction | None) -> list[Instruction]:
        try:
            return self._understood(clause, before)
        except _Refusal as refusal:
            return [_refused(clause, refusal)]

    def _understood(self, clause: str, before: Instruction | None) -> list[Instruction]:
        known = self.known
        match = known.nearest(clause)
        # `wait` is to stand still, `wait for the bus` may be a motion of its own.
        stops = PATTERNS.stop.match(clause) and match.cosine < _SURE
        if stops and known.still.any():
            still = known.nearest(clause, known.still)
            return [_accepted(still.sentence, still)]
        if PATTERNS.negated.search(clause) and not PATTERNS.still.search(
            match.sentence
        ):
            why = "it says what not to do: say what to do instead"
            raise _Refusal(match, why)
        if len(several := parts(clause)) > 1:
            return self._at_once(clause, several)
        if known.is_near(clause, match):
            return [_accepted(clause, match)]
        if before and (knob := self._knob(clause, before.nearest)):
            return [replace(before, knobs=(*before.knobs, knob), seconds=None)]
        raise self._unknown(clause, match)

    def _at_once(self, clause: str, several: Sequence[str]) -> list[Instruction]:
        """A clause with several parts as one motion, if one has them all."""
        known = self.known
        matches = [known.nearest(part, known.single) for part in several]
        whole = known.nearest(clause)
        if motion := known.combined.get(frozenset(match.motion for match in matches)):
            whole = known.of_motion(clause, motion)
        weakest = min(match.cosine for match in matches)
        nearer = whole.cosine > weakest + _AS_WHOLE and len(parts(whole.sentence)) > 1
        if (motion or nearer) and known.is_near(clause, whole):
            return [_accepted(clause, whole)]
        return self._with_knobs(several, matches)

    def _with_knobs(
        self, several: Sequence[str], matches: Sequence[Match]
    ) -> list[Instruction]:
        """A base with knobs; parts that are not knobs come before or after it."""
        first = next((i for i, m in enumerate(matches) if _is_act(m.sentence)), 0)
        base, knobs, found = matches[first], [], {}
        for number, (part, match) in enumerate(zip(several, matches, strict=True)):
            knob = self._knob(part, base.sentence) if number != first else None
            if knob and knob.cosine >= match.cosine - _AS_KNOB:
                knobs.append(knob)
            elif not self.known.is_near(part, match):
                raise self._unknown(part, match)
            else:
                found[number] = _accepted(part, match)
        found[first] = replace(found[first], knobs=tuple(knobs))
        return [found[number] for number in sorted(found)]

    def _knob(self, wish: str, base: str) -> Choice | None:
        if self.directions is None:
            return None
        return choose_knob(wish, self.directions, self.known.encoder, base_of(base))


def choose_knob(
    text: str, directions: Directions, encoder: TextEncoder, base: str = "walk"
) -> Choice | None:
    """The direction and amplitude for a wish such as `higher steps`.

    None if the text is far from every wish or no direction was measured to serve it.
    """
    bare, scale = _scaled(text)
    if not bare:
        return None
    vectors = pooled(encoder.encode([bare, *(sentence for sentence, _ in _WISHES)]))
    cosines = vectors[1:] @ vectors[0]
    scores = cosines - _costs(bare, _named([sentence for sentence, _ in _WISHES]))
    best = int(scores.argmax())
    wish, cosine = _WISHES[best][1], float(cosines[best])
    if cosine < _NEAR_WISH or scores[best] < -1.0:
        return None
    found = catalogue.choose(directions, wish["name"], wish["parts"], base, scale)
    return found and replace(found, cosine=cosine)


def _scaled(text: str) -> tuple[str, float]:
    """A wish without its words for how much, and the factor that they stand for."""
    text, scale = " ".join(re.sub(r"\byour\b", "the", text.lower()).split()), 1.0
    for pattern, factor in WORDS["scales"].items():
        text, found = re.subn(rf"(?:^| )(?:{pattern})\b", "", text)
        scale = factor if found else scale
    return text.strip(" ,."), scale


def base_of(sentence: str) -> str:
    """The base whose measured effects hold for a motion, by its sentence."""
    for base, words in WORDS["bases"].items():
        if re.search(rf"\b(?:{words})\b", sentence):
            return base
    return "walk"


def _clauses(text: str) -> Iterator[tuple[str, float | None]]:
    """What is done one after the other, and for how long."""
    for clause in _listed(plain(text.replace("\n", "; "))):
        seconds = None
        if found := _SECONDS.search(clause):
            clause = clause[: found.start()] + clause[found.end() :]
            number = _NUMBERS.get(found[1]) or float(found[1])
            seconds = number * (60.0 if found[2].startswith("m") else 1.0)
        bare = PATTERNS.polite.sub(
            "", PATTERNS.wrapped.sub("", clause.strip(" ,.!?"))
        ).strip(" ,.!?")
        if bare or seconds:
            yield bare, seconds


def _listed(text: str) -> Iterator[str]:
    """A text split at every `then`, and at every comma that an order follows."""
    for clause in PATTERNS.then.split(text):
        first, *others = re.split(r", (?=([\w-]+))", clause)
        for word, more in zip(others[::2], others[1::2], strict=True):
            if PLAIN_VERBS.get(word) == word:
                yield first
                first = more
            else:
                first = f"{first}, {more}"
        yield first


def _is_act(sentence: str) -> bool:
    """Whether a sentence asks for more than a gesture."""
    orders = parse(sentence)
    return orders is not None and any(a.split()[0] in _BODY for a in orders.acts[:1])


def _accepted(sentence: str, match: Match) -> Instruction:
    return Instruction(sentence, match.motion, match.sentence, match.cosine)


def _refused(sentence: str, refusal: _Refusal) -> Instruction:
    return replace(_accepted(sentence, refusal.match), why=refusal.why)

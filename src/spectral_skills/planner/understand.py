"""From typed text to instructions, which are motions that a planner knows and knobs.

A text is split into clauses that follow each other. The parts of a clause are done at
once: by one motion that has them all, as a motion with knobs on top, or else one after
the other. Text that is far from everything known is not guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

from spectral_skills.planner.acts import amount, spelled, timed
from spectral_skills.planner.asked import (
    asked,
    bare,
    begins_order,
    needs_signal,
    shorter,
    tells,
    within,
    without_comparison,
    without_tail,
)
from spectral_skills.planner.lookup import (
    SURE,
    KnownSentences,
    Match,
    costs,
    named,
    other_side,
    parts,
)
from spectral_skills.planner.phrases import PATTERNS, WORDS, as_order, parse, plain
from spectral_skills.planner.text import TextEncoder, pooled
from spectral_skills.spectral import catalogue
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions

LONGEST_TEXT, LONGEST_ORDER = 1000, 200
"""Largest number of characters of a text, and of an order in it."""
MOST_ORDERS = 16
"""Largest number of orders in a text: each takes the language model a while."""
_MOST_TAILS = 5
"""Number of tails of a clause that are tried without."""
_NEAR_WISH = 0.68
"""Cosine from which a text is taken for a wish."""
_NEAR_CUT = 0.75
"""Cosine from which a clause is meant of which something was left out."""
_AS_KNOB = 0.05
"""A part of a clause becomes a knob rather than a motion if its cosine to the knob's
wish is smaller by no more than this."""
_AS_WHOLE = 0.05
"""A clause becomes several motions rather than one if the furthest of its parts is
nearer than the whole by this; or, if the whole means one of them, not further by it."""

_BODY = set(WORDS["verbs"]["body"].split())
_STAYS = {"bow", "do", "squat", "stand"}
"""Verbs of the whole body that go nowhere."""
_WISHES = [(s, wish) for wish in WORDS["wishes"] for s in wish["sentences"]]


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
    left_out: str = ""
    """What was said of it that is not done."""

    @property
    def understood(self) -> bool:
        return not self.why


class _Refusal(Exception):  # noqa: N818
    def __init__(self, match: Match, why: str, far: bool = False):
        self.match, self.why = match, why
        self.far = far
        """Whether it is only that nothing known is near."""


@dataclass(frozen=True)
class Interpreter:
    """Understands texts by known sentences and, if there are any, by directions."""

    known: KnownSentences
    directions: Directions | None = None
    acts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What is made of known orders: these orders, by the name in `known`."""

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
        text = spelled(plain(text.replace("\n", "; ")))
        clauses = list(self._clauses(text))
        count = sum(len(parts(clause)) for clause, *_ in clauses)
        if count > MOST_ORDERS:
            raise ValueError(
                f"the text has {count} orders, and at most {MOST_ORDERS} are read: "
                "say it in several texts"
            )
        for clause, seconds, of_first in clauses:
            begin = len(found)
            if len(clause) > LONGEST_ORDER:
                match = self.known.nearest(clause[:LONGEST_ORDER])
                why = f"it is longer than {LONGEST_ORDER} characters: say less at once"
                found.append(_refused(clause, _Refusal(match, why)))
            elif clause and not (found and _holds(clause, found[-1].nearest)):
                clause = self._shorter(clause)
                # A wish cannot change what was not understood.
                before = found[-1] if found and found[-1].understood else None
                found += _unsaid(self._clause(clause, before), before)
            if found and seconds is not None:
                at = begin if of_first and begin < len(found) else -1
                # What is to last no time is not done, least of all for the usual time.
                why = found[at].why or ("" if seconds else "it is to last no time")
                found[at] = replace(found[at], seconds=seconds or None, why=why)
        found = found or [_refused(text, self._unknown(text, self.known.nearest(text)))]
        return _without_talk(found)

    def _clauses(self, text: str) -> Iterator[tuple[str, float | None, bool]]:
        """What is done one after the other, for how long, and whether that is the
        duration of the first of its parts: an amount is, a duration that ends it is of
        the last. What is known as a whole is not cut."""
        clauses = [text] if text in self.known.sentences else asked(text)
        if 1 < len(clauses) and len(text) <= LONGEST_ORDER:
            whole = _order(text[max(0, text.find(clauses[0])) :])
            match = self.known.nearest(whole)
            if match.cosine >= SURE and len(asked(match.sentence)) > 1:
                clauses = [match.sentence]
        for clause in clauses:
            order = clause if clause in self.known.sentences else _order(clause)
            seconds, of_first = None, False
            if order not in self.known.sentences:
                clause, seconds = timed(clause)
                if of_first := seconds is None:
                    clause, seconds = amount(clause)
                order = _order(clause)
            if order or seconds is not None:
                yield order, seconds, bool(order and of_first)

    def _shorter(self, clause: str) -> str:
        """A clause without what changes nothing of it, if that is nearer."""
        ways = shorter(clause)
        if ways[0] == clause and self.known.nearest(clause).cosine >= SURE:
            return clause
        return max(ways, key=lambda way: self.known.nearest(way).nearness)

    def _unknown(self, text: str, match: Match) -> _Refusal:
        """A refusal that names what could be done instead."""
        offered = ", ".join(map(repr, self.known.like(text)))
        near = f"the nearest that can be done: {offered}"
        return _Refusal(match, f"{near} (cosine {match.cosine:.2f})", far=True)

    def _accepted(self, clause: str, match: Match) -> list[Instruction]:
        """What is done for a clause: a motion, or the orders of an act."""
        orders = self.acts.get(match.motion)
        if not orders:
            return [_accepted(clause, match)]
        found = []
        for order, seconds in map(timed, orders):
            own = self.known.exactly(order)._replace(cosine=match.cosine)
            found.append(replace(_accepted(clause, own), seconds=seconds))
        return found

    def _clause(self, clause: str, before: Instruction | None) -> list[Instruction]:
        try:
            return self._understood(clause, before)
        except _Refusal as refusal:
            right = self.known.spelled(clause)
            if refusal.far and right != clause:
                found = self._clause(right, before)
                # What is refused is named as it was typed.
                understood = any(one.understood for one in found)
                return found if understood else [_refused(clause, refusal)]
            if refusal.far and not PATTERNS.cannot.search(clause):
                for less, rest in islice(_less(clause), _MOST_TAILS):
                    match = self.known.nearest(less)
                    near = match.cosine >= _NEAR_CUT and self._near(less, match)
                    if near and len(parts(less)) == 1:
                        found = self._accepted(less, match)
                        return [replace(one, left_out=rest) for one in found]
            return [_refused(clause, refusal)]

    def _understood(self, clause: str, before: Instruction | None) -> list[Instruction]:
        known, several = self.known, parts(clause)
        match = known.nearest(clause)
        if clause in known.sentences:
            return self._accepted(clause, match)
        if len(several) > 1 and any(map(self._stops, several)):
            goes_on = [two for one, two in pairwise(several) if not _holds(two, one)]
            each = (*several[:1], *goes_on)
            return [one for part in each for one in self._clause(part, None)]
        if self._stops(clause) and known.still.any():
            still = known.nearest(clause, known.still)
            return [_accepted(still.sentence, still)]
        if PATTERNS.negated.search(
            without_comparison(clause)
        ) and not PATTERNS.still.search(match.sentence):
            why = "it says what not to do: say what to do instead"
            raise _Refusal(match, why)
        if tells(clause):
            raise _Refusal(match, "it tells something: say what to do")
        if needs_signal(clause):
            raise _Refusal(match, "nothing can be waited for: say what to do now")
        if len(several) > 1:
            return self._at_once(clause, several)
        if self._near(clause, match):
            return self._accepted(clause, match)
        if before and (knob := self._knob(clause, before.nearest)):
            return [replace(before, knobs=(*before.knobs, knob), seconds=None)]
        raise self._unknown(clause, match)

    def _near(self, clause: str, match: Match) -> bool:
        """Whether a clause may be taken for a known sentence, and for what is done."""
        done = self.acts.get(match.motion) or self.known.said_of(match.motion)
        return not other_side(clause, done) and self.known.is_near(clause, match)

    def _stops(self, clause: str) -> bool:
        """Whether it is to stand still: `wait`, but not `wait for the bus`, which may
        be a motion of its own; to stop waving is not to wave."""
        if not PATTERNS.stop.match(clause):
            return False
        if clause.startswith("stop "):
            return True
        match = self.known.nearest(clause)
        waits = clause.startswith("wait ") and self._near(clause, match)
        return not waits and match.cosine < SURE

    def _at_once(self, clause: str, several: Sequence[str]) -> list[Instruction]:
        """A clause with several parts as one motion, if one has them all, as `walk with
        a stretch` has those of `stretch while walking`: one that is as near as they
        are. Unless it has as many parts, all of these must be understood."""
        known = self.known
        matches = [known.nearest(part, known.single) for part in several]
        whole = known.nearest(clause)
        weakest = min(match.nearness for match in matches)
        is_whole = self._near(clause, whole)
        if len(parts(whole.sentence)) < len(several):
            is_part = whole.motion in [match.motion for match in matches]
            weakest += 2 * _AS_WHOLE * is_part
            is_whole &= len(several) == 2 and all(map(self._near, several, matches))
        if is_whole and whole.nearness > weakest - _AS_WHOLE:
            return self._accepted(clause, whole)
        both = known.together(clause, [match.motion for match in matches])
        if both and self._near(clause, both):
            return self._accepted(clause, both)
        try:
            return self._with_knobs(several, matches)
        except _Refusal:
            if is_whole:
                return self._accepted(clause, whole)
            raise

    def _with_knobs(
        self, several: Sequence[str], matches: Sequence[Match]
    ) -> list[Instruction]:
        """A base with knobs; parts that are not knobs come before or after it."""
        first = next((i for i, m in enumerate(matches) if _is_act(m.sentence)), 0)
        base, knobs = matches[first], []
        found: dict[int, list[Instruction]] = {}
        for number, (part, match) in enumerate(zip(several, matches, strict=True)):
            knob = self._knob(part, base.sentence) if number != first else None
            if knob and knob.cosine >= match.cosine - _AS_KNOB:
                knobs.append(knob)
            elif not self._near(part, match):
                raise self._unknown(part, match)
            else:
                found[number] = self._accepted(part, match)
        found[first] = [replace(one, knobs=tuple(knobs)) for one in found[first]]
        return [one for number in sorted(found) for one in found[number]]

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
    scores = cosines - costs(bare, named([sentence for sentence, _ in _WISHES]))
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


def _order(clause: str) -> str:
    """A clause without the words around it, as an order: `the robot walks`."""
    order = bare(clause)
    return as_order(order) or order


def _less(clause: str) -> Iterator[tuple[str, str]]:
    """A clause without what is said last, or of which only an order within it is left,
    and what is left out."""
    yield from without_tail(clause)
    for order, before in within(clause):
        yield order, before
        for less, after in without_tail(order):
            yield less, f"{before} ... {after}"


def _unsaid(found: list[Instruction], before: Instruction | None) -> list[Instruction]:
    """Instructions without a first one that is being done already: who has turned
    around goes back without turning, and who stands still goes on standing."""
    if not (before and found[0].understood):
        return found
    first, *others = found
    turns = others and (first.motion, first.seconds) == (before.motion, before.seconds)
    stands = all(PATTERNS.still.search(one.nearest) for one in (first, before))
    return others if turns or (stands and not others) else found


def _without_talk(found: list[Instruction]) -> list[Instruction]:
    """Instructions without what is no order and was not understood, which the last of
    them tells."""
    talk = [
        one.sentence
        for one in found
        if not (
            one.understood
            or begins_order(one.sentence)
            or PATTERNS.cannot.search(one.sentence)
        )
    ]
    kept = [one for one in found if one.understood or one.sentence not in talk]
    if not talk or not any(one.understood for one in kept):
        return found
    *others, last = kept
    told = "; ".join(filter(None, (last.left_out, *talk)))
    return [*others, replace(last, left_out=told)]


def _holds(clause: str, before: str) -> bool:
    """Whether a clause only says that the pose before it is held: `keep it there`."""
    goes = before.split(" ")[0] in _BODY - _STAYS
    return not goes and bool(PATTERNS.held.fullmatch(clause))


def _is_act(sentence: str) -> bool:
    """Whether a sentence asks for more than a gesture."""
    orders = parse(sentence)
    return orders is not None and any(a.split()[0] in _BODY for a in orders.acts[:1])


def _accepted(sentence: str, match: Match) -> Instruction:
    return Instruction(sentence, match.motion, match.sentence, match.cosine)


def _refused(sentence: str, refusal: _Refusal) -> Instruction:
    return replace(_accepted(sentence, refusal.match), why=refusal.why)

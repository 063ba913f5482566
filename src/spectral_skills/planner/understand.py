"""From what a person types to what a planner is told, one step after the other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spectral_skills.planner import inflection
from spectral_skills.planner.knobs import Choice, choose
from spectral_skills.planner.known import Known, Near, parts
from spectral_skills.planner.opposites import denies, rests, stops
from spectral_skills.planner.phrases import plain, take_apart
from spectral_skills.planner.text import TextEncoder
from spectral_skills.spectral.direction_file import Directions

LONGEST = 1000
"""Characters of a text."""
_THEN = re.compile(
    r"[,;.]? *\b(?:and )?(?:then|after that|afterwards|next|finally)\b,? *"
    r"|; *|[.!?]+ +"
)
_WRAPPED = re.compile(
    r"^(?:(?:please|robot|hey|ok|okay|now|kindly|first|and|just)\b[ ,]*"
    r"|(?:can|could|would|will) you (?:please )?"
    r"|(?:i (?:would like|want|need)|i'd like) (?:you|the robot|the humanoid) to "
    r"|(?:the|a) (?:robot|humanoid|person)(?: should| must)? (?:is )?"
    r"|let me see you |you should )+"
)
_POLITE = re.compile(r"[ ,]*\b(?:please|now|for me|thanks|thank you)$")
_NUMBERS: dict[str, float] = {
    **{"half a": 0.5, "a few": 3, "a": 1, "one": 1, "two": 2, "three": 3, "four": 4},
    **{"five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10},
    **{"fifteen": 15, "twenty": 20, "thirty": 30},
}
_SECONDS = re.compile(
    rf"[ ,]*(?:\bfor )?(?:about )?(\d+(?:\.\d+)?|\b(?:{'|'.join(_NUMBERS)}))"
    r"[ -]?(s|secs?|seconds?|min|minutes?)\b"
)
_BASES = {
    "jog": r"jog\w*|run|running",
    "squat": r"squat\w*|haunches",
    "carry": r"carry\w*|hold\w* (?:a|something)",
    "backward": r"back|backwards?",
}
"""Bases that directions were measured on, and the words of motions like them."""
_ACTS = {
    *("walk", "go", "move", "jog", "run", "turn", "march", "sidestep", "step", "squat"),
    *("bow", "stand", "stay", "keep", "do", "make"),
}
"""Verbs of the whole body; others are of gestures."""
_AS_KNOB = 0.05
"""A part of a sentence is a knob, not a motion, if its cosine to what the knob is for
is at most this much smaller."""
_AS_WHOLE = 0.1
"""A clause is one motion, not several, if that is so much nearer than a part is."""


@dataclass
class Step:
    """What to do next."""

    sentence: str
    """As it was typed, without what was understood by itself."""
    motion: str
    """The nearest motion that a planner knows, and its sentence."""
    known: str
    cosine: float
    knobs: tuple[Choice, ...] = ()
    seconds: float | None = None


class FarFromKnown(ValueError):  # noqa: N818
    """A sentence that is like none that a planner was trained with."""

    def __init__(self, text: str, nearest: str, cosine: float, why: str = ""):
        why = why or f"the nearest known sentence is {nearest!r} (cosine {cosine:.2f})"
        super().__init__(f"{text!r} is not like anything this planner knows; {why}")
        self.text, self.nearest, self.cosine, self.why = text, nearest, cosine, why
        self.seconds: float | None = None


def understand(
    text: str, known: Known, directions: Directions | None, encoder: TextEncoder
) -> list[Step]:
    """The steps of a text; without directions, nothing becomes a knob."""
    steps = listen(text, known, directions, encoder)
    for step in steps:
        if isinstance(step, FarFromKnown):
            raise step
    return [step for step in steps if isinstance(step, Step)]


def listen(
    text: str, known: Known, directions: Directions | None, encoder: TextEncoder
) -> list[Step | FarFromKnown]:
    """The steps of a text, and in their places what is far from all that is known."""
    if not text.strip():
        raise ValueError("there is no text: say what to do, such as `walk forward`")
    if len(text) > LONGEST:
        raise ValueError(
            f"the text has {len(text)} characters, and at most {LONGEST} are read"
        )
    listener = _Listener(known, directions, encoder)
    found: list[Step | FarFromKnown] = []
    for clause, seconds in _clauses(text):
        before = found[-1] if found else None
        if not clause:
            if before is not None:
                before.seconds = seconds
            continue
        try:
            # After what is not understood there is nothing to be changed.
            steps = listener.hear(clause, before if isinstance(before, Step) else None)
            found += steps
        except FarFromKnown as far:
            far.text = clause
            found.append(far)
        found[-1].seconds = seconds
    if not found:
        near = known.nearest(text)
        found.append(FarFromKnown(text, near.sentence, near.cosine))
    return found


def _clauses(text: str) -> Iterator[tuple[str, float | None]]:
    """What is done one after the other, and for how long."""
    for clause in _listed(plain(text.replace("\n", "; "))):
        found = _SECONDS.search(clause)
        seconds = None
        if found:
            clause = clause[: found.start()] + clause[found.end() :]
            number = _NUMBERS.get(found[1]) or float(found[1])
            seconds = number * (60.0 if found[2].startswith("m") else 1.0)
        bare = _POLITE.sub("", _WRAPPED.sub("", clause.strip(" ,.!?"))).strip(" ,.!?")
        if bare or seconds:
            yield bare, seconds


def _listed(text: str) -> Iterator[str]:
    """A text at every `then`, and at every comma that an order follows."""
    for clause in _THEN.split(text):
        first, *others = re.split(r", (?=([\w-]+))", clause)
        for word, more in zip(others[::2], others[1::2], strict=True):
            if inflection.ORDERS.get(word) == word:
                yield first
                first = more
            else:
                first = f"{first}, {more}"
        yield first


@dataclass(frozen=True)
class _Listener:
    known: Known
    directions: Directions | None
    encoder: TextEncoder

    def hear(self, clause: str, before: Step | None) -> list[Step]:
        """Steps of one clause."""
        if stops(clause) and (still := self.known.at_rest(clause)):
            return [_step(still.sentence, still)]
        near = self.known.nearest(clause)
        if denies(clause) and not rests(near.sentence):
            why = "it tells what not to do: say what to do instead"
            raise FarFromKnown(clause, near.sentence, near.cosine, why)
        told = parts(clause)
        if len(told) > 1:
            return self._at_once(clause, told)
        if self.known.is_near(clause, near):
            return [_step(clause, near)]
        if before and (knob := self._knob(clause, before.known)):
            return [replace(before, knobs=(*before.knobs, knob), seconds=None)]
        raise FarFromKnown(clause, near.sentence, near.cosine)

    def _at_once(self, clause: str, told: list[str]) -> list[Step]:
        """Steps of a clause with several parts: one, where a motion has them all."""
        nears = [self.known.nearest(part, single=True) for part in told]
        whole = self.known.nearest(clause)
        if motion := self.known.together(frozenset(near.motion for near in nears)):
            whole = self.known.of_motion(clause, motion)
        several = len(parts(whole.sentence)) > 1
        stranger = min(near.cosine for near in nears)
        better = motion or (several and whole.cosine > stranger + _AS_WHOLE)
        if better and self.known.is_near(clause, whole):
            return [_step(clause, whole)]
        return self._one_by_one(told, nears)

    def _one_by_one(self, told: list[str], nears: list[Near]) -> list[Step]:
        """A base with knobs, and what else is to be done after it."""
        first = next((i for i, n in enumerate(nears) if _is_act(n.sentence)), 0)
        base, knobs, after = nears[first], [], []
        for number, (part, near) in enumerate(zip(told, nears, strict=True)):
            knob = self._knob(part, base.sentence) if number != first else None
            if knob and knob.cosine >= near.cosine - _AS_KNOB:
                knobs.append(knob)
            elif not self.known.is_near(part, near):
                raise FarFromKnown(part, near.sentence, near.cosine)
            elif number != first:
                after.append((number, _step(part, near)))
        step = replace(_step(told[first], base), knobs=tuple(knobs))
        return [s for _, s in sorted([(first, step), *after], key=lambda one: one[0])]

    def _knob(self, wish: str, base: str) -> Choice | None:
        if self.directions is None:
            return None
        return choose(wish, self.directions, self.encoder, base_of(base))


def base_of(sentence: str) -> str:
    """The base whose measured effects hold for a motion, by its sentence."""
    for base, words in _BASES.items():
        if re.search(rf"\b(?:{words})\b", sentence):
            return base
    return "walk"


def _is_act(sentence: str) -> bool:
    """Whether a sentence tells of more than a gesture."""
    said = take_apart(sentence)
    return said is not None and bool(said.acts) and said.acts[0].split()[0] in _ACTS


def _step(sentence: str, near: Near) -> Step:
    return Step(sentence, near.motion, near.sentence, near.cosine)

"""Directions by what people wish: `higher steps` is a direction and an amplitude.

A wish is the table row nearest in meaning. Which direction serves it, how far, and what
else it does is read from what was measured of a robot, in the file of directions.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from spectral_skills.planner.opposites import differences, opposed, traits
from spectral_skills.planner.text import TextEncoder, pooled
from spectral_skills.planner.wishes import WISHES, Wish
from spectral_skills.spectral.direction_file import NOTICED, Directions

WELL_KNOWN = "walk"
"""The base on which directions were measured first and most."""
USUAL = 2.0
"""Amplitude that is taken where it does what is wished."""
NEAR = 0.68
"""Cosine from which a wish is taken for a row of the table."""
_DIFFERENCE = 0.1
"""What a trait that only one of two sentences names costs, in cosines."""
_PURE = 0.55
"""A direction serves a wish if that is at least this share of all it changes."""
_SCALES = (
    (
        r"as (?:much|far|high|fast|low|slowly?|quickly) as (?:possible|you can)",
        math.inf,
    ),
    (r"fully|all the way|to the limit|maximally", math.inf),
    (r"a (?:little )?bit|a little|slightly|somewhat|a touch|gently", 0.5),
    (r"a lot|much|strongly|far|very|way|really", 1.5),
)


@dataclass(frozen=True)
class Choice:
    """A direction that does what was wished."""

    direction: str
    amplitude: float
    """Signed, and one that the robot stood when it was measured."""
    cosine: float
    """Of the wish to the row of the table that it was taken for."""
    sign: int
    told: str
    """What it does, in words and numbers."""


def choose(
    text: str, directions: Directions, encoder: TextEncoder, base: str = "walk"
) -> Choice | None:
    """The direction and amplitude for a wish; None where no row of the table is near,
    or no direction was measured to do it.

    What directions do is best known on the walk. On the base itself the robot must have
    stood, and the wish must not have come out the other way round.
    """
    bare, scale = _scaled(text)
    if not bare:
        return None
    vectors = pooled(encoder.encode([bare, *_sentences()]))
    cosines, asked = vectors[1:] @ vectors[0], traits(bare)
    scores = cosines.clone()
    for at, sentence in enumerate(_sentences()):
        own = traits(sentence)
        scores[at] -= _DIFFERENCE * differences(asked, own) + 2.0 * opposed(asked, own)
    nearest = int(scores.argmax())
    wish, cosine = _known()[nearest][1], float(cosines[nearest])
    if cosine < NEAR or scores[nearest] < -1.0:
        return None
    here = {o["direction"]: o for o in directions.measured if o["base"] == base}
    measured = [one for one in directions.measured if one["base"] == WELL_KNOWN]
    return _served(wish, measured, here, scale, cosine)


@cache
def _known() -> tuple[tuple[str, Wish], ...]:
    return tuple((s, wish) for wish in WISHES for s in wish.sentences)


def _sentences() -> list[str]:
    return [sentence for sentence, _ in _known()]


def _scaled(text: str) -> tuple[str, float]:
    """A wish without its words for how much, and the factor they stand for."""
    text, scale = " ".join(re.sub(r"\byour\b", "the", text.lower()).split()), 1.0
    for pattern, factor in _SCALES:
        text, found = re.subn(rf"(?:^| )(?:{pattern})\b", "", text)
        scale = factor if found else scale
    return text.strip(" ,."), scale


def _served(
    wish: Wish,
    measured: Sequence[dict],
    here: Mapping[str, dict],
    scale: float,
    cosine: float,
) -> Choice | None:
    """The direction that was measured to serve a wish best.

    At the usual amplitude, if it is noticed there; else at the strongest one tried.
    """
    best: tuple[tuple[bool, float], float, dict, dict] | None = None
    for one in measured:
        own = here.get(one["direction"], one)
        low, high = _both_safe(one, own)
        for told, effects in one["effects"].items():
            amplitude = float(told)
            if not effects or not low <= amplitude <= high:
                continue
            if _opposes(own["effects"].get(told), wish.parts):
                continue
            size, share = _serves(effects, wish.parts)
            rank = (abs(amplitude) == USUAL, size * share)
            if share >= _PURE and (best is None or rank > best[0]):
                best = rank, amplitude, one, effects
    if best is None:
        return None
    _, amplitude, one, effects = best
    sign = 1 if amplitude > 0 else -1
    own = here.get(one["direction"], one)
    most = abs(_both_safe(one, own)[sign > 0])
    taken = sign * min(abs(amplitude) * scale, most)
    changes = ", ".join(f"{name} {value:+g}" for name, value in effects.items())
    done = f"{wish.name} by {one['direction']}, on {one['base']} at {amplitude:+g}"
    return Choice(one["direction"], taken, cosine, sign, f"{done}: {changes}")


def _both_safe(one: Mapping, other: Mapping) -> tuple[float, float]:
    """Amplitudes that were safe on two bases."""
    (low, high), (lower, higher) = one["safe"], other["safe"]
    return max(low, lower), min(high, higher)


def _opposes(effects: Mapping[str, float] | None, parts: Mapping[str, int]) -> bool:
    """Whether what happened is the other way round; nothing noticed is not."""
    return any(
        sign * (effects or {}).get(name, 0.0) < 0 for name, sign in parts.items()
    )


def _serves(
    effects: Mapping[str, float], parts: Mapping[str, int]
) -> tuple[float, float]:
    """How much of a wish comes true, in changes one notices, and its share of all."""
    sizes = {name: value / NOTICED[name] for name, value in effects.items()}
    wished = min(sign * sizes.get(name, 0.0) for name, sign in parts.items())
    if wished <= 0:
        return 0.0, 0.0
    other = math.hypot(*(size for name, size in sizes.items() if name not in parts))
    return wished, wished / (wished + other)

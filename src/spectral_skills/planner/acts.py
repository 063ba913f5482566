"""What people say for known orders, how long things take, and how words are spelled.

`acts.toml` has the orders that an act is made of, and the ways to ask for it.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from spectral_skills.config import read_table
from spectral_skills.planner.phrases import WORDS

_NUMBERS = WORDS["numbers"]
_NUMBER = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_SECONDS = re.compile(
    r"[ ,]*(?:\bfor )?(?:about )?"
    rf"(?:(\d+(?:\.\d+)?)[ -]?|\b({_NUMBER})[ -])"
    r"(s|secs?|seconds?|min|minutes?|counts?|beats?)\b"
)
_ANY_NUMBER = rf"(?:(?:\d+|{_NUMBER}) (?:or|to) )?(?P<n>\d+(?:\.\d+)?|{_NUMBER})"
_AMOUNTS = [
    (
        re.compile(one["pattern"].replace("(?P<n>{number})", _ANY_NUMBER)),
        one["order"],
        one["seconds"],
        one.get("far", False),
    )
    for one in WORDS["amounts"]
]
_SLOWER = {re.compile(words): factor for words, factor in WORDS["slower"].items()}
_SPELLED = [
    (re.compile(rf"\b(?:{w})(?!\w)"), right) for w, right in WORDS["spelled"].items()
]
_SHORTEST_S, _LONGEST_S = 1.2, 30.0


class Act(NamedTuple):
    orders: tuple[str, ...]
    """What is done, one after the other."""
    sentences: tuple[str, ...]


def acts(known: Collection[str] | None = None) -> Iterator[tuple[str, Act]]:
    """The acts whose orders are known, or all, by their names."""
    sides = ("left", "right"), ("right", "left")
    for number, one in enumerate(read_table(__file__)["acts"]):
        sided = any("{side}" in text for text in one["do"])
        for side, other in sides if sided else sides[:1]:
            orders, said = (
                tuple(text.format(side=side, other=other) for text in one[kind])
                for kind in ("do", "say")
            )
            if known is None or all(timed(one)[0] in known for one in orders):
                yield (
                    f"act {number} {side}" if sided else f"act {number}",
                    Act(orders, said),
                )


def timed(clause: str) -> tuple[str, float | None]:
    """A clause without its duration, and the duration, s."""
    found = _SECONDS.search(clause)
    if not found:
        return clause, None
    number = float(found[1] or _NUMBERS[found[2]])
    minutes = found[3].startswith("m")
    return clause[: found.start()] + clause[found.end() :], number * (
        60 if minutes else 1
    )


def amount(clause: str) -> tuple[str, float | None]:
    """A clause without its number of steps, metres or degrees, and how long these take,
    s."""
    for pattern, order, seconds, is_far in _AMOUNTS:
        if found := pattern.search(clause):
            number = found["n"]
            rest = (found.expand(order) + clause[found.end() :]).strip()
            slower = (by for words, by in _SLOWER.items() if words.search(rest))
            seconds *= next(slower, 1.0) if is_far else 1.0
            lasts = seconds * float(_NUMBERS.get(number, number))
            if lasts:
                lasts = min(max(lasts, _SHORTEST_S), _LONGEST_S)
            return rest, lasts
    return clause, None


def spelled(text: str) -> str:
    """A text without short forms, and without letters and words that are repeated."""
    text = re.sub(r"([a-z])\1{2,}", r"\1", text)
    text = re.sub(r"\b([a-z]+)(?:[ ,]+\1\b)+", r"\1", text)
    for pattern, right in _SPELLED:
        text = pattern.sub(right, text)
    return text

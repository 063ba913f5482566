"""What a direction is for, in words and numbers: predicted, and measured of a robot.

Both are read from the file of directions: effects per unit that the skill model
predicts, and what `spectral evaluate composition catalogue` has measured.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectral_skills.desk.words import HELD_S
from spectral_skills.spectral.direction_file import NOTICED, SHOULDERS, Directions

UNTRIED, FELL = "not tried so far", "the robot fell"
USUAL_BASE = "walk"
"""The base on which directions were measured first and most."""
_FORETOLD = {
    **{name: name for name in SHOULDERS},
    "heading": "yaw_rate",
    "speed": "forward_speed",
    "root_height": "root_height",
}
"""Measures, and the attribute of the skill model that foretells each."""
_WORTH = {"target": 1.3, "part": 1.1, "spectral": 1.0}
"""Of two that do the same, the one that was solved for it is easier to explain."""
_ENOUGH = 3.0
"""Of a wished change, in changes one notices; more is not better."""
_UNTRIED = 3.0
"""Reach of a fader whose direction nobody has measured."""
_BEYOND = 1.25
"""Reach of a fader, as a multiple of what was tried without a fall."""


@dataclass(frozen=True)
class Topic:
    """Something people want a fader for."""

    title: str
    less: str
    more: str
    parts: Mapping[str, int]
    """Measures, and whether `more` makes them grow or fall."""


def _both(part: str, left: int, right: int) -> dict[str, int]:
    return {f"left_{part}": left, f"right_{part}": right}


TOPICS = (
    Topic("Right arm", "lower", "raise", {"right_shoulder_pitch": -1}),
    Topic("Left arm", "lower", "raise", {"left_shoulder_pitch": -1}),
    Topic("Arms", "in", "out", _both("shoulder_roll", 1, -1)),
    Topic("Turn", "right", "left", {"heading": 1}),
    Topic("Speed", "slower", "faster", {"speed": 1}),
    Topic("Steps", "low", "high", _both("apex", 1, 1)),
)


@dataclass(frozen=True)
class Told:
    """What there is to say of a direction."""

    direction: str
    """Its name in the file."""
    title: str
    ends: tuple[str, str]
    """What the fader does on its negative and on its positive side."""
    safe: tuple[float, float]
    """Amplitudes that every base was measured to stand."""
    parts: tuple[str, ...] = ()
    """Measures that it is for."""

    @property
    def reach(self) -> float:
        """Where the fader ends, on both sides."""
        tried = max(-self.safe[0], self.safe[1])
        return round(_BEYOND * tried, 1) if tried > 0 else _UNTRIED

    @property
    def short(self) -> str:
        return self.direction.split(" ")[0]

    @property
    def label(self) -> str:
        """For a list of many."""
        ends = " / ".join(end or "-" for end in reversed(self.ends))
        return f"{self.short}: {ends}" if any(self.ends) else self.direction


class Catalogue:
    """All directions of a file."""

    def __init__(self, directions: Directions):
        self._directions = directions
        self._entries: dict[tuple[str, str], Mapping[str, Any]] = {
            (one["direction"], one["base"]): one for one in directions.measured
        }
        self.told = {name: self._tell(name) for name in directions.names}
        """What there is to say of each direction, by its name in the file."""
        self.chosen = self._choose()
        """The best one for each topic, or the first few if nothing was measured."""

    def predicted(self, name: str, amplitude: float) -> dict[str, float]:
        """Changes of measures that the skill model predicts."""
        directions = self._directions
        row = directions.effect_mean[directions.index(name)].astype(float)
        known = {
            measure: amplitude * float(row[directions.attributes.index(attribute)])
            for measure, attribute in _FORETOLD.items()
            if attribute in directions.attributes
        }
        if "heading" in known:
            known["heading"] = math.degrees(known["heading"]) * HELD_S
        return known

    def measured(
        self, name: str, amplitude: float, base: str
    ) -> dict[str, float] | str:
        """Noticed changes that were measured, straight between what was tried; or why
        there are none."""
        entry = self._entry(name, base)
        if entry is None:
            return UNTRIED
        tried = {float(told): effects for told, effects in entry["effects"].items()}
        side = {0.0: {}} | {a: e for a, e in tried.items() if a * amplitude > 0}
        sizes = sorted(side, key=abs)
        size = abs(amplitude)
        if size > abs(sizes[-1]) + 1e-9:
            return UNTRIED
        above = next(a for a in sizes if abs(a) >= size - 1e-9)
        below = max((a for a in sizes if abs(a) <= size), key=abs)
        if side[above] is None or side[below] is None:
            return FELL
        share = 0.0 if above == below else (size - abs(below)) / abs(above - below)
        names = [n for n in NOTICED if n in side[above] or n in side[below]]
        return {
            n: (1 - share) * side[below].get(n, 0.0) + share * side[above].get(n, 0.0)
            for n in names
        }

    def base(self, name: str) -> str:
        """The base whose measurements hold for what is playing."""
        return name if any(base == name for _, base in self._entries) else USUAL_BASE

    def _entry(self, name: str, base: str) -> Mapping[str, Any] | None:
        return self._entries.get((name.split(" ")[0], self.base(base)))

    def _tell(self, name: str) -> Told:
        short = name.split(" ")[0]
        ours = [
            one for (direction, _), one in self._entries.items() if direction == short
        ]
        if not ours:
            return Told(name, name, ("", ""), (0.0, 0.0))
        lows, highs = zip(*(one["safe"] for one in ours), strict=True)
        entry = self._entry(name, USUAL_BASE) or ours[0]
        more, less = entry["names"]
        return Told(name, short, (less, more), (float(max(lows)), float(min(highs))))

    def _choose(self) -> list[Told]:
        chosen = []
        for topic in TOPICS:
            name, sign = self._best(topic)
            if not sign or name in (one.direction for one in chosen):
                continue
            ends = (topic.less, topic.more) if sign > 0 else (topic.more, topic.less)
            known, parts = self.told[name], tuple(topic.parts)
            chosen.append(Told(name, topic.title, ends, known.safe, parts))
        return chosen or list(self.told.values())[: len(TOPICS)]

    def _best(self, topic: Topic) -> tuple[str, int]:
        """The direction that serves a topic best on all bases, and its sign."""
        best, found = 0.0, ("", 0)
        pairs = zip(self._directions.names, self._directions.families, strict=True)
        for name, family in pairs:
            for sign in (1, -1):
                worth = _WORTH[family] * self._worth(name, topic.parts, sign)
                if worth > best:
                    best, found = worth, (name, sign)
        return found

    def _worth(self, name: str, parts: Mapping[str, int], sign: int) -> float:
        """How well a direction serves, over bases and both sides of its fader."""
        short, total = name.split(" ")[0], 0.0
        for (direction, base), entry in self._entries.items():
            if direction != short:
                continue
            sides = {1: 0.0, -1: 0.0}
            for told, effects in entry["effects"].items():
                side = 1 if float(told) > 0 else -1
                served = _serves(effects or {}, parts, sign * side)
                sides[side] = max(sides[side], served)
            total += (2.0 if base == USUAL_BASE else 1.0) * sum(sides.values())
        return total


def _serves(effects: Mapping[str, float], parts: Mapping[str, int], sign: int) -> float:
    """How much of a wish comes true, in changes one notices, times its share of all."""
    sizes = {name: value / NOTICED[name] for name, value in effects.items()}
    wished = min(sign * own * sizes.get(name, 0.0) for name, own in parts.items())
    if wished <= 0:
        return 0.0
    other = math.hypot(*(size for name, size in sizes.items() if name not in parts))
    return min(wished, _ENOUGH) * wished / (wished + other)

"""What directions do to a robot, which of them serves a wish, and how to say it.

Predicted effects per unit come from the skill model; measured ones are those of
`spectral evaluate composition catalogue`. Both are read from the file of directions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from spectral_skills.config import read_table
from spectral_skills.spectral.direction_file import BY_PREDICTION, Directions

_TABLES = read_table(__file__)
_MEASURES = _TABLES["measures"]
SIDES = ("left", "right")
_ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw")
SHOULDERS = tuple(f"{side}_{part}" for side in SIDES for part in _ARM)
_FEET = ("left_apex", "right_apex")
_PARTS = {name: name.partition("_")[2] for name in (*SHOULDERS, *_FEET)}
_PARTS |= {name: name for name in ("heading", "speed", "root_height", "stride")}
"""Every measure, and its name in the table, which is without a side."""
NOTICED: dict[str, float] = {n: _MEASURES[p]["noticed"] for n, p in _PARTS.items()}
"""The smallest noticeable change of every measure."""
UNITS: dict[str, str] = {n: _MEASURES[p]["unit"] for n, p in _PARTS.items()}
PREDICTED_BY = {
    **{name: name for name in SHOULDERS},
    "heading": "facing",
    "speed": "ahead",
    "root_height": "root_height",
    "left_apex": "left_foot_height",
    "right_apex": "right_foot_height",
}
"""Measures, and the attribute of the skill model that predicts each: a robot goes to
where the motion is, so that place and heading foretell it, and rates do not."""
MIDDLE_S = 0.3
"""Time from a robot's pose to the middle of the future, where it should be by then."""
LOOSELY_PREDICTED = _FEET
"""Measures predicted by a foot's mean height instead: sizes do not compare."""
USUAL_BASE, USUAL_AMPLITUDE = "walk", 2.0
"""Base on which directions were measured first and most, and the amplitude that is used
where it has a noticeable effect."""
HELD_S = 5.38
"""Time in which a robot of the catalogue turns by the heading it reports."""
UNTRIED, FELL = "not tried so far", "the robot fell"
_PURE = 0.55
"""Smallest share of a wish in everything that a direction changes."""
_ENOUGH = 3.0
"""Noticeable changes of what a fader is for; more are not better."""
_PREFERENCE = {"robot": 1.5, "target": 1.3, "part": 1.1, "spectral": 1.0}
"""Weights of families: a direction solved for its effect is easier to explain."""
_UNTRIED_REACH, _BEYOND = 3.0, 1.25
"""Reach of a fader whose direction nobody has measured, and of another, as a multiple
of what was tried without a fall."""
_ALIKE = 0.7
"""Two sides are described as one if the smaller change is this share of the larger."""
Key = TypeVar("Key")
Parts = Mapping[str, int]
"""Measures that a wish is about: 1 where it is to grow, -1 where it is to fall."""


def predictors(directions: Directions, seconds: float) -> dict[str, tuple[int, float]]:
    """The attribute that predicts each measure, by its place in a file of directions,
    and the factor to the measure's unit; headings are those after some seconds."""
    found = {}
    factors = {"speed": 1 / MIDDLE_S, "heading": math.degrees(seconds) / MIDDLE_S}
    for measure, name in PREDICTED_BY.items():
        if name in directions.attributes:
            factor = factors.get(measure, 1.0)
            found[measure] = directions.attributes.index(name), factor
    return found


def served(effects: Mapping[str, float], parts: Parts) -> tuple[float, float]:
    """How much of a wish comes true, in noticeable changes, and its share of all."""
    sizes = {name: value / NOTICED[name] for name, value in effects.items()}
    wished = min(sign * sizes.get(name, 0.0) for name, sign in parts.items())
    if wished <= 0:
        return 0.0, 0.0
    other = math.hypot(*(size for name, size in sizes.items() if name not in parts))
    return wished, wished / (wished + other)


def mainly(changes: Mapping[str, float], parts: Parts) -> bool:
    """Whether nothing changes more noticeably than the measures of a wish, and those
    of the other side of the body, where it is not wished, at most half as much."""
    sizes = {name: abs(value) / NOTICED[name] for name, value in changes.items()}
    for part in parts:
        other = _other_side(part)
        if other not in parts and sizes.get(other, 0.0) > 0.5 * sizes[part]:
            return False
    return max(sizes, key=sizes.__getitem__) in parts


def best_served(
    candidates: Mapping[Key, Mapping[str, float]], parts: Parts, pure: bool = True
) -> Key | None:
    """The candidate that changes the measures of a wish most, by the one that changes
    least; if `pure`, among those that mainly change them. None where there is none."""
    best, most = None, 0.0
    for key, changes in candidates.items():
        size = min(sign * changes.get(name, 0.0) for name, sign in parts.items())
        if size > most and (not pure or mainly(changes, parts)):
            best, most = key, size
    return best


def strongest(directions: Directions, parts: Parts, otherwise: str) -> tuple[str, int]:
    """The direction that was measured to change some measures most on the walk at the
    usual amplitude of either side, whatever else it does, and the sign that makes them
    change as wished; `otherwise` in a file without measurements."""
    candidates = {
        (one["direction"], sign, label): {
            name: sign * math.copysign(1, float(label)) * change
            for name, change in (effects or {}).items()
        }
        for one in directions.measured
        if one["base"] == USUAL_BASE
        for label, effects in one["effects"].items()
        if abs(float(label)) == USUAL_AMPLITUDE
        for sign in (1, -1)
    }
    best = best_served(candidates, parts, pure=False)
    return (otherwise, 1) if best is None else best[:2]


@dataclass(frozen=True)
class Choice:
    """A direction chosen for a wish."""

    direction: str
    amplitude: float
    """Signed amplitude within what the robot withstood when it was measured."""
    wish: str
    effect: str
    """Measured changes, in words and numbers."""
    cosine: float = 1.0
    """Similarity of what was typed to the wish."""

    @property
    def label(self) -> str:
        return f"{self.wish} ({self.direction} {self.amplitude:+g})"


def choose(
    directions: Directions, wish: str, parts: Parts, base: str, scale: float = 1.0
) -> Choice | None:
    """The measured direction that serves a wish best, or None.

    Effects are best known on the walk. On the base itself the robot must have stayed
    on its feet, and the effect must not have been the opposite. A knob is preferred if
    it mainly does what is wished, then the usual amplitude where its effect is
    noticeable, else the strongest that was tried.
    """
    knobs = {directions.names[i] for i in directions.family("robot")}
    here = {one["direction"]: one for one in directions.measured if one["base"] == base}
    usual = [one for one in directions.measured if one["base"] == USUAL_BASE]
    best: tuple | None = None
    for one in usual:
        name = one["direction"]
        if name.startswith(BY_PREDICTION):
            continue
        own = here.get(name, one)
        (low, high), (lower, higher) = one["safe"], own["safe"]
        safe = max(low, lower), min(high, higher)
        for label, effects in one["effects"].items():
            amplitude, seen = float(label), own["effects"].get(label) or {}
            if not effects or not safe[0] <= amplitude <= safe[1]:
                continue
            if any(sign * seen.get(name, 0.0) < 0 for name, sign in parts.items()):
                continue
            size, share = served(effects, parts)
            knob = name in knobs and share > 0 and mainly(effects, parts)
            rank = (knob, abs(amplitude) == USUAL_AMPLITUDE, size * share)
            if (knob or share >= _PURE) and (best is None or rank > best[0]):
                best = rank, amplitude, safe, name, effects
    if best is None:
        return None
    _, amplitude, safe, name, effects = best
    most = abs(safe[amplitude > 0])
    taken = math.copysign(min(abs(amplitude) * scale, most), amplitude)
    changes = ", ".join(f"{measure} {value:+g}" for measure, value in effects.items())
    source = f"{name}, on {USUAL_BASE} at {amplitude:+g}"
    return Choice(name, taken, wish, f"{wish} by {source}: {changes}")


@dataclass(frozen=True)
class Topic:
    """Something that people want a fader for."""

    title: str
    less: str
    more: str
    parts: Parts


TOPICS = tuple(Topic(**one) for one in _TABLES["topics"])


@dataclass(frozen=True)
class FaderLabel:
    """How a direction's fader is labelled."""

    direction: str
    """Name in the file of directions."""
    title: str
    ends: tuple[str, str] = ("", "")
    """Effects on the negative and on the positive side."""
    safe: tuple[float, float] = (0.0, 0.0)
    """Amplitudes at which the robot stayed on its feet on every base."""
    parts: tuple[str, ...] = ()
    """Measures that the fader is for."""

    @property
    def reach(self) -> float:
        """Largest amplitude of the fader, on both sides."""
        tried = max(-self.safe[0], self.safe[1])
        return round(_BEYOND * tried, 1) if tried > 0 else _UNTRIED_REACH

    @property
    def line(self) -> str:
        """One line for a list of directions."""
        ends = " / ".join(end or "-" for end in reversed(self.ends))
        return f"{_short(self.direction)}: {ends}" if any(self.ends) else self.direction


def _short(name: str) -> str:
    return name.split(" ")[0]


class Catalogue:
    """All directions of a file, as a page of faders shows them."""

    def __init__(self, directions: Directions):
        self._directions = directions
        self._entries: dict[tuple[str, str], Mapping[str, Any]] = {
            (one["direction"], one["base"]): one for one in directions.measured
        }
        self.labels = {name: self._label(name) for name in directions.names}
        self.chosen = self._choose()
        """Labels of the best direction for each topic, or of the first few directions
        if nothing was measured."""

    def predicted(self, name: str, amplitude: float) -> dict[str, float]:
        """Changes of measures that the skill model predicts."""
        directions = self._directions
        row = directions.effect_mean[directions.index(name)].astype(float)
        return {
            measure: amplitude * factor * float(row[column])
            for measure, (column, factor) in predictors(directions, HELD_S).items()
            if measure not in LOOSELY_PREDICTED
        }

    def measured(
        self, name: str, amplitude: float, base: str
    ) -> dict[str, float] | str:
        """Measured noticeable changes, linear between amplitudes that were tried, or
        the reason why there are none."""
        entry = self._entries.get((_short(name), self.base(base)))
        if entry is None:
            return UNTRIED
        tried = {float(label): effects for label, effects in entry["effects"].items()}
        side = {0.0: {}} | {a: e for a, e in tried.items() if a * amplitude > 0}
        sizes, size = sorted(side, key=abs), abs(amplitude)
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

    def _entries_of(self, name: str) -> list[Mapping[str, Any]]:
        short = _short(name)
        return [e for (direction, _), e in self._entries.items() if direction == short]

    def _label(self, name: str) -> FaderLabel:
        short, ours = _short(name), self._entries_of(name)
        if not ours:
            return FaderLabel(name, name)
        lows, highs = zip(*(one["safe"] for one in ours), strict=True)
        more, less = self._entries.get((short, USUAL_BASE), ours[0])["names"]
        safe = float(max(lows)), float(min(highs))
        return FaderLabel(name, short, (less, more), safe)

    def _choose(self) -> list[FaderLabel]:
        chosen: dict[str, FaderLabel] = {}
        names = [n for n in self.labels if not n.startswith(BY_PREDICTION)]
        signed = [(name, sign) for name in names for sign in (1, -1)]
        for topic in TOPICS if signed else ():
            worth = {one: self._worth(*one, topic) for one in signed}
            name, sign = max(worth, key=worth.__getitem__)
            if worth[name, sign] > 0 and name not in chosen:
                less, more = topic.less, topic.more
                ends = (less, more) if sign > 0 else (more, less)
                safe, parts = self.labels[name].safe, tuple(topic.parts)
                chosen[name] = FaderLabel(name, topic.title, ends, safe, parts)
        return list(chosen.values()) or list(self.labels.values())[: len(TOPICS)]

    def _worth(self, name: str, sign: int, topic: Topic) -> float:
        """How well a direction serves, over bases and both sides of its fader."""
        total = 0.0
        for entry in self._entries_of(name):
            sides = {1: 0.0, -1: 0.0}
            for label, effects in entry["effects"].items():
                side = 1 if float(label) > 0 else -1
                parts = {n: sign * side * own for n, own in topic.parts.items()}
                size, share = served(effects or {}, parts)
                sides[side] = max(sides[side], min(size, _ENOUGH) * share)
            weight = 2.0 if entry["base"] == USUAL_BASE else 1.0
            total += weight * sum(sides.values())
        family = self._directions.families[self._directions.index(name)]
        return _PREFERENCE[family] * total


def in_words(
    changes: Mapping[str, float], parts: Sequence[str] = (), most: int = 2
) -> str:
    """The strongest changes as people say them; those of `parts` come first."""
    sizes = {n: abs(v) / NOTICED[n] for n, v in changes.items() if math.isfinite(v)}
    shown = [n for n in sizes if sizes[n] >= (0.1 if n in parts else 0.5)]
    shown.sort(key=lambda name: (name not in parts, -sizes[name]))
    phrases: list[str] = []
    while shown and len(phrases) < most:
        name = shown.pop(0)
        other, ours = _other_side(name), outward(name, changes[name])
        theirs = outward(other, changes[other]) if other in shown else 0.0
        if theirs / ours >= _ALIKE:
            shown.remove(other)
            phrases.append(_phrase("both", name, (ours + theirs) / 2))
        else:
            phrases.append(_phrase(name.split("_")[0], name, ours))
    return ", ".join(phrases)


def named(changes: Mapping[str, float]) -> str:
    """Name of the strongest change: `right arm raise`, `turn left`, `high steps`; empty
    where none is noticeable."""
    scaled = {name: changes[name] / NOTICED[name] for name in NOTICED}
    best = max(scaled, key=lambda name: abs(scaled[name]))
    if abs(scaled[best]) < 1.0:
        return ""
    ours, other = outward(best, scaled[best]), _other_side(best)
    word = _MEASURES[_PARTS[best]]["names"][ours <= 0]
    if other == best:
        return word
    side, theirs = best.split("_")[0], outward(other, scaled[other])
    if best.endswith("apex"):
        return word if theirs / ours >= 0.5 else f"{side} {word}"
    if abs(theirs) < 0.5 * abs(ours):
        return f"{side} {word}"
    limb, *rest = word.split()
    both = "both" if ours * theirs > 0 else "opposed"
    return " ".join((both, f"{limb}s", *rest))


def _other_side(name: str) -> str:
    """The same measure on the other side of the body, or the measure itself."""
    side, _, part = name.partition("_")
    return {"left": f"right_{part}", "right": f"left_{part}"}.get(side, name)


def outward(name: str, change: float) -> float:
    """A change as it would be on the left side: rolls and yaws are mirrored."""
    mirrored = name.startswith("right") and name.endswith(("roll", "yaw"))
    return -change if mirrored else change


def _phrase(side: str, name: str, change: float) -> str:
    """One change: `right arm up 43°`, `turns left 8°/s`, `0.20 m/s faster`."""
    words = _MEASURES[_PARTS[name]]
    one, two = words.get("limb", ("", ""))
    limb = f"both {two}" if side == "both" else f"{side} {one}"
    size = abs(change) * words.get("factor", 1)
    if name == "heading":
        size = size / HELD_S
    return words["phrases"][change <= 0].format(limb=limb, size=size)

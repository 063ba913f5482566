"""Measured and predicted changes, as people say them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from spectral_skills.control.mixer import full_amplitude
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import NOTICED, SIDES

_HELD = full_amplitude(400)
HELD_S = (_HELD.stop - _HELD.start - 1) / g1.CONTROL_HZ
"""Headings of the catalogue are what a robot turns in this time: its runs have 400
steps."""
_ALIKE = 0.7
"""Two sides are told as one if one changes by at least this share of the other."""


def in_words(
    changes: Mapping[str, float], parts: Sequence[str] = (), most: int = 2
) -> str:
    """The strongest changes as people say them, those a fader is for first."""
    sizes = {n: abs(v) / NOTICED[n] for n, v in changes.items() if np.isfinite(v)}
    shown = [n for n in sizes if sizes[n] >= (0.1 if n in parts else 0.5)]
    shown.sort(key=lambda name: (name not in parts, -sizes[name]))
    told: list[str] = []
    while shown and len(told) < most:
        name = shown.pop(0)
        side, part = _side(name)
        other = f"{'right' if side == 'left' else 'left'}_{part}"
        ours, theirs = _outward(name, changes[name]), 0.0
        if side and other in shown:
            theirs = _outward(other, changes[other])
        if theirs / ours >= _ALIKE:
            shown.remove(other)
            told.append(_phrase("both", part, (ours + theirs) / 2))
        else:
            told.append(_phrase(side, part, ours))
    return ", ".join(told)


def _side(name: str) -> tuple[str, str]:
    """A measure without its side: `left_apex` is of the left."""
    side, _, part = name.partition("_")
    return (side, part) if side in SIDES else ("", name)


def _outward(name: str, change: float) -> float:
    """A change as it would be on the left side: rolls and yaws are mirrored."""
    mirrored = name.startswith("right") and name.endswith(("roll", "yaw"))
    return -change if mirrored else change


def _phrase(side: str, part: str, change: float) -> str:
    """One change: `right arm up 43°`, `turns left 8°/s`, `0.20 m/s faster`."""
    size, grows = abs(change), change > 0
    limb, degrees = f"{side} arm{'s' * (side == 'both')}", f"{math.degrees(size):.0f}°"
    match part:
        case "heading":
            return f"turns {'left' if grows else 'right'} {size / HELD_S:.0f}°/s"
        case "speed":
            return f"{size:.2f} m/s {'faster' if grows else 'slower'}"
        case "root_height":
            return f"{100 * size:.0f} cm {'taller' if grows else 'lower'}"
        case "stride":
            return f"{size:.1f} Hz {'quicker' if grows else 'slower'} steps"
        case "apex":
            foot = "both feet" if side == "both" else f"{side} foot"
            return f"{foot} {100 * size:.0f} cm {'higher' if grows else 'lower'}"
        case "shoulder_pitch":
            return f"{limb} {'down' if grows else 'up'} {degrees}"
        case "shoulder_roll":
            return f"{limb} {'out' if grows else 'in'} {degrees}"
        case _:
            return f"{limb} turned {'out' if grows else 'in'} {degrees}"

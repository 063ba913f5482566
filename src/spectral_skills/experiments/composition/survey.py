"""Directions tried in both signs on a base, and what each has come to.

A direction is tried at a fixed amplitude, 2, and at one matched to its predicted gain:
so large that all are predicted to change the motion as much as the first spectral
direction does at 2, but at most `MOST`; where that is more than `LESS`, at `LESS` as
well. At the matched amplitude a sign works if the
robot stands and something one notices has changed; the outcome of a direction is

    both signs   both work, and their effects are opposite
    one sign     one works, or both do the same
    falls        the robot falls in both signs
    weak         anything else
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.control.batch import Run
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import (
    ARM_JOINTS,
    NOTICED,
    SHOULDERS,
    UNITS,
    Effect,
)
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions

AMPLITUDE = 2.0
MOST = 12.0
"""Nearly twice the length of a skill. Directions of little gain take it: the controller
hardly heeds them, and most robots stand."""
LESS = 6.0
"""A limit within the data: skills are about 7 long."""
_FOREARMS = [i for i in ARM_JOINTS if g1.JOINTS[i] not in SHOULDERS]
_FOREARM_NOTICED_RAD = 0.3


@dataclass(frozen=True)
class Tried:
    """A direction at one amplitude."""

    amplitude: float
    executed: Executed
    effect: Effect | None
    """None where this robot, or the one unsteered, has fallen."""


@dataclass(frozen=True)
class Entry:
    """A direction on one base."""

    direction: str
    family: str
    gain: float
    base: str
    amplitude: float
    """Matched to the gain."""
    tried: tuple[Tried, ...]

    def at(self, amplitude: float) -> Tried:
        """The run of an amplitude."""
        return next(one for one in self.tried if one.amplitude == amplitude)

    @property
    def signs(self) -> tuple[Effect | None, Effect | None]:
        """Effects of the matched amplitude and of its opposite."""
        return self.at(self.amplitude).effect, self.at(-self.amplitude).effect

    @property
    def best(self) -> Effect | None:
        """The stronger of the two; None where both fall."""
        return max((e for e in self.signs if e), key=strength, default=None)

    @property
    def outcome(self) -> str:
        """What the two signs have come to."""
        return outcome(*self.signs)

    @property
    def safe(self) -> tuple[float, float]:
        """The largest amplitude tried to each side without a fall up to it."""
        reach = {-1: 0.0, 1: 0.0}
        for sign in reach:
            side = (one for one in self.tried if one.amplitude * sign > 0)
            for one in sorted(side, key=lambda one: abs(one.amplitude)):
                if not one.executed.stands:
                    break
                reach[sign] = one.amplitude
        return reach[-1], reach[1]

    def limited(self, most: float) -> "Entry":
        """The same, with a smaller limit to its matched amplitude."""
        return replace(self, amplitude=min(self.amplitude, most))

    def plain(self) -> dict:
        """As plain data, for other tools."""
        runs = [
            {
                "amplitude": one.amplitude,
                "fell": not one.executed.stands,
                "name": name(one.effect) if one.effect else "",
                "effects": one.effect.changes | {"arm_rms": one.effect.arm_rms}
                if one.effect
                else None,
            }
            for one in self.tried
        ]
        return {
            "direction": self.direction,
            "family": self.family,
            "base": self.base,
            "names": [name(e) if e else "" for e in self.signs],
            "amplitude": self.amplitude,
            "outcome": self.outcome,
            "safe": list(self.safe),
            "runs": runs,
        }


def brief(entry: dict) -> dict:
    """An entry as plain data, as a file of directions carries it."""
    effects = {}
    for one in entry["runs"]:
        changes = one["effects"]
        noticed = {
            k: round(v, 3)
            for k, v in (changes or {}).items()
            if abs(v) >= NOTICED.get(k, np.inf)
        }
        effects[f"{one['amplitude']:+g}"] = None if changes is None else noticed
    kept = ("direction", "base", "names", "outcome", "safe")
    return {key: entry[key] for key in kept} | {"effects": effects}


def matched(directions: Directions, most: float = MOST) -> np.ndarray:
    """(k,) amplitudes of one predicted gain, that of the first spectral at 2."""
    aim = AMPLITUDE * directions.gains[directions.family("spectral")[0]]
    return np.minimum(aim / directions.gains.astype(float).clip(1e-9), most).round(2)


def survey(
    lab: Lab,
    base_name: str,
    names: Sequence[str] | None = None,
    seed: int | None = None,
) -> list[Entry]:
    """Try all directions, or those of some names, on a base."""
    directions, base = lab.directions, lab.base(base_name)
    chosen = [directions.index(one) for one in names or directions.names]
    aims = matched(directions)
    tries = [
        (i, sign * size)
        for i in chosen
        for size in sorted({AMPLITUDE, min(aims[i], LESS), aims[i]})
        for sign in (1, -1)
    ]
    runs = [attempt(lab, base, directions.names[i], a, seed) for i, a in tries]
    plain, *made = lab.execute([lab.plain(base, seed), *runs], f"survey of {base_name}")
    tried: dict[int, list[Tried]] = {i: [] for i in chosen}
    for (i, amplitude), one in zip(tries, made, strict=True):
        effect = lab.effect(one, plain) if one.stands and plain.stands else None
        tried[i].append(Tried(float(amplitude), one, effect))
    return [
        Entry(
            directions.names[i].split(" ")[0],
            directions.families[i],
            float(directions.gains[i]),
            base_name,
            float(aims[i]),
            tuple(ones),
        )
        for i, ones in tried.items()
    ]


def attempt(
    lab: Lab, base: Base, direction: str, amplitude: float, seed: int | None = None
) -> Run:
    """A base steered along a direction, named after both."""
    short = direction.split(" ")[0]
    change = lab.direction(short, amplitude)
    return lab.steered(base, change, f"{short} a={amplitude:+.4g}", seed=seed)


def pattern(effect: Effect) -> np.ndarray:
    """An effect in changes that one notices: the measures, then elbows and wrists."""
    forearms = effect.pose[_FOREARMS] / _FOREARM_NOTICED_RAD
    return np.concatenate((effect.in_scales(), forearms))


def strength(effect: Effect) -> float:
    """The largest change, as a multiple of what one notices."""
    return float(np.abs(pattern(effect)).max())


def outcome(plus: Effect | None, minus: Effect | None) -> str:
    """Of a direction whose two signs have these effects; None is a fall."""
    works = [e for e in (plus, minus) if e is not None and strength(e) >= 1.0]
    if len(works) == 2 and pattern(works[0]) @ pattern(works[1]) < 0:
        return "both signs"
    if works:
        return "one sign"
    return "falls" if plus is None and minus is None else "weak"


def name(effect: Effect) -> str:
    """What people would call an effect; empty where nothing is noticed."""
    forearm = max(_FOREARMS, key=lambda i: abs(effect.pose[i]))
    if effect.name or abs(effect.pose[forearm]) < _FOREARM_NOTICED_RAD:
        return effect.name
    return g1.JOINTS[forearm].replace("_", " ")


def dominant(effect: Effect) -> str:
    """The measure that changes most; empty where none is noticed."""
    scaled = np.abs(effect.in_scales())
    return tuple(UNITS)[scaled.argmax()] if scaled.max() >= 1.0 else ""

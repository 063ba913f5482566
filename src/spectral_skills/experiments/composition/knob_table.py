"""The paper's table of knobs, each by the direction of the file that serves it best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.survey import AMPLITUDE, Entry, attempt
from spectral_skills.experiments.effects import UNITS, Effect
from spectral_skills.experiments.findings import Film
from spectral_skills.motion.corpus import FPS
from spectral_skills.results import Result

_TURN_S = 4.0
"""Time in which the paper's turn is told."""
_FILMED = ("right arm raise", "arms out", "high steps", "turn")


@dataclass(frozen=True)
class Knob:
    """A row of the paper's table: what changes, with which sign, and how much there."""

    parts: dict[str, int]
    paper: str
    amplitude: float = AMPLITUDE
    paper_heading: str = ""


KNOBS: dict[str, Knob] = {
    "left arm raise": Knob({"left_shoulder_pitch": -1}, "±0.86"),
    "both arms": Knob({"left_shoulder_pitch": -1, "right_shoulder_pitch": -1}, "±0.67"),
    "right arm raise": Knob({"right_shoulder_pitch": -1}, "±0.90"),
    "right arm yaw": Knob({"right_shoulder_yaw": -1}, "±0.43 to 0.51"),
    "arms out": Knob({"left_shoulder_roll": 1, "right_shoulder_roll": -1}, "+0.45"),
    "high steps": Knob({"left_apex": 1, "right_apex": 1}, "+0.21 left, +0.18 right"),
    "turn": Knob({"heading": 1}, "±130"),
    "speed": Knob({"speed": 1}, "+0.33", 3.0, "6"),
}


def choose(found: Sequence[Entry], knob: Knob) -> tuple[Entry, int] | None:
    """The direction and sign that serve a knob best at 2; None where none does.

    Of those that mainly change what the knob is for, the one that changes it most.
    """
    best, most = None, 0.0
    for one in found:
        for sign in (1, -1):
            effect = one.at(sign * AMPLITUDE).effect
            if effect is not None and serves(effect, knob.parts):
                size = min(s * effect.changes[n] for n, s in knob.parts.items())
                if size > most:
                    best, most = (one, sign), size
    return best


def serves(effect: Effect, parts: Mapping[str, int]) -> bool:
    """Whether nothing else changes more, as one notices it, and the other side, where
    there is one, at most half as much."""
    sizes = dict(zip(UNITS, np.abs(effect.in_scales()), strict=True))
    for part in parts:
        side, _, rest = part.partition("_")
        other = f"{'left' if side == 'right' else 'right'}_{rest}"
        if other not in parts and sizes.get(other, 0.0) > 0.5 * sizes[part]:
            return False
    return max(sizes, key=lambda name: sizes[name]) in parts


def knob_table(
    lab: Lab, experiment: str, base_name: str, found: Sequence[Entry]
) -> tuple[list[Result], list[Film]]:
    """A row for each sign of each knob that a direction serves, and films of some."""
    base = lab.base(base_name)
    (plain,) = lab.execute([lab.plain(base)], base_name)
    cells: list[Result] = []
    films: list[Film] = []
    for title, knob in KNOBS.items():
        if (served := choose(found, knob)) is None:
            continue
        entry, sign = served
        amplitudes = [side * sign * knob.amplitude for side in (1, -1)]
        if knob.amplitude == AMPLITUDE:
            both = [entry.at(a).executed for a in amplitudes]
        else:
            runs = [attempt(lab, base, entry.direction, a) for a in amplitudes]
            both = lab.execute(runs, title)
        for amplitude, one in zip(amplitudes, both, strict=True):
            row = f"{title} by {entry.direction} on {base_name}, a={amplitude:+g}"
            cells += _row(lab, experiment, row, knob, one, plain)
        kept = [lab.record(one.run) for one in (both[0], plain)]
        if title in _FILMED and kept[0] and kept[1]:
            films.append(Film(f"{title} on {base_name}", kept[0].name, kept[1].name))
    return cells, films


def _row(
    lab: Lab, experiment: str, row: str, knob: Knob, one: Executed, plain: Executed
) -> list[Result]:
    """What a knob does at one amplitude; a fall is told as such, and nothing else."""
    if not one.stands:
        return [lab.cell(experiment, row, "falls", 1, "runs")]
    effect, hold = lab.effect(one, plain), lab.hold(plain.run.base)
    value, unit = effect.along(knob.parts), UNITS[next(iter(knob.parts))]
    if unit == "deg":
        value *= _TURN_S * FPS / (hold.stop - hold.start - 1)
        unit = f"deg in {_TURN_S:g} s"
    signed = value > 0 or "±" in knob.paper
    like = plain.run.base.name == "walk" and signed
    return [
        lab.cell(experiment, row, "effect", value, unit, paper=knob.paper * like),
        lab.cell(
            *(experiment, row, "heading", effect.changes["heading"], "deg"),
            paper=knob.paper_heading * like,
        ),
        lab.cell(experiment, row, "falls", 0, "runs"),
    ]

"""The sheet of a retargeted clip: person and robot, their feet, and its quality."""

import json
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes

from spectral_skills.config import read_table
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.gait import runs
from spectral_skills.motion.human.recording import SIDES, point
from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.plots import charts, human
from spectral_skills.plots.charts import LEFT, MUTED, RIGHT, RULE
from spectral_skills.robot import g1

_DATA = read_table(__file__, "human.toml")
TEXTS: dict[str, str] = _DATA["text"]
PANELS = 8
_ON_FLOOR_M = 0.01
"""Height of a sole below which it is drawn as standing."""
_LEAST_M = 0.8
"""Width of floor that is drawn at least."""
_JOINTS = "person's ankle or ball"
"""The lower one: a person's sole is not recorded, so it looks higher in a swing."""
_COLOURS = dict(zip(SIDES, (LEFT, RIGHT), strict=True))


class Written(NamedTuple):
    """How a measure of quality is written."""

    heading: str
    unit: str
    factor: float
    decimals: int
    means: str
    at: str = ""  # key of its worst frame
    large: str = "bad"

    def number(self, value: float) -> str:
        return f"{self.factor * value:z.{self.decimals}f}"

    def words(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}"


MEASURES = {
    key: Written(*one.pop("look"), **one) for key, one in _DATA["measures"].items()
}


@charts.styled
def human_sheet(corpus: Corpus, index: int, path: Path) -> None:
    """Draw stills of person and robot, paths and heights of feet, when they stand."""
    pair, entry = human.Pair.of_clip(corpus, index), corpus.entry(index)
    assert pair is not None and pair.contacts is not None
    frames = pair.spread(PANELS)
    feet = Kinematics(g1.FEET)(torch.from_numpy(pair.robots[0]).float())
    words = entry.text.splitlines()[0] if entry.text else ""
    facts = [f"{entry.length / FPS:.1f} s", f"{entry.skeleton} skeleton", entry.source]
    title = f"{entry.name}: {words}".removesuffix(": ")
    sheet = charts.sheet(1260, title, "  |  ".join(filter(None, facts)), 590)
    found = fill(quality_line(entry.quality), 185)
    sheet.text(0.03, 1 - 80 / 1260, found, size=11, va="top", linespacing=1.5)
    human.row(sheet, pair, frames, 48, 128, 220, who="person")
    human.row(sheet, pair, frames, 48, 354, 220, who="robots", times=False)
    above, bars = "feet from above (m)", "feet on the floor"
    left, right = (f"{side} foot's height (cm)" for side in SIDES)
    wide: Any = [[above, left, left], [above, right, right], [above, bars, bars]]
    ratios = {"height_ratios": (1, 1, 0.7), "width_ratios": (0.95, 1, 1)}
    panels = sheet.subplot_mosaic(wide, gridspec_kw=ratios)
    for name, axes in panels.items():
        axes.set_title(name)
    standing = np.asarray(sole_heights(feet)) < _ON_FLOOR_M
    _paths(panels[above], pair, feet.position.numpy())
    heights = 100 * np.asarray(sole_heights(feet)), 100 * _heights(pair.person)
    for k, (side, name) in enumerate(zip(SIDES, (left, right), strict=True)):
        axes = panels[name]
        time_s = np.arange(pair.frames) / FPS
        axes.plot(time_s, heights[1][:, k], color=MUTED, linewidth=1.1, label=_JOINTS)
        look = {"color": _COLOURS[side], "linewidth": 1.6, "label": "robot's sole"}
        axes.plot(time_s, heights[0][:, k], **look)
        _spans(axes, pair.contacts[:, k], _COLOURS[side])
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.985), ncols=2)
        axes.set_ylim(min(-1.0, axes.get_ylim()[0]), max(10.0, axes.get_ylim()[1]))
    _bars(panels[bars], pair.contacts, standing)
    for name in (left, right, bars):
        panels[name].set_xlim(0, max(pair.frames - 1, 1) / FPS)
        for mark in frames / FPS:
            panels[name].axvline(mark, color=RULE, linewidth=0.8, zorder=0)
    panels[bars].set_xlabel("s")
    charts.save(sheet, path)


def _heights(person: np.ndarray) -> np.ndarray:
    """(T, 2) of the lower of ankle and toe above where it usually is when lowest, m."""
    lowest = []
    for side in SIDES:
        points = person[:, [point(f"{side}_ankle"), point(f"{side}_toe")], 2]
        lowest.append((points - np.percentile(points, 2, axis=0)).min(axis=1))
    return np.stack(lowest, axis=1)


def _spans(axes: Axes, mask: np.ndarray, colour: str) -> None:
    for start, end in runs(mask):
        look: dict = {"color": colour, "alpha": 0.10, "linewidth": 0}
        axes.axvspan(start / FPS, end / FPS, zorder=0, **look)


def _paths(axes: Axes, pair: human.Pair, feet_w: np.ndarray) -> None:
    """Ankles from above: thin the person's, thick the robot's where its foot stands."""
    assert pair.contacts is not None
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(axis="x")
    for k, (side, colour) in enumerate(_COLOURS.items()):
        ankle = pair.person[:, point(f"{side}_ankle"), :2].T
        foot = feet_w[:, k, :2].T
        axes.plot(*ankle, color=MUTED, linewidth=0.9, zorder=1)
        axes.plot(*foot, color=colour, linewidth=1.3, alpha=0.75, zorder=2)
        for start, end in runs(pair.contacts[:, k]):
            look: dict = {"color": colour, "solid_capstyle": "round", "zorder": 3}
            axes.plot(*foot[:, start:end], linewidth=6, alpha=0.9, **look)
    for label, look in (
        ("person's ankles", {"color": MUTED, "linewidth": 0.9}),
        ("robot's left", {"color": LEFT, "linewidth": 1.6}),
        ("robot's right", {"color": RIGHT, "linewidth": 1.6}),
    ):
        axes.plot([], [], label=label, **look)
    look = {"color": MUTED, "linewidth": 6, "solid_capstyle": "round"}
    axes.plot([], [], label="stands", **look)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=4)
    axes.margins(0.06)
    middle = np.mean([axes.get_xlim(), axes.get_ylim()], axis=1)
    for way in (-0.5, 0.5):  # a person who stands still should look so
        axes.plot(*(middle + way * _LEAST_M), alpha=0)


def _bars(axes: Axes, contacts: np.ndarray, standing: np.ndarray) -> None:
    names = []
    for k, (side, colour) in enumerate(_COLOURS.items()):
        for who, mask in (("person", contacts[:, k]), ("robot", standing[:, k])):
            spans = [(a / FPS, (b - a) / FPS) for a, b in runs(mask)]
            alpha = 0.45 if who == "person" else 1.0
            place = len(names) + 0.4 * k
            axes.broken_barh(spans, (place - 0.36, 0.72), color=colour, alpha=alpha)
            names.append((place, f"{side}, {who}"))
    axes.set_yticks(*map(list, zip(*names, strict=True)))
    axes.invert_yaxis()
    axes.grid(visible=False)


def quality_line(quality: str, short: bool = False) -> str:
    """The measures of a clip as a line of text; in short, the main ones above zero."""
    found = read_quality(quality)
    shown = [
        f"{measure.heading} {measure.words(found[key])}"
        for key, measure in MEASURES.items()
        if key in found
        and (not short or (measure.at and float(measure.number(found[key]))))
    ]
    return ", ".join(shown) or ("" if found else "not measured")


def read_quality(text: str) -> dict:
    """Measures by name, whichever the version that made the corpus knew."""
    return json.loads(text) if text else {}

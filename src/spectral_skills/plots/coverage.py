"""One figure of all that a generated corpus covers, measured from its motions."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import MaxNLocator, MultipleLocator, NullLocator

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.factors import (
    FACTORS,
    PAIRS,
    TRAVELS,
    factors_of,
)
from spectral_skills.plots import ink
from spectral_skills.plots.measures import (
    Measures,
    clips_with,
    first_yaw,
    measures,
    seen_from_start,
)
from spectral_skills.workers import in_order

_TRAVEL_COLOURS = dict(zip(TRAVELS, ink.COLOURS, strict=True))
_STILL = 0.15
"""Slower than this, m/s or rad/s, is standing and not shown: it would hide the rest."""
_MANY = LinearSegmentedColormap.from_list("many", ["#e6f1f7", "#5aa3cc", "#00466e"])
_ABSENT = "#eceff2"
_DEGREES = 180 / np.pi
_PATHS_EACH = 14
_SHOWN_M = 2.3
"""Of the way of a clip, where footprints are drawn."""
_FOOT = np.array([(0.13, 0.03), (0.13, -0.03), (-0.06, -0.025), (-0.06, 0.025)])


def coverage(corpus: Corpus, path: str | Path) -> None:
    """Write the figure: what is measured, which factors meet, where clips go."""
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = list(in_order(measures, clips, None))
    figure = ink.sheet(2060)
    ink.headline(
        figure,
        "What the corpus covers",
        f"{len(corpus):,} clips, {corpus.hours:.2f} h. Every number is measured from "
        "the motions; only the table of pairs goes by their names.",
    )
    _histograms(figure, found)
    _pair_table(figure, corpus)
    _paths(figure, corpus)
    _footprints(figure, corpus, found)
    ink.save(figure, path)


def _histograms(figure: Figure, found: list[Measures]) -> None:
    grid = figure.add_gridspec(
        2, 4, left=0.045, right=0.97, top=0.93, bottom=0.715, hspace=0.5, wspace=0.18
    )
    cells = iter([grid[i, j] for i in (0, 1) for j in range(4)])

    def values(name: str, factor: float = 1.0) -> np.ndarray:
        return factor * np.concatenate([getattr(m, name) for m in found])

    def axes(title: str) -> Axes:
        return ink.quiet(figure.add_subplot(next(cells)), title)

    for name, title, low, high in (
        ("forward", "forward speed (m/s)", -1.0, 2.2),
        ("sideways", "sideways speed, left positive (m/s)", -0.6, 0.6),
        ("turning", "yaw rate, left positive (rad/s)", -1.2, 1.2),
    ):
        place, all_values = axes(title), values(name)
        moving = all_values[np.abs(all_values) > _STILL]
        _bars(place, moving, np.linspace(low, high, 49), ink.LEFT)
        place.set_ylim(0, 1.2 * place.get_ylim()[1])
        still = 1 - len(moving) / len(all_values)
        note = f"{still:.0%} of the time below {_STILL:g}, not shown"
        style = {"size": 9, "color": ink.MUTED, "ha": "right", "va": "top"}
        place.text(1.0, 1.0, note, transform=place.transAxes, **style)
    edges = np.linspace(1.0, 3.4, 33)
    _bars(axes("cadence (steps a second)"), values("cadence"), edges, ink.LEFT)
    for name, title, factor, low, high in (
        ("clearance", "foot clearance of each swing (cm)", 100, 0, 24),
        ("pelvis_height", "pelvis height (m)", 1, 0.44, 0.82),
        ("torso_pitch", "torso pitch, forward positive (deg)", _DEGREES, -15, 65),
    ):
        place, edges = axes(title), np.linspace(low, high, 41)
        _bars(place, values(name, factor), edges, ink.LEFT)
        _logarithmic(place)
    place, hands = axes("hand above its shoulder (m)"), values("hand_height")
    for side, name, colour in ((0, "left", ink.LEFT), (1, "right", ink.RIGHT)):
        edges = np.linspace(-0.45, 0.55, 41)
        _bars(place, hands[:, side], edges, colour, name)
    _logarithmic(place)
    place.legend(frameon=False, fontsize=9.5, labelcolor=ink.INK, loc="upper right")


def _bars(axes: Axes, values, edges: np.ndarray, colour: str, name: str = "") -> None:
    """Bars in per cent of all values; the outermost hold what is farther out."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    share = 100 * counts / max(1, counts.sum())
    axes.stairs(share, edges, fill=True, color=colour, alpha=0.2 if name else 0.85)
    if name:
        axes.stairs(share, edges, color=colour, linewidth=1.5, label=name)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter("{x:g} %")


def _logarithmic(axes: Axes) -> None:
    """Rare poses are what the corpus is for: show them beside common ones."""
    axes.set_ylim(0.01, 100)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:g} %")
    axes.yaxis.set_minor_locator(NullLocator())


def _pair_table(figure: Figure, corpus: Corpus) -> None:
    """Lower triangle of counts: how many clips hold both, and what never meets."""
    counts = clips_with(corpus.names)
    axes = figure.add_axes((0.085, 0.305, 0.5, 0.36))
    _title(axes, "Which factors meet: clips that hold both")
    most = max((counts[pair] for pair in PAIRS), default=1)
    for row, one in enumerate(FACTORS):
        for column, other in enumerate(FACTORS[: row + 1]):
            pair = frozenset((one, other))
            mark = PAIRS.get(pair, "alone")
            _cell(axes, column, row, counts[pair], mark, most)
    size = len(FACTORS)
    axes.set_xlim(-0.55, size - 0.45)
    axes.set_ylim(size - 0.45, -0.55)
    names = [factor.replace("_", " ") for factor in FACTORS]
    axes.set_xticks(range(size), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), names)
    axes.tick_params(length=0, labelsize=11, labelcolor=ink.INK, pad=3)
    axes.spines[:].set_visible(False)
    _pair_legend(axes)


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", size=13, color=ink.INK, weight="bold", pad=10)


def _cell(axes: Axes, x: float, y: float, count: int, mark: str, most: int) -> None:
    """One field: a number, a ring for a pair left out, grey for an impossible one."""
    shade = (count / max(1, most)) ** 0.6
    face = {"x": _MANY(shade), "o": "#ffffff", "-": _ABSENT, "alone": "#ffffff"}[mark]
    edge = {"o": ink.RIGHT, "alone": ink.RULE}.get(mark, "none")
    axes.add_patch(
        Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, facecolor=face, edgecolor=edge)
    )
    if mark == "o":
        axes.plot([x], [y], "o", markersize=8, mfc="none", mec=ink.RIGHT, mew=1.8)
    if count or mark in ("x", "alone"):
        colour = "white" if mark == "x" and shade > 0.45 else ink.INK
        weight = "bold" if mark == "alone" else "normal"
        style = {"ha": "center", "va": "center", "size": 10.5, "weight": weight}
        axes.text(x, y, str(count), color=colour, **style)


def _pair_legend(axes: Axes) -> None:
    for line, (mark, text) in enumerate(
        (
            ("x", "clips that hold both"),
            ("o", "left out on purpose: no clip holds both"),
            ("-", "no such thing: one excludes the other"),
            ("alone", "clips that hold the factor at all"),
        )
    ):
        y = 0.6 + 1.1 * line
        _cell(axes, 8, y, 8 if mark in ("x", "alone") else 0, mark, 10)
        axes.text(8.75, y, text, size=11, color=ink.INK, va="center")


def _paths(figure: Figure, corpus: Corpus) -> None:
    axes = figure.add_axes((0.655, 0.305, 0.315, 0.36))
    ink.quiet(axes, "")
    _title(axes, "Paths of the pelvis, seen from above (m)")
    axes.grid(axis="x", color=ink.RULE, linewidth=0.8)
    travels = [_main_travel(name) for name in corpus.names]
    # Joggers go farthest: drawn first, they do not cover the others.
    for travel in reversed(TRAVELS):
        own = [i for i, other in enumerate(travels) if other == travel]
        for index in own[:_PATHS_EACH]:
            qpos = np.array(corpus.qpos(index), dtype=float)
            x, y = _upwards(seen_from_start(qpos[:, :2], qpos)).T
            colour = _TRAVEL_COLOURS[travel]
            axes.plot(x, y, color=colour, linewidth=1.2, alpha=0.75)
            axes.plot(x[-1:], y[-1:], "o", color=colour, markersize=3.5)
    for travel, colour in _TRAVEL_COLOURS.items():
        axes.plot([], [], color=colour, linewidth=2.5, label=travel)
    axes.plot([0], [0], "o", color=ink.INK, markersize=6, zorder=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(2))
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(frameon=False, fontsize=10.5, labelcolor=ink.INK, loc="upper left")
    axes.set_xlabel("all start at the dot, facing up", color=ink.MUTED, size=10)


def _main_travel(name: str) -> str | None:
    """What a path is coloured by: of several travels the last of TRAVELS."""
    own = [travel for travel in TRAVELS if travel in factors_of(name)]
    return own[-1] if own else None


def _footprints(figure: Figure, corpus: Corpus, found: list[Measures]) -> None:
    """Feet on the floor of one clip for each travel, all at one scale."""
    grid = figure.add_gridspec(
        1, len(TRAVELS), left=0.03, right=0.97, top=0.218, bottom=0.015, wspace=0.06
    )
    figure.text(
        *(0.03, 0.245),
        "Footprints of one clip each, left and right; the line is the pelvis",
        **{"size": 13, "weight": "bold", "color": ink.INK, "va": "center"},
    )
    for cell, travel in enumerate(TRAVELS):
        axes = figure.add_subplot(grid[0, cell])
        axes.set_title(travel, loc="left", size=11.5, color=ink.INK)
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(ink.RULE)
        alone = [i for i, n in enumerate(corpus.names) if factors_of(n) == {travel}]
        if alone:
            _footprint(axes, np.array(corpus.qpos(alone[0]), float), found[alone[0]])


def _footprint(axes: Axes, qpos: np.ndarray, found: Measures) -> None:
    path = _upwards(seen_from_start(qpos[:, :2], qpos))
    # The part that fits: until the path has left the panel.
    far = np.abs(path - path[0]).max(axis=1) > _SHOWN_M
    end = int(far.argmax()) if far.any() else len(path)
    axes.plot(*path[:end].T, color=ink.MUTED, linewidth=1.3, zorder=3)
    for foot, colour in ((0, ink.LEFT), (1, ink.RIGHT)):
        change = np.diff(np.concatenate(([0], found.standing[:end, foot], [0])))
        first, last = np.flatnonzero(change > 0), np.flatnonzero(change < 0)
        for frame in (first + last) // 2:
            x, y, yaw = found.feet[frame, foot]
            yaw -= first_yaw(qpos)
            turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
            outline = seen_from_start(np.array([x, y]), qpos) + _FOOT @ turn
            axes.add_patch(
                Polygon(_upwards(outline), facecolor=colour, alpha=0.55, linewidth=0)
            )
    middle = 0.5 * (path[:end].min(axis=0) + path[:end].max(axis=0))
    half = 0.5 * _SHOWN_M + 0.3
    axes.set_xlim(middle[0] - 0.62 * half, middle[0] + 0.62 * half)
    axes.set_ylim(middle[1] - half, middle[1] + half)


def _upwards(places: np.ndarray) -> np.ndarray:
    """Ahead is up and left is left."""
    return np.stack((-places[..., 1], places[..., 0]), axis=-1)

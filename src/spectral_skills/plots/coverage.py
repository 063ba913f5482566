"""One figure of what a generated corpus covers, measured from its motions."""

import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import MaxNLocator, MultipleLocator, NullLocator

from spectral_skills import rotation
from spectral_skills.motion.checks import average, rate
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics, LinkPoses, sole_heights
from spectral_skills.motion.synthetic.factors import (
    FACTORS,
    PAIRS,
    TRAVELS,
    factors_of,
)
from spectral_skills.plots import style
from spectral_skills.plots.style import INK, LEFT, MUTED, RIGHT, RULE
from spectral_skills.robot import g1
from spectral_skills.workers import in_order

_SHOULDERS = ("left_shoulder_pitch_link", "right_shoulder_pitch_link")
_LINKS = (*g1.FEET, *g1.WRISTS, *_SHOULDERS, "torso_link")
_STRIDE_S = 1.2
"""Time over which speeds are averaged, so that sway does not count as travel."""
_LIFTED_M, _SWING_S, _STEP_S = 0.01, 0.12, 1.0
_STILL = 0.15
"""Speed, m/s or rad/s, below which frames are not shown: they would hide the rest."""
_DATA = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text())
_MANY = LinearSegmentedColormap.from_list("many", ["#e6f1f7", "#5aa3cc", "#00466e"])
_PATHS_EACH = 14
_SHOWN_M = 2.3
"""Length of a path along which footprints are drawn."""
_FOOT = np.array([(0.13, 0.03), (0.13, -0.03), (-0.06, -0.025), (-0.06, 0.025)])


@dataclass(frozen=True)
class Measures:
    """Curves of a clip, and measurements of its steps."""

    forward: np.ndarray
    """Speed along the heading, m/s."""
    sideways: np.ndarray
    """Speed to the left, m/s."""
    turning: np.ndarray
    """Yaw rate, rad/s."""
    pelvis_height: np.ndarray
    """Height in m."""
    torso_pitch: np.ndarray
    """Pitch in rad; positive leans forward."""
    hand_height: np.ndarray
    """(T, 2) height of the left and right hand above its shoulder, m."""
    cadence: np.ndarray
    """Steps per second, one value for every two steps in a row."""
    clearance: np.ndarray
    """Greatest height of the sole's lowest point, m, one value per swing."""
    feet: np.ndarray
    """(T, 2, 3) x, y and yaw of the feet, m and rad."""
    standing: np.ndarray
    """(T, 2) whether each foot is on the floor."""


def measures(qpos: np.ndarray, fps: float = FPS) -> Measures:
    """Measure (T, 36) rows."""
    qpos = np.asarray(qpos, dtype=np.float64)
    poses = _links()(torch.from_numpy(qpos))
    place, turn = poses.position.numpy(), poses.quaternion
    yaw = np.unwrap(rotation.yaw(torch.from_numpy(qpos[:, 3:7])).numpy())
    velocity = rate(qpos[:, :2], fps)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    upright = torch.tensor([0.0, 0.0, 1.0], dtype=turn.dtype)
    up = rotation.rotate_inverse(turn[:, -1], upright).numpy()
    heights = sole_heights(LinkPoses(poses.position[:, :2], turn[:, :2])).numpy()
    swings = [(i, span) for i in (0, 1) for span in _swings(heights[:, i], fps)]
    landings = np.sort([end for _, (_, end) in swings])
    pairs = (landings[2:] - landings[:-2]) / fps
    window = round(_STRIDE_S * fps)
    foot_yaw = rotation.yaw(turn[:, :2]).numpy()[..., None]
    return Measures(
        forward=average(velocity[:, 0] * cosine + velocity[:, 1] * sine, window),
        sideways=average(velocity[:, 1] * cosine - velocity[:, 0] * sine, window),
        turning=average(rate(yaw, fps), window),
        pelvis_height=qpos[:, 2],
        torso_pitch=np.arctan2(-up[:, 0], up[:, 2]),
        hand_height=place[:, 2:4, 2] - place[:, 4:6, 2],
        cadence=2.0 / pairs[(pairs > 0) & (pairs < 2 * _STEP_S)],
        clearance=np.array([heights[a:b, foot].max() for foot, (a, b) in swings]),
        feet=np.concatenate((place[:, :2, :2], foot_yaw), axis=-1),
        standing=heights < _LIFTED_M,
    )


@cache
def _links() -> Kinematics:
    return Kinematics(_LINKS, dtype=torch.float64)


def _swings(heights: np.ndarray, fps: float) -> list[tuple[int, int]]:
    """First frame off the floor and first frame back on it, of whole swings."""
    change = np.diff((heights > _LIFTED_M).astype(int))
    starts, ends = np.flatnonzero(change > 0) + 1, np.flatnonzero(change < 0) + 1
    ends = ends[ends > starts[0]] if len(starts) else ends[:0]
    spans = zip(starts.tolist(), ends.tolist(), strict=False)
    return [(a, b) for a, b in spans if b - a >= _SWING_S * fps]


def seen_from_start(places: np.ndarray, qpos: np.ndarray) -> np.ndarray:
    """Places (..., 2) as the robot sees them in its first frame: ahead, left, m."""
    yaw = _first_yaw(qpos)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    return (places - qpos[0, :2]) @ np.array([[cosine, -sine], [sine, cosine]])


def _first_yaw(qpos: np.ndarray) -> float:
    return float(rotation.yaw(torch.from_numpy(np.array(qpos[0, 3:7], dtype=float))))


def clips_with(names: list[str]) -> Counter[frozenset[str]]:
    """Number of clips that have each factor, and each pair of factors."""
    found: Counter[frozenset[str]] = Counter()
    for name in names:
        factors = factors_of(name)
        found.update(frozenset((factor,)) for factor in factors)
        found.update(frozenset(pair) for pair in combinations(factors, 2))
    return found


def draw_coverage(corpus: Corpus, path: str | Path) -> None:
    """Draw the measurements, which factors occur together, and where clips go."""
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = list(in_order(measures, clips, None))
    subtitle = f"{len(corpus):,} clips, {corpus.hours:.2f} h. Every number is measured "
    subtitle += "from the motions; only the table of pairs goes by their names."
    figure = style.sheet(2060, "What the corpus covers", subtitle)
    _histograms(figure, found)
    _pair_table(figure, corpus)
    _paths(figure, corpus)
    _footprints(figure, corpus, found)
    style.save(figure, path)


def _histograms(figure: Figure, found: list[Measures]) -> None:
    room = {"left": 0.045, "right": 0.97, "top": 0.93, "bottom": 0.715}
    grid = figure.add_gridspec(2, 4, hspace=0.5, wspace=0.18, **room)
    for number, (name, look) in enumerate(_DATA["histograms"].items()):
        title, factor, low, high = look
        axes = style.quiet(figure.add_subplot(grid[divmod(number, 4)]), title)
        values = factor * np.concatenate([getattr(m, name) for m in found])
        edges = np.linspace(low, high, 41)
        if number < 3:
            moving = values[np.abs(values) > _STILL]
            _bars(axes, moving, edges, LEFT)
            axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
            still = 1 - len(moving) / len(values)
            note = f"{still:.0%} of the time below {_STILL:g}, not shown"
            small: dict = {"size": 9, "color": MUTED, "ha": "right", "va": "top"}
            axes.text(1.0, 1.0, note, transform=axes.transAxes, **small)
        elif values.ndim == 1:
            _bars(axes, values, edges, LEFT)
        else:
            for side, label, colour in ((0, "left", LEFT), (1, "right", RIGHT)):
                _bars(axes, values[:, side], edges, colour, label)
            axes.legend(loc="upper right", **style.LEGEND)
        if number >= 4:
            # Rare poses are what the corpus is for: show them beside common ones.
            axes.set_ylim(0.01, 100)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda share, _: f"{share:g} %")
            axes.yaxis.set_minor_locator(NullLocator())


def _bars(axes: Axes, values, edges: np.ndarray, colour: str, label: str = "") -> None:
    """Bars in percent of all values; the outermost hold what is farther out."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    share = 100 * counts / max(1, counts.sum())
    axes.stairs(share, edges, fill=True, color=colour, alpha=0.2 if label else 0.85)
    if label:
        axes.stairs(share, edges, color=colour, linewidth=1.5, label=label)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter("{x:g} %")


def _pair_table(figure: Figure, corpus: Corpus) -> None:
    """Draw a triangle of counts: how many clips have both factors."""
    counts = clips_with(corpus.names)
    axes = figure.add_axes((0.085, 0.305, 0.5, 0.36))
    style.quiet(axes, "Which factors occur together: clips that have both", 13)
    axes.grid(False)
    most = max((counts[pair] for pair in PAIRS), default=1)
    for row, one in enumerate(FACTORS):
        for column, other in enumerate(FACTORS[: row + 1]):
            pair = frozenset((one, other))
            _cell(axes, column, row, counts[pair], PAIRS.get(pair, "alone"), most)
    size, names = len(FACTORS), [factor.replace("_", " ") for factor in FACTORS]
    axes.set(xlim=(-0.55, size - 0.45), ylim=(size - 0.45, -0.55))
    axes.set_xticks(range(size), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), names)
    axes.tick_params(labelsize=11, labelcolor=INK, pad=3)
    axes.spines[:].set_visible(False)
    keys = {
        "x": "clips that have both",
        "o": "left out on purpose: no clip has both",
        "-": "impossible: one excludes the other",
        "alone": "clips that have the factor at all",
    }
    for line, (mark, text) in enumerate(keys.items()):
        y = 0.6 + 1.1 * line
        _cell(axes, 8, y, 8 if mark in ("x", "alone") else 0, mark, 10)
        axes.text(8.75, y, text, size=11, color=INK, va="center")


def _cell(axes: Axes, x: float, y: float, count: int, mark: str, most: int) -> None:
    """A field: a number, a ring for a pair left out, grey for an impossible one."""
    shade = (count / max(1, most)) ** 0.6
    face = {"x": _MANY(shade), "-": "#eceff2"}.get(mark, "#ffffff")
    edge = {"o": RIGHT, "alone": RULE}.get(mark, "none")
    square = (x - 0.44, y - 0.44), 0.88, 0.88
    axes.add_patch(Rectangle(*square, facecolor=face, edgecolor=edge))
    if mark == "o":
        axes.plot([x], [y], "o", markersize=8, mfc="none", mec=RIGHT, mew=1.8)
    if count or mark in ("x", "alone"):
        colour = "white" if mark == "x" and shade > 0.45 else INK
        look: dict = {"ha": "center", "va": "center", "size": 10.5, "color": colour}
        weight = "bold" if mark == "alone" else "normal"
        axes.text(x, y, str(count), weight=weight, **look)


def _paths(figure: Figure, corpus: Corpus) -> None:
    axes = figure.add_axes((0.655, 0.305, 0.315, 0.36))
    style.quiet(axes, "Paths of the pelvis, seen from above (m)", 13)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    colours = dict(zip(TRAVELS, style.COLOURS, strict=True))
    # A clip of several travels is coloured by the last of TRAVELS. Joggers go farthest:
    # drawn first, they do not cover the others.
    left = list(range(len(corpus)))
    for travel in reversed(TRAVELS):
        own = [i for i in left if travel in factors_of(corpus.names[i])]
        left = [i for i in left if i not in own]
        for index in own[:_PATHS_EACH]:
            qpos = np.array(corpus.qpos(index), dtype=float)
            x, y = _upwards(seen_from_start(qpos[:, :2], qpos)).T
            axes.plot(x, y, color=colours[travel], linewidth=1.2, alpha=0.75)
            axes.plot(x[-1:], y[-1:], "o", color=colours[travel], markersize=3.5)
    for travel, colour in colours.items():
        axes.plot([], [], color=colour, linewidth=2.5, label=travel)
    axes.plot([0], [0], "o", color=INK, markersize=6, zorder=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(2))
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(loc="upper left", **style.LEGEND)
    axes.set_xlabel("all start at the dot, facing up", color=MUTED, size=10)


def _footprints(figure: Figure, corpus: Corpus, found: list[Measures]) -> None:
    """Draw feet on the floor of one clip for each travel, all at one scale."""
    room = {"left": 0.03, "right": 0.97, "top": 0.218, "bottom": 0.015, "wspace": 0.06}
    grid = figure.add_gridspec(1, len(TRAVELS), **room)
    title = "Footprints of one clip each, left and right; the line is the pelvis"
    figure.text(0.03, 0.245, title, size=13, weight="bold", color=INK, va="center")
    for number, travel in enumerate(TRAVELS):
        axes = figure.add_subplot(grid[0, number])
        axes.set_title(travel, loc="left", size=11.5, color=INK)
        axes.set(aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_color(RULE)
        alone = [i for i, n in enumerate(corpus.names) if factors_of(n) == {travel}]
        if alone:
            _footprint(axes, np.array(corpus.qpos(alone[0]), float), found[alone[0]])


def _footprint(axes: Axes, qpos: np.ndarray, found: Measures) -> None:
    path = _upwards(seen_from_start(qpos[:, :2], qpos))
    # The part that fits: until the path has left the panel.
    far = np.abs(path - path[0]).max(axis=1) > _SHOWN_M
    end = int(far.argmax()) if far.any() else len(path)
    axes.plot(*path[:end].T, color=MUTED, linewidth=1.3, zorder=3)
    for foot, colour in ((0, LEFT), (1, RIGHT)):
        change = np.diff(np.concatenate(([0], found.standing[:end, foot], [0])))
        first, last = np.flatnonzero(change > 0), np.flatnonzero(change < 0)
        for frame in (first + last) // 2:
            x, y, yaw = found.feet[frame, foot]
            yaw -= _first_yaw(qpos)
            turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
            outline = seen_from_start(np.array([x, y]), qpos) + _FOOT @ turn
            look = {"facecolor": colour, "alpha": 0.55, "linewidth": 0}
            axes.add_patch(Polygon(_upwards(outline), **look))
    middle = 0.5 * (path[:end].min(axis=0) + path[:end].max(axis=0))
    half = 0.5 * _SHOWN_M + 0.3
    axes.set_xlim(middle[0] - 0.62 * half, middle[0] + 0.62 * half)
    axes.set_ylim(middle[1] - half, middle[1] + half)


def _upwards(places: np.ndarray) -> np.ndarray:
    """Turn places so that ahead is up and left is left."""
    return np.stack((-places[..., 1], places[..., 0]), axis=-1)

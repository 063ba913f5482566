"""What the motions of a corpus cover: speeds, gaits, factors, paths, as a picture."""

from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.ticker import MaxNLocator, MultipleLocator, NullLocator

from spectral_skills import rotation
from spectral_skills.config import read_table
from spectral_skills.experiments.effects import headings
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.gait import average, rate, runs
from spectral_skills.motion.kinematics import Kinematics, LinkPoses, sole_heights
from spectral_skills.motion.synthetic.factors import FACTORS, PAIRS, TRAVELS, factors_of
from spectral_skills.plots import charts
from spectral_skills.plots.charts import COLOURS, INK, LEFT, MUTED, RIGHT
from spectral_skills.robot import g1
from spectral_skills.workers import few_or_all, in_order

_DATA = read_table(__file__, "corpus.toml")
_SHOULDERS = ("left_shoulder_pitch_link", "right_shoulder_pitch_link")
_LINKS = (*g1.FEET, *g1.WRISTS, *_SHOULDERS, "torso_link")
_STRIDE_S = 1.2
"""Time over which speeds are averaged, so that sway does not count as travel."""
_LIFTED_M, _SWING_S, _STEP_S = 0.01, 0.12, 1.0
_STILL = 0.15
"""Speed, m/s or rad/s, below which frames are not shown: they would hide the rest."""
_MANY = LinearSegmentedColormap.from_list("many", ["#e6f1f7", "#5aa3cc", "#00466e"])
_PATHS_EACH = 14
_SHOWN_M = 2.3
"""Length of a path along which footprints are drawn."""
_HEEL_TOE_M = np.array([-0.04, 0.11])


def measures(qpos: np.ndarray) -> dict[str, np.ndarray]:
    """What (T, 36) rows do, by the names of the histograms in corpus.toml.

    Curves are in m, rad and s; hands are (T, 2) left and right. `cadence` has a value
    for every two steps in a row, `clearance` one per swing. Besides there are `feet`,
    (T, 2, 3) x, y and yaw, and `standing`, (T, 2) whether each foot is on the floor.
    """
    qpos = np.asarray(qpos, dtype=np.float64)
    poses = _links()(torch.from_numpy(qpos))
    place, turn = poses.position.numpy(), poses.quaternion
    yaw, velocity = headings(qpos), rate(qpos[:, :2], FPS)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    upright = torch.tensor([0.0, 0.0, 1.0], dtype=turn.dtype)
    up = rotation.rotate_inverse(turn[:, -1], upright).numpy()
    heights = sole_heights(LinkPoses(poses.position[:, :2], turn[:, :2])).numpy()
    swings = [
        (foot, start, end)
        for foot in (0, 1)
        for start, end in runs(heights[:, foot] > _LIFTED_M)
        if 0 < start and end < len(qpos) and end - start >= _SWING_S * FPS
    ]
    landings = np.sort([end for *_, end in swings])
    pairs = (landings[2:] - landings[:-2]) / FPS
    window = round(_STRIDE_S * FPS)
    foot_yaw = rotation.yaw(turn[:, :2]).numpy()[..., None]
    return {
        "forward": average(velocity[:, 0] * cosine + velocity[:, 1] * sine, window),
        "sideways": average(velocity[:, 1] * cosine - velocity[:, 0] * sine, window),
        "turning": average(rate(yaw, FPS), window),
        "pelvis_height": qpos[:, 2],
        "torso_pitch": np.arctan2(-up[:, 0], up[:, 2]),
        "hand_height": place[:, 2:4, 2] - place[:, 4:6, 2],
        "cadence": 2.0 / pairs[(pairs > 0) & (pairs < 2 * _STEP_S)],
        "clearance": np.array([heights[a:b, foot].max() for foot, a, b in swings]),
        "feet": np.concatenate((place[:, :2, :2], foot_yaw), axis=-1),
        "standing": heights < _LIFTED_M,
    }


@cache
def _links() -> Kinematics:
    return Kinematics(_LINKS, dtype=torch.float64)


def from_above(places: np.ndarray, qpos: np.ndarray) -> np.ndarray:
    """Places (..., 2) as seen from the first frame: to the right, ahead, m."""
    yaw = headings(qpos[:1])[0]
    turn = np.array([[np.sin(yaw), np.cos(yaw)], [-np.cos(yaw), np.sin(yaw)]])
    return (places - qpos[0, :2]) @ turn


def clips_with(names: list[str]) -> Counter[frozenset[str]]:
    found: Counter[frozenset[str]] = Counter()
    for name in names:
        factors = factors_of(name)
        found.update(frozenset((factor,)) for factor in factors)
        found.update(frozenset(pair) for pair in combinations(factors, 2))
    return found


@charts.styled
def draw_coverage(corpus: Corpus, path: str | Path) -> None:
    """Draw the measurements, which factors occur together, and where clips go."""
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = list(in_order(measures, clips, few_or_all(len(corpus))))
    subtitle = f"{len(corpus):,} clips, {corpus.hours:.2f} h. Every number is measured "
    subtitle += "from the motions; only the table of pairs goes by their names."
    figure = charts.sheet(2060, "What the corpus covers", subtitle)
    parts: Any = figure.subfigures(3, 1, height_ratios=(4, 7, 4))
    top, middle, bottom = parts
    looks = _DATA["histograms"].items()
    for axes, (name, look) in zip(top.subplots(2, 4).flat, looks, strict=True):
        values = np.concatenate([one[name] for one in found])
        _histogram(axes, values, *look)
    left, right = middle.subplots(1, 2, width_ratios=(5, 3))
    _pair_table(left, corpus)
    _paths(right, corpus)
    title = "Footprints of one clip each, left and right; the line is the pelvis"
    bottom.suptitle(title, x=0.012, ha="left", size=13, weight="bold")
    for axes, travel in zip(bottom.subplots(1, len(TRAVELS)), TRAVELS, strict=True):
        axes.set(title=travel, aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_visible(True)
        alone = [i for i, n in enumerate(corpus.names) if factors_of(n) == {travel}]
        if alone:
            _footprints(axes, np.array(corpus.qpos(alone[0]), float), found[alone[0]])
    charts.save(figure, path)


def _histogram(
    axes: Axes, values, title: str, factor: float, low: float, high: float, look: str
) -> None:
    """Shares in percent; the outermost bars hold what is farther out."""
    axes.set(title=title, xlim=(low, high))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    columns = factor * np.atleast_2d(values.T)
    if look == "moving":
        still = np.abs(columns[0]) <= _STILL
        note = f"{still.mean():.0%} of the time below {_STILL:g}, not shown"
        small: dict = {"size": 9, "color": MUTED, "ha": "right", "va": "top"}
        axes.text(1.0, 1.0, note, transform=axes.transAxes, **small)
        columns = columns[:, ~still]
    both = len(columns) == 2
    for column, label in zip(columns, ("left", "right"), strict=False):
        shares = np.full(len(column), 100 / max(1, len(column)))
        kind: dict = {"histtype": "step" if both else "stepfilled", "label": label}
        clipped, edges = column.clip(low, high), np.linspace(low, high, 41).tolist()
        axes.hist(clipped, edges, weights=shares, linewidth=1.5, **kind)
    if both:
        axes.legend(loc="upper right")
    if look == "moving":
        axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    elif look == "log":
        # Rare poses are what the corpus is for: show them beside common ones.
        axes.set(ylim=(0.01, 100), yscale="log")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:g} %")


def _pair_table(axes: Axes, corpus: Corpus) -> None:
    """Draw a triangle of counts: how many clips have both factors."""
    counts, size = clips_with(corpus.names), len(FACTORS)
    most, image = max(1, *(counts[pair] for pair in PAIRS)), np.ones((size, size, 4))
    look: dict = {"ha": "center", "va": "center", "size": 10.5}
    for row, one in enumerate(FACTORS):
        for column, other in enumerate(FACTORS[: row + 1]):
            pair = frozenset((one, other))
            mark, shade = PAIRS.get(pair, "alone"), (counts[pair] / most) ** 0.6
            text, colour = str(counts[pair]), INK
            if mark == "x":
                image[row, column] = _MANY(shade)
                colour = "white" if shade > 0.45 else INK
            elif mark == "-":
                image[row, column], text = to_rgba("#eceff2"), ""
            elif mark == "o":
                text, colour = "◯", RIGHT
            weight = "bold" if mark in ("alone", "o") else "normal"
            axes.text(column, row, text, color=colour, weight=weight, **look)
    axes.imshow(image)
    names = [factor.replace("_", " ") for factor in FACTORS]
    axes.set_title("Which factors occur together: clips that have both", size=13)
    axes.set_xticks(range(size), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), names)
    axes.tick_params(labelsize=11, labelcolor=INK, pad=3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(np.arange(size + 1) - 0.5, minor=True)
    axes.grid(False)
    axes.grid(which="minor", axis="both", color="white", linewidth=3)
    axes.spines[:].set_visible(False)
    key = (
        "shaded: clips that have both\n◯  left out on purpose: no clip has both\n"
        "grey: impossible, one excludes the other\nbold: clips that have the factor"
    )
    place = {"transform": axes.transAxes, "va": "top", "size": 11}
    axes.text(0.52, 0.97, key, linespacing=1.8, **place)


def _paths(axes: Axes, corpus: Corpus) -> None:
    axes.set_title("Paths of the pelvis, seen from above (m)", size=13)
    # A clip of several travels is coloured by the last of TRAVELS. Joggers go farthest:
    # drawn first, they do not cover the others.
    left = list(range(len(corpus)))
    for travel, colour in reversed(list(zip(TRAVELS, COLOURS, strict=True))):
        own = [i for i in left if travel in factors_of(corpus.names[i])]
        left = [i for i in left if i not in own]
        for number, index in enumerate(own[:_PATHS_EACH]):
            qpos = np.array(corpus.qpos(index), dtype=float)
            x, y = from_above(qpos[:, :2], qpos).T
            look = {"color": colour, "label": None if number else travel}
            axes.plot(x, y, "o-", linewidth=1.2, markersize=3.5, markevery=[-1], **look)
    axes.plot([0], [0], "o", color=INK, markersize=6, zorder=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(2))
        axis.grid(True)
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(loc="upper left", reverse=True)
    axes.set_xlabel("all start at the dot, facing up")


def _footprints(axes: Axes, qpos: np.ndarray, found: dict[str, np.ndarray]) -> None:
    path = from_above(qpos[:, :2], qpos)
    # The part that fits: until the path has left the panel.
    far = np.abs(path - path[0]).max(axis=1) > _SHOWN_M
    end = int(far.argmax()) if far.any() else len(path)
    axes.plot(*path[:end].T, color=MUTED, linewidth=1.3, zorder=3)
    for foot, colour in enumerate((LEFT, RIGHT)):
        for first, last in runs(found["standing"][:end, foot]):
            x, y, yaw = found["feet"][(first + last) // 2, foot]
            ahead = np.outer(_HEEL_TOE_M, (np.cos(yaw), np.sin(yaw)))
            sole = from_above(np.array([x, y]) + ahead, qpos).T
            axes.plot(*sole, color=colour, alpha=0.55, linewidth=6)
    middle = 0.5 * (path[:end].min(axis=0) + path[:end].max(axis=0))
    half = 0.5 * _SHOWN_M + 0.3
    axes.set_xlim(middle[0] - 0.62 * half, middle[0] + 0.62 * half)
    axes.set_ylim(middle[1] - half, middle[1] + half)

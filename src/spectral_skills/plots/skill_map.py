"""Map of a skill space: every clip of a corpus is a dot, near those of like skills."""

from collections import Counter
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.kinds import OTHER, kind
from spectral_skills.plots import ink
from spectral_skills.skill.codes import SkillBank
from spectral_skills.skill.tsne import MOST_POINTS, pca, tsne

PAPER_STD = 0.80
"""Mean standard deviation of a skill dimension over the paper's corpus."""
_COLOURS = (*ink.COLOURS, "#5B3FA0", "#8C8A1D", "#8A1C4A")
_GREY = "#b4bdc7"
_REACH_PX = 150
"""How far from its dots a label may stand."""


def draw_map(corpus: Corpus, bank: SkillBank, path: str | Path, seed: int = 0) -> None:
    """Write the map of a corpus: t-SNE and PCA of the mean skills of its clips.

    Of more clips than t-SNE can take, a random part is drawn.
    """
    clips, means = (x.cpu() for x in bank.clip_means())
    counted = f"{len(clips):,} clips"
    if len(clips) > MOST_POINTS:
        order = torch.randperm(
            len(clips), generator=torch.Generator().manual_seed(seed)
        )
        clips, means = clips[order[:MOST_POINTS]], means[order[:MOST_POINTS]]
        counted = f"{MOST_POINTS:,} of {counted}"
    entries = [corpus.entry(i) for i in clips.tolist()]
    kinds = common_kinds([kind(entry.name, entry.text) for entry in entries])
    near = tsne(means)
    straight, share = pca(means, 2)

    figure = ink.sheet(940)
    ink.headline(
        figure,
        "Map of the skill space",
        f"Each dot is the mean skill of one clip: {counted}, {len(bank.skills):,} "
        f"skills, {corpus.hours:,.2f} h. Mean standard deviation of a skill dimension "
        f"{bank.spread():.2f} (paper {PAPER_STD:.2f}).",
    )
    panel = figure.add_axes((0.03, 0.1, 0.455, 0.775))
    _dots(panel, "t-SNE: clips of like skills lie together", near.numpy(), kinds)
    panel.set_xticks([])
    panel.set_yticks([])
    label_kinds(panel, near.numpy(), kinds)
    panel = figure.add_axes((0.53, 0.1, 0.455, 0.775))
    _dots(panel, "PCA: the two directions of largest variance", straight.numpy(), kinds)
    for axis, name, part in (
        (panel.xaxis, "first", share[0]),
        (panel.yaxis, "second", share[1]),
    ):
        axis.set_label_text(f"{name} component, {part:.0%} of the variance")
        axis.label.set(color=ink.MUTED, size=10.5)
        axis.set_major_locator(MaxNLocator(6))
    label_kinds(panel, straight.numpy(), kinds)
    _legend(figure, kinds)
    ink.save(figure, path)


def common_kinds(kinds: list[str]) -> np.ndarray:
    """The kinds, the rare ones merged into `other` so that the colours suffice."""
    counts = Counter(name for name in kinds if name != OTHER)
    common = sorted(counts, key=lambda name: (-counts[name], name))[: len(_COLOURS)]
    return np.array([name if name in common else OTHER for name in kinds])


def kind_colours(kinds: np.ndarray) -> dict[str, str]:
    """A colour for each kind, the most common first, grey `other` last."""
    counts = Counter(kinds[kinds != OTHER].tolist())
    names = sorted(counts, key=lambda name: (-counts[name], name))
    colours = dict(zip(names, _COLOURS, strict=False))
    return colours | ({OTHER: _GREY} if OTHER in kinds else {})


def _dots(axes: Axes, title: str, places: np.ndarray, kinds: np.ndarray) -> None:
    """A panel of one dot a clip, both axes at one scale."""
    ink.quiet(axes, title)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(ink.RULE)
    axes.grid(False)
    width_px, height_px = _size_px(axes)
    low, high = places.min(axis=0), places.max(axis=0)
    # Units a pixel, with a margin around the outermost dots.
    unit = 1.1 * max(*((high - low) / (width_px, height_px)), 1e-9)
    half = 0.5 * unit * np.array((width_px, height_px))
    middle = 0.5 * (low + high)
    axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
    axes.set_ylim(middle[1] - half[1], middle[1] + half[1])
    colours = kind_colours(kinds)
    # Mixed, so that no kind covers another; grey below all.
    order = np.random.default_rng(0).permutation(len(places))
    order = order[np.argsort(kinds[order] != OTHER, kind="stable")]
    axes.scatter(
        *places[order].T,
        s=np.clip(22_000 / len(places), 7, 42),
        c=[colours[name] for name in kinds[order]],
        alpha=0.8,
        linewidths=0.4,
        edgecolors="white",
    )


def _size_px(axes: Axes) -> tuple[float, float]:
    box = axes.get_window_extent()
    return box.width, box.height


def label_kinds(axes: Axes, places: np.ndarray, kinds: np.ndarray) -> list[Text]:
    """Write each kind where its dots are densest, clear of dots and other labels."""
    renderer = FigureCanvasAgg(axes.get_figure(root=True)).get_renderer()
    dots_px = axes.transData.transform(places)
    to_data = axes.transData.inverted().transform
    panel_px = axes.get_window_extent(renderer)
    bounds = np.array((panel_px.min, panel_px.max))
    taken, labels = np.empty((0, 2, 2)), []
    for name, colour in kind_colours(kinds).items():
        if name == OTHER:
            continue
        own = _densest(dots_px[kinds == name])
        style = {"size": 12.5, "weight": "bold", "color": _darker(colour)}
        label = axes.text(0, 0, name, ha="center", va="center", **style)
        label.set_path_effects([withStroke(linewidth=4, foreground="white")])
        extent = label.get_window_extent(renderer)
        half = 0.5 * np.array(extent.size) + 4
        centre = _free_place(np.median(own, axis=0), half, dots_px, taken, bounds)
        label.set_position(tuple(to_data(centre).tolist()))
        taken = np.concatenate((taken, [(centre - half, centre + half)]))
        labels.append(label)
        # A line to the nearest of its dots, where the label had to leave them.
        edges = np.clip(own, centre - half, centre + half)
        gaps = np.linalg.norm(edges - own, axis=1)
        if gaps.min() > 16:
            line = to_data(np.array((edges[gaps.argmin()], own[gaps.argmin()])))
            axes.plot(*line.T, color=colour, linewidth=1.2, zorder=1.5)
    return labels


def _densest(dots: np.ndarray) -> np.ndarray:
    """The dots around the one that has most others near it."""
    near = np.linalg.norm(dots[:, None] - dots, axis=-1) < 45
    return dots[near[near.sum(axis=1).argmax()]]


def _darker(colour: str) -> tuple[float, float, float]:
    """For text, which has less ink than a dot."""
    red, green, blue = to_rgb(colour)
    return 0.75 * red, 0.75 * green, 0.75 * blue


def _free_place(target, half, dots, taken, bounds) -> np.ndarray:
    """Centre of a box of half size `half` near `target`: all in pixels.

    Best is to cover nothing and to be near; another label is never covered where
    there is room at all.
    """
    step = np.arange(-_REACH_PX, _REACH_PX + 1, 10)
    shift = np.stack(np.meshgrid(step, step), axis=-1).reshape(-1, 2)
    centres = target + shift
    low, high = (centres - half)[:, None], (centres + half)[:, None]
    dots_in = ((dots > low) & (dots < high)).all(axis=-1).sum(axis=1)
    labels_in = ((taken[:, 1] > low) & (taken[:, 0] < high)).all(axis=-1).sum(axis=1)
    outside = ((low[:, 0] < bounds[0]) | (high[:, 0] > bounds[1])).any(axis=-1)
    away = np.linalg.norm(shift, axis=1)
    return centres[np.argmin(away + 15 * dots_in + 1e4 * labels_in + 1e5 * outside)]


def _legend(figure: Figure, kinds: np.ndarray) -> None:
    """One line of all kinds with their counts."""
    names = [f"{name}  {(kinds == name).sum():,}" for name in kind_colours(kinds)]
    dots = [
        Line2D([], [], marker="o", linestyle="", markersize=8, color=colour)
        for colour in kind_colours(kinds).values()
    ]
    figure.legend(
        dots,
        names,
        loc="lower left",
        bbox_to_anchor=(0.022, 0.012),
        ncols=len(names),
        frameon=False,
        fontsize=11,
        labelcolor=ink.INK,
        handletextpad=0.1,
        columnspacing=1.6,
    )

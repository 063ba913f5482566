"""What directions are predicted to do: a figure of all ranks, a table for terminals."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm, LinearSegmentedColormap
from matplotlib.figure import Figure

from spectral_skills.plots import ink
from spectral_skills.spectral.attributes import ATTRIBUTES
from spectral_skills.spectral.direction_file import DETERMINED, SINGLE_LIMB, Directions

_HEIGHT_PX = 1860
_LEFT, _WIDTH = 0.138, 0.832
_COLOURS = {
    "left_arm": ink.LEFT,
    "right_arm": ink.RIGHT,
    "left_leg": "#56B4E9",
    "right_leg": "#E69F00",
    "waist": "#009E73",
    "root_position": "#CC79A7",
    "root_rotation": "#8E7CC3",
}
"""Bluish left, orange right; in the order they are stacked."""
_BOTH_WAYS = LinearSegmentedColormap.from_list(
    "both ways", ["#0a4f7d", "#5aa3cc", "#ffffff", "#ec9a5b", "#a8430a"]
)
_SCALES = {a.name: a.scale for a in ATTRIBUTES}
_LEGEND = {"frameon": False, "fontsize": 10, "labelcolor": ink.INK}
_BLOCKS = (
    *("left_hip_pitch", "right_hip_pitch", "waist_yaw", "left_shoulder_pitch"),
    *("right_shoulder_pitch", "root_height", "left_foot_height", "left_hand_x"),
)
"""Attributes that begin a block of rows."""


def all_ranks(directions: Directions, path: str | Path) -> None:
    """Write the figure of all spectral directions."""
    chosen = directions.family("spectral")
    if not len(chosen):
        raise ValueError("no spectral directions to draw")
    single = directions.single_limb[chosen]
    stable = directions.determined[chosen]
    figure = ink.sheet(_HEIGHT_PX)
    ink.headline(
        figure,
        f"All {len(chosen)} spectral directions",
        f"Predicted over {directions.contexts:,} contexts, per unit amplitude. "
        f"{np.count_nonzero(single)} move a single limb; {np.count_nonzero(stable)} "
        "come out the same from both halves of the contexts.",
    )
    _gains(_panel(figure, 130, 400), directions, chosen)
    _alike(_panel(figure, 600, 120), directions, chosen)
    _effects(figure, _panel(figure, 790, 840), directions, chosen)
    ink.save(figure, path)


def _panel(figure: Figure, down_px: float, height_px: float) -> Axes:
    """Axes at a distance from the top; all share their left and right ends."""
    bottom = 1 - (down_px + height_px) / _HEIGHT_PX
    return figure.add_axes((_LEFT, bottom, _WIDTH, height_px / _HEIGHT_PX))


def _ranks(axes: Axes, count: int) -> np.ndarray:
    """Ranks 1, 2, ... along x; ticks at every eighth."""
    axes.set_xlim(0.4, count + 0.6)
    axes.set_xticks([1, *range(8, count + 1, 8)])
    return np.arange(1, count + 1)


def _gains(axes: Axes, directions: Directions, chosen: np.ndarray) -> None:
    """Bars of gain, shared out among the parts of the body by energy."""
    ink.quiet(axes, "predicted gain by rank, by the part of the body that moves")
    ranks, gains = _ranks(axes, len(chosen)), directions.gains[chosen]
    bottom = np.zeros(len(chosen))
    for group, colour in _COLOURS.items():
        share = directions.group_shares[chosen, directions.groups.index(group)]
        label = group.replace("_", " ")
        axes.bar(ranks, share * gains, 0.82, bottom, color=colour, label=label)
        bottom += share * gains
    offset = 0.022 * gains.max()
    for limb in sorted(set(directions.single_limb[chosen]) - {""}):
        own = directions.single_limb[chosen] == limb
        axes.plot(
            *(ranks[own], gains[own] + offset, "D"),
            **{"color": _COLOURS[limb], "markersize": 5.5, "mec": "white", "mew": 0.6},
        )
    axes.set_ylim(0, 1.07 * gains.max())
    axes.set_ylabel("rms change of the future", color=ink.MUTED, size=10)
    bars, names = axes.get_legend_handles_labels()
    mark = axes.plot([], [], "D", color=ink.MUTED, markersize=6)[0]
    axes.legend(
        handles=[*bars, mark],
        labels=[*names, f"one limb has over {SINGLE_LIMB:.0%} of the energy"],
        loc="upper right",
        ncols=2,
        **_LEGEND,
    )


def _alike(axes: Axes, directions: Directions, chosen: np.ndarray) -> None:
    """How much two halves agree, and how much contexts do."""
    ink.quiet(axes, "is it the same direction, and the same effect?")
    ranks = _ranks(axes, len(chosen))
    stability, sameness = directions.stability[chosen], directions.sameness[chosen]
    axes.plot(ranks, sameness, color=ink.COLOURS[2], linewidth=2)
    axes.plot(ranks, stability, color=ink.RULE, linewidth=1, zorder=1)
    solid = stability >= DETERMINED
    style = {"markersize": 6, "mec": ink.INK, "mew": 1.1}
    axes.plot(ranks[~solid], stability[~solid], "o", mfc="white", **style)
    axes.plot(ranks[solid], stability[solid], "o", mfc=ink.INK, **style)
    axes.set_ylim(-0.06, 1.12)
    axes.set_yticks([0, 0.5, 1])
    entries = (
        ("|cos| between halves of the contexts", "o", ink.INK, ink.INK),
        (f"below {DETERMINED:g}: not determined", "o", ink.INK, "white"),
        ("mean effect over its rms over contexts", "-", ink.COLOURS[2], "none"),
    )
    handles = [
        axes.plot([], [], mark, color=colour, mfc=face, mec=colour, label=text)[0]
        for text, mark, colour, face in entries
    ]
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 0.99),
        ncols=3,
        **_LEGEND,
    )


def _effects(
    figure: Figure, axes: Axes, directions: Directions, chosen: np.ndarray
) -> None:
    """Mean effects in units of a change that one notices."""
    scale = np.array([_SCALES[name] for name in directions.attributes])
    effects = (directions.effect_mean[chosen] / scale).T
    limit = max(float(np.quantile(np.abs(effects), 0.995)), 1e-9)
    ranks = _ranks(axes, len(chosen))
    image = axes.imshow(
        effects,
        aspect="auto",
        cmap=_BOTH_WAYS,
        norm=FuncNorm((_root, _square), vmin=-limit, vmax=limit),
        extent=(0.5, len(chosen) + 0.5, len(effects) - 0.5, -0.5),
        interpolation="nearest",
    )
    title = "mean effect on each attribute, in steps of what one notices (in brackets)"
    axes.set_title(title, loc="left", size=11.5, color=ink.INK, weight="bold", pad=9)
    labels = [
        f"{name.replace('_', ' ')} ({value:g} {unit})"
        for name, value, unit in zip(
            directions.attributes, scale, directions.units, strict=True
        )
    ]
    axes.set_yticks(range(len(labels)), labels)
    every = -(-len(chosen) // 64)
    names = [directions.names[k] for k in chosen[::every]]
    axes.set_xticks(ranks[::every], names, rotation=270)
    axes.tick_params(length=0, labelcolor=ink.INK)
    axes.tick_params(axis="y", labelsize=8.5)
    axes.tick_params(axis="x", labelsize=9, pad=5)
    axes.spines[:].set_color(ink.RULE)
    for name in _BLOCKS[1:]:
        if name in directions.attributes:
            row = directions.attributes.index(name) - 0.5
            axes.axhline(row, color=ink.MUTED, linewidth=0.8)
    _colour_bar(figure, image)


def _root(x: np.ndarray) -> np.ndarray:
    """Square root on both sides of zero: weak effects show beside strong ones."""
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.square(x)


def _colour_bar(figure: Figure, image) -> None:
    place = figure.add_axes((0.81, 1 - 780 / _HEIGHT_PX, 0.16, 10 / _HEIGHT_PX))
    bar = figure.colorbar(image, cax=place, orientation="horizontal")
    bar.outline.set_visible(False)  # type: ignore[operator]
    ends = np.array([-1, -0.25, 0, 0.25, 1]) * image.norm.vmax
    bar.set_ticks(ends.tolist(), labels=[f"{end:.2g}" for end in ends])
    place.xaxis.set_ticks_position("top")
    place.tick_params(length=0, labelsize=9, colors=ink.MUTED, pad=2)


def effect_table(directions: Directions) -> str:
    """A line for every direction: gain, marks, and its three largest effects."""
    heads = ("direction", "gain", "same", "limb", "amplitude", "mean effect +- spread")
    rows: list[tuple[str, ...]] = [heads]
    limbs = directions.single_limb
    for k, name in enumerate(directions.names):
        goal = directions.families[k] == "target"
        rows.append(
            (
                name,
                f"{directions.gains[k]:.3f}",
                f"{directions.stability[k]:.2f}" + " *"[int(directions.determined[k])],
                limbs[k].replace("_", " "),
                f"{directions.amplitudes[k]:.1f}" if goal else "",
                ", ".join(_largest(directions, k)),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    source = "standing" if directions.hand_standing else "all upright"
    notes = (
        f"per unit amplitude, over {directions.contexts:,} contexts",
        f"same: |cos| between two halves of them, * if at least {DETERMINED:g}",
        f"limb: has over {SINGLE_LIMB:.0%} of the energy",
        "amplitude: reaches the goal by this prediction, whose effects are the "
        "smallest; steering needs far less",
        f"hand maps from {directions.hand_contexts:,} {source} contexts",
    )
    return "\n".join((*lines, "", *notes))


def _largest(directions: Directions, k: int, count: int = 3) -> list[str]:
    """The largest mean effects of a direction, in scales, with spread and unit."""
    scale = np.array([_SCALES[name] for name in directions.attributes])
    mean, std = directions.effect_mean[k], directions.effect_std[k]
    order = np.argsort(-np.abs(mean / scale), kind="stable")[:count]
    return [
        f"{directions.attributes[a]} {mean[a]:+.2g} +- {std[a]:.1g} "
        f"{directions.units[a]}"
        for a in order
    ]

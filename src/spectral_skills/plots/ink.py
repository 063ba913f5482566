"""How figures look: colours, quiet axes, one size of pixel."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from spectral_skills.atomic import write_file

DPI = 100
WIDTH_PX = 1600
INK, MUTED, RULE = "#1c2733", "#66727f", "#dfe4ea"
# Okabe and Ito's palette, told apart by colour-blind readers.
LEFT, RIGHT = "#0072B2", "#D55E00"
COLOURS = (LEFT, RIGHT, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def sheet(height_px: float) -> Figure:
    """An empty figure of our usual width."""
    size = (WIDTH_PX / DPI, height_px / DPI)
    return Figure(figsize=size, dpi=DPI, facecolor="white")


def headline(figure: Figure, title: str, subtitle: str) -> None:
    """Title and subtitle at the top left, at the same distance on every figure."""
    height_px = figure.get_size_inches()[1] * DPI
    for text, down_px, size, weight, colour in (
        (title, 31, 21, "bold", INK),
        (subtitle, 62, 12.5, "normal", MUTED),
    ):
        figure.text(
            0.03,
            1 - down_px / height_px,
            text,
            size=size,
            weight=weight,
            color=colour,
            va="center",
        )


def quiet(axes: Axes, title: str) -> Axes:
    """A plot without a box, its title at the left, a light grid behind."""
    axes.set_title(title, loc="left", size=11.5, color=INK, weight="bold", pad=7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.tick_params(colors=MUTED, labelsize=9.5, length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def label_end(
    axes: Axes, text: str, at: tuple[float, float], colour: str, size: float
) -> None:
    """Write the name of a curve to the right of its end."""
    axes.annotate(
        *(text, at),
        xytext=(6, 0),
        textcoords="offset points",
        size=size,
        color=colour,
        va="center",
        annotation_clip=False,
    )


def part_labels(axes: Axes, room_px: float) -> None:
    """Move labels at the ends of curves apart, in the order of the curves."""
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    if not labels:
        return
    labels.sort(key=lambda label: label.xy[1])
    wanted = [float(axes.transData.transform(label.xy)[1]) for label in labels]
    heights = apart(wanted, axes.bbox.y0, axes.bbox.y1, room_px)
    for label, y, old in zip(labels, heights, wanted, strict=True):
        label.set_position((6, (y - old) * 72 / DPI))


def apart(wanted: Sequence[float], low: float, high: float, room: float) -> list[float]:
    """Rising heights with room between them, as near as possible to those wanted."""
    room = min(room, (high - low) / max(len(wanted) - 1, 1))
    y = list(wanted)
    for i in range(1, len(y)):
        y[i] = max(y[i], y[i - 1] + room)
    over = y[-1] - high
    if over > 0:
        y[-1] = high
        for i in range(len(y) - 2, -1, -1):
            y[i] = min(y[i], y[i + 1] - room)
    return [max(value, low + room * i) if i else value for i, value in enumerate(y)]


def panel(
    figure: Figure,
    place: tuple[float, float, float, float],
    picture: np.ndarray,
    label: str,
) -> None:
    """A picture in its place, with a few words in its upper left corner."""
    axes = figure.add_axes(place)
    axes.imshow(picture, aspect="auto", interpolation="lanczos")
    axes.set_axis_off()
    where = axes.transAxes
    axes.text(0.05, 0.965, label, transform=where, size=11, color=INK, va="top")


def save(figure: Figure, path: str | Path) -> None:
    """Write a PNG."""
    FigureCanvasAgg(figure)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    write_file(Path(path), png.getvalue())

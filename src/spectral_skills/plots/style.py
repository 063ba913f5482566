"""How every figure looks: colours, quiet axes, labels and the size of a pixel."""

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
INK, MUTED, RULE, GREY = "#1c2733", "#66727f", "#dfe4ea", "#b4bdc7"
# The palette of Okabe and Ito, which colour-blind readers can tell apart.
LEFT, RIGHT = "#0072B2", "#D55E00"
COLOURS = (LEFT, RIGHT, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
NAMED = {"blue": LEFT, "orange": RIGHT, "green": COLOURS[2], "ink": INK, "muted": MUTED}
Place = tuple[float, float, float, float]
"""Left, bottom, width and height in a figure."""
LEGEND: dict = {"frameon": False, "fontsize": 9.5, "labelcolor": INK}


def sheet(height_px: float, title: str = "", subtitle: str = "") -> Figure:
    """A figure of the usual width with its title at the top left."""
    size = WIDTH_PX / DPI, height_px / DPI
    figure = Figure(figsize=size, dpi=DPI, facecolor="white")
    up = 1 - 31 / height_px
    figure.text(0.03, up, title, size=21, weight="bold", color=INK, va="center")
    up = 1 - 62 / height_px
    figure.text(0.03, up, subtitle, size=12.5, color=MUTED, va="center")
    return figure


def quiet(axes: Axes, title: str, size: float = 11.5) -> Axes:
    """A plot without a box, its title at the left, a light grid behind."""
    axes.set_title(title, loc="left", size=size, color=INK, weight="bold", pad=7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.tick_params(which="both", colors=MUTED, labelsize=9.5, length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def label_end(axes: Axes, text: str, x: float, y: float, colour: str) -> None:
    """Write the name of a curve to the right of its end."""
    look = {"size": 9.5, "color": colour, "va": "center", "annotation_clip": False}
    axes.annotate(text, (x, y), xytext=(6, 0), textcoords="offset points", **look)


def spread_labels(axes: Axes, room_px: float = 14) -> None:
    """Move labels at the ends of curves until none covers another."""
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    if not labels:
        return
    labels.sort(key=lambda label: label.xy[1])
    wanted = [float(axes.transData.transform(label.xy)[1]) for label in labels]
    heights = spread(wanted, axes.bbox.y0, axes.bbox.y1, room_px)
    for label, y, old in zip(labels, heights, wanted, strict=True):
        label.set_position((6, (y - old) * 72 / DPI))


def spread(wanted: Sequence[float], low: float, high: float, room: float) -> list:
    """Rising heights at least `room` from each other, close to the wanted ones."""
    room = min(room, (high - low) / max(len(wanted) - 1, 1))
    y = list(wanted)
    for i in range(1, len(y)):
        y[i] = max(y[i], y[i - 1] + room)
    y[-1] = min(y[-1], high)
    for i in range(len(y) - 2, -1, -1):
        y[i] = min(y[i], y[i + 1] - room)
    return [max(value, low + room * i) if i else value for i, value in enumerate(y)]


def panel(figure: Figure, place: Place, picture: np.ndarray, label: str) -> None:
    """Put a picture in its place, with a few words in its upper left corner."""
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

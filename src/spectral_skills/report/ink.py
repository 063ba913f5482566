"""How figures look: colours, quiet axes, one size of pixel."""

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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


def save(figure: Figure, path: str | Path) -> None:
    """Write a PNG."""
    FigureCanvasAgg(figure)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    write_file(Path(path), png.getvalue())

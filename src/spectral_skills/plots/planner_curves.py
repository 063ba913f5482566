"""Curves of a planner's training run."""

from pathlib import Path

from matplotlib.axes import Axes

from spectral_skills.plots import ink
from spectral_skills.plots.training import logarithmic, over_updates, reached
from spectral_skills.runs import read_log

_LABELS_PX = 15
_CURVES = (
    ("held out, other words", "paraphrased", ink.COLOURS[2]),
    ("held out", "held_out", ink.LEFT),
    ("trained on", "loss", ink.RIGHT),
)


def draw_curves(run: Path) -> None:
    """Draw what a run folder's log says into its curves.png."""
    rows = read_log(run)
    if not rows:
        return
    figure = ink.sheet(560)
    ink.headline(figure, f"Planning: {run.name}", reached(rows))
    grid = figure.add_gridspec(
        *(1, 2), left=0.045, right=0.94, top=0.77, bottom=0.11, wspace=0.4
    )
    axes = over_updates(
        figure, grid[0, 0], "mean squared error of a velocity's coordinate"
    )
    for name, key, colour in _CURVES:
        _curve(axes, rows, key, name, colour)
    logarithmic(axes)
    ink.part_labels(axes, _LABELS_PX)
    axes = over_updates(figure, grid[0, 1], "norm of the gradient, before it is cut")
    _curve(axes, rows, "gradient_norm", "", ink.LEFT)
    axes.set_ylim(bottom=0)
    for axes in figure.axes:
        axes.margins(x=0.02)
    ink.save(figure, run / "curves.png")


def _curve(axes: Axes, rows: list[dict], key: str, name: str, colour: str) -> None:
    rows = [row for row in rows if key in row]
    if not rows:
        return
    x, y = ([row[name] for row in rows] for name in ("update", key))
    mark = "o" if len(x) < 12 else None
    axes.plot(x, y, color=colour, linewidth=1.8, marker=mark, markersize=4)
    ink.label_end(axes, f"{name} {y[-1]:.3g}".strip(), (x[-1], y[-1]), colour, 9.5)

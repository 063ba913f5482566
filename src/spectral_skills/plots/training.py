"""Curves of a pretraining run."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from spectral_skills.plots import ink
from spectral_skills.runs import read_log


def draw_curves(run: Path) -> None:
    """Draw what a run folder's log says into its curves.png."""
    rows = read_log(run)
    if not rows:
        return
    figure = ink.sheet(760)
    ink.headline(figure, f"Pretraining: {run.name}", reached(rows))
    last = rows[-1]
    grid = figure.add_gridspec(
        2, 2, left=0.055, right=0.91, top=0.82, bottom=0.08, hspace=0.42, wspace=0.42
    )
    updates = [row["update"] for row in rows]
    axes = over_updates(figure, grid[0, 0], "mean squared error of a coordinate")
    curves = (
        ("skills exchanged", "shuffled", ink.MUTED),
        ("trained on", "prediction", ink.RIGHT),
        ("held out", "held_out", ink.LEFT),
    )
    # The label of the lowest curve goes below its end, of the highest above.
    order = sorted(last[key] for _, key, _ in curves)
    for name, key, colour in curves:
        shift = 7 * (order.index(last[key]) - 1)
        _curve(axes, updates, [row[key] for row in rows], name, colour, shift)
    logarithmic(axes)

    levels = len(last["held_out_levels"])
    axes = over_updates(figure, grid[0, 1], "held out, by noise level")
    for level in range(levels):
        values = [row["held_out_levels"][level] for row in rows]
        shade = 0.25 + 0.75 * (1 - level / max(levels - 1, 1))
        mark = "o" if len(updates) < 2 else None
        axes.plot(
            updates, values, color=ink.LEFT, alpha=shade, linewidth=1.4, marker=mark
        )
    _end_labels(
        axes,
        updates[-1],
        {"least noise": last["held_out_levels"][0]}
        | ({"most noise": last["held_out_levels"][-1]} if levels > 1 else {}),
    )
    logarithmic(axes)

    axes = over_updates(
        figure, grid[1, 0], "deviation of the skills, mean over dimensions"
    )
    axes.axhline(0.80, color=ink.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.text(
        updates[0], 0.80, "the paper's 0.80", size=9, color=ink.MUTED, va="bottom"
    )
    _curve(axes, updates, [row["skill_std"] for row in rows], "", ink.LEFT)
    axes.set_ylim(0, max(1.1, 1.05 * max(row["skill_std"] for row in rows)))

    axes = over_updates(figure, grid[1, 1], "SIGReg: distance from a standard normal")
    _curve(axes, updates, [row["sigreg"] for row in rows], "", ink.LEFT)
    axes.set_ylim(bottom=0)
    for axes in figure.axes:
        axes.margins(x=0.02)
    ink.save(figure, run / "curves.png")


def reached(rows: list[dict]) -> str:
    """How far a run has come, and the least error on what was held out."""
    last, best = rows[-1], min(rows, key=lambda row: row["held_out"])
    seconds = last["seconds"]
    took = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} minutes"
    return (
        f"{last['update']:,} updates in {took}; "
        f"best held-out error {best['held_out']:.4f} at {best['update']:,}"
    )


def over_updates(figure, cell, title: str) -> Axes:
    """Axes of curves over updates."""
    axes = ink.quiet(figure.add_subplot(cell), title)
    axes.set_xlabel("updates", color=ink.MUTED, size=10)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return axes


def logarithmic(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Where all of it lies within a few steps, every step has its label.
    shown = "123456789" if high < 5 * low else "125"
    plain = FuncFormatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in shown else "")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(plain)
    axes.tick_params(which="minor", colors=ink.MUTED, labelsize=9.5, length=0)


def _curve(
    axes: Axes, updates: list, values: list, name: str, colour: str, shift: float = 0
) -> None:
    mark = "o" if len(updates) < 2 else None
    axes.plot(updates, values, color=colour, linewidth=1.8, marker=mark)
    _end_labels(axes, updates[-1], {name: values[-1]}, colour, shift)


def _end_labels(
    axes: Axes, x: float, labels: dict, colour: str = ink.LEFT, shift: float = 0
) -> None:
    for name, value in labels.items():
        axes.annotate(
            f"{name} {value:.3g}".strip(),
            (x, value),
            xytext=(5, shift),
            textcoords="offset points",
            size=9.5,
            color=colour,
            va="center",
            annotation_clip=False,
        )

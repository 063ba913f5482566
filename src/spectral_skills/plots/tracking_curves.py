"""Curves of a tracking run: how well, why not, and how the learner is doing."""

import re
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from spectral_skills.plots import ink
from spectral_skills.runs import read_log
from spectral_skills.tracking.run_log import short

_MANY = 60
"""Points from which on a smoothed line is drawn over the measured one."""
_FAINT, _LABELS_PX = "#b4bdc7", 13
_APART = 0.15
"""Least distance of two times along the upper edge, in widths of a panel."""
Rows = list[dict]


def draw_curves(run: Path) -> None:
    """Draw what a run folder's log says into its curves.png."""
    rows = read_log(run)
    if not rows:
        return
    known = {key for row in rows for key in row}
    panels = [
        (title, draw)
        for title, keys, draw in _PANELS
        if any(key.startswith(keys) for key in known)
    ]
    deep = -(-len(panels) // 3)
    height = 130 + 310 * deep
    figure = ink.sheet(height)
    ink.headline(figure, f"Tracking: {run.name}", _summary(rows))
    grid = figure.add_gridspec(
        *(deep, 3),
        **{"left": 0.04, "right": 0.885, "hspace": 0.45, "wspace": 0.7},
        **{"top": 1 - 132 / height, "bottom": 53 / height},
    )
    for number, (title, draw) in enumerate(panels):
        axes = ink.quiet(figure.add_subplot(grid[divmod(number, 3)]), title)
        draw(axes, rows)
        _frame_axis(axes, rows)
        ink.part_labels(axes, _LABELS_PX)
        if number < 3:
            _time_axis(axes, rows)
    ink.save(figure, run / "curves.png")


def _summary(rows: Rows) -> str:
    last = rows[-1]
    told = f"{short(last['frames'])} frames in {_duration(last['seconds'])}"
    probed = [row for row in rows if "success_rate" in row]
    if probed:
        best = max(probed, key=lambda row: row["success_rate"])
        told += (
            f"; best probe {100 * best['success_rate']:.1f} % at "
            f"{short(best['frames'])}"
        )
        for name, key in (("L", "mpjpe_local_mm"), ("G", "mpjpe_global_mm")):
            told += f", MPJPE-{name} {best[key]:.0f} mm" if key in best else ""
    return told


def _success(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "success_rate", "", ink.LEFT, scale=100)
    axes.set_ylim(0, 103)


def _errors(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "mpjpe_global_mm", "MPJPE-G", ink.RIGHT)
    _curve(axes, rows, "mpjpe_local_mm", "MPJPE-L", ink.LEFT)
    axes.set_ylim(bottom=0)


def _failures(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "failures_per_s", "all", ink.INK)
    _curves(axes, rows, "cause/")
    axes.set_ylim(bottom=0)


def _rewards(axes: Axes, rows: Rows) -> None:
    _curves(axes, rows, "reward/")
    axes.axhline(0, color=ink.MUTED, linewidth=0.8)


def _episodes(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "episode_s", "", ink.LEFT)
    axes.set_ylim(bottom=0)


def _divergence(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "kl", "", ink.LEFT)
    _logarithmic(axes)


def _values(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "value", "", ink.LEFT)


def _learning_rates(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "critic_lr", "critic", ink.RIGHT)
    _curve(axes, rows, "actor_lr", "actor", ink.LEFT)
    _logarithmic(axes)


def _spreads(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "sampler_entropy", "evenness", ink.RIGHT)
    _curve(axes, rows, "std", "deviation", ink.LEFT)
    axes.set_ylim(bottom=0)


def _rate(axes: Axes, rows: Rows) -> None:
    _curve(axes, rows, "frames_per_s", "", ink.LEFT)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))


def _points(rows: Rows, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Frames and values of the rows that have a value; some are probed only."""
    found = [(r["frames"], r[key]) for r in rows if r.get(key) is not None]
    x, y = np.array(found, dtype=float).reshape(-1, 2).T
    keep = np.isfinite(y)
    return x[keep], y[keep]


def _curve(
    axes: Axes, rows: Rows, key: str, name: str, colour: str, scale: float = 1
) -> None:
    x, y = _points(rows, key)
    if not len(x):
        return
    y = scale * y
    if len(x) >= _MANY:
        axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.3)
        y = _smooth(y)
    mark = "o" if len(x) < 12 else None
    axes.plot(x, y, color=colour, linewidth=1.8, marker=mark, markersize=4)
    told = f"{name} {_number(float(y[-1]))}".strip()
    ink.label_end(axes, told, (x[-1], y[-1]), colour, 9)


def _curves(axes: Axes, rows: Rows, prefix: str) -> None:
    """All curves whose key begins so; those that end farthest from zero stand out."""
    keys = dict.fromkeys(k for row in rows for k in row if k.startswith(prefix))
    last = {key: float(np.abs(_points(rows, key)[1][-5:]).mean()) for key in keys}
    order = sorted(keys, key=lambda key: -last[key])
    for rank in reversed(range(len(order))):
        name = order[rank].removeprefix(prefix).replace("_", " ")
        colour = ink.COLOURS[rank] if rank < len(ink.COLOURS) else _FAINT
        if last[order[rank]] > 0:
            _curve(axes, rows, order[rank], name, colour)


def _smooth(values: np.ndarray) -> np.ndarray:
    """A moving mean over a fortieth of the curve; one-sided at its ends."""
    half = max(1, len(values) // 80)
    total = np.concatenate(([0.0], np.cumsum(values)))
    first = np.maximum(np.arange(len(values)) - half, 0)
    end = np.minimum(np.arange(len(values)) + half + 1, len(values))
    return (total[end] - total[first]) / (end - first)


def _logarithmic(axes: Axes) -> None:
    if not axes.lines:
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Where all of it lies within a few steps, every step has its label.
    shown = "123456789" if high < 5 * low else "125" if high < 300 * low else "1"
    plain = FuncFormatter(lambda x, _: _short(x) if f"{x:e}"[0] in shown else "")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(plain)
    axes.tick_params(which="minor", colors=ink.MUTED, labelsize=9.5, length=0)


def _short(value: float) -> str:
    """0.002 rather than 2e-3, but 2e-5 rather than 0.00002."""
    if value == 0 or abs(value) >= 1e-3:
        return f"{value:g}"
    return re.sub(r"(\.0)?e-0", "e-", f"{value:.1e}")


def _number(value: float) -> str:
    """Two digits of a small number, three of others."""
    if abs(value) >= 1e4:
        return short(value)
    return f"{value:.3g}" if abs(value) >= 1 else _short(float(f"{value:.2g}"))


def _frame_axis(axes: Axes, rows: Rows) -> None:
    end = rows[-1]["frames"]
    axes.set_xlim(-0.02 * end, 1.02 * end)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))


def _time_axis(axes: Axes, rows: Rows) -> None:
    """Minutes, or seconds of short runs, along the upper edge of a panel."""
    frames = np.array([0, *(row["frames"] for row in rows)], dtype=float)
    seconds = np.array([0, *(row["seconds"] for row in rows)], dtype=float)
    unit, name = (1, "s") if seconds[-1] < 180 else (60, "min")
    locator = MaxNLocator(4, steps=[1, 2, 3, 5, 6, 10])
    ticks = np.asarray(locator.tick_values(0, seconds[-1] / unit))
    ticks = ticks[(ticks >= 0) & (ticks * unit <= seconds[-1])]
    top = axes.twiny()
    top.set_xlim(axes.get_xlim())
    # No frames pass while a run compiles: times that would be written over each other
    # are left away.
    shown: list[tuple[float, float]] = []
    for tick, at in zip(ticks, np.interp(ticks * unit, seconds, frames), strict=True):
        if not shown or at - shown[-1][1] >= _APART * frames[-1]:
            shown.append((tick, at))
    top.set_xticks([at for _, at in shown])
    top.set_xticklabels([f"{tick:g} {name}" for tick, _ in shown])
    top.spines[["top", "right", "left", "bottom"]].set_visible(False)
    top.tick_params(colors=ink.MUTED, labelsize=8.5, length=3, pad=1)
    axes.set_title(axes.get_title("left"), loc="left", pad=20, size=11.5, weight="bold")


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_PANELS = (
    ("probe clips tracked to the end (%)", "success_rate", _success),
    ("error of the tracked ones (mm)", ("mpjpe_local", "mpjpe_global"), _errors),
    ("failures a robot and second, by cause", "failures_per_s", _failures),
    ("reward a second, by term", "reward/", _rewards),
    ("length of an episode (s)", "episode_s", _episodes),
    ("KL of an update", "kl", _divergence),
    ("what actions are believed to be worth", "end_atoms", _values),
    ("learning rates", ("actor_lr", "critic_lr"), _learning_rates),
    ("deviation of actions, evenness of starts", ("std", "sampler_entropy"), _spreads),
    ("frames a second", "frames_per_s", _rate),
)
"""Title, how keys of the log begin that it needs, and what draws it."""

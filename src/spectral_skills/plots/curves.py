"""Curves of a training run, drawn from its log into its curves.png.

The panels are data, in curves.toml. A panel appears if the log has one of its keys, so
every kind of run has its own picture.
"""

import re
import tomllib
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from spectral_skills.plots import style
from spectral_skills.plots.style import COLOURS, MUTED
from spectral_skills.runs import read_log
from spectral_skills.training import short

_SMOOTHED_FROM = 60
"""Number of points from which a smoothed line is drawn over the measured one."""
_TIME_GAP = 0.15
"""Least distance of two times along the upper edge, in widths of a panel."""
Rows = list[dict]


def draw_curves(run: Path) -> None:
    """Draw the log of a run folder, if it has one."""
    rows = [_flat(row) for row in read_log(run)]
    if not rows:
        return
    x = "frames" if "frames" in rows[0] else "update"
    # PPO's log has a "value" too, but only the off-policy learner's is an estimate.
    known = {key for row in rows for key in row}
    known -= set() if "end_atoms" in known else {"value"}
    panels = tomllib.loads(Path(__file__).with_name("curves.toml").read_text())[x]
    known |= {f"{key.partition('/')[0]}/" for key in known if "/" in key}
    shown = [p for p in panels if any(key in known for key, *_ in p["curves"])]
    columns = min(3 if len(shown) > 4 else 2, len(shown))
    deep = -(-len(shown) // columns)
    height = 140 + 310 * deep
    figure = style.sheet(height, run.name, _summary(rows, x))
    grid = figure.add_gridspec(
        *(deep, columns),
        **{"left": 0.04, "right": 0.885, "hspace": 0.45, "wspace": 0.65},
        **{"top": 1 - 138 / height, "bottom": 53 / height},
    )
    for number, panel in enumerate(shown):
        place = grid[divmod(number, columns)]
        axes = style.quiet(figure.add_subplot(place), panel["title"])
        _draw(axes, panel, rows, x)
        if number < columns:
            _time_axis(axes, rows, x)
    style.save(figure, run / "curves.png")


def _flat(row: dict) -> dict:
    """A row in which lists are keys of their own."""
    found = {key: value for key, value in row.items() if not isinstance(value, list)}
    for key, values in row.items():
        if isinstance(values, list):
            found |= {f"{key}/level_{i + 1}": value for i, value in enumerate(values)}
    return found


def _summary(rows: Rows, x: str) -> str:
    last = rows[-1]
    seconds = last["seconds"]
    took = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
    took = took if seconds < 7200 else f"{seconds / 3600:.1f} h"
    done = f"{short(last[x])} frames" if x == "frames" else f"{last[x]:,} updates"
    text = f"{done} in {took}"
    if held_out := [row for row in rows if "held_out" in row]:
        best = min(held_out, key=lambda row: row["held_out"])
        text += f"; best held-out error {best['held_out']:.4f} at {best[x]:,}"
    if probed := [row for row in rows if "success_rate" in row]:
        best = max(probed, key=lambda row: row["success_rate"])
        text += f"; best probe {100 * best['success_rate']:.1f} % at {short(best[x])}"
        for name, key in (("L", "mpjpe_local_mm"), ("G", "mpjpe_global_mm")):
            text += f", MPJPE-{name} {best[key]:.0f} mm" if key in best else ""
    return text


def _draw(axes: Axes, panel: dict, rows: Rows, x: str) -> None:
    scale, factor = panel.get("scale"), panel.get("factor", 1)
    for key, label, look in panel["curves"]:
        curves = [(key, label, style.NAMED.get(look, ""))]
        for one, name, colour in _ranked(rows, key, x) if key[-1] == "/" else curves:
            _curve(axes, *_points(rows, one, x), name, colour, factor)
    if "level" in panel:
        value, text = panel["level"]
        axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.text(rows[0][x], value, text, size=9, color=MUTED, va="top")
    if scale is None:
        axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
    elif scale == "free":
        axes.axhline(0, color=MUTED, linewidth=0.8)
    if scale == "log" and axes.lines:
        _logarithmic(axes)
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _number(y)))
    end = rows[-1][x]
    axes.set_xlim(-0.02 * end, 1.02 * end)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: short(at)))
    style.spread_labels(axes)


def _points(rows: Rows, key: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of the rows that have a value; some are probed only."""
    found = [(row[x], row[key]) for row in rows if row.get(key) is not None]
    at, values = np.array(found, dtype=float).reshape(-1, 2).T
    keep = np.isfinite(values)
    return at[keep], values[keep]


def _ranked(rows: Rows, prefix: str, x: str) -> list[tuple[str, str, str]]:
    """Key, label and colour of all curves whose key begins so, largest drawn last."""
    keys = dict.fromkeys(k for row in rows for k in row if k.startswith(prefix))
    last = {key: float(np.abs(_points(rows, key, x)[1][-5:]).mean()) for key in keys}
    order = sorted((key for key in keys if last[key] > 0), key=lambda key: -last[key])
    names = [key.removeprefix(prefix).replace("_", " ") for key in order]
    looks = [*COLOURS, *[style.GREY] * len(order)]
    return list(zip(order, names, looks, strict=False))[::-1]


def _curve(axes: Axes, x, y, name: str, colour: str, factor: float) -> None:
    if not len(x):
        return
    y = factor * y
    if len(x) >= _SMOOTHED_FROM:
        axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.3)
        y = _smooth(y)
    mark = "o" if len(x) < 12 else None
    axes.plot(x, y, color=colour, linewidth=1.8, marker=mark, markersize=4)
    text = f"{name} {_number(float(y[-1]))}".strip()
    style.label_end(axes, text, x[-1], y[-1], colour)


def _smooth(values: np.ndarray) -> np.ndarray:
    """A moving mean over a fortieth of the curve; one-sided at its ends."""
    half = max(1, len(values) // 80)
    total = np.concatenate(([0.0], np.cumsum(values)))
    first = np.maximum(np.arange(len(values)) - half, 0)
    end = np.minimum(np.arange(len(values)) + half + 1, len(values))
    return (total[end] - total[first]) / (end - first)


def _logarithmic(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Where the whole range is a few steps, every step has its label.
    shown = "123456789" if high < 5 * low else "125" if high < 300 * low else "1"
    plain = FuncFormatter(lambda y, _: _number(y) if f"{y:e}"[0] in shown else "")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(plain)


def _number(value: float) -> str:
    """0.002 rather than 2e-3, but 2e-5 rather than 0.00002; 1.2 M of a million."""
    if abs(value) >= 1e4:
        return short(value)
    if value == 0 or abs(value) >= 1e-3:
        return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2g}"
    return re.sub(r"(\.0)?e-0", "e-", f"{value:.1e}")


def _time_axis(axes: Axes, rows: Rows, x: str) -> None:
    """Minutes, or seconds of short runs, along the upper edge of a panel."""
    done = np.array([0, *(row[x] for row in rows)], dtype=float)
    seconds = np.array([0, *(row["seconds"] for row in rows)], dtype=float)
    unit, name = (1, "s") if seconds[-1] < 180 else (60, "min")
    locator = MaxNLocator(4, steps=[1, 2, 3, 5, 6, 10])
    ticks = np.asarray(locator.tick_values(0, seconds[-1] / unit))
    ticks = ticks[(ticks >= 0) & (ticks * unit <= seconds[-1])]
    # Nothing is learned while a run compiles: times that would cover each other are
    # omitted.
    shown: list[tuple[float, float]] = []
    for tick, at in zip(ticks, np.interp(ticks * unit, seconds, done), strict=True):
        if not shown or at - shown[-1][1] >= _TIME_GAP * done[-1]:
            shown.append((tick, at))
    top = axes.twiny()
    top.set_xlim(axes.get_xlim())
    top.set_xticks([at for _, at in shown], [f"{tick:g} {name}" for tick, _ in shown])
    top.spines[:].set_visible(False)
    top.tick_params(colors=MUTED, labelsize=8.5, length=3, pad=1)
    axes.set_title(axes.get_title("left"), loc="left", pad=20, size=11.5, weight="bold")

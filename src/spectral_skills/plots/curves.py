"""Curves of training runs: the log of a run as one picture."""

import re
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy.ndimage import uniform_filter1d

from spectral_skills.config import read_table
from spectral_skills.plots.charts import (
    COLOURS,
    DPI,
    GREY,
    MUTED,
    save,
    sheet,
    styled,
)
from spectral_skills.runs import read_log, short

_SMOOTHED_FROM = 60
"""Number of points from which a smoothed line is drawn over the measured one."""
_TIME_GAP = 0.15
"""Least distance of two times along the upper edge, in widths of a panel."""
_LABEL_PX = 14


@styled
def draw_curves(run: Path) -> None:
    """Draw the log of a training run, if it has one, into its curves.png.

    A panel of curves.toml appears if the log has one of its keys, so every kind of run
    has its own picture.
    """
    rows = [_flat(row) for row in read_log(run)]
    if not rows:
        return
    x = "frames" if "frames" in rows[0] else "update"
    # PPO's log has a "value" too, but only the off-policy learner's is an estimate.
    known = {key for row in rows for key in row}
    known -= set() if "end_atoms" in known else {"value"}
    known |= {f"{key.partition('/')[0]}/" for key in known if "/" in key}
    panels = read_table(__file__)[x]
    shown = [p for p in panels if any(key in known for key, *_ in p["curves"])]
    columns = min(3 if len(shown) > 4 else 2, len(shown))
    deep = -(-len(shown) // columns)
    figure = sheet(140 + 310 * deep, run.name, _summary(rows, x))
    for number, panel in enumerate(shown):
        axes = figure.add_subplot(deep, columns, number + 1)
        _panel(axes, panel, rows, x)
        if number < columns:
            _time_axis(axes, rows, x)
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)  # only now are places of labels known
    figure.set_layout_engine("none")
    for axes in figure.axes:
        _spread_labels(axes)
    save(figure, run / "curves.png")


def _flat(row: dict) -> dict:
    found = {key: value for key, value in row.items() if not isinstance(value, list)}
    for key, values in row.items():
        if isinstance(values, list):
            found |= {f"{key}/level_{i + 1}": value for i, value in enumerate(values)}
    return found


def _summary(rows: list[dict], x: str) -> str:
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


def _panel(axes: Axes, panel: dict, rows: list[dict], x: str) -> None:
    axes.set_title(panel["title"])
    scale, factor = panel.get("scale"), panel.get("factor", 1)
    for key, label, colour in panel["curves"]:
        curves = [(key, label, colour)]
        for one, name, look in _ranked(rows, key, x) if key[-1] == "/" else curves:
            at, values = _values(rows, one, x)
            shown = values > (0 if scale == "log" else -np.inf)
            if shown.any():
                _curve(axes, at[shown], factor * values[shown], name, look)
    if "level" in panel:
        value, text = panel["level"]
        axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.text(rows[0][x], value, text, size=9, color=MUTED, va="top")
    if scale is None:
        axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
    elif scale == "free":
        axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _number(y)))
    if scale == "log" and axes.lines:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        # Where the whole range is a few steps, every step has its label.
        some = "123456789" if high < 5 * low else "125" if high < 300 * low else "1"
        plain = FuncFormatter(lambda y, _: _number(y) if f"{y:e}"[0] in some else "")
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_minor_formatter(plain)
    end = rows[-1][x]
    axes.set_xlim(-0.02 * end, 1.02 * end)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: short(at)))


def _values(rows: list[dict], key: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of the rows that have a value; some are probed only."""
    found = [(row[x], row[key]) for row in rows if row.get(key) is not None]
    at, values = np.array(found, dtype=float).reshape(-1, 2).T
    keep = np.isfinite(values)
    return at[keep], values[keep]


def _ranked(rows: list[dict], prefix: str, x: str) -> list[tuple[str, str, str]]:
    """Key, label and colour of all curves whose key begins so, largest drawn last."""
    keys = dict.fromkeys(k for row in rows for k in row if k.startswith(prefix))
    last = {key: float(np.abs(_values(rows, key, x)[1][-5:]).mean()) for key in keys}
    order = sorted((key for key in keys if last[key] > 0), key=lambda key: -last[key])
    names = [key.removeprefix(prefix).replace("_", " ") for key in order]
    looks = [*COLOURS, *[GREY] * len(order)]
    return list(zip(order, names, looks, strict=False))[::-1]


def _curve(axes: Axes, x: np.ndarray, y: np.ndarray, name: str, colour: str) -> None:
    """A curve, smoothed if it is long, with its name and last value at its end."""
    if len(x) >= _SMOOTHED_FROM:
        axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.3)
        y = uniform_filter1d(y, 2 * max(1, len(y) // 80) + 1, mode="nearest")
    mark = "o" if len(x) < 12 else None
    axes.plot(x, y, color=colour, linewidth=1.8, marker=mark, markersize=4)
    place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
    look = {"size": 9.5, "color": colour, "annotation_clip": False}
    text = f"{name} {_number(float(y[-1]))}".strip()
    axes.annotate(text, (x[-1], y[-1]), **place, **look)


def _spread_labels(axes: Axes) -> None:
    """Move labels at the ends of curves until none covers another."""
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    labels.sort(key=lambda label: label.xy[1])
    wanted = np.array([axes.transData.transform(one.xy)[1] for one in labels])
    heights = spread(wanted, axes.bbox.y0, axes.bbox.y1, _LABEL_PX)
    for label, move_px in zip(labels, heights - wanted, strict=True):
        label.set_position((6, move_px * 72 / DPI))


def spread(wanted: np.ndarray, low: float, high: float, room: float) -> np.ndarray:
    """Rising heights at least `room` from each other, close to the wanted ones."""
    steps = min(room, (high - low) / max(len(wanted) - 1, 1)) * np.arange(len(wanted))
    rising = np.maximum.accumulate(wanted - steps) + steps
    return np.maximum(np.minimum(rising, high - steps[::-1]), low + steps)


def _number(value: float) -> str:
    """0.002 rather than 2e-3, but 2e-5 rather than 0.00002; 1.2 M of a million."""
    if abs(value) >= 1e4:
        return short(value)
    if value == 0 or abs(value) >= 1e-3:
        return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2g}"
    return re.sub(r"(\.0)?e-0", "e-", f"{value:.1e}")


def _time_axis(axes: Axes, rows: list[dict], x: str) -> None:
    """Minutes, or seconds of short runs, along the upper edge of a panel."""
    done = np.array([0, *(row[x] for row in rows)], dtype=float)
    seconds = np.array([0, *(row["seconds"] for row in rows)], dtype=float)
    unit, name = (1, "s") if seconds[-1] < 180 else (60, "min")
    locator = MaxNLocator(4, steps=[1, 2, 3, 5, 6, 10])
    times = np.asarray(locator.tick_values(0, seconds[-1] / unit))
    times = times[(times >= 0) & (times * unit <= seconds[-1])]
    # Nothing is learned while a run compiles: times that would cover each other are
    # omitted.
    shown: dict[float, str] = {}
    for time, at in zip(times, np.interp(times * unit, seconds, done), strict=True):
        if not shown or at - max(shown) >= _TIME_GAP * done[-1]:
            shown[at] = f"{time:g} {name}"
    top = axes.secondary_xaxis("top")
    top.set_xticks(list(shown), list(shown.values()))
    top.tick_params(labelsize=8.5, length=3, pad=1)

"""The look of every figure, and charts of findings as SVG."""

import io
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from spectral_skills.atomic import write_file
from spectral_skills.experiments.findings import Chart, Series

DPI = 100
WIDTH_PX = 1600
_STYLE = Path(__file__).with_name("style.mplstyle")
styled = matplotlib.rc_context(fname=_STYLE)
_PALETTE = matplotlib.rc_params_from_file(_STYLE)["axes.prop_cycle"]
COLOURS: tuple[str, ...] = tuple(_PALETTE.by_key()["color"])
LEFT, RIGHT = COLOURS[:2]
INK, MUTED, RULE, GREY = "#1c2733", "#66727f", "#dfe4ea", "#b4bdc7"

FALL = "fall"
"""The mark that has a sign of its own; other marks are names."""
_SIZE, _WIDE, _TALL = (470, 310), (1040, 330), (470, 430)
"""Width and height, points; a page shows them at about as many pixels."""
_MOST_BARS = 24
_MOST_NAMES = 24
"""Number of names of points that do not hide the points."""
_FEW_POINTS, _MANY_POINTS = 24, 1500
"""Numbers of points up to which each has a marker, and from which they are a bitmap."""
_DASHES, _MARKERS, _HATCHES = ("-", (0, (4, 2)), (0, (1, 1.5))), "os^", ("", "//", "..")


def sheet(
    height_px: float, title: str = "", subtitle: str = "", head_px: float = 80
) -> Figure:
    """A figure of the usual width, whose parts are laid out below its head."""
    room = 0.02, 0.005, 0.965, 0.99 - head_px / height_px
    layout = ConstrainedLayoutEngine(rect=room, w_pad=0.1, h_pad=0.1, hspace=0.04)
    figure = Figure((WIDTH_PX / DPI, height_px / DPI), layout=layout)
    for text, down_px, look in (
        (title, 31, {"size": 21, "weight": "bold"}),
        (subtitle, 62, {"size": 12.5, "color": MUTED}),
    ):
        figure.text(0.03, 1 - down_px / height_px, text, va="center", **look)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    png = io.BytesIO()
    with warnings.catch_warnings():
        # Names may be in any script; letters that the font lacks are boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(png, format="png")
    write_file(Path(path), png.getvalue())


def is_wide(chart: Chart) -> bool:
    """Whether a chart needs the whole width of a page."""
    return chart.kind == "bar" and sum(len(s.x) for s in chart.series) > _MOST_BARS


@styled
def draw(chart: Chart) -> str:
    """SVG of a chart, as wide as its place, with its text as text."""
    return svg(figure_of(chart), describe(chart))


def svg(figure: Figure, alt: str) -> str:
    """A figure as SVG, with what it is in words."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    # Ids of parts are made from their looks and this salt: one chart, one salt.
    with matplotlib.rc_context({"svg.hashsalt": alt}):
        figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    head = f'<svg {box[0]} role="img" aria-label="{escape(alt)}">'
    return head + text[text.index(">") + 1 :]


def describe(chart: Chart) -> str:
    """A chart in words."""
    names = ", ".join(one.name for one in chart.series)
    about = f"{chart.y} against {chart.x}" if chart.x and chart.y else chart.kind
    fallen = sum(one.marks.count(FALL) for one in chart.series)
    falls = f"; {fallen} marked as falls" if fallen else ""
    return f"{chart.title}: {about}, for {names}{falls}."


@styled
def figure_of(chart: Chart) -> Figure:
    trails = any(one.role == "trail" for one in chart.series)
    width, height = _WIDE if is_wide(chart) else _TALL if trails else _SIZE
    height += 12 * max(0, len(chart.series) - 3)
    figure = Figure((width / 72, height / 72), layout="constrained")
    axes = figure.add_subplot()
    plot(axes, chart)
    _, labels = axes.get_legend_handles_labels()
    if labels:
        columns = 3 if is_wide(chart) else 2 if max(map(len, labels)) < 30 else 1
        figure.legend(loc="outside lower left", ncols=columns)
    return figure


def plot(axes: Axes, chart: Chart) -> None:
    series = [_checked(one) for one in chart.series]
    axes.set(xlabel=chart.x, ylabel=chart.y)
    if not any(len(one.x) for one in series):
        place = {"transform": axes.transAxes, "ha": "center"}
        axes.text(0.5, 0.5, "nothing measured", color=MUTED, **place)
    elif chart.kind == "bar":
        _bars(axes, series)
    else:
        _points(axes, series, chart.kind)
        _crosses(axes, [(x, y) for x, y, mark in _marked(series) if mark == FALL])


def _checked(series: Series) -> Series:
    """A series without points that are not finite."""
    if len({len(series.x), len(series.y), len(series.marks or series.x)}) > 1:
        raise ValueError(f"{series.name}: x, y and marks of different lengths")
    sound = np.isfinite(series.x) & np.isfinite(series.y)
    marks = np.array(series.marks or ("",) * len(series.x), dtype=object)
    x, y, marks = (np.array(v)[sound].tolist() for v in (series.x, series.y, marks))
    return replace(series, x=tuple(x), y=tuple(y), marks=tuple(marks))


def _marked(series: Sequence[Series]) -> list[tuple[float, float, str]]:
    points = (p for one in series for p in zip(one.x, one.y, one.marks, strict=True))
    return [point for point in points if point[2]]


def _looks(series: list[Series]) -> list[tuple[str, int]]:
    """The colour of each, and which of the dashes, markers and hatches it has."""
    used, found = Counter[str](), []
    for one in series:
        turn, number = divmod(used[one.role], 1 if one.role else len(COLOURS))
        used[one.role] += 1
        colour = {"behind": GREY, "trail": INK}.get(one.role, COLOURS[number])
        found.append((colour, turn % len(_DASHES)))
    return found


def _points(axes: Axes, series: list[Series], kind: str) -> None:
    """Lines, scattered points, paths from above, or a map."""
    dotted, total = kind in ("scatter", "map"), sum(len(one.x) for one in series)
    if kind in ("path", "map"):
        axes.set_aspect("equal", adjustable="datalim")
    if kind == "map":
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    elif kind != "line":
        axes.grid(axis="x")
    names = []
    for one, (colour, turn) in zip(series, _looks(series), strict=True):
        trail, many = one.role == "trail", len(one.x) > _MANY_POINTS
        order = 3 if trail else 0.9 if one.role == "behind" else 2
        label = one.name if one.x else None
        if dotted and not trail:
            size = 4 if many else float(np.clip(12_000 / total, 9, 26))
            look = {"c": colour, "marker": _MARKERS[turn], "s": size, "linewidths": 0}
            look |= {"alpha": 0.35 if many else 0.8, "rasterized": many}
            axes.scatter(one.x, one.y, zorder=order, label=label, **look)
        else:
            few = kind == "line" and len(one.x) <= _FEW_POINTS
            mark = "o" if trail or few else None
            line = {"color": colour, "linestyle": _DASHES[turn], "linewidth": 1.8}
            line |= {"marker": mark, "markersize": 6 if trail else 4}
            axes.plot(one.x, one.y, label=label, zorder=order, mec="white", **line)
        if kind == "path" and one.x:
            axes.plot(one.x[0], one.y[0], "o", color=INK, markersize=5)
        names += [(*point, colour) for point in _marked([one]) if point[2] != FALL]
    if kind == "path":
        axes.plot([], [], "o", color=INK, markersize=5, label="start")
    axes.margins(0.06)
    if len(names) <= _MOST_NAMES:
        _write_names(axes, names)


def _crosses(axes: Axes, places: list[tuple[float, float]]) -> None:
    if places:
        look: dict = {"color": INK, "markersize": 9, "markeredgewidth": 2.2}
        axes.plot(*np.array(places).T, "x", label="the robot fell", zorder=4, **look)


def _write_names(axes: Axes, points: list[tuple[float, float, str, str]]) -> None:
    """Write each name beside its point where there is room, or not at all."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # only now are places known
    taken, frame = [], axes.bbox
    under = {"facecolor": "white", "alpha": 0.75, "pad": 0.6, "linewidth": 0}
    look: dict = {"size": 9.5, "zorder": 5, "bbox": under}
    for x, y, name, colour in points:
        for (across, ha), (up, va) in product(
            ((5, "left"), (-5, "right")), ((3, "bottom"), (-3, "top"))
        ):
            place = {"xytext": (across, up), "textcoords": "offset points"}
            text = axes.annotate(
                name, (x, y), color=colour, ha=ha, va=va, **place, **look
            )
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
            if inside and not any(map(box.overlaps, taken)):
                taken.append(box)
                break
            text.remove()


def _bars(axes: Axes, series: list[Series]) -> None:
    """Bars side by side where series share a place."""
    places = np.unique([x for one in series for x in one.x]).tolist()
    gap = float(np.diff(places).min()) if len(places) > 1 else 1.0
    there = {place: [place in one.x for one in series] for place in places}
    width, falls = 0.82 * gap / max(map(sum, there.values())), []
    for number, (one, (colour, turn)) in enumerate(
        zip(series, _looks(series), strict=True)
    ):
        # Counted in bars from the middle of those that share a place.
        shift = [sum(there[x][:number]) - (sum(there[x]) - 1) / 2 for x in one.x]
        x = np.array(one.x) + width * np.array(shift)
        look: dict = {"color": colour, "hatch": _HATCHES[turn], "edgecolor": "none"}
        axes.bar(x, one.y, 0.92 * width, label=one.name if one.x else None, **look)
        moved = replace(one, x=tuple(x.tolist()))
        falls += [(at, y) for at, y, mark in _marked([moved]) if mark == FALL]
    _crosses(axes, falls)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    if not any(y for one in series for y in one.y):
        axes.set_ylim(0, 1)
    axes.set_xlim(places[0] - 0.7 * gap, places[-1] + 0.7 * gap)
    names = {x: mark for x, _, mark in _marked(series[::-1]) if mark != FALL}
    if names:
        turn = 90 if sum(map(len, names.values())) > 60 else 0
        axes.set_xticks(list(names), list(names.values()), rotation=turn)
    elif len(places) <= 12:
        axes.set_xticks(places)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(16, integer=True))

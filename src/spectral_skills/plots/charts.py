"""Charts of findings, drawn by matplotlib from their descriptions as SVG for a page."""

import io
import re
from collections import Counter
from dataclasses import replace
from html import escape

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.plots import style

FALL = "fall"
"""The mark that has a sign of its own; other marks are names."""
_SIZE, _WIDE, _TALL = (470, 310), (1040, 330), (470, 430)
"""Width and height, points; a page shows them at about as many pixels."""
_MOST_BARS = 24
"""Number of bars that fit into a chart of half the page's width."""
_MOST_NAMES = 24
"""Number of names of points that do not hide the points."""
_FEW_POINTS, _MANY_POINTS = 24, 1500
"""Numbers of points up to which each has a marker, and from which they are a bitmap."""
_DASHES, _MARKERS, _HATCHES = ("-", (0, (4, 2)), (0, (1, 1.5))), "os^", ("", "//", "..")
_LETTER, _LINE = 5.6, 11.0
"""Width of a letter and height of a line, points."""


def is_wide(chart: Chart) -> bool:
    """Whether a chart needs the whole width of a page."""
    return chart.kind == "bar" and sum(len(s.x) for s in chart.series) > _MOST_BARS


def draw(chart: Chart) -> str:
    """SVG of a chart, with its text as text and a legend of its series."""
    return _svg(figure_of(chart), describe(chart))


def figure_of(chart: Chart) -> Figure:
    """The figure of a chart."""
    trails = any(one.role == "trail" for one in chart.series)
    width, height = _WIDE if is_wide(chart) else _TALL if trails else _SIZE
    height += 12 * max(0, len(chart.series) - 3)
    size = width / 72, height / 72
    figure = Figure(size, dpi=style.DPI, layout="constrained", facecolor="white")
    axes = style.quiet(figure.add_subplot(), "")
    plot(axes, chart)
    _, labels = axes.get_legend_handles_labels()
    if labels:
        columns = 3 if is_wide(chart) else 2 if max(map(len, labels)) < 30 else 1
        figure.legend(loc="outside lower left", ncols=columns, **style.LEGEND)
    return figure


def plot(axes: Axes, chart: Chart) -> None:
    """Draw a chart into axes, without its legend."""
    series = [_checked(one) for one in chart.series]
    axes.set_xlabel(chart.x, color=style.MUTED, size=11)
    axes.set_ylabel(chart.y, color=style.MUTED, size=11)
    if not any(len(one.x) for one in series):
        look: dict = {"ha": "center", "color": style.MUTED}
        axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, **look)
    elif chart.kind == "bar":
        _bars(axes, series)
    else:
        _points(axes, series, chart.kind)
        marked = [point for one in series for point in _marked(one)]
        _crosses(axes, [(x, y) for x, y, mark in marked if mark == FALL])


def describe(chart: Chart) -> str:
    """A chart in words."""
    names = ", ".join(one.name for one in chart.series)
    about = f"{chart.y} against {chart.x}" if chart.x and chart.y else chart.kind
    fallen = sum(one.marks.count(FALL) for one in chart.series)
    falls = f"; {fallen} marked as falls" if fallen else ""
    return f"{chart.title}: {about}, for {names}{falls}."


def _checked(series: Series) -> Series:
    """A series without points that are not finite."""
    if len({len(series.x), len(series.y), len(series.marks or series.x)}) > 1:
        raise ValueError(f"{series.name}: x, y and marks of different lengths")
    sound = np.isfinite(series.x) & np.isfinite(series.y)
    marks = np.array(series.marks or ("",) * len(series.x), dtype=object)
    x, y, marks = (np.array(v)[sound].tolist() for v in (series.x, series.y, marks))
    return replace(series, x=tuple(x), y=tuple(y), marks=tuple(marks))


def _marked(series: Series) -> list[tuple[float, float, str]]:
    points = zip(series.x, series.y, series.marks, strict=True)
    return [point for point in points if point[2]]


def _looks(series: list[Series]) -> list[tuple[str, int]]:
    """The colour of each, and which of the dashes, markers and hatches it has."""
    used, found = Counter[str](), []
    for one in series:
        turn, number = divmod(used[one.role], 1 if one.role else len(style.COLOURS))
        used[one.role] += 1
        own = {"behind": style.GREY, "trail": style.INK}
        colour = own.get(one.role, style.COLOURS[number])
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
        axes.grid(axis="x", color=style.RULE, linewidth=0.8)
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
            axes.plot(one.x[0], one.y[0], "o", color=style.INK, markersize=5)
        names += [(*point, colour) for point in _marked(one) if point[2] != FALL]
    if kind == "path":
        axes.plot([], [], "o", color=style.INK, markersize=5, label="start")
    axes.margins(0.06)
    if len(names) <= _MOST_NAMES:
        _write_names(axes, names)


def _crosses(axes: Axes, places: list[tuple[float, float]]) -> None:
    if not places:
        return
    x, y = zip(*places, strict=True)
    look: dict = {"color": style.INK, "markersize": 9, "markeredgewidth": 2.2}
    axes.plot(x, y, "x", label="the robot fell", zorder=4, **look)


def _write_names(axes: Axes, points: list[tuple[float, float, str, str]]) -> None:
    """Write each name beside its point where there is room, or not at all."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # only now are places known
    scale, taken = 72 / style.DPI, []
    under = {"facecolor": "white", "alpha": 0.75, "pad": 0.6, "linewidth": 0}
    first, last = axes.bbox.x0 * scale, axes.bbox.x1 * scale
    for x, y, name, colour in points:
        at, foot = axes.transData.transform((x, y)) * scale
        wide = _LETTER * len(name)
        for across, up in ((5, 4), (5, -_LINE), (-5 - wide, 4), (-5 - wide, -_LINE)):
            left, low = at + across, foot + up
            inside = first <= left and left + wide <= last
            if inside and not any(
                left < other + w and other < left + wide and abs(low - f) < _LINE
                for other, w, f in taken
            ):
                taken.append((left, wide, low))
                shift = ScaledTranslation(across / 72, up / 72, figure.dpi_scale_trans)
                look: dict = {"size": 9.5, "color": colour, "zorder": 5, "bbox": under}
                axes.text(x, y, name, transform=axes.transData + shift, **look)
                break


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
        points = zip(x.tolist(), one.y, one.marks, strict=True)
        falls += [(at, y) for at, y, mark in points if mark == FALL]
    _crosses(axes, falls)
    axes.axhline(0, color=style.MUTED, linewidth=0.8)
    if not any(y for one in series for y in one.y):
        axes.set_ylim(0, 1)
    axes.set_xlim(places[0] - 0.7 * gap, places[-1] + 0.7 * gap)
    names = {x: mark for one in reversed(series) for x, _, mark in _marked(one)}
    names = {x: mark for x, mark in names.items() if mark != FALL}
    if names:
        upright = sum(map(len, names.values())) > 60
        turn = 90 if upright else 0
        axes.set_xticks(list(names), list(names.values()), rotation=turn)
    elif len(places) <= 12:
        axes.set_xticks(places)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(16, integer=True))


def _svg(figure: Figure, alt: str) -> str:
    """SVG as a part of a page, as wide as its place."""
    FigureCanvasSVG(figure)
    out, nothing = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    # Ids of parts are made from their looks and this salt: one chart, one salt.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    head = f'<svg {box[0]} role="img" aria-label="{escape(alt)}">'
    return head + text[text.index(">") + 1 :]

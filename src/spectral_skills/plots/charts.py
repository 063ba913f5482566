"""Charts of findings, drawn as SVG that lies in a page and takes its colours."""

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

from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.plots import chart_names, ink

FALL = "fall"
"""A mark with a sign of its own; other marks are names."""
STYLE = """
.chart { overflow-x: auto }
.chart svg { display: block; width: 100%; height: auto }
.chart.wide svg { min-width: 44rem }
.chart text { font-family: system-ui, sans-serif !important }
.keys { padding: 0 .9rem; font-size: .85rem; color: var(--soft) }
.keys span { display: inline-block; margin-right: 1.1em }
.keys b { font-weight: 900; margin-right: .3em }
@media print { .chart { overflow: visible } .chart.wide svg { min-width: 0 } }
"""
_SIZE, _WIDE, _TALL = (470, 290), (1040, 320), (470, 400)
"""Width and height, points; a page shows them at about as many px."""
_BARS = 24
"""More bars than this need the page's whole width."""
_NAME = 24
"""Letters of a name that fits beside its curve."""
_NAMES = 24
"""More names than this hide the points they name."""
_LABEL_PX = 17.4
"""From one name beside a curve to the next, points."""
_FEW, _MANY = 24, 1500
"""Points that are drawn singly; points that are drawn as one picture."""
_DASHES, _SIGNS = ("-", (0, (4, 2)), (0, (1, 1.5))), ("●", "■", "▲")
_MARKERS = ("o", "s", "^")
_DOTTED = ("scatter", "map")
"""Kinds of points that nothing joins, but for trails."""
_CARD, _GREY = "#fefdfc", "#9aa5b1"
"""What lies under a chart; points that others are seen against, on light and dark."""
_PAGE = {ink.INK: "--ink", ink.MUTED: "--soft", ink.RULE: "--line", _CARD: "--card"}


def draw(chart: Chart) -> str:
    """HTML of a chart: its picture, and what its colours and signs mean."""
    series = [_checked(one) for one in chart.series]
    bars = chart.kind == "bar" and sum(len(one.x) for one in series) > _BARS
    trails = any(one.role == "trail" for one in series)
    width, height = _WIDE if bars else _TALL if trails else _SIZE
    direct = chart.kind == "line" and all(len(one.name) <= _NAME for one in series)
    names = _places(series) if chart.kind == "bar" else {}
    longest = max(map(len, names.values()), default=0)
    upright = 6.5 * longest * len(names) > 0.85 * width
    if direct:
        height = max(height, 60 + 14 * len(series))
    elif upright:
        height += round(5.2 * longest)
    size = width / 72, height / 72
    figure = Figure(size, dpi=ink.DPI, layout="constrained", facecolor="none")
    axes = ink.quiet(figure.add_subplot(facecolor="none"), "")
    for label, put in ((chart.x, axes.set_xlabel), (chart.y, axes.set_ylabel)):
        put(label, color=ink.MUTED, size=11)
    if not any(len(one.x) for one in series):
        nothing = {"ha": "center", "color": ink.MUTED, "transform": axes.transAxes}
        axes.text(0.5, 0.5, "nothing measured", **nothing)
    elif chart.kind == "bar":
        _bars(axes, series)
        if names:
            turn = 90 if upright else 0
            axes.set_xticks(list(names), list(names.values()), rotation=turn)
    else:
        _points(axes, series, chart.kind, direct)
    axes.tick_params(labelsize=10.5)
    if direct:
        figure.draw_without_rendering()
        ink.part_labels(axes, _LABEL_PX)
    keys = _keys(chart, series, direct)
    kind = "chart wide" if bars else "chart"
    return f'<div class="{kind}">{_svg(figure, _told(chart))}</div>{keys}'


def _checked(series: Series) -> Series:
    """Without what cannot be drawn."""
    sizes = {len(series.x), len(series.y), len(series.marks or series.x)}
    if len(sizes) > 1:
        raise ValueError(f"{series.name}: x, y and marks of different lengths")
    sound = np.isfinite(series.x) & np.isfinite(series.y)
    if series.marks:
        marks = tuple(m for m, ok in zip(series.marks, sound, strict=True) if ok)
    else:
        marks = ("",) * int(sound.sum())
    x, y = (tuple(np.array(v)[sound].tolist()) for v in (series.x, series.y))
    return replace(series, x=x, y=y, marks=marks)


def _looks(series: list[Series]) -> list[tuple[str, int]]:
    """Colour of each, and which of the dashes, signs and hatches it has."""
    used, found = Counter[str](), []
    for one in series:
        number = used[one.role]
        used[one.role] += 1
        if one.role:
            colour = _GREY if one.role == "behind" else ink.INK
            found.append((colour, number % len(_DASHES)))
        else:
            colour = ink.COLOURS[number % len(ink.COLOURS)]
            found.append((colour, number // len(ink.COLOURS) % len(_DASHES)))
    return found


def _points(axes: Axes, series: list[Series], kind: str, direct: bool) -> None:
    """Lines, scattered points, or paths."""
    if kind in ("path", "map"):
        axes.set_aspect("equal", adjustable="datalim")
    if kind == "map":
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    elif kind != "line":
        axes.grid(axis="x", color=ink.RULE, linewidth=0.8)
    looks, points = _looks(series), sum(len(one.x) for one in series)
    for one, (colour, again) in zip(series, looks, strict=True):
        order = 0.9 if one.role == "behind" else 1 if kind in _DOTTED else 2
        if kind in _DOTTED and one.role == "trail":
            _trail(axes, one, again)
        elif kind in _DOTTED:
            style = {"c": colour, "marker": _MARKERS[again], "zorder": order}
            _dots(axes, one, points, style)
        else:
            dots = "o" if kind == "line" and len(one.x) <= _FEW else None
            line = {"color": colour, "linestyle": _DASHES[again], "linewidth": 1.8}
            axes.plot(one.x, one.y, marker=dots, markersize=4, zorder=order, **line)
        if kind == "path":
            axes.plot(one.x[:1], one.y[:1], "o", color=ink.INK, markersize=5)
        _crosses(axes, one, colour)
        if direct and len(one.x):
            ink.label_end(axes, one.name, (one.x[-1], one.y[-1]), colour, 10.5)
    axes.margins(0.06)
    named = [
        (x, y, mark, colour)
        for one, (colour, _) in zip(series, looks, strict=True)
        for x, y, mark in _marked(one)
        if mark != FALL
    ]
    if len(named) <= _NAMES:
        chart_names.write(axes, named, _CARD if kind in _DOTTED else "")


def _dots(axes: Axes, series: Series, points: int, style: dict) -> None:
    """Points of a scatter that has so many in all: the more, the smaller."""
    many = len(series.x) > _MANY
    size = 4 if many else float(np.clip(12_000 / points, 9, 26))
    style |= {"s": size, "linewidths": 0, "rasterized": many}
    axes.scatter(series.x, series.y, alpha=0.35 if many else 0.8, **style)


def _trail(axes: Axes, series: Series, again: int) -> None:
    """Joined points with a rim, so that they stand out from those below."""
    axes.plot(series.x, series.y, color=_CARD, linewidth=4.2, zorder=2.5)
    line = {"color": ink.INK, "linestyle": _DASHES[again], "linewidth": 1.8}
    rim = {"markeredgecolor": _CARD, "markeredgewidth": 1}
    axes.plot(series.x, series.y, marker="o", markersize=6, zorder=3, **line, **rim)


def _marked(series: Series) -> list[tuple[float, float, str]]:
    points = zip(series.x, series.y, series.marks, strict=True)
    return [point for point in points if point[2]]


def _crosses(axes: Axes, series: Series, colour: str) -> None:
    for x, y, mark in _marked(series):
        if mark == FALL:
            axes.plot(x, y, "x", color=colour, markersize=9, markeredgewidth=2.2)


def _places(series: list[Series]) -> dict[float, str]:
    """Names of places along the axis of a bar chart, from the marks there."""
    names: dict[float, str] = {}
    for one in series:
        for place, _, mark in _marked(one):
            if mark != FALL:
                names.setdefault(place, mark)
    return names


def _bars(axes: Axes, series: list[Series]) -> None:
    """Series side by side where they share a place."""
    places = np.unique([x for one in series for x in one.x])
    gap = float(np.diff(places).min()) if len(places) > 1 else 1.0
    there = [[place in one.x for one in series] for place in places.tolist()]
    beside = dict(zip(places.tolist(), there, strict=True))
    width, looks = 0.82 * gap / max(map(sum, there)), _looks(series)
    for number, one in enumerate(series):
        # Counted in bars from the middle of those that share a place.
        shift = [sum(beside[x][:number]) - (sum(beside[x]) - 1) / 2 for x in one.x]
        x = np.array(one.x) + width * np.array(shift)
        colour, again = looks[number]
        hatch = ("", "//", "..")[again]
        axes.bar(x, one.y, 0.92 * width, color=colour, hatch=hatch, edgecolor="none")
        _crosses(axes, replace(one, x=tuple(x.tolist())), ink.INK)
    axes.axhline(0, color=ink.MUTED, linewidth=0.8)
    if not any(y for one in series for y in one.y):
        axes.set_ylim(0, 1)
    axes.set_xlim(places[0] - 0.7 * gap, places[-1] + 0.7 * gap)
    if len(places) <= 12:
        axes.set_xticks(places)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(16, integer=True))


def _keys(chart: Chart, series: list[Series], direct: bool) -> str:
    """What colours and signs mean, where the picture does not say it."""
    keys = []
    if not direct:
        for one, (colour, again) in zip(series, _looks(series), strict=True):
            if not one.x:
                continue
            sign = "■" if chart.kind == "bar" else _SIGNS[again]
            if chart.kind in ("line", "path") or one.role == "trail":
                sign = ("━", "╍", "┅")[again]
            colour = "var(--ink)" if one.role == "trail" else colour
            keys.append((sign, f"color:{colour}", one.name))
    if chart.kind == "path":
        keys.append(("●", "color:var(--ink)", "start"))
    if any(FALL in one.marks for one in series):
        keys.append(("×", "color:var(--ink)", "the robot fell"))
    if not keys:
        return ""
    told = "".join(
        f'<span><b style="{style}">{sign}</b>{escape(name)}</span> '
        for sign, style, name in keys
    )
    return f'<div class="keys">{told}</div>'


def _told(chart: Chart) -> str:
    """A chart in words."""
    names = ", ".join(one.name for one in chart.series)
    about = f"{chart.y} against {chart.x}" if chart.x and chart.y else chart.kind
    fallen = sum(one.marks.count(FALL) for one in chart.series)
    falls = f"; {fallen} marked as falls" if fallen else ""
    return f"{chart.title}: {about}, for {names}{falls}."


def _svg(figure: Figure, alt: str) -> str:
    """SVG as a part of a page: no outer names, colours of the page."""
    FigureCanvasSVG(figure)
    out, nothing = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    # Names of parts are made from their looks and this salt: one chart, one salt.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        figure.savefig(out, format="svg", metadata=nothing, transparent=True)
    inner = re.sub(r'<g id="[^"]*"', "<g", out.getvalue().split("<defs>", 1)[1])
    for colour, variable in _PAGE.items():
        inner = inner.replace(colour.lower(), f"var({variable})")
    width, height = (72 * side for side in figure.get_size_inches())
    box = f"0 0 {width:g} {height:g}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(alt)}"><defs>{inner}'

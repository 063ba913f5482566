"""What is read off the robot: lamp, distance to the corpus, numbers, charts."""

import html
from collections import deque

import numpy as np
import viser
from viser import uplot

from spectral_skills.desk.engine import Engine, Frame, Live

_GREEN, _AMBER, _RED = "#2f9e44", "#f08c00", "#e03131"
_WIDE = 1.6
"""End of the meter, as a multiple of what 99 % of the corpus are within."""
_CHART_S, _CHART_POINTS = 12.0, 60


class Status:
    """One line: on its feet or not, what is playing, whether time is kept."""

    def __init__(self, gui: viser.GuiApi):
        self._line, self._written = gui.add_html(""), ""

    def show(self, live: Live, frame: Frame) -> None:
        lamp, state = (_RED, "FALLEN") if frame.fallen else (_GREEN, "on its feet")
        factor = live.factor
        pace = "paused" if live.paused else "…"
        if np.isfinite(factor):
            pace = f"real time × {factor:.2f}"
            if live.speed < 1.0:
                pace = f"slow motion × {live.speed * factor:.2f}"
        recorder = live.engine.recorder
        taped = ""
        if recorder is not None:
            taped = f'<b style="color:{_RED}">● take {recorder.seconds:.0f} s</b> · '
        trouble = live.trouble or getattr(live.engine.mixer.stream, "trouble", "")
        line = _STATUS.format(
            lamp=lamp,
            state=state,
            name=html.escape(frame.mixed.name),
            taped=taped,
            time=frame.time_s,
            pace=pace,
            trouble=f'<div style="color:{_RED}">{html.escape(trouble)}</div>'
            if trouble
            else "",
        )
        if line != self._written:
            self._line.content = self._written = line


_STATUS = (
    '<div style="padding:4px 10px 2px;line-height:1.35">'
    '<span style="display:inline-block;width:13px;height:13px;border-radius:50%;'
    "background:{lamp};box-shadow:0 0 7px {lamp};margin-right:7px;"
    'vertical-align:-1px"></span><b style="font-size:15px">{state}</b>'
    '<span style="font-size:15px"> · {name}</span>'
    '<div style="font-size:11px;color:#868e96">{taped}{time:.1f} s · {pace}</div>'
    "{trouble}</div>"
)


class Readouts:
    """How far the commanded skill is from the corpus, and what the robot does."""

    def __init__(self, gui: viser.GuiApi, engine: Engine):
        self._support = engine.bundle.support
        self._line, self._written = gui.add_html(""), ""

    def show(self, frame: Frame) -> None:
        support, measures = self._support, frame.measures
        # Of tokens that all clips share even the farthest are no way apart.
        end = max(_WIDE * support.far, 1e-9)
        colour = _GREEN
        if frame.distance > support.typical:
            colour = _AMBER if frame.distance <= support.far else _RED

        def percent(value: float) -> float:
            return 100.0 * min(value / end, 1.0)

        cells = (
            ("speed", f"{measures.speed:.2f} m/s"),
            ("heading", f"{measures.heading:+.0f}°"),
            ("turning", f"{measures.turning:+.0f}°/s"),
            ("left arm", f"{measures.left_arm:+.0f}°"),
            ("right arm", f"{measures.right_arm:+.0f}°"),
        )
        line = _READOUTS.format(
            cells="".join(_CELL.format(name=n, value=v) for n, v in cells),
            distance=frame.distance,
            colour=colour,
            at=percent(frame.distance),
            typical=percent(support.typical),
            far=percent(support.far),
            typical_value=support.typical,
            far_value=support.far,
        )
        if line != self._written:
            self._line.content = self._written = line


_CELL = (
    '<td style="text-align:center;padding:0 3px"><div style="font-size:10px;'
    'color:#868e96">{name}</div><div style="font-size:13px;font-weight:600;'
    'font-variant-numeric:tabular-nums">{value}</div></td>'
)
_READOUTS = (
    '<div style="padding:2px 10px 4px"><table style="width:100%;'
    'table-layout:fixed;border-spacing:0"><tr>{cells}</tr></table>'
    '<div style="font-size:11px;margin-top:5px">distance to the corpus '
    '<b style="color:{colour}">{distance:.1f}</b></div>'
    '<div style="position:relative;height:9px;border-radius:5px;margin:2px 0 14px;'
    "background:linear-gradient(90deg,#d3f9d8 {typical:.0f}%,#fff3bf {typical:.0f}% "
    '{far:.0f}%,#ffe3e3 {far:.0f}%)">'
    '<div style="position:absolute;height:9px;border-radius:5px;width:{at:.0f}%;'
    'background:{colour};opacity:.85"></div>'
    '<div style="position:absolute;left:{typical:.0f}%;top:9px;font-size:9px;'
    'color:#868e96;border-left:1px solid #868e96;padding-left:2px">typical '
    "{typical_value:.1f}</div>"
    '<div style="position:absolute;left:{far:.0f}%;top:9px;font-size:9px;'
    'color:#868e96;border-left:1px solid #868e96;padding-left:2px">99 % '
    "{far_value:.1f}</div></div></div>"
)


class Charts:
    """The last seconds: speed, and both arms."""

    def __init__(self, gui: viser.GuiApi):
        self._rows: deque[tuple[float, ...]] = deque(maxlen=_CHART_POINTS)
        self._speed = _chart(gui, "speed, m/s", ("#1971c2",), ("robot",), (0.0, 2.0))
        colours, names = ("#e8590c", "#2f9e44"), ("left", "right")
        self._arms = _chart(gui, "arms raised, deg", colours, names, (-60.0, 120.0))

    def show(self, frame: Frame) -> None:
        now, measures = frame.time_s, frame.measures
        if self._rows and self._rows[-1][0] == now:
            return
        row = (now, measures.speed, measures.left_arm, measures.right_arm)
        self._rows.append(row)
        time_s, speed, left, right = np.array(self._rows).T
        ago = time_s - now
        self._speed.data = (ago, speed)
        self._arms.data = (ago, left, right)


def _chart(
    gui: viser.GuiApi,
    title: str,
    colours: tuple[str, ...],
    names: tuple[str, ...],
    span: tuple[float, float],
) -> viser.GuiUplotHandle:
    gui.add_html(
        '<div style="font-size:11px;padding:4px 10px 0">'
        + title
        + "".join(
            f' <span style="color:{colour}">▬ {name}</span>'
            for colour, name in zip(colours, names, strict=True)
            if len(names) > 1
        )
        + "</div>"
    )
    nothing = np.array((-_CHART_S, 0.0))
    lines = [uplot.Series(stroke=colour, width=2) for colour in colours]
    axis = uplot.Axis(size=26, font="10px sans-serif")
    return gui.add_uplot(
        (nothing, *(np.zeros(2) for _ in colours)),
        (uplot.Series(), *lines),
        scales={
            "x": uplot.Scale(time=False, range=(-_CHART_S, 0.0)),
            "y": uplot.Scale(range=span),
        },
        axes=(axis, uplot.Axis(size=32, font="10px sans-serif")),
        legend=uplot.Legend(show=False),
        cursor=uplot.Cursor(show=False),
        height=88,
        padding=(4, 8, 0, 0),
    )

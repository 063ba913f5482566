"""What is read off the robot: status, distance to the corpus, numbers, charts."""

from collections import deque

import numpy as np
import viser
from viser import uplot

from spectral_skills.desk.controls import HtmlPanel, render
from spectral_skills.desk.engine import Engine, Frame, Live

_GREEN, _AMBER, _RED = "#2f9e44", "#f08c00", "#e03131"
_END = 1.6
"""End of the distance meter, as a multiple of the 99th percentile of the corpus."""
_CHART_S, _CHART_POINTS = 12.0, 60


class Status:
    """Whether the robot stands, what is playing, and whether it runs in real time."""

    def __init__(self, gui: viser.GuiApi):
        self._panel = HtmlPanel(gui, "status")

    def show(self, live: Live, frame: Frame) -> None:
        pace, recorder = "paused" if live.paused else "…", live.engine.recorder
        if np.isfinite(live.factor):
            pace = f"real time × {live.factor:.2f}"
            if live.speed < 1.0:
                pace = f"slow motion × {live.speed * live.factor:.2f}"
        self._panel.show(
            state="FALLEN" if frame.fallen else "on its feet",
            fallen=frame.fallen,
            name=frame.mixed.name,
            take_s=None if recorder is None else recorder.seconds,
            time_s=frame.time_s,
            pace=pace,
            trouble=live.trouble or getattr(live.engine.mixer.stream, "trouble", ""),
        )


class Readouts:
    """How far the commanded skill is from the corpus, and what the robot does."""

    def __init__(self, gui: viser.GuiApi, engine: Engine):
        self._support = engine.bundle.support
        self._panel = HtmlPanel(gui, "readouts")

    def show(self, frame: Frame) -> None:
        support, measures = self._support, frame.measures
        colour = _GREEN
        if frame.distance > support.typical:
            colour = _AMBER if frame.distance <= support.far else _RED
        cells = {
            "speed": f"{measures.speed:.2f} m/s",
            "heading": f"{measures.heading:+.0f}°",
            "turning": f"{measures.turning:+.0f}°/s",
            "left arm": f"{measures.left_arm:+.0f}°",
            "right arm": f"{measures.right_arm:+.0f}°",
        }
        self._panel.show(
            cells=cells,
            distance=frame.distance,
            typical=support.typical,
            far=support.far,
            # If all clips share their tokens, even the farthest are at distance 0.
            end=max(_END * support.far, 1e-9),
            colour=colour,
        )


class Charts:
    """The last seconds: speed, and both arms."""

    def __init__(self, gui: viser.GuiApi):
        self._rows: deque[tuple[float, ...]] = deque(maxlen=_CHART_POINTS)
        self._speed = _chart(gui, "speed, m/s", {"robot": "#1971c2"}, (0.0, 2.0))
        colours = {"left": "#e8590c", "right": "#2f9e44"}
        self._arms = _chart(gui, "arms raised, deg", colours, (-60.0, 120.0))

    def show(self, frame: Frame) -> None:
        now, measures = frame.time_s, frame.measures
        if self._rows and self._rows[-1][0] == now:
            return
        row = (now, measures.speed, measures.left_arm, measures.right_arm)
        self._rows.append(row)
        time_s, speed, left, right = np.array(self._rows).T
        self._speed.data = (time_s - now, speed)
        self._arms.data = (time_s - now, left, right)


def _chart(
    gui: viser.GuiApi, title: str, colours: dict[str, str], span: tuple[float, float]
) -> viser.GuiUplotHandle:
    gui.add_html(render("chart_title", title=title, colours=colours))
    lines = [uplot.Series(stroke=colour, width=2) for colour in colours.values()]
    return gui.add_uplot(
        (np.array((-_CHART_S, 0.0)), *(np.zeros(2) for _ in colours)),
        (uplot.Series(), *lines),
        scales={
            "x": uplot.Scale(time=False, range=(-_CHART_S, 0.0)),
            "y": uplot.Scale(range=span),
        },
        axes=tuple(uplot.Axis(size=size, font="10px sans-serif") for size in (26, 32)),
        legend=uplot.Legend(show=False),
        cursor=uplot.Cursor(show=False),
        height=88,
        padding=(4, 8, 0, 0),
    )

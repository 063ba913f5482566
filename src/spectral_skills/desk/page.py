"""The page: a viser server, its panels, and the thread that keeps them up to date.

All browsers share one desk. The robot never waits for the page: the page reads the
engine's newest frame as often as it can be drawn, and posts what people do.
"""

import errno
import io
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import viser
from viser import uplot

from spectral_skills.desk.controls import (
    Controls,
    Strips,
    add_decks,
    add_transport,
    render,
)
from spectral_skills.desk.engine import Engine, Frame, Live
from spectral_skills.desk.files import Keeper, add_files
from spectral_skills.desk.scene import SceneView, View, aim
from spectral_skills.desk.talk import Talk

PORT = 8080
_PORTS_TRIED = 50
_DRAW_S, _PANEL_S, _CHART_S = 1 / 25, 1 / 5, 1 / 4
"""Periods of pictures, of numbers and of charts."""
_BEHIND, _MORE, _LESS, _SLOWEST = 0.99, 1.03, 0.99, 10.0
"""Below this real-time factor the period of pictures grows by the second number from
one picture to the next, above it shrinks by the third, up to the fourth in total."""
_LEFT_PX, _RIGHT_PX = 320, 360
_BRAND = (34, 94, 206)
_CHARTED_S, _CHART_POINTS = 12.0, 60
_WELCOME = (
    "Move a fader on the right. The grey robot is simulated; the blue one shows the "
    "base that it plays, without faders."
)
Key = Literal["P", "N", "R", "X", "Z"]


class Page:
    """A desk that is open for browsers."""

    def __init__(
        self,
        engine: Engine,
        out: Path,
        host: str = "127.0.0.1",
        port: int | None = None,
        listener: Sequence[str] | None = None,
    ):
        """`listener` is a command that understands text in place of our own."""
        self.live, self._newest = Live(engine), deque(maxlen=3)
        keeper = Keeper(engine, out, self.notify)
        self.server = open_server(host, port)
        here = host in ("127.0.0.1", "::1", "0.0.0.0", "::")
        self.address = (
            f"http://{'localhost' if here else host}:{self.server.get_port()}"
        )
        gui = self.server.gui
        gui.set_panel_label("Faders")
        gui.configure_theme(
            show_logo=False, show_share_button=False, brand_color=_BRAND
        )
        self._talk = Talk(engine, self.notify, listener)
        aim(self.server)
        self._scene: SceneView | None = None
        self._view = View()
        self._controls = Controls(gui, self.live, self.notify)
        self._fill(gui, engine, keeper)
        self.notify(_WELCOME)
        self.pictures = True
        """Whether the robot is drawn."""
        self._drawn: Frame | None = None
        self._resets, self._panels_due, self._charts_due = 0, 0.0, 0.0
        self._stopping = threading.Event()
        self._painter = threading.Thread(target=self._paint, name="page", daemon=True)

    def start(self) -> None:
        self.live.engine.post(lambda engine: engine.cross("a"))
        self.live.start()
        self._painter.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._painter.is_alive():
            self._painter.join(timeout=5.0)
        self.live.stop()
        self._talk.close()
        with redirect_stdout(io.StringIO()):
            self.server.stop()

    def notify(self, text: str) -> None:
        """Show a message, from any thread."""
        self._newest.append(text)

    def _status(self) -> dict[str, Any]:
        engine = self.live.engine
        planning = getattr(engine.mixer.stream, "trouble", "")
        return {
            "live": self.live,
            "frame": engine.frame,
            "recorder": engine.recorder,
            "trouble": self.live.trouble or planning,
        }

    def _messages(self) -> dict[str, Any]:
        return {"texts": list(reversed(self._newest))}

    def _fill(self, gui: viser.GuiApi, engine: Engine, keeper: Keeper) -> None:
        controls, play = self._controls, gui.add_panel()
        with play.add_tab("Robot", viser.Icon.ROBOT):
            controls.html("status", self._status)
            pause, step, reset = add_transport(controls, self._push)
            with gui.add_folder("Skills"):
                other = add_decks(controls)
            with gui.add_form("Say it in words") as form:
                words = gui.add_text("", "walk forward, then wave")
                gui.add_button("Tell the robot").on_click(lambda _: form.submit())
            form.on_submit(lambda _: self._talk.say(words.value))
            controls.html("messages", self._messages)
            self._charts = Charts(gui)
        # Browsers build other tabs only when somebody looks at them.
        with play.add_tab("Files", viser.Icon.DEVICE_FLOPPY):
            add_files(controls, keeper)
            controls.html("messages", self._messages)
        with play.add_tab("Options", viser.Icon.SETTINGS):
            engine.auto_reset = True
            for label, owner, name, hint in (
                ("ghost of the base", self._view, "ghost", None),
                ("follow the robot", self._view, "follow", None),
                ("get up automatically", engine, "auto_reset", "2 s after a fall"),
            ):
                controls.bind(
                    gui.add_checkbox(label, True, hint=hint),
                    partial(getattr, owner, name),
                    lambda _, value, one=(owner, name): setattr(*one, value),
                )
        play.dock_left()
        play.set_width(_LEFT_PX)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_RIGHT_PX)
        support = engine.bundle.support
        controls.html("readouts", lambda: {"frame": engine.frame, "support": support})
        self._strips = Strips(controls)
        keys: dict[Key, tuple[str, Callable[[], None]]] = {
            "P": ("Pause or continue", pause),
            "N": ("One step", step),
            "R": ("Reset the robot", reset),
            "X": ("Cross-fade to the other deck", other),
            "Z": ("Release all faders", self._strips.release),
        }
        for key, (label, action) in keys.items():
            command = gui.add_command(label, hotkey=key)
            command.on_trigger(lambda _, action=action: action())

    def _push(self, velocity: np.ndarray) -> None:
        if self._scene is not None:
            self._scene.show_push(velocity[:2])

    def _paint(self) -> None:
        # Made here, so that faders appear a second before the robot's meshes.
        self._scene = SceneView(self.server)
        slower = 1.0
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                if self.server.get_clients():
                    self._show(self._scene, begun)
            except Exception as error:  # the robot continues, and so does the page
                self.notify(f"The page failed: {type(error).__name__}: {error}")
                self._stopping.wait(1.0)
            # If the robot falls behind real time, pictures give way to it: a browser
            # without a GPU takes all the cores that it can get.
            slower *= _MORE if self.live.factor < _BEHIND else _LESS
            slower = min(max(slower, 1.0), _SLOWEST)
            spent = time.monotonic() - begun
            self._stopping.wait(max(slower * _DRAW_S - spent, 0.005))

    def _show(self, scene: SceneView, now: float) -> None:
        """Show what is due: pictures often, numbers and charts less often."""
        engine, frame = self.live.engine, self.live.engine.frame
        if engine.resets != self._resets:
            self._resets = engine.resets
            scene.clear_trail()
        if self.pictures and (frame is not self._drawn or scene.pushing):
            scene.draw(frame, self._view)
            self._drawn = frame
        if now >= self._panels_due:
            self._panels_due = now + _PANEL_S
            self._strips.sync()
            with self.server.atomic():
                self._controls.sync()
        if now >= self._charts_due:
            self._charts_due = now + _CHART_S
            self._charts.show(frame)
            if self.pictures:
                scene.draw_trail()


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
        (np.array((-_CHARTED_S, 0.0)), *(np.zeros(2) for _ in colours)),
        (uplot.Series(), *lines),
        scales={
            "x": uplot.Scale(time=False, range=(-_CHARTED_S, 0.0)),
            "y": uplot.Scale(range=span),
        },
        axes=tuple(uplot.Axis(size=size, font="10px sans-serif") for size in (26, 32)),
        legend=uplot.Legend(show=False),
        cursor=uplot.Cursor(show=False),
        height=88,
        padding=(4, 8, 0, 0),
    )


def open_server(host: str, port: int | None) -> viser.ViserServer:
    """A server on a port, or on the first free one if none is asked for."""
    if port is not None and not 0 < port < 1 << 16:
        raise ValueError(f"port {port}, must be 1 to 65535")
    chosen = port if port is not None else PORT
    if port is None:
        while not _free(host, chosen) and chosen < PORT + _PORTS_TRIED:
            chosen += 1
    if not _free(host, chosen):
        raise ValueError(
            f"port {chosen} of {host} is taken; stop what uses it, or open the desk on "
            f"another: --port {chosen + 1}"
        )
    with redirect_stdout(io.StringIO()):  # viser prints a box of its own
        server = viser.ViserServer(host=host, port=chosen, verbose=False)
    if port is not None and server.get_port() != port:
        server.stop()
        raise ValueError(f"port {port} of {host} was taken a moment ago; try again")
    # A page must not open a public address through somebody else's machine.
    server.request_share_url = lambda verbose=True: None  # type: ignore
    return server


def _free(host: str, port: int) -> bool:
    """Whether a port can be bound; refuses a host that cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ValueError(f"cannot open {host} port {port}: {error}") from None
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind(address)
        except PermissionError:
            raise ValueError(
                f"port {port} needs administrator rights; use one from 1024 on"
            ) from None
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(f"{host} is no address of this machine") from None
            return False
    return True

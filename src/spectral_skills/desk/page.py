"""The page: a viser server, its panels, and the thread that keeps them true.

All browsers share one desk. Nothing here is asked by the robot: the page reads the
engine's newest frame as often as it can be drawn, and posts what people do.
"""

import errno
import html
import io
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal

import numpy as np
import viser

from spectral_skills.desk.clock import Live
from spectral_skills.desk.decks import DecksView, Transport
from spectral_skills.desk.engine import Engine
from spectral_skills.desk.files import FilesView, Keeper
from spectral_skills.desk.folder import RunFolder
from spectral_skills.desk.meters import Charts, Readouts, Status
from spectral_skills.desk.scene import Stage
from spectral_skills.desk.strips import Strips
from spectral_skills.desk.talk import Talk

PORT = 8080
_PORTS_TRIED = 50
_DRAW_S, _PANEL_S, _CHART_S = 1 / 25, 1 / 5, 1 / 4
"""Between pictures, between numbers, between charts."""
_LEFT_PX, _RIGHT_PX = 320, 360
_BRAND = (34, 94, 206)
_WELCOME = (
    "Move a fader on the right. Grey is the robot, blue is what it would do without."
)


Key = Literal["P", "N", "R", "X", "Z"]


class Page:
    """A desk that is open for browsers."""

    def __init__(self, engine: Engine, out: Path, host: str, port: int | None):
        self.live, self._told = Live(engine), deque(maxlen=3)
        self._folder = RunFolder(out)
        self.server = open_server(host, port)
        self.address = f"http://{_named(host)}:{self.server.get_port()}"
        gui = self.server.gui
        gui.set_panel_label("Faders")
        gui.configure_theme(
            show_logo=False, show_share_button=False, brand_color=_BRAND
        )
        self._talk = Talk(engine, self.tell)
        # Browsers are sent things in this order: faders first, then what is seen.
        self._fill(gui, engine)
        self._stage = Stage(self.server)
        self.tell(_WELCOME)
        self._stopping = threading.Event()
        self._painter = threading.Thread(target=self._paint, name="page", daemon=True)

    def start(self) -> None:
        """Let the robot and the page run."""
        self.live.engine.post(lambda engine: engine.cross("a"))
        self.live.start()
        self._painter.start()

    def stop(self) -> None:
        """Close the page and end all threads."""
        self._stopping.set()
        if self._painter.is_alive():
            self._painter.join(timeout=5.0)
        self.live.stop()
        self._talk.close()
        with redirect_stdout(io.StringIO()):
            self.server.stop()

    def tell(self, text: str) -> None:
        """Show a message, from any thread."""
        self._told.append(text)

    @property
    def messages(self) -> list[str]:
        """The newest, last first."""
        return list(reversed(self._told))

    def _fill(self, gui: viser.GuiApi, engine: Engine) -> None:
        play = gui.add_panel()
        with play.add_tab("Robot", viser.Icon.ROBOT):
            self._status = Status(gui)
            self._transport = Transport(gui, self.live, self._push, self.tell)
            with gui.add_folder("Skills"):
                self._decks = DecksView(gui, engine, self.tell)
            with gui.add_form("Say it in words") as form:
                words = gui.add_text("", "walk forward, then wave")
                gui.add_button("Tell the robot").on_click(lambda _: form.submit())
            form.on_submit(lambda _: self._talk.say(words.value))
            self._message, self._shown = gui.add_html(""), ""
            with gui.add_folder("Takes and presets", expand_by_default=False):
                keeper = Keeper(engine, self._folder, self.tell)
                self._files = FilesView(gui, keeper, engine)
            with gui.add_folder("Options", expand_by_default=False):
                self._options(gui, engine)
            self._charts = Charts(gui)
        play.dock_left()
        play.set_width(_LEFT_PX)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_RIGHT_PX)
        self._readouts = Readouts(gui, engine)
        self._strips = Strips(gui, engine, self.tell)
        keys: dict[Key, tuple[str, Callable[[], None]]] = {
            "P": ("Pause or go on", self._transport.pause),
            "N": ("One step", self._transport.step),
            "R": ("Reset the robot", self._transport.reset),
            "X": ("Cross-fade to the other deck", self._decks.other),
            "Z": ("Release all faders", self._release),
        }
        for key, (label, action) in keys.items():
            command = gui.add_command(label, hotkey=key)
            command.on_trigger(lambda _, action=action: action())

    def _options(self, gui: viser.GuiApi, engine: Engine) -> None:
        ghost = gui.add_checkbox("ghost of the base", True)
        follow = gui.add_checkbox("follow the robot", True)
        up = gui.add_checkbox("get up by itself", True, hint="2 s after a fall")
        engine.auto_reset = True
        up.on_update(lambda _: setattr(engine, "auto_reset", up.value))
        ghost.on_update(lambda _: setattr(self._stage, "show_ghost", ghost.value))
        follow.on_update(lambda _: setattr(self._stage, "follow", follow.value))

    def _push(self, velocity: np.ndarray) -> None:
        self._stage.show_push(velocity[:2])

    def _release(self) -> None:
        self.live.engine.post(lambda engine: engine.mixer.release(), self.tell)

    def _paint(self) -> None:
        """Keep the page true until it is closed."""
        begun = time.monotonic()
        drawn = panel = chart = resets = -1
        while not self._stopping.is_set():
            engine = self.live.engine
            frame, now = engine.frame, time.monotonic() - begun
            if engine.resets != resets:
                resets = engine.resets
                self._stage.clear_trail()
            if frame is not drawn and self.server.get_clients():
                self._stage.draw(frame)
                drawn = frame
            if int(now / _PANEL_S) != panel:
                panel = int(now / _PANEL_S)
                self._panels()
            if int(now / _CHART_S) != chart:
                chart = int(now / _CHART_S)
                self._charts.show(frame)
                self._stage.draw_trail()
            spent = time.monotonic() - begun - now
            self._stopping.wait(max(_DRAW_S - spent, 0.005))

    def _panels(self) -> None:
        frame = self.live.engine.frame
        with self.server.atomic():
            self._status.show(self.live, frame)
            self._readouts.show(frame)
            self._transport.sync()
            self._decks.sync()
            self._strips.sync(frame.mixed.name)
            self._files.sync()
            told = "".join(
                _MESSAGE.format(
                    shade="#212529" if not i else "#adb5bd", text=html.escape(t)
                )
                for i, t in enumerate(self.messages)
            )
            if told != self._shown:
                self._message.content = self._shown = told


_MESSAGE = (
    '<div style="font-size:12px;line-height:1.3;padding:3px 10px;color:{shade};'
    'overflow-wrap:anywhere">{text}</div>'
)


def open_server(host: str, port: int | None) -> viser.ViserServer:
    """A server on a port, or on the first free one if none is asked for."""
    chosen = port if port is not None else PORT
    if port is None:
        while not _free(host, chosen) and chosen < PORT + _PORTS_TRIED:
            chosen += 1
    if not _free(host, chosen):
        raise ValueError(
            f"port {chosen} of {host} is taken; stop what uses it, or open the desk on "
            f"another: --port {chosen + 1}"
        )
    with redirect_stdout(io.StringIO()):  # it draws a box of its own
        server = viser.ViserServer(host=host, port=chosen, verbose=False)
    if port is not None and server.get_port() != port:
        server.stop()
        raise ValueError(f"port {port} of {host} was taken a moment ago; try again")
    # A public address through somebody else's machine is nothing a page may ask for.
    server.request_share_url = lambda verbose=True: None  # type: ignore
    return server


def _free(host: str, port: int) -> bool:
    """Whether a port can be bound; says so if the host itself cannot."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, OverflowError) as error:
        raise ValueError(f"cannot open {host} port {port}: {error}") from None
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind(address)
        except PermissionError:
            raise ValueError(
                f"port {port} needs rights; take one from 1024 on"
            ) from None
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(f"{host} is no address of this machine") from None
            return False
    return True


def _named(host: str) -> str:
    return "localhost" if host in ("127.0.0.1", "::1", "0.0.0.0") else host

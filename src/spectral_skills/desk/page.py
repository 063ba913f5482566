"""The page: a viser server, its panels, and the thread that keeps them true.

All browsers share one desk. Nothing here is asked by the robot: the page reads the
engine's newest frame as often as it can be drawn, and posts what people do.
"""

import html
import io
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal

import numpy as np
import viser

from spectral_skills.desk.decks import DecksView, Transport
from spectral_skills.desk.engine import Engine, Frame, Live
from spectral_skills.desk.files import FilesView, Keeper
from spectral_skills.desk.folder import RunFolder
from spectral_skills.desk.meters import Charts, Readouts, Status
from spectral_skills.desk.scene import Stage, View, aim
from spectral_skills.desk.server import address, open_server
from spectral_skills.desk.strips import Strips
from spectral_skills.desk.talk import Talk

_DRAW_S, _PANEL_S, _CHART_S = 1 / 25, 1 / 5, 1 / 4
"""Between pictures, between numbers, between charts."""
_BEHIND, _MORE, _LESS, _SLOWEST = 0.99, 1.03, 0.99, 10.0
"""Under this real-time factor pictures come less and less often, above it more and more
so: factors of the time between them, from one to the next, and the largest in all."""
_LEFT_PX, _RIGHT_PX = 320, 360
_BRAND = (34, 94, 206)
_WELCOME = (
    "Move a fader on the right. Grey is the robot, blue is the motion it plays, as it "
    "is without faders."
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
        """`listener` is a command to understand text with, in place of our own."""
        self.live, self._told = Live(engine), deque(maxlen=3)
        self._folder = RunFolder(out)
        self.server = open_server(host, port)
        self.address = address(host, self.server.get_port())
        gui = self.server.gui
        gui.set_panel_label("Faders")
        gui.configure_theme(
            show_logo=False, show_share_button=False, brand_color=_BRAND
        )
        self._talk = Talk(engine, self.tell, listener)
        aim(self.server)
        self._stage: Stage | None = None
        self._view = View()
        self._fill(gui, engine)
        self.tell(_WELCOME)
        self.pictures = True
        """Whether the robot is drawn."""
        self._drawn: Frame | None = None
        self._resets, self._panels_due, self._charts_due = 0, 0.0, 0.0
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
            self._messages, self._shown = [gui.add_html("")], ""
            self._charts = Charts(gui)
        # Browsers make what is in other tabs only when they are looked at.
        with play.add_tab("Files", viser.Icon.DEVICE_FLOPPY):
            keeper = Keeper(engine, self._folder, self.tell)
            self._files = FilesView(gui, keeper, engine)
            self._messages.append(gui.add_html(""))
        with play.add_tab("Options", viser.Icon.SETTINGS):
            self._options(gui, engine)
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
        for name, box in (("ghost", ghost), ("follow", follow)):
            box.on_update(lambda e, name=name: self._look(name, e.target.value))

    def _look(self, name: str, value: bool) -> None:
        setattr(self._view, name, value)
        self._drawn = None  # a robot that is paused is drawn again too

    def _push(self, velocity: np.ndarray) -> None:
        if self._stage is not None:
            self._stage.show_push(velocity[:2])

    def _release(self) -> None:
        self.live.engine.post(lambda engine: engine.mixer.release(), self.tell)

    def _paint(self) -> None:
        """Keep the page true until it is closed."""
        # Made here: the faders are there a second before the robot's meshes are.
        self._stage = Stage(self.server)
        slower = 1.0
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                if self.server.get_clients():
                    self._show(self._stage, begun)
            except Exception as error:  # the robot goes on, and so does the page
                self.tell(f"The page failed: {type(error).__name__}: {error}")
                self._stopping.wait(1.0)
            # Where time is not kept, pictures give way to the robot: a browser
            # without a GPU takes all the cores that it gets.
            slower *= _MORE if self.live.factor < _BEHIND else _LESS
            slower = min(max(slower, 1.0), _SLOWEST)
            spent = time.monotonic() - begun
            self._stopping.wait(max(slower * _DRAW_S - spent, 0.005))

    def _show(self, stage: Stage, now: float) -> None:
        """Show what is due: pictures often, numbers and charts less so."""
        engine, frame = self.live.engine, self.live.engine.frame
        if engine.resets != self._resets:
            self._resets = engine.resets
            stage.clear_trail()
        if self.pictures and (frame is not self._drawn or stage.pushing):
            stage.draw(frame, self._view)
            self._drawn = frame
        if now >= self._panels_due:
            self._panels_due = now + _PANEL_S
            self._panels()
        if now >= self._charts_due:
            self._charts_due = now + _CHART_S
            self._charts.show(frame)
            if self.pictures:
                stage.draw_trail()

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
                self._shown = told
                for one in self._messages:
                    one.content = told


_MESSAGE = (
    '<div style="font-size:12px;line-height:1.3;padding:3px 10px;color:{shade};'
    'overflow-wrap:anywhere">{text}</div>'
)

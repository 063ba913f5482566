"""Parts of the page: inputs bound to the engine, panels, transport and decks."""

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import jinja2
import numpy as np
import viser

from spectral_skills.control.mixer import FADES, Cue
from spectral_skills.desk.engine import PUSH, SLOWEST, Engine, Live

Notify = Callable[[str], None]
"""Shows a message on the page, from any thread."""
_PUSHES = {"← left": (0.0, PUSH), "forward": (PUSH, 0.0), "right →": (0.0, -PUSH)}
_QUEUED_S = 4.0
T = TypeVar("T")


@cache
def _template() -> Any:
    text = Path(__file__).with_name("panels.html").read_text()
    return jinja2.Environment(autoescape=True).from_string(text).module


def render(panel: str, **values: Any) -> str:
    """Return the HTML of a panel of `panels.html`."""
    return str(getattr(_template(), panel)(**values))


class HtmlPanel:
    """A panel of `panels.html`, sent to browsers when its content changes."""

    def __init__(self, gui: viser.GuiApi, name: str, order: float | None = None):
        self._name, self._handle = name, gui.add_html("", order=order)

    def show(self, **values: Any) -> None:
        content = render(self._name, **values)
        if content != self._handle.content:
            self._handle.content = content


class Bound(Generic[T]):
    """An input that shows a value of the engine and changes it.

    The engine is authoritative: what somebody does on the page is posted to it, and
    what a preset or a text changes there is shown on the page. While an input is on its
    way to the engine nothing is shown: a fader must not jump while it is dragged.
    """

    def __init__(
        self,
        handle: Any,
        engine: Engine,
        read: Callable[[], T],
        write: Callable[[Engine, T], None],
        refused: Notify,
    ):
        self._handle, self._engine = handle, engine
        self._read, self._write, self._refused = read, write, refused
        self._shown: T = handle.value
        self._posted, self._lock = 0, threading.Lock()
        handle.on_update(self._on_update)

    def sync(self) -> None:
        """Show the engine's value."""
        with self._lock:
            now = self._read()
            if self._posted or now == self._shown:
                return
            self._shown = now
        self._handle.value = now

    async def _on_update(self, event: Any) -> None:
        if event.client is None:
            return  # set by `sync`
        value = event.target.value
        with self._lock:
            self._posted += 1
            self._shown = value
        self._engine.post(lambda engine: self._do(engine, value), self._refused)

    def _do(self, engine: Engine, value: T) -> None:
        try:
            self._write(engine, value)
        finally:
            with self._lock:
                self._posted -= 1


class Transport:
    """Pause, step, reset, push, slow motion."""

    def __init__(
        self,
        gui: viser.GuiApi,
        live: Live,
        pushed: Callable[[np.ndarray], None],
        notify: Notify,
    ):
        self._live, self._pushed, self._notify = live, pushed, notify
        self._run = gui.add_button_group("", self._labels())
        self._run.on_click(self._on_run)
        push = gui.add_button_group("push", tuple(_PUSHES), hint="At the pelvis.")
        push.on_click(lambda event: self.push(*_PUSHES[event.target.value]))
        speed = gui.add_slider("slow motion", SLOWEST, 1.0, SLOWEST, 1.0)
        self._speed: Bound[float] = Bound(
            *(speed, live.engine, lambda: live.speed),
            *(lambda _, value: setattr(live, "speed", value), notify),
        )

    def sync(self) -> None:
        """Show what the engine has."""
        if self._run.options != (labels := self._labels()):
            self._run.options = labels
        self._speed.sync()

    def pause(self) -> None:
        """Pause or continue."""
        self._live.paused = not self._live.paused
        self._live.trouble = ""

    def step(self) -> None:
        """Pause or, if the robot is paused, make one step."""
        if self._live.paused:
            self._live.single_step()
        self._live.paused = True

    def reset(self) -> None:
        """Put the robot on its feet where it began."""
        self._live.engine.post(lambda engine: engine.reset(), self._notify)

    def push(self, forward: float, left: float) -> None:
        """Push the robot and show from where."""
        self._live.engine.post(
            lambda engine: self._pushed(engine.push(forward, left)), self._notify
        )

    def _labels(self) -> tuple[str, ...]:
        return ("continue" if self._live.paused else "pause", "step", "reset")

    def _on_run(self, event: Any) -> None:
        actions = {"step": self.step, "reset": self.reset}
        actions.get(event.target.value, self.pause)()


class DecksView:
    """Two bases, a cross-fade between them, a queue."""

    def __init__(self, gui: viser.GuiApi, engine: Engine, notify: Notify):
        self._engine, self._notify = engine, notify
        names, decks, mixer = tuple(engine.bundle.bases), engine.decks, engine.mixer
        a = gui.add_dropdown("deck A", names, initial_value=decks.a)
        b = gui.add_dropdown("deck B", names, initial_value=decks.b)
        self._play = gui.add_button_group("cross-fade", self._labels())
        self._play.on_click(self._on_play)
        hint = "50 steps are a second."
        fade = gui.add_slider("fade steps", *FADES, 1, decks.fade, hint=hint)
        with gui.add_folder("Queue", expand_by_default=False):
            self._next = gui.add_dropdown("next", names)
            self._seconds = gui.add_slider("seconds", 1.0, 12.0, 0.5, _QUEUED_S)
            edit = gui.add_button_group("", ("add", "clear"))
            edit.on_click(self._on_queue)
            loop = gui.add_checkbox("loop", True, hint="Repeat bases and the queue.")
            self._queue = HtmlPanel(gui, "queue")
        self._inputs: list[Bound] = [
            Bound(a, engine, lambda: decks.a, lambda e, v: e.load("a", v), notify),
            Bound(b, engine, lambda: decks.b, lambda e, v: e.load("b", v), notify),
            Bound(fade, engine, lambda: decks.fade, lambda e, v: e.fade(v), notify),
            Bound(loop, engine, lambda: mixer.loop, lambda e, v: e.loop(v), notify),
        ]

    def sync(self) -> None:
        """Show what the engine has."""
        if self._play.options != (labels := self._labels()):
            self._play.options = labels
        for one in self._inputs:
            one.sync()
        self._queue.show(names=[cue.name for cue in tuple(self._engine.mixer.queue)])

    def other(self) -> None:
        """Cross-fade to the deck that is not playing."""
        deck = "b" if self._engine.decks.live == "a" else "a"
        self._engine.post(lambda engine: engine.cross(deck), self._notify)

    def _labels(self) -> tuple[str, ...]:
        decks = self._engine.decks
        marks = ["▶" if decks.live == deck else "→" for deck in ("a", "b")]
        return (f"{marks[0]} A {decks.a}", f"{marks[1]} B {decks.b}")

    def _on_play(self, event: Any) -> None:
        deck = "a" if event.target.value[2] == "A" else "b"
        self._engine.post(lambda engine: engine.cross(deck), self._notify)

    def _on_queue(self, event: Any) -> None:
        if event.target.value == "clear":
            self._engine.post(lambda engine: engine.mixer.queue.clear(), self._notify)
            return
        cue = Cue(self._next.value, self._seconds.value, fade=self._engine.decks.fade)
        self._engine.post(lambda engine: engine.enqueue(cue), self._notify)

"""Transport and decks: the part of the page that plays."""

import html
from collections.abc import Callable
from typing import Any

import numpy as np
import viser

from spectral_skills.control.mixer import FADES, Cue
from spectral_skills.desk.bound import Bound
from spectral_skills.desk.engine import PUSH, SLOWEST, Engine, Live

_PUSHES = {"← left": (0.0, PUSH), "forward": (PUSH, 0.0), "right →": (0.0, -PUSH)}
_QUEUED_S = 4.0
_QUEUED = '<div style="font-size:12px;padding:2px 10px">{}</div>'


class Transport:
    """Pause, step, reset, push, slow motion."""

    def __init__(
        self,
        gui: viser.GuiApi,
        live: Live,
        pushed: Callable[[np.ndarray], None],
        tell: Callable[[str], None],
    ):
        self._live, self._pushed, self._tell = live, pushed, tell
        self._run = gui.add_button_group("", self._labels())
        self._run.on_click(self._on_run)
        push = gui.add_button_group("push", tuple(_PUSHES), hint="By the pelvis.")
        push.on_click(self._on_push)
        speed = gui.add_slider("slow motion", SLOWEST, 1.0, SLOWEST, 1.0)
        self._speed: Bound[float] = Bound(
            *(speed, live.engine, lambda: live.speed),
            *(lambda _, value: setattr(live, "speed", value), tell),
        )

    def sync(self) -> None:
        """Show what the engine has."""
        labels = self._labels()
        if self._run.options != labels:
            self._run.options = labels
        self._speed.sync()

    def pause(self) -> None:
        """Pause, or go on."""
        self._live.paused = not self._live.paused
        self._live.trouble = ""

    def step(self) -> None:
        """One step; of a robot that moves, the last."""
        if self._live.paused:
            self._live.single_step()
        self._live.paused = True

    def reset(self) -> None:
        """Put the robot on its feet where it began."""
        self._live.engine.post(lambda engine: engine.reset(), self._tell)

    def push(self, forward: float, left: float) -> None:
        """Push the robot, and show from where."""

        def push(engine: Engine) -> None:
            self._pushed(engine.push(forward, left))

        self._live.engine.post(push, self._tell)

    def _labels(self) -> tuple[str, ...]:
        return ("go on" if self._live.paused else "pause", "step", "reset")

    def _on_run(self, event: Any) -> None:
        pressed = event.target.value
        if pressed == "step":
            self.step()
        elif pressed == "reset":
            self.reset()
        else:
            self.pause()

    def _on_push(self, event: Any) -> None:
        self.push(*_PUSHES[event.target.value])


class DecksView:
    """Two bases, a cross-fade between them, a queue."""

    def __init__(self, gui: viser.GuiApi, engine: Engine, tell: Callable[[str], None]):
        self._engine, self._tell = engine, tell
        names, decks = tuple(engine.bundle.bases), engine.decks
        a = gui.add_dropdown("deck A", names, initial_value=decks.a)
        b = gui.add_dropdown("deck B", names, initial_value=decks.b)
        self._play = gui.add_button_group("cross-fade", self._labels())
        self._play.on_click(self._on_play)
        fade = gui.add_slider(
            "fade steps", *FADES, 1, decks.fade, hint="50 steps are a second."
        )
        self._inputs: list[Bound] = [
            Bound(a, engine, lambda: decks.a, lambda e, v: e.load("a", v), tell),
            Bound(b, engine, lambda: decks.b, lambda e, v: e.load("b", v), tell),
            Bound(fade, engine, lambda: decks.fade, lambda e, v: e.fade(v), tell),
        ]
        with gui.add_folder("Queue", expand_by_default=False):
            self._next = gui.add_dropdown("next", names)
            self._seconds = gui.add_slider("seconds", 1.0, 12.0, 0.5, _QUEUED_S)
            edit = gui.add_button_group("", ("add", "clear"))
            edit.on_click(self._on_queue)
            loop = gui.add_checkbox("loop", True, hint="Bases and the queue go round.")
            self._queued = gui.add_html("")
        mixer = engine.mixer
        self._inputs.append(
            Bound(loop, engine, lambda: mixer.loop, lambda e, v: e.loop(v), tell)
        )

    def sync(self) -> None:
        """Show what the engine has."""
        labels = self._labels()
        if self._play.options != labels:
            self._play.options = labels
        for one in self._inputs:
            one.sync()
        queue = ", ".join(cue.name for cue in tuple(self._engine.mixer.queue))
        told = _QUEUED.format(html.escape(f"then {queue}" if queue else "nothing yet"))
        if self._queued.content != told:
            self._queued.content = told

    def other(self) -> None:
        """Cross-fade to the deck that is not heard."""
        deck = "b" if self._engine.decks.live == "a" else "a"
        self._engine.post(lambda engine: engine.cross(deck), self._tell)

    def _labels(self) -> tuple[str, ...]:
        decks = self._engine.decks
        marks = ["▶" if decks.live == deck else "→" for deck in ("a", "b")]
        return (f"{marks[0]} A {decks.a}", f"{marks[1]} B {decks.b}")

    def _on_play(self, event: Any) -> None:
        deck = "a" if event.target.value[2] == "A" else "b"
        self._engine.post(lambda engine: engine.cross(deck), self._tell)

    def _on_queue(self, event: Any) -> None:
        if event.target.value == "clear":
            self._engine.post(lambda engine: engine.mixer.queue.clear(), self._tell)
            return
        cue = Cue(self._next.value, self._seconds.value, fade=self._engine.decks.fade)
        self._engine.post(lambda engine: engine.enqueue(cue), self._tell)

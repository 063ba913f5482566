"""Controls of the page, bound to the engine: transport, decks, faders.

The engine is authoritative: what somebody does on the page is posted to it, and what a
preset or a text changes there is shown on the page.
"""

import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import viser

from spectral_skills.control.mixer import FADES, Cue
from spectral_skills.desk.engine import (
    PUSH,
    SLOWEST,
    Action,
    Deck,
    Engine,
    Live,
    Notify,
)
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import Catalogue, FaderLabel, in_words

Press = Callable[[], None]
"""What a button does."""
_PUSHES = {"← left": (0.0, PUSH), "forward": (PUSH, 0.0), "right →": (0.0, -PUSH)}
_QUEUED_S = 4.0
_RAMPS = (5, 12, 25, 50, 100)
"""Lengths of ramps to choose from, in control steps."""
_FINE, _COARSE, _LONG = 0.05, 0.1, 5.0
"""Steps of a short and of a long fader, and the reach from which a fader is long."""
_NOTHING = "nothing noticeable"
_PICK = "pick a direction"
_FIRST, _LAST = 1000.0, 2000.0
"""Positions on the page of the first strip and of the list below the strips."""


@cache
def _template() -> Any:
    text = Path(__file__).with_name("panels.html").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True).from_string(text).module


def render(panel: str, **values: Any) -> str:
    """Return the HTML of a panel of `panels.html`."""
    return str(getattr(_template(), panel)(**values))


class Controls:
    """Everything on the page that shows the engine's state or changes it."""

    def __init__(self, gui: viser.GuiApi, live: Live, notify: Notify):
        self.gui, self.live, self.engine, self.notify = gui, live, live.engine, notify
        self._syncs: list[Press] = []

    def post(self, action: Action) -> None:
        """Do something before the next step; if it cannot be done, say why."""
        self.engine.post(action, self.notify)

    def sync(self) -> None:
        """Show what the engine has."""
        for one in tuple(self._syncs):
            one()

    def show(self, handle: Any, attribute: str, read: Callable[[], Any]) -> None:
        """Keep an attribute of something on the page as `read` says."""

        def sync() -> None:
            if getattr(handle, attribute) != (now := read()):
                setattr(handle, attribute, now)

        self._syncs.append(sync)

    def html(
        self, panel: str, values: Callable[[], dict], order: float | None = None
    ) -> None:
        """Add a panel of `panels.html`."""
        handle = self.gui.add_html("", order=order)
        self.show(handle, "content", lambda: render(panel, **values()))

    def buttons(
        self, label: str, actions: Callable[[], Mapping[str, Press]], **options: Any
    ) -> viser.GuiButtonGroupHandle:
        """Add buttons; `actions` are their present labels and what each does."""
        places: dict[str, int] = {}  # A label may change while it is pressed.

        def labels() -> tuple[str, ...]:
            found = tuple(actions())
            places.update((name, place) for place, name in enumerate(found))
            return found

        handle = self.gui.add_button_group(label, labels(), **options)
        handle.on_click(
            lambda event: list(actions().values())[places[event.target.value]]()
        )
        self.show(handle, "options", labels)
        return handle

    def bind(
        self, handle: Any, read: Callable[[], Any], write: Callable[[Engine, Any], None]
    ) -> None:
        """Let an input show a value of the engine and change it.

        While a change is on its way to the engine nothing is shown: a fader must not
        jump while it is dragged.
        """
        lock, shown, posted = threading.Lock(), handle.value, 0

        def sync() -> None:
            nonlocal shown
            with lock:
                now = read()
                if posted or now == shown:
                    return
                shown = now
            handle.value = now

        async def changed(event: Any) -> None:
            nonlocal shown, posted
            if event.client is None:
                return  # changed by `sync`
            value = event.target.value
            with lock:
                posted, shown = posted + 1, value
            self.post(lambda engine: do(engine, value))

        def do(engine: Engine, value: Any) -> None:
            nonlocal posted
            try:
                write(engine, value)
            finally:
                with lock:
                    posted -= 1

        handle.on_update(changed)
        self._syncs.append(sync)


def add_transport(
    controls: Controls, pushed: Callable[[np.ndarray], None]
) -> list[Press]:
    """Add pause, step, reset, push and slow motion; return the first three."""
    gui, live = controls.gui, controls.live

    def pause() -> None:
        live.paused = not live.paused
        live.trouble = ""

    def step() -> None:
        if live.paused:
            live.single_step()
        live.paused = True

    def push(forward: float, left: float) -> None:
        controls.post(lambda engine: pushed(engine.push(forward, left)))

    def actions() -> dict[str, Press]:
        reset = partial(controls.post, Engine.reset)
        first = "continue" if live.paused else "pause"
        return {first: pause, "step": step, "reset": reset}

    controls.buttons("", actions)
    pushes = {label: partial(push, *speed) for label, speed in _PUSHES.items()}
    controls.buttons("push", lambda: pushes, hint="At the pelvis.")
    speed = gui.add_slider("slow motion", SLOWEST, 1.0, SLOWEST, 1.0)
    controls.bind(speed, lambda: live.speed, lambda _, v: setattr(live, "speed", v))
    return list(actions().values())


def add_decks(controls: Controls) -> Press:
    """Add two bases, a cross-fade between them and a queue; return what plays the deck
    that is not playing."""
    gui, engine, post = controls.gui, controls.engine, controls.post
    names, decks, mixer = tuple(engine.bundle.bases), engine.decks, engine.mixer
    a = gui.add_dropdown("deck A", names, initial_value=decks.a)
    b = gui.add_dropdown("deck B", names, initial_value=decks.b)

    def cross(deck: Deck) -> Press:
        return lambda: post(lambda engine: engine.cross(deck))

    def labelled(deck: Deck, name: str) -> str:
        return f"{'▶' if decks.live == deck else '→'} {deck.upper()} {name}"

    controls.buttons(
        "cross-fade",
        lambda: {
            labelled("a", decks.a): cross("a"),
            labelled("b", decks.b): cross("b"),
        },
    )
    controls.html("sources", lambda: {"bases": sources(engine)})
    hint = "50 steps are a second."
    fade = gui.add_slider("fade steps", *FADES, 1, decks.fade, hint=hint)
    with gui.add_folder("Queue", expand_by_default=False):
        after = gui.add_dropdown("next", names)
        seconds = gui.add_slider("seconds", 1.0, 12.0, 0.5, _QUEUED_S)

        def add() -> None:
            cue = Cue(after.value, seconds.value, fade=decks.fade)
            post(lambda engine: engine.enqueue(cue))

        edits = {"add": add, "clear": lambda: post(lambda e: e.mixer.queue.clear())}
        controls.buttons("", lambda: edits)
        loop = gui.add_checkbox("loop", True, hint="Repeat bases and the queue.")
        queued = controls.engine.mixer.queue
        controls.html("queue", lambda: {"names": [cue.name for cue in tuple(queued)]})
    controls.bind(a, lambda: decks.a, lambda e, value: e.load("a", value))
    controls.bind(b, lambda: decks.b, lambda e, value: e.load("b", value))
    controls.bind(fade, lambda: decks.fade, lambda e, value: e.fade(value))
    controls.bind(loop, lambda: mixer.loop, lambda e, value: e.loop(value))
    return lambda: cross("b" if decks.live == "a" else "a")()


def sources(engine: Engine) -> list[tuple[str, str, str]]:
    """Name, description and origin of the bases on the decks."""
    names = dict.fromkeys((engine.decks.a, engine.decks.b))
    found = [engine.bundle.bases[name] for name in names]
    return [(b.name, b.text, b.origin or "generated by this project") for b in found]


class Strips:
    """A fader for each direction and what it does, and a list to add more from."""

    def __init__(self, controls: Controls):
        self._controls, self._lock = controls, threading.Lock()
        self._names: list[str] = []
        """Directions that have a strip."""
        gui, directions = controls.gui, controls.engine.bundle.directions
        if directions is None:
            gui.add_html("This bundle has no directions, so there are no faders.")
            return
        self._catalogue = Catalogue(directions)
        release = gui.add_button(
            "Release all faders", color="red", icon=viser.Icon.HAND_STOP
        )
        release.on_click(lambda _: self.release())
        for label in self._catalogue.chosen:
            self._add(label)
        self._more = gui.add_dropdown(
            "more faders", self._others(), initial_value=_PICK, order=_LAST
        )
        self._more.on_update(self._on_more)

    def release(self) -> None:
        self._controls.post(lambda engine: engine.mixer.release())

    def sync(self) -> None:
        """Give a strip to every direction that was moved by others."""
        for name, channel in self._controls.engine.mixer.channels.items():
            if channel.used:
                self._show(name)

    def _others(self) -> tuple[str, ...]:
        labels = self._catalogue.labels
        others = [one.line for name, one in labels.items() if name not in self._names]
        return (_PICK, *others)

    def _show(self, name: str) -> None:
        """Give a direction a strip, if it has none."""
        with self._lock:
            if name not in self._names:
                self._add(self._catalogue.labels[name])
                self._more.options = self._others()
                self._more.value = _PICK

    def _on_more(self, event: Any) -> None:
        if event.client is None:
            return
        for name, label in self._catalogue.labels.items():
            if label.line == event.target.value:
                self._show(name)

    def _add(self, label: FaderLabel) -> None:
        """Add the strip of a direction: a fader, its effects, and buttons while it is
        in use; without the others a page is clearer."""
        controls, order = self._controls, _FIRST + len(self._names)
        name, reach, (low, high) = label.direction, label.reach, label.safe
        less, more = (end or "safe" for end in label.ends)
        slider = controls.gui.add_slider(
            label.title,
            min=-reach,
            max=reach,
            step=_FINE if reach < _LONG else _COARSE,
            initial_value=0.0,
            order=order,
            marks=((low, less), (0.0, "0"), (high, more)) if low < 0 < high else None,
            hint=f"{name}: moves the skill along this direction. Up to the marks, the "
            "robot stayed on its feet on every base.",
        )
        channel = controls.engine.mixer.channel(name)

        def mute(engine: Engine) -> None:
            engine.mixer.hear(name, mute=not channel.mute)

        def solo(engine: Engine) -> None:
            engine.mixer.hear(name, solo=not channel.solo)

        def ramp(engine: Engine) -> None:
            longer = [steps for steps in _RAMPS if steps > channel.fader.ramp]
            engine.mixer.ramp(name, (longer or _RAMPS)[0])

        def actions() -> dict[str, Press]:
            return {
                "MUTED" if channel.mute else "mute": partial(controls.post, mute),
                "SOLO ON" if channel.solo else "solo": partial(controls.post, solo),
                f"ramp {channel.fader.ramp / g1.CONTROL_HZ:g} s": partial(
                    controls.post, ramp
                ),
            }

        controls.bind(
            slider, lambda: channel.position, lambda e, v: e.mixer.move(name, v)
        )
        effects = partial(self._effects, label, channel)
        controls.html("effects", effects, order + 0.1)
        buttons = controls.buttons("", actions, order=order + 0.2, visible=channel.used)
        controls.show(buttons, "visible", lambda: channel.used)
        self._names.append(name)

    def _effects(self, label: FaderLabel, channel: Any) -> dict[str, Any]:
        """What a fader does where it stands or, at zero, would do at its mark."""
        at, catalogue = channel.position, self._catalogue
        base = catalogue.base(self._controls.engine.frame.mixed.name)
        shown = at or label.safe[1] or 1.0
        predicted = catalogue.predicted(label.direction, shown)
        measured = catalogue.measured(label.direction, shown, base)
        if not isinstance(measured, str):
            measured = in_words(measured, label.parts) or _NOTHING
        return {
            "at": f"{shown:+g}",
            "moved": bool(at),
            "beyond": not label.safe[0] <= at <= label.safe[1],
            "predicted": in_words(predicted, label.parts, 1) or _NOTHING,
            "measured": measured,
            "base": base,
        }

"""Channel strips: a fader for each direction, and what it does."""

import threading
from typing import Any

import viser

from spectral_skills.desk.controls import Bound, HtmlPanel, Notify
from spectral_skills.desk.engine import Engine
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import Catalogue, FaderLabel, in_words

RAMPS_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_FINE, _COARSE, _LONG = 0.05, 0.1, 5.0
"""Steps of a short and of a long fader, and the reach from which a fader is long."""
_NOTHING = "nothing noticeable"
_PICK = "pick a direction"
_FIRST, _LAST = 1000.0, 2000.0
"""Positions on the page of the first strip and of the list below the strips."""


class Strip:
    """One direction on the page."""

    def __init__(
        self,
        gui: viser.GuiApi,
        engine: Engine,
        catalogue: Catalogue,
        label: FaderLabel,
        notify: Notify,
        order: float,
    ):
        self._label, self._engine, self._catalogue = label, engine, catalogue
        self._notify, self._gui, self._order = notify, gui, order
        name, reach, (low, high) = label.direction, label.reach, label.safe
        less, more = (end or "safe" for end in label.ends)
        slider = gui.add_slider(
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
        self._channel = channel = engine.mixer.channel(name)
        self._fader: Bound[float] = Bound(
            *(slider, engine, lambda: channel.position),
            *(lambda engine, value: engine.mixer.move(name, value), notify),
        )
        self._effects = HtmlPanel(gui, "effects", order + 0.1)
        self._buttons: viser.GuiButtonGroupHandle | None = None

    def sync(self, base: str) -> None:
        """Show what the engine has, while a base is playing."""
        self._fader.sync()
        self._show_buttons()
        label, at, catalogue = self._label, self._channel.position, self._catalogue
        base, shown = catalogue.base(base), at or label.safe[1] or 1.0
        predicted = catalogue.predicted(label.direction, shown)
        measured = catalogue.measured(label.direction, shown, base)
        if not isinstance(measured, str):
            measured = in_words(measured, label.parts) or _NOTHING
        self._effects.show(
            at=f"{shown:+g}",
            moved=bool(at),
            beyond=not label.safe[0] <= at <= label.safe[1],
            predicted=in_words(predicted, label.parts, 1) or _NOTHING,
            measured=measured,
            base=base,
        )

    def _show_buttons(self) -> None:
        """Show buttons for a fader in use; without the others a page is clearer."""
        channel, labels = self._channel, self._labels()
        used = bool(channel.position or channel.mute or channel.solo)
        if self._buttons is None:
            if used:
                order = self._order + 0.2
                self._buttons = self._gui.add_button_group("", labels, order=order)
                self._buttons.on_click(self._on_click)
            return
        if self._buttons.options != labels:
            self._buttons.options = labels
        self._buttons.visible = used

    def _labels(self) -> tuple[str, ...]:
        channel = self._channel
        seconds = channel.fader.ramp / g1.CONTROL_HZ
        mute = "MUTED" if channel.mute else "mute"
        solo = "SOLO ON" if channel.solo else "solo"
        return (mute, solo, f"ramp {seconds:g} s")

    async def _on_click(self, event: Any) -> None:
        pressed, name = str(event.target.value).lower(), self._label.direction

        def press(engine: Engine) -> None:
            channel = engine.mixer.channel(name)
            if pressed.startswith("mute"):
                engine.mixer.hear(name, mute=not channel.mute)
            elif pressed.startswith("solo"):
                engine.mixer.hear(name, solo=not channel.solo)
            else:
                seconds = channel.fader.ramp / g1.CONTROL_HZ
                longer = [s for s in RAMPS_S if s > seconds + 1e-6]
                steps = round((longer or RAMPS_S)[0] * g1.CONTROL_HZ)
                engine.mixer.ramp(name, steps)

        self._engine.post(press, self._notify)


class Strips:
    """All strips of the page, and a list to add more from."""

    def __init__(self, gui: viser.GuiApi, engine: Engine, notify: Notify):
        self._gui, self._engine, self._notify = gui, engine, notify
        self._strips: dict[str, Strip] = {}
        self._lock = threading.Lock()
        directions = engine.bundle.directions
        if directions is None:
            gui.add_html("This bundle has no directions, so there are no faders.")
            return
        self._catalogue = Catalogue(directions)
        release = gui.add_button(
            "Release all faders", color="red", icon=viser.Icon.HAND_STOP
        )
        release.on_click(lambda _: engine.post(lambda e: e.mixer.release(), notify))
        for label in self._catalogue.chosen:
            self._add(label)
        self._more = gui.add_dropdown(
            "more faders", self._others(), initial_value=_PICK, order=_LAST
        )
        self._more.on_update(self._on_more)

    def sync(self, base: str) -> None:
        """Show what the engine has; a direction moved by others gets a strip."""
        for name, channel in self._engine.mixer.channels.items():
            if channel.position or channel.mute or channel.solo:
                self._show(name)
        for strip in list(self._strips.values()):
            strip.sync(base)

    def _others(self) -> tuple[str, ...]:
        labels = self._catalogue.labels
        others = [one.line for name, one in labels.items() if name not in self._strips]
        return (_PICK, *others)

    def _add(self, label: FaderLabel) -> None:
        order = _FIRST + len(self._strips)
        given = self._gui, self._engine, self._catalogue, label, self._notify
        self._strips[label.direction] = Strip(*given, order=order)

    def _show(self, name: str) -> None:
        """Give a direction a strip, if it has none."""
        with self._lock:
            if name in self._strips:
                return
            self._add(self._catalogue.labels[name])
            self._more.options = self._others()
            self._more.value = _PICK

    def _on_more(self, event: Any) -> None:
        if event.client is None:
            return
        for name, label in self._catalogue.labels.items():
            if label.line == event.target.value:
                self._show(name)

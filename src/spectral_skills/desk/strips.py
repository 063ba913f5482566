"""Channel strips: a fader for each direction, and what it does."""

import html
import threading
from collections.abc import Callable
from typing import Any

import viser

from spectral_skills.desk.bound import Bound
from spectral_skills.desk.engine import Engine
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import Catalogue, FaderLabel, in_words

RAMPS_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_FINE, _COARSE, _WIDE = 0.05, 0.1, 5.0
"""Steps of a fader, and the reach from which the second counts."""
_NOTHING = "nothing one would notice"


class Strip:
    """One direction on the page."""

    def __init__(
        self,
        gui: viser.GuiApi,
        engine: Engine,
        catalogue: Catalogue,
        label: FaderLabel,
        tell: Callable[[str], None],
        order: float,
    ):
        self.label, self._engine, self._catalogue = label, engine, catalogue
        self._tell, self._base, self._written = tell, "", ""
        name, reach = label.direction, label.reach
        less, more = label.ends
        low, high = label.safe
        marks = [(low, less or "safe"), (0.0, "0"), (high, more or "safe")]
        slider = gui.add_slider(
            label.title,
            min=-reach,
            max=reach,
            step=_FINE if reach < _WIDE else _COARSE,
            initial_value=0.0,
            order=order,
            marks=tuple(marks) if low < 0 < high else None,
            hint=f"{name}: moves the skill along this direction. Marks: as far as all "
            "bases were measured to stand.",
        )
        channel = engine.mixer.channel(name)
        self._fader: Bound[float] = Bound(
            slider,
            engine,
            lambda: channel.position,
            lambda engine, value: engine.mixer.move(name, value),
            tell,
        )
        self._line = gui.add_html("", order=order + 0.1)
        self._buttons: viser.GuiButtonGroupHandle | None = None
        self._channel, self._gui, self._order = channel, gui, order

    def sync(self, base: str) -> None:
        """Show what the engine has, while a base is playing."""
        self._fader.sync()
        self._show_buttons()
        self._base = self._catalogue.base(base)
        line = self._described()
        if line != self._written:
            self._line.content = self._written = line

    def _show_buttons(self) -> None:
        """A fader at rest needs no buttons, and a page with fewer is read faster."""
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
        channel = self._engine.mixer.channel(self.label.direction)
        seconds = channel.fader.ramp / g1.CONTROL_HZ
        mute = "MUTED" if channel.mute else "mute"
        solo = "SOLO ON" if channel.solo else "solo"
        return (mute, solo, f"ramp {seconds:g} s")

    async def _on_click(self, event: Any) -> None:
        pressed, name = str(event.target.value).lower(), self.label.direction

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

        self._engine.post(press, self._tell)

    def _described(self) -> str:
        """Predicted beside measured; of a fader at rest, what it would do."""
        label, at = self.label, self._channel.position
        shown = at or label.safe[1] or 1.0
        predicted = in_words(
            self._catalogue.predicted(label.direction, shown), label.parts, 1
        )
        measured = self._catalogue.measured(label.direction, shown, self._base)
        if not isinstance(measured, str):
            measured = in_words(measured, label.parts) or _NOTHING
        beyond = not label.safe[0] <= at <= label.safe[1]
        return _LINE.format(
            at=f"{shown:+g}",
            shade="#c92a2a" if beyond else "#495057" if at else "#adb5bd",
            predicted=html.escape(predicted or _NOTHING),
            measured=html.escape(measured),
            base=html.escape(self._base),
        )


_LINE = (
    '<table style="font-size:11px;line-height:1.25;color:{shade};margin:0 0 2px 10px;'
    'border-spacing:0"><tr><td rowspan="2" style="padding-right:8px;font-weight:600;'
    'min-width:46px">at {at}</td>'
    '<td style="padding-right:6px;opacity:.75">predicted</td><td>{predicted}</td></tr>'
    '<tr><td style="padding-right:6px;opacity:.75">measured</td>'
    '<td>{measured} <span style="opacity:.6">on {base}</span></td></tr></table>'
)


class Strips:
    """All strips of the page, and a list to add more from."""

    def __init__(self, gui: viser.GuiApi, engine: Engine, tell: Callable[[str], None]):
        self._gui, self._engine, self._tell = gui, engine, tell
        self._strips: dict[str, Strip] = {}
        self._lock = threading.Lock()
        directions = engine.bundle.directions
        if directions is None:
            gui.add_html("This bundle has no directions, so there are no faders.")
            return
        self._catalogue = Catalogue(directions)
        panic = gui.add_button(
            "Release all faders", color="red", icon=viser.Icon.HAND_STOP
        )
        panic.on_click(lambda _: engine.post(lambda e: e.mixer.release(), tell))
        for label in self._catalogue.chosen:
            self._add(label)
        self._more = gui.add_dropdown(
            "more faders", self._others(), initial_value=_PICK, order=_LAST
        )
        self._more.on_update(self._on_more)

    def sync(self, base: str) -> None:
        """Show what the engine has; a direction that somebody else has moved gets a
        strip too."""
        for name, channel in self._engine.mixer.channels.items():
            if channel.position or channel.mute or channel.solo:
                self._show(name)
        for strip in list(self._strips.values()):
            strip.sync(base)

    def _others(self) -> tuple[str, ...]:
        labels = self._catalogue.labels
        others = [
            label.line for name, label in labels.items() if name not in self._strips
        ]
        return (_PICK, *others)

    def _add(self, label: FaderLabel) -> None:
        strip = Strip(
            self._gui,
            self._engine,
            self._catalogue,
            label,
            self._tell,
            order=_FIRST + len(self._strips),
        )
        self._strips[label.direction] = strip

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
        picked = event.target.value
        for name, label in self._catalogue.labels.items():
            if label.line == picked:
                self._show(name)


_PICK = "pick a direction"
_FIRST, _LAST = 1000.0, 2000.0
"""Orders of the strips on the page, and of the list below them."""

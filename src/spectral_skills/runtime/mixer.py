"""Where the skill of every control step comes from: decks, a queue, faders.

    z(t) = (1 - w) z_deck(t) + w z_other deck(t) + V eta(t)

Replaying, chaining, steering and planning are all this. Nothing here waits, and
everything is changed between two steps by the thread that takes them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spectral_skills.robot import g1
from spectral_skills.runtime.bundle import Bundle
from spectral_skills.runtime.planning import PlanFor
from spectral_skills.runtime.streams import (
    BaseStream,
    HeldStream,
    Moment,
    PlannedStream,
    Stream,
)
from spectral_skills.spectral.steering import Fader

FADES = (2, 30)
"""Steps of a cross-fade, at least and at most."""
FADE = 10
RESCUE = 25
"""Steps to standing when a source has failed."""
REST = "stand"
"""The base that is played when nothing else is."""


@dataclass(frozen=True)
class Cue:
    """Something to play."""

    name: str
    """A base, or with `planned` a sentence that the planner has learned."""
    seconds: float | None = None
    """None: until something else is told; of a base in a queue, once to its end."""
    fade: int = FADE
    planned: bool = False
    knobs: tuple[tuple[str, float], ...] = ()
    """Directions that are up meanwhile, and how much."""


@dataclass
class Channel:
    """One direction: where its fader stands and whether it is heard."""

    position: float = 0.0
    mute: bool = False
    solo: bool = False
    fader: Fader = field(default_factory=Fader)


@dataclass(frozen=True)
class Mixed:
    """One control step."""

    skill: np.ndarray
    """(d,) what is commanded."""
    base: np.ndarray
    """(d,) the same without what the faders add."""
    row: np.ndarray | None
    """(36,) of the base's reference."""
    amplitudes: np.ndarray
    """(k,)"""
    name: str
    fade: float
    """0: only the deck that was playing; 1: only the new one."""


class Mixer:
    """Two decks, a queue and a channel for every direction."""

    def __init__(self, bundle: Bundle, planner: PlanFor | None = None):
        self.bundle, self._planner = bundle, planner
        directions = bundle.directions
        self.names = () if directions is None else directions.names
        width = bundle.manifest.layout.skill
        self._vectors = np.zeros((0, width))
        if directions is not None:
            self._vectors = directions.vectors.astype(np.float64)
        self.channels = {name: Channel() for name in self.names}
        self.queue: deque[Cue] = deque()
        self.loop = True
        """Whether a base begins again when it is over, and the queue when it is."""
        self._knobs: tuple[tuple[str, float], ...] = ()
        self._deck: Stream = BaseStream(bundle.base(REST))
        self._other: Stream | None = None
        self._fade = (0, 1)
        """Steps made of a cross-fade, and all of it."""
        self._cue: Cue | None = None
        self._left: int | None = None
        """Steps until the queue goes on."""

    @property
    def playing(self) -> str:
        """What is heard, or will be when a cross-fade is over."""
        return (self._other or self._deck).name

    @property
    def stream(self) -> Stream:
        """The stream behind it."""
        return self._other or self._deck

    def play(self, cue: Cue | str) -> None:
        """Cross-fade to something now; the queue is given up."""
        cue = Cue(cue) if isinstance(cue, str) else cue
        self._check(cue)
        self.queue.clear()
        self._start(cue)

    def enqueue(self, cues: Sequence[Cue]) -> None:
        """Play these after what is playing."""
        for cue in cues:
            self._check(cue)
        self.queue.extend(cues)
        if self.queue and self._left is None and not self._ends():
            self._left = 0

    def move(self, name: str, position: float) -> None:
        """Put a fader somewhere; it takes its ramp to get there."""
        if not np.isfinite(position):
            raise ValueError(f"{name}: a fader at {position}")
        self.channel(name).position = float(position)
        self._listen()

    def hear(self, name: str, *, mute: bool | None = None, solo: bool | None = None):
        """Mute a channel, or hear it alone."""
        channel = self.channel(name)
        channel.mute = channel.mute if mute is None else mute
        channel.solo = channel.solo if solo is None else solo
        self._listen()

    def ramp(self, name: str, steps: int) -> None:
        """Steps that a channel's fader takes from now on."""
        if steps < 1:
            raise ValueError(f"{name}: a ramp of {steps} steps, must be at least 1")
        self.channel(name).fader.ramp = steps

    def release(self) -> None:
        """All faders back to zero."""
        for channel in self.channels.values():
            channel.position, channel.mute, channel.solo = 0.0, False, False
        self._knobs = ()
        self._listen()

    def rescue(self, skill: np.ndarray) -> None:
        """From the last skill that was sound to standing, whatever was playing."""
        self.queue.clear()
        self.release()
        for channel in self.channels.values():
            channel.fader = Fader(ramp=channel.fader.ramp)  # the skill has them in it
        self._deck, self._other = HeldStream(skill), None
        self._start(Cue(REST, fade=RESCUE))

    def channel(self, name: str) -> Channel:
        """A channel by the name of its direction, or the part before a space."""
        if name not in self.channels:
            if self.bundle.directions is None:
                raise ValueError(f"{self.bundle.folder}: a bundle without directions")
            name = self.names[self.bundle.directions.index(name)]
        return self.channels[name]

    def step(self, history: np.ndarray) -> Mixed:
        """The next control step of a robot that has sensed a history (10, 93)."""
        self._go_on()
        moment, weight = self._faded(history)
        amplitudes = np.array([c.fader.step() for c in self.channels.values()])
        base = np.asarray(moment.skill, np.float64)
        skill = base + amplitudes @ self._vectors if amplitudes.any() else base
        return Mixed(skill, base, moment.row, amplitudes, self.playing, weight)

    def _faded(self, history: np.ndarray) -> tuple[Moment, float]:
        here = self._deck.next(history)
        if self._other is None:
            return here, 0.0
        there = self._other.next(history)
        made, all_of_it = self._fade
        weight = (made + 1) / (all_of_it + 1)
        skill = here.skill + weight * (there.skill - here.skill)
        self._fade = made + 1, all_of_it
        if made + 1 >= all_of_it:
            self._deck, self._other = self._other, None
        return Moment(skill, there.row if there.row is not None else here.row), weight

    def _go_on(self) -> None:
        """Start the next cue when its time has come."""
        if self._left is not None:
            self._left -= 1
        timed_out = self._left is not None and self._left < 0
        if not timed_out and not self.stream.over:
            return
        if self.queue:
            if self.loop and self._cue is not None and not self._cue.planned:
                self.queue.append(self._cue)
            self._start(self.queue.popleft())
        elif self.stream.over:
            self._start(Cue(REST))
        elif timed_out:
            self._left = None
            if self._cue is not None and self._cue.planned:
                self._start(Cue(REST))

    def _start(self, cue: Cue) -> None:
        self._check(cue)
        stream = self._stream(cue)
        if self._other is not None:
            self._deck = self._other  # a cross-fade that was under way is cut short
        self._other, self._fade = stream, (0, cue.fade)
        self._cue = cue
        seconds = cue.seconds
        self._left = None if seconds is None else round(seconds * g1.CONTROL_HZ)
        self._turn(cue.knobs)

    def _stream(self, cue: Cue) -> Stream:
        rest = self.bundle.base(REST)
        if not cue.planned:
            waits = bool(self.queue) and cue.seconds is None
            return BaseStream(self.bundle.base(cue.name), self.loop and not waits)
        assert self._planner is not None
        every = self.bundle.manifest.plan_every
        return PlannedStream(self._planner, cue.name, every, rest)

    def _check(self, cue: Cue) -> None:
        """Refuse what cannot be played, before anything changes."""
        low, high = FADES
        if not low <= cue.fade <= high:
            raise ValueError(
                f"a cross-fade of {cue.fade} steps, must be {low} to {high}"
            )
        if cue.seconds is not None and not cue.seconds > 0:
            raise ValueError(f"{cue.name}: {cue.seconds} s, must be above 0")
        for name, amplitude in cue.knobs:
            self.channel(name)
            if not np.isfinite(amplitude):
                raise ValueError(f"{name}: a fader at {amplitude}")
        if not cue.planned:
            self.bundle.base(cue.name)
        elif self._planner is None:
            raise ValueError(f"{self.bundle.folder}: a bundle without a planner")

    def _turn(self, knobs: tuple[tuple[str, float], ...]) -> None:
        """Release the knobs of what was playing, and turn up those of what is."""
        for name, _ in self._knobs:
            self.channel(name).position = 0.0
        for name, amplitude in knobs:
            self.channel(name).position = amplitude
        self._knobs = knobs
        self._listen()

    def _ends(self) -> bool:
        """Whether what is playing comes to an end by itself."""
        return isinstance(self.stream, BaseStream) and not self.stream.loop

    def _listen(self) -> None:
        """Send every fader where it is heard."""
        alone = any(channel.solo for channel in self.channels.values())
        for channel in self.channels.values():
            silent = channel.mute or (alone and not channel.solo)
            target = 0.0 if silent else channel.position
            if target != channel.fader.target:
                channel.fader.move(target)


@dataclass(frozen=True)
class Program:
    """Cues one after the other, and faders that are up all the while."""

    cues: tuple[Cue, ...]
    knobs: tuple[tuple[str, float], ...] = ()
    loop: bool = True

    def __call__(self, mixer: Mixer) -> None:
        mixer.loop = self.loop
        first, *others = self.cues
        mixer.play(first)
        mixer.enqueue(others)
        for name, amplitude in self.knobs:
            mixer.move(name, amplitude)

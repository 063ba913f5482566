"""The mixer: where the skill of every control step comes from, live or offline.

    z(t) = (1 - w) z_deck(t) + w z_other deck(t) + V eta(t)      eq. latent-steering

Replaying, chaining, steering and planning are all this. `steer` and `chain` make whole
streams; `Mixer` makes one step after the other and is changed between two steps by the
thread that takes them. Only NumPy is needed.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.schedules import RAMP_STEPS
from spectral_skills.control.streams import (
    BaseStream,
    HeldStream,
    LivePlanner,
    LiveStream,
    PlannedStream,
    StreamStep,
)
from spectral_skills.robot import g1

FADES = (2, 30)
"""Fewest and most steps of a live cross-fade."""
FADE = 10
RESCUE = 25
"""Number of steps to standing when a source has failed."""
REST = "stand"
"""Base that is played when nothing else is."""


def steer(
    skills: np.ndarray, directions: np.ndarray, amplitudes: np.ndarray
) -> np.ndarray:
    """Skills (T, d) moved along directions (k, d) by amplitudes (T, k)."""
    if skills.ndim != 2 or not np.issubdtype(skills.dtype, np.floating):
        raise ValueError(
            f"skills are {skills.dtype} of shape {skills.shape}, must be floats (T, d)"
        )
    steps, d = skills.shape
    if directions.ndim != 2 or directions.shape[1] != d:
        raise ValueError(
            f"directions have shape {directions.shape}, must be (k, {d}), one "
            f"direction a row, for skills of shape {skills.shape}"
        )
    k = len(directions)
    if amplitudes.shape != (steps, k):
        raise ValueError(
            f"amplitudes have shape {amplitudes.shape}, must be ({steps}, {k}): a row "
            "for every step, a column for every direction"
        )
    inputs = {"skills": skills, "directions": directions, "amplitudes": amplitudes}
    for name, values in inputs.items():
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, column = bad[0].tolist()
            raise ValueError(f"{name}[{row}, {column}] is {values[row, column]}")
    steered = skills.copy()
    # Steps without amplitude are not touched: even -0.0 + 0.0 is another number.
    active = amplitudes.any(axis=1)
    steered[active] = skills[active] + amplitudes[active] @ directions
    return steered


def fade_weight(step: int | np.ndarray, steps: int) -> float | np.ndarray:
    """Weight of the new stream at a step of a cross-fade: never 0, never 1."""
    return (step + 1) / (steps + 1)


def crossfade(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Arrays (n, ...) of two streams over the n steps of a cross-fade, blended."""
    steps = len(before)
    weight = np.asarray(fade_weight(np.arange(steps), steps), before.dtype)
    weight = weight.reshape(-1, *(1,) * (before.ndim - 1))
    change = (after - before).astype(np.float64)
    # Rounded once, and from the nearer end, as the recorded results were made.
    near, far = before + weight * change, after - (1 - weight) * change
    return np.where(weight < 0.5, near, far).astype(before.dtype)


def chain(
    streams: Sequence[np.ndarray], switch_steps: int
) -> tuple[np.ndarray, list[slice]]:
    """One stream (T, d) made of several, and the steps at which it switches.

    The last `switch_steps` of a stream and the first of the next are played together.
    """
    if switch_steps < 0:
        raise ValueError(f"a switch of {switch_steps} steps, must not be negative")
    ends = (1, *(2,) * max(0, len(streams) - 2), 1)
    for number, (stream, switches) in enumerate(zip(streams, ends, strict=False)):
        if len(streams) > 1 and len(stream) < switches * switch_steps:
            raise ValueError(
                f"stream {number} has {len(stream)} steps, too few for {switches} "
                f"switches of {switch_steps}"
            )
    total, switches = streams[0], []
    for stream in streams[1:]:
        begin = len(total) - switch_steps
        blend = crossfade(total[begin:], stream[:switch_steps])
        total = np.concatenate((total[:begin], blend, stream[switch_steps:]))
        switches.append(slice(begin, begin + switch_steps))
    return total, switches


class Fader:
    """A live amplitude that takes `ramp` steps to reach a new target."""

    def __init__(self, value: float = 0.0, ramp: int = RAMP_STEPS):
        if ramp < 1:
            raise ValueError(f"ramp {ramp}, must be at least 1 step")
        self.value = self.target = _finite(value)
        self.ramp = ramp
        self._origin, self._left = self.value, 0

    def move(self, target: float) -> None:
        """Start towards a target from wherever the fader stands."""
        self.target = _finite(target)
        self._origin, self._left = self.value, self.ramp

    def step(self) -> float:
        """Amplitude at the next control step."""
        if self._left:
            self._left -= 1
            # Written from the target backwards, it ends there exactly.
            rest = (self.target - self._origin) * (self._left / self.ramp)
            self.value = self.target - rest
        return self.value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"amplitude {value}, must be finite")
    return float(value)


@dataclass(frozen=True)
class Cue:
    """Something to play."""

    name: str
    """Name of a base or, with `planned`, a sentence that the planner has learned."""
    seconds: float | None = None
    """Duration; None: until something else is played, and for a base in a queue once
    to its end."""
    fade: int = FADE
    planned: bool = False
    knobs: tuple[tuple[str, float], ...] = ()
    """Directions that are up meanwhile, and their amplitudes."""


@dataclass
class Channel:
    """One direction: where its fader stands and whether it is heard."""

    position: float = 0.0
    mute: bool = False
    solo: bool = False
    fader: Fader = field(default_factory=Fader)


@dataclass(frozen=True)
class Mixed:
    """One control step of the mixer."""

    skill: np.ndarray
    """(d,) commanded skill."""
    row: np.ndarray | None
    """(36,) reference pose of the base."""
    amplitudes: np.ndarray
    """(k,)"""
    name: str
    """Name of what is playing."""


class Mixer:
    """Two decks, a queue and a channel for every direction."""

    def __init__(self, bundle: Bundle, planner: LivePlanner | None = None):
        self.bundle, self._planner = bundle, planner
        directions = bundle.directions
        self.names = () if directions is None else directions.names
        self._vectors = np.zeros((0, bundle.manifest.layout.skill))
        if directions is not None:
            self._vectors = directions.vectors.astype(np.float64)
        self.channels = {name: Channel() for name in self.names}
        self.queue: deque[Cue] = deque()
        self.loop = True
        """Whether a base starts again at its end, and the queue at its own."""
        self._knobs: tuple[tuple[str, float], ...] = ()
        self._deck: LiveStream = BaseStream(bundle.base(REST))
        self._other: LiveStream | None = None
        self._fade = (0, 1)
        """Step and number of steps of the running cross-fade."""
        self._cue: Cue | None = None
        self._left: int | None = None
        """Number of steps until the queue goes on."""

    @property
    def stream(self) -> LiveStream:
        """The stream that is heard, or will be when a cross-fade is over."""
        return self._other or self._deck

    @property
    def playing(self) -> str:
        """The name of that stream."""
        return self.stream.name

    def play(self, cue: Cue | str, *others: Cue) -> None:
        """Cross-fade to something now, then play others; the old queue is dropped."""
        cue = Cue(cue) if isinstance(cue, str) else cue
        for one in (cue, *others):
            self._check(one)
        self.queue.clear()
        self._start(cue)
        self.enqueue(others)

    def enqueue(self, cues: Sequence[Cue]) -> None:
        """Play these after what is playing."""
        for cue in cues:
            self._check(cue)
        self.queue.extend(cues)
        if self.queue and self._left is None and not self._ends():
            self._left = 0

    def move(self, name: str, position: float) -> None:
        """Move a fader; it takes its ramp to get there."""
        if not np.isfinite(position):
            raise ValueError(f"{name}: a fader at {position}")
        self.channel(name).position = float(position)
        self._send()

    def hear(
        self, name: str, *, mute: bool | None = None, solo: bool | None = None
    ) -> None:
        """Mute a channel, or hear it alone."""
        channel = self.channel(name)
        channel.mute = channel.mute if mute is None else mute
        channel.solo = channel.solo if solo is None else solo
        self._send()

    def ramp(self, name: str, steps: int) -> None:
        """Set the number of steps that a channel's fader takes from now on."""
        if steps < 1:
            raise ValueError(f"{name}: a ramp of {steps} steps, must be at least 1")
        self.channel(name).fader.ramp = steps

    def release(self) -> None:
        """Return all faders to zero."""
        for channel in self.channels.values():
            channel.position, channel.mute, channel.solo = 0.0, False, False
        self._knobs = ()
        self._send()

    def rescue(self, skill: np.ndarray) -> None:
        """Go from the last sound skill to standing, whatever was playing."""
        self.queue.clear()
        self.release()
        for channel in self.channels.values():
            channel.fader = Fader(ramp=channel.fader.ramp)  # The skill includes them.
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
        self._advance()
        blend = self._blended(history)
        amplitudes = np.array([c.fader.step() for c in self.channels.values()])
        skill = np.asarray(blend.skill, np.float64)
        if amplitudes.any():
            skill = skill + amplitudes @ self._vectors
        return Mixed(skill, blend.row, amplitudes, self.playing)

    def _blended(self, history: np.ndarray) -> StreamStep:
        here = self._deck.next(history)
        if self._other is None:
            return here
        there = self._other.next(history)
        step, steps = self._fade
        weight = float(fade_weight(step, steps))
        skill = here.skill + weight * (there.skill - here.skill)
        self._fade = step + 1, steps
        if step + 1 >= steps:
            self._deck, self._other = self._other, None
        return StreamStep(skill, there.row if there.row is not None else here.row)

    def _advance(self) -> None:
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
            self._deck = self._other  # A cross-fade under way is cut short.
        self._other, self._fade = stream, (0, cue.fade)
        self._cue = cue
        seconds = cue.seconds
        self._left = None if seconds is None else round(seconds * g1.CONTROL_HZ)
        # Release the knobs of the last cue, then turn up those of this one.
        for name, _ in self._knobs:
            self.channel(name).position = 0.0
        for name, amplitude in cue.knobs:
            self.channel(name).position = amplitude
        self._knobs = cue.knobs
        self._send()

    def _stream(self, cue: Cue) -> LiveStream:
        if not cue.planned:
            once = bool(self.queue) and cue.seconds is None
            return BaseStream(self.bundle.base(cue.name), self.loop and not once)
        assert self._planner is not None
        every, rest = self.bundle.manifest.plan_every, self.bundle.base(REST)
        return PlannedStream(self._planner, cue.name, every, rest)

    def _check(self, cue: Cue) -> None:
        """Refuse what cannot be played, before anything changes."""
        check_fade(cue.fade)
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

    def _ends(self) -> bool:
        """Whether what is playing comes to an end by itself."""
        return isinstance(self.stream, BaseStream) and not self.stream.loop

    def _send(self) -> None:
        """Send every fader to where it is heard."""
        alone = any(channel.solo for channel in self.channels.values())
        for channel in self.channels.values():
            silent = channel.mute or (alone and not channel.solo)
            target = 0.0 if silent else channel.position
            if target != channel.fader.target:
                channel.fader.move(target)


def check_fade(steps: int) -> None:
    """Refuse a live cross-fade that is too short or too long."""
    if not FADES[0] <= steps <= FADES[1]:
        raise ValueError(
            f"a cross-fade of {steps} steps, must be {FADES[0]} to {FADES[1]}"
        )


@dataclass(frozen=True)
class Program:
    """Cues one after the other, and faders that are up all the while."""

    cues: tuple[Cue, ...]
    knobs: tuple[tuple[str, float], ...] = ()
    loop: bool = True

    def __call__(self, mixer: Mixer) -> None:
        mixer.loop = self.loop
        mixer.play(*self.cues)
        for name, amplitude in self.knobs:
            mixer.move(name, amplitude)

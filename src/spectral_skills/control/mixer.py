"""The live mixer: where the skill of every control step comes from.

    z(t) = (1 - w) z_deck(t) + w z_other deck(t) + V eta(t)      eq. latent-steering

The mixer is changed between two steps by the thread that takes them. Only NumPy is
needed.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.steering import RAMP_STEPS, fade_weight
from spectral_skills.control.streams import (
    FADE,
    REST,
    BaseStream,
    BrakedStream,
    LivePlanner,
    LiveStream,
    PlannedStream,
)
from spectral_skills.robot import g1

FADES = (2, 30)
"""Fewest and most steps of a live cross-fade."""
RESCUE = 25
"""Number of steps to standing when a source has failed."""
BRAKED = 60
"""Fewest steps that a robot stands before a fast base, and between one and others."""
_TILT_MARGIN = 0.2
"""By how much less than a robot that is stopped a motion may tilt, rad."""


class Fader:
    """A live amplitude that takes `ramp` steps to reach a new target."""

    def __init__(self, value: float = 0.0, ramp: int = RAMP_STEPS):
        self.value = self.target = value
        self.ramp = ramp
        self._origin, self._left = value, 0

    def move(self, target: float) -> None:
        """Start towards a target from wherever the fader stands."""
        if not math.isfinite(target):
            raise ValueError(f"amplitude {target}, must be finite")
        self.target = float(target)
        self._origin, self._left = self.value, self.ramp

    def step(self) -> float:
        """Amplitude at the next control step."""
        if self._left:
            self._left -= 1
            # Written from the target backwards, it ends there exactly.
            rest = (self.target - self._origin) * (self._left / self.ramp)
            self.value = self.target - rest
        return self.value


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

    @property
    def used(self) -> bool:
        """Whether it is not at its default."""
        return bool(self.position or self.mute or self.solo)


@dataclass(frozen=True)
class Mixed:
    """One control step of the mixer: the commanded skill (d,), the reference pose (36,)
    of the base, the amplitudes (k,) of the faders and the name of what is playing."""

    skill: np.ndarray
    row: np.ndarray | None
    amplitudes: np.ndarray
    name: str


class Mixer:
    """Two decks, a queue and a channel for every direction."""

    def __init__(self, bundle: Bundle, planner: LivePlanner | None = None):
        self.bundle, self._planner = bundle, planner
        self.stopped_rad = math.inf
        """Tilt of the pelvis at which the robot would be stopped."""
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
        """Knobs of the last cue that were not released since."""
        self._deck: LiveStream = BaseStream(bundle.base(REST))
        self._other: LiveStream | None = None
        self._fade = (0, 1)
        """Step and number of steps of the running cross-fade."""
        self._slow = self._stood = BRAKED
        """Number of steps since a fast base was heard, and since anything was that is
        not standing."""
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
        # A base that is played once ends by itself.
        ends = isinstance(self.stream, BaseStream) and not self.stream.loop
        if self.queue and self._left is None and not ends:
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
        self._deck, self._other = LiveStream("held", skill), None
        self._start(Cue(REST, fade=RESCUE))

    def channel(self, name: str) -> Channel:
        """A channel by the name of its direction, or the part before a space."""
        if name not in self.channels:
            if self.bundle.directions is None:
                raise ValueError(f"{self.bundle.folder}: a bundle without directions")
            name = self.names[self.bundle.directions.index(name)]
        return self.channels[name]

    def step(self, history: np.ndarray, heading: float | None = None) -> Mixed:
        """The next control step of a robot that has sensed a history (10, 93) and, if
        it can, a heading in rad, which bases keep to while all faders are down."""
        self._advance()
        heard = self._deck, self.stream
        fast = any(one.fast and not one.stands for one in heard)
        self._slow = 0 if fast else self._slow + 1
        self._stood = self._stood + 1 if all(one.stands for one in heard) else 0
        amplitudes = np.array([c.fader.step() for c in self.channels.values()])
        if amplitudes.any():
            self._deck.release()
            self.stream.release()
        skill, row = self._deck.next(history, heading)
        if self._other is not None:
            there = self._other.next(history, heading)
            step, steps = self._fade
            skill = skill + float(fade_weight(step, steps)) * (there.skill - skill)
            row = row if there.row is None else there.row
            self._fade = step + 1, steps
            if step + 1 >= steps:
                self._deck, self._other = self._other, None
        skill = np.asarray(skill, np.float64)
        if amplitudes.any():
            skill = skill + amplitudes @ self._vectors
        return Mixed(skill, row, amplitudes, self.playing)

    def _advance(self) -> None:
        """Start the next cue when its time has come."""
        if self._left is not None:
            self._left -= 1
        timed_out = self._left is not None and self._left < 0
        if not timed_out and not self.stream.over:
            return
        planned = self._cue is not None and self._cue.planned
        if self.queue:
            if self.loop and self._cue is not None and not planned:
                self.queue.append(self._cue)
            self._start(self.queue.popleft())
        elif self.stream.over or planned:
            self._start(Cue(REST))
        else:
            self._left = None

    def _start(self, cue: Cue) -> None:
        if self._other is not None:
            self._deck = self._other  # A cross-fade under way is cut short.
        rest, brake = self.bundle.base(REST), 0
        if cue.planned:
            assert self._planner is not None
            every = self.bundle.manifest.plan_every
            self._other = PlannedStream(self._planner, cue.name, every, rest)
        else:
            once = bool(self.queue) and cue.seconds is None
            base, loop = self.bundle.base(cue.name), self.loop and not once
            self._other = BaseStream(base, loop)
            fast, was = self._other.fast, self._deck
            waited = self._stood if fast else self._slow
            if fast or (waited < BRAKED and cue.name != REST):
                # What was played before is heard to the end of the cross-fade.
                heard = not was.stands if fast else was.fast and not was.stands
                brake = max(BRAKED - waited, 0) + (cue.fade if heard else 0)
                self._other = BrakedStream(base, loop, rest, brake)
        # Release the knobs of the last cue, then turn up those of this one.
        for name, _ in self._knobs:
            self.channel(name).position = 0.0
        for name, amplitude in cue.knobs:
            self.channel(name).position = amplitude
        self._cue, self._knobs, self._fade = cue, cue.knobs, (0, cue.fade)
        self._left = None
        if cue.seconds is not None:
            self._left = brake + round(cue.seconds * g1.CONTROL_HZ)
        self._send()

    def upright(self, base: PlayedBase) -> bool:
        """Whether a robot that plays a base stays clear of the tilt that stops it."""
        return base.tilt_rad <= self.stopped_rad - _TILT_MARGIN

    def _check(self, cue: Cue) -> None:
        """Refuse what cannot be played, before anything changes."""
        check_fade(cue.fade)
        if cue.seconds is not None and not 0 < cue.seconds < np.inf:
            raise ValueError(
                f"{cue.name}: {cue.seconds} s, must be above 0 and not endless"
            )
        for name, amplitude in cue.knobs:
            self.channel(name)
            if not np.isfinite(amplitude):
                raise ValueError(f"{name}: a fader at {amplitude}")
        if not cue.planned:
            base = self.bundle.base(cue.name)
            if not self.upright(base):
                raise ValueError(
                    f"{cue.name}: the pelvis tilts by {base.tilt_rad:.2f} rad, and a "
                    f"robot is stopped at {self.stopped_rad:g}; play it at the desk"
                )
        elif self._planner is None:
            raise ValueError(f"{self.bundle.folder}: a bundle without a planner")

    def _send(self) -> None:
        """Send every fader to where it is heard."""
        alone = any(channel.solo for channel in self.channels.values())
        for channel in self.channels.values():
            silent = channel.mute or (alone and not channel.solo)
            target = 0.0 if silent else channel.position
            if target != channel.fader.target:
                channel.fader.move(target)


def check_fade(steps: int) -> None:
    if not FADES[0] <= steps <= FADES[1]:
        raise ValueError(
            f"a cross-fade of {steps} steps, must be {FADES[0]} to {FADES[1]}"
        )

"""Composition is addition: skills, directions and amplitudes over time.

    z_steer(t) = z_base(t) + V eta(t)          eq. latent-steering

Steps are control steps at 50 Hz. Amplitudes are in raw skill units, one column per
direction. Only NumPy is needed here, so that a robot can steer without torch.
"""

import csv
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.streams import (
    BaseStream,
    HeldStream,
    Moment,
    PlanFor,
    PlannedStream,
    Stream,
)
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import position

RAMP_STEPS = 25
"""Half a second from nothing to full amplitude, and back."""
MARGIN_STEPS = 40
"""Unsteered steps at each end of the paper's runs."""
PHASE_SIZE = 2
"""Numbers of a command after its skill."""
TIME_COLUMN = "time_s"


@dataclass(frozen=True)
class Knob:
    """One direction turned up, held, and released."""

    direction: int | str
    """Column, or name, of the direction."""
    amplitude: float
    start: int = 0
    """Last step without effect."""
    end: int | None = None
    """First step without effect again; None: never released."""
    ramp: int = RAMP_STEPS
    """Steps from nothing to full amplitude, and back."""

    def __post_init__(self):
        about = f"knob of direction {self.direction!r}"
        if not math.isfinite(self.amplitude):
            raise ValueError(f"{about}: amplitude {self.amplitude}, must be finite")
        if self.start < 0:
            raise ValueError(f"{about}: start {self.start}, must be at least 0")
        if self.ramp < 1:
            raise ValueError(f"{about}: ramp {self.ramp}, must be at least 1 step")
        if self.end is not None and self.end < self.start + 2 * self.ramp:
            raise ValueError(
                f"{about}: from {self.start} to {self.end} is too short for two ramps "
                f"of {self.ramp} steps; end it later or take a shorter ramp"
            )

    def curve(self, steps: int) -> np.ndarray:
        """(steps,) amplitude at every step."""
        t = np.arange(steps)
        rise = t - self.start
        fall = self.ramp if self.end is None else self.end - t
        return self.amplitude * np.clip(np.minimum(rise, fall) / self.ramp, 0.0, 1.0)


def schedule(knobs: Sequence[Knob], steps: int, names: Sequence[str]) -> np.ndarray:
    """(steps, k) amplitudes of the named directions; knobs on the same one add."""
    amplitudes = np.zeros((steps, len(names)))
    for knob in knobs:
        amplitudes[:, _column(knob.direction, names)] += knob.curve(steps)
    return amplitudes


def _column(direction: int | str, names: Sequence[str]) -> int:
    if isinstance(direction, str):
        return position(direction, names)
    if not 0 <= direction < len(names):
        raise ValueError(f"no direction {direction}; there are {len(names)}, from 0")
    return direction


def standard(amplitudes: ArrayLike, steps: int) -> np.ndarray:
    """(steps, k) the paper's schedule for a run: from step 40 to 40 before the end."""
    full_amplitude(steps)
    curve = Knob(0, 1.0, MARGIN_STEPS, steps - MARGIN_STEPS).curve(steps)
    return curve[:, None] * np.atleast_1d(np.asarray(amplitudes, dtype=float))


def full_amplitude(steps: int) -> slice:
    """The steps of `standard` over which effects are measured, 65 to n - 65."""
    edge = MARGIN_STEPS + RAMP_STEPS
    if steps <= 2 * edge:
        raise ValueError(
            f"a run of {steps} steps never reaches full amplitude; "
            f"take at least {2 * edge + 1}"
        )
    return slice(edge, steps - edge)


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
class Automation:
    """Amplitudes at given times; linear between them, constant outside."""

    times: np.ndarray
    """(n,) increasing, s."""
    amplitudes: np.ndarray
    """(n, k)."""

    def schedule(self, steps: int) -> np.ndarray:
        """(steps, k) amplitudes of a run."""
        t = np.arange(steps) / g1.CONTROL_HZ
        curves = [np.interp(t, self.times, curve) for curve in self.amplitudes.T]
        return np.stack(curves, axis=1) if curves else np.zeros((steps, 0))


def read_automation(path: Path | str, names: Sequence[str]) -> Automation:
    """Automation in a CSV file; directions that it does not name stay at zero.

    The header is `time_s` and names of directions; each row is a time in seconds
    and an amplitude for each.
    """
    # Spreadsheets write a byte order mark first; what is no text at all has no header.
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.reader(file)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    number, header = lines[0] if lines else (1, [])
    header = [cell.strip() for cell in header]
    if header[:1] != [TIME_COLUMN]:
        raise ValueError(
            f"{path}, line {number}: the header is {','.join(header)!r}; begin it with "
            f"`{TIME_COLUMN},` and names of directions, separated by commas"
        )
    columns: list[int] = []
    for name in header[1:]:
        try:
            column = position(name, names)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if column in columns:
            raise ValueError(
                f"{path}, line {number}: direction {name!r} appears twice; keep one"
            )
        columns.append(column)
    table = [_numbers(f"{path}, line {n}", cells, header) for n, cells in lines[1:]]
    if not table:
        raise ValueError(f"{path}: no row after the header; add at least one")
    values = np.array(table)
    times = values[:, 0]
    for i in range(len(times)):
        before = times[i - 1] if i else -math.inf
        if times[i] < 0 or times[i] <= before:
            rule = "must not be negative" if times[i] < 0 else f"follows {before:g}"
            raise ValueError(
                f"{path}, line {lines[i + 1][0]}: {TIME_COLUMN} {times[i]:g} {rule}; "
                "times must increase from row to row"
            )
    amplitudes = np.zeros((len(values), len(names)))
    amplitudes[:, columns] = values[:, 1:]
    return Automation(times, amplitudes)


def _numbers(where: str, cells: list[str], header: list[str]) -> list[float]:
    """The finite numbers of one row of a table."""
    if len(cells) != len(header):
        raise ValueError(
            f"{where}: {len(cells)} values under {len(header)} columns; give one for "
            f"each of {', '.join(header)}"
        )
    numbers = []
    for name, cell in zip(header, cells, strict=True):
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(
                f"{where}: {name} is {cell.strip()!r}; write a finite number"
            )
        numbers.append(number)
    return numbers


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


def steer_command(
    command: np.ndarray, directions: np.ndarray, amplitudes: np.ndarray
) -> np.ndarray:
    """Commands (T, d + 2) with steered skills and their own phases."""
    if command.ndim != 2 or command.shape[1] <= PHASE_SIZE:
        raise ValueError(f"commands have shape {command.shape}, must be (T, d + 2)")
    skills, phase = np.split(command, [command.shape[1] - PHASE_SIZE], axis=1)
    return np.concatenate((steer(skills, directions, amplitudes), phase), axis=1)


# Where the skill of every control step comes from: decks, a queue, faders.
#
#     z(t) = (1 - w) z_deck(t) + w z_other deck(t) + V eta(t)
#
# Replaying, chaining, steering and planning are all this. Nothing here waits, and
# everything is changed between two steps by the thread that takes them.

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

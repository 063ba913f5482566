"""The desk without its page: a session with decks, meters and a fall lamp.

Nothing here waits or draws. Whoever wants to change something posts a function, which
the thread that makes steps runs before the next one. The same actions at the same steps
give the same run, to the last bit. `Live` steps an engine by the clock.
"""

import math
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import REST, Cue, Mixed, check_fade
from spectral_skills.control.session import Session, placed
from spectral_skills.control.streams import FADE, BaseStream, LivePlanner
from spectral_skills.quaternion import heading
from spectral_skills.robot import g1

Deck = Literal["a", "b"]
PUSH = 0.6
"""Speed of a push, m/s."""
STEP_S = 1.0 / g1.CONTROL_HZ
SLOWEST = 0.05
_LIE = 2 * g1.CONTROL_HZ
"""Number of steps that a fallen robot lies before an automatic reset."""
_BEGIN = ("walk", "jog")
"""Bases of the decks at first, where the bundle has them."""
_SPEED_STEPS = g1.CONTROL_HZ
"""Number of steps over which speed is measured: a second, so that sway is hidden."""
_RISE = g1.CONTROL_HZ
"""Number of steps in which a robot may rise from a base lower than the next."""
_UP_M, _UP_STEPS = 0.15, g1.CONTROL_HZ // 2
"""Height above the limit, and time there in steps, after which a robot is up again."""
_LATE_S = 0.3
"""Longest delay that is caught up; a longer one is dropped, so that a busy machine does
not race behind the clock."""
_SWITCH_S = 0.001
_WINDOW = 2 * g1.CONTROL_HZ
"""Number of steps over which the real-time factor is computed."""
_LEFT, _RIGHT = (g1.joint_index(f"{side}_shoulder_pitch") for side in ("left", "right"))

Action = Callable[["Engine"], None]
Notify = Callable[[str], None]
"""Shows a message to people, from any thread."""


@dataclass
class Decks:
    """Two bases to choose from."""

    a: str
    b: str
    fade: int = FADE
    """Number of steps from one to the other."""
    live: Deck | None = None
    """The deck that is playing; None if something else is."""


@dataclass(frozen=True)
class Readings:
    speed: float
    """Speed along its path, m/s."""
    turning: float
    """Turn rate to the left, deg/s."""
    heading: float
    """Heading from where it began, deg."""
    left_arm: float
    """Angle by which the upper arm is raised to the front, deg."""
    right_arm: float


class Meter:
    """Measures a moving robot."""

    def __init__(self):
        self._past: deque[tuple[np.ndarray, float]] = deque(maxlen=_SPEED_STEPS + 1)
        """Places and headings."""

    def read(self, row: np.ndarray) -> Readings:
        """Return the measures after one more control step."""
        angle = heading(row[3:7])
        if self._past:  # angles must not jump by a turn
            before = self._past[-1][1]
            angle = before + math.remainder(angle - before, math.tau)
        self._past.append((row[:2].copy(), angle))
        seconds = max(len(self._past) - 1, 1) / g1.CONTROL_HZ
        place, turned = self._past[0]
        return Readings(
            speed=float(np.linalg.norm(row[:2] - place)) / seconds,
            turning=math.degrees(angle - turned) / seconds,
            heading=math.degrees(angle),
            left_arm=-math.degrees(row[7 + _LEFT]),
            right_arm=-math.degrees(row[7 + _RIGHT]),
        )


class FallLamp:
    """Detects falls. A robot that lies may bounce, so it counts as up again only after
    it has stayed well above the height at which it fell."""

    def __init__(self):
        self._limits: deque[float] = deque(maxlen=_RISE)
        self._up = 0
        self.steps = 0
        """Number of steps since the fall; 0 if the robot is up."""

    def read(self, height_m: float, limit_m: float) -> bool:
        """Return whether it has fallen, after one more control step."""
        self._limits.append(limit_m)
        lowest_m = min(self._limits)
        self._up = self._up + 1 if height_m > lowest_m + _UP_M else 0
        if not height_m > lowest_m:
            self.steps = max(self.steps, 1)
        elif self._up >= _UP_STEPS:
            self.steps = 0
        if self.steps:
            self.steps += 1
        return self.steps > 0


@dataclass(frozen=True)
class Frame:
    """The robot after a control step."""

    step: int
    """Number of steps since the engine began."""
    row: np.ndarray
    """(36,)"""
    mixed: Mixed
    ghost: np.ndarray | None
    """(36,) pose of the base at the robot's place and heading."""
    distance: float
    """Distance of the commanded skill to the corpus."""
    measures: Readings
    fallen: bool

    @property
    def time_s(self) -> float:
        return self.step / g1.CONTROL_HZ


class Engine(Session):
    """One robot, and everything that a desk can do to it."""

    def __init__(self, bundle: Bundle, planner: LivePlanner | None = None):
        super().__init__(bundle, planner)
        self.can_plan = planner is not None
        names = [n for n in (*_BEGIN, *bundle.bases) if n in bundle.bases]
        self.decks = Decks(names[0], names[min(1, len(names) - 1)])
        self.auto_reset = False
        self.resets = 0
        """Number of times that the robot was put on its feet, which voids its trail."""
        self._posted: queue.SimpleQueue[tuple[Action, Notify | None]]
        self._posted = queue.SimpleQueue()
        self._meter, self._fall, self._steps = Meter(), FallLamp(), 0
        rest, still = bundle.base(REST), np.zeros(len(self.mixer.names))
        skill = rest.skills[0].astype(np.float64)
        self.mixed = Mixed(skill, rest.rows[0], still, REST)
        self.frame = self._look()
        """Newest frame, which other threads may read at any time."""

    def post(self, action: Action, refused: Notify | None = None) -> None:
        """Do something before the next step, from any thread.

        If it cannot be done `refused` gets the reason; without it, `step` raises.
        """
        self._posted.put((action, refused))

    def do_posted(self) -> None:
        while not self._posted.empty():
            action, refused = self._posted.get()
            try:
                action(self)
            except (ValueError, OSError) as error:
                if refused is None:
                    raise
                refused(str(error))

    def rest(self) -> None:
        """Do what was posted without a step."""
        if not self._posted.empty():
            self.do_posted()
            self.frame = self._look()

    def step(self, skill: np.ndarray | None = None) -> None:
        """One control step; `frame` shows it."""
        self.do_posted()
        super().step(skill)
        self._steps += 1
        if self.robot.broken:
            self.reset()
        self.frame = self._look()
        if self.auto_reset and self._fall.steps > _LIE:
            self.post(lambda engine: engine.reset())

    def reset(self) -> None:
        super().reset()
        self._meter, self._fall = Meter(), FallLamp()
        self.resets += 1

    def cross(self, deck: Deck) -> None:
        self.mixer.play(Cue(getattr(self.decks, deck), fade=self.decks.fade))
        self.decks.live = deck

    def load(self, deck: Deck, name: str) -> None:
        """Put a base on a deck; on the one that is playing, it is played at once."""
        self.bundle.base(name)
        setattr(self.decks, deck, name)
        if self.decks.live == deck:
            self.cross(deck)

    def fade(self, steps: int) -> None:
        """Set the number of steps of cross-fades from now on."""
        check_fade(steps)
        self.decks.fade = steps

    def play(self, cue: Cue | str, *others: Cue) -> None:
        """Play something that is on no deck, and more after it."""
        super().play(cue, *others)
        self.decks.live = None

    def enqueue(self, *cues: Cue) -> None:
        super().enqueue(*cues)
        self.decks.live = None

    def loop(self, on: bool) -> None:
        """Set whether bases start again at their end, and the queue at its own."""
        self.mixer.loop = on
        if isinstance(self.mixer.stream, BaseStream):
            self.mixer.stream.loop = on

    def _look(self) -> Frame:
        row, mixed = self.row, self.mixed
        assert mixed is not None
        bases = self.bundle.bases
        # What is planned may go as low as any base does.
        lowest_m = min(base.fall_m for base in bases.values())
        limit_m = bases[mixed.name].fall_m if mixed.name in bases else lowest_m
        return Frame(
            step=self._steps,
            row=row,
            mixed=mixed,
            ghost=None if mixed.row is None else placed(mixed.row, row),
            distance=self.bundle.support.distance(mixed.skill),
            measures=self._meter.read(row),
            fallen=self._fall.read(float(row[2]), limit_m),
        )


class Live:
    """Steps an engine by the clock; pauses, slows down, never catches up for long."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.paused = False
        self.trouble = ""
        """Error that made it pause by itself, if any."""
        self._speed, self._single = 1.0, 0
        self._done: deque[float] = deque(maxlen=_WINDOW)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)

    @property
    def speed(self) -> float:
        """Speed of time: 1 is real, less is slow motion."""
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        if not SLOWEST <= value <= 1.0:
            raise ValueError(f"a speed of {value}, must be {SLOWEST:g} to 1")
        self._speed = value
        self._done.clear()

    @property
    def factor(self) -> float:
        """Simulated over real time of the last steps, relative to the speed; NaN before
        there are enough."""
        done = list(self._done)
        if len(done) < 10:
            return float("nan")
        return (len(done) - 1) * STEP_S / self._speed / (done[-1] - done[0])

    def start(self) -> None:
        # Threads of the page may hold the interpreter no longer than this.
        sys.setswitchinterval(_SWITCH_S)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after a step that is under way."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def single_step(self) -> None:
        self._single += 1

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stopping.is_set():
            try:
                self._tick()
            except Exception as error:  # The page stays, and says why.
                self.trouble = f"{type(error).__name__}: {error}"
                self.paused = True
            due += STEP_S / self._speed
            now = time.perf_counter()
            if now > due + _LATE_S:
                due = now
            self._stopping.wait(max(due - now, 0.0))

    def _tick(self) -> None:
        if self.paused and not self._single:
            self.engine.rest()
            self._done.clear()
            return
        self._single = max(self._single - 1, 0)
        self.engine.step()
        self._done.append(time.perf_counter())

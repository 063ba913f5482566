"""The desk without its page: mixer, controller and robot, one control step at a time.

Nothing here waits or draws. Whoever wants to change something posts a function, which
is run before the next step by the thread that makes steps. The same actions at the same
steps give the same run, to the last bit.
"""

import math
import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import FADE, FADES, REST, Cue, Mixed, Mixer
from spectral_skills.control.streams import BaseStream, LivePlanner
from spectral_skills.desk.poses import FallLamp, Measures, Meter, placed
from spectral_skills.desk.takes import Recorder, Take
from spectral_skills.desk.walker import Walker
from spectral_skills.quaternion import heading
from spectral_skills.robot import g1

Deck = Literal["a", "b"]
PUSH = 0.6
"""Of a push, m/s."""
_LIE = 2 * g1.CONTROL_HZ
"""Steps that a robot lies before it is put on its feet again, if that is wished."""
_BEGIN = ("walk", "jog")
"""Bases of the decks at first, where the bundle has them."""

Action = Callable[["Engine"], None]


@dataclass
class Decks:
    """Two bases to choose from."""

    a: str
    b: str
    fade: int = FADE
    """Steps from one to the other."""
    live: Deck | None = None
    """Which one is heard; neither, if something else is."""

    def name(self, deck: Deck) -> str:
        return self.a if deck == "a" else self.b


@dataclass(frozen=True)
class Frame:
    """The robot after a control step."""

    step: int
    """Steps since the engine began."""
    row: np.ndarray
    """(36,)"""
    mixed: Mixed
    ghost: np.ndarray | None
    """(36,) the base's pose, at the robot's place and heading."""
    distance: float
    """Of the commanded skill to the corpus."""
    measures: Measures
    fallen: bool

    @property
    def time_s(self) -> float:
        return self.step / g1.CONTROL_HZ


class Engine:
    """One robot, and all that a desk can do to it."""

    def __init__(self, bundle: Bundle, planner: LivePlanner | None = None):
        self.bundle, self.mixer = bundle, Mixer(bundle, planner)
        self.can_plan = planner is not None
        names = [n for n in (*_BEGIN, *bundle.bases) if n in bundle.bases]
        self.decks = Decks(names[0], names[min(1, len(names) - 1)])
        self.auto_reset = False
        self.recorder: Recorder | None = None
        self.resets = 0
        """Times that the robot was put on its feet: what was drawn of it is void."""
        self.broken = 0
        """Times that the simulation broke, and was begun anew."""
        self._walker = Walker(bundle)
        self._posted: queue.SimpleQueue[tuple[Action, Callable[[str], None] | None]]
        self._posted = queue.SimpleQueue()
        self._meter = Meter()
        self._fall, self._step = FallLamp(), 0
        self._stand()
        self._mixed = self._still()
        self.frame = self._look()
        """The newest; other threads may read it at any time."""

    def post(
        self, action: Action, refused: Callable[[str], None] | None = None
    ) -> None:
        """Do something before the next step, from any thread.

        If it cannot be done `refused` is told why; without it, `step` raises.
        """
        self._posted.put((action, refused))

    def do_posted(self) -> bool:
        """Do what was posted; gives whether there was anything."""
        any_done = False
        while not self._posted.empty():
            action, refused = self._posted.get()
            any_done = True
            try:
                action(self)
            except (ValueError, OSError) as error:
                if refused is None:
                    raise
                refused(str(error))
        return any_done

    def step(self) -> Frame:
        """One control step."""
        self.do_posted()
        history = self._walker.sense()
        self._mixed = self.mixer.step(history)
        self._walker.act(self._mixed.skill)
        self._step += 1
        if self.recorder is not None:
            ghost = self._ghost()
            self.recorder.add(self._mixed, self._walker.row, ghost)
        if self._walker.broken:
            self.broken += 1
            self.reset()
        self.frame = self._look()
        if self.auto_reset and self._fall.steps > _LIE:
            self.post(lambda engine: engine.reset())
        return self.frame

    def refresh(self) -> None:
        """Renew the frame without a step, after something was done to the robot."""
        self.frame = self._look()

    def reset(self) -> None:
        """Put the robot on its feet where it began; what is playing goes on."""
        self._stand()
        self.resets += 1
        if self.recorder is not None:
            self.recorder.put(self._walker.row)

    def push(self, forward: float = 0.0, left: float = 0.0) -> np.ndarray:
        """Give the pelvis a speed in its own directions, m/s; gives it (6,) in the
        world."""
        if not (math.isfinite(forward) and math.isfinite(left)):
            raise ValueError(f"a push of {forward}, {left} m/s")
        angle = heading(self._walker.row[3:7])
        c, s = math.cos(angle), math.sin(angle)
        velocity = np.zeros(6)
        velocity[:2] = c * forward - s * left, s * forward + c * left
        self._walker.push(velocity)
        if self.recorder is not None:
            self.recorder.push(velocity)
        return velocity

    def cross(self, deck: Deck) -> None:
        """Cross-fade to a deck."""
        self.mixer.play(Cue(self.decks.name(deck), fade=self.decks.fade))
        self.decks.live = deck

    def load(self, deck: Deck, name: str) -> None:
        """Put a base on a deck; on the one that is heard, it is played at once."""
        self.bundle.base(name)
        setattr(self.decks, deck, name)
        if self.decks.live == deck:
            self.cross(deck)

    def fade(self, steps: int) -> None:
        """Steps of cross-fades from now on."""
        if not FADES[0] <= steps <= FADES[1]:
            told = f"{FADES[0]} to {FADES[1]}"
            raise ValueError(f"a cross-fade of {steps} steps, must be {told}")
        self.decks.fade = steps

    def play(self, *cues: Cue) -> None:
        """Play something that is on no deck, and more after it."""
        first, *others = cues
        self.mixer.play(first)
        self.mixer.enqueue(others)
        self.decks.live = None

    def enqueue(self, *cues: Cue) -> None:
        """Play more after what is playing."""
        self.mixer.enqueue(cues)
        self.decks.live = None

    def loop(self, on: bool) -> None:
        """Whether bases begin again when they are over, and the queue when it is."""
        self.mixer.loop = on
        if isinstance(self.mixer.stream, BaseStream):
            self.mixer.stream.loop = on

    def record(self) -> None:
        """Begin a take; one that is under way is given up."""
        self.recorder = Recorder(self.bundle, self._walker.state(), self._walker.row)

    def stop_recording(self) -> Take | None:
        """End the take."""
        recorder, self.recorder = self.recorder, None
        return None if recorder is None else recorder.take()

    def _stand(self) -> None:
        self._walker.put(self.bundle.base(REST).rows[0].astype(np.float64))
        self._meter.clear()
        self._fall = FallLamp()

    def _still(self) -> Mixed:
        """What is mixed before the first step."""
        rest = self.bundle.base(REST)
        skill = rest.skills[0].astype(np.float64)
        none = np.zeros(len(self.mixer.names))
        return Mixed(skill, skill, rest.rows[0], none, REST, 0.0)

    def _ghost(self) -> np.ndarray | None:
        row = self._mixed.row
        return None if row is None else placed(row, self._walker.row)

    def _look(self) -> Frame:
        row, mixed = self._walker.row, self._mixed
        base = self.bundle.bases.get(mixed.name)
        lowest = min(base.fall_m for base in self.bundle.bases.values())
        # What is planned may go as low as any base does.
        limit_m = lowest if base is None else base.fall_m
        return Frame(
            step=self._step,
            row=row,
            mixed=mixed,
            ghost=self._ghost(),
            distance=self.bundle.support.distance(mixed.skill),
            measures=self._meter.read(row),
            fallen=self._fall.read(float(row[2]), limit_m),
        )

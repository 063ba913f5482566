"""Streams: a skill at every step, of a base or of the plans of a language planner.

Only NumPy is needed.
"""

import atexit
import math
import threading
from time import perf_counter
from typing import NamedTuple

import numpy as np

from spectral_skills.control.bundle import Bundle, OnnxPlanner
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.steering import fade_weight
from spectral_skills.robot import g1

REST = "stand"
"""Base that is played when nothing else is."""
FADE, GENTLE = 10, 50
"""Usual number of steps of a cross-fade, and of one from standing to a fast base."""
AHEAD = 2
"""Number of steps before the end of a plan at which the next one is requested."""
LATE = 10
"""Number of steps after which an answer is late."""
FAST_M_S = 1.2
"""Speed from which a robot cannot begin everything at once, nor be so fast at once."""
EXIT_S = 1.0
"""Time for which the exit of a program waits for a plan."""
RETURN = 25
"""Number of steps from the last planned skill back to standing, if no plan follows."""
CORRECTED, LOST = math.radians(15), math.radians(45)
"""Largest error of the heading that a base corrects at once, and the error from which
it keeps to the new heading instead."""
_USUAL_STEPS = 4 * g1.CONTROL_HZ
"""Number of steps over which the correction that a robot usually needs is averaged."""


class Plan(NamedTuple):
    """An answer of a planner: skills (30, d) from the step on at which it was asked."""

    step: int
    sentence: str
    chunk: np.ndarray


class LivePlanner:
    """A planner beside the control loop: asked now, answered when it is ready.

    It plans in a thread of its own, which may be slow, fail or hang, or inline, for
    runs that must repeat exactly.
    """

    def __init__(self, planner: OnnxPlanner, seed: int = 0, inline: bool = False):
        self._planner, self._random = planner, np.random.default_rng(seed)
        self._inline = inline
        self._answer: Plan | None = None
        self._wanted: tuple[int, np.ndarray, str] | None = None
        self._asked, self._planning = threading.Condition(), False
        self.trouble = ""
        """Reason why there is no answer, where it is known."""
        self.took_s: list[float] = []
        """Duration of each plan."""
        self.refused = 0
        """Number of plans that were not finite and so were not followed."""
        if not inline:
            threading.Thread(target=self._work, name="planner", daemon=True).start()
            atexit.register(self._settle)

    @classmethod
    def of(cls, bundle: Bundle, inline: bool = False) -> "LivePlanner | None":
        planner = bundle.planner()
        return None if planner is None else cls(planner, inline=inline)

    def ask(self, step: int, history: np.ndarray, sentence: str) -> None:
        """Begin a plan; an earlier request without an answer is dropped."""
        if self._inline:
            self._answer = self._plan(step, history, sentence)
            return
        with self._asked:
            self._wanted = step, history.copy(), sentence
            self._asked.notify_all()

    def answer(self) -> Plan | None:
        """The newest plan that has not been taken yet."""
        found, self._answer = self._answer, None
        return found

    def _plan(self, step: int, history: np.ndarray, sentence: str) -> Plan:
        noise = self._random.standard_normal(self._planner.noise_shape)
        begun = perf_counter()
        chunk = self._planner.plan(history, sentence, noise)
        self.took_s.append(perf_counter() - begun)
        return Plan(step, sentence, chunk)

    def _settle(self) -> None:
        """Let the plan in the making end, but not wait for one that hangs: a program
        that exits while a graph runs is aborted."""
        with self._asked:
            self._wanted = None
            self._asked.wait_for(lambda: not self._planning, timeout=EXIT_S)

    def _work(self) -> None:
        while True:
            with self._asked:
                self._planning = False
                self._asked.notify_all()
                while self._wanted is None:
                    self._asked.wait()
                wanted, self._wanted = self._wanted, None
                self._planning = True
            try:
                self._answer = self._plan(*wanted)
                self.trouble = ""
            except Exception as error:  # Whatever it is, the robot goes on without.
                self.trouble = f"the planner failed: {error}"


class StreamStep(NamedTuple):
    """One control step of a stream: a skill (d,), and a reference pose (36,) if any."""

    skill: np.ndarray
    row: np.ndarray | None = None


class LiveStream:
    """A skill at every step: here one skill, again and again."""

    def __init__(self, name: str, skill: np.ndarray):
        self.name, self._held = name, StreamStep(skill)

    fast = False
    """Whether the robot is too fast for what else it may do."""
    stands = False
    """Whether all that is asked for at present is to stand."""

    @property
    def over(self) -> bool:
        """Whether the stream only repeats its last skill from now on."""
        return False

    @property
    def trouble(self) -> str:
        """Reason why no plan arrives, or an empty string."""
        return ""

    def next(self, history: np.ndarray, heading: float | None = None) -> StreamStep:
        """The next step of a robot that has sensed a history (10, 93) and, if it can, a
        heading in rad."""
        return self._held

    def release(self) -> None:
        """Keep to whatever heading the robot has next, and meanwhile do no more than
        was usually needed."""


class BaseStream(LiveStream):
    """A base from its first step, in a loop or once.

    Replayed skills do not depend on where the robot is, so nothing would correct a
    controller that turns a little at every step. Its heading is sensed: the base is
    played as a robot sees it that has turned by so much.
    """

    def __init__(self, base: PlayedBase, loop: bool = True):
        self.name, self.loop, self._base, self._at = base.name, loop, base, 0
        self.fast, self.stands = base.speed_m_s > FAST_M_S, base.name == REST
        self._error, self._heading = 0.0, math.nan
        """Angle by which the robot is left of the motion, and its last heading."""
        self._usual = 0.0
        """Mean of the last corrections: what this robot needs to go straight."""

    @property
    def over(self) -> bool:
        return not self.loop and self._at >= len(self._base.skills)

    def next(self, history: np.ndarray, heading: float | None = None) -> StreamStep:
        base, at = self._base, min(self._at, len(self._base.skills) - 1)
        begin, end = base.loop
        self._at += 1
        if self.loop and self._at >= end:
            self._at = begin
        skill = base.skills[at]
        if heading is not None and base.turn is not None:
            skill = skill + self._turned(at, heading) * base.turn
        return StreamStep(skill, base.rows[at] if base.has_motion else None)

    def release(self) -> None:
        self._heading, self._error = math.nan, self._usual

    def _turned(self, at: int, heading: float) -> float:
        """Angle to correct by: the robot's turn since its start less the motion's."""
        headings, before = self._base.headings, self._heading
        self._heading = heading
        if headings is None or math.isnan(before):
            return self._error
        own = float(headings[at] - headings[at - 1]) if at else 0.0
        self._error += math.remainder(heading - before, math.tau) - own
        if abs(self._error) > LOST:
            self._error = self._usual
        angle = min(max(self._error, -CORRECTED), CORRECTED)
        self._usual += (angle - self._usual) / _USUAL_STEPS
        return angle


class BrakedStream(BaseStream):
    """A base that grows out of some steps of standing, slowly if it is fast."""

    def __init__(self, base: PlayedBase, loop: bool, rest: PlayedBase, steps: int):
        super().__init__(base, loop)
        self._rest, self._step = BaseStream(rest), -steps
        self._fade = GENTLE if self.fast else FADE
        self.stands = steps > 0

    def next(self, history: np.ndarray, heading: float | None = None) -> StreamStep:
        stands, self._step = self._rest.next(history), self._step + 1
        self.stands = self._step < 0
        if self._step <= 0:
            return stands
        found = super().next(history, heading)
        if self._step > self._fade:
            return found
        weight = float(fade_weight(self._step - 1, self._fade))
        skill = stands.skill + weight * (found.skill - stands.skill)
        return StreamStep(skill, found.row)


class PlannedStream(LiveStream):
    """The plans for a sentence; the robot stands while there is none.

    The control loop never waits: it follows the last plan to its end, holds its last
    skill for at most one step, and stands half a second later.
    """

    def __init__(
        self, planner: LivePlanner, sentence: str, every: int, rest: PlayedBase
    ):
        self.name, self._planner, self._every = sentence, planner, every
        self._rest = BaseStream(rest)
        self._plan: Plan | None = None
        self._asked: int | None = None
        self._step = 0

    @property
    def trouble(self) -> str:
        waits = 0 if self._asked is None else self._step - self._asked
        late = f"the planner is late by {waits} steps" if waits > LATE else ""
        return self._planner.trouble or late

    def next(self, history: np.ndarray, heading: float | None = None) -> StreamStep:
        age = math.inf if self._plan is None else self._step - self._plan.step
        if self._asked is None and age >= self._every - AHEAD:
            self._asked = self._step
            self._planner.ask(self._step, history, self.name)
        self._take()
        step = self._rest.next(history)
        if self._plan is not None:
            age, chunk = self._step - self._plan.step, self._plan.chunk
            planned = chunk[min(age, len(chunk) - 1)]
            late = min(max(age - len(chunk) + 1, 0) / RETURN, 1.0)
            step = StreamStep(planned + late * (step.skill - planned))
        self._step += 1
        return step

    def _take(self) -> None:
        found, asked = self._planner.answer(), self._asked
        if found is None or asked is None or found.step < asked:
            return
        if found.sentence != self.name:
            return
        self._asked = None
        if np.isfinite(found.chunk).all():
            self._plan = found
        else:
            self._planner.refused += 1

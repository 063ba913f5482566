"""Streams of skills for the live mixer: a base, or the plans of a language planner."""

import threading
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from spectral_skills.control.bundle import Bundle, OnnxPlanner, PlayedBase

AHEAD = 2
"""Number of steps before the end of a plan at which the next one is requested."""
LATE = 10
"""Number of steps after which an answer is late."""
RETURN = 25
"""Number of steps from the last planned skill back to standing, if no plan follows."""


class Plan(NamedTuple):
    """An answer of a planner."""

    step: int
    """Control step at which it was requested."""
    sentence: str
    chunk: np.ndarray
    """(30, d) skills from that step on."""


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
        self._asked = threading.Condition()
        self.trouble = ""
        """Reason why there is no answer, where it is known."""
        self.took_s: list[float] = []
        """Duration of each plan."""
        self.refused = 0
        """Number of plans that were not finite and so were not followed."""
        if not inline:
            # Nothing waits for the thread, not even the exit of the program.
            threading.Thread(target=self._work, name="planner", daemon=True).start()

    @classmethod
    def of(
        cls, bundle: Bundle, seed: int = 0, inline: bool = False
    ) -> "LivePlanner | None":
        """The planner of a bundle, if it has one."""
        planner = bundle.planner()
        return None if planner is None else cls(planner, seed, inline)

    def ask(self, step: int, history: np.ndarray, sentence: str) -> None:
        """Begin a plan; an earlier request without an answer is dropped."""
        if self._inline:
            self._answer = self._plan(step, history, sentence)
            return
        with self._asked:
            self._wanted = step, history.copy(), sentence
            self._asked.notify()

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

    def _work(self) -> None:
        while True:
            with self._asked:
                while self._wanted is None:
                    self._asked.wait()
                wanted, self._wanted = self._wanted, None
            try:
                self._answer = self._plan(*wanted)
                self.trouble = ""
            except Exception as error:  # Whatever it is, the robot goes on without.
                self.trouble = f"the planner failed: {error}"


class StreamStep(NamedTuple):
    """One control step of a stream."""

    skill: np.ndarray
    """(d,)"""
    row: np.ndarray | None
    """(36,) reference pose, where there is one."""


class LiveStream(Protocol):
    """A skill at every step."""

    name: str

    def next(self, history: np.ndarray) -> StreamStep:
        """The next step of a robot that has sensed a history (10, 93)."""
        ...

    @property
    def over(self) -> bool:
        """Whether the stream only repeats its last skill from now on."""
        ...


class BaseStream:
    """A base from its first step, in a loop or once."""

    def __init__(self, base: PlayedBase, loop: bool = True):
        self.name, self.loop, self._base, self._at = base.name, loop, base, 0

    @property
    def over(self) -> bool:
        return not self.loop and self._at >= len(self._base.skills)

    def next(self, history: np.ndarray) -> StreamStep:
        at = min(self._at, len(self._base.skills) - 1)
        begin, end = self._base.loop
        self._at += 1
        if self.loop and self._at >= end:
            self._at = begin
        return StreamStep(self._base.skills[at], self._base.rows[at])


class HeldStream:
    """One skill, again and again."""

    name, over = "held", False

    def __init__(self, skill: np.ndarray):
        self._step = StreamStep(skill, None)

    def next(self, history: np.ndarray) -> StreamStep:
        return self._step


class PlannedStream:
    """The plans for a sentence; the robot stands while there is none.

    The control loop never waits: it follows the last plan to its end, holds its last
    skill for at most one step, and stands half a second later.
    """

    over = False

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
        """Reason why no plan arrives, or an empty string."""
        waits = 0 if self._asked is None else self._step - self._asked
        late = f"the planner is late by {waits} steps" if waits > LATE else ""
        return self._planner.trouble or late

    def next(self, history: np.ndarray) -> StreamStep:
        if self._due():
            self._asked = self._step
            self._planner.ask(self._step, history, self.name)
        self._take()
        rest = self._rest.next(history)
        skill, row = rest
        if self._plan is not None:
            age = self._step - self._plan.step
            chunk = self._plan.chunk
            planned = chunk[min(age, len(chunk) - 1)]
            late = min(max(age - len(chunk) + 1, 0) / RETURN, 1.0)
            skill = planned + late * (rest.skill - planned)
            row = None
        self._step += 1
        return StreamStep(skill, row)

    def _due(self) -> bool:
        if self._asked is not None:
            return False
        if self._plan is None:
            return True
        return self._step - self._plan.step >= self._every - AHEAD

    def _take(self) -> None:
        found = self._planner.answer()
        if found is None or found.sentence != self.name or self._asked is None:
            return
        if found.step < self._asked:
            return
        self._asked = None
        if np.isfinite(found.chunk).all():
            self._plan = found
        else:
            self._planner.refused += 1

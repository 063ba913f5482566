"""A planner beside the control loop: asked now, answered when it has an answer."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from spectral_skills.runtime.bundle import Planner


class Plan(NamedTuple):
    """An answer."""

    step: int
    """Control step at which it was asked for."""
    sentence: str
    chunk: np.ndarray
    """(30, d) skills from that step on."""
    took_s: float


class PlanFor(Protocol):
    """Something that plans."""

    trouble: str
    """Why there is no answer, where that is known."""

    def ask(self, step: int, history: np.ndarray, sentence: str) -> None:
        """Begin a plan; one that has not been answered is given up."""
        ...

    def answer(self) -> Plan | None:
        """The newest plan that has not been taken yet."""
        ...


class PlanHere:
    """Plans at once and in the same thread: for runs that must repeat exactly."""

    def __init__(self, planner: Planner, seed: int = 0):
        self.trouble = ""
        self._planner, self._random = planner, np.random.default_rng(seed)
        self._answer: Plan | None = None

    def ask(self, step: int, history: np.ndarray, sentence: str) -> None:
        begun = time.perf_counter()
        noise = self._random.standard_normal(self._planner.noise_shape)
        chunk = self._planner.plan(history, sentence, noise)
        self._answer = Plan(step, sentence, chunk, time.perf_counter() - begun)

    def answer(self) -> Plan | None:
        found, self._answer = self._answer, None
        return found


class PlanBeside:
    """Plans in a thread of its own, which may be slow, fail or hang."""

    def __init__(self, planner: Planner, seed: int = 0):
        self._plan: Callable[..., np.ndarray] = planner.plan
        self._shape, self._random = planner.noise_shape, np.random.default_rng(seed)
        self._wanted: tuple[int, np.ndarray, str] | None = None
        self._answer: Plan | None = None
        self.trouble = ""
        self._asked = threading.Condition()
        # Nobody waits for it, at exit neither.
        threading.Thread(target=self._work, name="planner", daemon=True).start()

    def ask(self, step: int, history: np.ndarray, sentence: str) -> None:
        with self._asked:
            self._wanted = step, history.copy(), sentence
            self._asked.notify()

    def answer(self) -> Plan | None:
        found, self._answer = self._answer, None
        return found

    def _work(self) -> None:
        while True:
            with self._asked:
                while self._wanted is None:
                    self._asked.wait()
                (step, history, sentence), self._wanted = self._wanted, None
            begun = time.perf_counter()
            try:
                noise = self._random.standard_normal(self._shape)
                chunk = self._plan(history, sentence, noise)
            except Exception as error:  # whatever it is, the robot goes on without
                self.trouble = f"the planner failed: {error}"
                continue
            self.trouble = ""
            self._answer = Plan(step, sentence, chunk, time.perf_counter() - begun)

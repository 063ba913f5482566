"""The engine in real time, in a thread of its own."""

import sys
import threading
import time
from collections import deque

from spectral_skills.desk.engine import Engine
from spectral_skills.robot import g1

STEP_S = 1.0 / g1.CONTROL_HZ
SLOWEST = 0.05
_LATE_S = 0.3
"""Time that is made up for; more of it is lost, or a busy machine would only chase."""
_SWITCH_S = 0.001
_WINDOW = 2 * g1.CONTROL_HZ
"""Steps that the real-time factor is told of."""


class Live:
    """Steps an engine by the clock; pauses, slows down, never catches up for long."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.paused = False
        self.trouble = ""
        """Why it stands still, if it does by itself."""
        self.lost_s = 0.0
        """Time that was not made up for."""
        self._speed, self._single = 1.0, 0
        self._done: deque[float] = deque(maxlen=_WINDOW)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)

    @property
    def speed(self) -> float:
        """Of time: 1 is real, less is slow motion."""
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        if not SLOWEST <= value <= 1.0:
            raise ValueError(f"a speed of {value}, must be {SLOWEST:g} to 1")
        self._speed = value
        self._done.clear()

    @property
    def factor(self) -> float:
        """Simulated over passed time of the last steps, of what is asked for; NaN
        before there are some."""
        done = list(self._done)
        if len(done) < 10:
            return float("nan")
        passed = done[-1] - done[0]
        return (len(done) - 1) * STEP_S / self._speed / passed

    def start(self) -> None:
        # Threads of the page may hold the interpreter no longer than this.
        sys.setswitchinterval(_SWITCH_S)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for a step under way."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def single_step(self) -> None:
        """One step of a robot that is paused."""
        self._single += 1

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stopping.is_set():
            try:
                self._tick()
            except Exception as error:  # the page stays, and says why
                self.trouble = f"{type(error).__name__}: {error}"
                self.paused = True
            due += STEP_S / self._speed
            now = time.perf_counter()
            if now > due + _LATE_S:
                self.lost_s += now - due
                due = now
            self._stopping.wait(max(due - now, 0.0))

    def _tick(self) -> None:
        if self.paused and not self._single:
            if self.engine.do_posted():
                self.engine.refresh()
            self._done.clear()
            return
        self._single = max(self._single - 1, 0)
        self.engine.step()
        self._done.append(time.perf_counter())

"""Robot, wire, guard and control loop in one process and in simulated time.

Everything is the real thing but the clock, the sockets and DDS: states travel as the
G1's own messages, through a wire that a test may disturb.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.loop import ControlLoop
from spectral_skills.control.mixer import Mixer
from spectral_skills.control.safety import HOLD_KEY, START_KEY, Order
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.control.streams import LivePlanner
from spectral_skills.runtime import unitree
from spectral_skills.runtime.guard import Guard, StampedOrder

MS = 0.001
_STATE_MS, _GUARD_MS, _CONTROL_MS = 5, 2, 20
_OFFSET_MS = 7
"""The control loop keeps no step with the others."""

Wire = Callable[[int, list[np.ndarray]], list[np.ndarray]]
"""What arrives at a millisecond of what was sent at it."""


class Write(NamedTuple):
    """An order that reached the motors."""

    ms: int
    order: Order


class Rig:
    """A robot that stands, is started by its operator, and does as a mixer says."""

    def __init__(
        self,
        bundle: Bundle,
        planner: LivePlanner | None,
        begin: Callable[[Mixer], None],
        seed: int = 0,
    ):
        self.robot = SimulatedRobot(noise=1.0, seed=seed)
        self.robot.reset(bundle.base("stand").rows[0])
        self.loop = ControlLoop(bundle, planner, begin=begin, by_hand=True, ramp_s=0.02)
        self.guard = Guard(self.loop.limits)
        self.ms = 0
        self.keys = int(HOLD_KEY | START_KEY)
        self.writes: list[Write] = []
        self.log: list[tuple[int, str]] = []
        """Millisecond and what was logged then, by the loop or by the guard."""
        self.wire: Wire = lambda ms, sent: sent
        self.loop_alive = self.brain_runs = True
        self.brain_clock_s = self.guard_clock_s = 0.0
        """What the clocks are off."""
        self._told: StampedOrder | None = None
        self._waiting: list[np.ndarray] = []
        self._known = 0
        self._given = -1.0

    def run(self, until_ms: int) -> None:
        """Let time pass."""
        while self.ms < until_ms:
            self.step()

    def step(self) -> None:
        """One millisecond."""
        sent = []
        if self.ms % _STATE_MS == 0:
            self.robot.step(_STATE_MS * MS)
            sensed = self.robot.sense(self.robot.noise)
            sensed = replace(sensed, tick=self.ms, keys=self.keys)
            sent = [unitree.state(sensed, mode_machine=5)]
        self._waiting += self.wire(self.ms, sent)
        if self.ms % _CONTROL_MS == _OFFSET_MS and self.loop_alive and self.brain_runs:
            self._control()
        if self.ms % _GUARD_MS == 0:
            self._protect()
        self.ms += 1

    def _control(self) -> None:
        """A step of the control loop, on what the guard has let pass."""
        now, sensed = self.ms * MS + self.brain_clock_s, self.guard.sensed
        if sensed is not None and sensed.time_s <= self._given:
            sensed = None
        if sensed is not None:
            self._given = sensed.time_s
        order = self.loop.tick(now, sensed)
        events = self.loop.events
        self.log += [(self.ms, event.message) for event in events[self._known :]]
        self._known = len(events)
        if order is not None:
            self._told = StampedOrder(now, order)

    def _protect(self) -> None:
        """A tick of the guard; what it writes reaches the motors."""
        now = self.ms * MS + self.guard_clock_s
        order = self.guard.tick(now, self._waiting, self._told, self.loop_alive)
        self._waiting, self._told = [], None
        for event in self.guard.events:
            self.log.append((self.ms, f"guard: {event.event}: {event.reason}"))
        if order is not None:
            order = unitree.ordered(unitree.command(order, self.guard.mode_machine))
            self.robot.apply(order)
            self.writes.append(Write(self.ms, order))

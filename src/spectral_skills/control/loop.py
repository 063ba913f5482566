"""The control loop of a robot with its safety states: sensors in, orders out, at 50 Hz.

    ramp      to the default pose in three seconds
    wait      there, until the operator starts
    control   the controller follows the mixer's skills
    stopped   motors only brake; only a new start leads out

`ControlLoop.tick` is everything but the clock, so that tests and fault injection supply
the time. It needs NumPy and onnxruntime, neither MuJoCo nor torch.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from spectral_skills.control import safety
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import REST, Mixed, Mixer
from spectral_skills.control.safety import LIMITS, Fault, Order, Sensed
from spectral_skills.control.session import Session
from spectral_skills.control.streams import LivePlanner
from spectral_skills.robot import g1

PERIOD_S = 1.0 / g1.CONTROL_HZ
RAMP_S = 3.0
SETTLE_S = 1.0
"""Time of standing under control before anything else is played."""
BAD_ACTIONS = 3
"""Number of consecutive actions that are not finite before the robot is stopped."""


class State(StrEnum):
    RAMP = "ramp"
    WAIT = "wait"
    CONTROL = "control"
    STOPPED = "stopped"


class LoopEvent(NamedTuple):
    """A line of the log."""

    time_s: float
    state: State
    message: str


class SourceFailedError(Exception):
    """Neither the mixer nor its rescue gives a skill."""


class ControlLoop(Session):
    """A session that is safe from the start of a robot to its stop."""

    def __init__(
        self,
        bundle: Bundle | Path | str,
        planner: LivePlanner | None = None,
        *,
        begin: Callable[[Mixer], None] = lambda mixer: None,
        by_hand: bool = False,
        ramp_s: float = RAMP_S,
        log: Callable[[LoopEvent], None] = lambda event: None,
    ):
        """`begin` is called once the robot stands under control. With `by_hand` the
        operator starts, and holds the dead man's key as long as the robot may move."""
        super().__init__(bundle, planner)
        self.limits = replace(LIMITS, reach=self.bundle.manifest.robot.reach)
        self.mixer.stopped_rad = self.limits.tilt_rad
        self.state = State.RAMP
        self.fault: Fault | None = None
        """Reason of the stop."""
        self.events: list[LoopEvent] = []
        self._begin, self._by_hand, self._ramp_s = begin, by_hand, ramp_s
        self._log, self._gate = log, safety.Gate(self.limits)
        self._now: float | None = None
        self._since = 0.0
        """Time at which the state began."""
        self._from: np.ndarray | None = None
        self._order: Order | None = None
        self._bad = 0
        self._begun = False
        self._logged: dict[str, float] = {}

    def tick(self, now: float, sensed: Sensed | None) -> Order | None:
        """The order for the motors now; None before the first state of the robot."""
        order = self._ordered(now, sensed)
        if order is not None and not safety.sendable(order, self.limits):
            order = self.stop(now, Fault.ORDER)
        self._order = order
        return order

    def stop(self, now: float, fault: Fault) -> Order | None:
        """Make the motors brake, and nothing else, from now on."""
        if self.state is not State.STOPPED:
            self.fault = fault
            self._enter(now, State.STOPPED, str(fault))
        last = self._gate.last
        return None if last is None else safety.damped_stop(last.joints)

    def _ordered(self, now: float, sensed: Sensed | None) -> Order | None:
        jump = 0.0 if self._now is None else now - self._now
        self._now = now
        fresh = self._admit(now, sensed)
        if self.state is State.STOPPED:
            return self.stop(now, self.fault or Fault.OPERATOR)
        if not 0.0 <= jump <= self.limits.lost_s:
            return self.stop(now, Fault.CLOCK)
        if fresh is None:
            return self._without(now)
        must_hold = self._by_hand and self.state is State.CONTROL
        if fault := safety.danger(fresh, self.limits, must_hold):
            return self.stop(now, fault)
        return self._moving(now, fresh)

    def _admit(self, now: float, sensed: Sensed | None) -> Sensed | None:
        if sensed is None:
            return None
        if fault := self._gate.refuse(sensed):
            self._note(now, f"not taken: {fault}")
            return None
        if now - sensed.time_s > self.limits.hold_s:
            self._note(now, f"not taken: {Fault.LOST} for {self.limits.hold_s} s")
            return None
        return sensed

    def _without(self, now: float) -> Order | None:
        """Without a state the last order stays in force, but not for long."""
        if self._gate.last is None:
            return None
        if self._gate.age_s(now) > self.limits.lost_s:
            return self.stop(now, Fault.LOST)
        self._note(now, f"last order held: {Fault.LOST}")
        return self._order or self.stop(now, Fault.LOST)

    def _moving(self, now: float, sensed: Sensed) -> Order | None:
        if self._from is None:
            self._from, self._since = sensed.joints, now
        if self.state is State.RAMP:
            share = min((now - self._since) / self._ramp_s, 1.0)
            if share >= 1.0:
                self._enter(now, State.WAIT, "at the default pose")
            way = self.pilot.default - self._from
            return self.pilot.hold(self._from + share * way)
        if self.state is State.WAIT:
            if self._by_hand and not sensed.starts:
                return self.pilot.hold(self.pilot.default)
            self._enter(now, State.CONTROL, "started")
            self.pilot.reset(sensed)
        return self._controlled(now, sensed)

    def _controlled(self, now: float, sensed: Sensed) -> Order | None:
        if not self._begun and now - self._since >= SETTLE_S:
            self._begun = True
            self._begin(self.mixer)
        try:
            order = self.control(sensed)
        except SourceFailedError:
            return self.stop(now, Fault.SOURCE)
        if order is not None:
            self._bad = 0
            return order
        self._bad += 1
        self._note(now, f"last order held: {Fault.ACTION}")
        if self._bad >= BAD_ACTIONS or self._order is None:
            return self.stop(now, Fault.ACTION)
        return self._order

    def mix(self) -> Mixed:
        """The mixer's next step; if it fails, the robot stands."""
        now = self._now or 0.0
        for _ in range(2):
            try:
                mixed = super().mix()
                if np.isfinite(mixed.skill).all():
                    if trouble := self.mixer.stream.trouble:
                        self._note(now, f"{Fault.SOURCE}: {trouble}")
                    return mixed
                why = "a skill that is not a number"
            except Exception as error:  # Whatever it is, standing is safe.
                why = f"{type(error).__name__}: {error}"
            self._note(now, f"standing: {Fault.SOURCE}: {why}")
            rest = self.bundle.base(REST).skills[0]
            self.mixer.rescue(rest if self.mixed is None else self.mixed.skill)
        raise SourceFailedError

    def _enter(self, now: float, state: State, why: str) -> None:
        self.state, self._since = state, now
        self._write(LoopEvent(now, state, why))

    def _note(self, now: float, message: str) -> None:
        """Log what is not a change of state, each kind at most once a second."""
        kind = message.split(":")[0]
        if now - self._logged.get(kind, -1.0e9) >= 1.0:
            self._logged[kind] = now
            self._write(LoopEvent(now, self.state, message))

    def _write(self, event: LoopEvent) -> None:
        self.events.append(event)
        self._log(event)


class Robot(Protocol):
    """A robot that can be driven, simulated or real."""

    def read(self) -> Sensed | None: ...

    def write(self, order: Order) -> None: ...


class Timing(NamedTuple):
    """How a loop kept its time, one value for every step: time from reading the sensors
    to the order, and delay of the start, s."""

    compute: list[float]
    late: list[float]


def drive(
    loop: ControlLoop,
    robot: Robot,
    seconds: float,
    after: Callable[[ControlLoop], bool | None] = lambda loop: None,
    simulated_time: Callable[[], float] | None = None,
    paced: bool = True,
) -> Timing:
    """Drive a robot at 50 steps a second; `after` a step, True ends the drive.

    `simulated_time` is the clock of a simulated robot, which advances by a period with
    every order; without `paced` it runs as fast as it can be computed.
    """
    timing, wall = Timing([], []), time.monotonic
    due, steps = wall(), round(seconds / PERIOD_S)
    for _ in range(steps):
        if paced and (wait := due - wall()) > 0:
            time.sleep(wait)
        start = wall()
        sensed = robot.read()
        now = start if simulated_time is None else simulated_time()
        order = loop.tick(now, sensed)
        timing.compute.append(wall() - start)
        timing.late.append(start - due if paced else 0.0)
        if order is not None:
            robot.write(order)
        if after(loop):
            break
        # A late step is not caught up with: the next one is a period later.
        due = max(due + PERIOD_S, start)
    return timing

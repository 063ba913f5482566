"""The control loop: sensors in, an order out, fifty times a second.

    ramp      to the default pose in three seconds
    wait      there, until the operator starts
    control   the controller follows the mixer's skills
    stopped   motors only brake; nothing but a new start leads out

`Runtime.step` is all of it but the clock, so that tests and fault injection make time.
Needs NumPy and onnxruntime; simulations need MuJoCo; nothing needs torch.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from spectral_skills.control.mixer import REST, Mixed, Mixer
from spectral_skills.control.safety import (
    LIMITS,
    START_KEY,
    Fault,
    Gate,
    Limits,
    Order,
    Sensed,
    damped_stop,
    danger,
    sendable,
    stopped_by_hand,
)
from spectral_skills.control.session import Pilot
from spectral_skills.robot import g1

PERIOD_S = 1.0 / g1.CONTROL_HZ
RAMP_S = 3.0
SETTLE_S = 1.0
"""Standing under control before anything else is played."""
BAD_ACTIONS = 3
"""Actions in a row that are no numbers before the robot is stopped."""


class State(StrEnum):
    RAMP = "ramp"
    WAIT = "wait"
    CONTROL = "control"
    STOPPED = "stopped"


class Event(NamedTuple):
    """A line of the log."""

    time_s: float
    state: State
    what: str


class Runtime:
    """One robot from its start to its stop."""

    def __init__(
        self,
        mixer: Mixer,
        *,
        begin: Callable[[Mixer], None] = lambda mixer: None,
        by_hand: bool = False,
        ramp_s: float = RAMP_S,
        limits: Limits = LIMITS,
        log: Callable[[Event], None] = lambda event: None,
    ):
        """`begin` is called once the robot stands under control. `by_hand`: the
        operator starts, and holds the dead man's key as long as the robot may move."""
        self.mixer, self.pilot = mixer, Pilot(mixer.bundle)
        self.state, self.fault = State.RAMP, None
        self.fault: Fault | None
        """Why it was stopped."""
        self.events: list[Event] = []
        self.mixed: Mixed | None = None
        """The last step under control."""
        self.action = np.zeros(g1.NUM_JOINTS)
        self._begin, self._by_hand, self._ramp_s = begin, by_hand, ramp_s
        self._limits, self._log = limits, log
        self._gate = Gate(limits)
        self._now: float | None = None
        self._since = 0.0
        """When the state began."""
        self._from: np.ndarray | None = None
        self._order: Order | None = None
        self._bad = 0
        self._begun = False
        self._told: dict[str, float] = {}

    def step(self, now: float, sensed: Sensed | None) -> Order | None:
        """What motors are told now; None before a robot has told where it is."""
        order = self._ordered(now, sensed)
        if order is not None and not sendable(order):
            order = self.stop(now, Fault.ORDER)
        self._order = order
        return order

    def stop(self, now: float, fault: Fault) -> Order | None:
        """Motors only brake from now on."""
        if self.state is not State.STOPPED:
            self.fault = fault
            self._enter(now, State.STOPPED, str(fault))
        last = self._gate.last
        return None if last is None else damped_stop(last.joints)

    def _ordered(self, now: float, sensed: Sensed | None) -> Order | None:
        jump = 0.0 if self._now is None else now - self._now
        self._now = now
        fresh = self._admit(now, sensed)
        if self.state is State.STOPPED:
            return self.stop(now, self.fault or Fault.OPERATOR)
        if not 0.0 <= jump <= self._limits.lost_s:
            return self.stop(now, Fault.CLOCK)
        if fresh is None:
            return self._without(now)
        fault = stopped_by_hand(fresh, self._by_hand and self.state is State.CONTROL)
        fault = fault or danger(fresh, self._limits)
        if fault is not None:
            return self.stop(now, fault)
        return self._moving(now, fresh)

    def _admit(self, now: float, sensed: Sensed | None) -> Sensed | None:
        if sensed is None:
            return None
        fault = self._gate.refuse(sensed)
        if fault is not None:
            self._tell(now, f"not taken: {fault}")
            return None
        if now - sensed.time_s > self._limits.hold_s:
            self._tell(now, f"not taken: {Fault.LOST} for {self._limits.hold_s} s")
            return None
        return sensed

    def _without(self, now: float) -> Order | None:
        """No state to act upon: the last order counts on, but not for long."""
        if self._gate.last is None:
            return None
        if self._gate.age_s(now) > self._limits.lost_s:
            return self.stop(now, Fault.LOST)
        self._tell(now, f"last order held: {Fault.LOST}")
        return self._order or self.stop(now, Fault.LOST)

    def _moving(self, now: float, sensed: Sensed) -> Order | None:
        if self._from is None:
            self._from, self._since = sensed.joints, now
        if self.state is State.RAMP:
            share = min((now - self._since) / self._ramp_s, 1.0)
            if share >= 1.0:
                self._enter(now, State.WAIT, "at the default pose")
            way = self.pilot.default - self._from
            return self.pilot.stand(self._from + share * way)
        if self.state is State.WAIT:
            started = not self._by_hand or (
                sensed.keys & START_KEY and not stopped_by_hand(sensed, True)
            )
            if not started:
                return self.pilot.stand(self.pilot.default)
            self._enter(now, State.CONTROL, "started")
            self.pilot.reset(sensed)
        return self._controlled(now, sensed)

    def _controlled(self, now: float, sensed: Sensed) -> Order | None:
        if not self._begun and now - self._since >= SETTLE_S:
            self._begun = True
            self._begin(self.mixer)
        self.pilot.sense(sensed)
        mixed = self._mix(now)
        if mixed is None:
            return self.stop(now, Fault.SOURCE)
        if trouble := getattr(self.mixer.stream, "trouble", ""):
            self._tell(now, f"{Fault.SOURCE}: {trouble}")
        self.mixed, self.action = mixed, self.pilot.act(mixed.skill)
        if np.isfinite(self.action).all():
            self._bad = 0
            return self.pilot.order(self.action)
        self._bad += 1
        self._tell(now, f"last order held: {Fault.ACTION}")
        if self._bad >= BAD_ACTIONS or self._order is None:
            return self.stop(now, Fault.ACTION)
        return self._order

    def _mix(self, now: float) -> Mixed | None:
        """The mixer's step; if that fails, the robot stands."""
        for _ in range(2):
            try:
                mixed = self.mixer.step(self.pilot.history)
                if np.isfinite(mixed.skill).all():
                    return mixed
                why = "a skill that is not a number"
            except Exception as error:  # whatever it is, there is something safe to do
                why = f"{type(error).__name__}: {error}"
            self._tell(now, f"standing: {Fault.SOURCE}: {why}")
            rest = self.mixer.bundle.base(REST).skills[0]
            self.mixer.rescue(rest if self.mixed is None else self.mixed.skill)
        return None

    def _enter(self, now: float, state: State, why: str) -> None:
        self.state, self._since = state, now
        self._write(Event(now, state, why))

    def _tell(self, now: float, what: str) -> None:
        """Log what is not a change of state, each kind at most once a second."""
        kind = what.split(":")[0]
        if now - self._told.get(kind, -1.0e9) >= 1.0:
            self._told[kind] = now
            self._write(Event(now, self.state, what))

    def _write(self, event: Event) -> None:
        self.events.append(event)
        self._log(event)


class Robot(Protocol):
    """Something to drive."""

    def read(self) -> Sensed | None:
        """The newest state, if there is a new one."""
        ...

    def write(self, order: Order) -> None: ...


class Timing(NamedTuple):
    """How a loop kept its time, s, one of each for every step."""

    compute: list[float]
    """From reading the sensors to the order."""
    late: list[float]
    """How much later than planned a step began."""


def drive(
    runtime: Runtime,
    robot: Robot,
    seconds: float,
    after: Callable[[Runtime], bool | None] = lambda runtime: None,
    made_time: Callable[[], float] | None = None,
    paced: bool = True,
) -> Timing:
    """Fifty steps a second; `after` each one, something may end it by telling True.

    `made_time` is the clock of a simulated robot, which passes a period with every
    order; without `paced` it passes as fast as it can be computed.
    """
    timing, wall = Timing([], []), time.monotonic
    due, steps = wall(), round(seconds / PERIOD_S)
    for _ in range(steps):
        if paced and (wait := due - wall()) > 0:
            time.sleep(wait)
        start = wall()
        sensed = robot.read()
        order = runtime.step(start if made_time is None else made_time(), sensed)
        timing.compute.append(wall() - start)
        timing.late.append(start - due if paced else 0.0)
        if order is not None:
            robot.write(order)
        if after(runtime):
            break
        # A step that is late is not caught up with: the next is a period later.
        due = max(due + PERIOD_S, start)
    return timing

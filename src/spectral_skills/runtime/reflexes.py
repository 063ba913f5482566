"""What the guard does about every tick of its loop; time is told, never asked for.

Whatever happens to the control loop or to the robot's states, motors brake within a
tick or two of the time that `Limits` gives. Once a robot has been stopped, only a new
start leads out.
"""

from typing import NamedTuple

import numpy as np

from spectral_skills.control.safety import (
    HOLD_KEY,
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
from spectral_skills.runtime import unitree
from spectral_skills.runtime.pipe import Told


class Event(NamedTuple):
    """A line of the log."""

    time_s: float
    event: str
    reason: str = ""


class Guard:
    """Lets states and orders pass, or stops the robot."""

    def __init__(self, by_hand: bool = True, limits: Limits = LIMITS):
        """`by_hand`: from the operator's start on, the dead man's key must be held."""
        self.fault: Fault | None = None
        """Why it has stopped the robot."""
        self.mode_machine = 0
        self.events: list[Event] = []
        """Of the last tick."""
        self._by_hand, self._limits = by_hand, limits
        self._gate = Gate(limits)
        self._now: float | None = None
        self._started = False
        self._order: Order | None = None
        self._ordered_s = 0.0
        self._told: dict[str, float] = {}

    @property
    def sensed(self) -> Sensed | None:
        """The newest state that passed."""
        return self._gate.last

    def tick(
        self,
        now: float,
        messages: list[np.ndarray],
        told: Told | None,
        brain_alive: bool,
    ) -> Order | None:
        """What motors are told now; None as long as no robot has told of itself."""
        self.events = []
        before, self._now = self._now, now
        fresh = [s for m in messages if (s := self._admit(now, m)) is not None]
        faults = [Fault.GONE] if not brain_alive else []
        faults += [f for s in fresh if (f := self._danger(now, s)) is not None]
        if self._order is not None and not (
            before is None or 0.0 <= now - before <= self._limits.lost_s
        ):
            faults.append(Fault.CLOCK)
        if told is not None and not self._take(now, told):
            faults.append(Fault.ORDER)
        faults += self._overdue(now)
        if faults:
            self.stop(now, faults[0])
        if self.sensed is None:
            return None
        if self.fault is not None or self._order is None or self._order.damped:
            return damped_stop(self.sensed.joints)
        return self._order

    def stop(self, now: float, fault: Fault, why: str = "") -> None:
        """Motors only brake from now on."""
        if self.fault is None:
            self.fault = fault
            self.events.append(Event(now, "stopped", why or str(fault)))

    def _admit(self, now: float, message: np.ndarray) -> Sensed | None:
        if not unitree.intact(message):
            self.tell(now, "not taken", Fault.WRONG_CRC)
            return None
        sensed = unitree.sensed(message, now)
        first = self._gate.last is None
        if (fault := self._gate.refuse(sensed)) is not None:
            self.tell(now, "not taken", fault)
            return None
        if first:
            self.events.append(Event(now, "first state"))
        self.mode_machine = int(message["mode_machine"])
        return sensed

    def _danger(self, now: float, sensed: Sensed) -> Fault | None:
        if not self._started and sensed.keys & START_KEY and sensed.keys & HOLD_KEY:
            self._started = True
            self.events.append(Event(now, "started by hand"))
        must_hold = self._by_hand and self._started
        return stopped_by_hand(sensed, must_hold) or danger(sensed, self._limits)

    def _take(self, now: float, told: Told) -> bool:
        """Go by a new order, unless it was made without knowing where the robot is."""
        if not sendable(told.order):
            return False
        # A stamp from the future would be believed for too long.
        self._ordered_s = min(told.sent_s, now)
        if self._gate.age_s(now) <= self._limits.hold_s:
            if self._order is None:
                self.events.append(Event(now, "first order"))
            self._order = told.order
        return True

    def _overdue(self, now: float) -> list[Fault]:
        """What should have arrived by now."""
        if self._order is None or self.fault is not None:
            return []
        age, limits = self._gate.age_s(now), self._limits
        if age > limits.hold_s:
            self.tell(now, "last order held", Fault.LOST)
        lost = [Fault.LOST] if age > limits.lost_s else []
        silent = now - self._ordered_s > limits.silent_s
        return lost + ([Fault.SILENT] if silent else [])

    def tell(self, now: float, event: str, reason: str, key: str = "") -> None:
        """Log what may happen in every tick, at most once a second."""
        key = key or str(reason)
        if now - self._told.get(key, -np.inf) >= 1.0:
            self._told[key] = now
            self.events.append(Event(now, event, str(reason)))

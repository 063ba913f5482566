"""The guard between the control loop and the motors: a process of its own.

    robot  <- DDS, 500 Hz ->  guard  <- packets ->  control loop, 50 Hz

It passes good states on to the control loop, and writes the loop's newest order if that
is within limits. Whatever happens to the control loop or to the robot's states, the
motors brake within a tick or two of the times that `Limits` gives. Only a new start
leads out of a stop. `Guard` decides, in time that is passed to it; `Process` runs it.
The process ignores Ctrl-C and outlives the control loop for a while.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
import time
from queue import SimpleQueue
from typing import Any, NamedTuple, TextIO

import numpy as np

from spectral_skills.control import safety
from spectral_skills.control.safety import LIMITS, Fault, Limits, Order, Sensed
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree
from spectral_skills.runtime.dds import DriverLink

_ORDER = np.dtype(
    [
        ("sent_s", "f8"),
        *((name, "f8", g1.NUM_JOINTS) for name in ("targets", "stiffness", "damping")),
    ]
)
_REPORT = np.dtype(
    [
        *(("fault", "u1"), ("mode_machine", "u1"), ("known", "?")),
        *(("time_s", "f8"), ("tick", "u4"), ("keys", "u4")),
        *(("quaternion", "f8", 4), ("gyro", "f8", 3)),
        *(("joints", "f8", g1.NUM_JOINTS), ("velocities", "f8", g1.NUM_JOINTS)),
    ]
)
_FAULTS = (None, *Fault)


class StampedOrder(NamedTuple):
    """An order and the time at which it was sent, by the monotonic clock."""

    sent_s: float
    order: Order


class Report(NamedTuple):
    """The guard's message to the control loop: the newest state that passed its checks,
    the reason why it stopped the robot, and the machine type that the robot reports."""

    sensed: Sensed | None
    fault: Fault | None
    mode_machine: int


class _End:
    """One end of a pair of sockets, for packets of fixed size. No call blocks."""

    def __init__(self, end: socket.socket):
        end.setblocking(False)
        self.socket = end
        self.open = True
        """Whether the other end still exists."""

    def _send(self, layout: np.dtype, values: dict[str, Any]) -> None:
        packet = np.zeros((), layout)
        for name, value in values.items():
            packet[name] = value
        try:
            self.socket.send(packet.tobytes())
        except BlockingIOError:
            pass  # the other side is slow: it will get a newer packet
        except OSError:
            self.open = False

    def _newest(self, layout: np.dtype) -> dict[str, Any] | None:
        """Return the last waiting packet and drop the older ones."""
        newest = None
        while self.open:
            try:
                data = self.socket.recv(4096)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.open = False
            else:
                newest = data
        if newest is None:
            return None
        packet = np.frombuffer(newest, layout)[0]
        values = {name: packet[name] for name in layout.names or ()}
        return {name: v if v.ndim else v.item() for name, v in values.items()}


class LoopEnd(_End):
    def send(self, order: StampedOrder) -> None:
        self._send(_ORDER, {"sent_s": order.sent_s, **vars(order.order)})

    def newest(self) -> Report | None:
        if (values := self._newest(_REPORT)) is None:
            return None
        fault, machine = _FAULTS[values.pop("fault")], values.pop("mode_machine")
        known = values.pop("known")
        return Report(Sensed(**values) if known else None, fault, machine)


class GuardEnd(_End):
    def send(self, report: Report) -> None:
        sensed, fault, machine = report
        about = {"fault": _FAULTS.index(fault), "mode_machine": machine}
        state = {} if sensed is None else {"known": True, **vars(sensed)}
        self._send(_REPORT, about | state)

    def newest(self) -> StampedOrder | None:
        if (values := self._newest(_ORDER)) is None:
            return None
        return StampedOrder(values.pop("sent_s"), Order(**values))


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that keep packets whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Event(NamedTuple):
    """A line of the log."""

    time_s: float
    event: str
    reason: str = ""


class Guard:
    """Passes states and orders on, or stops the robot."""

    def __init__(self, limits: Limits = LIMITS):
        self.fault: Fault | None = None
        """Reason why the robot was stopped."""
        self.mode_machine = 0
        self.events: list[Event] = []
        """Events of the last tick."""
        self._limits = limits
        self._gate = safety.Gate(limits)
        self._now: float | None = None
        self._started = False
        self._order: Order | None = None
        self._ordered_s = 0.0
        self._logged_s: dict[str, float] = {}

    @property
    def sensed(self) -> Sensed | None:
        """Newest state that passed the checks."""
        return self._gate.last

    def tick(
        self,
        now: float,
        messages: list[np.ndarray],
        order: StampedOrder | None,
        loop_alive: bool,
    ) -> Order | None:
        """Return the order for the motors; None before the first state of a robot."""
        self.events = []
        before, self._now = self._now, now
        fresh = [s for m in messages if (s := self._admit(now, m)) is not None]
        faults = [Fault.GONE] if not loop_alive else []
        faults += [f for s in fresh if (f := self._danger(now, s)) is not None]
        if self._order is not None and not (
            before is None or 0.0 <= now - before <= self._limits.lost_s
        ):
            faults.append(Fault.CLOCK)
        if order is not None and not self._take(now, order):
            faults.append(Fault.ORDER)
        faults += self._overdue(now)
        if faults:
            self.stop(now, faults[0])
        if self.sensed is None:
            return None
        if self.fault is not None or self._order is None or self._order.damped:
            return safety.damped_stop(self.sensed.joints)
        return self._order

    def stop(self, now: float, fault: Fault, why: str = "") -> None:
        if self.fault is None:
            self.fault = fault
            self.events.append(Event(now, "stopped", why or str(fault)))

    def _admit(self, now: float, message: np.ndarray) -> Sensed | None:
        if not unitree.intact(message):
            self.log(now, "not taken", Fault.WRONG_CRC)
            return None
        sensed = unitree.sensed(message, now)
        first = self._gate.last is None
        if (fault := self._gate.refuse(sensed)) is not None:
            self.log(now, "not taken", fault)
            return None
        if first:
            self.events.append(Event(now, "first state"))
        self.mode_machine = int(message["mode_machine"])
        return sensed

    def _danger(self, now: float, sensed: Sensed) -> Fault | None:
        """Why the robot must stop; the dead man's key counts once it was started."""
        if not self._started and sensed.starts:
            self._started = True
            self.events.append(Event(now, "started by hand"))
        return safety.danger(sensed, self._limits, self._started)

    def _take(self, now: float, order: StampedOrder) -> bool:
        """Accept a new order, unless it was made without a recent state."""
        if not safety.sendable(order.order, self._limits):
            return False
        # A stamp from the future would be believed for too long.
        self._ordered_s = min(order.sent_s, now)
        if self._gate.age_s(now) <= self._limits.hold_s:
            if self._order is None:
                self.events.append(Event(now, "first order"))
            self._order = order.order
        return True

    def _overdue(self, now: float) -> list[Fault]:
        """Return the faults of messages that should have arrived by now."""
        if self._order is None or self.fault is not None:
            return []
        age, limits = self._gate.age_s(now), self._limits
        if age > limits.hold_s:
            self.log(now, "last order held", Fault.LOST)
        lost = [Fault.LOST] if age > limits.lost_s else []
        silent = now - self._ordered_s > limits.silent_s
        return lost + ([Fault.SILENT] if silent else [])

    def log(self, now: float, event: str, reason: str, key: str = "") -> None:
        """Log an event that may happen in every tick, at most once a second."""
        key = key or str(reason)
        if now - self._logged_s.get(key, -np.inf) >= 1.0:
            self._logged_s[key] = now
            self.events.append(Event(now, event, str(reason)))


PERIOD_S = 0.002
LINGER_S = 10.0
"""Time for which the motors brake after the control loop has ended."""
LATE_S = 0.005
"""Delay from which a late tick is logged."""


class Log:
    """Writes events as lines of JSON, and important ones on standard error.

    A thread writes them, so that neither a slow disk nor a halted terminal delays the
    loop, and a closed one does not end it.
    """

    def __init__(self, file: TextIO | None):
        self._file, self._events = file, SimpleQueue[Event | None]()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        self._events.put(event)

    def close(self) -> None:
        """Write the remaining events, if that takes less than a second."""
        self._events.put(None)
        self._thread.join(timeout=1.0)

    def _write(self) -> None:
        while (event := self._events.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                if self._file is not None:
                    self._file.write(json.dumps(event._asdict()) + "\n")
            with contextlib.suppress(OSError, ValueError):
                if event.reason:
                    print(f"guard: {event.event}: {event.reason}", file=sys.stderr)


class Process:
    """The loop around a guard."""

    def __init__(self, guard: Guard, link: DriverLink, end: GuardEnd, log: Log):
        self._guard, self._link, self._end, self._log = guard, link, end, log
        self.terminated = False
        """Whether the process was asked to end."""

    def run(self, linger_s: float) -> None:
        """Tick until the control loop has been gone for `linger_s`."""
        due, gone_s = time.monotonic(), None
        while gone_s is None or due - gone_s < linger_s:
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            now = time.monotonic()
            try:
                self._tick(now)
            except Exception as error:  # whatever it is, the motors must brake
                self._brake(now, f"{type(error).__name__}: {error}")
            if now - due > LATE_S:
                late = f"{1e3 * (now - due):.1f} ms"
                self._guard.log(now, "late tick", late, "late")
            for event in self._guard.events:
                self._log(event)
            self._guard.events = []
            if gone_s is None and (self.terminated or not self._end.open):
                gone_s = now
            # Missed ticks are not made up for.
            due = max(due + PERIOD_S, now)

    def _tick(self, now: float) -> None:
        guard, messages, newest = self._guard, self._link.states(), self._end.newest()
        loop_alive = self._end.open and not self.terminated  # as `newest` found it
        order = guard.tick(now, messages, newest, loop_alive)
        self._report()
        if order is not None:
            self._link.send(unitree.command(order, guard.mode_machine))

    def _report(self) -> None:
        # Before the motors: past a silent guard the last order is repeated, unless
        # the guard is known to brake.
        guard = self._guard
        self._end.send(Report(guard.sensed, guard.fault, guard.mode_machine))

    def _brake(self, now: float, why: str) -> None:
        self._guard.stop(now, Fault.GONE, why)
        with contextlib.suppress(Exception):
            self._report()
        if (sensed := self._guard.sensed) is not None:
            order = safety.damped_stop(sensed.joints)
            with contextlib.suppress(Exception):  # nothing else is left to try
                self._link.send(unitree.command(order, self._guard.mode_machine))

    def terminate(self, *_) -> None:
        """Brake, then end."""
        self.terminated = True


def raise_priority(priority: int, thread: int = 0) -> bool:
    """Give this thread real-time priority; return False where that is not allowed.

    `thread` is the native number of another thread to give it to.
    """
    # Collecting garbage would pause a loop that must not be late.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, AttributeError):
        return False
    return True


def main(
    fd: int, link: tuple[str, int], limits: dict, linger_s: float, log: str | None
) -> None:
    """Guard the robot at an interface and domain; `fd` is the socket to the loop."""
    file = None if log is None else open(log, "a", buffering=1)
    # Threads started from here on inherit the priority: whichever of them holds the
    # interpreter's lock must not wait for other programs.
    prioritised = raise_priority(50)
    events = Log(file)
    if not prioritised:
        events(Event(time.monotonic(), "no real-time priority"))
    topics, end = DriverLink(*link), GuardEnd(socket.socket(fileno=fd))
    process = Process(Guard(limits=Limits(**limits)), topics, end, events)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, process.terminate)
    process.run(linger_s)
    events.close()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

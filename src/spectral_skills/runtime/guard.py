"""The guard between the control loop and the motors, a process of its own.

    robot  <- DDS, 500 a second ->  guard  <- packets ->  control loop, 50 a second

It lets good states pass to the control loop and writes the loop's newest order if that
is within limits; `Guard` in reflexes.py decides. Started by `GuardedRobot`, it ignores
Ctrl-C and outlives the control loop for a while.
"""

import argparse
import contextlib
import json
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from spectral_skills.control.safety import Fault, Limits, damped_stop
from spectral_skills.runtime import unitree
from spectral_skills.runtime.dds import DriverLink
from spectral_skills.runtime.pipe import GuardEnd, Report
from spectral_skills.runtime.priority import come_first
from spectral_skills.runtime.reflexes import Event, Guard

PERIOD_S = 0.002
LINGER_S = 10.0
"""So long motors are told to brake after the control loop has gone."""
LATE_S = 0.005
"""A tick that begins so much later than planned is logged."""


class Log:
    """Events as lines of JSON; what a person must know also on standard error.

    A thread writes them: neither a slow disk nor a halted terminal holds up the loop,
    and one that is gone does not end it.
    """

    def __init__(self, file: TextIO | None):
        self._file, self._events = file, SimpleQueue[Event | None]()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        self._events.put(event)

    def close(self) -> None:
        """Write what is left, if that can be done soon."""
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
        """Whether it has been told to end."""

    def run(self, linger_s: float) -> None:
        """Ticks until the control loop has been gone for a while."""
        due, gone_s = time.monotonic(), None
        while gone_s is None or due - gone_s < linger_s:
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            now = time.monotonic()
            try:
                self._tick(now)
            except Exception as error:  # whatever it is, the motors must hear of it
                self._brake(now, f"{type(error).__name__}: {error}")
            if now - due > LATE_S:
                late = f"{1e3 * (now - due):.1f} ms"
                self._guard.tell(now, "late tick", late, "late")
            self._report()
            if gone_s is None and (self.terminated or not self._end.open):
                gone_s = now
            # Ticks that were missed are not made up for.
            due = max(due + PERIOD_S, now)

    def _tick(self, now: float) -> None:
        guard, messages, told = self._guard, self._link.states(), self._end.newest()
        order = guard.tick(now, messages, told, self._end.open and not self.terminated)
        if order is not None:
            self._link.send(unitree.command(order, guard.mode_machine))
        self._end.send(Report(guard.sensed, guard.fault, guard.mode_machine))

    def _brake(self, now: float, why: str) -> None:
        self._guard.stop(now, Fault.GONE, why)
        if (sensed := self._guard.sensed) is not None:
            order = damped_stop(sensed.joints)
            with contextlib.suppress(Exception):  # nothing else is left to try
                self._link.send(unitree.command(order, self._guard.mode_machine))

    def _report(self) -> None:
        for event in self._guard.events:
            self._log(event)
        self._guard.events = []

    def terminate(self, *_) -> None:
        """Brake, then end."""
        self.terminated = True


def main() -> None:
    parser = argparse.ArgumentParser(prog="spectral_skills.runtime.guard")
    parser.add_argument("--fd", type=int, required=True, help="socket to the loop")
    parser.add_argument("--interface", required=True)
    parser.add_argument("--domain", type=int, default=0)
    parser.add_argument("--by-hand", action="store_true", help="dead man's key")
    parser.add_argument("--limits", type=json.loads, default={})
    parser.add_argument("--linger-s", type=float, default=LINGER_S)
    parser.add_argument("--log", type=Path, help="file of JSON lines")
    given = parser.parse_args()
    file = given.log and given.log.open("a", buffering=1)
    # Threads begun from here on come first too: whoever holds the interpreter's lock
    # must not wait for other programs.
    first = come_first(50)
    log = Log(file)
    if not first:
        log(Event(time.monotonic(), "no real-time priority"))
    link = DriverLink(given.interface, given.domain)
    end = GuardEnd(socket.socket(fileno=given.fd))
    guard = Guard(given.by_hand, Limits(**given.limits))
    process = Process(guard, link, end, log)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, process.terminate)
    process.run(given.linger_s)
    log.close()


if __name__ == "__main__":
    main()

"""A robot behind the guard, as the control loop sees it."""

import contextlib
import json
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from spectral_skills.control.safety import (
    LIMITS,
    Fault,
    Limits,
    Order,
    Sensed,
    damped_stop,
    sendable,
)
from spectral_skills.runtime import guard, unitree
from spectral_skills.runtime.dds import command_sender
from spectral_skills.runtime.pipe import BrainEnd, Report, Told, pair

_START_S = 20.0
"""For a guard to begin."""
_WATCH_S = 0.004
"""Between looks at whether the guard still ticks; its end is noticed at once."""
_REPEAT_S = 0.006
"""A guard that has not ticked for so long is helped out."""


class GuardedRobot:
    """Starts a guard, talks to the robot through it, and brakes if it is lost.

    A thread watches the guard, with a writer that has been known to the robot from the
    start. While the guard does not tick, the thread repeats the last order; if it goes
    on like this, or the guard ends, it makes sure that the guard is dead and tells the
    motors to brake.
    """

    def __init__(
        self,
        interface: str,
        domain: int = 0,
        *,
        by_hand: bool = True,
        limits: Limits = LIMITS,
        log: Path | None = None,
        linger_s: float = guard.LINGER_S,
    ):
        self._standby = command_sender(interface, domain)
        mine, its = pair()
        command = [sys.executable, "-m", guard.__name__, f"--fd={its.fileno()}"]
        command += [f"--interface={interface}", f"--domain={domain}"]
        command += [f"--limits={json.dumps(asdict(limits))}"]
        command += [f"--linger-s={linger_s}"] + ["--by-hand"] * by_hand
        command += [] if log is None else [f"--log={log}"]
        # A session of its own: Ctrl-C in a terminal reaches the control loop alone.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(its.fileno(),),
            start_new_session=True,
        )
        its.close()
        self._end, self._lock, self._limits = BrainEnd(mine), threading.Lock(), limits
        self._report: Report | None = None
        self._report_s = 0.0
        self._given = -np.inf
        self._order: Order | None = None
        self._braking = self._closed = False
        self.alive = True
        """Whether the guard is at work."""
        self._await()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self.watcher = self._thread.native_id or 0
        """The thread's number; it must not wait for other programs either."""

    @property
    def fault(self) -> Fault | None:
        """Why the guard has stopped the robot."""
        report = self._report
        return None if report is None else report.fault

    def read(self) -> Sensed | None:
        """The newest state, if there is a new one."""
        self._look()
        sensed = None if self._report is None else self._report.sensed
        if sensed is None or sensed.time_s <= self._given:
            return None
        self._given = sensed.time_s
        return sensed

    def write(self, order: Order) -> None:
        """What motors are told until the next order."""
        if self._braking:
            order = damped_stop(order.targets)
        if self.alive:
            now = time.monotonic()
            # A guard that hangs does not take it, so that it is not the last they got.
            if now - self._report_s <= _REPEAT_S:
                self._order = order
            self._end.send(Told(now, order))

    def brake(self) -> None:
        """Motors only brake from now on, whatever orders say; a signal may call it."""
        self._braking = True
        if (report := self._report) is not None and report.sensed is not None:
            self.write(damped_stop(report.sensed.joints))

    def close(self) -> None:
        """Leave; the guard brakes the robot for a while before it ends."""
        self._closed = True
        self._thread.join()
        self._end.socket.close()

    def _await(self) -> None:
        begun = time.monotonic()
        while self._report is None and self._end.open:
            if time.monotonic() - begun > _START_S:
                self.process.kill()
                raise OSError(f"the guard did not begin within {_START_S:.0f} s")
            time.sleep(0.01)
            self._look()
        if not self._end.open:
            code = self.process.wait()
            raise OSError(f"the guard ended at once with code {code}; see above")

    def _look(self) -> None:
        with self._lock:
            report = self._end.newest()
            if report is not None:
                self._report, self._report_s = report, time.monotonic()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._end.socket, select.POLLRDHUP)
        while not self._closed and self.alive:
            ended = poll.poll(1e3 * _WATCH_S)
            self._look()
            silent_s = time.monotonic() - self._report_s
            if ended or silent_s > self._limits.lost_s or not self._end.open:
                self.alive = False
                self.process.kill()
            elif silent_s > _REPEAT_S:
                self._repeat()
        while not self._closed:
            self._send(None)
            time.sleep(guard.PERIOD_S)

    def _repeat(self) -> None:
        order = None if self.fault is not None or self._braking else self._order
        self._send(order if order is not None and sendable(order) else None)

    def _send(self, order: Order | None) -> None:
        """An order past the guard; None is to brake."""
        report = self._report
        if report is None or report.sensed is None:
            return  # no robot has told of itself
        if order is None:
            order = damped_stop(report.sensed.joints)
        with contextlib.suppress(Exception):  # nothing else is left to try
            self._standby(unitree.command(order, report.mode_machine))

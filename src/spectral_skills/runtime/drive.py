"""Driving a robot over DDS: the control loop and, through the guard, its robot."""

import contextlib
import json
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from spectral_skills.control import safety
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.loop import (
    RAMP_S,
    ControlLoop,
    LoopEvent,
    State,
    Timing,
    drive,
)
from spectral_skills.control.mixer import Mixer
from spectral_skills.control.safety import LIMITS, Fault, Limits, Order, Sensed
from spectral_skills.control.streams import LivePlanner
from spectral_skills.runtime import guard, unitree
from spectral_skills.runtime.dds import command_sender
from spectral_skills.runtime.guard import LoopEnd, Report, StampedOrder, pair

_START_S = 20.0
"""Time that a guard may take to start."""
_WATCH_S = 0.004
"""Interval of checks that the guard still ticks; its end is noticed at once."""
_REPEAT_S = 0.006
"""Silence of the guard after which the last order is repeated past it."""


class GuardedRobot:
    """A robot behind a guard, which it starts; brakes if the guard is lost.

    A thread watches the guard. It has a writer that the robot has known from the start.
    While the guard does not tick, the thread repeats the last order; if that lasts, or
    if the guard ends, it kills the guard and lets the motors brake.
    """

    def __init__(
        self,
        interface: str,
        domain: int = 0,
        *,
        limits: Limits = LIMITS,
        log: Path | None = None,
        linger_s: float = guard.LINGER_S,
    ):
        self._standby = command_sender(interface, domain)
        mine, its = pair()
        settings = {
            "fd": its.fileno(),
            "link": (interface, domain),
            "limits": asdict(limits),
            "linger_s": linger_s,
            "log": None if log is None else str(log),
        }
        # A session of its own: Ctrl-C in a terminal reaches the control loop alone.
        self.process = subprocess.Popen(
            [sys.executable, "-m", guard.__name__, json.dumps(settings)],
            stdin=subprocess.DEVNULL,
            pass_fds=(its.fileno(),),
            start_new_session=True,
        )
        its.close()
        self._end, self._lock, self._limits = LoopEnd(mine), threading.Lock(), limits
        self._report: Report | None = None
        self._report_s = 0.0
        self._given = -np.inf
        self._order: Order | None = None
        self._braking = self._closed = False
        self.alive = True
        """Whether the guard is running."""
        self._await()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self.watcher = self._thread.native_id or 0
        """Native number of the watching thread, which needs priority too."""

    @property
    def fault(self) -> Fault | None:
        """Reason why the guard stopped the robot."""
        report = self._report
        return None if report is None else report.fault

    def read(self) -> Sensed | None:
        self._look()
        sensed = None if self._report is None else self._report.sensed
        if sensed is None or sensed.time_s <= self._given:
            return None
        self._given = sensed.time_s
        return sensed

    def write(self, order: Order) -> None:
        if self._braking:
            order = safety.damped_stop(order.targets)
        if self.alive:
            now = time.monotonic()
            # A guard that hangs does not pass the order on: motors have an older one,
            # which is not repeated once they should brake.
            if order.damped or now - self._report_s <= _REPEAT_S:
                self._order = order
            self._end.send(StampedOrder(now, order))

    def brake(self) -> None:
        """Let the motors brake from now on; a signal handler may call it."""
        self._braking = True
        if (report := self._report) is not None and report.sensed is not None:
            self.write(safety.damped_stop(report.sensed.joints))

    def close(self) -> None:
        """Leave the robot to the guard, which brakes it for a while and ends."""
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
                order = None if self.fault is not None or self._braking else self._order
                good = order is not None and safety.sendable(order, self._limits)
                self._send(order if good else None)
        while not self._closed:
            self._send(None)
            time.sleep(guard.PERIOD_S)

    def _send(self, order: Order | None) -> None:
        """Send an order past the guard; None brakes."""
        report = self._report
        if report is None or report.sensed is None:
            return  # no state has arrived yet
        if order is None:
            order = safety.damped_stop(report.sensed.joints)
        with contextlib.suppress(Exception):  # nothing else is left to try
            self._standby(unitree.command(order, report.mode_machine))


_FOREVER_S = 1e7
_BRAKE_S = 1.0
"""Time for which the loop itself brakes before it leaves that to the guard."""


def drive_robot(
    bundle: Bundle,
    begin: Callable[[Mixer], None],
    interface: str,
    domain: int,
    seconds: float | None = None,
    out: Path | None = None,
    ramp_s: float = RAMP_S,
) -> tuple[ControlLoop, Timing]:
    """Drive from the robot's first state to the damped stop that ends every drive."""
    live = LivePlanner.of(bundle)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        file = None
        if out is not None:
            file = stack.enter_context((out / "drive.jsonl").open("a", buffering=1))

        def log(event: LoopEvent) -> None:
            print(f"{event.state:8s}{event.message}", flush=True)
            if file is not None:
                file.write(json.dumps(event._asdict()) + "\n")

        loop = ControlLoop(
            bundle, live, begin=begin, by_hand=True, ramp_s=ramp_s, log=log
        )
        logged = None if out is None else out / "guard.jsonl"
        robot = GuardedRobot(interface, domain, limits=loop.limits, log=logged)
        stack.callback(robot.close)
        return loop, _driven(loop, robot, seconds)


def _driven(loop: ControlLoop, robot: GuardedRobot, seconds: float | None) -> Timing:
    asked: list[Fault] = []

    def stop_asked(*_) -> None:
        asked.append(Fault.OPERATOR)
        robot.brake()  # the loop's next step is up to a period away

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_asked)
    print("press start on the remote, holding R1, once the robot has its pose")

    def after(loop: ControlLoop) -> bool:
        fault = asked[0] if asked else robot.fault
        if not robot.alive:
            fault = Fault.GUARD
        if fault is not None:
            loop.stop(time.monotonic(), fault)
        return loop.state is State.STOPPED

    guard.raise_priority(45, robot.watcher)  # below the guard's
    guard.raise_priority(40)
    timing = drive(loop, robot, seconds or _FOREVER_S, after)
    if loop.state is not State.STOPPED:
        loop.stop(time.monotonic(), Fault.OVER)
    drive(loop, robot, _BRAKE_S)
    return timing

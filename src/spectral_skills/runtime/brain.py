"""The program that drives a robot over DDS: the control loop behind its guard."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.loop import (
    RAMP_S,
    ControlLoop,
    Event,
    State,
    Timing,
    drive,
)
from spectral_skills.control.mixer import Mixer
from spectral_skills.control.safety import Fault
from spectral_skills.control.streams import ThreadedPlanner
from spectral_skills.runtime.guarded import GuardedRobot
from spectral_skills.runtime.priority import come_first

_FOREVER_S = 1e7
_BRAKE_S = 1.0
"""So long the loop itself brakes before it leaves that to the guard."""


def drive_robot(
    bundle: Bundle,
    begin: Callable[[Mixer], None],
    interface: str,
    domain: int,
    seconds: float | None = None,
    out: Path | None = None,
    ramp_s: float = RAMP_S,
) -> tuple[ControlLoop, Timing]:
    """From the first state of the robot to a damped stop, which ends every drive."""
    planner = bundle.planner()
    live = None if planner is None else ThreadedPlanner(planner)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    log = _Log(None if out is None else out / "drive.jsonl")
    loop = ControlLoop(bundle, live, begin=begin, by_hand=True, ramp_s=ramp_s, log=log)
    asked: list[Fault] = []
    logged = None if out is None else out / "guard.jsonl"
    robot = GuardedRobot(interface, domain, log=logged)

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

    come_first(45, robot.watcher)  # after the guard; others than these two do not
    come_first(40)
    try:
        timing = drive(loop, robot, seconds or _FOREVER_S, after)
        if loop.state is not State.STOPPED:
            loop.stop(time.monotonic(), Fault.OVER)
        drive(loop, robot, _BRAKE_S)
    finally:
        robot.close()
        log.close()
    return loop, timing


class _Log:
    """Events on the screen, and as lines of JSON in a file."""

    def __init__(self, path: Path | None):
        self._file = None if path is None else path.open("a", buffering=1)

    def __call__(self, event: Event) -> None:
        print(f"{event.state:8s}{event.message}", flush=True)
        if self._file is not None:
            self._file.write(json.dumps(event._asdict()) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

"""A robot in real time, and the program that drives it in processes of its own.

What `simulated_rig.py` makes up is real here: processes, signals, sockets, DDS and the
clock.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from simulated_rig import Wire

from spectral_skills.control.safety import HOLD_KEY, START_KEY, Order, damped_stop
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree
from spectral_skills.runtime.dds import LOOPBACK, RobotLink
from spectral_skills.runtime.robot_sim import MODE_MACHINE, Gantry

_STEP_S, _STATE_S = 0.001, g1.PHYSICS_DT_S
_RESTED_S, _PRESSED_S = 0.3, 0.3
"""How long the driver rests before start is pressed, and how long it is pressed."""
_RAMP_S = 0.2
_DRIVER = f"""
import sys
from pathlib import Path
from spectral_skills.runtime.drive import drive_robot
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import Cue

folder, domain, out = sys.argv[1:]
drive_robot(
    Bundle.open(Path(folder)), lambda mixer: mixer.play(Cue("walk")), "{LOOPBACK}",
    int(domain), out=Path(out), ramp_s={_RAMP_S},
)
"""


class Heard(NamedTuple):
    """A command that arrived at the robot."""

    time_s: float
    order: Order
    intact: bool
    """Whether its checksum is right."""


class Late(NamedTuple):
    """A step of the robot that began late."""

    time_s: float
    by_s: float


class LiveRobot:
    """A G1 that a gantry holds on its feet, so that it cannot fall, and its operator.

    States pass through a wire that may be disturbed, as those of `Rig` do.
    """

    def __init__(self, domain: int):
        self.robot = SimulatedRobot(noise=1.0)
        self._gantry = Gantry(self.robot)
        self._gantry.height_m = Gantry.STANDING_M
        self._link = RobotLink(LOOPBACK, domain)
        self.reset()

    def reset(self) -> None:
        """Stand in the default pose, and forget; nobody drives it."""
        self.robot.reset(g1.DEFAULT_QPOS)
        self.robot.apply(damped_stop(g1.DEFAULT_JOINTS))
        self._link.commands()
        self.wire: Wire = lambda ms, sent: sent
        self.keys: int | None = None
        """What the operator holds instead of what instructions say."""
        self.heard: list[Heard] = []
        self.sent_s: list[float] = []
        """When states were sent."""
        self.last: list[np.ndarray] = []
        """Of them, if there was one."""
        self.late: list[Late] = []
        self.started_s: float | None = None
        """When the operator pressed start."""
        self._rested_s: float | None = None
        self._begun_s = self._due_s = self._state_s = time.monotonic()

    @property
    def ms(self) -> int:
        """Of the drive."""
        return int(1e3 * (time.monotonic() - self._begun_s))

    def latest_s(self, begin: float, end: float) -> float:
        """How late a step between two times began at the most."""
        found = (late for late in self.late if begin <= late.time_s <= end)
        return max((late.by_s for late in found), default=0.0)

    def run(self, until_s: float) -> None:
        """Let real time pass."""
        while time.monotonic() < until_s:
            self.step()

    def step(self) -> None:
        """A millisecond: commands in, and every five of them physics and a state."""
        if (wait := self._due_s - time.monotonic()) > 0:
            time.sleep(wait)
        now = time.monotonic()
        if (by_s := now - self._due_s) > _STEP_S:
            self.late.append(Late(now, by_s))
        self._hear()
        sent = []
        if now >= self._state_s:
            self._state_s = max(self._state_s + _STATE_S, now)
            sent = [self._state(now)]
        for message in self.wire(self.ms, sent):
            self.sent_s.append(time.monotonic())
            self.last = [message]
            self._link.send(message)
        self._due_s = max(self._due_s + _STEP_S, now)

    def _hear(self) -> None:
        commands, now = self._link.commands(), time.monotonic()
        for command in commands:
            order = unitree.ordered(command)
            self.heard.append(Heard(now, order, unitree.intact(command)))
        if commands:
            self.robot.apply(self.heard[-1].order)

    def _state(self, now: float) -> np.ndarray:
        self._gantry.pull()
        self.robot.step(_STATE_S)
        keys = self._operate(now) if self.keys is None else self.keys
        tick = round(self.robot.time_s / unitree.TICK_S)
        sensed = dataclasses.replace(self.robot.read(), tick=tick, keys=keys)
        return unitree.state(sensed, MODE_MACHINE)

    def _operate(self, now: float) -> int:
        """Start once the driver rests in the default pose, then hold the key."""
        if self.started_s is not None:
            pressed = now - self.started_s < _PRESSED_S
            return int(HOLD_KEY | START_KEY if pressed else HOLD_KEY)
        order = self.heard[-1].order if self.heard else None
        if order is None or order.damped:
            self._rested_s = None
        elif abs(order.targets - g1.DEFAULT_JOINTS).max() < 0.02:
            self._rested_s = self._rested_s or now
            if now - self._rested_s > _RAMP_S + _RESTED_S:
                self.started_s = now
        return 0


class Driver:
    """The program that drives, its guard, and what they log; killed when left."""

    def __init__(self, bundle: Path, domain: int, out: Path):
        out.mkdir(parents=True)
        self._out = out
        self.guard: int | None = None
        """Its number, once it has been found."""
        words = [sys.executable, "-c", _DRIVER, str(bundle), str(domain), str(out)]
        with (out / "printed.txt").open("w") as printed:
            self.brain = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed
            )
        # It is not to come first because the robot does.
        os.sched_setscheduler(self.brain.pid, os.SCHED_OTHER, os.sched_param(0))

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_) -> None:
        if self.guard is None:
            self.find_guard()
        self.brain.kill()
        self.brain.wait()
        if self.guard is not None:
            self.signal_guard(signal.SIGKILL)

    def find_guard(self) -> None:
        """The only child of the driver; there is none before its start nor after."""
        path = Path(f"/proc/{self.brain.pid}/task/{self.brain.pid}/children")
        with contextlib.suppress(OSError):  # it has ended
            self.guard = next(map(int, path.read_text().split()), None)

    def signal_guard(self, number: signal.Signals) -> None:
        assert self.guard is not None
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self.guard, number)

    @property
    def printed(self) -> str:
        return (self._out / "printed.txt").read_text()

    def log(self) -> list[tuple[float, str]]:
        """When, by the monotonic clock, and what was logged, by the loop or guard."""
        found = []
        for name in ("drive.jsonl", "guard.jsonl"):
            path = self._out / name
            for line in path.read_text().splitlines() if path.exists() else ():
                event = json.loads(line)
                time_s, *words = event.values()
                found.append((time_s, ": ".join(words)))
        return sorted(found)

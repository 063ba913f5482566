"""A robot behind its guard: real processes and DDS, some of which are killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from loopback import free_domain
from messages import standing

from spectral_skills.control.safety import Limits, Order
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree
from spectral_skills.runtime.dds import RobotLink
from spectral_skills.runtime.drive import GuardedRobot

HOLD = Order(g1.DEFAULT_JOINTS, g1.STIFFNESS, g1.DAMPING)
OTHER = Order(g1.DEFAULT_JOINTS + 0.01, g1.STIFFNESS, g1.DAMPING)
PATIENT = Limits(hold_s=2.0, lost_s=2.0, silent_s=2.0)
"""A busy machine pauses programs for longer than a robot could wait."""
AT_ONCE_S = 0.5
"""Far less: it was noticed by itself."""
PATIENCE_S = 10.0

BRAIN = """
import sys, time
from spectral_skills.runtime.drive import GuardedRobot
from spectral_skills.control.safety import Order
from spectral_skills.control.safety import Limits
from spectral_skills.robot import g1

patient = Limits(hold_s=2.0, lost_s=2.0, silent_s=2.0)
hold = Order(g1.DEFAULT_JOINTS, g1.STIFFNESS, g1.DAMPING)
robot = GuardedRobot(
    "lo", int(sys.argv[1]), limits=patient, log=sys.argv[2], linger_s=0.3
)
print(robot.process.pid, flush=True)
while True:
    if robot.read() is not None:
        robot.write(hold)
    time.sleep(0.02)
"""


class Robot:
    """Tells of itself and notes what it is told, from a thread."""

    def __init__(self):
        self.domain = free_domain()
        self.orders: list[tuple[float, bool]] = []
        """When, and whether to brake."""
        self.targets: list[np.ndarray] = []
        self._link, self._over = RobotLink("lo", self.domain), False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        tick = 0
        while not self._over:
            tick += 5
            self._link.send(unitree.state(standing(tick), 5))
            for _ in range(5):
                time.sleep(0.001)
                for command in self._link.commands():
                    assert unitree.intact(command) and command["mode_machine"] == 5
                    order = unitree.ordered(command)
                    self.orders.append((time.monotonic(), order.damped))
                    self.targets.append(order.targets)

    def await_hold(self) -> None:
        """Until it is told to hold a pose."""
        self.await_told(lambda when, brakes: not brakes)

    def await_braking(self, begun: float) -> float:
        """How long after `begun` it is told to brake, and nothing else any more."""
        when = self.await_told(lambda when, brakes: brakes and when > begun)
        time.sleep(0.05)
        assert all(brakes for orders, brakes in self.orders if orders >= when)
        return when - begun

    def await_told(self, condition) -> float:
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_S:
            for when, brakes in list(self.orders):
                if condition(when, brakes):
                    return when
            time.sleep(0.005)
        raise AssertionError(f"not told within {PATIENCE_S} s")

    def close(self) -> None:
        self._over = True
        self._thread.join()


@pytest.fixture
def robot():
    robot = Robot()
    yield robot
    robot.close()


def reasons(log) -> list[str]:
    return [json.loads(line)["reason"] for line in log.read_text().splitlines()]


def start(guarded: GuardedRobot, robot: Robot) -> None:
    """Until an order has reached the robot."""
    while (sensed := guarded.read()) is None:
        time.sleep(0.005)
    assert np.allclose(sensed.joints, g1.DEFAULT_JOINTS, atol=1e-6)
    guarded.write(HOLD)
    robot.await_hold()


def end(guarded: GuardedRobot) -> None:
    guarded.close()
    guarded.process.kill()
    guarded.process.wait()


def test_the_guard_is_killed(robot):
    """The control loop's own writer tells the motors to brake at once."""
    guarded = GuardedRobot("lo", robot.domain, limits=PATIENT)
    try:
        start(guarded, robot)
        assert guarded.alive and guarded.fault is None
        killed = time.monotonic()
        guarded.process.kill()
        assert robot.await_braking(killed) < AT_ONCE_S
        assert not guarded.alive
        guarded.write(HOLD)
        time.sleep(0.05)
        assert robot.orders[-1][1], "no order passes without a guard"
    finally:
        end(guarded)


def test_the_guard_hangs(robot):
    """The last order is repeated past it for a while, then it is replaced."""
    limits = dataclasses.replace(PATIENT, lost_s=0.4)
    guarded = GuardedRobot("lo", robot.domain, limits=limits)
    try:
        start(guarded, robot)
        hung = time.monotonic()
        guarded.process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        guarded.write(OTHER)  # too late: nobody has checked it
        assert 0.3 < robot.await_braking(hung) < limits.lost_s + AT_ONCE_S
        assert any(hung + 0.2 < when and not brakes for when, brakes in robot.orders)
        assert np.allclose(robot.targets, g1.DEFAULT_JOINTS, atol=1e-6)
        assert not guarded.alive
        assert guarded.process.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        end(guarded)


def test_braking_at_once(robot):
    """Asked for by a signal, it does not wait for the loop, and orders do not count."""
    guarded = GuardedRobot("lo", robot.domain, limits=PATIENT)
    try:
        start(guarded, robot)
        begun = time.monotonic()
        guarded.brake()
        assert robot.await_braking(begun) < AT_ONCE_S
        guarded.write(HOLD)
        time.sleep(0.05)
        assert robot.orders[-1][1] and guarded.fault is None
        guarded.process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        assert robot.orders[-1][1], "nor is an order repeated past the guard"
    finally:
        end(guarded)


def test_the_control_loop_is_killed(robot, tmp_path):
    """The guard tells the motors to brake for a while, says why, and ends."""
    log = tmp_path / "guard.jsonl"
    arguments = [sys.executable, "-c", BRAIN, str(robot.domain), str(log)]
    brain = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert brain.stdout is not None
    guard = int(brain.stdout.readline())
    robot.await_hold()
    os.kill(guard, signal.SIGINT)  # Ctrl-C is for the control loop
    time.sleep(0.05)
    assert not robot.orders[-1][1]
    killed = time.monotonic()
    brain.kill()
    assert robot.await_braking(killed) < AT_ONCE_S
    brain.wait()
    assert "the control loop is gone" in reasons(log)
    begun = time.monotonic()
    while robot.orders[-1][0] > time.monotonic() - 0.2:
        assert time.monotonic() - begun < PATIENCE_S, "the guard goes on"
        time.sleep(0.02)


def test_the_guard_is_told_to_end(robot, tmp_path):
    """It brakes first."""
    log = tmp_path / "guard.jsonl"
    guarded = GuardedRobot("lo", robot.domain, limits=PATIENT, log=log)
    try:
        start(guarded, robot)
        begun = time.monotonic()
        guarded.process.terminate()
        assert robot.await_braking(begun) < AT_ONCE_S
    finally:
        end(guarded)
    assert "the control loop is gone" in reasons(log)

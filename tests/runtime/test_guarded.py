"""A robot behind its guard: real processes and DDS, some of which are killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from loopback import free_domain
from messages import standing

from spectral_skills.control.safety import LIMITS, Fault, Limits, Order, damped_stop
from spectral_skills.robot import g1
from spectral_skills.runtime import drive, unitree
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


class Arrival(NamedTuple):
    """When an order arrived, when it was sent, and whether it says to brake."""

    when: float
    sent: float
    brakes: bool


class Robot:
    """Sends its states and notes the orders it gets, from a thread.

    Orders of a writer in this process arrive at once, those of the guard through a
    socket, so that one may overtake another. Their stamps say which was sent first.
    """

    def __init__(self):
        self.domain = free_domain()
        self.orders: list[Arrival] = []
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
                self._take()

    def _take(self) -> None:
        sample: Any
        for sample in self._link.commands._reader.take(16):
            if not sample.sample_info.valid_data:
                continue  # a notice that a writer is gone
            command = unitree.unpack(sample.data[4:], unitree.LOW_CMD)
            assert unitree.intact(command) and command["mode_machine"] == 5
            order, now = unitree.ordered(command), time.monotonic()
            age_s = time.time() - 1e-9 * sample.sample_info.source_timestamp
            self.orders.append(Arrival(now, now - age_s, order.damped))
            self.targets.append(order.targets)

    def await_hold(self) -> None:
        """Until it is told to hold a pose."""
        self.await_order(lambda order: not order.brakes)

    def await_braking(self, begun: float) -> float:
        """How long after `begun` it is told to brake, and nothing else any more."""
        first = self.await_order(lambda order: order.brakes and order.sent > begun)
        time.sleep(0.05)
        # Stamps are converted between clocks, with an error of microseconds.
        later = [o for o in list(self.orders) if o.sent > first.sent + 1e-4]
        assert all(order.brakes for order in later)
        return first.when - begun

    def await_order(self, condition) -> Arrival:
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_S:
            for order in list(self.orders):
                if condition(order):
                    return order
            time.sleep(0.005)
        raise AssertionError(f"no such order within {PATIENCE_S} s")

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
        assert robot.orders[-1].brakes, "no order passes without a guard"
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
        assert any(hung + 0.2 < o.when and not o.brakes for o in robot.orders)
        assert np.allclose(robot.targets, g1.DEFAULT_JOINTS, atol=1e-6)
        assert not guarded.alive
        assert guarded.process.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        end(guarded)


def test_a_guard_that_was_told_of_a_wider_reach(robot):
    """Its process and the watcher that repeats orders take what that allows, and the
    process takes no more."""
    limits = dataclasses.replace(PATIENT, reach=4.0)
    guarded = GuardedRobot("lo", robot.domain, limits=limits)
    far = g1.target_limits(4.0)[:, 1]
    try:
        start(guarded, robot)
        guarded.write(dataclasses.replace(HOLD, targets=far))
        begun = time.monotonic()
        while not np.allclose(robot.targets[-1], far, atol=1e-6):
            assert time.monotonic() < begun + PATIENCE_S and guarded.fault is None
            time.sleep(0.005)
        guarded.process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        count = len(robot.targets)
        time.sleep(0.1)
        repeated = robot.targets[count:]
        assert repeated and np.allclose(repeated, far, atol=1e-6)
        guarded.process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
        begun = time.monotonic()
        guarded.write(dataclasses.replace(HOLD, targets=far + 0.01))
        robot.await_braking(begun)
        assert guarded.fault is Fault.ORDER
    finally:
        end(guarded)


def test_the_guard_of_a_drive_is_told_what_the_bundle_says(bundle, monkeypatch):
    """The reach of its controller, beside the usual limits."""
    own = bundle.manifest.robot.reach
    robot = dataclasses.replace(bundle.manifest.robot, reach=own / 2)
    manifest = dataclasses.replace(bundle.manifest, robot=robot)
    told = []

    def start(*_, limits, log):
        told.append(limits)
        raise OSError("no robot here")

    monkeypatch.setattr(drive, "GuardedRobot", start)
    for one in (bundle, dataclasses.replace(bundle, manifest=manifest)):
        with pytest.raises(OSError, match="no robot here"):
            drive.drive_robot(one, lambda mixer: None, "lo", 0)
    assert told == [dataclasses.replace(LIMITS, reach=r) for r in (own, own / 2)]


def test_the_control_loop_brakes_while_the_guard_hangs(robot):
    """The order before is not repeated any more."""
    guarded = GuardedRobot("lo", robot.domain, limits=PATIENT)
    try:
        start(guarded, robot)
        guarded.process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        begun = time.monotonic()
        guarded.write(damped_stop(g1.DEFAULT_JOINTS))
        assert robot.await_braking(begun) < AT_ONCE_S
        assert guarded.alive
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
        assert robot.orders[-1].brakes and guarded.fault is None
        guarded.process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        assert robot.orders[-1].brakes, "nor is an order repeated past the guard"
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
    assert not robot.orders[-1].brakes
    killed = time.monotonic()
    brain.kill()
    assert robot.await_braking(killed) < AT_ONCE_S
    brain.wait()
    assert "the control loop is gone" in reasons(log)
    begun = time.monotonic()
    while robot.orders[-1].when > time.monotonic() - 0.2:
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

"""The guard's reflexes, on a clock that tests make."""

import dataclasses
import json
import math
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from messages import standing

from spectral_skills.control.safety import LIMITS, Fault, Key, Order, Sensed, sendable
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree
from spectral_skills.runtime.guard import (
    PERIOD_S,
    Event,
    Guard,
    GuardEnd,
    Log,
    LoopEnd,
    Process,
    Report,
    StampedOrder,
    pair,
)

HOLD = Order(g1.DEFAULT_JOINTS, g1.STIFFNESS, g1.DAMPING)
STATE_S, ORDER_S = 0.004, 0.02
BEGIN = 1000.0


def robot_at(time_s: float, keys: int = 0) -> Sensed:
    return standing(round((time_s - BEGIN) / unitree.TICK_S) + 1, keys)


def well(_: "World", sensed: Sensed) -> np.ndarray | None:
    return unitree.state(sensed, 5)


def lost(*_) -> None:
    return None


State = Callable[["World", Sensed], np.ndarray | None]


class World:
    """A robot and a control loop around a guard, with a clock that is told."""

    def __init__(self):
        self.guard, self.now = Guard(), BEGIN
        self.keys = int(Key.R1)
        self.alive = True
        self.state: State = well
        self.order: Callable[[Order], Order | None] = lambda order: order
        self.last_state, self.last_order = -np.inf, -np.inf
        self.out: list[tuple[float, Order]] = []
        self.log: list[tuple[str, str]] = []

    def tick(self) -> Order | None:
        """Two milliseconds."""
        self.now += PERIOD_S
        messages, printed = [], None
        if self.now - self.last_state >= STATE_S - 1e-9:
            self.last_state = self.now
            message = self.state(self, robot_at(self.now, self.keys))
            messages = [] if message is None else [message]
        if self.now - self.last_order >= ORDER_S - 1e-9:
            self.last_order = self.now
            order = self.order(HOLD)
            printed = None if order is None else StampedOrder(self.now, order)
        order = self.guard.tick(self.now, messages, printed, self.alive)
        if order is not None:
            assert sendable(order)
            assert (np.clip(order.targets, *g1.JOINT_LIMITS.T) == order.targets).all()
            self.out.append((self.now, order))
        self.log += [(e.event, e.reason) for e in self.guard.events]
        return order

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD_S)):
            self.tick()

    def braked_after(self, seconds: float = 0.2) -> float | None:
        """How long it takes from now until motors are told to brake, for good."""
        begun = self.now
        self.run(seconds)
        braked = [when for when, order in self.out if order.damped and when > begun]
        held = [when for when, order in self.out if not order.damped]
        if not braked or held[-1] > braked[0]:
            return None
        return braked[0] - begun


def at_work(seed: int) -> World:
    """A guard that has let orders pass for a random time."""
    world = World()
    world.run(0.05 + 0.1 * np.random.default_rng(seed).random())
    order = world.tick()
    assert order is not None and not order.damped
    return world


def with_value(field: str, at: int, value: float):
    """A robot one of whose sensors tells something wrong."""

    def tell(_: World, sensed: Sensed) -> np.ndarray:
        values = getattr(sensed, field).copy()
        values[at] = value
        return unitree.state(dataclasses.replace(sensed, **{field: values}), 5)

    return tell


def wrong_crc(_: World, sensed: Sensed) -> np.ndarray:
    message = unitree.state(sensed, 5)
    message["crc"] += 1
    return message


def tilted(_: World, sensed: Sensed) -> np.ndarray:
    lying = np.array((np.cos(0.6), np.sin(0.6), 0.0, 0.0))
    return unitree.state(dataclasses.replace(sensed, quaternion=lying), 5)


def again(ticks_ago: int):
    """A robot whose counter does not advance."""

    def tell(world: World, sensed: Sensed) -> np.ndarray:
        last = world.guard.sensed
        assert last is not None
        tick = last.tick - ticks_ago
        return unitree.state(dataclasses.replace(sensed, tick=tick), 5)

    return tell


TICK = PERIOD_S + STATE_S + 1e-6
UNSEEN = LIMITS.lost_s + TICK
KNEE = g1.joint_index("left_knee")
STATES = {
    "lost": (lost, Fault.LOST, UNSEEN),
    "wrong crc": (wrong_crc, Fault.WRONG_CRC, UNSEEN),
    "repeated": (again(0), Fault.REPEATED, UNSEEN),
    "reordered": (again(3), Fault.REORDERED, UNSEEN),
    "not a number": (with_value("joints", 5, np.nan), Fault.NOT_FINITE, UNSEEN),
    "infinite": (with_value("gyro", 0, np.inf), Fault.NOT_FINITE, UNSEEN),
    "absurd": (with_value("joints", KNEE, 50.0), Fault.OUT_OF_RANGE, UNSEEN),
    "no rotation": (with_value("quaternion", 0, 0.0), Fault.OUT_OF_RANGE, UNSEEN),
    "joint limit": (with_value("joints", KNEE, 3.3), Fault.JOINT_LIMIT, TICK),
    "too fast": (with_value("velocities", 3, -36.0), Fault.TOO_FAST, TICK),
    "tilt": (tilted, Fault.TILT, TICK),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("what", STATES)
def test_bad_states_stop_the_robot(what, seed):
    """In time, for good, with the reason in the log."""
    world = at_work(seed)
    world.state, reason, within = STATES[what]
    took = world.braked_after()
    assert took is not None and took <= within
    assert reason in [why for _, why in world.log]
    assert world.guard.fault in (reason, Fault.LOST)
    world.state = well
    world.run(0.1)
    assert world.out[-1][1].damped, "only a new start leads out"


@pytest.mark.parametrize("what", [w for w, (*_, s) in STATES.items() if s == UNSEEN])
def test_one_state_that_is_not_believed_does_not_stop(what):
    """The next good one counts."""
    world = at_work(0)
    world.state = STATES[what][0]
    world.run(STATE_S)
    world.state = well
    world.run(0.1)
    assert world.guard.fault is None and not world.out[-1][1].damped


def test_a_state_from_before_is_not_taken():
    """One that was overtaken on the way."""
    world = at_work(1)
    sensed = world.guard.sensed
    assert sensed is not None
    late = dataclasses.replace(robot_at(world.now - 0.01), joints=sensed.joints + 0.5)
    world.guard.tick(world.now, [unitree.state(late, 5)], None, True)
    assert world.guard.sensed == sensed
    assert [e.reason for e in world.guard.events] == [Fault.REORDERED]


def test_orders_made_without_states_do_not_pass():
    """Past the time for which states may be missing, the last order before counts."""
    world = at_work(2)
    world.state = lost
    world.run(LIMITS.hold_s + 0.004)
    other = dataclasses.replace(HOLD, targets=HOLD.targets + 0.01)
    order = world.guard.tick(world.now, [], StampedOrder(world.now, other), True)
    assert order is not None and (order.targets == HOLD.targets).all()
    assert ("last order held", Fault.LOST) in world.log


@pytest.mark.parametrize("reach", [None, 1.0, 4.0])
@pytest.mark.parametrize("side", [0, 1])
def test_orders_pass_as_far_as_the_guard_was_told_at_its_start(reach, side):
    """Neither less nor more; if it was told nothing, one unit of action."""
    limits = LIMITS if reach is None else dataclasses.replace(LIMITS, reach=reach)
    sign, far = 2 * side - 1, g1.target_limits(reach or 1.0)[:, side]
    for targets, passes in ((far, True), (far + 1e-3 * sign, False)):
        guard = Guard(limits)
        order = StampedOrder(BEGIN, dataclasses.replace(HOLD, targets=targets))
        sent = guard.tick(BEGIN, [unitree.state(robot_at(BEGIN), 5)], order, True)
        assert sent is not None and sent.damped != passes
        assert guard.fault == (None if passes else Fault.ORDER)


ORDERS = {
    "silent": (lambda order: None, Fault.SILENT, LIMITS.silent_s + TICK),
    "not a number": (
        lambda order: dataclasses.replace(order, targets=order.targets * np.nan),
        Fault.ORDER,
        ORDER_S + TICK,
    ),
    "past a limit": (
        lambda order: dataclasses.replace(order, targets=order.targets + 4.0),
        Fault.ORDER,
        ORDER_S + TICK,
    ),
    "too stiff": (
        lambda order: dataclasses.replace(order, stiffness=order.stiffness * 20),
        Fault.ORDER,
        ORDER_S + TICK,
    ),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("what", ORDERS)
def test_bad_orders_never_pass(what, seed):
    world = at_work(seed)
    world.order, reason, within = ORDERS[what]
    took = world.braked_after()
    assert took is not None and took <= within
    assert world.guard.fault == reason


def test_an_old_order_is_silence():
    """Orders that waited somewhere, after a pause of the guard."""
    world = at_work(3)
    printed = StampedOrder(world.now - 0.2, HOLD)
    state = unitree.state(robot_at(world.now + PERIOD_S), 5)
    world.guard.tick(world.now + PERIOD_S, [state], printed, True)
    assert world.guard.fault == Fault.SILENT


@pytest.mark.parametrize("jump", (-0.5, 0.5))
def test_a_clock_that_jumps(jump):
    world = at_work(4)
    world.now += jump
    order = world.tick()
    assert order is not None and order.damped
    assert ("stopped", Fault.CLOCK) in world.log


def test_the_control_loop_is_gone():
    world = at_work(5)
    world.alive = False
    assert world.braked_after() == pytest.approx(PERIOD_S)
    assert ("stopped", Fault.GONE) in world.log


def test_the_operator_stops():
    world = at_work(6)
    world.keys = int(Key.R1 | Key.SELECT)
    took = world.braked_after()
    assert took is not None and took <= TICK
    assert world.guard.fault == Fault.OPERATOR


def test_the_dead_mans_key():
    """Once started by hand, letting it go stops; before, it need not be held."""
    world = World()
    world.keys = 0
    world.run(0.1)
    assert world.guard.fault is None
    world.keys = int(Key.R1 | Key.START)
    world.run(0.1)
    world.keys = int(Key.R1)
    world.run(0.1)
    assert world.guard.fault is None
    world.keys = 0
    took = world.braked_after()
    assert took is not None and took <= TICK
    assert world.guard.fault == Fault.KEY


def test_nothing_is_sent_before_a_robot_has_told_of_itself():
    """Nor held before the control loop has given an order."""
    world = World()
    world.state, world.order = lost, lambda order: None
    world.run(0.1)
    assert not world.out
    world.state = well
    world.run(0.1)
    assert world.out and all(order.damped for _, order in world.out)
    assert world.guard.fault is None and world.guard.mode_machine == 5


def test_a_flood_of_bad_states_does_not_flood_the_log():
    world = at_work(7)
    world.state = wrong_crc
    world.run(2.0)
    assert sum(why == Fault.WRONG_CRC for _, why in world.log) <= 3


def test_packets_keep_what_is_told():
    """Both ways, and the newest of several is what counts."""
    ends = pair()
    brain, guard = LoopEnd(ends[0]), GuardEnd(ends[1])
    guard.send(Report(None, None, 0))
    assert brain.newest() == Report(None, None, 0)
    sensed = standing(7, keys=9)
    guard.send(Report(sensed, None, 5))
    guard.send(Report(sensed, Fault.TILT, 5))
    report = brain.newest()
    assert report is not None and report.sensed is not None
    assert (report.fault, report.mode_machine) == (Fault.TILT, 5)
    for field in dataclasses.fields(Sensed):
        printed, got = getattr(sensed, field.name), getattr(report.sensed, field.name)
        assert np.array_equal(printed, got), field.name
    brain.send(StampedOrder(3.0, HOLD))
    printed = guard.newest()
    assert printed is not None and printed.sent_s == 3.0
    assert np.array_equal(printed.order.targets, HOLD.targets)
    assert guard.newest() is None and guard.open
    brain.socket.close()
    assert guard.newest() is None and not guard.open


class BrokenLink:
    """A network that hands over a state and then only fails."""

    def __init__(self, loop: LoopEnd):
        self.sent: list[np.ndarray] = []
        self.reports: list[Report | None] = []
        """What the control loop had heard before each command."""
        self._loop = loop
        self._first = [unitree.state(standing(1), 5)]

    def states(self) -> list[np.ndarray]:
        if not self._first:
            raise RuntimeError("the cable is out")
        return [self._first.pop()]

    def send(self, command: np.ndarray) -> None:
        self.sent.append(command)
        self.reports.append(self._loop.newest())


def test_an_error_in_the_guard_itself_brakes(tmp_path):
    """And is logged; the loop goes on, since motors must be told again and again.

    The control loop hears of it first, so it repeats no order past a guard that brakes.
    """
    ends, path = pair(), tmp_path / "log"
    link = BrokenLink(LoopEnd(ends[1]))
    with path.open("w") as file:
        log = Log(file)
        process = Process(Guard(), cast(Any, link), GuardEnd(ends[0]), log)
        threading.Timer(0.05, process.terminate).start()
        process.run(linger_s=0.01)
        log.close()
    assert len(link.sent) > 5
    assert all(unitree.ordered(command).damped for command in link.sent)
    faults = [report.fault for report in link.reports if report is not None]
    assert faults == [None] + [Fault.GONE] * (len(link.sent) - 1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines][:2] == ["first state", "stopped"]
    assert lines[1]["reason"] == "RuntimeError: the cable is out"


def test_a_log_that_cannot_be_written_holds_nothing_up(tmp_path, monkeypatch):
    """Neither a closed file nor a terminal that has gone."""
    file, gone = (tmp_path / "log").open("w"), (tmp_path / "terminal").open("w")
    file.close()
    gone.close()
    monkeypatch.setattr("sys.stderr", gone)
    log = Log(file)
    log(Event(0.0, "stopped", "a reason"))
    log.close()


@pytest.mark.parametrize("reach", [-0.1, 4.1, math.inf, math.nan])
def test_no_guard_can_be_told_more_than_motors_can_do(reach):
    with pytest.raises(ValueError, match=f"reach is {reach}, must be 0 to 4"):
        Guard(dataclasses.replace(LIMITS, reach=reach))

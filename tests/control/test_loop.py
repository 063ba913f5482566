"""From start to stop: the orders to the motors, whatever the robot senses."""

from dataclasses import replace

import made_up
import numpy as np
import pytest

from spectral_skills.control.loop import PERIOD_S, ControlLoop, State
from spectral_skills.control.mixer import Cue, Mixer
from spectral_skills.control.safety import (
    HOLD_KEY,
    START_KEY,
    STOP_KEY,
    Fault,
    Gate,
    Order,
    Sensed,
    danger,
    sendable,
)
from spectral_skills.robot import g1

NAN = np.full(29, np.nan)


def sensed(step: int, **changes) -> Sensed:
    """A robot that stands in the default pose."""
    found = Sensed(
        time_s=step * PERIOD_S,
        tick=step,
        quaternion=np.array([1.0, 0.0, 0.0, 0.0]),
        gyro=np.zeros(3),
        joints=g1.DEFAULT_JOINTS.copy(),
        velocities=np.zeros(29),
    )
    return replace(found, **changes)


class Driven:
    """A control loop that gets a state at every step."""

    def __init__(self, reach: float = 1.0, **more):
        more, bundle = {"ramp_s": 0.1, **more}, made_up.bundle(walk=100)
        robot = replace(bundle.manifest.robot, reach=reach)
        bundle = replace(bundle, manifest=replace(bundle.manifest, robot=robot))
        self.loop = ControlLoop(bundle, **more)
        self.at = 0

    def steps(self, count: int, **changes) -> Order | None:
        order = None
        for _ in range(count):
            state = sensed(self.at, **changes)
            order = self.loop.tick(self.at * PERIOD_S, state)
            self.at += 1
        return order

    @property
    def reasons(self) -> str:
        return "; ".join(event.message for event in self.loop.events)


def in_control(**more) -> Driven:
    driven = Driven(**more)
    driven.steps(10)
    assert driven.loop.state is State.CONTROL
    return driven


def test_ramp_leads_from_where_the_robot_is_to_the_default_pose():
    """Linearly, with full gains, and then it waits for the operator."""
    driven = Driven(ramp_s=1.0, by_hand=True)
    start = g1.DEFAULT_JOINTS + 0.2
    first, half = driven.steps(1, joints=start), driven.steps(25, joints=start)
    assert first is not None and half is not None
    np.testing.assert_allclose(first.targets, start.clip(*g1.JOINT_LIMITS.T))
    np.testing.assert_allclose(half.targets, g1.DEFAULT_JOINTS + 0.1)
    np.testing.assert_allclose(half.stiffness, g1.STIFFNESS)
    driven.steps(30)
    assert driven.loop.state is State.WAIT
    driven.steps(50, keys=HOLD_KEY)
    assert driven.loop.state is State.WAIT, "start was not pressed"
    driven.steps(2, keys=HOLD_KEY | START_KEY)
    assert driven.loop.state is State.CONTROL


def test_nothing_is_sent_before_the_first_state():
    """A robot whose state is unknown is not moved."""
    loop = ControlLoop(made_up.bundle())
    assert all(loop.tick(t * PERIOD_S, None) is None for t in range(10))


def test_program_begins_after_a_second_under_control():
    """The robot stands first."""
    driven = in_control(begin=lambda mixer: mixer.play("walk"))
    assert driven.loop.mixer.playing == "stand"
    driven.steps(60)
    assert driven.loop.mixer.playing == "walk"


def test_a_motion_that_tilts_a_robot_like_a_fall_is_refused_before_it_begins():
    """It would be stopped in the middle; a session without a guard plays it."""
    bundle = made_up.bundle(walk=100, lean=100, bow=100)
    for name, tilt_rad in (("lean", 0.75), ("bow", 0.85)):
        bundle.bases[name] = replace(bundle.bases[name], tilt_rad=tilt_rad)
    mixer = ControlLoop(bundle).mixer
    mixer.play("lean")
    with pytest.raises(ValueError, match=r"bow: the pelvis tilts by 0\.85 rad"):
        mixer.play("walk", Cue("bow"))
    assert mixer.playing == "lean"
    Mixer(bundle).play("bow")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"quaternion": np.array([0.7, 0.714, 0.0, 0.0])}, Fault.TILT),
        ({"joints": g1.JOINT_LIMITS[:, 1] + 0.36}, Fault.JOINT_LIMIT),
        ({"velocities": np.full(29, 40.0)}, Fault.TOO_FAST),
        ({"keys": STOP_KEY}, Fault.OPERATOR),
    ],
)
def test_danger_stops_at_once(changes, fault):
    """The next order only brakes, and so do all that follow."""
    driven = in_control()
    order = driven.steps(1, **changes)
    assert order is not None and order.damped and driven.loop.fault is fault
    order = driven.steps(50)
    assert order is not None and order.damped, "a stop is for good"
    assert str(fault) in driven.reasons


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"joints": NAN}, Fault.NOT_FINITE),
        ({"gyro": np.full(3, np.inf)}, Fault.NOT_FINITE),
        ({"joints": np.full(29, 50.0)}, Fault.OUT_OF_RANGE),
        ({"quaternion": np.zeros(4)}, Fault.OUT_OF_RANGE),
        ({"tick": 3}, Fault.REORDERED),
        ({"tick": 9}, Fault.REPEATED),
    ],
)
def test_states_that_cannot_be_are_not_acted_upon(changes, why):
    """The last order counts on for three periods, then the robot is stopped."""
    driven = in_control()
    before = driven.steps(0) or driven.loop.tick(
        driven.at * PERIOD_S, sensed(driven.at)
    )
    driven.at += 1
    changes = dict(changes)
    if changes.get("tick") == 9:
        changes["tick"] = driven.at - 1
    held = driven.steps(1, **changes)
    assert before is not None and held is not None
    np.testing.assert_array_equal(held.targets, before.targets)
    assert driven.loop.state is State.CONTROL and str(why) in driven.reasons
    order = driven.steps(1)
    assert order is not None and not order.damped, "it goes on"
    order = driven.steps(5, **(changes if "tick" not in changes else {"tick": 3}))
    assert order is not None and order.damped
    assert driven.loop.fault is Fault.LOST


def test_late_states_are_held_then_stopped():
    """No new state: last order, then a stop after 60 ms."""
    driven = in_control()
    kinds = []
    for _ in range(5):
        order = driven.loop.tick(driven.at * PERIOD_S, None)
        driven.at += 1
        assert order is not None
        kinds.append(order.damped)
    assert kinds == [False, False, False, True, True]


@pytest.mark.parametrize("jump", [-5.0, 10.0])
def test_a_jump_of_the_clock_stops(jump):
    """Forwards and backwards."""
    driven = in_control()
    now = driven.at * PERIOD_S + jump
    order = driven.loop.tick(now, sensed(driven.at, time_s=now))
    assert order is not None and order.damped
    assert driven.loop.fault is Fault.CLOCK


def test_the_dead_mans_key_must_be_held():
    """Letting it go stops."""
    driven = Driven(by_hand=True)
    driven.steps(8)
    driven.steps(5, keys=HOLD_KEY | START_KEY)
    assert driven.loop.state is State.CONTROL
    order = driven.steps(20, keys=HOLD_KEY)
    assert order is not None and not order.damped
    order = driven.steps(1)
    assert order is not None and order.damped and driven.loop.fault is Fault.KEY


def test_actions_that_are_no_numbers_are_not_sent():
    """The last order counts on; three in a row stop."""
    driven = in_control()
    driven.loop.pilot._controller = lambda history, command: NAN  # type: ignore
    orders = [driven.steps(1) for _ in range(4)]
    assert [order.damped for order in orders if order] == [False, False, True, True]
    assert driven.loop.fault is Fault.ACTION
    assert all(order and sendable(order) for order in orders)


@pytest.mark.parametrize("broken", ["raises", "nan"])
def test_a_source_that_fails_leaves_a_robot_that_stands(broken):
    """The mixer goes back to standing, and the reason is logged."""
    driven = in_control(begin=lambda mixer: mixer.play("walk"))
    driven.steps(100)
    mixer = driven.loop.mixer
    good = mixer.stream.next

    def bad(history):
        if broken == "raises":
            raise RuntimeError("gone")
        return good(history)._replace(skill=np.full(made_up.WIDTH, np.nan))

    mixer._deck.next = bad  # type: ignore[method-assign]
    driven.steps(1)
    order = driven.steps(40)
    assert str(Fault.SOURCE) in driven.reasons
    assert order is not None
    assert driven.loop.state is State.CONTROL
    assert mixer.playing == "stand" and not order.damped


def test_orders_out_of_limits_are_never_sent():
    """Not even if something else made them."""
    driven = in_control()
    far = Order(np.full(29, 9.0), g1.STIFFNESS, g1.DAMPING)
    driven.loop.pilot.order = lambda action: far  # type: ignore[method-assign]
    order = driven.steps(1)
    assert order is not None and order.damped and sendable(order)
    assert driven.loop.fault is Fault.ORDER


@pytest.mark.parametrize("reach", [1.0, 4.0])
@pytest.mark.parametrize("side", [0, 1])
def test_limits_of_orders_are_those_of_the_bundles_controller(reach, side):
    """Neither less nor more passes."""
    driven, sign = in_control(reach=reach), 2 * side - 1
    far = g1.target_limits(reach)[:, side]
    for targets, passes in ((far, True), (far + 1e-3 * sign, False)):
        made = Order(targets, g1.STIFFNESS, g1.DAMPING)
        driven.loop.pilot.order = lambda action, made=made: made
        order = driven.steps(1)
        assert order is not None and order.damped != passes
    assert driven.loop.fault is Fault.ORDER


def test_ticks_may_wrap_around():
    """A counter of 32 bits begins again at zero."""
    gate = Gate()
    for tick in (2**32 - 2, 2**32 - 1, 0, 1):
        assert gate.refuse(sensed(0, tick=tick)) is None
    assert gate.refuse(sensed(0, tick=2**32 - 1)) is Fault.REORDERED


def test_a_standing_robot_is_in_no_danger():
    """And a little past a limit is soft."""
    assert danger(sensed(0)) is None
    assert danger(sensed(0, joints=g1.JOINT_LIMITS[:, 1] + 0.3)) is None

"""States and orders of a robot, and the limits of both: pure checks without a clock.

The control loop uses them, and so does the guard between it and the motors.
"""

import math
from dataclasses import dataclass
from enum import IntFlag, StrEnum

import numpy as np

from spectral_skills import config as configs
from spectral_skills.quaternion import gravity_planes
from spectral_skills.robot import g1

DAMPED = 8.0
"""Damping of every motor in a damped stop, Nm s / rad."""
_TICKS = 1 << 32


@dataclass(frozen=True)
class Sensed:
    """The state of a robot as its sensors give it: orientation (4,) of the pelvis
    (wxyz), its turn rate (3,) in the pelvis, angles and velocities (29,) of joints."""

    time_s: float
    """Time of arrival by the monotonic clock."""
    tick: int
    """Counter of the robot itself."""
    quaternion: np.ndarray
    gyro: np.ndarray
    joints: np.ndarray
    velocities: np.ndarray
    keys: int = 0
    """Buttons of the remote that are held."""

    @property
    def gravity(self) -> np.ndarray:
        """(3,) direction of gravity in the pelvis."""
        return np.array(gravity_planes(tuple(self.quaternion)))

    @property
    def tilt_rad(self) -> float:
        """Tilt of the pelvis from upright."""
        return math.acos(min(1.0, max(-1.0, -float(self.gravity[2]))))

    @property
    def starts(self) -> bool:
        """Whether the operator presses start and holds the dead man's key."""
        return bool(self.keys & START_KEY and self.keys & HOLD_KEY)


@dataclass(frozen=True)
class Order:
    """Joint targets (29,), rad, and gains of the motors, Nm / rad and Nm s / rad;
    target velocities and torques are zero."""

    targets: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray

    @property
    def damped(self) -> bool:
        """Whether the motors only brake."""
        return not self.stiffness.any()


def damped_stop(joints: np.ndarray) -> Order:
    """The order to brake only; its targets have no effect, but are within limits."""
    zero = np.zeros_like(joints)
    return Order(np.clip(joints, *g1.JOINT_LIMITS.T), zero, zero + DAMPED)


class Fault(StrEnum):
    """Reason why a state was refused or a robot was stopped."""

    LOST = "no state"
    NOT_FINITE = "a sensor is not a number"
    OUT_OF_RANGE = "a sensor is out of range"
    REPEATED = "a state again"
    REORDERED = "a state older than the last"
    WRONG_CRC = "wrong checksum"
    TILT = "tilted too far"
    JOINT_LIMIT = "a joint past its limit"
    TOO_FAST = "a joint too fast"
    SOURCE = "the skill source failed"
    ACTION = "an action is not a number"
    ORDER = "an order out of limits"
    SILENT = "no order"
    GONE = "the control loop is gone"
    CLOCK = "the clock jumped or the machine stood still"
    KEY = "the dead-man key was let go"
    OPERATOR = "stopped by the operator"
    GUARD = "the guard is gone"
    OVER = "the drive is over"


class Key(IntFlag):
    """Buttons of the G1's remote, as bytes 2 and 3 of `wireless_remote` have them."""

    R1, L1, START, SELECT = 1 << 0, 1 << 1, 1 << 2, 1 << 3
    R2, L2, F1, F2 = 1 << 4, 1 << 5, 1 << 6, 1 << 7
    A, B, X, Y = 1 << 8, 1 << 9, 1 << 10, 1 << 11
    UP, RIGHT, DOWN, LEFT = 1 << 12, 1 << 13, 1 << 14, 1 << 15


HOLD_KEY, START_KEY, STOP_KEY = Key.R1, Key.START, Key.SELECT
"""Dead man's key, start key and stop key."""


@dataclass(frozen=True)
class Limits:
    """Limits beyond which a robot is stopped, or a state or an order is not taken."""

    tilt_rad: float = 1.0
    velocity_rad_s: float = 35.0
    joint_rad: float = 0.35
    """Angle past the limit of a joint. Stops are somewhat soft: a simulated robot that
    kicks or lands presses an ankle up to 0.27 rad past its own."""
    absurd_rad: float = 0.6
    """Angle past the limit that only a broken sensor gives."""
    absurd_rad_s: float = 100.0
    hold_s: float = 0.015
    """Age at which a state is not acted upon: the last safe order stays in force."""
    lost_s: float = 0.060
    """Age of the last state at which the robot is stopped."""
    silent_s: float = 0.050
    """Time for which the guard repeats the last order of a silent control loop."""
    reach: float = 1.0
    """How far beyond their limits joints may be asked to go, in units of action; that
    of the controller, by its bundle."""

    def __post_init__(self):
        within = 0 <= self.reach <= g1.MOST_REACH
        configs.require(self, "reach", within, f"0 to {g1.MOST_REACH:g}")


LIMITS = Limits()


class Gate:
    """Passes the states that are new, in order and possible."""

    def __init__(self, limits: Limits = LIMITS):
        self.limits = limits
        self.last: Sensed | None = None
        """Newest state that passed."""

    def refuse(self, sensed: Sensed) -> Fault | None:
        """The reason why a state must not pass; otherwise it is now the newest."""
        parts = sensed.quaternion, sensed.gyro, sensed.joints, sensed.velocities
        if not all(np.isfinite(part).all() for part in parts):
            return Fault.NOT_FINITE
        if self.last is not None:
            ahead = (sensed.tick - self.last.tick) % _TICKS
            if ahead == 0:
                return Fault.REPEATED
            if ahead > _TICKS // 2:
                return Fault.REORDERED
        low, high = g1.JOINT_LIMITS.T
        margin, most = self.limits.absurd_rad, self.limits.absurd_rad_s
        possible = (
            abs(float(sensed.quaternion @ sensed.quaternion) - 1.0) < 0.1
            and (sensed.joints > low - margin).all()
            and (sensed.joints < high + margin).all()
            and (abs(sensed.velocities) < most).all()
            and (abs(sensed.gyro) < most).all()
        )
        if not possible:
            return Fault.OUT_OF_RANGE
        self.last = sensed
        return None

    def age_s(self, now: float) -> float:
        """Time since the newest state arrived."""
        return float("inf") if self.last is None else now - self.last.time_s


def danger(
    sensed: Sensed, limits: Limits = LIMITS, must_hold: bool = False
) -> Fault | None:
    """The reason why a robot in a possible state must be stopped; with `must_hold` one
    is that the operator does not hold the dead man's key."""
    if sensed.keys & STOP_KEY:
        return Fault.OPERATOR
    if must_hold and not sensed.keys & HOLD_KEY:
        return Fault.KEY
    if sensed.tilt_rad > limits.tilt_rad:
        return Fault.TILT
    low, high = g1.JOINT_LIMITS.T
    past = np.maximum(low - sensed.joints, sensed.joints - high).max()
    if past > limits.joint_rad:
        return Fault.JOINT_LIMIT
    if abs(sensed.velocities).max() > limits.velocity_rad_s:
        return Fault.TOO_FAST
    return None


def sendable(order: Order, limits: Limits = LIMITS) -> bool:
    """Whether an order is finite and within limits."""
    parts = order.targets, order.stiffness, order.damping
    if not all(part.shape == (29,) and np.isfinite(part).all() for part in parts):
        return False
    if order.damped:
        return bool((order.damping >= 0).all())
    low, high = g1.target_limits(limits.reach).T
    eps = 1e-6  # Orders travel as float32.
    return bool(
        (order.targets >= low - eps).all()
        and (order.targets <= high + eps).all()
        and (order.stiffness >= 0).all()
        and (order.stiffness <= g1.STIFFNESS.max() * 1.01).all()
        and (order.damping >= 0).all()
        and (order.damping <= g1.DAMPING.max() * 1.3).all()
    )

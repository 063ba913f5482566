"""How the feet move: heel strike, flat, heel off, toe off, swing.

On the floor a sole rolls over the ball at its heel or toe without slipping. In the
air the ankle flies from one roll to the next, position and speed continuous.
"""

from dataclasses import dataclass

import numpy as np

from spectral_skills.motion.synthetic.curves import FPS, ease
from spectral_skills.motion.synthetic.footsteps import (
    SIDE_SIGN,
    Footprint,
    Footsteps,
)
from spectral_skills.robot import g1

HEEL_M = float(g1.SOLE_POINTS[:, 0].min())
TOE_M = float(g1.SOLE_POINTS[:, 0].max())
HALF_WIDTH_M = float(g1.SOLE_POINTS[:, 1].max())
ANKLE_M = -float(g1.SOLE_POINTS[0, 2])
_RADIUS = g1.SOLE_RADIUS
_OUTWARD_M = 0.012
_ROUNDING_M = 0.015
_TOUCHING_M, _BESIDE_M = 0.005, 0.016
_ALONG_M = np.unique(g1.SOLE_POINTS[:, 0])


@dataclass(frozen=True)
class FootMotion:
    """One foot over time: the pose of its ankle."""

    position: np.ndarray
    """(T, 3), m."""
    yaw: np.ndarray
    pitch: np.ndarray
    """Toe down is positive, rad."""
    roll: np.ndarray
    """Left edge up is positive, rad."""


@dataclass(frozen=True)
class Roll:
    """What one print does on the floor: pitch angles and their times."""

    strike: float
    """Pitch at touchdown: heel first is negative."""
    flat_s: float
    """When the whole sole is down."""
    push: float
    """Pitch at lift: on the toes is positive."""
    push_off_s: float
    """When the heel starts to rise."""

    @classmethod
    def of(cls, foot: Footprint) -> "Roll":
        landing = np.clip(foot.speed / 1.2, -1.0, 1.1)
        leaving = np.clip(foot.lift_speed / 1.2, -1.0, 1.1)
        heel_first = -0.27 * (1 - 0.8 * foot.flight)
        strike = heel_first * landing if landing > 0 else -0.28 * landing
        if landing < 0:
            strike += 1.5 * max(foot.drop, 0.0)
        # High steps are lifted rather than pushed.
        high = 1.0 / (1.0 + max(0.0, foot.clearance - 0.06) / 0.08)
        on_toes = (0.72 - 0.25 * foot.flight) * (0.5 + 0.5 * high)
        push = on_toes * leaving**0.7 if leaving > 0 else 0.12 * leaving
        # Behind a bent knee the heel rises early, or the ankle could not follow.
        low = max(foot.drop, 0.0) if leaving > 0 else 0.0
        push += 1.5 * low
        flat = 0.05 + 0.02 * abs(strike) / 0.27 if landing >= 0 else 0.06 + 0.3 * strike
        stands = foot.lift_s - foot.touchdown_s
        rise = 0.24 - 0.09 * foot.flight + 1.2 * low if push > 0 else 0.12
        rise = min(rise, 0.55 * stands)
        return cls(
            float(strike), foot.touchdown_s + flat, float(push), foot.lift_s - rise
        )


def move(steps: Footsteps, side: int, frames: int) -> FootMotion:
    """The motion of one foot through its prints."""
    t = np.arange(frames) / FPS
    prints = steps.of(side)
    position, yaw, pitch = np.zeros((frames, 3)), np.zeros(frames), np.zeros(frames)
    for index, foot in enumerate(prints):
        roll = Roll.of(foot)
        on_floor = (t >= foot.touchdown_s) & (t <= foot.lift_s)
        pitch[on_floor] = _stance_pitch(t[on_floor], foot, roll)
        yaw[on_floor] = foot.yaw
        ahead, up = _rolled(pitch[on_floor])
        position[on_floor] = _world(foot, ahead, up)
        if index + 1 < len(prints):
            after = prints[index + 1]
            air = (t > foot.lift_s) & (t < after.touchdown_s)
            _swing(t[air], foot, after, roll, (position, yaw, pitch), air)
    return FootMotion(position, yaw, pitch, np.zeros(frames))


def _stance_pitch(t: np.ndarray, foot: Footprint, roll: Roll) -> np.ndarray:
    strike = np.zeros_like(t)
    if foot.touchdown_s >= 0:  # else it stood there from the start
        flattening = roll.flat_s - foot.touchdown_s
        strike = roll.strike * (1 - ease((t - foot.touchdown_s) / flattening))
    push = np.zeros_like(t)
    if np.isfinite(foot.lift_s):
        rising = foot.lift_s - roll.push_off_s
        push = roll.push * np.clip((t - roll.push_off_s) / rising, 0.0, None) ** 2.3
    return strike + push


def _rolled(pitch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ankle ahead of its print and above the floor when the sole rolls to a pitch."""
    pivot = np.where(pitch > 0, TOE_M, HEEL_M)
    c, s = np.cos(pitch), np.sin(pitch)
    ahead = pivot + _RADIUS * pitch - pivot * c + ANKLE_M * s
    return ahead, _RADIUS + pivot * s + ANKLE_M * c


def kept_on_soles(
    zmp: np.ndarray, soles: list[FootMotion], flight: np.ndarray
) -> np.ndarray:
    """(T, 2) zero-moment point, moved to where a rolling sole that carries alone
    touches the floor; in a jog the ankle could not hold it there."""
    zmp = zmp.copy()
    for sole, other in (soles, soles[::-1]):
        other_up = other.position[:, 2] - _lowest_to_ankle(other.pitch, 0 * other.pitch)
        heading = np.stack((np.cos(sole.yaw), np.sin(sole.yaw)), axis=1)
        base = (zmp - sole.position[:, :2]) * heading
        ahead = base.sum(axis=1) + _rolled(sole.pitch)[0]
        # A sphere at x is higher than the toe's by (toe - x) sin(pitch).
        slope = np.sin(sole.pitch)[:, None]
        lifted = np.maximum((TOE_M - _ALONG_M) * slope, (HEEL_M - _ALONG_M) * slope)
        touching = lifted < _TOUCHING_M
        low = _ALONG_M[touching.argmax(axis=1)] - _BESIDE_M
        high = _ALONG_M[::-1][touching[:, ::-1].argmax(axis=1)] + _BESIDE_M
        alone = (other_up > _TOUCHING_M) & (flight < 0.1)
        shift = np.where(alone, np.clip(ahead, low, high) - ahead, 0.0)
        zmp += shift[:, None] * heading
    return zmp


def adapted(sole: FootMotion, tip: np.ndarray, edge: np.ndarray) -> FootMotion:
    """The same foot, its heel raised by `tip` and rolled onto its edge, unslipping."""
    before, after = _rolled(sole.pitch), _rolled(sole.pitch + tip)
    ahead, up = after[0] - before[0], after[1] - before[1]
    heading = np.stack((np.cos(sole.yaw), np.sin(sole.yaw), 0 * sole.yaw), axis=1)
    position = sole.position + ahead[:, None] * heading + on_edge(edge, sole.yaw)
    position[:, 2] += up
    return FootMotion(position, sole.yaw, sole.pitch + tip, edge)


def on_edge(roll: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """(T, 3) how the ankle moves when a sole rolls onto its edge without slipping."""
    pivot = -np.sign(roll) * HALF_WIDTH_M
    c, s = np.cos(roll), np.sin(roll)
    left = pivot - _RADIUS * roll - pivot * c - ANKLE_M * s
    up = -pivot * s + ANKLE_M * (c - 1)
    return np.stack((-np.sin(yaw) * left, np.cos(yaw) * left, up), axis=1)


def _world(foot: Footprint, ahead: np.ndarray, up: np.ndarray) -> np.ndarray:
    heading = np.array((np.cos(foot.yaw), np.sin(foot.yaw)))
    return np.concatenate(
        (foot.position + ahead[:, None] * heading, up[:, None]), axis=1
    )


def _swing(t, foot, after, roll, into, air) -> None:
    """Fill the frames in the air between two prints."""
    position, yaw, pitch = into
    start, end = foot.lift_s, after.touchdown_s
    length = end - start
    x = (t - start) / length
    moment = np.array((start - 1e-3, start))
    before = _stance_pitch(moment, foot, roll)
    rate = (before[1] - before[0]) / 1e-3
    landing = Roll.of(after)
    pitch[air] = _flown(x, length, before[1], rate, landing.strike)
    rolled = _world(foot, *_rolled(before))
    velocity = (rolled[1] - rolled[0]) / 1e-3
    target = _world(after, *_rolled(np.array((landing.strike,))))[0]
    ahead = target[:2] - rolled[1][:2]
    flat = _flown(x[:, None], length, rolled[1][:2], velocity[:2], target[:2])
    # Still slowing down when it lands: a foot that waits must reach too far.
    flat -= (
        (3.0 + 2.5 * after.flight) * ahead * (0.5 * x**3 - x**4 + 0.5 * x**5)[:, None]
    )
    turn = ease(x)
    yaw[air] = foot.yaw + turn * (after.yaw - foot.yaw)
    # Around the standing leg, not through it.
    hump = (4 * x * (1 - x)) ** 1.25
    outward = SIDE_SIGN[foot.side] * _OUTWARD_M * hump
    flat[:, 0] -= np.sin(yaw[air]) * outward
    flat[:, 1] += np.cos(yaw[air]) * outward
    up = _lowest_to_ankle(pitch[air], _ROUNDING_M * hump) + after.clearance * hump
    position[air] = np.concatenate((flat, up[:, None]), axis=1)


def _lowest_to_ankle(pitch: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """Height of the ankle over the sole's lowest point, heel and toe blended."""
    toe, heel = TOE_M * np.sin(pitch), HEEL_M * np.sin(pitch)
    highest = 0.5 * (toe + heel) + np.sqrt(0.25 * (toe - heel) ** 2 + rounding**2)
    return _RADIUS + ANKLE_M * np.cos(pitch) + highest


def _flown(x, length, start, rate, end):
    """Quintic from a value and its rate to rest at another; x goes from 0 to 1."""
    a, d = rate * length, end - start
    shape = (10 * d - 6 * a) * x**3 + (8 * a - 15 * d) * x**4 + (6 * d - 3 * a) * x**5
    return start + a * x + shape

"""Where and when the feet stand, and how they move from print to print.

A foot stands where the path passes in the middle of its time on the floor. That one
rule gives walks in any direction, arcs, turns in place, starts and stops. On the
floor a sole rolls over the ball at its heel or toe without slipping. In the air the
ankle flies from one roll to the next, position and speed continuous.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spectral_skills.motion.legs import (
    ANKLE_M,
    HEEL_M,
    TOE_M,
    FootMotion,
    headings,
    rolled,
)
from spectral_skills.motion.synthetic.sketch import FPS, LEFT, RIGHT, Score, ease
from spectral_skills.robot import g1

SIDE_SIGN = (1.0, -1.0)
SOLE_CENTRE_M = 0.035  # ahead of the ankle, where the weight rests in standing
_ALONG_M = np.unique(g1.SOLE_POINTS[:, 0])
_FIRST_LIFT_S = 0.15
_SIDE_HURRY, _TURN_HURRY = 3.8, 0.75
_OUTWARD_M = 0.012
_ROUNDING_M = 0.015
_TOUCHING_M, _BESIDE_M = 0.005, 0.016


def _turned(yaw: float, ahead: float, left: float) -> np.ndarray:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array((c * ahead - s * left, s * ahead + c * left))


@dataclass(frozen=True)
class Path:
    """The way the body takes over the floor, one row a frame."""

    position: np.ndarray  # (T, 2), m
    yaw: np.ndarray

    @classmethod
    def along(cls, score: Score) -> "Path":
        yaw = _integral(score.turning)
        ahead = headings(yaw)
        left = np.stack((-ahead[:, 1], ahead[:, 0]), axis=1)
        velocity = score.forward[:, None] * ahead + score.sideways[:, None] * left
        return cls(_integral(velocity), yaw)

    def at(self, time_s: float) -> tuple[np.ndarray, float]:
        """Position and yaw at any time; the ends continue."""
        frame = np.clip(time_s * FPS, 0, len(self.yaw) - 1)
        low = min(int(frame), len(self.yaw) - 2)
        part = frame - low
        position = (1 - part) * self.position[low] + part * self.position[low + 1]
        return position, float((1 - part) * self.yaw[low] + part * self.yaw[low + 1])


@dataclass(frozen=True)
class Footprint:
    """One foot on the floor, from touchdown to lift."""

    side: int
    position: np.ndarray  # (2,) of the ankle above the floor, m
    yaw: float
    touchdown_s: float
    lift_s: float
    speed: float  # speed of the body ahead at touchdown, m/s
    lift_speed: float  # speed of the body ahead when the foot lifts, m/s
    flight: float  # how much of a jog this step is, 0 to 1
    drop: float  # how low the pelvis is, m
    clearance: float  # height of the sole in the swing that ends here, m

    def point(self, ahead: float, left: float = 0.0) -> np.ndarray:
        """(2,) a place on the floor seen from the ankle."""
        return self.position + _turned(self.yaw, ahead, left)

    @cached_property
    def _roll(self) -> tuple[float, float, float, float]:
        """Pitch at touchdown (heel first is negative), time at which the whole sole is
        down, pitch at lift (on the toes), and time at which the heel starts to rise."""
        landing = np.clip(self.speed / 1.2, -1.0, 1.1)
        leaving = np.clip(self.lift_speed / 1.2, -1.0, 1.1)
        heel_first = -0.27 * (1 - 0.8 * self.flight)
        strike = heel_first * landing if landing > 0 else -0.28 * landing
        if landing < 0:
            strike += 1.5 * max(self.drop, 0.0)
        # High steps are lifted rather than pushed.
        high = 1.0 / (1.0 + max(0.0, self.clearance - 0.06) / 0.08)
        on_toes = (0.72 - 0.25 * self.flight) * (0.5 + 0.5 * high)
        push = on_toes * leaving**0.7 if leaving > 0 else 0.12 * leaving
        # Behind a bent knee the heel rises early, or the ankle could not follow.
        low = max(self.drop, 0.0) if leaving > 0 else 0.0
        push += 1.5 * low
        flat = 0.05 + 0.02 * abs(strike) / 0.27 if landing >= 0 else 0.06 + 0.3 * strike
        rise = 0.24 - 0.09 * self.flight + 1.2 * low if push > 0 else 0.12
        rise = min(rise, 0.55 * (self.lift_s - self.touchdown_s))
        times = (self.touchdown_s + flat, self.lift_s - rise)
        return float(strike), times[0], float(push), times[1]

    @property
    def strike(self) -> float:
        return self._roll[0]

    def pitch(self, t: np.ndarray) -> np.ndarray:
        """Pitch of the sole while it is on the floor."""
        strike, flat_s, push, push_off_s = self._roll
        pitch = np.zeros_like(t)
        if self.touchdown_s >= 0:  # else it stood there from the start
            flattening = flat_s - self.touchdown_s
            pitch = strike * (1 - ease((t - self.touchdown_s) / flattening))
        if np.isfinite(self.lift_s):
            rising = self.lift_s - push_off_s
            pitch = pitch + push * np.clip((t - push_off_s) / rising, 0.0, None) ** 2.3
        return pitch


@dataclass(frozen=True)
class Footsteps:
    """All footprints in the order of touchdown; the first two stand from the start."""

    prints: tuple[Footprint, ...]
    walks: tuple[tuple[int, int], ...]  # first and last print of every walk

    def of(self, side: int) -> list[Footprint]:
        return [p for p in self.prints if p.side == side]


def plan(score: Score, path: Path) -> Footsteps:
    made = [_place(score, path, side, -1.0, 0.0, 0.0) for side in (LEFT, RIGHT)]
    walks = []
    mask = np.concatenate(([0], score.stepping.astype(int), [0]))
    for begin, end in np.flatnonzero(np.diff(mask)).reshape(-1, 2):
        first = len(made)
        _walk(score, path, made, begin / FPS, end / FPS)
        walks.append((first, len(made) - 1))
    # A foot lifts shortly before the same foot's next touchdown.
    prints = []
    for index, now in enumerate(made):
        later = [p for p in made[index + 1 :] if p.side == now.side]
        lift = later[0].lift_s if later else np.inf
        speed = float(score.forward[_frame(score, lift)]) if later else 0.0
        prints.append(replace(now, lift_s=lift, lift_speed=speed))
    return Footsteps(tuple(prints), tuple(walks))


def _walk(score: Score, path: Path, made: list[Footprint], begin: float, end: float):
    """Append prints; until both feet are set, `lift_s` is when the swing began."""
    touchdown, lift = 0.0, _on_frame(begin + _FIRST_LIFT_S)
    # The foot on the side one goes to begins; otherwise the clip decides.
    span = slice(int(begin * FPS), int(end * FPS))
    bias = score.sideways[span].sum() + 0.3 * score.turning[span].sum()
    side = score.seed % 2
    if abs(bias) / FPS > 0.1:
        side = LEFT if bias > 0 else RIGHT
    arrived = 0
    while arrived < 2:
        if not touchdown:
            step_s, share = _timing(score, lift)
            touchdown = _on_frame(lift + step_s * (1 - share))
        step_s, share = _timing(score, touchdown)
        # On the floor until the other foot has landed and taken over.
        middle = touchdown + 0.5 * step_s * (1 + share)
        made.append(_place(score, path, side, touchdown, lift, middle))
        arrived = arrived + 1 if middle >= end else 0
        lift = _on_frame(touchdown + step_s * share)
        touchdown = _on_frame(touchdown + step_s)
        side = 1 - side


def _place(
    score: Score, path: Path, side: int, touchdown: float, lift: float, middle: float
) -> Footprint:
    position, yaw = path.at(middle)
    frame = _frame(score, touchdown)
    left = SIDE_SIGN[side] * score.width[frame] / 2
    return Footprint(
        side=side,
        position=position + _turned(yaw, -SOLE_CENTRE_M, left),
        yaw=yaw + SIDE_SIGN[side] * score.toe_out,
        touchdown_s=touchdown,
        lift_s=lift,
        speed=float(score.forward[frame]),
        lift_speed=0.0,
        flight=float(score.flight[frame]),
        drop=float(score.drop[frame]),
        clearance=float(score.lift[frame]),
    )


def _frame(score: Score, time_s: float) -> int:
    return min(max(int(time_s * FPS), 0), score.frames - 1)


def _on_frame(time_s: float) -> float:
    """Feet touch and leave on a frame, so that no frame shows them in between."""
    return round(time_s * FPS) / FPS


def _timing(score: Score, time_s: float) -> tuple[float, float]:
    """Duration of a step, and time on both feet as a share of it.

    The cadence is what people on the G1's legs take at a speed; a negative share is
    time in the air.
    """
    frame = _frame(score, time_s)
    # Steps to the side and in a turn are short, so they are quick.
    ahead, aside = score.forward[frame], _SIDE_HURRY * score.sideways[frame]
    around, flight = _TURN_HURRY * score.turning[frame], float(score.flight[frame])
    speed = math.hypot(ahead, aside, around)
    walk = max(1.3, 1.12 + 0.83 * speed)
    cadence = (1 - flight) * walk + flight * (2.4 + 0.15 * speed)
    both = float(np.clip(0.42 - 0.21 * speed, 0.17, 0.4))
    step_s = 1.0 / (cadence * float(score.quickness[frame]))
    return step_s, (1 - flight) * both - flight * 0.3


def _integral(rate: np.ndarray) -> np.ndarray:
    steps = 0.5 * (rate[1:] + rate[:-1]) / FPS
    return np.concatenate((np.zeros_like(rate[:1]), np.cumsum(steps, axis=0)))


def move(steps: Footsteps, side: int, frames: int) -> FootMotion:
    """The motion of one foot through its prints."""
    t, prints = np.arange(frames) / FPS, steps.of(side)
    zeros = np.zeros(frames)
    motion = FootMotion(np.zeros((frames, 3)), zeros, zeros.copy(), zeros.copy())
    for index, foot in enumerate(prints):
        on_floor = (t >= foot.touchdown_s) & (t <= foot.lift_s)
        pitch = foot.pitch(t[on_floor])
        motion.pitch[on_floor], motion.yaw[on_floor] = pitch, foot.yaw
        motion.position[on_floor] = _world(foot, *rolled(pitch))
        if index + 1 < len(prints):
            _swing(t, foot, prints[index + 1], motion)
    return motion


def _swing(t: np.ndarray, foot: Footprint, after: Footprint, motion: FootMotion):
    """Fill the frames in the air between two prints."""
    start, end = foot.lift_s, after.touchdown_s
    air, length = (t > start) & (t < end), end - start
    x = (t[air] - start) / length
    before = foot.pitch(np.array((start - 1e-3, start)))
    rate = (before[1] - before[0]) / 1e-3
    pitch = _flown(x, length, before[1], rate, after.strike)
    lifted = _world(foot, *rolled(before))
    velocity = (lifted[1] - lifted[0]) / 1e-3
    target = _world(after, *rolled(np.array((after.strike,))))[0]
    ahead = target[:2] - lifted[1][:2]
    flat = _flown(x[:, None], length, lifted[1][:2], velocity[:2], target[:2])
    # Still slowing down when it lands: a foot that waits must reach too far.
    late = (0.5 * x**3 - x**4 + 0.5 * x**5)[:, None]
    flat -= (3.0 + 2.5 * after.flight) * ahead * late
    yaw = foot.yaw + ease(x) * (after.yaw - foot.yaw)
    # Around the standing leg, not through it.
    hump = (4 * x * (1 - x)) ** 1.25
    outward = SIDE_SIGN[foot.side] * _OUTWARD_M * hump
    flat[:, 0] -= np.sin(yaw) * outward
    flat[:, 1] += np.cos(yaw) * outward
    up = _lowest_to_ankle(pitch, _ROUNDING_M * hump) + after.clearance * hump
    motion.pitch[air], motion.yaw[air] = pitch, yaw
    motion.position[air] = np.concatenate((flat, up[:, None]), axis=1)


def _world(foot: Footprint, ahead: np.ndarray, up: np.ndarray) -> np.ndarray:
    flat = foot.position + ahead[:, None] * headings(foot.yaw)
    return np.concatenate((flat, up[:, None]), axis=1)


def _lowest_to_ankle(pitch: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """Height of the ankle over the sole's lowest point, heel and toe blended."""
    toe, heel = TOE_M * np.sin(pitch), HEEL_M * np.sin(pitch)
    highest = 0.5 * (toe + heel) + np.sqrt(0.25 * (toe - heel) ** 2 + rounding**2)
    return g1.SOLE_RADIUS + ANKLE_M * np.cos(pitch) + highest


def _flown(x, length, start, rate, end):
    """Quintic from a value and its rate to rest at another; x goes from 0 to 1."""
    a, d = rate * length, end - start
    shape = (10 * d - 6 * a) * x**3 + (8 * a - 15 * d) * x**4 + (6 * d - 3 * a) * x**5
    return start + a * x + shape


def kept_on_soles(
    zmp: np.ndarray, soles: list[FootMotion], flight: np.ndarray
) -> np.ndarray:
    """(T, 2) zero-moment point, moved to where a rolling sole that carries alone
    touches the floor; in a jog the ankle could not hold it there."""
    zmp = zmp.copy()
    for sole, other in (soles, soles[::-1]):
        other_up = other.position[:, 2] - _lowest_to_ankle(other.pitch, 0 * other.pitch)
        heading = headings(sole.yaw)
        base = (zmp - sole.position[:, :2]) * heading
        ahead = base.sum(axis=1) + rolled(sole.pitch)[0]
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

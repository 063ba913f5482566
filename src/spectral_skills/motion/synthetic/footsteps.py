"""Where and when the feet stand: a path, and footprints along it.

A foot stands where the path passes in the middle of its time on the floor. That one
rule gives walks in any direction, arcs, turns in place, starts and stops.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.motion.synthetic.arms import LEFT, RIGHT
from spectral_skills.motion.synthetic.curves import FPS
from spectral_skills.motion.synthetic.score import Score

SIDE_SIGN = (1.0, -1.0)
SOLE_CENTRE_M = 0.035
"""How far ahead of the ankle the weight rests in standing."""
_FIRST_LIFT_S = 0.15
_SIDE_HURRY, _TURN_HURRY = 3.8, 0.75


@dataclass(frozen=True)
class Path:
    """The way the body takes over the floor, one row a frame."""

    position: np.ndarray
    """(T, 2), m."""
    yaw: np.ndarray

    @classmethod
    def along(cls, score: Score) -> "Path":
        yaw = _integral(score.turning)
        ahead = np.stack((np.cos(yaw), np.sin(yaw)), axis=1)
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
    position: np.ndarray
    """(2,) of the ankle above the floor, m."""
    yaw: float
    touchdown_s: float
    lift_s: float
    speed: float
    """Speed of the body ahead at touchdown, m/s."""
    lift_speed: float
    """The same when the foot lifts."""
    flight: float
    """How much of a jog this step is, 0 to 1."""
    drop: float
    """How low the pelvis is, m."""
    clearance: float
    """Height of the sole in the swing that ends here, m."""

    def point(self, ahead: float, left: float = 0.0) -> np.ndarray:
        """(2,) a place on the floor seen from the ankle."""
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        return self.position + np.array((c * ahead - s * left, s * ahead + c * left))


@dataclass(frozen=True)
class Footsteps:
    """All footprints in the order of touchdown; the first two stand from the start."""

    prints: tuple[Footprint, ...]
    walks: tuple[tuple[int, int], ...]
    """For every walk the first and last print made in it."""

    def of(self, side: int) -> list[Footprint]:
        return [p for p in self.prints if p.side == side]


def cadence(speed: float, flight: float) -> float:
    """Steps a second that people on the G1's legs take at a speed."""
    walk = max(1.3, 1.12 + 0.83 * speed)
    return (1 - flight) * walk + flight * (2.4 + 0.15 * speed)


def double_support(speed: float, flight: float) -> float:
    """Time on both feet as a share of a step; negative is time in the air."""
    walk = float(np.clip(0.42 - 0.21 * speed, 0.17, 0.4))
    return (1 - flight) * walk - flight * 0.3


def plan(score: Score, path: Path) -> Footsteps:
    """Footprints of a score."""
    made = [_place(score, path, side, -1.0, 0.0, 0.0) for side in (LEFT, RIGHT)]
    walks = []
    for begin, end in _intervals(score.stepping):
        first = len(made)
        _walk(score, path, made, begin, end)
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
    side = _first_side(score, begin, end)
    arrived = 0
    while arrived < 2:
        now = touchdown if touchdown else lift
        step_s, share = _timing(score, now)
        if not touchdown:
            touchdown = _on_frame(lift + step_s * (1 - share))
        next_step_s, next_share = _timing(score, touchdown)
        # On the floor until the other foot has landed and taken over.
        middle = touchdown + 0.5 * next_step_s * (1 + next_share)
        made.append(_place(score, path, side, touchdown, lift, middle))
        arrived = arrived + 1 if middle >= end else 0
        lift = _on_frame(touchdown + next_step_s * next_share)
        touchdown = _on_frame(touchdown + next_step_s)
        side = 1 - side


def _place(
    score: Score, path: Path, side: int, touchdown: float, lift: float, middle: float
) -> Footprint:
    position, yaw = path.at(middle)
    frame = _frame(score, touchdown)
    ahead, left = -SOLE_CENTRE_M, SIDE_SIGN[side] * score.width[frame] / 2
    c, s = np.cos(yaw), np.sin(yaw)
    offset = np.array((c * ahead - s * left, s * ahead + c * left))
    return Footprint(
        side=side,
        position=position + offset,
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
    frame = _frame(score, time_s)
    # Steps to the side and in a turn are short, so they are quick.
    ahead, aside = score.forward[frame], _SIDE_HURRY * score.sideways[frame]
    around, flight = _TURN_HURRY * score.turning[frame], float(score.flight[frame])
    speed = math.hypot(ahead, aside, around)
    step_s = 1.0 / (cadence(speed, flight) * float(score.quickness[frame]))
    return step_s, double_support(speed, flight)


def _first_side(score: Score, begin: float, end: float) -> int:
    """The foot on the side one goes to; otherwise the clip decides."""
    span = slice(int(begin * FPS), int(end * FPS))
    bias = score.sideways[span].sum() + 0.3 * score.turning[span].sum()
    if abs(bias) / FPS > 0.1:
        return LEFT if bias > 0 else RIGHT
    return score.style.seed % 2


def _intervals(mask: np.ndarray) -> list[tuple[float, float]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(int), [0]))))
    return [(a / FPS, b / FPS) for a, b in edges.reshape(-1, 2)]


def _integral(rate: np.ndarray) -> np.ndarray:
    steps = 0.5 * (rate[1:] + rate[:-1]) / FPS
    return np.concatenate((np.zeros_like(rate[:1]), np.cumsum(steps, axis=0)))

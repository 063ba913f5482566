"""Where the weight of a score is: the zero-moment point goes from foot to foot, and
the height is ballistic while both are off the floor."""

from dataclasses import dataclass

import numpy as np
import torch

from spectral_skills.motion.legs import soften
from spectral_skills.motion.momentum import GRAVITY
from spectral_skills.motion.synthetic.footsteps import (
    LEFT,
    SOLE_CENTRE_M,
    Footprint,
    Footsteps,
)
from spectral_skills.motion.synthetic.sketch import FPS, Score

_SHIFT_S = 0.5  # how long the weight takes to one foot before the first step, and back
_LANDED_S = 0.02
_NEAR = 0.05
_FARTHEST_M = 0.1  # a push farther ahead of the ankle asks too much of its motor


@dataclass(frozen=True)
class Support:
    """What carries the body, one row a frame."""

    zmp: np.ndarray  # (T, 2) zero-moment point, m
    load: np.ndarray  # share of the weight on the left foot
    airborne: np.ndarray  # both feet are off the floor
    standing: np.ndarray  # 1 while standing on both feet, 0 in the middle of a walk


def support(score: Score, steps: Footsteps) -> Support:
    """The zero-moment point that follows the feet."""
    t = np.arange(score.frames) / FPS
    knots = [(-1.0, *_between(steps.prints[0], steps.prints[1]), 1.0)]
    airborne = np.zeros(score.frames, dtype=bool)
    for first, last in steps.walks:
        earlier, made = steps.prints[:first], steps.prints[first : last + 1]
        # Left and right print that the robot stands on before the walk.
        feet = [[p for p in earlier if p.side == side][-1] for side in (0, 1)]
        start_s = feet[made[0].side].lift_s
        carrier = feet[1 - made[0].side]
        knots.append((start_s - _SHIFT_S, *_between(*feet), 1.0))
        knots.append((start_s, *_on(carrier, 0.0), 0.0))
        for landing in made[:-1]:
            feet[landing.side] = landing
            leave, take = landing.touchdown_s, carrier.lift_s
            if take < leave:
                airborne |= (t > take) & (t < leave)
                leave, take = take - _LANDED_S, leave + _LANDED_S
            knots.append((leave, *_on(carrier, 1.0), 0.0))
            knots.append((take, *_on(landing, -1.0), 0.0))
            carrier = landing
        feet[made[-1].side] = made[-1]
        stop_s = made[-1].touchdown_s
        knots.append((stop_s, *_on(carrier, 0.5), 0.0))
        knots.append((stop_s + _SHIFT_S, *_between(*feet), 1.0))
    times, x, y, left, standing = np.array(knots).T
    curves = [np.interp(t, times, values) for values in (x, y, left, standing)]
    x, y, left, standing = soften(np.stack(curves, axis=1), 1.5).T
    shift = np.stack((x, y), axis=1) + standing[:, None] * score.sway
    return Support(shift, left, airborne, standing)


def _on(foot: Footprint, progress: float) -> tuple[float, float, float]:
    """Point and load of one foot: heel at progress -1, ball at 1."""
    speed = foot.lift_speed if progress > 0 else foot.speed
    pace = float(np.clip(speed / 1.2, -1.0, 1.0)) * (1 - 0.5 * foot.flight)
    # The faster, the farther ahead: the trunk passes over the ball of the foot. Where
    # the point stays still the body would stop and go; the ankle's torque limits it.
    centre = SOLE_CENTRE_M + (0.045 - 0.02 * foot.flight) * max(pace, 0.0)
    room = _FARTHEST_M - centre if pace > 0 else 0.04
    inward = -0.006 if foot.side == LEFT else 0.006
    reach = float(np.copysign(min(0.11 * abs(pace), 0.04, room), pace))
    reach *= 1 - 0.4 * foot.flight
    if speed > 0 and progress > 0:
        reach += 0.35 * max(foot.drop, 0.0)
    x, y = foot.point(centre + reach * progress, inward)
    return x, y, 1.0 if foot.side == LEFT else 0.0


def _between(left: Footprint, right: Footprint) -> tuple[float, float, float]:
    x, y = 0.5 * (left.point(SOLE_CENTRE_M) + right.point(SOLE_CENTRE_M))
    return x, y, 0.5


class Height:
    """Heights near a nominal one: ballistic in the air, pushed off in between."""

    def __init__(self, airborne: np.ndarray):
        self._free = not airborne.any()
        if self._free:
            return
        frames = len(airborne)
        second = np.diff(np.eye(frames), 2, axis=0)
        third = np.diff(second, axis=0)
        push = _pushes(airborne)[1:-1]
        flying, pushing = airborne[1:-1], ~np.isnan(push) & ~airborne[1:-1]
        # Least squares; a frame binds the second difference that is centred on it.
        parts = (
            (_NEAR, np.eye(frames), 0.0),
            (0.5, third[~pushing[1:] & ~pushing[:-1]], 0.0),
            (100.0, second[flying], -GRAVITY / FPS**2),
            (5.0, second[pushing], GRAVITY * (push[pushing] - 1.0) / FPS**2),
        )
        system = np.concatenate([weight * rows for weight, rows, _ in parts])
        goals = [w * np.broadcast_to(goal, len(rows)) for w, rows, goal in parts]
        # By torch, whose threads are counted: NumPy's sums change with their number.
        system, goal = torch.from_numpy(system), torch.from_numpy(np.concatenate(goals))
        self._factor = torch.linalg.cholesky(system.T @ system)
        self._pull = system.T @ goal

    def near(self, nominal: np.ndarray) -> np.ndarray:
        if self._free:
            return nominal
        pull = self._pull + _NEAR**2 * torch.from_numpy(nominal)
        return torch.cholesky_solve(pull[:, None], self._factor)[:, 0].numpy()


def _pushes(airborne: np.ndarray) -> np.ndarray:
    """Vertical force between two flights, in weights; not a number elsewhere."""
    force = np.full(len(airborne), np.nan)
    edges = np.flatnonzero(np.diff(airborne.astype(int)))
    for landing, leaving, next_landing in zip(
        edges[1::2], edges[2::2], edges[3::2], strict=False
    ):
        stance, step = leaving - landing, next_landing - landing
        part = (np.arange(stance) + 0.5) / stance
        # A rounded push that holds the weight through the step.
        shape = np.sqrt(np.sin(np.pi * part))
        force[landing + 1 : leaving + 1] = step / stance * shape / shape.mean()
    return force

"""Where the weight is: an inverted pendulum that knows the whole way ahead.

The zero-moment point p goes from foot to foot; the centre of mass c obeys

    c'' = (g + z'') / z * (c - p)

solved over the whole clip at once, so it leans before it steps. While both feet are
off the floor z'' = -g and the same equation leaves c its speed.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics, LinkPoses
from spectral_skills.motion.legs import soften
from spectral_skills.motion.synthetic.footsteps import (
    LEFT,
    SOLE_CENTRE_M,
    Footprint,
    Footsteps,
)
from spectral_skills.motion.synthetic.sketch import FPS, Score
from spectral_skills.robot.model import build_model

GRAVITY = 9.81
_SHIFT_S = 0.5  # how long the weight takes to one foot before the first step, and back
_LANDED_S = 0.02
_NEAR = 0.05
_FARTHEST_M = 0.1  # a push farther ahead of the ankle asks too much of its motor
_LEAST_FORCE = 0.1  # of the weight; with less there is no zero-moment point


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


def stiffness(mass_height: np.ndarray) -> np.ndarray:
    """(g + z'') / z of a height over time, 1/s^2."""
    rise = np.zeros_like(mass_height)
    rise[1:-1] = np.diff(mass_height, 2) * FPS**2
    return np.maximum(GRAVITY + rise, 0.0) / mass_height


def follow(zmp: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """(T, 2) centre of mass whose zero-moment point is the given one.

    Tridiagonal elimination of c[i-1] - (2 + rate dt^2) c[i] + c[i+1] = -rate dt^2 p[i];
    at both ends the robot stands still over the point.
    """
    weight = (rate / FPS**2).tolist()
    upper, columns = [0.0], []
    for w in weight[1:-1]:
        upper.append(1.0 / (2.0 + w - upper[-1]))
    for point in zmp.T.tolist():
        value = [point[0]]
        for w, p, scale in zip(weight[1:-1], point[1:-1], upper[1:], strict=True):
            value.append(scale * (w * p + value[-1]))
        value.append(point[-1])
        for i in range(len(value) - 2, 0, -1):
            value[i] += upper[i] * value[i + 1]
        columns.append(value)
    return np.array(columns).T


class FloorDemand(NamedTuple):
    """What T frames ask of the floor; the first and last repeat their neighbour."""

    centre: Tensor  # (T, 3) centre of mass, m
    zmp: Tensor
    """(T, 2) zero-moment point on the floor, m; the point under the centre of mass
    while hardly any force is needed."""
    force: Tensor  # (T,) vertical force as a multiple of the weight


class Momentum:
    """What motions ask of the floor, from our own kinematics and the links' masses."""

    def __init__(self):
        model = build_model(meshes=False, floor=False)
        arrays = (model.body_mass, model.body_ipos, model.body_iquat)
        mass, self._offset, self._axes = (torch.as_tensor(a[1:]) for a in arrays)
        self._mass, self._inertia = (
            mass[:, None],
            torch.as_tensor(model.body_inertia[1:]),
        )
        self._kinematics = Kinematics(dtype=torch.float64)

    def _centre(self, rows: Tensor) -> tuple[Tensor, LinkPoses, Tensor]:
        poses = self._kinematics(rows)
        place = poses.position + rotation.rotate(poses.quaternion, self._offset)
        return (place * self._mass).sum(-2) / self._mass.sum(), poses, place

    def centre(self, rows: Tensor) -> Tensor:
        """(..., 3) centre of mass of (..., 36) rows, m."""
        return self._centre(rows)[0]

    def dynamics(self, rows: Tensor, fps: float) -> FloorDemand:
        """Zero-moment point and vertical force of (T, 36) rows."""
        centre, poses, place = self._centre(rows)
        total = self._mass.sum()
        angular = self._angular(place, poses.quaternion, fps)
        moment = torch.zeros_like(centre)
        moment[1:-1] = angular.diff(dim=0) * fps
        rise = torch.zeros_like(centre[:, 2])
        rise[1:-1] = centre[:, 2].diff(n=2) * fps**2
        # About the origin: gravity's moment on top of what changes the momentum.
        along_x = moment[:, 0] + total * GRAVITY * centre[:, 1]
        along_y = moment[:, 1] - total * GRAVITY * centre[:, 0]
        point = torch.stack((-along_y, along_x), dim=-1)
        force = 1.0 + rise / GRAVITY
        divisor = total * GRAVITY * force.clamp_min(_LEAST_FORCE)
        enough = (force > _LEAST_FORCE)[:, None]
        zmp = torch.where(enough, point / divisor[:, None], centre[:, :2])
        for values in (zmp, force):
            values[0], values[-1] = values[1], values[-2]
        return FloorDemand(centre, zmp, force)

    def _angular(self, place: Tensor, turn: Tensor, fps: float) -> Tensor:
        """(T - 1, 3) angular momentum about the origin between the frames."""
        middle = 0.5 * (place[1:] + place[:-1])
        orbit = torch.linalg.cross(middle, place.diff(dim=0) * fps) * self._mass
        step = rotation.log(rotation.multiply(turn[1:], rotation.conjugate(turn[:-1])))
        halfway = rotation.multiply(rotation.exp(0.5 * step), turn[:-1])
        axes = rotation.multiply(halfway, self._axes)
        local = self._inertia * rotation.rotate_inverse(axes, step * fps)
        return (orbit + rotation.rotate(axes, local)).sum(-2)

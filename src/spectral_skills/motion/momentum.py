"""What a motion asks of the floor, and where the mass goes that asks for given points.

The zero-moment point p and the centre of mass c of an inverted pendulum obey

    c'' = (g + z'') / z * (c - p)

solved over the whole clip at once, so it leans before it steps. While both feet are
off the floor z'' = -g and the same equation leaves c its speed.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics, LinkPoses
from spectral_skills.robot.model import build_model

GRAVITY = 9.81
_LEAST_FORCE = 0.1  # of the weight; with less there is no zero-moment point


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

"""Mass in motion: what a clip asks of the floor, from our own kinematics."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot.model import build_model

GRAVITY = 9.81
_LEAST_FORCE = 0.1
"""With less than this part of its weight on the floor a robot has no zero-moment
point."""


@dataclass(frozen=True)
class Dynamics:
    """What T frames ask of the floor; the first and last repeat their neighbour."""

    centre: Tensor
    """(T, 3) centre of mass, m."""
    zmp: Tensor
    """(T, 2) zero-moment point on the floor, m; the point under the centre of mass
    while hardly any force is needed."""
    force: Tensor
    """(T,) vertical force as a multiple of the weight."""


class Momentum:
    """Mass properties of the robot's links."""

    def __init__(self, dtype: torch.dtype = torch.float64):
        model = build_model(meshes=False, floor=False)

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(array[1:], dtype=dtype)

        self._kinematics = Kinematics(dtype=dtype)
        self._mass = tensor(model.body_mass)[:, None]
        self._offset = tensor(model.body_ipos)
        self._axes = tensor(model.body_iquat)
        self._inertia = tensor(model.body_inertia)

    def centre(self, rows: Tensor) -> Tensor:
        """(..., 3) centre of mass of (..., 36) rows, m."""
        poses = self._kinematics(rows)
        place = poses.position + rotation.rotate(poses.quaternion, self._offset)
        return (place * self._mass).sum(-2) / self._mass.sum()

    def dynamics(self, rows: Tensor, fps: float) -> Dynamics:
        """Zero-moment point and vertical force of (T, 36) rows."""
        poses = self._kinematics(rows)
        place = poses.position + rotation.rotate(poses.quaternion, self._offset)
        total = self._mass.sum()
        centre = (place * self._mass).sum(-2) / total
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
        return Dynamics(centre, zmp, force)

    def _angular(self, place: Tensor, turn: Tensor, fps: float) -> Tensor:
        """(T - 1, 3) angular momentum about the origin between the frames."""
        middle = 0.5 * (place[1:] + place[:-1])
        orbit = torch.linalg.cross(middle, place.diff(dim=0) * fps) * self._mass
        step = rotation.log(rotation.multiply(turn[1:], rotation.conjugate(turn[:-1])))
        halfway = rotation.multiply(rotation.exp(0.5 * step), turn[:-1])
        axes = rotation.multiply(halfway, self._axes)
        local = self._inertia * rotation.rotate_inverse(axes, step * fps)
        return (orbit + rotation.rotate(axes, local)).sum(-2)

"""How link poses and the centre of mass change with root and joints.

Tangent coordinates are root translation and root rotation, both in world axes,
then the free joints. The root's three rotations are treated as joints that turn
about the world axes through the pelvis.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkPoses
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model


class CentreOfMass:
    """Centre of mass of the whole robot, from poses of all 30 links in order."""

    def __init__(
        self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ):
        model = build_model(meshes=False, floor=False)
        mass = model.body_mass[1:]
        self.share = torch.as_tensor(mass / mass.sum(), dtype=dtype, device=device)
        """(30,) of the total mass, by link."""
        self._centre = torch.as_tensor(model.body_ipos[1:], dtype=dtype, device=device)

    def __call__(self, poses: LinkPoses) -> Tensor:
        """(..., 3), m."""
        return self.weighted_links(poses).sum(dim=-2)

    def weighted_links(self, poses: LinkPoses) -> Tensor:
        """(..., 30, 3) centre of each link times its share of the mass."""
        if poses.position.shape[-2] != len(g1.LINKS):
            raise ValueError(f"poses of all {len(g1.LINKS)} links are needed")
        centre = rotation.rotate(poses.quaternion, self._centre) + poses.position
        return centre * self.share[:, None]


class Jacobians:
    """Derivatives of link points, orientations and centre of mass."""

    def __init__(
        self,
        free_joints: Sequence[str] = g1.JOINTS,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        unknown = sorted(set(free_joints) - set(g1.JOINTS))
        if unknown:
            raise ValueError(
                f"no joint {unknown[0]!r}; there are {', '.join(g1.JOINTS)}"
            )
        if len(set(free_joints)) < len(free_joints):
            raise ValueError("a free joint is named twice")
        model = build_model(meshes=False, floor=False)
        joints = np.array([g1.joint_index(name) for name in free_joints], dtype=int)
        # carries[i, j]: link i moves with link j.
        carries = np.eye(len(g1.LINKS))
        for link in range(1, len(g1.LINKS)):
            carries[link] += carries[model.body_parentid[link + 1] - 1]
        root = np.ones((len(g1.LINKS), 6))
        moved = np.concatenate((root, carries[:, joints + 1]), axis=1)

        self.joints = torch.as_tensor(joints, device=device)
        """Indices of the free joints among all."""
        self.size = 6 + len(joints)
        """Number of tangent coordinates."""
        self.mass = CentreOfMass(device, dtype)
        self.carried = torch.as_tensor(moved, dtype=dtype, device=device)
        """(30, size), 1 where the link is moved by the coordinate."""
        self._axes = torch.as_tensor(
            model.jnt_axis[joints + 1], dtype=dtype, device=device
        )
        self._world = torch.eye(3, dtype=dtype, device=device)
        self._carried_share = (self.carried * self.mass.share[:, None]).sum(dim=0)

    def advance(self, rows: Tensor, step: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Rows (..., 36) after a step (..., size), free joints within limits."""
        moved = rows.clone()
        moved[..., :3] += step[..., :3]
        turned = rotation.multiply(rotation.exp(step[..., 3:6]), rows[..., 3:7])
        moved[..., 3:7] = rotation.normalize(turned)
        columns = 7 + self.joints
        joints = rows[..., columns] + step[..., 6:]
        moved[..., columns] = joints.clamp(low, high)
        return moved

    def screws(self, poses: LinkPoses) -> Tensor:
        """(frames, 6, size) axis, and axis x anchor less shift, of each coordinate.

        Seen from the pelvis. A point p moves by axis x p - (axis x anchor - shift).
        """
        links = self.joints + 1
        axes = rotation.rotate(poses.quaternion[:, links], self._axes).mT
        anchors = (poses.position[:, links] - poses.position[:, :1]).mT
        screws = axes.new_zeros(len(axes), 6, self.size)
        screws[:, 3:, :3] = -self._world
        screws[:, :3, 3:6] = self._world
        screws[:, :3, 6:] = axes
        screws[:, 3:, 6:] = torch.linalg.cross(axes, anchors, dim=1)
        return screws

    def of_mass(self, poses: LinkPoses, links: Tensor, screws: Tensor) -> Tensor:
        """(frames, 3, size) of the centre of mass; `links` as `weighted_links`."""
        links = links - self.mass.share[:, None] * poses.position[:, :1]
        # Sum of share * (axis x centre - moment) over the links that are moved.
        centres = (self.carried.T @ links).mT
        turns = torch.linalg.cross(screws[:, :3], centres, dim=1)
        return turns - screws[:, 3:] * self._carried_share


def cross_matrix(vector: Tensor) -> Tensor:
    """(..., 3, 3) matrix that multiplies by `vector` from the left: v x."""
    x, y, z = vector.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack((o, -z, y, z, o, -x, -y, x, o), dim=-1).unflatten(-1, (3, 3))


def inverse_right_jacobian(vector: Tensor) -> Tensor:
    """(..., 3, 3) M with log(exp(v) exp(w)) = v + M w for small w."""
    angle = vector.norm(dim=-1)[..., None, None]
    small = angle < 1e-2
    safe = torch.where(small, 1.0, angle)
    # 1/a^2 - cot(a/2) / (2a), which tends to 1/12.
    second = 1 / safe**2 - 1 / (2 * safe * (0.5 * safe).tan())
    second = torch.where(small, 1 / 12 + angle**2 / 720, second)
    cross = cross_matrix(vector)
    unit = torch.eye(3, dtype=vector.dtype, device=vector.device)
    return unit + 0.5 * cross + second * (cross @ cross)

"""What inverse kinematics is to reach, as errors with their derivatives.

Tangent coordinates are root translation and root rotation, both in world axes, then
the free joints. The root's three rotations are treated as joints that turn about the
world axes through the pelvis.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkPoses
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

TURN = slice(3, 6)  # root rotation among the tangent coordinates


@dataclass(frozen=True)
class PoseTarget:
    """Where a link shall be, or how turned, or both, at every frame.

    Weights are one number, or fit (..., T, 3) by frame and axis.
    """

    link: str | None  # None: the centre of mass of the whole robot, which has a place
    position: Tensor | None = None  # (..., T, 3), world, m
    quaternion: Tensor | None = None  # (..., T, 4) orientation, wxyz
    position_weight: float | Tensor = 1.0  # weight of squared m
    orientation_weight: float | Tensor = 1.0  # weight of squared rad


@dataclass(frozen=True)
class BoneTarget:
    """Where a point of one link shall be, seen from a point of another, in world axes:
    the direction of a bone times its length."""

    link: str
    base: str
    vector: Tensor  # (..., T, 3), m
    weight: float | Tensor = 1.0  # of squared m; fits (..., T, 3)
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)  # in the frame of the link
    base_point: tuple[float, float, float] = (0.0, 0.0, 0.0)


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


class Jacobians:
    """Derivatives of links and of the centre of mass by the tangent coordinates."""

    def __init__(
        self, free_joints: Sequence[str] = g1.JOINTS, device: torch.device | str = "cpu"
    ):
        model = build_model(meshes=False, floor=False)
        joints = np.array([g1.joint_index(name) for name in free_joints], dtype=int)
        # carries[i, j]: link i moves with link j.
        carries = np.eye(len(g1.LINKS))
        for link in range(1, len(g1.LINKS)):
            carries[link] += carries[model.body_parentid[link + 1] - 1]
        root = np.ones((len(g1.LINKS), 6))
        moved = np.concatenate((root, carries[:, joints + 1]), axis=1)
        mass = model.body_mass[1:]

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(array, dtype=torch.float64, device=device)

        self.joints = torch.as_tensor(joints, device=device)
        """Indices of the free joints among all."""
        self.size = 6 + len(joints)  # number of tangent coordinates
        self.carried = tensor(moved)
        """(30, size), 1 where the link is moved by the coordinate."""
        self._axes = tensor(model.jnt_axis[joints + 1])
        self._world = tensor(np.eye(3))
        self._share = tensor(mass / mass.sum())[:, None]  # of each link in the mass
        self._carried_share = (self.carried * self._share).sum(dim=0)
        self._centre = tensor(model.body_ipos[1:])

    def advance(self, rows: Tensor, step: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Rows (..., 36) after a step (..., size), free joints within limits."""
        moved = rows.clone()
        moved[..., :3] += step[..., :3]
        turned = rotation.multiply(rotation.exp(step[..., TURN]), rows[..., 3:7])
        moved[..., 3:7] = rotation.normalize(turned)
        columns = 7 + self.joints
        joints = rows[..., columns] + step[..., 6:]
        moved[..., columns] = joints.clamp(low, high)
        return moved

    def weighted_links(self, poses: LinkPoses) -> Tensor:
        """(..., 30, 3) centre of each link times its share; their sum is the mass'."""
        centre = rotation.rotate(poses.quaternion, self._centre) + poses.position
        return centre * self._share

    def screws(self, poses: LinkPoses) -> Tensor:
        """(frames, 6, size) axis, and axis x anchor less shift, of each coordinate.

        Seen from the pelvis. A point p moves by axis x p - (axis x anchor - shift).
        """
        links = self.joints + 1
        axes = rotation.rotate(poses.quaternion[:, links], self._axes).mT
        anchors = (poses.position[:, links] - poses.position[:, :1]).mT
        screws = axes.new_zeros(len(axes), 6, self.size)
        screws[:, 3:, :3] = -self._world
        screws[:, :3, TURN] = self._world
        screws[:, :3, 6:] = axes
        screws[:, 3:, 6:] = torch.linalg.cross(axes, anchors, dim=1)
        return screws

    def of_mass(self, poses: LinkPoses, screws: Tensor) -> Tensor:
        """(frames, 3, size) of the centre of mass."""
        links = self.weighted_links(poses) - self._share * poses.position[:, :1]
        # Sum of share * (axis x centre - moment) over the links that are moved.
        centres = (self.carried.T @ links).mT
        turns = torch.linalg.cross(screws[:, :3], centres, dim=1)
        return turns - screws[:, 3:] * self._carried_share


class Errors(NamedTuple):
    poses: LinkPoses
    plain: Tensor  # (frames, rows, 3) target less present
    weighted: Tensor  # (frames, 3 rows) whose squares sum to twice the cost


class Targets:
    """All targets of one problem, as errors (frames, rows, 3) that should be zero.

    Rows are the positions, then the orientations, then the centre of mass, then the
    bones.
    """

    def __init__(
        self,
        targets: Sequence[PoseTarget | BoneTarget],
        shape: torch.Size,
        jacobians: Jacobians,
    ):
        like = jacobians.carried
        bones = [t for t in targets if isinstance(t, BoneTarget)]
        poses = [t for t in targets if isinstance(t, PoseTarget)]

        def stacked(values: Iterable[float | Tensor | None], size: int) -> Tensor:
            kind = {"dtype": like.dtype, "device": like.device}
            tensors = (torch.as_tensor(value, **kind) for value in values)
            rows = [x.broadcast_to(*shape, size).reshape(-1, 1, size) for x in tensors]
            return torch.cat((like.new_zeros(shape.numel(), 0, size), *rows), dim=1)

        def links(names: Iterable[str | None]) -> Tensor:
            found = [g1.LINKS.index(name or "") for name in names]
            return torch.tensor(found, dtype=torch.long, device=like.device)

        centre = [t for t in poses if t.link is None]
        placed = [t for t in poses if t.link and t.position is not None]
        turned = [t for t in poses if t.link and t.quaternion is not None]
        self._jacobians, self._mass = jacobians, bool(centre)
        self._placed = links(t.link for t in placed)
        self._turned = links(t.link for t in turned)
        # Both ends of every bone: first all outer ends, then all inner ones.
        self._ends = links([t.link for t in bones] + [t.base for t in bones])
        ends = [t.point for t in bones] + [t.base_point for t in bones]
        self._end_points = torch.tensor(ends).to(like).reshape(-1, 3)
        self._vectors = stacked((t.vector for t in bones), 3)
        self._positions = stacked((t.position for t in (*placed, *centre)), 3)
        turns = stacked((t.quaternion for t in turned), 4)
        self._quaternions = rotation.normalize(turns)
        weights = [t.position_weight for t in placed]
        weights += [t.orientation_weight for t in turned]
        weights += [t.position_weight for t in centre]
        weights += [t.weight for t in bones]
        self._weights = stacked(weights, 3).sqrt()
        clips = torch.Size(shape[:-1]).numel()
        self.largest_weight = self._weights.reshape(clips, -1).amax(dim=1) ** 2
        """(clips,) largest weight of any target."""
        rows = torch.cat((self._placed, self._turned))
        self._moved = jacobians.carried[rows].repeat_interleave(3, dim=0)
        self._moved_ends = jacobians.carried[self._ends].repeat_interleave(3, dim=0)

    def _bone_ends(self, poses: LinkPoses) -> Tensor:
        """(frames, 2 bones, 3) world places of the bones' ends."""
        turned = rotation.rotate(poses.quaternion[:, self._ends], self._end_points)
        return poses.position[:, self._ends] + turned

    def measure(self, poses: LinkPoses) -> Errors:
        """Errors of poses of all links, flat frames."""
        present, placed = poses.position[:, self._placed], len(self._placed)
        if self._mass:
            centre = self._jacobians.weighted_links(poses).sum(dim=1, keepdim=True)
            present = torch.cat((present, centre), dim=1)
        quaternion = rotation.conjugate(poses.quaternion[:, self._turned])
        turn = rotation.log(rotation.multiply(self._quaternions, quaternion))
        shift = self._positions - present
        plain = torch.cat((shift[:, :placed], turn, shift[:, placed:]), dim=1)
        if len(self._ends):
            outer, inner = self._bone_ends(poses).chunk(2, dim=1)
            plain = torch.cat((plain, self._vectors - (outer - inner)), dim=1)
        return Errors(poses, plain, (plain * self._weights).flatten(1))

    def jacobian(self, errors: Errors, screws: Tensor) -> Tensor:
        """(frames, 3 rows, size) change of minus the weighted errors."""
        poses, placed = errors.poses, len(self._placed)
        count = placed + len(self._turned)
        left = screws.new_zeros(len(screws), count, 3, 6)
        # The velocity of a point is axis x point - axis x anchor.
        points = poses.position[:, self._placed]
        left[:, :placed, :, :3] = cross_matrix(poses.position[:, :1] - points)
        left[:, :placed, :, 3:] = -torch.eye(3).to(screws)
        left[:, placed:, :, :3] = inverse_right_jacobian(errors.plain[:, placed:count])
        left *= self._weights[:, :count, :, None]
        rows = screws.new_empty(*errors.weighted.shape, screws.shape[2])
        links = rows[:, : 3 * count]
        torch.bmm(left.flatten(1, 2), screws, out=links)
        links *= self._moved
        if self._mass:
            centre = self._jacobians.of_mass(poses, screws)
            weight = self._weights[:, count, :, None]
            rows[:, 3 * count : 3 * count + 3] = centre * weight
        if len(self._ends):
            bones = len(self._ends) // 2
            rows[:, -3 * bones :] = self._of_bones(poses, screws).mul_(
                self._weights[:, -bones:].flatten(1)[..., None]
            )
        return rows

    def _of_bones(self, poses: LinkPoses, screws: Tensor) -> Tensor:
        """(frames, 3 bones, size) change of the bones' vectors."""
        ends = self._bone_ends(poses)
        left = screws.new_zeros(*ends.shape, 6)
        left[..., :3] = cross_matrix(poses.position[:, :1] - ends)
        left[..., 3:] = -torch.eye(3).to(screws)
        moved = torch.bmm(left.flatten(1, 2), screws).mul_(self._moved_ends)
        outer, inner = moved.chunk(2, dim=1)
        return outer - inner

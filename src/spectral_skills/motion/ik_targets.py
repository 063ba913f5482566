"""Targets of inverse kinematics: their errors, and how these change with the robot.

Tangent coordinates are root translation and root rotation, both in world axes, then
the free joints. The root's three rotations are treated as joints that turn about the
world axes through the pelvis.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        """(30,) share of each link in the total mass."""
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
        self.size = 6 + len(joints)  # number of tangent coordinates
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


@dataclass(frozen=True)
class LinkTarget:
    """Where a link shall be, or how turned, or both, at every frame."""

    link: str
    position: Tensor | None = None  # (..., T, 3) position of `point`, world, m
    quaternion: Tensor | None = None  # (..., T, 4) orientation, wxyz
    position_weight: float | Tensor = 1.0
    """Weight of squared m: one number, or fitting (..., T, 3) by frame and axis."""
    orientation_weight: float | Tensor = 1.0  # weight of squared rad
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)  # in the frame of the link, m


@dataclass(frozen=True)
class MassTarget:
    """Where the centre of mass of the whole robot shall be at every frame."""

    position: Tensor  # (..., T, 3), m
    weight: float | Tensor = 1.0
    """Weight of squared m: one number, or fitting (..., T, 3) by frame and axis."""


@dataclass(frozen=True)
class Errors:
    """Errors of a motion, and what of their computation is used again."""

    poses: LinkPoses
    plain: Tensor  # (frames, rows, 3) target less present
    weighted: Tensor  # (frames, 3 rows) whose squares sum to twice the cost
    points: Tensor  # (frames, positions, 3) present
    links: Tensor | None  # as `CentreOfMass.weighted_links`, if it has a target


class Targets:
    """All targets of one problem, as errors (frames, rows, 3) that should be zero.

    Rows are the positions, then the orientations, then the centre of mass.
    """

    def __init__(
        self,
        targets: Sequence[LinkTarget],
        mass: MassTarget | None,
        shape: torch.Size,
        jacobians: Jacobians,
        like: Tensor,
    ):
        for target in targets:
            if target.link not in g1.LINKS:
                known = ", ".join(g1.LINKS)
                raise ValueError(f"no link {target.link!r}; there are {known}")

        def stacked(values: Iterable[tuple[float | Tensor | None, str]], size: int):
            fit = [like.new_zeros(shape.numel(), 0, size)]
            for value, what in values:
                tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
                try:
                    row = tensor.broadcast_to(*shape, size).reshape(-1, 1, size)
                except RuntimeError:
                    raise ValueError(
                        f"{what} is {tuple(tensor.shape)}, "
                        f"must fit {(*shape, size)}: frames and components"
                    ) from None
                fit.append(row)
            return torch.cat(fit, dim=1)

        def links(targets: list[LinkTarget]) -> Tensor:
            found = [g1.LINKS.index(target.link) for target in targets]
            return torch.tensor(found, dtype=torch.long, device=like.device)

        self._jacobians, self._mass = jacobians, mass is not None
        self._count = len(targets)
        self._placed = [i for i, t in enumerate(targets) if t.position is not None]
        self._turned = [i for i, t in enumerate(targets) if t.quaternion is not None]
        if not (self._placed or self._turned or mass):
            raise ValueError("no target has a position or an orientation")
        placed = [targets[i] for i in self._placed]
        turned = [targets[i] for i in self._turned]
        places = [(t.position, f"position of {t.link}") for t in placed]
        turns = [(t.quaternion, f"quaternion of {t.link}") for t in turned]
        weights = [
            (t.position_weight, f"weight of position of {t.link}") for t in placed
        ]
        weights += [
            (t.orientation_weight, f"weight of quaternion of {t.link}") for t in turned
        ]
        if mass is not None:
            places.append((mass.position, "position of the mass"))
            weights.append((mass.weight, "weight of the mass"))
        self._positions = stacked(places, 3)
        self._quaternions = rotation.normalize(stacked(turns, 4))
        squared = stacked(weights, 3)
        if bool((squared < 0).any()):
            raise ValueError("weights of targets must not be negative")
        self._weights = squared.sqrt()
        clips = torch.Size(shape[:-1]).numel()
        self.largest_weight = self._weights.reshape(clips, -1).amax(dim=1) ** 2
        """(clips,) largest weight of any target."""
        self._placed_links, self._turned_links = links(placed), links(turned)
        self._points = like.new_tensor([t.point for t in placed]).reshape(-1, 3)
        rows = torch.cat((self._placed_links, self._turned_links))
        self._moved = jacobians.carried[rows].repeat_interleave(3, dim=0)

    def measure(self, poses: LinkPoses) -> Errors:
        """Errors of poses of all links, flat frames."""
        offset = rotation.rotate(poses.quaternion[:, self._placed_links], self._points)
        points = poses.position[:, self._placed_links] + offset
        present, links = points, None
        if self._mass:
            links = self._jacobians.mass.weighted_links(poses)
            present = torch.cat((points, links.sum(dim=1, keepdim=True)), dim=1)
        quaternion = rotation.conjugate(poses.quaternion[:, self._turned_links])
        turn = rotation.log(rotation.multiply(self._quaternions, quaternion))
        shift, placed = self._positions - present, len(self._placed)
        plain = torch.cat((shift[:, :placed], turn, shift[:, placed:]), dim=1)
        weighted = (plain * self._weights).flatten(1)
        return Errors(poses, plain, weighted, points, links)

    def jacobian(self, errors: Errors) -> Tensor:
        """(frames, 3 rows, size) change of minus the weighted errors."""
        poses, placed, turned = errors.poses, len(self._placed), len(self._turned)
        screws = self._jacobians.screws(poses)
        left = screws.new_zeros(len(screws), placed + turned, 3, 6)
        # The velocity of a point is axis x point - axis x anchor.
        left[:, :placed, :, :3] = cross_matrix(poses.position[:, :1] - errors.points)
        left[:, :placed, :, 3:] = -torch.eye(3).to(screws)
        turns = errors.plain[:, placed : placed + turned]
        left[:, placed:, :, :3] = inverse_right_jacobian(turns)
        left *= self._weights[:, : placed + turned, :, None]
        rows = screws.new_empty(*errors.weighted.shape, screws.shape[2])
        links = rows[:, : 3 * (placed + turned)]
        torch.bmm(left.flatten(1, 2), screws, out=links)
        links *= self._moved
        if errors.links is not None:
            centre = self._jacobians.of_mass(poses, errors.links, screws)
            rows[:, -3:] = centre * self._weights[:, -1, :, None]
        return rows

    def distances(self, errors: Errors) -> tuple[Tensor, Tensor, Tensor]:
        """Distances (frames, targets) of position and orientation, (frames,) of mass.

        Only over axes of nonzero weight.
        """
        lengths = (errors.plain * (self._weights > 0)).norm(dim=-1)
        position = lengths.new_zeros(len(lengths), self._count)
        orientation, placed = position.clone(), len(self._placed)
        position[:, self._placed] = lengths[:, :placed]
        orientation[:, self._turned] = lengths[:, placed : placed + len(self._turned)]
        centre = lengths[:, -1] if self._mass else lengths.new_zeros(len(lengths))
        return position, orientation, centre

"""Targets of inverse kinematics: their errors and the derivatives of these."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.jacobians import (
    Jacobians,
    cross_matrix,
    inverse_right_jacobian,
)
from spectral_skills.motion.kinematics import LinkPoses
from spectral_skills.robot import g1


@dataclass(frozen=True)
class LinkTarget:
    """Where a link shall be, or how turned, or both, at every frame."""

    link: str
    position: Tensor | None = None
    """(..., T, 3) of `point`, world, m."""
    quaternion: Tensor | None = None
    """(..., T, 4) wxyz."""
    position_weight: float | Tensor = 1.0
    """Of squared m: one number, or fitting (..., T, 3) by frame and world axis."""
    orientation_weight: float | Tensor = 1.0
    """Of squared rad, likewise."""
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """In the frame of the link, m."""


@dataclass(frozen=True)
class MassTarget:
    """Where the centre of mass of the whole robot shall be at every frame."""

    position: Tensor
    """(..., T, 3), m."""
    weight: float | Tensor = 1.0
    """Of squared m: one number, or fitting (..., T, 3) by frame and axis."""


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
                raise ValueError(
                    f"no link {target.link!r}; there are {', '.join(g1.LINKS)}"
                )

        def fitted(value: float | Tensor, size: int, what: str) -> Tensor:
            tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
            try:
                return tensor.broadcast_to(*shape, size).reshape(-1, size)
            except RuntimeError:
                raise ValueError(
                    f"{what} is {tuple(tensor.shape)}, "
                    f"must fit {(*shape, size)}: frames and components"
                ) from None

        def stacked(values: list[Tensor], size: int) -> Tensor:
            if values:
                return torch.stack(values, dim=1)
            return like.new_zeros(shape.numel(), 0, size)

        self._jacobians, self._mass = jacobians, mass is not None
        self._placed = [i for i, t in enumerate(targets) if t.position is not None]
        self._turned = [i for i, t in enumerate(targets) if t.quaternion is not None]
        if not (self._placed or self._turned or mass):
            raise ValueError("no target has a position or an orientation")
        self._count = len(targets)
        positions, quaternions, weights = [], [], []
        for target in targets:
            if target.position is not None:
                what = f"position of {target.link}"
                positions.append(fitted(target.position, 3, what))
                weights.append(fitted(target.position_weight, 3, f"weight of {what}"))
        for target in targets:
            if target.quaternion is not None:
                what = f"quaternion of {target.link}"
                quaternions.append(fitted(target.quaternion, 4, what))
                weight = fitted(target.orientation_weight, 3, f"weight of {what}")
                weights.append(weight)
        if mass is not None:
            positions.append(fitted(mass.position, 3, "position of the mass"))
            weights.append(fitted(mass.weight, 3, "weight of the mass"))
        self._positions = stacked(positions, 3)
        self._quaternions = rotation.normalize(stacked(quaternions, 4))
        squared = torch.stack(weights, dim=1)
        if bool((squared < 0).any()):
            raise ValueError("weights of targets must not be negative")
        self._weights = squared.sqrt()
        clips = torch.Size(shape[:-1]).numel()
        self.largest_weight = self._weights.reshape(clips, -1).amax(dim=1) ** 2
        """(clips,)."""

        def links(indices: list[int]) -> Tensor:
            found = [g1.LINKS.index(targets[i].link) for i in indices]
            return torch.tensor(found, dtype=torch.long, device=like.device)

        self._placed_links, self._turned_links = (
            links(self._placed),
            links(self._turned),
        )
        points = [targets[i].point for i in self._placed]
        self._points = like.new_tensor(points).reshape(-1, 3)
        rows = torch.cat((self._placed_links, self._turned_links))
        self._moved = jacobians.carried[rows].repeat_interleave(3, dim=0)

    def measure(self, poses: LinkPoses) -> "Errors":
        """Errors of poses of all links, flat frames."""
        points = self._present(poses)
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

    def jacobian(self, errors: "Errors") -> Tensor:
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

    def distances(self, errors: "Errors") -> tuple[Tensor, Tensor, Tensor]:
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

    def _present(self, poses: LinkPoses) -> Tensor:
        """(frames, positions, 3) where the points of the position targets are."""
        turn = poses.quaternion[:, self._placed_links]
        return poses.position[:, self._placed_links] + rotation.rotate(
            turn, self._points
        )


@dataclass(frozen=True)
class Errors:
    """Errors of a motion, and what of their computation is used again."""

    poses: LinkPoses
    plain: Tensor
    """(frames, rows, 3) target less present."""
    weighted: Tensor
    """(frames, 3 rows) whose squares sum to twice the cost."""
    points: Tensor
    """(frames, positions, 3) present."""
    links: Tensor | None
    """As `CentreOfMass.weighted_links`, if it has a target."""

"""Signed distances of the robot's own collision shapes, to each other and to the floor.

The shapes are those of the MuJoCo model, all capsules (a sphere is one without
length), and the pairs are those that MuJoCo tests. Only gaps that are smaller than a
margin are wanted, so pairs whose bounding spheres are farther apart are skipped; each
of the others costs two clamped divisions, and only the near ones have a derivative.

A gap changes with normal . (velocity of b - velocity of a) at the points of the two
axes that are nearest to each other.
"""

from typing import NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from spectral_skills.motion.kinematics import LinkPoses
from spectral_skills.robot.model import build_model

_CHUNK = 512  # frames whose working set stays in a CPU's cache
_SLACK_M = 1e-5  # more than the rounding of a distance between spheres in float32
_PARALLEL = 1e-10  # squared sine of the angle below which axes count as parallel
_TINY_M2 = 1e-9  # a cross product of axes shorter than this has no direction
_TOUCHING_M = 1e-7  # axes nearer than this have no direction from one to the other


class Gaps(NamedTuple):
    """Pairs of shapes that are nearer than their margin, in no particular order."""

    frames: Tensor  # (n,) index of the frame
    pairs: Tensor  # (n,) index into `Clearance.pairs`
    gap: Tensor  # (n,) signed distance of the surfaces, m; negative inside each other
    lack: Tensor  # (n,) what is missing to the margin, m; positive
    wrench: Tensor  # (n, 6) arm x normal and minus normal, the arm from the pelvis

    def of(self, wanted: Tensor) -> "Gaps":
        """Those that are wanted (n,)."""
        return Gaps(*(values[wanted] for values in self))

    @staticmethod
    def joined(*parts: "Gaps") -> "Gaps":
        return Gaps(*map(torch.cat, zip(*parts, strict=True)))


class GapRows(NamedTuple):
    """Gaps as rows of a Jacobian; a frame with fewer than others has rows of zeros."""

    frames: Tensor  # (n,) frames that have any, each once
    rows: Tensor  # (n, most, size) derivatives by the tangent coordinates
    lack: Tensor  # (n, most) what is missing to the margin, m


class Clearance:
    """Measures which shapes are too near, and how that changes with the joints."""

    def __init__(
        self,
        carried: Tensor,
        margin: float | None = 0.01,
        floor: float = 0.0,
        weight: float = 1.0,
    ):
        """`carried` is that of `Jacobians`. Gaps below `margin` are wanted, and those
        to the floor below `floor`, in m; without a margin only those to the floor.
        `weight` is that of a squared lack in the inverse kinematics."""
        self.weight = weight
        model = build_model(meshes=False)
        geoms = np.flatnonzero(model.geom_bodyid > 0)
        turns = np.empty((len(geoms), 9))
        for row, quaternion in zip(turns, model.geom_quat[geoms], strict=True):
            mujoco.mju_quat2Mat(row, quaternion)
        capsule = model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_CAPSULE
        sphere = model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_SPHERE
        if not (capsule | sphere).all():
            odd = model.geom(geoms[~(capsule | sphere)][0]).name
            raise ValueError(f"{odd}: only capsules and spheres can be measured")
        # Half of the axis, from the middle to an end.
        half = turns[:, 2::3] * (model.geom_size[geoms, 1] * capsule)[:, None]
        radius, links = model.geom_size[geoms, 0], model.geom_bodyid[geoms] - 1
        tested = np.searchsorted(geoms, _tested(model))
        first, second = tested.T if margin is not None else tested[:0].T
        margin = margin or 0.0
        # Shapes that no free joint moves against each other are left out.
        mobile = carried.cpu().numpy()[links]
        between = (mobile[first] != mobile[second]).any(axis=1)
        first, second = first[between], second[between]
        ends = np.concatenate((np.arange(len(geoms)), np.flatnonzero(capsule)))
        names = [model.geom(geom).name.removesuffix("_collision") for geom in geoms]

        def tensor(array: np.ndarray, dtype: torch.dtype = carried.dtype) -> Tensor:
            return torch.as_tensor(array, dtype=dtype, device=carried.device)

        def index(array: np.ndarray) -> Tensor:
            return tensor(array, torch.long)

        self.pairs: list[tuple[str, str]] = [
            *((names[a], names[b]) for a, b in zip(first, second, strict=True)),
            *((names[end], "floor") for end in ends),
        ]
        """Names of the two shapes. An end of a capsule is a shape of its own to the
        floor."""
        self._links = index(links)
        self._offset = tensor(np.stack((model.geom_pos[geoms], half)).T)
        length = (half**2).sum(axis=1)
        inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        self._inverse = tensor(inverse)
        self._first, self._second = index(first), index(second)
        self._touch = tensor(radius[first] + radius[second])
        reach = radius + np.sqrt(length)
        far = reach[first] + reach[second] + margin + _SLACK_M
        self._far = tensor(far[:, None] ** 2, torch.float32)
        self._ends, self._radius = index(ends), tensor(radius[ends, None])
        self._sign = tensor(
            np.repeat((-1.0, 1.0), (len(geoms), capsule.sum()))[:, None]
        )
        self._margin, self._floor = margin, floor
        moved = carried[self._links]
        # A floor point moves, the floor does not.
        self._moved = torch.cat(
            (moved[self._second] - moved[self._first], moved[self._ends])
        )

    def measure(self, poses: LinkPoses) -> Gaps:
        """Gaps below the margin of flat frames of all 30 links."""
        frames = poses.position.split(_CHUNK), poses.quaternion.split(_CHUNK)
        parts = [
            self._chunk(*chunk, offset=_CHUNK * number)
            for number, chunk in enumerate(zip(*frames, strict=True))
        ]
        return Gaps.joined(*parts)

    def rows(self, gaps: Gaps, screws: Tensor) -> GapRows:
        """Derivatives of the gaps by the tangent coordinates, frame by frame.

        `screws` are those of `Jacobians` at the same frames.
        """
        order = gaps.frames.argsort(stable=True)
        frames, counts = gaps.frames[order].unique_consecutive(return_counts=True)
        most = int(counts.amax()) if len(counts) else 0
        # Where each gap goes among the frames' places.
        number = torch.arange(len(order), device=order.device)
        starts = torch.arange(len(counts), device=order.device) * most
        place = number + (starts - counts.cumsum(0) + counts).repeat_interleave(counts)

        def packed(values: Tensor) -> Tensor:
            table = values.new_zeros(len(frames) * most, *values.shape[1:])
            table[place] = values[order]
            return table.unflatten(0, (len(frames), most))

        rows = packed(gaps.wrench) @ screws[frames]
        rows *= self._moved[packed(gaps.pairs)]
        return GapRows(frames, rows, packed(gaps.lack))

    def _chunk(self, position: Tensor, quaternion: Tensor, offset: int) -> Gaps:
        pelvis = position[:, 0].T
        middle, half = self._place(position, quaternion)
        between = self._between(middle, half)
        floor = self._over_floor(middle, half, pelvis[2])
        frames, pairs, gap, lack, arm, normal = (
            torch.cat(both, dim=-1) for both in zip(between, floor, strict=True)
        )
        wrench = torch.cat((torch.linalg.cross(arm, normal, dim=0), -normal)).T
        return Gaps(frames + offset, pairs, gap, lack, wrench)

    def _place(self, position: Tensor, quaternion: Tensor) -> tuple[Tensor, Tensor]:
        """(3, shapes, frames) middles of the axes from the pelvis, and their halves."""
        place = (position - position[:, :1]).permute(2, 1, 0).contiguous()
        w, x, y, z = quaternion.permute(2, 1, 0).contiguous()
        matrix = (
            (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
            (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
            (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        )
        middle, half = [], []
        offset = self._offset[..., None]
        for axis in range(3):
            a, b, c = (plane.index_select(0, self._links) for plane in matrix[axis])
            start = place[axis].index_select(0, self._links)
            for planes, kind in ((middle, 0), (half, 1)):
                plane = a * offset[0, :, kind]
                plane.addcmul_(b, offset[1, :, kind]).addcmul_(c, offset[2, :, kind])
                planes.append(plane)
            middle[axis] += start
        return torch.stack(middle), torch.stack(half)

    def _between(self, middle: Tensor, half: Tensor) -> tuple[Tensor, ...]:
        """Frames, pairs, gaps, lacks, arms and normals of shapes near each other."""
        far = middle.float()
        square = torch.zeros((), device=middle.device)
        for plane in far:
            step = plane.index_select(0, self._first)
            step -= plane.index_select(0, self._second)
            square = torch.addcmul(square, step, step)
        pairs, frames = (square < self._far).nonzero(as_tuple=True)
        first, second = self._first[pairs], self._second[pairs]
        count = middle.shape[2]
        one, other = first * count + frames, second * count + frames
        u, v = half.flatten(1)[:, one], half.flatten(1)[:, other]
        start = middle.flatten(1)
        apart = start[:, other] - start[:, one]
        s, t = _nearest(apart, u, v, self._inverse[first], self._inverse[second])
        step = apart + t * v - s * u
        distance = step.square().sum(dim=0).sqrt_()
        gap = distance - self._touch[pairs]
        lack = self._margin - gap
        near = (lack > 0).nonzero().squeeze(1)
        normal = _direction(step[:, near], distance[near], u[:, near], v[:, near])
        arm = start[:, one[near]] + s[near] * u[:, near]
        return frames[near], pairs[near], gap[near], lack[near], arm, normal

    def _over_floor(
        self, middle: Tensor, half: Tensor, pelvis: Tensor
    ) -> tuple[Tensor, ...]:
        """The same of ends of shapes near the floor."""
        gap = half[2].index_select(0, self._ends) * self._sign
        gap += middle[2].index_select(0, self._ends)
        gap += pelvis - self._radius
        ends, frames = (gap < self._floor).nonzero(as_tuple=True)
        gap, shapes = gap[ends, frames], self._ends[ends]
        arm = middle[:, shapes, frames] + half[:, shapes, frames] * self._sign[ends, 0]
        normal = torch.zeros_like(arm)
        normal[2] = 1.0
        return frames, ends + len(self._first), gap, self._floor - gap, arm, normal


def _tested(model: mujoco.MjModel) -> np.ndarray:
    """(n, 2) pairs of moving geoms that MuJoCo tests for contact."""
    first, second = np.triu_indices(model.ngeom, k=1)
    kind, met = model.geom_contype, model.geom_conaffinity
    wanted = (kind[first] & met[second]) | (kind[second] & met[first])
    bodies = model.geom_bodyid
    a, b = (model.body_weldid[bodies[geoms]] for geoms in (first, second))
    parents = model.body_weldid[model.body_parentid]
    wanted = (wanted > 0) & (a > 0) & (b > 0) & (a != b)
    wanted &= (parents[a] != b) & (parents[b] != a)
    signature = (bodies[first] << 16) + bodies[second]
    wanted &= ~np.isin(signature, model.exclude_signature)
    return np.stack((first, second), axis=1)[wanted]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _nearest(
    apart: Tensor, u: Tensor, v: Tensor, shrink: Tensor, grow: Tensor
) -> tuple[Tensor, Tensor]:
    """Where between -1 and 1 on u and on v the axes are nearest to each other.

    Minimises |apart + t v - s u|; `shrink` and `grow` are 1 / u^2 and 1 / v^2. Of
    parallel axes many places serve; one near the middle is taken.
    """
    along, across, cosine = _dot(apart, u) * shrink, _dot(apart, v) * grow, _dot(u, v)
    one, other = cosine * shrink, cosine * grow
    sine = 1 - one * other  # squared, of the angle between the axes
    s = ((along - across * one) / sine.clamp_min_(_PARALLEL)).clamp_(-1, 1)
    t = (s * other - across).clamp_(-1, 1)
    return (along + t * one).clamp_(-1, 1), t


def _direction(step: Tensor, distance: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """(3, n) unit vectors from one axis to the other, also where the axes meet."""
    normal = step / distance.clamp_min(_TOUCHING_M)
    meet = (distance < _TOUCHING_M).nonzero().squeeze(1)
    if len(meet):
        # Perpendicular to both axes, or to the longer one if they are parallel.
        u, v = u[:, meet], v[:, meet]
        axis = torch.where(_dot(u, u) > _dot(v, v), u, v)
        least = torch.zeros_like(axis).scatter_(0, axis.abs().argmin(0, True), 1.0)
        up = torch.zeros_like(axis)
        up[2] = 1.0
        beside, across = (
            torch.linalg.cross(*two, dim=0) for two in ((axis, least), (u, v))
        )
        for choice in (up, beside, across):
            length = _dot(choice, choice).sqrt()
            normal[:, meet] = torch.where(
                length > _TINY_M2, choice / length, normal[:, meet]
            )
    return normal

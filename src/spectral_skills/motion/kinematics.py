"""Batched forward kinematics of the G1, and velocities of recorded motion.

The tree is walked depth by depth: all links at the same depth are one batch, so
a frame costs ten rounds of a few tensor operations whatever the batch size.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

FILTER_SIGMA_FRAMES = 2.0
_FILTER_RADIUS = 8
_CPU_CHUNK = 8192  # frames whose working set stays in a CPU's cache


@dataclass(frozen=True)
class LinkPoses:
    """World poses of links, in the order they were asked for."""

    position: Tensor  # (..., links, 3), m
    quaternion: Tensor  # (..., links, 4), wxyz


class LinkStates(NamedTuple):
    """World poses and velocities of links, in the order they were asked for."""

    position: Tensor  # (..., links, 3), m
    quaternion: Tensor  # (..., links, 4), wxyz
    linear: Tensor  # (..., links, 3) of the link's origin, m/s
    angular: Tensor  # (..., links, 3), rad/s


class Kinematics:
    """Forward kinematics from (..., 36) rows to link poses."""

    def __init__(
        self,
        links: tuple[str, ...] = g1.LINKS,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        model = build_model(meshes=False, floor=False)
        # Body 0 is the world and body 1 the pelvis, so link i is body i + 1 and
        # link i + 1 is moved by joint i about the axis of joint i + 1.
        parents = model.body_parentid[1:] - 1
        depth = np.zeros(len(g1.LINKS), dtype=int)
        for link in range(1, len(g1.LINKS)):
            depth[link] = depth[parents[link]] + 1
        unknown = sorted(set(links) - set(g1.LINKS))
        if unknown:
            raise ValueError(f"no link {unknown[0]!r}; there are {', '.join(g1.LINKS)}")
        # Only the links asked for and what carries them are computed.
        needed = np.isin(g1.LINKS, links)
        for link in range(len(g1.LINKS) - 1, 0, -1):
            needed[parents[link]] |= needed[link]

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(array, dtype=dtype, device=device)

        def index(array: np.ndarray) -> Tensor:
            return torch.as_tensor(array, dtype=torch.long, device=device)

        self.links = links
        self._levels: list[_Level] = []
        order = [0]
        previous = np.array([0])
        for level in range(1, depth[needed].max(initial=0) + 1):
            members = np.flatnonzero((depth == level) & needed)
            turn, axis = model.body_quat[members + 1], model.jnt_axis[members]
            # turn * (cos, sin axis) is linear in cos and sin of the half angle.
            half_turn = np.concatenate((np.zeros((len(axis), 1)), axis), axis=1)
            sine = rotation.multiply(tensor(turn), tensor(half_turn))
            turned = rotation.rotate(tensor(turn), tensor(axis))
            self._levels.append(
                _Level(
                    parents=index(np.searchsorted(previous, parents[members])),
                    joints=index(members - 1),
                    offset=tensor(model.body_pos[members + 1].T[:, :, None]),
                    cosine=tensor(turn.T[:, :, None]),
                    sine=sine.T[:, :, None],
                    axis=turned.T[:, :, None],
                )
            )
            order.extend(members.tolist())
            previous = members
        self._wanted = index(np.array([order.index(g1.LINKS.index(n)) for n in links]))

    def __call__(self, qpos: Tensor) -> LinkPoses:
        """Link poses of (..., 36) rows: root position, root quaternion, joints."""
        rows = qpos.reshape(-1, g1.QPOS_SIZE)
        size = _CPU_CHUNK if rows.device.type == "cpu" else max(1, len(rows))
        # Chunk by chunk: the planes of all links are larger than the rows asked for.
        parts = [[*map(self._rows, self._walk(chunk))] for chunk in rows.split(size)]
        position, quaternion = map(torch.cat, zip(*parts, strict=True))
        shape = (*qpos.shape[:-1], len(self.links))
        return LinkPoses(position.view(*shape, 3), quaternion.view(*shape, 4))

    def states(self, qpos: Tensor, qvel: Tensor) -> LinkStates:
        """Poses and velocities of (n, 36) rows that move with (n, 35) velocities.

        Velocities are MuJoCo's: linear in the world, angular in the pelvis, joints.
        """
        position, quaternion = self._walk(qpos)
        speed = qvel.T
        pelvis = [q[0] for q in quaternion[0]]
        spin = rotation.rotate_planes(pelvis, speed[3:6].unbind(0))
        angular: list[rotation.Planes] = [[w[None] for w in spin]]
        linear: list[rotation.Planes] = [speed[:3, None].unbind(0)]
        for depth, level in enumerate(self._levels):
            spin, place = level.parent(angular[depth]), level.parent(position[depth])
            turn, travel = level.parent(quaternion[depth]), level.parent(linear[depth])
            # v_child = v + w x arm and w_child = w + rate axis.
            arm = [p - b for p, b in zip(position[depth + 1], place, strict=True)]
            sweep = rotation.cross_planes(spin, arm)
            linear.append([v + c for v, c in zip(travel, sweep, strict=True)])
            rate = speed[6:].index_select(0, level.joints)
            axis = rotation.rotate_planes(turn, level.axis.unbind(0))
            angular.append([w + rate * a for w, a in zip(spin, axis, strict=True)])
        parts = (position, quaternion, linear, angular)
        return LinkStates(*(self._rows(part) for part in parts))

    def _walk(self, rows: Tensor) -> tuple[list[rotation.Planes], ...]:
        """Planes of positions and quaternions, level by level from the pelvis."""
        columns = rows.T.contiguous()
        half = 0.5 * columns[7:]
        if half.device.type == "cpu":
            # MKL has once, on a loaded machine, answered float32 with 12 good bits;
            # even that rate of loss does not show in float64.
            half = half.double()
        cosine, sine = half.cos().to(columns), half.sin().to(columns)
        # Planes of shape (links of the level, frames).
        position: rotation.Planes = columns[:3, None].unbind(0)
        quaternion: rotation.Planes = columns[3:7, None].unbind(0)
        positions: list[rotation.Planes] = [position]
        quaternions: list[rotation.Planes] = [quaternion]
        for level in self._levels:
            parent, turn = level.parent(position), level.parent(quaternion)
            c = cosine.index_select(0, level.joints)
            s = sine.index_select(0, level.joints)
            local = (level.cosine * c + level.sine * s).unbind(0)
            offset = rotation.rotate_planes(turn, level.offset.unbind(0))
            position = [p + o for p, o in zip(parent, offset, strict=True)]
            quaternion = rotation.multiply_planes(turn, local)
            positions.append(position)
            quaternions.append(quaternion)
        return positions, quaternions

    def _rows(self, levels: list[rotation.Planes]) -> Tensor:
        """(frames, wanted links, components) from planes of each level."""
        planes = [torch.cat(parts)[self._wanted] for parts in zip(*levels, strict=True)]
        return torch.stack(planes).permute(2, 1, 0).contiguous()


@dataclass(frozen=True)
class _Level:
    """Links at one depth of the tree; their parents are all one level up."""

    parents: Tensor
    joints: Tensor
    offset: Tensor
    cosine: Tensor
    sine: Tensor
    axis: Tensor  # of the joint, in the parent's frame

    def parent(self, planes: rotation.Planes) -> list[Tensor]:
        """What each of these links' parents has, one level up."""
        return [plane.index_select(0, self.parents) for plane in planes]


def sole_heights(feet: LinkPoses) -> Tensor:
    """(..., feet) height of each sole's lowest point above the floor, m."""
    points = torch.as_tensor(g1.SOLE_POINTS).to(feet.position)
    spread = rotation.rotate(feet.quaternion[..., None, :], points)
    height = feet.position[..., 2] + spread[..., 2].amin(dim=-1)
    return height - g1.SOLE_RADIUS


def link_velocities(poses: LinkPoses, fps: float) -> LinkStates:
    """Poses and velocities over time (..., T, links), smoothed as SONIC's library does.

    Linear: central differences (one-sided at the ends). Angular: forward
    differences of orientation, zero at the last frame. Both then pass a Gaussian
    of two frames along time that repeats the edge values.
    """
    position, quaternion = poses.position, poses.quaternion
    frames = position.shape[-3]
    if frames < 2:
        zero = torch.zeros_like(position)
        return LinkStates(position, quaternion, zero, zero)
    linear = torch.gradient(position, spacing=1.0 / fps, dim=-3)[0]
    before = quaternion.narrow(-3, 0, frames - 1)
    after = quaternion.narrow(-3, 1, frames - 1)
    turn = rotation.multiply(after, rotation.conjugate(before))
    angular = rotation.log(turn) * fps
    angular = torch.cat((angular, torch.zeros_like(angular[..., :1, :, :])), dim=-3)
    return LinkStates(position, quaternion, smooth(linear), smooth(angular))


def joint_velocities(joints: Tensor, fps: float) -> Tensor:
    """Forward differences over time (..., T, joints); the last one repeats."""
    if joints.shape[-2] < 2:
        return torch.zeros_like(joints)
    velocity = joints.diff(dim=-2) * fps
    return torch.cat((velocity, velocity[..., -1:, :]), dim=-2)


def smooth(values: Tensor) -> Tensor:
    """Gaussian filter of two frames over time (..., T, links, 3); edges repeat."""
    radius, frames = _FILTER_RADIUS, values.shape[-3]
    weights = np.exp(-0.5 * (np.arange(radius + 1) / FILTER_SIGMA_FRAMES) ** 2)
    weights /= 2 * weights.sum() - weights[0]
    flat = values.flatten(-2)
    first = flat[..., :1, :].expand(*flat.shape[:-2], radius, -1)
    last = flat[..., -1:, :].expand(*flat.shape[:-2], radius, -1)
    padded = torch.cat((first, flat, last), dim=-2)
    total = flat * weights[0]
    for shift in range(1, radius + 1):
        before = padded.narrow(-2, radius - shift, frames)
        after = padded.narrow(-2, radius + shift, frames)
        total = torch.add(total, before + after, alpha=weights[shift])
    return total.view(values.shape)

"""Inverse kinematics of whole clips: all frames of all clips are solved at once.

Joint limits and velocity limits always hold; targets are met as far as they allow.
Poses that have nothing to do with each other are clips of one frame, (N, 1, 36).

The search is Levenberg-Marquardt on the weighted errors of the targets. A frame's
damping is proportional to its own error (Sugihara, 2011) times a factor that its clip
adapts: frames that can be reached converge quadratically, others stay stable. Frames
are coupled by velocity limits; that linear system is solved by conjugate gradients
with the single frames as preconditioner.

Tangent coordinates are root translation and root rotation, both in world axes, then
the free joints. The root's three rotations are treated as joints that turn about the
world axes through the pelvis.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.linalg import cholesky_ex, solve_triangular
from torch.nn.functional import pad

from spectral_skills import rotation
from spectral_skills.motion.collisions import Clearance, Gaps
from spectral_skills.motion.kinematics import Kinematics, LinkPoses
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

_TURN = slice(3, 6)  # root rotation among the tangent coordinates
_TOLERANCE = 1e-6
"""A clip is done when a step lowers no frame's cost by more than the square of this:
at weight 1, when about that many m or rad are left to gain."""
_DAMPING, _FIRST_DAMPING, _LEAST_DAMPING = 1e-9, 0.1, 1e-6
_BASE_COST = 1e-5  # so that rejected steps soon become short where targets are met
_INNER_STEPS, _INNER_TOLERANCE = 30, 1e-3
POSTURE = 1e-6


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


class Pull(NamedTuple):
    """Joints to stay near, with a weight of squared rad each."""

    joints: Tensor  # (..., T, free joints)
    weight: Tensor  # fits (..., T, free joints)


class Solution(NamedTuple):
    qpos: Tensor  # (..., T, 36)
    iterations: int


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
        turned = rotation.multiply(rotation.exp(step[..., _TURN]), rows[..., 3:7])
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
        screws[:, :3, _TURN] = self._world
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


@dataclass(frozen=True)
class Coupling:
    """What ties the frames of a clip together: a penalty on velocities above the
    limit. Rates are per frame here."""

    stiffness: Tensor  # (clips, 1, 1) weight of the squared velocity in excess
    limit: Tensor  # (size,) largest change from frame to frame; infinite for the root
    joints: Tensor  # indices of the free joints

    def velocity(self, rows: Tensor) -> Tensor:
        """(clips, T - 1, size) change from each frame to the next."""
        quaternion = rows[..., 3:7]
        before = rotation.conjugate(quaternion[:, :-1])
        turn = rotation.log(rotation.multiply(quaternion[:, 1:], before))
        shift = rows[..., :3].diff(dim=1)
        joints = rows[..., 7:][..., self.joints].diff(dim=1)
        return torch.cat((shift, turn, joints), dim=-1)

    def excess(self, velocity: Tensor) -> Tensor:
        """How far each velocity is above its limit, with its sign."""
        return velocity - velocity.clamp(-self.limit, self.limit)

    def cost(self, velocity: Tensor) -> Tensor:
        return 0.5 * (self.stiffness * self.excess(velocity).square()).sum(dim=(1, 2))

    def force(self, velocity: Tensor) -> Tensor:
        """(clips, T, size): the cost's gradient, negated."""
        pull = self.stiffness * self.excess(velocity)
        # A turn from frame to frame is not quite the difference of two turns.
        matrix = inverse_right_jacobian(velocity[..., _TURN])
        turn = pull[..., _TURN, None]
        ahead, behind = pull.clone(), pull.clone()
        ahead[..., _TURN] = (matrix @ turn).squeeze(-1)
        behind[..., _TURN] = (matrix.mT @ turn).squeeze(-1)
        return pad(behind, (0, 0, 0, 1)) - pad(ahead, (0, 0, 1, 0))

    def active(self, velocity: Tensor) -> Tensor | None:
        """Stiffness between frames where a limit is exceeded; None if nowhere."""
        above = velocity.abs() > self.limit
        return self.stiffness * above.to(velocity) if bool(above.any()) else None


def curvature(active: Tensor, step: Tensor) -> Tensor:
    """Curvature of the coupling's cost times a step, both (clips, T, size)."""
    return -pad(active * step.diff(dim=1), (0, 0, 1, 1)).diff(dim=1)


def curvature_diagonal(active: Tensor) -> Tensor:
    return pad(active, (0, 0, 0, 1)) + pad(active, (0, 0, 1, 0))


def limit_velocity(values: Tensor, limit: Tensor) -> Tensor:
    """Nearest-looking motion (clips, T, joints) that changes by at most `limit`.

    The mean of the largest motion below and the smallest above that keep the limit;
    it stays within the range of the values and leaves a slow motion as it is.
    """
    ramp = torch.arange(values.shape[1], device=values.device)[:, None] * limit

    def below(values: Tensor) -> Tensor:
        ahead = (values - ramp).cummin(dim=1).values + ramp
        behind = (values + ramp).flip(1).cummin(dim=1).values.flip(1) - ramp
        return torch.minimum(ahead, behind)

    return 0.5 * (below(values) - below(-values))


class InverseKinematics:
    """Fits root and free joints to targets; other joints stay as they are."""

    def __init__(
        self,
        free_joints: Sequence[str] = g1.JOINTS,
        device: torch.device | str = "cpu",
        iterations: int = 30,
        posture: float = POSTURE,
        velocity_fraction: float = 0.9,  # of its speed limit that a joint may use
    ):
        """`posture` is the weight of squared distance from the joints of the start, per
        rad^2: it settles what the targets leave open."""
        self.iterations, self.posture = iterations, posture
        self.jacobians = Jacobians(free_joints, device)
        self.kinematics = Kinematics(device=device, dtype=torch.float64)
        joints = self.jacobians.joints.cpu().numpy()
        speed = velocity_fraction * g1.VELOCITY_LIMIT[joints]
        low, high, self._speed = (
            torch.as_tensor(x).to(self.jacobians.carried)
            for x in (*g1.SOFT_LIMITS[joints].T, speed)
        )
        self.limits = (low, high)  # of the free joints

    def solve(
        self,
        start: Tensor,
        targets: Sequence[PoseTarget | BoneTarget],
        fps: float = 50.0,
        pull: Pull | None = None,
        clearance: Clearance | None = None,
    ) -> Solution:
        """Fit clips (..., T, 36), beginning at `start`.

        Where targets leave a choice, joints stay near those of the start, or near
        where `pull` draws them. With a `clearance`, the robot keeps off itself and the
        floor as far as a stiff spring can keep it.
        """
        jacobians = self.jacobians
        rows = start.to(jacobians.carried).reshape(-1, *start.shape[-2:])
        goals = Targets(targets, start.shape[:-1], jacobians)
        limit = self._speed / fps
        coupling = Coupling(
            stiffness=10 * goals.largest_weight[:, None, None],
            limit=torch.cat((limit.new_full((6,), torch.inf), limit)),
            joints=jacobians.joints,
        )
        if pull is not None:
            kind = {"dtype": rows.dtype, "device": rows.device}
            shape = (*rows.shape[:2], len(jacobians.joints))
            pull = Pull(*(x.to(**kind).broadcast_to(shape) for x in pull))
        rest = rows[..., 7 + jacobians.joints]
        search = _Search(self, goals, coupling, rest, pull, clearance)
        still = rows.new_zeros(*rows.shape[:2], jacobians.size)
        state, iterations = search.run(jacobians.advance(rows, still, *self.limits))
        rows = state.rows
        if bool((state.joints.diff(dim=1).abs() > limit).any()):
            # The penalty is soft; the limit is kept exactly.
            rows = rows.clone()
            slow = limit_velocity(state.joints, limit).clamp(*self.limits)
            rows[..., 7 + jacobians.joints] = slow
        return Solution(rows.reshape(start.shape), iterations)


class _State:
    """A motion with its errors and cost."""

    def __init__(self, search: "_Search", rows: Tensor):
        self.rows = rows
        self.errors = search.goals.measure(search.solver.kinematics(rows.flatten(0, 1)))
        self.joints = rows[..., 7 + search.coupling.joints]
        self.velocity = search.coupling.velocity(rows)
        squares = self.errors.weighted.square().sum(dim=1)
        self.gaps = None
        if search.clearance is not None:
            self.gaps = search.clearance.measure(self.errors.poses)
            lack = self.gaps.lack.square() * search.clearance.weight
            squares.index_add_(0, self.gaps.frames, lack)
        self.frame_cost = 0.5 * squares.view(rows.shape[:2])
        stray = (self.joints - search.rest).square().sum(dim=(1, 2))
        self.cost = (
            self.frame_cost.sum(dim=1)
            + 0.5 * search.solver.posture * stray
            + search.coupling.cost(self.velocity)
        )
        if search.pull is not None:
            away = (self.joints - search.pull.joints).square() * search.pull.weight
            self.cost = self.cost + 0.5 * away.sum(dim=(1, 2))

    def merged(self, other: "_State", chosen: Tensor) -> "_State":
        """The other's motions for the clips (clips,) that are chosen, else these."""
        frames = chosen.repeat_interleave(self.rows.shape[1])

        def pick(mine: Tensor, its: Tensor) -> Tensor:
            which = chosen if len(mine) == len(chosen) else frames
            return torch.where(which.view(-1, *(1,) * (mine.dim() - 1)), its, mine)

        merged = copy(self)
        for name in ("rows", "joints", "velocity", "frame_cost", "cost"):
            setattr(merged, name, pick(getattr(self, name), getattr(other, name)))
        mine, its = self.errors, other.errors
        poses = LinkPoses(
            pick(mine.poses.position, its.poses.position),
            pick(mine.poses.quaternion, its.poses.quaternion),
        )
        plain, weighted = pick(mine.plain, its.plain), pick(mine.weighted, its.weighted)
        merged.errors = Errors(poses, plain, weighted)
        if self.gaps is not None and other.gaps is not None:
            merged.gaps = Gaps.joined(
                self.gaps.of(~frames[self.gaps.frames]),
                other.gaps.of(frames[other.gaps.frames]),
            )
        return merged


@dataclass(frozen=True)
class _Search:
    """Levenberg-Marquardt over the motions of one problem."""

    solver: InverseKinematics
    goals: Targets
    coupling: Coupling
    rest: Tensor  # (clips, T, free joints) posture to stay near
    pull: Pull | None
    clearance: Clearance | None

    def run(self, rows: Tensor) -> tuple[_State, int]:
        """The motion found, and the number of iterations."""
        solver, noise = self.solver, 64 * torch.finfo(rows.dtype).eps
        state = _State(self, rows)
        factor = torch.full_like(state.cost, _FIRST_DAMPING)
        done = torch.zeros_like(state.cost, dtype=torch.bool)
        iteration = 0
        while iteration < solver.iterations and not bool(done.all()):
            iteration += 1
            step, force = self._step(state, factor)
            step = step.masked_fill(done[:, None, None], 0.0)
            gain = (step * force).sum(dim=-1)
            done |= gain.amax(dim=-1) < _TOLERANCE**2
            moved = solver.jacobians.advance(state.rows, step, *solver.limits)
            trial = _State(self, moved)
            fall = state.cost - trial.cost
            better = fall >= -noise * state.cost
            # A step should lower the cost by half of `gain`.
            gain = gain.sum(dim=1)
            factor = torch.where(fall > 0.4 * gain, 0.2 * factor, factor)
            factor = torch.where(fall < 0.1 * gain, 4 * factor, factor)
            factor = factor.clamp_min(_LEAST_DAMPING)
            state = trial if bool(better.all()) else state.merged(trial, better)
        return state, iteration

    def _step(self, state: _State, factor: Tensor) -> tuple[Tensor, Tensor]:
        """A step, and the force that it balances."""
        clips, frames = state.rows.shape[:2]
        posture = self.solver.posture
        screws = self.solver.jacobians.screws(state.errors.poses)
        jacobian = self.goals.jacobian(state.errors, screws)
        force = jacobian.mT @ state.errors.weighted[..., None]
        blocks = jacobian.mT @ jacobian
        if self.clearance is not None and state.gaps is not None:
            near, rows, lack = self.clearance.rows(state.gaps, screws)
            weighted = self.clearance.weight * rows.mT
            force.index_add_(0, near, weighted @ lack[..., None])
            blocks.index_add_(0, near, weighted @ rows)
        force = force.view(clips, frames, -1)
        force[..., 6:] += posture * (self.rest - state.joints)
        blocks = blocks.unflatten(0, (clips, frames))
        damping = factor[:, None] * (state.frame_cost + _BASE_COST) + _DAMPING
        diagonal = blocks.diagonal(dim1=-2, dim2=-1)
        diagonal += damping[..., None]
        diagonal[..., 6:] += posture
        if self.pull is not None:
            force[..., 6:] += self.pull.weight * (self.pull.joints - state.joints)
            diagonal[..., 6:] += self.pull.weight
        active = self.coupling.active(state.velocity)
        if active is not None:
            force += self.coupling.force(state.velocity)

        # Joints at a limit that are pushed outwards stay there.
        low, high = self.solver.limits
        push = force[..., 6:]
        held = (state.joints <= low) & (push < 0)
        held |= (state.joints >= high) & (push > 0)
        force[..., 6:] = push.masked_fill(held, 0.0)
        return _balance(blocks, active, force, held), force


def _balance(
    blocks: Tensor, active: Tensor | None, force: Tensor, held: Tensor
) -> Tensor:
    """Step that balances `force`, nothing for the joints that are held."""
    loose = torch.ones_like(force)
    loose[..., 6:] = (~held).to(force)
    alone = blocks
    if active is not None:
        alone = blocks.clone()
        alone.diagonal(dim1=-2, dim2=-1).add_(curvature_diagonal(active))
    if bool(held.any()):
        alone = alone * loose[..., None] * loose[..., None, :]
        alone.diagonal(dim1=-2, dim2=-1).add_(1 - loose)
    factor = cholesky_ex(alone).L

    def precondition(residual: Tensor) -> Tensor:
        half = solve_triangular(factor, residual[..., None], upper=False)
        return solve_triangular(factor.mT, half, upper=True).squeeze(-1)

    if active is None:
        return precondition(force)

    def multiply(step: Tensor) -> Tensor:
        product = (blocks @ step[..., None]).squeeze(-1)
        return (product + curvature(active, step)) * loose

    return _conjugate_gradients(multiply, precondition, force)


def _conjugate_gradients(
    multiply: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    force: Tensor,
) -> Tensor:
    """Solve one symmetric system per clip, (clips, T, size)."""

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(dim=(1, 2), keepdim=True)

    tiny = torch.finfo(force.dtype).tiny
    solution, residual = torch.zeros_like(force), force
    direction = ahead = precondition(residual)
    energy = first = dot(residual, ahead)
    for _ in range(_INNER_STEPS):
        product = multiply(direction)
        length = energy / dot(direction, product).clamp_min(tiny)
        solution = solution + length * direction
        residual = residual - length * product
        ahead = precondition(residual)
        energy, before = dot(residual, ahead), energy
        if bool((energy <= _INNER_TOLERANCE**2 * first).all()):
            break
        direction = ahead + energy / before.clamp_min(tiny) * direction
    return solution

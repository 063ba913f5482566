"""Inverse kinematics of whole clips: all frames of all clips are solved at once.

Joint limits and velocity limits always hold; targets are met as far as they allow.
Poses that have nothing to do with each other are clips of one frame, (N, 1, 36).

The search is Levenberg-Marquardt on the weighted errors of the targets. A frame's
damping is proportional to its own error (Sugihara, 2011) times a factor that its clip
adapts: frames that can be reached converge quadratically, others stay stable. Frames
are coupled by velocity limits; that linear system is solved by conjugate gradients
with the single frames as preconditioner.
"""

from collections.abc import Callable, Sequence
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
from spectral_skills.motion.targets import (
    TURN,
    BoneTarget,
    Errors,
    Jacobians,
    PoseTarget,
    Targets,
    inverse_right_jacobian,
)
from spectral_skills.robot import g1

_TOLERANCE = 1e-6
"""A clip is done when a step lowers no frame's cost by more than the square of this:
at weight 1, when about that many m or rad are left to gain."""
_DAMPING, _FIRST_DAMPING, _LEAST_DAMPING = 1e-9, 0.1, 1e-6
_BASE_COST = 1e-5  # so that rejected steps soon become short where targets are met
_INNER_STEPS, _INNER_TOLERANCE = 30, 1e-3
POSTURE = 1e-6


class Pull(NamedTuple):
    """Joints to stay near, with a weight of squared rad each."""

    joints: Tensor  # (..., T, free joints)
    weight: Tensor  # fits (..., T, free joints)


class Solution(NamedTuple):
    qpos: Tensor  # (..., T, 36)
    iterations: int


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
        matrix = inverse_right_jacobian(velocity[..., TURN])
        turn = pull[..., TURN, None]
        ahead, behind = pull.clone(), pull.clone()
        ahead[..., TURN] = (matrix @ turn).squeeze(-1)
        behind[..., TURN] = (matrix.mT @ turn).squeeze(-1)
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
    """Nearest-looking motion (clips, T, joints) that changes by at most `limit`."""
    ramp = torch.arange(values.shape[1], device=values.device)[:, None] * limit
    return limit_change(values, ramp)


def limit_change(values: Tensor, ramp: Tensor) -> Tensor:
    """Nearest-looking motion (clips, T, joints) that nowhere changes by more than
    `ramp`, which fits (T, joints) and rises.

    The mean of the largest motion below and the smallest above that keep the limit;
    it stays within the range of the values and leaves a slow motion as it is.
    """

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
        limits: np.ndarray = g1.SOFT_LIMITS,  # (29, 2) of all joints, rad
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
            for x in (*limits[joints].T, speed)
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

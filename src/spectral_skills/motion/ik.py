"""Inverse kinematics of whole clips: all frames of all clips are solved at once.

Joint limits and velocity limits always hold; targets are met as far as they allow.
Poses that have nothing to do with each other are clips of one frame, (N, 1, 36).

The search is Levenberg-Marquardt on the weighted errors of the targets. A frame's
damping is proportional to its own error (Sugihara, 2011) times a factor that its clip
adapts: frames that can be reached converge quadratically, others stay stable. Frames
are coupled by smoothness and velocity limits; that linear system is solved by
conjugate gradients with the single frames as preconditioner.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import cholesky_ex, solve_triangular
from torch.nn.functional import pad

from spectral_skills import rotation
from spectral_skills.motion.ik_targets import (
    Jacobians,
    LinkTarget,
    MassTarget,
    Targets,
    inverse_right_jacobian,
)
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

__all__ = ["IkConfig", "InverseKinematics", "LinkTarget", "MassTarget", "Solution"]

_TURN = slice(3, 6)  # root rotation among the tangent coordinates
_FIRST_DAMPING = 0.1
_LEAST_DAMPING = 1e-6
_BASE_COST = 1e-5  # so that rejected steps soon become short where targets are met
_INNER_STEPS = 30
_INNER_TOLERANCE = 1e-3


@dataclass(frozen=True)
class IkConfig:
    """How to solve. Weights compare with those of targets, 1 per m^2."""

    iterations: int = 30
    """Largest number of Gauss-Newton steps."""
    tolerance: float = 1e-6
    """A clip is done when a step lowers no frame's cost by more than the square of
    this: at weight 1, when about that many m or rad are left to gain."""
    damping: float = 1e-9
    """Smallest damping of a step."""
    smoothness: float = 0.0
    """Weight of squared accelerations of root and free joints, per (rad/s^2)^2.
    In a walk 1e-10 costs targets of weight 1 hundredths of a millimetre, 1e-8 half a
    millimetre. Where targets leave joints open, raise `posture` to 1e-4 with it, or
    many more iterations are needed."""
    posture: float = 1e-6
    """Weight of squared distance from the posture, per rad^2: settles what the
    targets leave open. In float32 less than 1e-4 drowns in rounding."""
    velocity_fraction: float = 0.9
    """Part of its speed limit that a joint never exceeds."""


@dataclass(frozen=True)
class Solution:
    """A motion, and how far it is from each target."""

    qpos: Tensor  # (..., T, 36)
    position_error: Tensor  # (..., T, targets), m, over axes of nonzero weight
    orientation_error: Tensor  # (..., T, targets), rad, in the same way
    mass_error: Tensor  # (..., T), m, in the same way
    iterations: int


@dataclass(frozen=True)
class Coupling:
    """What ties the frames of a clip together: penalties on accelerations and on
    velocities above the limit. Rates are per frame here."""

    smoothness: float  # weight of squared second differences
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
        """(clips,)."""
        cost = (self.stiffness * self.excess(velocity).square()).sum(dim=(1, 2))
        if self.smoothness:
            bend = velocity.diff(dim=1).square().sum(dim=(1, 2))
            cost = cost + self.smoothness * bend
        return 0.5 * cost

    def force(self, velocity: Tensor) -> Tensor:
        """(clips, T, size): the cost's gradient, negated."""
        pull = self.stiffness * self.excess(velocity)
        if self.smoothness:
            pull = pull - self.smoothness * _spread(velocity.diff(dim=1))
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

    def multiply(self, active: Tensor | None, step: Tensor) -> Tensor:
        """Curvature of the cost times a step, both (clips, T, size)."""
        change = step.diff(dim=1)
        pull = torch.zeros_like(change) if active is None else active * change
        if self.smoothness and change.shape[1] > 1:
            pull = pull - self.smoothness * _spread(change.diff(dim=1))
        return -_spread(pull)

    def diagonal(self, active: Tensor | None, like: Tensor) -> Tensor:
        """Diagonal of the curvature, for a motion of the shape of `like`."""
        total = torch.zeros_like(like)
        frames = like.shape[1]
        for shift, weight in ((0, 1.0), (1, 4.0), (2, 1.0)):
            if self.smoothness and frames > 2:
                total[:, shift : frames - 2 + shift] += weight * self.smoothness
        if active is not None:
            total[:, 1:] += active
            total[:, :-1] += active
        return total


def _spread(values: Tensor) -> Tensor:
    """Minus the transpose of differencing over time: one frame longer."""
    return pad(values, (0, 0, 1, 1)).diff(dim=1)


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


class _State:
    """A motion with its errors and cost."""

    def __init__(self, search: "_Search", rows: Tensor):
        self.rows = rows
        poses = search.kinematics(rows.flatten(0, 1))
        self.errors = search.goals.measure(poses)
        self.joints = rows[..., 7 + search.jacobians.joints]
        self.velocity = search.coupling.velocity(rows)
        squares = self.errors.weighted.square().sum(dim=1)
        self.frame_cost = 0.5 * squares.view(rows.shape[:2])
        stray = (self.joints - search.rest).square().sum(dim=(1, 2))
        self.cost = (
            self.frame_cost.sum(dim=1)
            + 0.5 * search.config.posture * stray
            + search.coupling.cost(self.velocity)
        )


class _Search:
    """Levenberg-Marquardt over the motions of one problem."""

    def __init__(
        self,
        solver: "InverseKinematics",
        goals: Targets,
        coupling: Coupling,
        rest: Tensor,  # (clips, T, free joints) posture to stay near
    ):
        self.config, self.limits = solver.config, solver.limits
        self.kinematics, self.jacobians = solver.kinematics, solver.jacobians
        self.goals, self.coupling, self.rest = goals, coupling, rest

    def run(self, rows: Tensor) -> tuple[_State, int]:
        """The motion found, and the number of iterations."""
        noise = 64 * torch.finfo(rows.dtype).eps
        state = _State(self, rows)
        factor = torch.full_like(state.cost, _FIRST_DAMPING)
        done = torch.zeros_like(state.cost, dtype=torch.bool)
        iteration = 0
        while iteration < self.config.iterations and not bool(done.all()):
            iteration += 1
            step, force = self._step(state, factor)
            step = step.masked_fill(done[:, None, None], 0.0)
            gain = (step * force).sum(dim=-1)
            done |= gain.amax(dim=-1) < self.config.tolerance**2
            moved = self.jacobians.advance(state.rows, step, *self.limits)
            trial = _State(self, moved)
            fall = state.cost - trial.cost
            better = fall >= -noise * state.cost
            # A step should lower the cost by half of `gain`.
            gain = gain.sum(dim=1)
            factor = torch.where(fall > 0.4 * gain, 0.2 * factor, factor)
            factor = torch.where(fall < 0.1 * gain, 4 * factor, factor)
            factor = factor.clamp_min(_LEAST_DAMPING)
            if not bool(better.all()):
                kept = torch.where(better[:, None, None], trial.rows, state.rows)
                trial = _State(self, kept)
            state = trial
        return state, iteration

    def _step(self, state: _State, factor: Tensor) -> tuple[Tensor, Tensor]:
        clips, frames = state.rows.shape[:2]
        jacobian = self.goals.jacobian(state.errors)
        force = (jacobian.mT @ state.errors.weighted[..., None]).view(clips, frames, -1)
        force[..., 6:] += self.config.posture * (self.rest - state.joints)
        blocks = (jacobian.mT @ jacobian).unflatten(0, (clips, frames))
        damping = factor[:, None] * (state.frame_cost + _BASE_COST)
        damping = damping + self.config.damping
        diagonal = blocks.diagonal(dim1=-2, dim2=-1)
        diagonal += damping[..., None]
        diagonal[..., 6:] += self.config.posture
        active = self.coupling.active(state.velocity)
        if active is not None or self.coupling.smoothness:
            force += self.coupling.force(state.velocity)

        # Joints at a limit that are pushed outwards stay there.
        low, high = self.limits
        push = force[..., 6:]
        held = (state.joints <= low) & (push < 0)
        held |= (state.joints >= high) & (push > 0)
        force[..., 6:] = push.masked_fill(held, 0.0)
        return self._solve(blocks, active, force, held), force

    def _solve(
        self, blocks: Tensor, active: Tensor | None, force: Tensor, held: Tensor
    ) -> Tensor:
        """Step that balances `force`, nothing for the joints that are held."""
        coupling = self.coupling
        coupled = active is not None or coupling.smoothness > 0
        loose = torch.ones_like(force)
        loose[..., 6:] = (~held).to(force)
        alone = blocks
        if coupled:
            alone = blocks.clone()
            alone.diagonal(dim1=-2, dim2=-1).add_(coupling.diagonal(active, force))
        if bool(held.any()):
            alone = alone * loose[..., None] * loose[..., None, :]
            alone.diagonal(dim1=-2, dim2=-1).add_(1 - loose)
        factor = cholesky_ex(alone).L

        def precondition(residual: Tensor) -> Tensor:
            half = solve_triangular(factor, residual[..., None], upper=False)
            return solve_triangular(factor.mT, half, upper=True).squeeze(-1)

        def multiply(step: Tensor) -> Tensor:
            product = (blocks @ step[..., None]).squeeze(-1)
            return (product + coupling.multiply(active, step)) * loose

        if not coupled:
            return precondition(force)
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


class InverseKinematics:
    """Fits root and free joints to targets; other joints stay as they are."""

    def __init__(
        self,
        free_joints: Sequence[str] = g1.JOINTS,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
        config: IkConfig | None = None,
    ):
        self.config = config or IkConfig()
        self.jacobians = Jacobians(free_joints, device, dtype)
        self.kinematics = Kinematics(device=device, dtype=dtype)
        self._like = torch.zeros((), dtype=dtype, device=device)
        joints = self.jacobians.joints.cpu().numpy()
        speed = self.config.velocity_fraction * g1.VELOCITY_LIMIT[joints]
        low, high, self._speed = (
            torch.as_tensor(x).to(self._like)
            for x in (*g1.SOFT_LIMITS[joints].T, speed)
        )
        self.limits = (low, high)  # of the free joints

    def solve(
        self,
        start: Tensor,
        targets: Sequence[LinkTarget],
        mass: MassTarget | None = None,
        posture: Tensor | None = None,
        fps: float = 50.0,
    ) -> Solution:
        """Fit clips (..., T, 36), beginning at `start`.

        `posture` (..., 29) is what joints stay near where targets leave a choice;
        those of `start` by default.
        """
        if start.ndim < 2 or start.shape[-1] != g1.QPOS_SIZE or not start.numel():
            raise ValueError(
                f"start is {tuple(start.shape)}, must be (..., T, {g1.QPOS_SIZE})"
            )
        shape, jacobians = start.shape[:-1], self.jacobians
        rows = start.to(self._like).reshape(-1, *start.shape[-2:])
        zero = rows.new_zeros(*rows.shape[:2], jacobians.size)
        rows = jacobians.advance(rows, zero, *self.limits)
        goals = Targets(targets, mass, shape, jacobians, self._like)
        posture = start[..., 7:] if posture is None else posture
        try:
            rest = posture.to(self._like).broadcast_to(*shape, g1.NUM_JOINTS)
        except RuntimeError:
            raise ValueError(
                f"posture is {tuple(posture.shape)}, must fit (..., {g1.NUM_JOINTS})"
            ) from None
        rest = rest.reshape(*rows.shape[:2], -1)[..., jacobians.joints]
        limit = self._speed / fps
        coupling = Coupling(
            smoothness=self.config.smoothness * fps**4,
            stiffness=10 * goals.largest_weight[:, None, None],
            limit=torch.cat((self._like.new_full((6,), torch.inf), limit)),
            joints=jacobians.joints,
        )
        search = _Search(self, goals, coupling, rest)
        state, iterations = search.run(rows)
        if bool((state.joints.diff(dim=1).abs() > limit).any()):
            # The penalty is soft; the limit is kept exactly.
            rows = state.rows.clone()
            slow = limit_velocity(state.joints, limit).clamp(*self.limits)
            rows[..., 7 + jacobians.joints] = slow
            state = _State(search, rows)
        position, orientation, centre = goals.distances(state.errors)
        return Solution(
            qpos=state.rows.reshape(start.shape),
            position_error=position.reshape(*shape, -1),
            orientation_error=orientation.reshape(*shape, -1),
            mass_error=centre.reshape(shape),
            iterations=iterations,
        )

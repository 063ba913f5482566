"""The search behind inverse kinematics.

Levenberg-Marquardt on the weighted errors of the targets. A frame's damping is
proportional to its own error (Sugihara, 2011) times a factor that its clip adapts:
frames that can be reached converge quadratically, others stay stable. Frames are
coupled by smoothness and velocity limits; that linear system is solved by conjugate
gradients with the single frames as preconditioner.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import cholesky_ex, solve_triangular

from spectral_skills.motion.coupling import Coupling
from spectral_skills.motion.ik_targets import Targets
from spectral_skills.motion.jacobians import Jacobians
from spectral_skills.motion.kinematics import Kinematics

_FIRST_DAMPING = 0.1
_BASE_COST = 1e-5
"""Added to the cost of frames, so that rejected steps soon become short even where
the targets are met."""
_LEAST_DAMPING = 1e-6
_INNER_STEPS = 30
_INNER_TOLERANCE = 1e-3


@dataclass(frozen=True)
class IkConfig:
    """How to solve. Weights compare with those of targets, 1 per m^2."""

    iterations: int = 30
    """At most so many Gauss-Newton steps."""
    tolerance: float = 1e-6
    """A clip is done when a step lowers no frame's cost by more than its square: at
    weight 1, when what is left to gain is about so many m or rad."""
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
    """Joints never move faster than this part of their speed limit."""


class State:
    """A motion with its errors and cost."""

    def __init__(self, search: "Search", rows: Tensor):
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


@dataclass(frozen=True)
class Search:
    """Levenberg-Marquardt over the motions of one problem."""

    kinematics: Kinematics
    jacobians: Jacobians
    limits: tuple[Tensor, Tensor]
    """Of the free joints, lower and upper."""
    config: IkConfig
    goals: Targets
    coupling: Coupling
    rest: Tensor
    """(clips, T, free joints) to stay near."""

    def run(self, rows: Tensor) -> tuple[State, int]:
        """The motion found, and the number of iterations."""
        noise = 64 * torch.finfo(rows.dtype).eps
        state = State(self, rows)
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
            trial = State(self, moved)
            fall = state.cost - trial.cost
            better = fall >= -noise * state.cost
            # A step should lower the cost by half of `gain`.
            gain = gain.sum(dim=1)
            factor = torch.where(fall > 0.4 * gain, 0.2 * factor, factor)
            factor = torch.where(fall < 0.1 * gain, 4 * factor, factor)
            factor = factor.clamp_min(_LEAST_DAMPING)
            if not bool(better.all()):
                kept = torch.where(better[:, None, None], trial.rows, state.rows)
                trial = State(self, kept)
            state = trial
        return state, iteration

    def _step(self, state: State, factor: Tensor) -> tuple[Tensor, Tensor]:
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
        held = ((state.joints <= low) & (push < 0)) | (
            (state.joints >= high) & (push > 0)
        )
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

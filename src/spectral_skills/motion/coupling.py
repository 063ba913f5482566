"""What ties the frames of a clip together: smoothness and velocity limits.

Motions are (clips, T, 36) rows; steps and forces are in the tangent coordinates of
`Jacobians`. Rates are per frame here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from spectral_skills import rotation
from spectral_skills.motion.jacobians import inverse_right_jacobian

_TURN = slice(3, 6)
"""Root rotation among the tangent coordinates."""


@dataclass(frozen=True)
class Coupling:
    """Penalties on accelerations and on velocities above the limit."""

    smoothness: float
    """Weight of squared second differences."""
    stiffness: Tensor
    """(clips, 1, 1) weight of the squared velocity in excess of the limit."""
    limit: Tensor
    """(size,) largest change from frame to frame; infinite for the root."""
    joints: Tensor
    """Indices of the free joints."""

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
            bend = velocity.diff(dim=1)
            pull = pull - self.smoothness * _spread(bend)
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

"""Inverse kinematics of whole clips: all frames of all clips are solved at once.

Joint limits and velocity limits always hold; targets are met as far as they allow.
Poses that have nothing to do with each other are clips of one frame, (N, 1, 36).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills.motion.coupling import Coupling, limit_velocity
from spectral_skills.motion.ik_search import IkConfig, Search, State
from spectral_skills.motion.ik_targets import LinkTarget, MassTarget, Targets
from spectral_skills.motion.jacobians import Jacobians
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

__all__ = ["IkConfig", "InverseKinematics", "LinkTarget", "MassTarget", "Solution"]


@dataclass(frozen=True)
class Solution:
    """A motion, and how far it is from each target."""

    qpos: Tensor
    """(..., T, 36)."""
    position_error: Tensor
    """(..., T, targets), m, over axes of nonzero weight; 0 without a position."""
    orientation_error: Tensor
    """(..., T, targets), rad, likewise."""
    mass_error: Tensor
    """(..., T), m, likewise."""
    iterations: int


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
        self._jacobians = Jacobians(free_joints, device, dtype)
        self._kinematics = Kinematics(device=device, dtype=dtype)
        self._like = torch.zeros((), dtype=dtype, device=device)
        joints = self._jacobians.joints.cpu().numpy()
        low, high = g1.SOFT_LIMITS[joints].T
        self._limits = (
            torch.as_tensor(low).to(self._like),
            torch.as_tensor(high).to(self._like),
        )
        speed = self.config.velocity_fraction * g1.VELOCITY_LIMIT[joints]
        self._speed = torch.as_tensor(speed).to(self._like)

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
        shape = start.shape[:-1]
        rows = start.to(self._like).reshape(-1, *start.shape[-2:])
        zero = rows.new_zeros(*rows.shape[:2], self._jacobians.size)
        rows = self._jacobians.advance(rows, zero, *self._limits)
        goals = Targets(targets, mass, shape, self._jacobians, self._like)
        if posture is None:
            posture = start[..., 7:]
        try:
            rest = posture.to(self._like).broadcast_to(*shape, g1.NUM_JOINTS)
        except RuntimeError:
            raise ValueError(
                f"posture is {tuple(posture.shape)}, must fit (..., {g1.NUM_JOINTS})"
            ) from None
        rest = rest.reshape(*rows.shape[:2], -1)[..., self._jacobians.joints]
        free_root = self._like.new_full((6,), torch.inf)
        coupling = Coupling(
            smoothness=self.config.smoothness * fps**4,
            stiffness=10 * goals.largest_weight[:, None, None],
            limit=torch.cat((free_root, self._speed / fps)),
            joints=self._jacobians.joints,
        )
        search = Search(
            self._kinematics,
            self._jacobians,
            self._limits,
            self.config,
            goals,
            coupling,
            rest,
        )
        state, iterations = search.run(rows)
        rows = self._slowed(state.rows, fps)
        if rows is not state.rows:
            state = State(search, rows)
        position, orientation, centre = goals.distances(state.errors)
        return Solution(
            qpos=rows.reshape(start.shape),
            position_error=position.reshape(*shape, -1),
            orientation_error=orientation.reshape(*shape, -1),
            mass_error=centre.reshape(shape),
            iterations=iterations,
        )

    def _slowed(self, rows: Tensor, fps: float) -> Tensor:
        """Rows whose free joints keep the velocity limit exactly."""
        columns, limit = 7 + self._jacobians.joints, self._speed / fps
        joints = rows[..., columns]
        if bool((joints.diff(dim=1).abs() > limit).any()):
            rows = rows.clone()
            slow = limit_velocity(joints, limit)
            rows[..., columns] = slow.clamp(*self._limits)
        return rows

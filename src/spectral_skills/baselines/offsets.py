"""Joint offsets, the alternative to steering: add a pose to what a controller does."""

import torch
from torch import Tensor

from spectral_skills.rollout.controller import Tracker
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig


class OffsetTracker(Tracker):
    """A controller whose actions, or whose joint targets, are moved at every step.

    It sees a moved action as its last one; of a moved target it knows nothing.
    """

    def __init__(
        self,
        controller: Controller,
        action: Tensor,
        servo: Tensor,
        offset: Tensor | float = 0.0,
    ):
        """`action` and `servo` are (T, n, 29): in units of actions, and in rad."""
        super().__init__(controller, offset)
        self._moves = action, servo

    @torch.no_grad()
    def act(
        self,
        qpos: Tensor,
        qvel: Tensor,
        source: Tensor,
        noise: RandomizationConfig | None = None,
    ) -> Tensor:
        """Mean actions (n, 29) and what is added to them."""
        action = super().act(qpos, qvel, source, noise)
        self._last_action = action + self._now(0)
        return self._last_action

    def targets(self, action: Tensor) -> Tensor:
        """Joint targets (n, 29) and what is added to them."""
        return super().targets(action) + self._now(1)

    def _now(self, which: int) -> Tensor:
        move = self._moves[which]
        return move[min(self._step - 1, len(move) - 1)]

"""Joint offsets, the alternative to steering: add a pose to what a controller does."""

from torch import Tensor

from spectral_skills.control.run import Tracker
from spectral_skills.tracking.policy import Controller


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

    def moved(self, action: Tensor) -> Tensor:
        """The action and what is added to it."""
        return action + self._at(0, self._step)

    def targets(self, action: Tensor) -> Tensor:
        """Joint targets (n, 29) and what is added to them."""
        return super().targets(action) + self._at(1, self._step - 1)

    def _at(self, which: int, step: int) -> Tensor:
        move = self._moves[which]
        return move[min(step, len(move) - 1)]

"""Robots whose days were written before, and two processes that share them."""

import torch
from torch import Tensor

from spectral_skills import distributed
from spectral_skills.tracking.observations import Observation

ROBOTS = 8


class Recorded:
    """This process's share of robots whose days were written before."""

    def __init__(self, width: int):
        self.draw = torch.Generator().manual_seed(5)
        self.width = width
        self.observation = self._observe()

    def _normal(self, *shape: int) -> Tensor:
        whole = torch.randn((ROBOTS, *shape), generator=self.draw)
        # Robots of the second process live elsewhere.
        lift = torch.linspace(0, 3, ROBOTS).view(-1, *(1,) * len(shape))
        return distributed.share(whole + lift)

    def _observe(self) -> Observation:
        shapes = ((10, 93), (self.width,), (2,), (286,))
        return Observation(*(self._normal(*shape) for shape in shapes))

    def step(self, action: Tensor):
        """Rewards depend on the action, what is seen does not."""
        reward = self._normal() + action.sum(-1)
        done = self._normal() > 2.5
        self.observation = self._observe()
        return reward, done, done & (reward > 1)

    def noise(self, like: Tensor) -> Tensor:
        """In the place of `randn_like`: the share of what one process would draw."""
        whole = torch.randn((ROBOTS, *like.shape[1:]), generator=self.draw)
        return distributed.share(whole)

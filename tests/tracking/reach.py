"""A small task that a learner can learn in seconds."""

import torch
from torch import Tensor

from spectral_skills.tracking.observations import Observation


class Reach:
    """Robots that should do what their skill says: the reward of a step is how near
    the action is to a fixed linear map of the skill."""

    def __init__(self, robots: int = 64):
        self.draw = torch.Generator().manual_seed(7)
        self.robots, self.map = robots, self._normal(4, 29) / 2
        self.steps = 0
        self.observation = self._observe()

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.draw)

    def _observe(self) -> Observation:
        robots, skill = self.robots, self._normal(self.robots, 4)
        return Observation(
            history=5 + 3 * self._normal(robots, 10, 93),
            source=skill,
            phase=torch.tensor([0.0, 1.0]).expand(robots, 2),
            critic=torch.cat((skill, self._normal(robots, 282)), dim=1),
        )

    def step(self, action: Tensor):
        """Episodes end every fifth step, of odd robots by time."""
        self.steps += 1
        wanted = self.observation.source @ self.map
        reward = 1 - (action - wanted).square().mean(-1)
        self.observation = self._observe()
        done = torch.full((self.robots,), self.steps % 5 == 0)
        return reward, done, done & (torch.arange(self.robots) % 2 == 1)

"""A small controller, and planners that plan what a test wants."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spectral_skills.planner.text import TextStates

WIDTH = 5


class Scripted:
    """A planner whose plans are given; keeps what it was asked."""

    def __init__(self, plans, output: str = "skill", action: int = WIDTH):
        self.plans, self.asked = list(plans), []
        self.config = SimpleNamespace(
            output=output, head=SimpleNamespace(action=action)
        )

    def plan(self, history, text, noise):
        self.asked.append((history.clone(), text, noise.clone()))
        return self.plans[min(len(self.asked), len(self.plans)) - 1].clone()


@pytest.fixture(scope="session")
def scripted():
    """`scripted(plans)`: a planner."""

    def make(plans, **more) -> Any:
        return Scripted(plans, **more)

    return make


@pytest.fixture(scope="session")
def words() -> TextStates:
    return TextStates(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool))

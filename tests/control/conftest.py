"""Robots without physics, a small encoder, and references to follow."""

from typing import Any

import pytest
import torch
from torch import Tensor

from spectral_skills.robot import g1
from spectral_skills.tracking.references import References

WIDTH = 5


class Teleport:
    """Robots that are at row k of their script after k steps, whatever they do."""

    def __init__(self, script: Tensor):
        self.script, self.count = script, script.shape[1]
        self.device = torch.device("cpu")
        self.qpos, self.qvel = script[0].clone(), torch.zeros(self.count, 35)
        self.targets = torch.zeros(self.count, g1.NUM_JOINTS)
        self.broken = torch.zeros(self.count, dtype=torch.bool)
        self.steps = 0
        self.seen: list[Tensor] = []
        """Root velocities that each step began with."""

    def step(self) -> None:
        self.steps += 1
        self.seen.append(self.qvel[:, :6].clone())
        self.qpos.copy_(self.script[self.steps])


@pytest.fixture(scope="session")
def teleport():
    """`teleport(script (T + 1, n, 36))`."""

    def make(script: Tensor) -> Any:
        return Teleport(script)

    return make


@pytest.fixture(scope="session")
def corpus(make_clip, make_corpus, tmp_path_factory):
    """Three walks of different lengths."""
    clips = [make_clip(f"walk{i}", 40 + 10 * i, seed=i) for i in range(3)]
    return make_corpus(tmp_path_factory.mktemp("rollout") / "walks", clips)


@pytest.fixture(scope="session")
def references(corpus) -> References:
    return References.build(corpus.to("cpu"))

"""Two processes learn off-policy as one, each with a memory of its own robots."""

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from recorded import ROBOTS, Recorded
from torch import Tensor
from two_processes import in_two

from spectral_skills import distributed
from spectral_skills.tracking.critics import TwinCritic
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.references import CommandConfig
from spectral_skills.tracking.sac import SACConfig, SACLearner

EACH, ITERATIONS, STEPS, UPDATES = 4, 3, 5, 2
"""Rows of a robot in an update; a batch has as many of every robot."""
KINDS = ("fixed", "own")


def _learn(kind: str) -> dict:
    """Losses of all iterations and the state at the end. Rows and noise are those that
    one process would draw (fixed), or what each draws by itself (own)."""
    config = ControllerConfig(
        (16, 16),
        CommandConfig("skill", 4),
        critic_hidden=(16, 16),
        history=1,
        bounds=(3.0,) * 29,
    )
    torch.manual_seed(distributed.rank())  # as it should not be for the weights
    settings = SACConfig(
        steps=STEPS, warmup=8, memory=12, updates=UPDATES, batch=ROBOTS * EACH, atoms=11
    )
    critic = TwinCritic(config, settings.atoms, (-20.0, 20.0))
    learner = SACLearner(settings, Controller(config), critic, "cpu")
    env, losses = Recorded(config.command.source_width), []
    drawn = _fix(learner) if kind == "fixed" else lambda like: torch.randn(like.shape)
    robots = len(env.observation.phase)

    def noise(like: Tensor) -> Tensor:
        """In the place of `randn_like`: of robots that act, and of rows."""
        return env.noise(like) if len(like) == robots else drawn(like)

    with mock.patch.object(torch, "randn_like", noise):
        for _ in range(ITERATIONS):
            found = learner.update(learner.collect(env), 0.1)
            losses.append({k: float(v) for k, v in found.items()})
    assert learner.replay is not None
    rewards = learner.replay.rewards
    return {"losses": losses, "state": learner.tensors(), "rewards": rewards}


def _fix(learner: SACLearner) -> Callable[[Tensor], Tensor]:
    """Let it draw its share of what one process would: some steps of all robots. Gives
    what draws the noise of their actions."""
    draw = torch.Generator().manual_seed(11)

    def share(*shape: int) -> Tensor:
        """Of numbers for every robot, in (updates, robots, rows, ...)."""
        whole = torch.rand((UPDATES, ROBOTS, EACH, *shape), generator=draw)
        return distributed.share(whole.transpose(0, 1)).transpose(0, 1)

    def sample(size: int):
        back = share().double()
        robots = torch.arange(back.shape[1])[:, None].expand(back.shape).flatten()
        assert len(robots) == size
        with (
            mock.patch.object(torch, "rand", lambda *_, **__: back.flatten()),
            mock.patch.object(torch, "randint", lambda *_, **__: robots),
        ):
            return learner._draw(size)

    def noise(like: Tensor) -> Tensor:
        drawn = share(29)[0].flatten(0, 1) * 2 - 1
        assert drawn.shape == like.shape
        return drawn

    learner._sample = sample
    return noise


def _all() -> dict:
    return {kind: _learn(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict]:
    """What each of two processes found."""
    return in_two(_all, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("kind", KINDS)
def test_two_stay_alike(kind, two):
    """Weights, slow critics, statistics, temperature and optimizers, exactly, and what
    they tell; they began with other weights and have other robots."""
    first, second = (found[kind] for found in two)
    for name, value in first["state"].items():
        assert torch.equal(value, second["state"][name]), name
    assert first["losses"] == second["losses"]
    assert not torch.equal(first["rewards"], second["rewards"])


def test_two_learn_as_one(two):
    """From the same rows: losses, and where they end."""
    one, found = _learn("fixed"), two[0]["fixed"]
    for row, wanted in zip(found["losses"], one["losses"], strict=True):
        assert row == pytest.approx(wanted, rel=2e-3, abs=1e-5)
    assert "value" not in one["losses"][0] and "entropy" in one["losses"][-1]
    for name, wanted in one["state"].items():
        here = found["state"][name]
        if name.endswith(("mean", "variance", "count")):
            torch.testing.assert_close(here, wanted, rtol=1e-5, atol=1e-6)
        elif "optimizer" not in name:
            # Adam's first steps have the size of the rate however small the gradient.
            assert float((here - wanted).abs().float().mean()) < 2e-5, name
    assert (
        float(one["state"]["controller.proprio.count"]) == ITERATIONS * STEPS * ROBOTS
    )

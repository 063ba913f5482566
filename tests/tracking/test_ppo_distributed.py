"""Two processes learn as one: gradients, normalisers, divergence, starts."""

from dataclasses import replace
from unittest import mock

import pytest
import torch
from recorded import ROBOTS, Recorded
from torch import Tensor
from two_processes import in_two

from spectral_skills import distributed
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.tracking.critics import Critic
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.ppo import PPOConfig, PPOLearner
from spectral_skills.tracking.references import CommandConfig
from spectral_skills.tracking.sampler import AdaptiveSampler, SamplerConfig

ITERATIONS = 2
KINDS = ("skill", "vq", "hub")


def _learn(kind: str) -> dict:
    """Losses of all iterations, gradients of the first step, state at the end."""
    bottleneck = BottleneckConfig(kind="vq", codes=4)
    command = CommandConfig("joint", 4, poses=2, hidden=(16,), bottleneck=bottleneck)
    if kind != "vq":
        command = CommandConfig("skill", 4)
    config = ControllerConfig((16, 16), command, critic_hidden=(16,), history=1)
    torch.manual_seed(distributed.rank())  # as it should not be
    settings = PPOConfig(steps=5, minibatches=2, chunk=7, clip_norm=0.5)
    if kind == "hub":  # as the paper's authors do it
        config = replace(config, critic_command=True, min_std=None, max_std=None)
        settings = replace(
            settings,
            minibatches=4,
            merged=(3, 1),
            value_clip=0.2,
            one_norm=True,
            kl_each_step=True,
        )
    learner = PPOLearner(settings, Controller(config), Critic(config), "cpu")
    env, losses, gradients = Recorded(command.source_width), [], []
    descend = learner._descend

    def watched(groups, *names):
        norms = descend(groups, *names)
        gradients.append(torch.stack(list(norms.values())))
        return norms

    learner._descend = watched
    with mock.patch.object(torch, "randn_like", env.noise):
        for _ in range(ITERATIONS):
            found = learner.update(learner.collect(env), 0.1)
            losses.append({k: float(v) for k, v in found.items()})
    norms = torch.cat(gradients)
    return {"losses": losses, "norms": norms, "state": learner.tensors()}


def _sample() -> dict[str, Tensor]:
    """A sampler's counts after two rounds of robots, of which this has a share."""
    sampler = AdaptiveSampler(SamplerConfig(bin=10), torch.tensor([35, 20, 7]), "cpu")
    draw = torch.Generator().manual_seed(3)
    for done in (64, 128):
        clips = torch.randint(0, 3, (64,), generator=draw)
        frames = torch.randint(0, 7, (64,), generator=draw)
        failed = torch.rand(64, generator=draw) < 0.3
        sampler.book(*(distributed.share(x) for x in (clips, frames, failed)))
        sampler.refresh(done)
    return sampler.tensors() | {"probabilities": sampler.probabilities}


def _all() -> dict:
    return {kind: _learn(kind) for kind in KINDS} | {"sampler": _sample()}


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict]:
    """What each of two processes found."""
    return in_two(_all, tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def one() -> dict:
    return _all()


def test_two_count_starts_and_failures_as_one(one, two):
    for found in two:
        for name, wanted in one["sampler"].items():
            assert torch.equal(found["sampler"][name], wanted), name


@pytest.mark.parametrize("kind", KINDS)
def test_two_have_the_losses_and_gradients_of_one(kind, one, two):
    """All but the explained variance, which is a mean of two."""
    for found in two:
        torch.testing.assert_close(
            found[kind]["norms"], one[kind]["norms"], rtol=1e-3, atol=1e-4
        )
        for row, wanted in zip(found[kind]["losses"], one[kind]["losses"], strict=True):
            assert row.keys() == wanted.keys()
            for name in wanted.keys() - {"explained_variance"}:
                assert row[name] == pytest.approx(wanted[name], rel=2e-3, abs=1e-5), (
                    name
                )


@pytest.mark.parametrize("kind", KINDS)
def test_two_end_where_one_does(kind, one, two):
    """The same on both, though they began with other weights; normalisers exactly."""
    first, second = (found[kind]["state"] for found in two)
    for name, wanted in one[kind]["state"].items():
        assert torch.equal(first[name], second[name]), name
        apart = (first[name] - wanted).abs().float()
        if name.endswith(("mean", "variance", "count")):
            torch.testing.assert_close(first[name], wanted, rtol=1e-5, atol=1e-6)
        elif "optimizer" not in name:
            # Adam's first steps have the size of the rate however small the gradient.
            assert float(apart.mean()) < 2e-5, name
    assert float(first["controller.proprio.count"]) == ITERATIONS * 5 * ROBOTS

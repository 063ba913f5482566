"""The encoder that learns with the policy, with each bottleneck."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from spectral_skills.skill.bottleneck import VQ, BottleneckConfig
from spectral_skills.tracking.critics import Critic
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, ControllerConfig, JointEncoder
from spectral_skills.tracking.ppo import PPOConfig, PPOLearner
from spectral_skills.tracking.references import CommandConfig

BOTTLENECKS = ("continuous", "fsq", "vq", "gumbel", "categorical")
ROBOTS = 16


def _config(bottleneck: Any = "continuous", gradient=True) -> ControllerConfig:
    command = CommandConfig(
        kind="joint",
        width=6,
        poses=3,
        hidden=(32, 32),
        bottleneck=BottleneckConfig(kind=bottleneck, levels=5, codes=8),
        gradient=gradient,
    )
    return ControllerConfig(hidden=(24, 16), critic_hidden=(16,), command=command)


class Windows:
    """Robots whose windows lie on a plane of three dimensions; nothing to earn."""

    def __init__(self):
        torch.manual_seed(3)
        self.plane = torch.randn(3, 3 * 38)
        self.observation = self._observe()

    def _observe(self) -> Observation:
        return Observation(
            history=torch.randn(ROBOTS, 10, 93),
            source=torch.randn(ROBOTS, 3) @ self.plane,
            phase=torch.zeros(ROBOTS, 2),
            critic=torch.randn(ROBOTS, 286),
        )

    def step(self, action):
        """Nothing depends on it."""
        self.observation = self._observe()
        over = torch.zeros(ROBOTS, dtype=torch.bool)
        return torch.randn(ROBOTS), over, over


def _learner(config: ControllerConfig, **settings) -> PPOLearner:
    torch.manual_seed(0)
    ppo = PPOConfig(steps=8, chunk=50, joint_lr=1e-2, **settings)
    return PPOLearner(ppo, Controller(config), Critic(config), "cpu")


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_windows_are_rebuilt_better_and_better(bottleneck):
    """Whatever lies between encoder and decoder."""
    learner, env = _learner(_config(bottleneck)), Windows()
    errors = []
    for _ in range(25):
        losses = learner.update(learner.collect(env), 0.0)
        errors.append(float(losses["reconstruction"]))
    assert learner.finite()
    # Of normalised windows: 1 is what knowing nothing gives.
    first, last = sum(errors[1:4]) / 3, sum(errors[-3:]) / 3
    assert last < 0.9 * first, errors


def _gradients(config: ControllerConfig) -> tuple[list, list]:
    """Of the actor's loss without reconstruction, in encoder and network."""
    learner = _learner(config, joint_penalty=0.0)
    controller = learner.controller
    inputs = controller.inputs(*Windows().observation[:3])
    encoded = controller.encode(inputs)
    assert encoded is not None and controller.joint is not None
    controller.mean(inputs, encoded).square().sum().backward()
    encoder = [*controller.joint.body.parameters()]
    return [p.grad for p in encoder], [p.grad for p in controller.network.parameters()]


def test_the_policy_teaches_the_encoder_only_if_let():
    """`gradient` is the difference between "recon." and "recon. + PG"."""
    encoder, network = _gradients(_config(gradient=True))
    assert all(g is not None and bool(g.abs().sum() > 0) for g in encoder)
    encoder, network = _gradients(_config(gradient=False))
    assert all(g is None for g in encoder)
    assert all(g is not None for g in network)


def test_the_policy_sees_the_skill_and_not_the_window():
    """With the encoder's last layer at zero, windows make no difference."""
    controller = Controller(_config()).eval()
    history, source, phase, _ = Windows().observation
    assert controller.joint is not None
    before = controller.act(history, source, phase)
    assert not torch.allclose(before, controller.act(history, -source, phase))
    project = controller.joint.project
    assert isinstance(project, torch.nn.Linear)
    torch.nn.init.zeros_(project.weight)
    before = controller.act(history, source, phase)
    assert torch.allclose(before, controller.act(history, -source, phase))


def test_a_codebook_learns_once_an_iteration():
    """From the latents of the rollout, not by gradients."""
    learner, env = _learner(_config("vq")), Windows()
    joint = learner.controller.joint
    assert joint is not None and isinstance(joint.bottleneck, VQ)
    before = joint.bottleneck.codebook.clone()
    rollouts = learner.collect(env)
    assert torch.equal(joint.bottleneck.codebook, before)
    learner.update(rollouts, 0.0)
    assert not torch.equal(joint.bottleneck.codebook, before)
    # A moving average of 128 latents, or codes that began as one.
    assert float(joint.bottleneck.counts.sum()) >= 128


def test_encoder_and_actor_have_their_own_rates():
    """The encoder's does not follow the policy's change."""
    learner = _learner(_config(), actor_lr=1e-4, kl_target=1e-9)
    learner.update(learner.collect(Windows()), 0.0)
    actor, std, joint = learner._optimizers["actor"].param_groups
    assert float(actor["lr"]) == float(std["lr"]) == pytest.approx(1e-4 / 1.5)
    assert joint["lr"] == 1e-2
    assert (std["weight_decay"], actor["weight_decay"]) == (0.0, 1e-2)


def test_a_released_encoder_cannot_learn():
    """It has no decoder; training says so at once."""
    encoder = JointEncoder(_config().command, decodes=False)
    window = torch.randn(2, 3 * 38)
    with pytest.raises(ValueError, match="no decoder"):
        encoder.reconstruction(window, encoder(window))
    config = replace(_config(), released=True)
    with pytest.raises(ValueError, match="a released controller lacks"):
        PPOLearner(PPOConfig(), Controller(config), Critic(config), "cpu")

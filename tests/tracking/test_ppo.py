"""PPO: its equations by hand, and a learner that learns."""

import math
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest
import torch
from reach import Reach
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.tracking import ppo
from spectral_skills.tracking.critics import Critic
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.ppo import (
    PPOConfig,
    PPOLearner,
    Transitions,
    chunks,
    log_prob,
    minibatches,
)
from spectral_skills.tracking.references import CommandConfig

SMALL = ControllerConfig(
    hidden=(32, 32), critic_hidden=(32, 32), history=1, command=CommandConfig(width=4)
)


def _learner(compiled: bool = False, config=SMALL, **settings) -> PPOLearner:
    torch.manual_seed(0)
    plain: dict = {"steps": 6, "actor_lr": 1e-2, "actor_lr_limits": (1e-4, 1e-2)}
    ppo_config = PPOConfig(**(plain | settings))
    return PPOLearner(ppo_config, Controller(config), Critic(config), "cpu", compiled)


def test_gae_by_hand():
    """Three steps of three robots: one goes on, one falls, one runs out of time."""
    rewards = torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    values = torch.tensor([[4.0, 4.0, 4.0], [5.0, 5.0, 5.0], [6.0, 6.0, 6.0]])
    last = torch.tensor([8.0, 8.0, 8.0])
    dones = torch.zeros(3, 3, dtype=torch.bool)
    timeouts = dones.clone()
    dones[1, 1] = dones[1, 2] = timeouts[1, 2] = True
    found = ppo.gae(rewards, values, last, dones, timeouts, 0.5, 0.5)
    # Step 2, all: delta = 3 + 0.5 * 8 - 6 = 1, A = 1.
    # Step 1: goes on: delta = 2 + 0.5 * 6 - 5 = 0, A = 0 + 0.25 * 1 = 0.25.
    #         falls:   delta = 2 - 5 = -3, A = -3.
    #         time:    delta = 2 + 0.5 * 5 - 5 = -0.5, A = -0.5.
    # Step 0, all: delta = 1 + 0.5 * 5 - 4 = -0.5, A = -0.5 + 0.25 * A of step 1.
    wanted = [[-0.4375, -1.25, -0.625], [0.25, -3.0, -0.5], [1.0, 1.0, 1.0]]
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("ratio", "advantage", "wanted", "slope"),
    [
        (1.0, 2.0, 2.0, 2.0),
        (1.5, 2.0, 2.4, 0.0),  # good, and already likelier: no more
        (0.5, 2.0, 1.0, 2.0),
        (0.5, -2.0, -1.6, 0.0),  # bad, and already rarer: no more
        (1.5, -2.0, -3.0, -2.0),
    ],
)
def test_clipped_objective_by_hand(ratio, advantage, wanted, slope):
    """Its value, and its slope in the ratio."""
    log_ratio = torch.tensor(math.log(ratio), requires_grad=True)
    found = ppo.clipped_objective(log_ratio, torch.tensor(advantage), 0.2)
    assert found.item() == pytest.approx(wanted)
    (gradient,) = torch.autograd.grad(found, log_ratio)
    assert gradient.item() == pytest.approx(slope * ratio)


def test_gaussians_are_those_of_torch():
    """Log-probability and divergence."""
    torch.manual_seed(0)
    mean, new_mean, action = torch.randn(3, 7, 29).unbind()
    std, new_std = torch.rand(2, 29).add(0.1).unbind()
    old, new = (
        Independent(Normal(m, s), 1) for m, s in ((mean, std), (new_mean, new_std))
    )
    torch.testing.assert_close(log_prob(action, mean, std), old.log_prob(action))
    found = ppo.divergence(mean, std, new_mean, new_std)
    torch.testing.assert_close(found, kl_divergence(old, new))
    assert not torch.allclose(found, kl_divergence(new, old))


@pytest.mark.parametrize(
    ("kl", "rate", "wanted"),
    [
        (0.05, 3e-4, 2e-4),
        (0.03, 3e-4, 3e-4),
        (0.005, 3e-4, 4.5e-4),
        (0.05, 1.2e-5, 1e-5),
        (0.005, 9e-4, 1e-3),
    ],
)
def test_the_rate_follows_the_change_of_the_policy(kl, rate, wanted):
    """Within its limits, which are those of the paper."""
    found = ppo.next_rate(torch.tensor(rate), torch.tensor(kl), 0.02, (1e-5, 1e-3))
    assert found.item() == pytest.approx(wanted)


def test_advantages_have_mean_zero_and_deviation_one():
    """Over the batch."""
    torch.manual_seed(0)
    found = ppo.standardized(5 + 3 * torch.randn(24, 100))
    assert float(found.mean()) == pytest.approx(0, abs=1e-6)
    assert float(found.std(correction=0)) == pytest.approx(1, rel=1e-5)


def test_a_rollout_is_what_happened():
    """Inputs, log-probabilities and values are those of the networks; the storage is
    taken once."""
    learner, env = _learner(), Reach()
    first = env.observation
    rollouts = learner.collect(env)
    controller, critic = learner.controller, learner.critic
    inputs = controller.inputs(first.history, first.source, first.phase)
    assert torch.equal(rollouts.inputs[0, :, : inputs.shape[1]], inputs)
    mean = controller(inputs)
    torch.testing.assert_close(rollouts.means[0], mean)
    wanted = Independent(Normal(mean, controller.std), 1).log_prob(rollouts.actions[0])
    torch.testing.assert_close(rollouts.log_probs[0], wanted)
    torch.testing.assert_close(rollouts.values[0], critic(critic.inputs(first.critic)))
    last = critic(critic.inputs(env.observation.critic))
    torch.testing.assert_close(rollouts.values[-1], last)
    assert rollouts.dones.sum(1).tolist() == [0, 0, 0, 0, 64, 0]
    assert rollouts.timeouts.sum(1).tolist() == [0, 0, 0, 0, 32, 0]
    drawn = (rollouts.actions - rollouts.means) / rollouts.std
    assert float(drawn.std()) == pytest.approx(1, rel=0.02)
    assert learner.collect(env).inputs.data_ptr() == rollouts.inputs.data_ptr()


def test_normalisers_learn_after_the_update():
    """From all observations of the rollout; within it nothing moves."""
    learner, env = _learner(), Reach()
    seen = [env.observation]
    step = env.step

    def watched(action):
        outcome = step(action)
        seen.append(env.observation)
        return outcome

    env.step = watched
    rollouts = learner.collect(env)
    normalizers = learner.controller.proprio, learner.critic.normalizer
    assert all(float(n.count) == 0 for n in normalizers)
    learner.update(rollouts, 0.0)
    for normalizer, values in zip(
        normalizers,
        ([o.history[:, -1] for o in seen[:-1]], [o.critic for o in seen[:-1]]),
        strict=True,
    ):
        whole = torch.cat(values)
        assert float(normalizer.count) == len(whole) == 6 * 64
        torch.testing.assert_close(normalizer.mean, whole.mean(0), rtol=1e-4, atol=1e-5)
        variance = whole.var(0, correction=0)
        torch.testing.assert_close(normalizer.variance, variance, rtol=1e-4, atol=0.0)


def _first_gradients(**settings) -> list[dict[str, list[Tensor]]]:
    """Gradients of all optimizer steps of an epoch, none of which is made, by group."""
    learner = _learner(epochs=1, clip_norm=1e9, **settings)
    found = []

    def watched(groups, *names):
        found.append({k: [p.grad.clone() for p in ps] for k, ps in groups.items()})
        for optimizer in learner._optimizers.values():
            optimizer.zero_grad()
        return dict.fromkeys(groups, torch.zeros(()))

    learner._descend = watched
    learner.update(learner.collect(Reach()), 0.0)
    return found


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({"chunk": 50}, (1.0,)),
        ({"minibatches": 4}, (0.25,) * 4),
        ({"minibatches": 4, "merged": (3, 1), "chunk": 30}, (0.75, 0.25)),
    ],
)
def test_chunks_and_minibatches_give_the_gradient_of_the_whole(
    settings, shares, monkeypatch
):
    """Weighted by their shares, minibatches have the batch's gradients."""
    # Each minibatch has advantages of its own mean and deviation.
    monkeypatch.setattr(ppo, "standardized", lambda values: values)
    (whole,) = _first_gradients()
    parts = _first_gradients(**settings)
    assert len(parts) == len(shares)
    for name, gradients in whole.items():
        for i, gradient in enumerate(gradients):
            pairs = zip(parts, shares, strict=True)
            mean = torch.stack([s * part[name][i] for part, s in pairs]).sum(0)
            scale = float(gradient.abs().max())
            assert float((mean - gradient).abs().max()) < 1e-4 * scale + 1e-7


def test_merged_minibatches_take_every_robot_once_in_an_epoch():
    """Three quarters and one; another quarter is alone in the next epoch."""
    robots = torch.arange(8.0).expand(6, 8).flatten()
    fields = [robots[:, None]] * 4 + [robots] * 4
    alone = []
    for epoch in range(4):
        large, small = minibatches(Transitions(*fields), 4, (3, 1), epoch)
        seen = torch.cat([part.returns for part in (*large, *small)])
        assert seen.sort().values.tolist() == robots.sort().values.tolist()
        assert [len(large), len(small)] == [3, 1]
        alone.append(set(small[0].returns.tolist()))
        advantages = torch.cat([part.advantages for part in large])
        assert float(advantages.mean()) == pytest.approx(0, abs=1e-6)
        assert float(advantages.std(correction=0)) == pytest.approx(1, rel=1e-5)
    assert alone == [{3.0, 7.0}, {0.0, 4.0}, {1.0, 5.0}, {2.0, 6.0}]


@pytest.mark.parametrize(
    ("value", "wanted", "slope"),
    [
        (1.1, 0.81, -1.8),  # near the old one: as ever
        (1.5, 0.64, 0.0),  # has come far enough towards the return
        (0.5, 2.25, -3.0),  # went away from it: all of the error counts
        (3.0, 1.0, 2.0),  # went past it
    ],
)
def test_clipped_values_by_hand(value, wanted, slope):
    """Old value 1, return 2, limit 0.2: the larger of two squared errors."""
    learner = _learner(value_clip=0.2)
    found = torch.tensor([value], requires_grad=True)
    learner.critic.forward = lambda inputs: found
    loss = learner.critic_loss(torch.zeros(1, 1), torch.tensor([2.0]), torch.ones(1))
    assert loss.item() == pytest.approx(wanted)
    assert torch.autograd.grad(loss, found)[0].item() == pytest.approx(slope)


def test_one_norm_is_over_actor_and_critic():
    """Its square is the sum of theirs; both are scaled by the same number."""
    (apart,), (together,) = _first_gradients(), _first_gradients(one_norm=True)
    assert set(together) == {"gradient_norm"}
    actor, critic = apart["actor_gradient_norm"], apart["critic_gradient_norm"]
    torch.testing.assert_close(together["gradient_norm"], [*actor, *critic])
    losses = {}
    for one_norm in (False, True):
        learner = _learner(epochs=1, one_norm=one_norm)
        losses |= learner.update(learner.collect(Reach()), 0.0)
    names = ("actor_gradient_norm", "critic_gradient_norm")
    squares = sum(float(losses[name]) ** 2 for name in names)
    assert float(losses["gradient_norm"]) ** 2 == pytest.approx(squares, rel=1e-4)


def test_the_change_may_be_measured_after_each_step():
    """The mean over the steps, each on its own rows against the rollout's policy."""
    learner = _learner(epochs=3, kl_each_step=True, chunk=100, actor_lr=1e-4)
    rollouts, improve, found = learner.collect(Reach()), learner._improve, []

    def watched(rows, actor_learns):
        losses = improve(rows, actor_learns)
        old = Independent(Normal(rollouts.means.flatten(0, 1), rollouts.std), 1)
        mean = learner.controller(rollouts.inputs.flatten(0, 1))
        new = Independent(Normal(mean, learner.controller.std), 1)
        found.append(kl_divergence(old, new).mean().item())
        return losses

    learner._improve = watched
    losses = learner.update(rollouts, 0.0)
    assert 0 < found[0] < found[-1]
    assert float(losses["kl"]) == pytest.approx(sum(found) / 3, rel=1e-4)
    assert found[0] < float(losses["kl"]) < found[-1]


def test_a_critic_that_sees_the_command():
    """Its inputs hold what the controller is told, in the last state too."""
    config = replace(SMALL, critic_command=True)
    learner, env = _learner(config=config), Reach()
    first = env.observation
    rollouts = learner.collect(env)
    for row, seen in ((0, first), (-1, env.observation)):
        message = rollouts.critic_inputs[row, :, 286:292]
        assert torch.equal(message, torch.cat((seen.source, seen.phase), dim=1))
    assert rollouts.critic_inputs.shape[-1] == 304  # a multiple of 16
    losses = learner.update(rollouts, 0.0)
    assert learner.finite() and "kl" in losses


def test_minibatches_are_whole_robots():
    """Every robot is in one of them, at all of its steps."""
    robots = torch.arange(12).expand(6, 12)
    for first in range(4):
        rows = robots.flatten()[first::4]
        assert rows.tolist() == [first, first + 4, first + 8] * 6
    with pytest.raises(ValueError, match="64 robots cannot be shared equally by 5"):
        _learner(minibatches=5).collect(Reach())


def test_chunks_are_alike():
    """So that few shapes are compiled."""
    assert [len(x) for x in chunks(torch.zeros(393_216), 65_536)] == [65_536] * 6
    assert [len(x) for x in chunks(torch.zeros(100), 30)] == [25] * 4


def test_it_learns():
    """To do what skills ask for, with the rate it finds; the critic too."""
    learner, env = _learner(gamma=0.1, kl_target=0.1, critic_lr=5e-3), Reach(512)
    earned, losses = [], {}
    for _ in range(40):
        rollouts = learner.collect(env)
        earned.append(float(rollouts.rewards.mean()))
        losses = learner.update(rollouts, 0.5)
    assert learner.finite()
    assert earned[0] < -0.1  # 1, less the noise of actions and all that is asked for
    assert earned[-1] > 0.3, earned
    assert float(losses["std"]) < 0.45
    assert float(losses["explained_variance"]) > 0.1
    assert float(losses["critic_lr"]) == pytest.approx((5e-3 + 1e-5) / 2)
    assert 0.02 < float(losses["kl"]) < 0.3


def test_compiled_is_the_same():
    """No part that only runs eagerly; the losses of the first update are the same."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    found = []
    for compiled in (False, True):
        tiny = replace(SMALL, hidden=(16,), critic_hidden=(16,))
        learner = _learner(compiled, tiny, epochs=1, chunk=64)
        rollouts = learner.collect(Reach())
        # Noise is drawn in another order: put the same actions in.
        torch.manual_seed(6)
        rollouts.actions.copy_(rollouts.means + torch.randn_like(rollouts.means) / 2)
        rollouts.log_probs.copy_(
            log_prob(rollouts.actions, rollouts.means, rollouts.std)
        )
        rollouts.rewards.copy_(rollouts.actions.sum(-1))
        found.append(learner.update(rollouts, 0.0))
    breaks = torch._dynamo.utils.counters["graph_break"]
    assert not breaks, breaks
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 4
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["skill", "pose", "vq", "fsq", "categorical"])
def test_every_kind_is_one_graph(kind):
    """Whatever commands are made of: nothing to compile falls back to Python."""
    torch._dynamo.reset()
    command = replace(SMALL.command, kind=kind, poses=2)
    if kind not in ("skill", "pose"):
        bottleneck = BottleneckConfig(kind, levels=3, codes=8)
        command = replace(command, kind="joint", bottleneck=bottleneck)
    config = replace(SMALL, command=command)
    whole = partial(torch.compile, backend="eager", fullgraph=True)
    with mock.patch.object(torch, "compile", whole):
        learner = _learner(True, config)
    assert learner.update(learner.collect(Robots(config)), 0.0)
    assert learner.finite()


def test_only_the_critic_learns_at_first():
    """With its normaliser; the actor waits."""
    learner, env = _learner(critic_warmup=1), Reach()
    actor = learner.controller.network.first.weight.clone()
    critic = learner.critic.network.first.weight.clone()
    losses = learner.update(learner.collect(env), 0.0)
    assert "kl" not in losses and "surrogate_loss" not in losses
    assert torch.equal(learner.controller.network.first.weight, actor)
    assert not torch.equal(learner.critic.network.first.weight, critic)
    assert float(losses["actor_lr"]) == pytest.approx(1e-2)
    losses = learner.update(learner.collect(env), 0.0)
    assert "kl" in losses
    assert not torch.equal(learner.controller.network.first.weight, actor)


def test_deviations_do_not_decay():
    """Weight decay would pull them to one."""
    learner = _learner(weight_decay=0.5)
    rollouts = learner.collect(Reach())
    rollouts.rewards.zero_()
    rollouts.values.zero_()  # no advantage, no gradient
    before = learner.controller.network.first.weight.norm().item()
    learner.update(rollouts, 0.0)
    torch.testing.assert_close(learner.controller.std, torch.full((29,), 0.5))
    assert learner.controller.network.first.weight.norm().item() < 0.999 * before


def test_entropy_widens():
    """Nothing else pulls at the deviations when all actions are worth the same."""
    learner = _learner(entropy=0.1)
    rollouts = learner.collect(Reach())
    rollouts.rewards.zero_()
    rollouts.values.zero_()
    learner.update(rollouts, 0.0)
    assert bool((learner.controller.std > 0.5).all())


def test_what_is_not_finite_is_seen():
    """In losses, weights and statistics."""
    learner, env = _learner(), Reach()
    learner.update(learner.collect(env), 0.0)
    assert learner.finite()
    for value in (
        learner.controller.log_std,
        learner.critic.network.project.bias,
        learner.controller.proprio.mean,
    ):
        old = value.data[0].clone()
        value.data[0] = math.nan
        assert not learner.finite()
        value.data[0] = old
    assert learner.finite()
    rollouts = learner.collect(env)
    rollouts.rewards[2, 3] = math.inf
    learner.update(rollouts, 0.0)
    assert not learner.finite()


@pytest.mark.parametrize("kind", ["skill", "joint"])
def test_a_learner_goes_on_where_it_was(kind):
    """Weights, statistics, moments of the optimizers, rate, count."""
    config = replace(SMALL, command=replace(SMALL.command, kind=kind, poses=2))
    settings: dict = {"config": config, "critic_warmup": 1}

    def go_on(learner: PPOLearner) -> dict[str, Tensor]:
        torch.manual_seed(11)
        env = Robots(config)
        for _ in range(2):
            learner.update(learner.collect(env), 0.3)
        return {k: v.clone() for k, v in learner.tensors().items()}

    learner = _learner(**settings)
    go_on(learner)
    kept = {k: v.clone() for k, v in learner.tensors().items()}
    assert int(kept["iterations"]) == 2
    wanted = go_on(learner)
    again = _learner(**settings)
    again.load(kept)
    found = go_on(again)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(found[name], value), name


class Robots(Reach):
    """The same with sources as wide as a config wants."""

    def __init__(self, config: ControllerConfig):
        self.width = config.command.source_width
        super().__init__(8)
        self.map = self._normal(self.width, 29) / 2

    def _observe(self) -> Observation:
        source = self._normal(self.robots, self.width)
        return super()._observe()._replace(source=source)


def test_senseless_settings_are_refused():
    """By their names."""
    with pytest.raises(ValueError, match="actor_lr is 0.1, must be in"):
        PPOConfig(actor_lr=0.1)
    with pytest.raises(ValueError, match="minibatches is 0"):
        PPOConfig(minibatches=0)
    with pytest.raises(ValueError, match=r"merged is \(3, 2\): must add up to"):
        PPOConfig(minibatches=4, merged=(3, 2))

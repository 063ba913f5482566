"""The off-policy learner: its equations by hand, and a learner that learns."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from typing import ClassVar

import pytest
import torch
from reach import Reach
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import AffineTransform, TanhTransform

from spectral_skills.tracking import learner as launcher
from spectral_skills.tracking.critics import TwinCritic, project, value_range
from spectral_skills.tracking.learner import Launcher, Replay
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.references import CommandConfig
from spectral_skills.tracking.sac import SACConfig, SACLearner, squash

BOUNDED = ControllerConfig(
    hidden=(64, 64),
    critic_hidden=(64, 64),
    history=1,
    command=CommandConfig(width=4),
    bounds=(3.0,) * 29,
)


def _learner(config=BOUNDED, compiled: bool = False, **settings) -> SACLearner:
    torch.manual_seed(0)
    plain: dict = {"warmup": 8, "memory": 64, "batch": 256, "updates": 4, "n_step": 1}
    plain |= {"learning_rate": 1e-3, "learning_rate_end": 1e-3, "atoms": 21}
    plain |= {"rate_warmup": 0}
    chosen = SACConfig(**(plain | settings))
    critic = TwinCritic(config, chosen.atoms, (-5.0, 5.0))
    return SACLearner(chosen, Controller(config), critic, "cpu", compiled)


def test_a_belief_is_projected_by_hand():
    """Atoms 0, 1, 2 moved to R + g z."""
    support = torch.tensor([0.0, 1.0, 2.0])
    belief = torch.tensor([[0.2, 0.3, 0.5]] * 3)
    returns, discounts = torch.tensor([0.5, 5.0, 1.0]), torch.tensor([0.5, 1.0, 0.0])
    found = project(belief, support, returns, discounts)
    # 0.5 + 0.5 z = 0.5, 1, 1.5: halves of 0.2 to 0 and 1, all of 0.3 to 1, halves of
    # 0.5 to 1 and 2. 5 + z: all beyond the end. A failed one: all at the return.
    wanted = torch.tensor([[0.1, 0.65, 0.25], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(found, wanted)


def test_a_projection_keeps_mass_and_mean():
    """As long as nothing lies beyond the ends."""
    torch.manual_seed(0)
    support = torch.linspace(-1, 3, 51)
    belief = torch.randn(20, 51).softmax(-1)
    returns, discounts = torch.rand(20) * 0.3, torch.full((20,), 0.9)
    found = project(belief, support, returns, discounts)
    torch.testing.assert_close(found.sum(-1), torch.ones(20))
    torch.testing.assert_close(found @ support, returns + 0.9 * (belief @ support))


def test_squashed_log_probability_is_that_of_torch_and_autograd():
    torch.manual_seed(0)
    bounds, std = torch.rand(29) * 5 + 0.5, torch.rand(29) + 0.1
    mean, noise = torch.randn(2, 7, 29, dtype=torch.double).unbind()
    action, found = squash(mean, std, noise, bounds)
    assert (action.abs() <= bounds).all()
    scaled = [
        AffineTransform(0.0, 1 / bounds),
        TanhTransform(),
        AffineTransform(0, bounds),
    ]
    wanted = TransformedDistribution(Normal(mean, std.double()), scaled)
    torch.testing.assert_close(found, wanted.log_prob(action).sum(-1))
    # The same by the rule of change of variables, with autograd's slope.
    raw = (mean + std * noise).requires_grad_()
    (slope,) = torch.autograd.grad((bounds * torch.tanh(raw / bounds)).sum(), raw)
    gaussian = Independent(Normal(mean, std.double()), 1).log_prob(raw)
    torch.testing.assert_close(found, (gaussian - slope.log().sum(-1)).detach())


def test_squashing_far_actions_is_finite():
    mean = torch.tensor([[1e4] * 29, [-1e4] * 29], requires_grad=True)
    action, likely = squash(mean, torch.ones(29), torch.zeros(2, 29), torch.ones(29))
    likely.sum().backward()
    assert action.isfinite().all() and likely.isfinite().all()
    assert mean.grad is not None and mean.grad.isfinite().all()


def _lived(ends: str, steps: int = 6, shown: int = 99) -> Replay:
    """One robot, rewards 1, 2, 3 ...; F marks a step that fails, T a time-out."""
    replay = Replay(16, 4, 1, (1, 1, 1), torch.device("cpu"), torch.float32)
    for k in range(steps):
        here = torch.tensor([[float(k)]])
        replay.before(here, here, here)
        failed, over = (torch.tensor([ends[k] == mark]) for mark in "FT")
        replay.after(torch.tensor([k + 1.0]), failed | over, over)
        if k < shown:
            replay.show()
    return replay


@pytest.mark.parametrize(
    ("ends", "returns", "discounts", "later", "weight"),
    [
        ("......", 1 + 0.5 * 2 + 0.25 * 3, 0.125, 3, 1),
        ("F.....", 1, 0, None, 1),
        (".F....", 1 + 0.5 * 2, 0, None, 1),
        # The state after a time-out was never seen: bootstrap from the one before.
        ("..T...", 1 + 0.5 * 2, 0.25, 2, 1),
        (".T....", 1, 0.5, 1, 1),
        ("T.....", 0, 1, None, 0),
        ("..F...", 1 + 0.5 * 2 + 0.25 * 3, 0, None, 1),
    ],
)
def test_returns_of_three_steps_end_with_the_episode(
    ends, returns, discounts, later, weight
):
    torch.manual_seed(0)
    batch = _lived(ends).sample(200, 3, 0.5)
    first = batch.inputs[:, 0] == 0
    assert first.any()
    assert set(batch.returns[first].tolist()) == {returns}
    assert set(batch.discounts[first].tolist()) == {discounts}
    assert set(batch.weights[first].tolist()) == {weight}
    if later is not None:
        assert set(batch.later_inputs[first, 0].tolist()) == {later}


@pytest.mark.parametrize("steps", [5, 16, 39])
def test_rows_are_drawn_from_all_that_is_kept(steps):
    """Before the memory is full, when it just is, and after it was written over."""
    torch.manual_seed(0)
    batch = _lived("." * steps, steps).sample(2000, 3, 0.5)
    oldest = max(0, steps - 16)
    assert set(batch.inputs[:, 0].tolist()) == set(range(oldest, steps - 3))
    assert torch.equal(batch.later_inputs, batch.inputs + 3)
    assert torch.equal(batch.actions, batch.inputs)


def test_what_is_written_meanwhile_changes_nothing():
    """Updates that run beside the robots' steps draw from what was there before."""
    batches = []
    for written in (39, 40, 43):
        torch.manual_seed(0)
        lived = _lived("." * written, written, shown=39)
        batches.append(lived.sample(2000, 3, 0.5))
    for batch in batches[1:]:
        for found, wanted in zip(batch, batches[0], strict=True):
            assert torch.equal(found, wanted)


def test_twin_critics_are_two_networks():
    """Each like a plain network of its own weights; the frozen one passes gradients to
    actions alone."""
    torch.manual_seed(0)
    critic = TwinCritic(BOUNDED, 11, (-1.0, 1.0))
    states, actions = torch.randn(5, critic.state_width), torch.randn(5, 29)
    actions.requires_grad_()
    found = critic(states, actions)
    for i in range(2):
        x = torch.cat((states, actions, torch.zeros(5, 3)), dim=-1)
        for layer, norm in zip(critic.layers, critic.norms, strict=True):
            weight, bias = layer.parameters()
            x = x @ weight[i] + bias[i]
            x = torch.nn.functional.layer_norm(x, x.shape[-1:])
            x = torch.nn.functional.silu(x * norm[0, i] + norm[1, i])
        wanted = x @ critic.last.weight[i] + critic.last.bias[i]
        torch.testing.assert_close(found[i], wanted)
    critic(states, actions, frozen=True).sum().backward()
    assert actions.grad is not None
    assert all(p.grad is None for p in critic.parameters())


def test_values_have_room():
    """What a perfect episode is worth lies within the atoms."""
    low, high = value_range(0.14, 0.97)
    assert low < 0 < 0.14 / 0.03 < high


class Pose(Reach):
    """All look alike, and should do the same."""

    def _observe(self):
        return Observation(*(torch.zeros_like(seen) for seen in super()._observe()))

    def step(self, action):
        _, done, timeout = super().step(action)
        return 1 - (action - 1).square().mean(-1), done, timeout


def test_it_learns_a_pose():
    learner, env = _learner(gamma=0.5), Pose(64)
    for _ in range(20):
        learner.update(learner.collect(env), 0.0)
    learner.controller.eval()
    seen = env.observation
    action = learner.controller.act(seen.history, seen.source, seen.phase)
    assert (action - 1).square().mean() < 0.3


def test_nothing_is_learned_before_the_memory_has_something():
    learner, env = _learner(warmup=24), Reach(8)
    before = learner.controller.network.first.weight.clone()
    for _ in range(2):
        learner.update(learner.collect(env), 0.0)
    assert torch.equal(before, learner.controller.network.first.weight)
    learner.update(learner.collect(env), 0.0)
    assert not torch.equal(before, learner.controller.network.first.weight)


@pytest.mark.parametrize(("std", "rises"), [(0.1, False), (0.9, True)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(std, rises):
    """The controller's deviation is 0.5."""
    learner, env = _learner(entropy_std=std), Pose(8)
    before = learner.log_temperature.item()
    for _ in range(3):
        learner.update(learner.collect(env), 0.0)
    assert (learner.log_temperature.item() > before) == rises


@pytest.mark.parametrize(
    ("rate", "iterations", "moves"),
    [(1.0, 90, 1.0), (0.25, 90, 0.25), (0.01, 89, 0.1), (0.01, 9989, 0.01)],
)
def test_what_is_kept_comes_after_what_learns(rate, iterations, moves):
    """All the way, or a part of it that is larger at first; with the same
    statistics."""
    learner, env = _learner(keep_rate=rate), Reach(8)
    learner.update(learner.collect(env), 0.0)
    learner.update(learner.collect(env), 0.0)
    before = learner.kept.network.first.weight.clone()
    learner.iterations = iterations
    learner.update(learner.collect(env), 0.0)
    aim, found = (m.network.first.weight for m in (learner.controller, learner.kept))
    assert not torch.equal(before, aim)
    torch.testing.assert_close(found, before + moves * (aim - before))
    means = [m.proprio.mean for m in (learner.controller, learner.kept)]
    assert torch.equal(*means) and means[0].abs().sum() > 0


def test_the_rate_grows_after_every_start():
    """Once there is something to learn from; by thirds here, then along a cosine."""
    learner, env = _learner(rate_warmup=2, warmup=16, learning_rate_end=5e-4), Reach(8)

    def rates(progress: tuple[float, ...]) -> list[float]:
        found = [learner.update(learner.collect(env), p)["actor_lr"] for p in progress]
        return [float(rate) * 1e3 for rate in found]

    third = pytest.approx([1 / 3, 1 / 3, 2 / 3, 1, 0.75, 0.5])
    assert rates((0.0, 0.0, 0.0, 0.0, 0.5, 1.0)) == third
    learner.load({k: v.clone() for k, v in learner.tensors().items()})
    assert rates((0.0, 0.0, 0.0)) == pytest.approx([1 / 3, 2 / 3, 1])


def test_the_rate_grows_again_where_the_actor_begins():
    """Its optimizer is new when the critics' is not."""
    learner, env = (
        _learner(rate_warmup=1, critic_warmup=3, learning_rate_end=1e-3),
        Reach(8),
    )
    found = [
        float(learner.update(learner.collect(env), 0.0)["actor_lr"]) for _ in range(5)
    ]
    assert found == pytest.approx([5e-4, 1e-3, 1e-3, 5e-4, 1e-3])


def test_robots_keep_their_noise_for_a_while():
    """Mostly for one step, seldom for more, and never for more than the longest."""

    def noise(learner: SACLearner) -> torch.Tensor:
        assert learner._held is not None
        return learner._held[0].clone()

    learner, env = _learner(longest_hold=4, steps=1), Reach(400)
    learner.update(learner.collect(env), 0.0)
    stays, ages = [], torch.ones(400)
    for _ in range(60):
        before = noise(learner)
        learner.collect(env)
        same = (noise(learner) == before).all(dim=1)
        stays.append(ages[~same])
        ages = torch.where(same, ages + 1, 1)
    found = torch.cat(stays).long().bincount(minlength=5).float()
    wanted = 1 / torch.arange(1, 5) ** 2
    torch.testing.assert_close(
        found[1:] / found.sum(), wanted / wanted.sum(), atol=0.02, rtol=0
    )
    assert found[5:].sum() == 0


def test_it_goes_on_as_it_was():
    learner, env = _learner(keep_rate=0.5), Reach(16)
    for _ in range(3):
        learner.update(learner.collect(env), 0.0)
    other = _learner(keep_rate=0.5)
    other.load({k: v.clone() for k, v in learner.tensors().items()})
    for name, value in learner.tensors().items():
        assert torch.equal(value, other.tensors()[name]), name
    # The rate still follows the progress of the run.
    other.update(other.collect(env), 1.0)
    rates = [g["lr"] for g in other._optimizers["actor"].param_groups]
    assert all(rate is other.rate for rate in rates)


def test_what_is_not_a_number_is_noticed():
    learner, env = _learner(), Reach(16)
    learner.update(learner.collect(env), 0.0)
    assert learner.finite()
    with torch.no_grad():
        learner.critic.last.bias[0, 0, 0] = torch.nan
    assert not learner.finite()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"updates": 0}, "updates"),
        ({"memory": 2, "n_step": 3}, "memory"),
        ({"atoms": 1}, "atoms"),
        ({"updates": 1, "actor_every": 2}, "never learn"),
        ({"gamma": 1.0}, "gamma"),
        ({"entropy_std": 0.0}, "entropy_std"),
        ({"temperature": 1.0}, "temperature_limits"),
        ({"keep_rate": 0.0}, "keep_rate"),
        ({"rate_warmup": -1}, "rate_warmup"),
        ({"longest_hold": 0}, "longest_hold"),
    ],
)
def test_senseless_settings_are_refused(settings, named):
    with pytest.raises(ValueError, match=named):
        SACConfig(**settings)


class Lane:
    """In the place of a stream of a GPU."""

    waited: ClassVar[list] = []

    def __init__(self, *_, **__):
        pass

    def wait_stream(self, other):
        Lane.waited.append((self, other))


def test_updates_are_captured_once_and_again_when_the_actor_begins(monkeypatch):
    """As on a GPU: one graph for the critics alone, then one for both."""
    captured = []
    monkeypatch.setattr(launcher, "captured", lambda f: captured.append(f) or f)
    learner, env = _learner(critic_warmup=2), Reach(8)
    monkeypatch.setattr(learner.launcher, "captures", True)
    weights, counts = [], []
    for _ in range(5):
        learner.update(learner.collect(env), 0.0)
        weights.append(learner.controller.network.first.weight.clone())
        counts.append(len(captured))
    assert counts == [1, 1, 2, 2, 2]
    assert torch.equal(*weights[:2]) and not torch.equal(*weights[1:3])


def test_updates_run_beside_the_next_steps(monkeypatch):
    """As on a GPU with `overlap`: those of an iteration while the next one is
    collected, from what was there before, with robots that act as they did then."""
    monkeypatch.setattr(torch.cuda, "current_stream", Lane)
    monkeypatch.setattr(torch.cuda, "stream", lambda lane: nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", Lane)
    monkeypatch.setattr(launcher, "captured", lambda function: function)
    learner, env = _learner(critic_warmup=1), Reach(8)
    learner._acting = deepcopy(learner.kept)
    learner.launcher = Launcher(learner._updates, learner.device, True, True)
    weights, acts, figures = [], [], []
    for _ in range(4):
        steps = learner.collect(env)
        weights.append(learner.controller.network.first.weight.clone())
        acts.append(learner._acting.network.first.weight.clone())
        figures.append(learner.update(steps, 0.0).keys())
        assert learner.finite()
    # Nothing is due at first; the first updates are the critics' alone.
    assert torch.equal(weights[0], weights[1]) and not torch.equal(*weights[1:3])
    # What acted while the third iteration was collected had learned nothing.
    assert torch.equal(acts[2], weights[1]) and torch.equal(acts[3], weights[2])
    assert "value" not in figures[0] and "entropy" not in figures[1]
    assert "value" in figures[1] and "entropy" in figures[2]
    # Both lanes wait for what came before, and what follows for both.
    lanes = [learner.launcher._aside, learner.launcher._robots]
    waited = Lane.waited[-4:]
    assert [first for first, _ in waited[:2]] == lanes
    assert [second for _, second in waited[2:]] == lanes


def test_what_is_compiled_is_whole_and_the_same():
    """No break in it: a graph on a GPU could not be captured."""
    torch._dynamo.reset()
    learner, env = _learner(), Reach(16)
    learner.update(learner.collect(env), 0.0)
    batch = learner._draw(32)
    calls: list[tuple[Callable, tuple]] = [
        (learner._choose, (env.observation, learner._held)),
        (learner._draw, (32,)),
        (learner.critic_loss, (batch,)),
        (learner.actor_loss, (batch.inputs, batch.states)),
    ]
    for function, given in calls:
        whole = torch.compile(function, backend="aot_eager", fullgraph=True)
        found = []
        for each in (function, whole):
            torch.manual_seed(1)
            found.append(tuple(each(*given)))
        torch.testing.assert_close(*found)

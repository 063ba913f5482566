"""Proximal policy optimization: collect a rollout, then improve actor and critic.

One iteration:

    rollouts = learner.collect(env)             # steps x robots transitions
    losses = learner.update(rollouts, progress)  # epochs x minibatches steps

Transitions are stored once, with inputs as the networks see them, and are read in
chunks. A minibatch is every k-th row and so every k-th robot, or some such parts
together; nothing is copied or shuffled. An optimizer step accumulates the gradients of
its chunks. Nothing here waits for the device: learning rates and losses are tensors.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills.distributed import mean_over_ranks
from spectral_skills.tracking.critics import Critic
from spectral_skills.tracking.learner import ActorCritic, Environment
from spectral_skills.tracking.observations import Observation
from spectral_skills.updates import precision

Figures = dict[str, Tensor]
_SAMPLE = 65_536
"""Most transitions on which the change of the policy is measured."""


@dataclass(frozen=True)
class PPOConfig:
    """On-policy learning (learner ppo)."""

    steps: int = 24
    """Control steps of a rollout."""
    epochs: int = 3
    minibatches: int = 1
    """Number of equal parts of the robots, one for each optimizer step."""
    merged: tuple[int, ...] = ()
    """Numbers of parts for the optimizer steps of an epoch, where it is not one each:
    3 1 with four minibatches makes two steps, with 3/4 and 1/4 of the rows."""
    chunk: int = 65_536
    """Transitions that pass the networks at once; no result depends on it."""
    gamma: float = 0.97
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_clip: float | None = None
    """Largest change of a value that lowers its error; None for no limit."""
    entropy: float = 0.0
    clip_norm: float = 1.0
    one_norm: bool = False
    """Whether gradients of actor and critic are clipped by one norm."""
    actor_lr: float = 1e-3
    actor_lr_limits: tuple[float, float] = (1e-5, 1e-3)
    kl_target: float = 0.02
    """Wanted change of the policy in an iteration, which the actor's rate follows."""
    kl_each_step: bool = False
    """Whether the change is measured after every optimizer step on the rows it used,
    and averaged; otherwise after the last step, on a sample of all rows."""
    critic_lr: float = 1e-3
    critic_lr_end: float = 1e-5
    """Last learning rate of the critic, reached linearly."""
    weight_decay: float = 1e-2
    joint_lr: float = 3e-4
    """Learning rate of an encoder that learns with the policy."""
    joint_penalty: float = 1e-3
    """Weight of that encoder's bottleneck penalty beside its reconstruction."""
    critic_warmup: int = 0
    """Iterations at the start in which only the critic learns."""

    def __post_init__(self):
        configs.at_least(self, 1, "steps", "epochs", "minibatches", "chunk")
        (low, high), parts = self.actor_lr_limits, self.minibatches
        if self.merged and (sum(self.merged) != parts or min(self.merged) <= 0):
            raise ValueError(
                f"merged is {self.merged}: must add up to minibatches, {parts}"
            )
        inside = 0 < low <= self.actor_lr <= high
        configs.require(self, "actor_lr", inside, f"in actor_lr_limits {low} {high}")


class Rollouts(NamedTuple):
    """T steps of n robots, (T, n, ...), with inputs normalised and padded with zeros.
    The critic's inputs and values have one more row: the state after the last step."""

    inputs: Tensor
    critic_inputs: Tensor
    actions: Tensor
    means: Tensor
    log_probs: Tensor
    rewards: Tensor
    dones: Tensor
    timeouts: Tensor
    values: Tensor
    std: Tensor
    """(29,) deviations of all actions."""


class Transitions(NamedTuple):
    """Rows that losses are computed from."""

    inputs: Tensor
    critic_inputs: Tensor
    actions: Tensor
    means: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class PPOLearner(ActorCritic):
    """Actor, critic, their optimizers, and the storage of a rollout."""

    config: PPOConfig
    critic: Critic

    def _prepare(self) -> None:
        config, device, joint = self.config, self.device, self.controller.joint
        self.actor_lr = torch.tensor(config.actor_lr, device=device)
        self.critic_lr = torch.tensor(config.critic_lr, device=device)
        self._optimize([self.controller.log_std], (self.actor_lr, self.critic_lr))
        self._joint = [] if joint is None else [*joint.parameters()]
        if self._joint:
            group = {"params": self._joint, "lr": config.joint_lr, "weight_decay": 0.0}
            self._optimizers["actor"].add_param_group(group)
        self._storage: Rollouts | None = None
        self._act = self._fast(self._choose)
        self._value = self._fast(self.critic.forward)
        self._actor_loss = self._fast(self.actor_loss)
        self._critic_loss = self._fast(self.critic_loss)
        self._change = self._fast(self.change)

    @torch.no_grad()
    def collect(self, env: Environment) -> Rollouts:
        """Let the robots act; the next call overwrites the result."""
        robots, parts = len(env.observation.phase), self.config.minibatches
        if robots % parts:
            raise ValueError(
                f"{robots} robots cannot be shared equally by {parts} minibatches"
            )
        if self._storage is None or self._storage.rewards.shape[1] != robots:
            self._storage = self._allocate(robots)
        found = self._storage
        found.std.copy_(self.controller.std)
        for t in range(self.config.steps):
            with precision(self.device):
                inputs, states, mean, action, likely, moments = self._act(
                    env.observation
                )
            found.inputs[t], found.critic_inputs[t] = inputs, states
            found.means[t], found.actions[t], found.log_probs[t] = mean, action, likely
            self._inputs.note(moments, robots)
            found.rewards[t], found.dones[t], found.timeouts[t] = env.step(action)
        found.critic_inputs[-1] = self._inputs.rows(env.observation)[1]
        states = found.critic_inputs[:-1].flatten(0, 1)
        values = found.values[:-1].flatten()  # shares its memory
        rows = (chunks(x, self.config.chunk) for x in (states, values))
        with precision(self.device):
            for part, value in zip(*rows, strict=True):
                value.copy_(self._value(part))
            found.values[-1] = self._value(found.critic_inputs[-1])
        return found

    def _choose(self, observation: Observation) -> tuple[Tensor, ...]:
        """Inputs of both networks, sampled actions, and sums for the normalisers."""
        inputs, states = self._inputs.rows(observation)
        mean, std = self.controller(inputs), self.controller.std
        action = mean + std * torch.randn_like(mean)
        moments = self._inputs.moments(observation)
        return inputs, states, mean, action, log_prob(action, mean, std), moments

    def _allocate(self, robots: int) -> Rollouts:
        steps, actions = self.config.steps, self.controller.config.actions
        dtype, (width, critic_width) = self._inputs.dtype, self._inputs.widths

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        return Rollouts(
            inputs=zeros(steps, robots, width, dtype=dtype),
            critic_inputs=zeros(steps + 1, robots, critic_width, dtype=dtype),
            actions=zeros(steps, robots, actions),
            means=zeros(steps, robots, actions),
            log_probs=zeros(steps, robots),
            rewards=zeros(steps, robots),
            dones=zeros(steps, robots, dtype=torch.bool),
            timeouts=zeros(steps, robots, dtype=torch.bool),
            values=zeros(steps + 1, robots),
            std=zeros(actions),
        )

    def update(self, rollouts: Rollouts, progress: float) -> Figures:
        """Improve actor and critic; `progress` through the whole training is 0 to 1."""
        config, values = self.config, rollouts.values[:-1]
        rewards, ends = rollouts.rewards, (rollouts.dones, rollouts.timeouts)
        discounts = config.gamma, config.gae_lambda
        advantages = gae(rewards, values, rollouts.values[-1], *ends, *discounts)
        returns = advantages + values
        stored = rollouts.inputs, rollouts.critic_inputs[:-1], rollouts.actions
        stored += rollouts.means, rollouts.log_probs, values, advantages, returns
        batch = Transitions(*(x.flatten(0, 1) for x in stored))
        first_rate, last_rate = config.critic_lr, config.critic_lr_end
        self.critic_lr.fill_(first_rate + progress * (last_rate - first_rate))
        actor_learns = self.iterations >= config.critic_warmup
        steps, parts = [], (config.minibatches, config.merged)
        for epoch in range(config.epochs):
            for rows in minibatches(batch, *parts, epoch):
                losses = self._improve(rows, actor_learns)
                if actor_learns and config.kl_each_step:
                    losses["kl"] = self._changed(rows, rollouts.std)
                steps.append(losses)
        found = {k: torch.stack([step[k] for step in steps]).mean() for k in steps[0]}
        # 1 - Var(R - V) / Var(R)
        unexplained = advantages.var() / returns.var().clamp_min(1e-8)
        found["explained_variance"] = 1 - unexplained
        if actor_learns:
            sample = self._sample(rollouts)
            if not config.kl_each_step:
                with torch.no_grad(), precision(self.device):
                    found["kl"] = self.change(*sample, rollouts.std)
            self._learn_codes(sample[0])
        self._last = mean_over_ranks(torch.stack(list(found.values())))
        found = dict(zip(found, self._last.unbind(), strict=True))
        if actor_learns:
            limits = config.actor_lr_limits
            rate = next_rate(self.actor_lr, found["kl"], config.kl_target, limits)
            self.actor_lr.copy_(rate)
        # Only now, so that everything about one rollout uses the same normalisers.
        self._inputs.learn()
        self.iterations += 1
        return found | {
            "actor_lr": self.actor_lr.clone(),
            "critic_lr": self.critic_lr.clone(),
            "std": self.controller.std.detach().mean(),
        }

    def _improve(self, rows: list[Transitions], actor_learns: bool) -> Figures:
        """One optimizer step of the critic and, if it learns, of the actor."""

        def critic(part: Transitions) -> tuple[Tensor, Tensor]:
            loss = self._critic_loss(part.critic_inputs, part.returns, part.values)
            return loss, loss.detach()

        def actor(part: Transitions) -> tuple[Tensor, Tensor]:
            old = part.log_probs
            return self._actor_loss(part.inputs, part.actions, old, part.advantages)

        losses = {"value_loss": self._backward(rows, critic)}
        groups = {"critic_gradient_norm": self._critic}
        if actor_learns:
            names = ("surrogate_loss", "clipped", "reconstruction", "penalty")
            parts = self._backward(rows, actor).unbind()
            # The last two are of a joint encoder.
            losses |= dict(
                zip(names if self._joint else names[:2], parts, strict=False)
            )
            groups["actor_gradient_norm"] = self._actor
            if self.config.one_norm:
                groups = {"gradient_norm": [*self._actor, *self._critic]}
            if self._joint:
                # Separate, so that reconstruction does not use up the policy's norm.
                groups["joint_gradient_norm"] = self._joint
        losses |= self._descend(groups)
        self.controller.limit_std()
        return losses

    def _backward(self, rows: list[Transitions], loss_of: Callable) -> Tensor:
        """Accumulate the gradients of a loss; returns the mean of its figures."""
        total = torch.zeros((), device=self.device)
        for part, share in chunked(rows, self.config.chunk):
            with precision(self.device):
                loss, figures = loss_of(part)
            (loss * share).backward()
            total = total + share * figures.float()
        return total

    def critic_loss(self, inputs: Tensor, returns: Tensor, old: Tensor) -> Tensor:
        """(V(s) - R)^2, or where that is more, with V kept near the rollout's."""
        values = self.critic(inputs)
        error = (values - returns).square()
        if self.config.value_clip is not None:
            limit = self.config.value_clip
            near = old + (values - old).clamp(-limit, limit)
            error = torch.maximum(error, (near - returns).square())
        return error.mean()

    def actor_loss(
        self, inputs: Tensor, actions: Tensor, old: Tensor, advantages: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss and its parts: surrogate, share clipped, reconstruction, penalty."""
        encoded, std = self.controller.encode(inputs), self.controller.std
        mean = self.controller.mean(inputs, encoded)
        log_ratio = log_prob(actions, mean, std) - old
        # L = -E[min(rho A, clip(rho) A)] - c H,  H = sum_j log sigma_j + constant
        clip = self.config.clip
        surrogate = -clipped_objective(log_ratio, advantages, clip).mean()
        loss = surrogate - self.config.entropy * std.log().sum()
        clipped = ((log_ratio.exp() - 1).abs() > clip).float().mean()
        reconstruction = penalty = torch.zeros_like(surrogate)
        if self.controller.joint is not None and encoded is not None:
            # + |decoder(z) - window|^2 + c penalty(z)
            reconstruction = self.controller.joint.reconstruction(*encoded).mean()
            penalty = encoded[1].penalty.mean()
            loss = loss + reconstruction + self.config.joint_penalty * penalty
        return loss, torch.stack((surrogate, clipped, reconstruction, penalty)).detach()

    def change(self, inputs: Tensor, means: Tensor, std: Tensor) -> Tensor:
        """Mean KL(old || new) for rows whose actions had these means and deviations."""
        new = self.controller(inputs), self.controller.std
        return divergence(means, std, *new).mean()

    @torch.no_grad()
    def _changed(self, rows: list[Transitions], std: Tensor) -> Tensor:
        """The change on all rows of an optimizer step."""
        total = torch.zeros((), device=self.device)
        for part, share in chunked(rows, self.config.chunk):
            with precision(self.device):
                total += share * self._change(part.inputs, part.means, std)
        return total

    def _sample(self, rollouts: Rollouts) -> tuple[Tensor, Tensor]:
        """Inputs and means of a sample of robots, one robot after the other: the same
        order however many processes share the robots."""
        stride = math.ceil(rollouts.rewards.numel() / _SAMPLE)
        pair = (rollouts.inputs, rollouts.means)
        inputs, means = (x[:, ::stride].transpose(0, 1).flatten(0, 1) for x in pair)
        return inputs, means

    @torch.no_grad()
    def _learn_codes(self, inputs: Tensor) -> None:
        with precision(self.device):
            encoded = self.controller.encode(inputs)
        joint = self.controller.joint
        if joint is None or encoded is None or encoded[1].latent is None:
            return
        generator = torch.Generator(self.device).manual_seed(self.iterations)
        joint.bottleneck.update(encoded[1].latent, generator)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"actor_rate": self.actor_lr}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self.actor_lr.copy_(tensors["actor_rate"])


def chunks(rows: Tensor, size: int) -> tuple[Tensor, ...]:
    """Parts of rows, none longer than `size` and equal but for the last, so that there
    are at most two shapes to compile."""
    return rows.chunk(math.ceil(len(rows) / size))


def chunked(rows: list[Transitions], size: int) -> Iterator[tuple[Transitions, float]]:
    """Chunks of rows, each with its share of the total."""
    total = sum(len(part.inputs) for part in rows)
    for part in rows:
        for chunk in zip(*(chunks(x, size) for x in part), strict=True):
            yield Transitions(*chunk), len(chunk[0]) / total


def minibatches(
    batch: Transitions, count: int, merged: tuple[int, ...], epoch: int
) -> Iterator[list[Transitions]]:
    """Parts of a batch for each optimizer step of an epoch: one of `count`, or the
    numbers in `merged`. Each step's advantages have mean 0 and deviation 1."""
    taken = 0
    for size in merged or (1,) * count:
        # Every epoch combines other parts. The number of robots is a multiple of
        # `count`, so these are whole robots.
        firsts = ((epoch + i) % count for i in range(taken, taken + size))
        rows = [Transitions(*(x[i::count] for x in batch)) for i in firsts]
        advantages = standardized(torch.cat([part.advantages for part in rows]))
        pieces = zip(rows, advantages.chunk(size), strict=True)
        yield [part._replace(advantages=piece) for part, piece in pieces]
        taken += size


def log_prob(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Log-probability (n,) of actions (n, 29) of a diagonal Gaussian."""
    # log N(a; m, s) = -sum_j [(a - m)^2 / (2 s^2) + log s + log(2 pi) / 2]
    constant = 0.5 * math.log(2 * math.pi)
    return -(((action - mean) / std).square() / 2 + std.log() + constant).sum(-1)


def divergence(mean: Tensor, std: Tensor, new_mean: Tensor, new_std: Tensor) -> Tensor:
    """KL(old || new) of diagonal Gaussians, (n,)."""
    # log(s'/s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2
    spread = std.square() + (mean - new_mean).square()
    return ((new_std / std).log() + spread / (2 * new_std.square()) - 0.5).sum(-1)


def gae(
    rewards: Tensor,
    values: Tensor,
    last_values: Tensor,
    dones: Tensor,
    timeouts: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Generalised advantage estimates (T, n)."""
    # An episode that only ran out of time would have continued: r += gamma V(s_t).
    rewards = rewards + gamma * values * timeouts
    going = 1.0 - (dones | timeouts).float()
    following = torch.cat((values[1:], last_values[None]))
    # delta_t = r_t + gamma V(s_t+1) - V(s_t), without V(s_t+1) at the end of an episode
    delta = rewards + gamma * following * going - values
    # A_t = delta_t + gamma lambda A_t+1, without A_t+1 at the end of an episode
    advantages, decay = torch.empty_like(delta), gamma * lam * going
    later = torch.zeros_like(last_values)
    for t in reversed(range(len(delta))):
        later = torch.addcmul(delta[t], decay[t], later)
        advantages[t] = later
    return advantages


def clipped_objective(log_ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """min(rho A, clip(rho, 1 - eps, 1 + eps) A) with rho = pi_new(a) / pi_old(a)."""
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    return torch.minimum(ratio * advantages, bounded * advantages)


def next_rate(
    rate: Tensor, kl: Tensor, target: float, limits: tuple[float, float]
) -> Tensor:
    """A lower learning rate if the policy changed too much, a higher if too little."""
    slower = torch.where(kl > 2 * target, rate / 1.5, rate)
    return torch.where(kl < target / 2, rate * 1.5, slower).clamp(*limits)


def standardized(values: Tensor) -> Tensor:
    """Values with mean 0 and deviation 1 over all processes."""
    mean = mean_over_ranks(values.mean())
    away = values - mean
    return away / (mean_over_ranks(away.square().mean()).sqrt() + 1e-8)

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
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from spectral_skills import config as configs
from spectral_skills import distributed
from spectral_skills.tracking.experience import (
    Collector,
    Environment,
    Rollouts,
    Transitions,
    chunked,
    log_prob,
    minibatches,
    precision,
)
from spectral_skills.tracking.learner import (
    ActorCritic,
    clipped_objective,
    divergence,
    gae,
    maybe_compiled,
    next_rate,
)
from spectral_skills.tracking.policy import Controller, Critic

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
        whole = sum(self.merged) == self.minibatches and min(self.merged) > 0
        if self.merged and not whole:
            raise ValueError(
                f"merged is {self.merged}: must add up to minibatches, "
                f"{self.minibatches}"
            )
        low, high = self.actor_lr_limits
        if not 0 < low <= self.actor_lr <= high:
            raise ValueError(
                f"actor_lr is {self.actor_lr}, must be in actor_lr_limits {low} {high}"
            )


class PPOLearner(ActorCritic):
    """Actor, critic, their optimizers, and the storage of a rollout."""

    def __init__(
        self,
        config: PPOConfig,
        controller: Controller,
        critic: Critic,
        device: torch.device | str,
        compiled: bool = False,
    ):
        super().__init__(controller, critic, device)
        self.config, self.critic = config, critic
        self._collector = Collector(
            controller, critic, config.steps, config.chunk, self.device, compiled
        )
        self.actor_lr = torch.tensor(config.actor_lr, device=device)
        self.critic_lr = torch.tensor(config.critic_lr, device=device)
        joint, decay = controller.joint, config.weight_decay
        self._joint = [] if joint is None else [*joint.parameters()]
        groups = [{"params": self._layers, "weight_decay": decay}]
        groups += [{"params": [controller.log_std], "weight_decay": 0.0}]
        if self._joint:
            rate = {"lr": config.joint_lr, "weight_decay": 0.0}
            groups += [{"params": self._joint, **rate}]
        self.actor_optimizer = torch.optim.AdamW(groups, fused=True)
        self.critic_optimizer = torch.optim.AdamW(
            self._critic, weight_decay=decay, fused=True
        )
        self._optimizers = {
            "actor": self.actor_optimizer,
            "critic": self.critic_optimizer,
        }
        self._tie_rates()
        fast = maybe_compiled(compiled)
        self._actor_loss, self._critic_loss = (
            fast(self.actor_loss),
            fast(self.critic_loss),
        )
        self._change = fast(self.change)

    def collect(self, env: Environment) -> Rollouts:
        """Let the robots act; the next call overwrites the result."""
        robots, parts = len(env.observation.phase), self.config.minibatches
        if robots % parts:
            raise ValueError(
                f"{robots} robots cannot be shared equally by {parts} minibatches"
            )
        return self._collector.collect(env)

    def update(self, rollouts: Rollouts, progress: float) -> dict[str, Tensor]:
        """Improve actor and critic; `progress` through the whole training is 0 to 1."""
        config, values = self.config, rollouts.values[:-1]
        rewards, ends = rollouts.rewards, (rollouts.dones, rollouts.timeouts)
        discounts = config.gamma, config.gae_lambda
        advantages = gae(rewards, values, rollouts.values[-1], *ends, *discounts)
        returns = advantages + values
        batch = Transitions(
            inputs=rollouts.inputs.flatten(0, 1),
            critic_inputs=rollouts.critic_inputs[:-1].flatten(0, 1),
            actions=rollouts.actions.flatten(0, 1),
            means=rollouts.means.flatten(0, 1),
            log_probs=rollouts.log_probs.flatten(),
            values=values.flatten(),
            advantages=advantages.flatten(),
            returns=returns.flatten(),
        )
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
        self._last = distributed.mean_over_ranks(torch.stack(list(found.values())))
        found = dict(zip(found, self._last.unbind(), strict=True))
        if actor_learns:
            limits = config.actor_lr_limits
            rate = next_rate(self.actor_lr, found["kl"], config.kl_target, limits)
            self.actor_lr.copy_(rate)
        self._collector.learn_inputs()
        self.iterations += 1
        return found | {
            "actor_lr": self.actor_lr.clone(),
            "critic_lr": self.critic_lr.clone(),
            "std": self.controller.std.detach().mean(),
        }

    def _improve(
        self, rows: list[Transitions], actor_learns: bool
    ) -> dict[str, Tensor]:
        """One optimizer step of the critic and, if it learns, of the actor."""
        losses = self._critic_gradient(rows)
        groups = {"critic_gradient_norm": self._critic}
        if actor_learns:
            losses |= self._actor_gradient(rows)
            groups["actor_gradient_norm"] = self._actor
            if self.config.one_norm:
                groups = {"gradient_norm": [*self._actor, *self._critic]}
            if self._joint:
                # Separate, so that reconstruction does not use up the policy's norm.
                groups["joint_gradient_norm"] = self._joint
        losses |= self._descend(groups)
        self.controller.limit_std()
        return losses

    def _critic_gradient(self, rows: list[Transitions]) -> dict[str, Tensor]:
        total = torch.zeros((), device=self.device)
        for chunk, share in chunked(rows, self.config.chunk):
            with precision(self.device):
                loss = self._critic_loss(
                    chunk.critic_inputs, chunk.returns, chunk.values
                )
            (loss * share).backward()
            total += share * loss.detach()
        return {"value_loss": total}

    def _actor_gradient(self, rows: list[Transitions]) -> dict[str, Tensor]:
        total = torch.zeros(4, device=self.device)
        for chunk, share in chunked(rows, self.config.chunk):
            with precision(self.device):
                loss, parts = self._actor_loss(
                    chunk.inputs, chunk.actions, chunk.log_probs, chunk.advantages
                )
            (loss * share).backward()
            total += share * parts
        surrogate, clipped, reconstruction, penalty = total.unbind()
        found = {"surrogate_loss": surrogate, "clipped": clipped}
        if self._joint:
            found |= {"reconstruction": reconstruction, "penalty": penalty}
        return found

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
        mean = self.controller.mean(inputs, None if encoded is None else encoded[1])
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
        parts = torch.stack((surrogate, clipped, reconstruction, penalty))
        return loss, parts.detach()

    def _descend(
        self, groups: dict[str, list[torch.nn.Parameter]]
    ) -> dict[str, Tensor]:
        """One step along the accumulated gradients; returns the norms before it."""
        norms = {}
        for name, parameters in groups.items():
            distributed.average_gradients(parameters)
            norms[name] = clip_grad_norm_(parameters, self.config.clip_norm)
        for optimizer in self._optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norms

    def change(self, inputs: Tensor, means: Tensor, std: Tensor) -> Tensor:
        """Mean KL(old || new) for rows whose actions had these means and deviations."""
        return divergence(
            means, std, self.controller(inputs), self.controller.std
        ).mean()

    @torch.no_grad()
    def _changed(self, rows: list[Transitions], std: Tensor) -> Tensor:
        """The change on all rows of an optimizer step."""
        total = torch.zeros((), device=self.device)
        for chunk, share in chunked(rows, self.config.chunk):
            with precision(self.device):
                total += share * self._change(chunk.inputs, chunk.means, std)
        return total

    def _sample(self, rollouts: Rollouts) -> tuple[Tensor, Tensor]:
        """Inputs and means of a sample of robots."""
        stride = math.ceil(rollouts.rewards.numel() / _SAMPLE)
        # Robot by robot: the same order however many processes share the robots.
        inputs, means = (
            values[:, ::stride].transpose(0, 1).flatten(0, 1)
            for values in (rollouts.inputs, rollouts.means)
        )
        return inputs, means

    @torch.no_grad()
    def _learn_codes(self, inputs: Tensor) -> None:
        """Update a codebook with inputs."""
        joint = self.controller.joint
        if joint is None:
            return
        with precision(self.device):
            encoded = self.controller.encode(inputs)
        if encoded is not None and encoded[1].latent is not None:
            generator = torch.Generator(self.device).manual_seed(self.iterations)
            joint.bottleneck.update(encoded[1].latent, generator)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"actor_rate": self.actor_lr}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self.actor_lr.copy_(tensors["actor_rate"])

    def _tie_rates(self) -> None:
        for group in self.actor_optimizer.param_groups[:2]:
            group["lr"] = self.actor_lr
        self.critic_optimizer.param_groups[0]["lr"] = self.critic_lr

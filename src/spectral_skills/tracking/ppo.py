"""Proximal policy optimization: collect a rollout, then improve actor and critic.

One iteration:

    rollouts = learner.collect(env)             # steps x robots transitions
    losses = learner.update(rollouts, progress)  # epochs x minibatches steps

Transitions lie in memory once, with inputs as the networks see them, and are read in
chunks; a minibatch is every k-th row, so every k-th robot, and nothing is copied or
shuffled. An optimizer step accumulates the gradients of its chunks. Nothing here waits
for the device: learning rates and losses are tensors until somebody looks at them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, get_total_norm

from spectral_skills.skill import distributed
from spectral_skills.skill.run_folder import load_optimizer, optimizer_tensors
from spectral_skills.tracking.policy import Controller, Critic
from spectral_skills.tracking.rollouts import (
    Collector,
    Environment,
    Rollouts,
    chunks,
    log_prob,
    precision,
)

_SAMPLE = 65_536
"""Transitions on which the change of the policy is measured, at most."""


@dataclass(frozen=True)
class PPOConfig:
    """How the controller learns."""

    steps: int = 24
    """Control steps of a rollout."""
    epochs: int = 3
    minibatches: int = 1
    chunk: int = 65_536
    """Transitions that go through the networks at once; no result depends on it."""
    gamma: float = 0.97
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    clip_norm: float = 1.0
    actor_lr: float = 1e-3
    actor_lr_limits: tuple[float, float] = (1e-5, 1e-3)
    kl_target: float = 0.02
    """The actor's learning rate follows the change of the policy in an iteration."""
    critic_lr: float = 1e-3
    critic_lr_end: float = 1e-5
    """The critic's learning rate falls linearly to this."""
    weight_decay: float = 1e-2
    joint_lr: float = 3e-4
    """Of an encoder that learns with the policy."""
    joint_penalty: float = 1e-3
    """Weight of that encoder's bottleneck penalty beside its reconstruction."""
    critic_warmup: int = 0
    """Iterations at the start in which only the critic learns."""

    def __post_init__(self):
        for name in ("steps", "epochs", "minibatches", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")
        low, high = self.actor_lr_limits
        if not 0 < low <= self.actor_lr <= high:
            raise ValueError(
                f"actor_lr is {self.actor_lr}, must be in actor_lr_limits {low} {high}"
            )


class Transitions(NamedTuple):
    """Rows that losses are computed of."""

    inputs: Tensor
    critic_inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor


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
    # An episode that only ran out of time would have gone on: r += gamma V(s_t).
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
    """Learn slower if the policy changed too much, faster if too little."""
    slower = torch.where(kl > 2 * target, rate / 1.5, rate)
    return torch.where(kl < target / 2, rate * 1.5, slower).clamp(*limits)


def standardized(values: Tensor) -> Tensor:
    """Values with mean 0 and deviation 1 over all of them, on all processes."""
    mean = _over_ranks(values.mean())
    away = values - mean
    return away / (_over_ranks(away.square().mean()).sqrt() + 1e-8)


class Learner:
    """Actor, critic, their optimizers, and the storage of a rollout."""

    def __init__(
        self,
        config: PPOConfig,
        controller: Controller,
        critic: Critic,
        device: torch.device | str,
        compiled: bool = False,
    ):
        if controller.config.released:
            raise ValueError("a released controller lacks what training needs")
        self.config, self.device = config, torch.device(device)
        self.controller = controller.to(device).train()
        self.critic = critic.to(device).train()
        _start_alike([controller, critic])
        self.iterations = 0
        self._last = torch.zeros((), device=device)
        """Losses of the last update."""
        self._collector = Collector(
            controller, critic, config.steps, config.chunk, self.device, compiled
        )
        # Tensors, so that the rule that changes them does not wait for the device.
        self.actor_lr = torch.tensor(config.actor_lr, device=device)
        self.critic_lr = torch.tensor(config.critic_lr, device=device)
        joint, decay = controller.joint, config.weight_decay
        self._actor = [*controller.network.parameters()]
        if controller.adapter is not None:
            self._actor += controller.adapter.parameters()
        self._actor.append(controller.log_std)
        self._joint = [] if joint is None else [*joint.parameters()]
        self._critic = [*critic.parameters()]
        groups = [{"params": self._actor[:-1], "weight_decay": decay}]
        groups += [{"params": self._actor[-1:], "weight_decay": 0.0}]
        if self._joint:
            rate = {"lr": config.joint_lr, "weight_decay": 0.0}
            groups += [{"params": self._joint, **rate}]
        self.actor_optimizer = torch.optim.AdamW(groups, fused=True)
        self.critic_optimizer = torch.optim.AdamW(
            self._critic, weight_decay=decay, fused=True
        )
        self._tie_rates()
        self._actor_loss, self._critic_loss = self.actor_loss, self.critic_loss
        if compiled:
            self._actor_loss = torch.compile(self._actor_loss, dynamic=False)
            self._critic_loss = torch.compile(self._critic_loss, dynamic=False)

    def collect(self, env: Environment) -> Rollouts:
        """Let the robots act; what is returned is overwritten by the next call."""
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
            log_probs=rollouts.log_probs.flatten(),
            advantages=standardized(advantages).flatten(),
            returns=returns.flatten(),
        )
        first_rate, last_rate = config.critic_lr, config.critic_lr_end
        self.critic_lr.fill_(first_rate + progress * (last_rate - first_rate))
        actor_learns = self.iterations >= config.critic_warmup
        steps = []
        for _ in range(config.epochs):
            for first in range(config.minibatches):
                # Robots are a multiple of the minibatches: these are whole robots.
                rows = Transitions(*(x[first :: config.minibatches] for x in batch))
                losses = self._critic_step(rows)
                if actor_learns:
                    losses |= self._actor_step(rows)
                steps.append(losses)
        found = {k: torch.stack([step[k] for step in steps]).mean() for k in steps[0]}
        # 1 - Var(R - V) / Var(R)
        unexplained = advantages.var() / returns.var().clamp_min(1e-8)
        found["explained_variance"] = 1 - unexplained
        if actor_learns:
            found["kl"] = self._change(rollouts)
        self._last = _over_ranks(torch.stack(list(found.values())))
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

    def _parts(self, rows: Transitions) -> Iterator[tuple[Transitions, float]]:
        """Chunks of rows, each with its share of them."""
        size = self.config.chunk
        for part in zip(*(chunks(x, size) for x in rows), strict=True):
            yield Transitions(*part), len(part[0]) / len(rows.inputs)

    def _critic_step(self, rows: Transitions) -> dict[str, Tensor]:
        total = torch.zeros((), device=self.device)
        for part, share in self._parts(rows):
            with precision(self.device):
                loss = self._critic_loss(part.critic_inputs, part.returns)
            (loss * share).backward()
            total += share * loss.detach()
        norm = self._descend(self.critic_optimizer, self._critic)[0]
        return {"value_loss": total, "critic_gradient_norm": norm}

    def _actor_step(self, rows: Transitions) -> dict[str, Tensor]:
        total = torch.zeros(4, device=self.device)
        for part, share in self._parts(rows):
            with precision(self.device):
                loss, parts = self._actor_loss(
                    part.inputs, part.actions, part.log_probs, part.advantages
                )
            (loss * share).backward()
            total += share * parts
        # Apart, so that rebuilding windows does not use up the policy's norm.
        norms = self._descend(self.actor_optimizer, self._actor, self._joint)
        self.controller.limit_std()
        surrogate, clipped, reconstruction, penalty = total.unbind()
        found = {
            "surrogate_loss": surrogate,
            "clipped": clipped,
            "actor_gradient_norm": norms[0],
        }
        if self._joint:
            found |= {"reconstruction": reconstruction, "penalty": penalty}
            found["joint_gradient_norm"] = norms[1]
        return found

    def critic_loss(self, inputs: Tensor, returns: Tensor) -> Tensor:
        """(V(s) - R)^2"""
        return (self.critic(inputs) - returns).square().mean()

    def actor_loss(
        self, inputs: Tensor, actions: Tensor, old: Tensor, advantages: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What is minimised, and its parts: surrogate, share clipped, reconstruction,
        penalty."""
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
        self, optimizer: torch.optim.Optimizer, *groups: list[torch.nn.Parameter]
    ) -> list[Tensor]:
        """One step along the accumulated gradients; norms of the groups before it."""
        norms = []
        for parameters in filter(None, groups):
            distributed.average_gradients(parameters)
            norms.append(clip_grad_norm_(parameters, self.config.clip_norm))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return norms

    @torch.no_grad()
    def _change(self, rollouts: Rollouts) -> Tensor:
        """Mean KL(old || new) of a sample; a codebook learns from the same sample."""
        stride = math.ceil(rollouts.rewards.numel() / _SAMPLE)
        # Robot by robot: the same order however many processes share the robots.
        inputs, means = (
            values[:, ::stride].transpose(0, 1).flatten(0, 1)
            for values in (rollouts.inputs, rollouts.means)
        )
        with precision(self.device):
            encoded = self.controller.encode(inputs)
            code = None if encoded is None else encoded[1]
            new = self.controller.mean(inputs, code)
        kl = divergence(means, rollouts.std, new, self.controller.std).mean()
        joint = self.controller.joint
        if joint is not None and code is not None and code.latent is not None:
            generator = torch.Generator(self.device).manual_seed(self.iterations)
            joint.bottleneck.update(code.latent, generator)
        return kl

    def finite(self) -> bool:
        """Whether weights, statistics and last losses are numbers; waits for them."""
        state = [*self.controller.state_dict().values()]
        state += [*self.critic.state_dict().values()]
        norm = get_total_norm([value.float() for value in state])
        return bool((norm + self._last.sum()).isfinite())

    def tensors(self) -> dict[str, Tensor]:
        """All that changes during training."""
        modules = {"controller": self.controller, "critic": self.critic}
        tensors = {
            f"{name}.{k}": v
            for name, module in modules.items()
            for k, v in module.state_dict().items()
        }
        for name, optimizer in self._optimizers().items():
            state = optimizer_tensors(optimizer)
            tensors |= {f"{name}_{k}": v for k, v in state.items()}
        counted = torch.tensor(self.iterations)
        return tensors | {"actor_rate": self.actor_lr, "iterations": counted}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        self.controller.load_state_dict(_part(tensors, "controller."))
        self.critic.load_state_dict(_part(tensors, "critic."))
        for name, optimizer in self._optimizers().items():
            load_optimizer(optimizer, _part(tensors, f"{name}_"))
        self.actor_lr.copy_(tensors["actor_rate"])
        self._tie_rates()  # loading put copies in their place
        self.iterations = int(tensors["iterations"])

    def _tie_rates(self) -> None:
        for group in self.actor_optimizer.param_groups[:2]:
            group["lr"] = self.actor_lr
        self.critic_optimizer.param_groups[0]["lr"] = self.critic_lr

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"actor": self.actor_optimizer, "critic": self.critic_optimizer}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def _over_ranks(values: Tensor) -> Tensor:
    return distributed.all_reduce_sum(values) / distributed.world_size()


@torch.no_grad()
def _start_alike(models: list[torch.nn.Module]) -> None:
    """Give every process the weights and statistics of the first."""
    if distributed.world_size() > 1:
        for value in (v for model in models for v in model.state_dict().values()):
            mine = value * float(distributed.rank() == 0)
            value.copy_(distributed.all_reduce_sum(mine))

"""Rollouts for on-policy learning: observations, actions and rewards of robots, in
memory that is allocated once."""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from spectral_skills.tracking.learner import Inputs, maybe_compiled, standardized
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, Critic


class Environment(Protocol):
    """The robots that a rollout needs."""

    @property
    def observation(self) -> Observation: ...

    def step(self, action: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards, episodes that ended, and those of them that only ran out of time."""
        ...


class Rollouts(NamedTuple):
    """T steps of n robots."""

    inputs: Tensor
    """(T, n, w) inputs of the actor, normalised and padded with zeros."""
    critic_inputs: Tensor
    """(T + 1, n, w); the last row is the state after the last step."""
    actions: Tensor
    """(T, n, 29) as drawn."""
    means: Tensor
    log_probs: Tensor
    """(T, n)"""
    rewards: Tensor
    dones: Tensor
    timeouts: Tensor
    values: Tensor
    """(T + 1, n)"""
    std: Tensor
    """(29,)"""


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


def log_prob(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Log-probability (n,) of actions (n, 29) of a diagonal Gaussian."""
    # log N(a; m, s) = -sum_j [(a - m)^2 / (2 s^2) + log s + log(2 pi) / 2]
    constant = 0.5 * math.log(2 * math.pi)
    return -(((action - mean) / std).square() / 2 + std.log() + constant).sum(-1)


def precision(device: torch.device) -> torch.autocast:
    """bf16 on a GPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def chunks(rows: Tensor, size: int) -> tuple[Tensor, ...]:
    """Parts of rows, none longer than `size` and equal but for the last, so that there
    are at most two shapes to compile."""
    return rows.chunk(math.ceil(len(rows) / size))


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


def chunked(rows: list[Transitions], size: int) -> Iterator[tuple[Transitions, float]]:
    """Chunks of rows, each with its share of the total."""
    total = sum(len(part.inputs) for part in rows)
    for part in rows:
        for chunk in zip(*(chunks(x, size) for x in part), strict=True):
            yield Transitions(*chunk), len(chunk[0]) / total


class Collector:
    """Lets robots act and stores what happened."""

    def __init__(
        self,
        controller: Controller,
        critic: Critic,
        steps: int,
        chunk: int,
        device: torch.device,
        compiled: bool,
    ):
        self.controller, self.critic, self.device = controller, critic, device
        self.steps, self.chunk = steps, chunk
        self.inputs = Inputs(controller, critic, device)
        self._storage: Rollouts | None = None
        fast = maybe_compiled(compiled)
        self._act, self._value = fast(self._choose), fast(self.critic.forward)

    @torch.no_grad()
    def collect(self, env: Environment) -> Rollouts:
        """A rollout; the next call overwrites it."""
        robots = len(env.observation.phase)
        if self._storage is None or self._storage.rewards.shape[1] != robots:
            self._storage = self._allocate(robots)
        found = self._storage
        found.std.copy_(self.controller.std)
        for t in range(self.steps):
            with precision(self.device):
                inputs, critic_inputs, mean, action, likely, moments = self._act(
                    env.observation
                )
            found.inputs[t], found.critic_inputs[t] = inputs, critic_inputs
            found.means[t], found.actions[t] = mean, action
            found.log_probs[t] = likely
            self.inputs.note(moments, robots)
            found.rewards[t], found.dones[t], found.timeouts[t] = env.step(action)
        found.critic_inputs[-1] = self.inputs.rows(env.observation)[1]
        states = found.critic_inputs[:-1].flatten(0, 1)
        values = found.values[:-1].flatten()  # shares its memory
        rows = zip(chunks(states, self.chunk), chunks(values, self.chunk), strict=True)
        with precision(self.device):
            for part, value in rows:
                value.copy_(self._value(part))
            found.values[-1] = self._value(found.critic_inputs[-1])
        return found

    def learn_inputs(self) -> None:
        """Update the normalisers with the last rollout, after it was learned from, so
        that everything about one rollout uses the same normalisers."""
        self.inputs.learn()

    def _choose(self, observation: Observation) -> tuple[Tensor, ...]:
        """Inputs of both networks, sampled actions, and sums for the normalisers."""
        inputs, critic_inputs = self.inputs.rows(observation)
        mean, std = self.controller(inputs), self.controller.std
        action = mean + std * torch.randn_like(mean)
        moments = self.inputs.moments(observation)
        likely = log_prob(action, mean, std)
        return inputs, critic_inputs, mean, action, likely, moments

    def _allocate(self, robots: int) -> Rollouts:
        steps, actions = self.steps, self.controller.config.actions
        dtype, (width, critic_width) = self.inputs.dtype, self.inputs.widths

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

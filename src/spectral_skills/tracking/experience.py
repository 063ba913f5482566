"""What robots experienced, stored on the device: rollouts for PPO, and a replay memory
with launched updates for SAC."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class ReplayBatch(NamedTuple):
    """Rows to learn from: a state, the action taken there, and what followed."""

    inputs: Tensor
    """(n, w) inputs of the actor."""
    states: Tensor
    """(n, w) inputs of the critics."""
    actions: Tensor
    returns: Tensor
    """(n,) discounted rewards up to the later state."""
    discounts: Tensor
    """(n,) factor of the later state's value; 0 where the episode has failed."""
    later_inputs: Tensor
    later_states: Tensor
    weights: Tensor
    """(n,) 1, or 0 for a row without information."""


class Replay:
    """The last `steps` control steps of every robot; up to `ahead` more may be written
    before `show` includes them."""

    def __init__(
        self,
        steps: int,
        ahead: int,
        robots: int,
        widths: tuple[int, int, int],
        device: torch.device,
        dtype: torch.dtype,
    ):
        """`widths` are those of the actor's inputs, the critics' inputs and actions."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            shape = (self.slots, robots, *shape)
            return torch.zeros(shape, dtype=dtype, device=device)

        self.steps, self.slots, self.robots = steps, steps + ahead, robots
        self.inputs, self.states, self.actions = (
            zeros(width, dtype=dtype) for width in widths
        )
        self.rewards = zeros(dtype=torch.float32)
        self.failed, self.timed_out = (zeros(dtype=torch.bool) for _ in range(2))
        self.count = 0
        """Number of control steps written so far."""
        # On the device, where a captured graph reads it.
        self._shown = torch.zeros((), dtype=torch.long, device=device)

    def before(self, inputs: Tensor, states: Tensor, actions: Tensor) -> None:
        """Store what robots see and are about to do."""
        slot = self.count % self.slots
        self.inputs[slot], self.states[slot] = inputs, states
        self.actions[slot] = actions

    def after(self, rewards: Tensor, done: Tensor, timed_out: Tensor) -> None:
        """Store the result of the step."""
        slot = self.count % self.slots
        self.rewards[slot], self.timed_out[slot] = rewards, timed_out
        self.failed[slot] = done & ~timed_out
        self.count += 1

    def show(self) -> None:
        """Let rows be drawn from everything written so far."""
        self._shown.fill_(self.count)

    def sample(self, size: int, n_step: int, gamma: float) -> ReplayBatch:
        """Rows drawn evenly from all whose n-th later state is stored as well.

        A return ends where the episode does. Where the episode only ran out of time,
        the last step is omitted, since the state after it was never seen: a return ends
        before it, and a row that begins with it has no information.
        """
        device = self._shown.device
        known = self._shown.clamp_max(self.steps) - n_step
        back = (torch.rand(size, device=device, dtype=torch.float64) * known).long()
        first = self._shown - 1 - n_step - back
        robot = torch.randint(self.robots, (size,), device=device)

        def rows(values: Tensor, step: Tensor) -> Tensor:
            return values.flatten(0, 1)[(step % self.slots) * self.robots + robot]

        returns = torch.zeros(size, device=device)
        discounts = torch.ones(size, device=device)
        going = torch.ones(size, dtype=torch.bool, device=device)
        last = first
        for k in range(n_step):
            step = first + k
            counts = going & ~rows(self.timed_out, step)
            if k == 0:
                weights = counts.float()
            returns = returns + counts * discounts * rows(self.rewards, step)
            failed = counts & rows(self.failed, step)
            discounts = torch.where(counts, gamma * discounts, discounts) * ~failed
            last = torch.where(counts, step + 1, last)
            going = counts & ~failed
        return ReplayBatch(
            rows(self.inputs, first),
            rows(self.states, first),
            rows(self.actions, first),
            returns,
            discounts,
            rows(self.inputs, last),
            rows(self.states, last),
            weights,
        )


class Launcher:
    """Runs updates one after the other or, on a GPU, as one captured graph.

    With `overlaps` they run on a stream of their own while robots take their next
    steps: physics is a chain of many small kernels that leaves room beside it.
    """

    def __init__(
        self,
        function: Callable[[], Tensor],
        device: torch.device,
        captures: bool,
        overlaps: bool,
    ):
        self.function, self.device = function, device
        self.captures, self.overlaps = captures, overlaps
        self.due = 0
        """Number of calls that will run beside the next steps of robots."""
        self._graph: Callable[[], Tensor] | None = None
        if overlaps:
            self._aside = torch.cuda.Stream(device)
            # Robots have priority: their many small kernels wait for each other, and
            # the updates use what they leave free.
            self._robots = torch.cuda.Stream(device, priority=-1)

    def forget(self) -> None:
        """Drop the graph and pending calls: the function will do something else."""
        self._graph, self.due = None, 0

    def run(self, times: int) -> Tensor:
        """Call the function so many times; returns the last result."""
        call = self._ready()
        return [call() for _ in range(times)][-1]

    @contextmanager
    def beside(self) -> Iterator[Tensor | None]:
        """Run pending calls, if any, beside the work in this context; yields their last
        result, to be read afterwards."""
        if not self.overlaps:
            yield None
            return
        now = torch.cuda.current_stream(self.device)
        if self.due:
            self._ready()
        for stream in (self._aside, self._robots):
            stream.wait_stream(now)
        with torch.cuda.stream(self._aside):
            result = self.run(self.due) if self.due else None
        self.due = 0
        with torch.cuda.stream(self._robots):
            yield result
        for stream in (self._aside, self._robots):
            now.wait_stream(stream)

    def _ready(self) -> Callable[[], Tensor]:
        if not self.captures:
            return self.function
        if self._graph is None:
            self._graph = captured(self.function)
        return self._graph


def captured(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The function as one graph on the GPU; each call overwrites its result."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles, lets libraries allocate, and learns
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay

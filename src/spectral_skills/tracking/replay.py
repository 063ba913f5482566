"""The replay memory of the off-policy learner, and how its updates are launched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor


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

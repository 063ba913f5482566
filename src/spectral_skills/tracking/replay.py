"""What robots went through lately, kept on the device to be learned from again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Rows to learn from: a state, what was done there, and what came of it."""

    inputs: Tensor
    """(n, w) of the actor."""
    states: Tensor
    """(n, w) of the critics."""
    actions: Tensor
    returns: Tensor
    """(n,) discounted rewards up to the later state."""
    discounts: Tensor
    """(n,) of what the later state is worth; 0 where the episode has failed."""
    later_inputs: Tensor
    later_states: Tensor
    weights: Tensor
    """(n,) 1, or 0 for a row that says nothing."""


class Replay:
    """The last `steps` control steps of every robot, of those that were shown. Up to
    `ahead` more may be written meanwhile."""

    def __init__(
        self,
        steps: int,
        ahead: int,
        robots: int,
        widths: tuple[int, int, int],
        device: torch.device,
        dtype: torch.dtype,
    ):
        """`widths` are those of the actor's inputs, the critics' and of actions."""

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
        """Control steps written so far."""
        # On the device, where a captured graph reads it.
        self._shown = torch.zeros((), dtype=torch.long, device=device)

    def before(self, inputs: Tensor, states: Tensor, actions: Tensor) -> None:
        """Keep what robots see and are about to do."""
        slot = self.count % self.slots
        self.inputs[slot], self.states[slot] = inputs, states
        self.actions[slot] = actions

    def after(self, rewards: Tensor, done: Tensor, timed_out: Tensor) -> None:
        """Keep what came of it."""
        slot = self.count % self.slots
        self.rewards[slot], self.timed_out[slot] = rewards, timed_out
        self.failed[slot] = done & ~timed_out
        self.count += 1

    def show(self) -> None:
        """Let rows be drawn from all that was written so far."""
        self._shown.fill_(self.count)

    def sample(self, size: int, n_step: int, gamma: float) -> Batch:
        """Rows drawn evenly from all whose n-th later state is kept as well.

        A return ends where the episode does. Where it only ran out of time the last
        step is left out, since the state after it was never seen: a return ends
        before it, and a row that begins with it says nothing.
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
        return Batch(
            rows(self.inputs, first),
            rows(self.states, first),
            rows(self.actions, first),
            returns,
            discounts,
            rows(self.inputs, last),
            rows(self.states, last),
            weights,
        )


# How updates run: called one after the other or, on a GPU, as one captured graph.
#
# With `overlaps` they run on a stream of their own while robots take their next steps:
# physics is a chain of many small kernels that leaves room beside it.


class Launcher:
    """Runs a function that takes nothing, again and again."""

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
        """Calls that will run beside the next steps of robots."""
        self._graph: Callable[[], Tensor] | None = None
        if overlaps:
            self._aside = torch.cuda.Stream(device)
            # First come the robots, whose kernels are many, small and wait for each
            # other; the function fills what they leave.
            self._robots = torch.cuda.Stream(device, priority=-1)

    def forget(self) -> None:
        """The function does something else from now on: nothing of it is due."""
        self._graph, self.due = None, 0

    def run(self, times: int) -> Tensor:
        """Call it so many times; gives the last result."""
        call = self._ready()
        return [call() for _ in range(times)][-1]

    @contextmanager
    def beside(self) -> Iterator[Tensor | None]:
        """Run what is due, if anything, while other work goes on in here; gives its
        last result, to be read afterwards."""
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
    """The function as one graph on the GPU; its result is overwritten by each call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles, lets libraries take their memory, and learns
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay

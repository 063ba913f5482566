"""How updates run: called one after the other or, on a GPU, as one captured graph.

With `overlaps` they run on a stream of their own while robots take their next steps:
physics is a chain of many small kernels that leaves room beside it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


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

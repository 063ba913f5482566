"""What updates of every learner share: precision, graphs, optimizer states, figures."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spectral_skills import distributed


def precision(device: torch.device) -> torch.autocast:
    """bf16 on a GPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def captured(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The function as one graph on the GPU; each call overwrites its result. It is
    called three times before, for which it learns as always."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles, and lets libraries allocate
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors."""
    return {
        f"optimizer.{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Restore what `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with a prefix, under names without it."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


class Means:
    """Means of training figures since the last report, kept on the device."""

    def __init__(self, names: Sequence[str], device: torch.device):
        self.names, self.count = names, 0
        self.total = torch.zeros(len(names), device=device)
        self._bad = torch.full((), -1, device=device)

    def add(self, update: int, values: Sequence[Tensor]) -> None:
        """Add the figures of an update without waiting for the device."""
        row = torch.stack([value.detach().float() for value in values])
        broken = ~row.isfinite().all() & (self._bad < 0)
        self._bad = torch.where(broken, update, self._bad)
        self.total, self.count = self.total + row, self.count + 1

    def take(self) -> dict[str, float]:
        """Means by name over all processes; the next ones start from here."""
        total = distributed.all_reduce_sum(self.total) / distributed.world_size()
        values = (total / max(self.count, 1)).tolist()
        self.total, self.count = torch.zeros_like(self.total), 0
        return dict(zip(self.names, values, strict=True))

    def check(self, run: Path, explain: Callable[[int], str]) -> None:
        """Stop the run if a figure was not finite; `explain` says why, by update."""
        if (update := int(self._bad)) >= 0:
            raise ValueError(
                f"{run}: the loss of update {update:,} is not finite; "
                f"{explain(update)}. The last checkpoint is as it was"
            )

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"sums": self.total.tolist(), "count": self.count}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned, where a checkpoint has it."""
        if "sums" in state:
            self.total = torch.tensor(state["sums"]).to(self.total.device)
            self.count = state["count"]

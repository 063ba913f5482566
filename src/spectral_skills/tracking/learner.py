"""What every learner offers a training run, and what learners have in common."""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from spectral_skills.skill import distributed


class Learner(Protocol):
    """Lets robots act, learns from it, and can be put away and taken up again."""

    def collect(self, env: Any, /) -> Any:
        """Let the robots act for some steps; gives what `update` wants."""
        ...

    def update(self, collected: Any, progress: float, /) -> dict[str, Tensor]:
        """Learn; `progress` through the whole training is 0 to 1."""
        ...

    def finite(self) -> bool:
        """Whether weights, statistics and last losses are numbers; waits for them."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """All that a later run needs to go on."""
        ...

    def load(self, tensors: dict[str, Tensor], /) -> None:
        """Put back what `tensors` gave."""
        ...


def all_finite(models: Iterable[nn.Module], losses: Tensor) -> bool:
    """Whether weights, statistics and losses are numbers; waits for the device."""
    state = [v.float() for model in models for v in model.state_dict().values()]
    return bool((get_total_norm(state) + losses.sum()).isfinite())


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with a prefix, without it."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def over_ranks(values: Tensor) -> Tensor:
    """Mean over processes."""
    return distributed.all_reduce_sum(values) / distributed.world_size()


@torch.no_grad()
def start_alike(models: Iterable[nn.Module]) -> None:
    """Give every process the weights and statistics of the first."""
    if distributed.world_size() > 1:
        for value in (v for model in models for v in model.state_dict().values()):
            mine = value * float(distributed.rank() == 0)
            value.copy_(distributed.all_reduce_sum(mine))

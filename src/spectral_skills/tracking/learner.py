"""What all learners have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from spectral_skills import distributed
from spectral_skills.runs import load_optimizer, optimizer_tensors
from spectral_skills.tracking.policy import Controller


class ActorCritic(ABC):
    """Lets robots act, learns from it, and can be put away and taken up again."""

    def __init__(
        self, controller: Controller, critic: nn.Module, device: torch.device | str
    ):
        if controller.config.released:
            raise ValueError("a released controller lacks what training needs")
        self.device = torch.device(device)
        self.controller = controller.to(device).train()
        self.kept = controller
        """What the run keeps and measures of it."""
        self.iterations = 0
        """Updates that learned something."""
        self._last = torch.zeros((), device=device)
        """Losses of the last update, the same in every process."""
        self._modules: dict[str, nn.Module] = {
            "controller": controller,
            "critic": critic.to(device).train(),
        }
        start_alike(self._modules.values())
        self._layers = [*controller.network.parameters()]
        if controller.adapter is not None:
            self._layers += controller.adapter.parameters()
        self._actor = [*self._layers, controller.log_std]
        self._critic = [*critic.parameters()]
        self._optimizers: dict[str, torch.optim.Optimizer] = {}

    @abstractmethod
    def collect(self, env: Any, /) -> Any:
        """Let the robots act for some steps; gives what `update` wants."""

    @abstractmethod
    def update(self, collected: Any, progress: float, /) -> dict[str, Tensor]:
        """Learn; `progress` through the whole training is 0 to 1."""

    def finite(self) -> bool:
        """Whether weights, statistics and last losses are numbers; waits for them."""
        modules = self._modules.values()
        state = [v.float() for module in modules for v in module.state_dict().values()]
        return bool((get_total_norm(state) + self._last.sum()).isfinite())

    def tensors(self) -> dict[str, Tensor]:
        """All that a later run needs to go on."""
        tensors = {
            f"{name}.{k}": v
            for name, module in self._modules.items()
            for k, v in module.state_dict().items()
        }
        for name, optimizer in self._optimizers.items():
            state = optimizer_tensors(optimizer)
            tensors |= {f"{name}_{k}": v for k, v in state.items()}
        return tensors | {"iterations": torch.tensor(self.iterations)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        for name, module in self._modules.items():
            module.load_state_dict(part(tensors, f"{name}."))
        for name, optimizer in self._optimizers.items():
            load_optimizer(optimizer, part(tensors, f"{name}_"))
        self.iterations = int(tensors["iterations"])
        self._tie_rates()  # loading put copies in their place

    @abstractmethod
    def _tie_rates(self) -> None:
        """Let the optimizers use the learner's rates, which are tensors so that
        nothing waits for the device when they change."""


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with a prefix, without it."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


@torch.no_grad()
def start_alike(models: Iterable[nn.Module]) -> None:
    """Give every process the weights and statistics of the first."""
    if distributed.world_size() > 1:
        for value in (v for model in models for v in model.state_dict().values()):
            mine = value * float(distributed.rank() == 0)
            value.copy_(distributed.all_reduce_sum(mine))

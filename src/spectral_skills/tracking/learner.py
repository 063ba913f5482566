"""What both learners share: the base class, rows of inputs, and equations."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import get_total_norm

from spectral_skills import distributed
from spectral_skills.distributed import mean_over_ranks
from spectral_skills.runs import load_optimizer, optimizer_tensors, part
from spectral_skills.tracking.networks import aligned
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, Critic, TwinCritic


class ActorCritic(ABC):
    """Lets robots act, learns from it, and can be saved and restored."""

    def __init__(
        self, controller: Controller, critic: nn.Module, device: torch.device | str
    ):
        if controller.config.released:
            raise ValueError("a released controller lacks what training needs")
        self.device = torch.device(device)
        self.controller = controller.to(device).train()
        self.kept = controller
        """The controller that the run saves and measures."""
        self.iterations = 0
        """Number of updates that learned something."""
        self._last = torch.zeros((), device=device)
        """Losses of the last update, the same in every process."""
        self._modules: dict[str, nn.Module] = {
            "controller": controller,
            "critic": critic.to(device).train(),
        }
        self._copy_from_first()
        self._layers = [*controller.network.parameters()]
        if controller.adapter is not None:
            self._layers += controller.adapter.parameters()
        self._actor = [*self._layers, controller.log_std]
        self._critic = [*critic.parameters()]
        self._optimizers: dict[str, torch.optim.Optimizer] = {}

    @torch.no_grad()
    def _copy_from_first(self) -> None:
        """Give every process the weights and statistics of the first."""
        if distributed.world_size() > 1:
            for module in self._modules.values():
                for value in module.state_dict().values():
                    mine = value * float(distributed.rank() == 0)
                    value.copy_(distributed.all_reduce_sum(mine))

    @abstractmethod
    def collect(self, env: Any, /) -> Any:
        """Let the robots act for some steps; returns the argument of `update`."""

    @abstractmethod
    def update(self, collected: Any, progress: float, /) -> dict[str, Tensor]:
        """Learn; `progress` through the whole training is 0 to 1."""

    def finite(self) -> bool:
        """Whether weights, statistics and last losses are finite; waits for them."""
        modules = self._modules.values()
        state = [v.float() for module in modules for v in module.state_dict().values()]
        return bool((get_total_norm(state) + self._last.sum()).isfinite())

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a later run needs to continue."""
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
        """Restore what `tensors` returned."""
        for name, module in self._modules.items():
            module.load_state_dict(part(tensors, f"{name}."))
        for name, optimizer in self._optimizers.items():
            load_optimizer(optimizer, part(tensors, f"{name}_"))
        self.iterations = int(tensors["iterations"])
        self._tie_rates()  # loading replaced them by copies

    @abstractmethod
    def _tie_rates(self) -> None:
        """Let the optimizers use the learner's rates, which are tensors so that
        changing them does not wait for the device."""


class Inputs:
    """Turns observations into rows for both networks, and updates their normalisers
    when asked to."""

    def __init__(
        self, controller: Controller, critic: Critic | TwinCritic, device: torch.device
    ):
        self.controller, self.critic = controller, critic
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        """Type of stored rows."""
        self._normalizers = [controller.proprio, critic.normalizer]
        if controller.source is not None:
            self._normalizers.insert(1, controller.source)
        self._widths = [normalizer.width for normalizer in self._normalizers]
        shape = (2, sum(self._widths))
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._count = 0

    @property
    def widths(self) -> tuple[int, int]:
        """Width of the actor's rows and of the critic's."""
        return aligned(self.controller.input_width), aligned(self.critic.input_width)

    def rows(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """(n, w) for the actor and for the critic, padded with columns of zeros."""
        history, source, phase, privileged = observation
        inputs = self.controller.inputs(history, source, phase)
        command = self.controller.command_of(inputs)
        return self._padded(inputs), self._padded(
            self.critic.inputs(privileged, command)
        )

    def moments(self, observation: Observation) -> Tensor:
        """Sums (2, w) over robots for all normalisers."""
        seen = [observation.history[:, -1], observation.critic]
        if self.controller.source is not None:
            seen.insert(1, observation.source)
        pairs = zip(self._normalizers, seen, strict=True)
        return torch.cat([n.moments(values) for n, values in pairs], dim=1)

    def note(self, moments: Tensor, robots: int) -> None:
        """Remember the moments of a control step until `learn`."""
        self._sums += moments
        self._count += robots

    def learn(self) -> None:
        """Update the normalisers with everything noted, in all processes."""
        parts = self._sums.split(self._widths, dim=1)
        for normalizer, moments in zip(self._normalizers, parts, strict=True):
            normalizer.learn(moments, self._count)
        self._sums.zero_()
        self._count = 0

    def _padded(self, row: Tensor) -> Tensor:
        width = row.shape[-1]
        return functional.pad(row, (0, aligned(width) - width)).to(self.dtype)


def maybe_compiled(compiled: bool) -> Callable:
    """Compiles functions for fixed shapes, or leaves them as they are."""
    if not compiled:
        return lambda function: function
    return lambda function: torch.compile(function, dynamic=False)


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
    # An episode that only ran out of time would have continued: r += gamma V(s_t).
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
    """A lower learning rate if the policy changed too much, a higher if too little."""
    slower = torch.where(kl > 2 * target, rate / 1.5, rate)
    return torch.where(kl < target / 2, rate * 1.5, slower).clamp(*limits)


def standardized(values: Tensor) -> Tensor:
    """Values with mean 0 and deviation 1 over all processes."""
    mean = mean_over_ranks(values.mean())
    away = values - mean
    return away / (mean_over_ranks(away.square().mean()).sqrt() + 1e-8)


def squash(
    mean: Tensor, std: Tensor, noise: Tensor, bounds: Tensor
) -> tuple[Tensor, Tensor]:
    """Actions within their bounds (n, 29), and their log-probabilities (n,).

    a = b tanh(u / b) with u = m + s e, so log p(a) = log N(u; m, s) - log |da/du|.
    """
    scaled = (mean + std * noise) / bounds
    gaussian = -(noise.square() / 2 + std.log() + 0.5 * math.log(2 * math.pi))
    # da/du = 1 - tanh^2(x) = 4 / (e^x + e^-x)^2, in a form that does not overflow.
    slope = 2 * (math.log(2) - scaled - functional.softplus(-2 * scaled))
    return bounds * scaled.tanh(), (gaussian - slope).sum(-1)

"""Critics, which say what the rest of an episode is worth.

They know everything that a simulator knows. For the on-policy learner one learns
values; for the off-policy learner two at once learn beliefs about them.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills.tracking.observations import CRITIC
from spectral_skills.tracking.policy import (
    PHASE,
    ControllerConfig,
    Network,
    Normalizer,
    aligned,
    read,
)
from spectral_skills.updates import part


def critic_weights(folder: Path | str) -> dict[str, Tensor]:
    """The critic beside a controller; empty where it was released without."""
    return part(read(folder)[1], "critic.")


class Critic(nn.Module):
    """Value of the rest of an episode, from everything that a simulator knows."""

    def __init__(self, config: ControllerConfig):
        super().__init__()
        self.normalizer = Normalizer(CRITIC)
        self.sees_command, self.input_width = config.critic_command, CRITIC
        if self.sees_command:
            self.input_width += config.command.source_width + PHASE
        self.network = Network(self.input_width, config.critic_hidden, 1, 1.0)

    def inputs(self, critic: Tensor, command: Tensor | None = None) -> Tensor:
        """The network's input (n, 286), or (n, 286 + s + 2) with the command."""
        seen = self.normalizer(critic)
        if not self.sees_command:
            return seen
        if command is None:
            raise ValueError("this critic needs the controller's command")
        return torch.cat((seen, command), dim=-1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.network(inputs).squeeze(-1)


class _TwinLayer(nn.Module):
    """Two linear layers side by side: (2, n, a) to (2, n, b)."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        bound = inputs**-0.5  # as nn.Linear begins
        self.weight = nn.Parameter(torch.empty(2, inputs, outputs).uniform_(-1, 1))
        self.weight.data.mul_(bound)
        self.bias = nn.Parameter(torch.zeros(2, 1, outputs))

    def forward(self, x: Tensor, frozen: bool) -> Tensor:
        weight, bias = self.weight, self.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return torch.baddbmm(bias.to(x.dtype), x, weight.to(x.dtype))


class TwinCritic(nn.Module):
    """Critics of the off-policy learner. Each spreads its belief about the value of a
    state and action over fixed values, the atoms; the mean of the belief is the value.
    Two critics start differently and learn from the same rows; they are computed as one
    network with a leading axis of 2."""

    support: Tensor

    def __init__(
        self, config: ControllerConfig, atoms: int, value_range: tuple[float, float]
    ):
        super().__init__()
        self.normalizer = Normalizer(CRITIC)
        self.input_width = CRITIC + config.command.source_width + PHASE
        self.state_width = aligned(self.input_width)
        self.action_width = aligned(config.actions)
        widths = (self.state_width + self.action_width, *config.critic_hidden)
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        self.layers = nn.ModuleList(_TwinLayer(a, b) for a, b in pairs)
        self.norms = nn.ParameterList(
            torch.stack((torch.ones(2, 1, b), torch.zeros(2, 1, b))) for _, b in pairs
        )
        self.last = _TwinLayer(widths[-1], atoms)
        self.register_buffer("support", torch.linspace(*value_range, atoms))

    def inputs(self, critic: Tensor, command: Tensor) -> Tensor:
        """A state (n, w): everything a simulator knows, and the command."""
        return torch.cat((self.normalizer(critic), command), dim=-1)

    def forward(self, states: Tensor, actions: Tensor, frozen: bool = False) -> Tensor:
        """Logits (2, n, atoms) of padded states (n, state_width). With `frozen`,
        gradients reach the actions only."""
        more = self.action_width - actions.shape[-1]
        actions = functional.pad(actions, (0, more)).to(states.dtype)
        x = torch.cat((states, actions), dim=-1).expand(2, -1, -1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            scale, shift = (norm.detach() if frozen else norm).unbind()
            x = layer(x, frozen)
            h = functional.layer_norm(x.float(), x.shape[-1:]) * scale + shift
            x = functional.silu(h).to(x.dtype)
        return self.last(x, frozen).float()

    def values(self, logits: Tensor) -> Tensor:
        """Means (...,) of beliefs (..., atoms)."""
        return logits.softmax(dim=-1) @ self.support


def value_range(most: float, gamma: float) -> tuple[float, float]:
    """Least and greatest value of the atoms, if a step pays at most `most`: some room
    above, since a belief has a width, and below for penalties."""
    ceiling = most / (1 - gamma)
    return -0.2 * ceiling, 1.2 * ceiling


def project(
    belief: Tensor, support: Tensor, returns: Tensor, discounts: Tensor
) -> Tensor:
    """The belief (n, atoms) about R + g Z, where `belief` is about Z. Every atom moves
    to R + g z and is shared by the two atoms around it, or put on the nearest end."""
    low, high, count = support[0], support[-1], len(support)
    moved = returns[:, None] + discounts[:, None] * support
    place = (moved.clamp(low, high) - low) * ((count - 1) / (high - low))
    atoms = torch.arange(count, device=support.device)
    share = (1 - (place[:, :, None] - atoms).abs()).clamp_min(0)
    return (belief[:, :, None] * share).sum(dim=1)

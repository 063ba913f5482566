"""Twin critics of the off-policy learner: what an action is worth, as distributions.

Each critic spreads its belief over fixed values, the atoms; what an action is worth is
the mean of that belief. Two of them learn from the same rows and begin differently, and
are computed as one network with a leading axis of 2.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills.tracking.networks import Normalizer, aligned
from spectral_skills.tracking.observations import CRITIC
from spectral_skills.tracking.policy import PHASE, ControllerConfig


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
    """Two beliefs about the rest of an episode, of states and actions."""

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
        low, high = value_range
        self.register_buffer("support", torch.linspace(low, high, atoms))

    def inputs(self, critic: Tensor, told: Tensor) -> Tensor:
        """A state (n, w): all a simulator knows, and what the controller is told."""
        return torch.cat((self.normalizer(critic), told), dim=-1)

    def forward(self, states: Tensor, actions: Tensor, frozen: bool = False) -> Tensor:
        """Logits (2, n, atoms) of states that were padded (n, state_width). With
        `frozen` gradients reach the actions alone."""
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
    """The least and the greatest value an episode may have, where a step pays at most
    `most`. With room above, since a belief has some width, and below for penalties."""
    ceiling = most / (1 - gamma)
    return -0.2 * ceiling, 1.2 * ceiling


def project(
    belief: Tensor, support: Tensor, returns: Tensor, discounts: Tensor
) -> Tensor:
    """The belief (n, atoms) about R + g Z, where `belief` is that about Z.

    Every atom moves to R + g z, and is shared by the two atoms it then lies between;
    what lies beyond the ends is put on them.
    """
    low, high, count = support[0], support[-1], len(support)
    moved = returns[:, None] + discounts[:, None] * support
    place = (moved.clamp(low, high) - low) * ((count - 1) / (high - low))
    atoms = torch.arange(count, device=support.device)
    share = (1 - (place[:, :, None] - atoms).abs()).clamp_min(0)
    return (belief[:, :, None] * share).sum(dim=1)

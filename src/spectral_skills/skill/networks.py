"""The paper's two kinds of network: plain and residual."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def mlp(
    widths: Sequence[int], activation: type[nn.Module] = nn.SiLU, norm: bool = False
) -> nn.Sequential:
    """Linear layers of the given widths, optionally with LayerNorm in hidden ones."""
    layers: list[nn.Module] = []
    for before, after in zip(widths[:-2], widths[1:-1], strict=True):
        layers.append(nn.Linear(before, after))
        if norm:
            layers.append(nn.LayerNorm(after))
        layers.append(activation())
    layers.append(nn.Linear(widths[-2], widths[-1]))
    return nn.Sequential(*layers)


class ResidualBlock(nn.Module):
    """B(h) = W2 Mish(W1 LN(h) + b1) + b2 + P(h), with P the identity if it fits."""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.norm = nn.LayerNorm(before)
        self.inner = nn.Linear(before, after)
        self.outer = nn.Linear(after, after)
        same = before == after
        self.skip = nn.Identity() if same else nn.Linear(before, after, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        inner = functional.mish(self.inner(self.norm(h)))
        return self.outer(inner) + self.skip(h)


class ResidualTrunk(nn.Module):
    """A residual network without its output layer."""

    def __init__(self, inputs: int, hidden: Sequence[int]):
        super().__init__()
        self.enter = nn.Linear(inputs, hidden[0])
        widths = (hidden[0], *hidden)
        pairs = zip(widths[:-1], widths[1:], strict=True)
        self.blocks = nn.Sequential(*(ResidualBlock(a, b) for a, b in pairs))
        self.width = hidden[-1]

    def forward(self, x: Tensor) -> Tensor:
        return functional.mish(self.blocks(self.enter(x)))


def residual_net(inputs: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """A residual network with its output layer."""
    return nn.Sequential(ResidualTrunk(inputs, hidden), nn.Linear(hidden[-1], outputs))


class LevelEmbedding(nn.Module):
    """Features of a noise level: cosines and sines, then two layers."""

    def __init__(self, width: int = 128):
        super().__init__()
        steps = torch.arange(width // 2) / (width // 2)
        self.frequencies: Tensor
        self.register_buffer("frequencies", 1e4**-steps, persistent=False)
        self.layers = mlp((width, 2 * width, width), nn.Mish)

    def forward(self, level: Tensor) -> Tensor:
        angle = level[..., None].to(self.frequencies) * self.frequencies
        return self.layers(torch.cat((angle.cos(), angle.sin()), dim=-1))

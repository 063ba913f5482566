"""Bottlenecks q, which turn the encoder's features into a skill.

    code = bottleneck(features, draws)

`draws` is the randomness of training, from `draw`; without it a bottleneck is
deterministic, as at run time. Every bottleneck gives `width` numbers: a group of
classes gives one number, the value of its class on a fixed grid.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from spectral_skills import config as configs
from spectral_skills.distributed import all_reduce_sum, rank, world_size


@dataclass(frozen=True)
class BottleneckConfig:
    """Kind and size of the bottleneck."""

    kind: Literal["continuous", "fsq", "gumbel", "categorical", "vq"] = "continuous"
    levels: int = 32
    """Number of values of a coordinate (fsq) or classes of a group (gumbel,
    categorical)."""
    codes: int = 1024
    """Size of the codebook (vq)."""

    def __post_init__(self):
        configs.at_least(self, 2, "levels")


class Code(NamedTuple):
    """Output of a bottleneck for a batch of features."""

    skill: Tensor
    """(n, width)."""
    latent: Tensor | None
    """(n, width) skill before quantisation, which SIGReg shapes; None for classes."""
    penalty: Tensor
    """(n,) regulariser, summed over coordinates or groups."""


class Continuous(nn.Module):
    """q is the identity; the penalty is the squared norm."""

    def __init__(self, config: BottleneckConfig, width: int):
        super().__init__()
        self.features = width

    def draw(self, count: int, generator: torch.Generator) -> Tensor | None:
        """Random numbers of a batch; none here."""
        return None

    def forward(self, features: Tensor, draws: Tensor | None = None) -> Code:
        return Code(features, features, features.square().sum(-1))

    def snapped(self, skill: Tensor) -> Tensor:
        """The nearest skill that the bottleneck can give."""
        return skill

    def update(self, latent: Tensor, generator: torch.Generator) -> None:
        """Update what does not learn by gradients; nothing here."""


class FSQ(Continuous):
    """Every coordinate of tanh(f) rounded to one of `levels` values from -1 to 1.

    Levels are symmetric about zero, so that every step has its opposite. The gradient
    ignores the rounding.
    """

    def __init__(self, config: BottleneckConfig, width: int):
        super().__init__(config, width)
        self.levels = config.levels

    def forward(self, features: Tensor, draws: Tensor | None = None) -> Code:
        bounded = torch.tanh(features)
        skill = bounded + (self.snapped(bounded) - bounded).detach()
        return Code(skill, features, features.square().sum(-1))

    def snapped(self, skill: Tensor) -> Tensor:
        half = (self.levels - 1) / 2
        # Counted from -1, so that an even number of levels is symmetric too.
        return torch.round((skill.clamp(-1, 1) + 1) * half) / half - 1


class Categorical(Continuous):
    """A sampled class in each of `width` groups, with a straight-through gradient.

    One percent of the probability is uniform, which keeps gradients alive. The penalty
    is the divergence from the uniform distribution.
    """

    uniform_share = 0.01

    def __init__(self, config: BottleneckConfig, width: int):
        super().__init__(config, width)
        self.shape = (width, config.levels)
        self.features = width * config.levels
        self.grid: Tensor
        grid = torch.linspace(-1, 1, config.levels)
        self.register_buffer("grid", grid, persistent=False)

    def draw(self, count: int, generator: torch.Generator) -> Tensor | None:
        size, device = (count, *self.shape), generator.device
        uniform = torch.rand(size, generator=generator, device=device)
        return -torch.log(-torch.log(uniform.clamp(1e-10, 1 - 1e-7)))

    def forward(self, features: Tensor, draws: Tensor | None = None) -> Code:
        logits = features.unflatten(-1, self.shape).float()
        log_p = torch.log_softmax(logits, dim=-1)
        if self.uniform_share:
            p = (1 - self.uniform_share) * log_p.exp()
            log_p = (p + self.uniform_share / self.shape[1]).log()
        p = log_p.exp()
        noisy = log_p if draws is None else log_p + draws
        skill = self._soft(p, noisy) @ self.grid
        chosen = self.grid[noisy.argmax(dim=-1)]
        divergence = (p * log_p).sum(-1) + math.log(self.shape[1])
        skill = skill + (chosen - skill).detach()
        return Code(skill, None, divergence.sum(-1))

    def snapped(self, skill: Tensor) -> Tensor:
        last = self.shape[1] - 1
        return self.grid[((skill.clamp(-1, 1) + 1) * last / 2).round().long()]

    def _soft(self, p: Tensor, noisy: Tensor) -> Tensor:
        """What replaces the chosen class in the gradient."""
        return p


class Gumbel(Categorical):
    """Categorical with the gradient of a sample softened at temperature 1."""

    uniform_share = 0.0

    def _soft(self, p: Tensor, noisy: Tensor) -> Tensor:
        return torch.softmax(noisy, dim=-1)


class VQ(Continuous):
    """The nearest of `codes` vectors, which follow the features by moving averages.

    The penalty is the distance to the code (commitment). Codes start as features of
    the first batch; a code that is hardly used restarts as a feature.
    """

    decay, epsilon, fewest = 0.99, 1e-5, 2.0

    def __init__(self, config: BottleneckConfig, width: int):
        super().__init__(config, width)
        self.codebook: Tensor
        self.counts: Tensor
        self.sums: Tensor
        self.register_buffer("codebook", torch.randn(config.codes, width))
        self.register_buffer("counts", torch.zeros(config.codes))
        self.register_buffer("sums", torch.zeros(config.codes, width))

    def nearest(self, features: Tensor) -> Tensor:
        """Index of the nearest code of each feature."""
        # |f - c|^2 without |f|^2, which is the same for every code.
        scores = features @ self.codebook.T - 0.5 * self.codebook.square().sum(-1)
        return scores.argmax(dim=-1)

    def forward(self, features: Tensor, draws: Tensor | None = None) -> Code:
        chosen = self.codebook[self.nearest(features)]
        skill = features + (chosen - features).detach()
        return Code(skill, features, (features - chosen).square().sum(-1))

    def snapped(self, skill: Tensor) -> Tensor:
        return self.codebook[self.nearest(skill)]

    @torch.no_grad()
    def update(self, latent: Tensor, generator: torch.Generator) -> None:
        """Move the codes towards the features that chose them."""
        first = self.counts.sum() == 0
        fresh = self._fresh(latent, generator)
        self.codebook.copy_(torch.where(first, fresh, self.codebook))
        codes = len(self.codebook)
        chosen = nn.functional.one_hot(self.nearest(latent), codes).to(latent.dtype)
        count, total = all_reduce_sum(chosen.sum(0)), all_reduce_sum(chosen.T @ latent)
        keep = torch.where(first, 0.0, self.decay)
        self.counts.mul_(keep).add_((1 - keep) * count)
        self.sums.mul_(keep).add_((1 - keep) * total)
        whole = self.counts.sum()
        share = (self.counts + self.epsilon) / (whole + codes * self.epsilon)
        self.codebook.copy_(self.sums / (share * whole)[:, None])
        dead = self.counts < self.fewest
        self.codebook.copy_(torch.where(dead[:, None], fresh, self.codebook))
        self.sums.copy_(torch.where(dead[:, None], fresh * self.fewest, self.sums))
        self.counts.copy_(torch.where(dead, self.fewest, self.counts))

    def _fresh(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        """A feature of the whole batch for every code, the same on every rank."""
        size, codes = len(latent), len(self.codebook)
        whole, device = size * world_size(), generator.device
        pick = torch.randint(whole, (codes,), generator=generator, device=device)
        local = pick - rank() * size
        mine = (local >= 0) & (local < size)
        return all_reduce_sum(latent[local.clamp(0, size - 1)] * mine[:, None])


_KINDS = {
    "continuous": Continuous,
    "fsq": FSQ,
    "gumbel": Gumbel,
    "categorical": Categorical,
    "vq": VQ,
}


def build(config: BottleneckConfig, width: int) -> Continuous:
    return _KINDS[config.kind](config, width)

"""Predictors of the motion that follows a skill, and heads for other targets.

    D(X, z, Y_tau, tau) = M(Y_tau, tau)^T phi(X, z)
    phi(X, z) = F(X)^T (A z + b) / sqrt(e)          affine in z

F(X) is an e x r matrix, the output of a layer of e r = 262,144 units. It is never
computed: the layer is linear, so [A b] is multiplied into its weights first,

    F(X)^T [A b] = sum_e [A b]_e (W_e h(X) + c_e) = (sum_e [A b]_e W_e) h(X) + ...

which leaves a layer of (d + 1) r = 16,640 units and gives the same numbers for a
sixteenth of the work. All tensors here are normalised and flat.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills import config as configs
from spectral_skills.motion.windows import POSE_SIZE, WindowConfig
from spectral_skills.skill.encoder import mlp


@dataclass(frozen=True)
class PredictorConfig:
    """Widths of the predictor."""

    kind: Literal["affine", "concat"] = "affine"
    """Kind: affine is the paper's; concat passes state and skill through a network."""
    embed: int = 1024
    """Rows e of F(X)."""
    rank: int = 256
    """Number r of features that context and target share."""
    context_hidden: tuple[int, ...] = (512, 512)
    target_hidden: tuple[int, ...] = (1024, 1024, 512)
    concat_hidden: tuple[int, ...] = (1024, 1024, 512)
    """Hidden widths of each of the three networks of the concat kind."""
    levels: int = 8
    """Number of noise levels."""

    def __post_init__(self):
        configs.at_least(self, 1, "embed", "rank", "levels")


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
        pairs = zip((hidden[0], *hidden[:-1]), hidden, strict=True)
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


class NoiseSchedule(nn.Module):
    """Variance-preserving levels: Y_tau = alpha_tau Y + sigma_tau noise.

    alpha^2 = exp(-0.1 s - 4.95 s^2) with s = (level + 1) / levels; level 0 has the
    least noise.
    """

    alpha: Tensor
    sigma: Tensor

    def __init__(self, levels: int):
        super().__init__()
        s = torch.arange(1, levels + 1, dtype=torch.float64) / levels
        square = torch.exp(-0.1 * s - 4.95 * s**2)
        self.register_buffer("alpha", square.sqrt().float(), persistent=False)
        self.register_buffer("sigma", (1 - square).sqrt().float(), persistent=False)

    def __len__(self) -> int:
        return len(self.alpha)

    def add_noise(self, target: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        """Y_tau of targets (n, m) at levels (n,)."""
        return self.alpha[level, None] * target + self.sigma[level, None] * noise


class AffineFeatures(nn.Module):
    """phi(X, z) = F(X)^T (A z + b) / sqrt(e)."""

    def __init__(self, config: PredictorConfig, context: int, skill: int):
        super().__init__()
        e, r = config.embed, config.rank
        self.trunk = ResidualTrunk(context, config.context_hidden)
        self.skill_map = nn.Linear(skill, e)
        # The output layer of F, initialised as a linear layer of e r units.
        bound = self.trunk.width**-0.5
        self.weight = nn.Parameter(
            torch.empty(e, r, self.trunk.width).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(e, r).uniform_(-bound, bound))

    @property
    def reader(self) -> nn.Linear:
        """The layer that reads the skill."""
        return self.skill_map

    def contracted(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the layer that gives F^T [A b] / sqrt(e), (d + 1) r."""
        e, _, width = self.weight.shape
        A_b = torch.cat((self.skill_map.weight, self.skill_map.bias[:, None]), 1)
        A_b = A_b.T / math.sqrt(e)  # (d + 1, e)
        weight = (A_b @ self.weight.reshape(e, -1)).view(-1, width)
        return weight, (A_b @ self.bias).view(-1)

    def response(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """F^T A / sqrt(e) as (n, d, r), and F^T b / sqrt(e) as (n, r)."""
        with torch.autocast(context.device.type, enabled=False):
            # In float32: the weights are read once, and their sum over e has full
            # precision whatever the rest computes in.
            weight, bias = self.contracted()
        F_A_b = functional.linear(self.trunk(context), weight, bias)
        F_A_b = F_A_b.view(len(context), -1, self.weight.shape[1])
        return F_A_b[:, :-1], F_A_b[:, -1]

    def forward(self, context: Tensor, skill: Tensor) -> Tensor:
        F_A, F_b = self.response(context)
        return weighted_sum(F_A, skill) + F_b


class ConcatFeatures(nn.Module):
    """phi(x, z) from three networks: state, skill, and a readout of both."""

    def __init__(self, config: PredictorConfig, context: int, skill: int):
        super().__init__()
        hidden, e = config.concat_hidden, config.embed
        self.state_net = residual_net(context, hidden, e)
        self.skill_net = residual_net(skill, hidden, e)
        self.readout = residual_net(2 * e, hidden, config.rank)

    @property
    def reader(self) -> nn.Linear:
        """The layer that reads the skill."""
        return self.skill_net[0].enter  # type: ignore

    def forward(self, context: Tensor, skill: Tensor) -> Tensor:
        both = torch.cat((self.state_net(context), self.skill_net(skill)), dim=-1)
        return self.readout(both)


class Predictor(nn.Module):
    """D(X, z, Y_tau, tau), the noise in a noisy target."""

    def __init__(self, config: PredictorConfig, context: int, skill: int, target: int):
        super().__init__()
        self.config, self.target = config, target
        self.schedule = NoiseSchedule(config.levels)
        kinds = {"affine": AffineFeatures, "concat": ConcatFeatures}
        self.features = kinds[config.kind](config, context, skill)
        self.level = LevelEmbedding()
        inputs = target + 128
        self.target_net = residual_net(
            inputs, config.target_hidden, config.rank * target
        )

    def target_matrix(self, noisy: Tensor, level: Tensor) -> Tensor:
        """M(Y_tau, tau), (n, r, m), of contiguous columns, which suits a GPU."""
        seen = torch.cat((noisy, self.level(level).to(noisy.dtype)), dim=-1)
        M_T = self.target_net(seen).view(len(noisy), self.target, -1)
        return M_T.transpose(1, 2)

    def forward(
        self, context: Tensor, skill: Tensor, noisy: Tensor, level: Tensor
    ) -> Tensor:
        phi = self.features(context, skill)
        return weighted_sum(self.target_matrix(noisy, level), phi)


def weighted_sum(rows: Tensor, weights: Tensor) -> Tensor:
    """Sum over k of weights (n, k) times rows (n, k, l).

    Compiled, this is one pass over the rows; a batched product takes three times as
    long on a GPU.
    """
    weights = weights.to(rows.dtype)
    if torch.compiler.is_compiling():
        return (rows * weights[..., None]).sum(1)
    return torch.bmm(weights[:, None], rows)[:, 0]


# Heads, one for every prediction target, give the mean squared error of each sample.
# Those that predict noise do so at one of several levels; the others have a single one.

Target = Literal["chunk", "endpoint", "endpoint-det", "next-skill", "reconstruction"]
"""chunk: the 11 poses that follow (the paper's). endpoint: the first of them.
endpoint-det: the same, without diffusion. next-skill: the skill of the next chunk.
reconstruction: what the encoder saw."""


@dataclass(frozen=True)
class PredictionBatch:
    """What heads learn from, normalised and flat."""

    context: Tensor
    """(n, context * 38)"""
    future: Tensor
    """(n, future * 38)"""
    seen: Tensor
    """(n, inputs) what the encoder saw."""
    next_skill: Tensor | None = None
    """(n, width) the slow encoder's skill of the next chunk."""


class NoiseHead(nn.Module):
    """Predicts the noise in the future, or in its first pose."""

    def __init__(
        self,
        config: PredictorConfig,
        windows: WindowConfig,
        skill: int,
        target: Literal["chunk", "endpoint"],
    ):
        super().__init__()
        poses = windows.future if target == "chunk" else 1
        self.noise_width = self.outputs = poses * POSE_SIZE
        # The concat kind sees only the current pose, as in the paper.
        past = windows.context if config.kind == "affine" else 1
        self.context_width = past * POSE_SIZE
        self.predictor = Predictor(config, self.context_width, skill, self.noise_width)
        self.levels = config.levels

    def forward(
        self, skill: Tensor, batch: PredictionBatch, level: Tensor, noise: Tensor
    ) -> Tensor:
        schedule = self.predictor.schedule
        target = batch.future[:, : self.noise_width]
        noisy = schedule.add_noise(target, level, noise)
        context = batch.context[:, -self.context_width :]
        predicted = self.predictor(context, skill, noisy, level)
        return (predicted.to(noise.dtype) - noise).square().mean(-1)


class PlainHead(nn.Module):
    """Predicts with a network, without noise."""

    levels, noise_width = 1, 0

    def __init__(self, net: nn.Sequential, target: Target):
        super().__init__()
        self.net, self.target = net, target
        self.outputs: int = net[-1].out_features  # type: ignore

    def forward(
        self, skill: Tensor, batch: PredictionBatch, level: Tensor, noise: Tensor
    ) -> Tensor:
        inputs, wanted = skill, batch.seen
        if self.target == "endpoint-det":
            inputs = torch.cat((batch.context, skill), dim=-1)
            wanted = batch.future[:, :POSE_SIZE]
        elif self.target == "next-skill":
            assert batch.next_skill is not None
            wanted = batch.next_skill
        predicted = self.net(inputs)
        return (predicted.to(wanted.dtype) - wanted).square().mean(-1)


def build_head(
    target: Target,
    config: PredictorConfig,
    windows: WindowConfig,
    skill: int,
    seen: int,
) -> NoiseHead | PlainHead:
    if target == "chunk" or target == "endpoint":
        return NoiseHead(config, windows, skill, target)
    if target == "endpoint-det":
        inputs = windows.context * POSE_SIZE + skill
        net = residual_net(inputs, config.context_hidden, POSE_SIZE)
    elif target == "next-skill":
        net = mlp((skill, 512, 512, skill))
    else:
        net = mlp((skill, 512, 512, 1024, 2048, seen))
    return PlainHead(net, target)

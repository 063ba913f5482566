"""What a skill is trained to tell: one head for every prediction target.

A head gives the mean squared error of each sample. Heads that predict noise do so at
one of several noise levels; the others have a single one, without noise.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from spectral_skills.motion.windows import POSE_SIZE, WindowConfig
from spectral_skills.skill.networks import mlp, residual_net
from spectral_skills.skill.predictor import Predictor, PredictorConfig

Target = Literal["chunk", "endpoint", "endpoint-det", "next-skill", "reconstruction"]
"""chunk: the 11 poses that follow (the paper's). endpoint: the first of them.
endpoint-det: the same, without diffusion. next-skill: the skill of the next chunk.
reconstruction: what the encoder saw."""


@dataclass(frozen=True)
class Batch:
    """Normalised and flat: all that heads may learn from."""

    context: Tensor
    """(n, context * 38)"""
    future: Tensor
    """(n, future * 38)"""
    seen: Tensor
    """(n, inputs): what the encoder saw."""
    next_skill: Tensor | None = None
    """(n, width): the slow encoder's skill of the next chunk."""


class NoiseHead(nn.Module):
    """Predicts the noise in what follows, or in its first pose."""

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
        # The concat kind sees the current pose only, as in the paper.
        past = windows.context if config.kind == "affine" else 1
        self.context_width = past * POSE_SIZE
        self.predictor = Predictor(config, self.context_width, skill, self.noise_width)
        self.levels = config.levels

    def forward(
        self, skill: Tensor, batch: Batch, level: Tensor, noise: Tensor
    ) -> Tensor:
        schedule = self.predictor.schedule
        target = batch.future[:, : self.noise_width]
        noisy = schedule.add_noise(target, level, noise)
        context = batch.context[:, -self.context_width :]
        predicted = self.predictor(context, skill, noisy, level)
        return (predicted.to(noise.dtype) - noise).square().mean(-1)


class PlainHead(nn.Module):
    """Predicts by a network, without noise."""

    levels, noise_width = 1, 0

    def __init__(self, net: nn.Sequential, target: Target):
        super().__init__()
        self.net, self.target = net, target
        self.outputs: int = net[-1].out_features  # type: ignore

    def forward(
        self, skill: Tensor, batch: Batch, level: Tensor, noise: Tensor
    ) -> Tensor:
        inputs = skill
        if self.target == "endpoint-det":
            inputs = torch.cat((batch.context, skill), dim=-1)
        predicted = self.net(inputs)
        if self.target == "endpoint-det":
            wanted = batch.future[:, :POSE_SIZE]
        elif self.target == "next-skill":
            assert batch.next_skill is not None
            wanted = batch.next_skill
        else:
            wanted = batch.seen
        return (predicted.to(wanted.dtype) - wanted).square().mean(-1)


def build(
    target: Target,
    config: PredictorConfig,
    windows: WindowConfig,
    skill: int,
    seen: int,
) -> NoiseHead | PlainHead:
    """The head of a prediction target."""
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

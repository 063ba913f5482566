"""The encoder: ten poses to a skill, z = q(f(vec B))."""

import hashlib
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from spectral_skills import config as configs
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import joint_velocities
from spectral_skills.motion.windows import (
    POSE_SIZE,
    MotionTensors,
    WindowConfig,
    reference_poses,
)
from spectral_skills.robot import g1
from spectral_skills.skill import bottleneck as bottlenecks
from spectral_skills.skill.bottleneck import BottleneckConfig, Code
from spectral_skills.skill.networks import mlp

_AT_ONCE = 8192
"""Number of windows encoded at once."""


@dataclass(frozen=True)
class EncoderConfig:
    """Widths and inputs of the encoder."""

    width: int = 64
    """Width of a skill."""
    hidden: tuple[int, ...] = (2048, 1024, 512, 512)
    sees: Literal["chunk", "velocity", "full"] = "chunk"
    """Input: `velocity` adds joint velocities, `full` the context before the chunk."""
    bottleneck: BottleneckConfig = BottleneckConfig()
    input_floor: float | None = 0.1
    """Least deviation by which an input is divided. The first pose has x = y = 0 in
    training; at run time a robot that is 10 cm off should be one unit off, not ten.
    None leaves inputs in radians and metres."""

    def __post_init__(self):
        configs.at_least(self, 1, "width")


class SkillEncoder(nn.Module):
    """Turns anchored poses into skills."""

    mean: Tensor
    std: Tensor
    steps: Tensor

    def __init__(self, config: EncoderConfig, windows: WindowConfig):
        super().__init__()
        self.config, self.windows, self.width = config, windows, config.width
        before = windows.context - 1 if config.sees == "full" else 0
        self.first = -before * windows.stride
        """Frame of the first pose seen, relative to t."""
        self.last = (windows.chunk - 1) * windows.stride
        """Frame of the last pose seen, relative to t."""
        self.poses = before + windows.chunk
        steps = torch.arange(-before, windows.chunk) * windows.stride
        self.register_buffer("steps", steps, persistent=False)
        inputs = self.poses * POSE_SIZE
        if config.sees == "velocity":
            inputs += self.poses * g1.NUM_JOINTS
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("std", torch.ones(inputs))
        self.bottleneck = bottlenecks.build(config.bottleneck, config.width)
        *body, last = mlp((inputs, *config.hidden, self.bottleneck.features), norm=True)
        self.body, self.project = nn.Sequential(*body), last

    def vector(self, poses: Tensor) -> Tensor:
        """The network's input for poses (n, k, 38), flat and not yet normalised."""
        if poses.shape[-2:] != (self.poses, POSE_SIZE):
            raise ValueError(
                f"poses of shape {tuple(poses.shape[-2:])}; this encoder sees "
                f"({self.poses}, {POSE_SIZE})"
            )
        flat = poses.flatten(-2)
        if self.config.sees != "velocity":
            return flat
        hz = FPS / self.windows.stride
        velocity = joint_velocities(poses[..., : g1.NUM_JOINTS], hz)
        return torch.cat((flat, velocity.flatten(-2)), dim=-1)

    def fit(self, poses: Tensor) -> None:
        """Take mean and deviation of the inputs from a sample, if inputs are scaled."""
        if self.config.input_floor is not None:
            self.mean, self.std = moments(self.vector(poses), self.config.input_floor)

    def normalize(self, poses: Tensor) -> Tensor:
        """The network's input."""
        return (self.vector(poses) - self.mean) / self.std

    def forward(self, poses: Tensor, draws: Tensor | None = None) -> Code:
        features = self.body(self.normalize(poses))
        with torch.autocast(poses.device.type, enabled=False):
            # The skill itself keeps its precision whatever the layers compute in.
            features = self.project(features.to(self.project.weight.dtype))
        return self.bottleneck(features, draws)

    @torch.no_grad()
    def encode(self, poses: Tensor) -> Tensor:
        """Skills (..., width) of poses (..., k, 38), as at run time."""
        code = self(poses.reshape(-1, *poses.shape[-2:]))
        return code.skill.view(*poses.shape[:-2], self.width)

    def encode_at(self, motions: MotionTensors, clips: Tensor, times: Tensor) -> Tensor:
        """Skills (n, width) of clips (n,) at times (n,), each in its own frame."""
        anchor = self.windows.anchor
        parts = zip(clips.split(_AT_ONCE), times.split(_AT_ONCE), strict=True)
        return torch.cat(
            [
                self.encode(reference_poses(motions, c, t, self.steps, anchor))
                for c, t in parts
            ]
        )

    def encode_next(
        self, motions: MotionTensors, clips: Tensor, times: Tensor
    ) -> Tensor:
        """Skills of the chunks that follow those at `times`, each in its own frame."""
        later = times + self.windows.chunk * self.windows.stride
        return self.encode_at(motions, clips, later)

    def fingerprint(self) -> str:
        """A name for this encoder, the same after its weights are stored in bf16."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(configs.dumps(self.config).encode())
        digest.update(configs.dumps(self.windows).encode())
        for name, value in sorted(self.state_dict().items()):
            digest.update(name.encode())
            half = value.detach().to("cpu", torch.bfloat16)
            digest.update(half.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def moments(values: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """Mean and deviation, at least `floor`, of the columns of (n, k)."""
    wide = values.double()
    mean, std = wide.mean(0), wide.std(0).clamp_min(floor)
    return mean.to(values.dtype), std.to(values.dtype)

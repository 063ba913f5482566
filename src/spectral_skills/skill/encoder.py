"""The encoder, ten poses to a skill, z = q(f(vec B)), and skills of whole motions.

For whole motions the encoder sees the reference from where the reference itself is, as
in pretraining, so nothing depends on a robot.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import joint_velocities
from spectral_skills.motion.windows import (
    POSE_SIZE,
    MotionTensors,
    WindowConfig,
    every_frame,
    reference_poses,
)
from spectral_skills.robot import g1
from spectral_skills.skill import bottleneck as bottlenecks
from spectral_skills.skill.bottleneck import BottleneckConfig, Code

_AT_ONCE, _BANK_BATCH = 8192, 4096
"""Number of windows encoded at once, in general and for a bank."""


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
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


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
        self.frames = self.last - self.first + 1
        """Number of frames from the first to the last that the encoder sees."""
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
        skills = []
        for c, t in zip(clips.split(_AT_ONCE), times.split(_AT_ONCE), strict=True):
            poses = reference_poses(motions, c, t, self.steps, self.windows.anchor)
            skills.append(self.encode(poses))
        return torch.cat(skills)

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


def encode_rows(encoder: SkillEncoder, rows: Tensor | np.ndarray) -> Tensor:
    """Skills (T', d) of rows (T, 36), one for each time whose window fits the clip.

    The first skill belongs to frame `-encoder.first`; T' = T - (last - first).
    """
    if rows.ndim != 2 or rows.shape[1] != g1.QPOS_SIZE:
        shape = tuple(rows.shape)
        raise ValueError(f"rows of shape {shape}, expected (T, {g1.QPOS_SIZE})")
    device = encoder.steps.device
    rows = torch.as_tensor(rows, dtype=torch.float32, device=device)
    if len(rows) < encoder.frames:
        raise ValueError(
            f"a clip of {len(rows)} frames has no skill: the encoder sees "
            f"{encoder.frames} frames at once"
        )
    motions = MotionTensors.of_clips([rows])
    times = torch.arange(-encoder.first, len(rows) - encoder.last, device=device)
    return encoder.encode_at(motions, torch.zeros_like(times), times)


def save_stream(path: Path, skills: np.ndarray, name: str, encoder: str) -> None:
    """Write the skills (T', d) of a clip as .npz, with its name and the fingerprint of
    the encoder, since skills of another encoder mean something else."""
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        version=np.array(1),
        skills=skills,
        name=np.array(name),
        fps=np.array(FPS, dtype=np.float64),
        encoder=np.array(encoder),
    )
    write_file(path, file.getvalue())


@dataclass(frozen=True)
class SkillBank:
    """Skills of a whole corpus, clip after clip, on the encoder's device."""

    skills: Tensor
    """(n, d)"""
    clips: Tensor
    """(n,) position of the clip in the corpus; clips that are too short have none."""
    times: Tensor
    """(n,) time of the skill, in frames from the clip's start."""

    @classmethod
    def build(
        cls, encoder: SkillEncoder, corpus: Corpus, every: int = 5
    ) -> "SkillBank":
        """Encode every clip at every `every`-th time that has a complete window."""
        motions = corpus.to(encoder.steps.device)
        valid = (motions.lengths - (encoder.frames - 1)).clamp_min(0)
        clips, times = every_frame(valid, every)
        times, total = times - encoder.first, len(clips)
        if total == 0:
            longest = int(corpus.lengths.max()) if len(corpus) else 0
            raise ValueError(
                f"no clip has the {encoder.frames} frames that one skill needs; "
                f"the longest has {longest}"
            )
        skills = torch.empty((total, encoder.width), device=motions.device)
        # disable=None: no bar where there is no terminal.
        with tqdm(total=total, desc="encoding", unit="skill", disable=None) as bar:
            for some in torch.arange(total, device=motions.device).split(_BANK_BATCH):
                skills[some] = encoder.encode_at(motions, clips[some], times[some])
                bar.update(len(some))
        return cls(skills, clips, times)

    def clip_means(self) -> tuple[Tensor, Tensor]:
        """The clips (m,) that have skills, and the mean skill (m, d) of each."""
        found = self.clips.unique(return_inverse=True, return_counts=True)
        clips, group, counts = found
        # In double, so that the order of a parallel sum has no effect.
        shape = (len(clips), self.skills.shape[1])
        total = torch.zeros(shape, dtype=torch.double, device=self.skills.device)
        total.index_add_(0, group, self.skills.double())
        return clips, (total / counts[:, None]).to(self.skills.dtype)

    def spread(self) -> float:
        """Standard deviation of the skills, averaged over dimensions."""
        return float(self.skills.std(dim=0, correction=0).mean())

"""Sources of skills for many robots, step by step.

A reference is encoded at every step, as the robot sees it. Replayed and steered skills
are streams made by the mixer: they do not depend on where the robot is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.mixer import steer
from spectral_skills.skill.codes import encode_rows
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.networks import CommandConfig
from spectral_skills.tracking.references import CommandSource, References


@dataclass(frozen=True)
class Track:
    """What robots should follow, from the frame they start at."""

    rows: Tensor
    """(T + 1, n, 36) poses; a clip that is over stays at its last frame."""
    lengths: Tensor
    """(n,) number of frames that count, at most T + 1."""
    names: tuple[str, ...]


class SkillSource(Protocol):
    """Gives what commands are made of; the step is known on the host."""

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """(n, s) for robots at `qpos` (n, 36) after `step` control steps, which have
        sensed where they are."""
        ...

    def track(self, steps: int) -> Track | None:
        """What robots should do meanwhile, where that is known."""
        ...


class ReferenceSource:
    """Clips, each from its start frame, seen from where the robots are."""

    def __init__(
        self,
        references: References,
        clips: Tensor,
        encoder: SkillEncoder | None,
        starts: Tensor | None = None,
        command: CommandConfig | None = None,
        names: Sequence[str] | None = None,
    ):
        self.references, self.clips = references, clips
        self.starts = torch.zeros_like(clips) if starts is None else starts
        self.names = tuple(names or (f"robot {i}" for i in range(len(clips))))
        self._commands = CommandSource(references, command or CommandConfig(), encoder)

    @torch.no_grad()
    def source(self, step: int, qpos: Tensor) -> Tensor:
        """Skill of frames t to t + 9, the window itself, or the pose of frame t + 1."""
        return self._commands(self.clips, self.starts + step, qpos[:, :3], qpos[:, 3:7])

    def track(self, steps: int) -> Track:
        """The clips themselves."""
        frames = torch.arange(steps + 1, device=self.clips.device)
        rows = self.references.rows_at(self.clips, self.starts[:, None] + frames)
        lengths = self.references.lengths[self.clips] - self.starts
        return Track(
            rows.transpose(0, 1).contiguous(), lengths.clamp_max(steps + 1), self.names
        )


class ReplaySource:
    """One stream of skills per robot; each repeats its last skill when it is over."""

    def __init__(self, streams: Sequence[Tensor], track: Track | None = None):
        if not streams or not all(s.ndim == 2 and len(s) for s in streams):
            shapes = [tuple(s.shape) for s in streams]
            raise ValueError(f"streams of shapes {shapes}, must be (T, d) with T > 0")
        self.skills = _padded(streams)
        """(T, n, d)"""
        self._track = track

    @classmethod
    def encode(
        cls,
        encoder: SkillEncoder,
        clips: Sequence[Tensor],
        names: Sequence[str] | None = None,
    ) -> "ReplaySource":
        """A skill for every frame of clips (T, 36), as their own robots would see them.

        Beyond its ends a clip stands still, as it does for a live reference.
        """
        device = encoder.steps.device
        clips = [torch.as_tensor(c, dtype=torch.float32, device=device) for c in clips]
        streams = []
        for rows in clips:
            before = rows[:1].expand(-encoder.first, -1)
            after = rows[-1:].expand(encoder.last, -1)
            streams.append(encode_rows(encoder, torch.cat((before, rows, after))))
        names = tuple(names or (f"robot {i}" for i in range(len(clips))))
        lengths = torch.tensor([len(rows) for rows in clips], device=device)
        return cls(streams, Track(_padded(clips), lengths, names))

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """The skills of this step, wherever the robots are."""
        return self.skills[min(step, len(self.skills) - 1)]

    def track(self, steps: int) -> Track | None:
        """The encoded clips, extended or cut to a run."""
        if self._track is None:
            return None
        frames = torch.arange(steps + 1, device=self._track.rows.device)
        rows = self._track.rows[frames.clamp_max(len(self._track.rows) - 1)]
        lengths = self._track.lengths.clamp_max(steps + 1)
        return Track(rows, lengths, self._track.names)


def _padded(parts: Sequence[Tensor]) -> Tensor:
    """(T, n, d) arrays side by side; the shorter ones repeat their last row."""
    longest = max(len(part) for part in parts)
    return torch.stack(
        [torch.cat((p, p[-1:].expand(longest - len(p), -1))) for p in parts], dim=1
    )


class SteeredSource:
    """The skills of another source, moved along directions: z(t) + V eta(t)."""

    def __init__(
        self, base: SkillSource, directions: np.ndarray, amplitudes: np.ndarray
    ):
        """Directions (k, d); amplitudes (T, k) for all robots, or (T, n, k). The last
        amplitudes hold on."""
        self.base = base
        flat = amplitudes.reshape(-1, amplitudes.shape[-1])
        moved = steer(np.zeros((len(flat), directions.shape[1])), directions, flat)
        moved = moved.reshape(*amplitudes.shape[:-1], -1).astype(np.float32)
        self._offsets = torch.from_numpy(moved)

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """The skills of the base plus what the amplitudes of this step add."""
        skills = self.base.source(step, qpos)
        # The offsets move to the device of the skills once.
        self._offsets = self._offsets.to(skills)
        return skills + self._offsets[min(step, len(self._offsets) - 1)]

    def track(self, steps: int) -> Track | None:
        """The track of the base: what robots would do without steering."""
        return self.base.track(steps)

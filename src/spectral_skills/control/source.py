"""Where a controller's commands come from, step by step.

A reference is encoded anew at every step, as the robot sees it. Replayed, chained and
steered skills are streams: nothing depends on where the robot is.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.mixer import Automation, Fader, steer
from spectral_skills.control.rollout import Track
from spectral_skills.skill.codes import encode_rows
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.networks import CommandConfig
from spectral_skills.tracking.references import CommandSource, References


class SkillSource(Protocol):
    """Gives what commands are made of; the step is known on the host."""

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """(n, s) for robots at `qpos` (n, 36) that have made `step` control steps, and
        have sensed where they are."""
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
    """Streams of skills, one a robot; each repeats its last when it is over."""

    def __init__(self, streams: Sequence[Tensor], track: Track | None = None):
        if not streams or not all(s.ndim == 2 and len(s) for s in streams):
            shapes = [tuple(s.shape) for s in streams]
            raise ValueError(f"streams of shapes {shapes}, must be (T, d) with T > 0")
        longest = max(len(s) for s in streams)
        padded = [torch.cat((s, s[-1:].expand(longest - len(s), -1))) for s in streams]
        self.skills = torch.stack(padded, dim=1)
        """(T, n, d)"""
        self._track = track

    @classmethod
    def encode(
        cls,
        encoder: SkillEncoder,
        clips: Sequence[Tensor],
        names: Sequence[str] | None = None,
    ) -> "ReplaySource":
        """Skills of clips (T, 36) as their own robots would see them.

        A skill for every frame: past its ends a clip stands still, as it does for a
        live reference.
        """
        device = encoder.steps.device
        clips = [torch.as_tensor(c, dtype=torch.float32, device=device) for c in clips]
        streams = []
        for rows in clips:
            before = rows[:1].expand(-encoder.first, -1)
            after = rows[-1:].expand(encoder.last, -1)
            streams.append(encode_rows(encoder, torch.cat((before, rows, after))))
        longest = max(len(rows) for rows in clips)
        padded = [torch.cat((r, r[-1:].expand(longest - len(r), -1))) for r in clips]
        names = tuple(names or (f"robot {i}" for i in range(len(clips))))
        lengths = torch.tensor([len(rows) for rows in clips], device=device)
        return cls(streams, Track(torch.stack(padded, dim=1), lengths, names))

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """The stream's skills, wherever the robots are."""
        return self.skills[min(step, len(self.skills) - 1)]

    def track(self, steps: int) -> Track | None:
        """The encoded clips, stretched or cut to a run."""
        if self._track is None:
            return None
        frames = torch.arange(steps + 1, device=self._track.rows.device)
        rows = self._track.rows[frames.clamp_max(len(self._track.rows) - 1)]
        lengths = self._track.lengths.clamp_max(steps + 1)
        return Track(rows, lengths, self._track.names)


class ChainedSource(ReplaySource):
    """Streams one after the other, blended over each switch."""

    def __init__(self, segments: Sequence[Sequence[Tensor]], switch_steps: int):
        chained = [chain(streams, switch_steps) for streams in segments]
        self.switches = tuple(switches for _, switches in chained)
        """Of each robot, the steps of each switch."""
        super().__init__([stream for stream, _ in chained])


def chain(streams: Sequence[Tensor], switch_steps: int) -> tuple[Tensor, list[slice]]:
    """One stream (T, d) of several, and the steps at which it switches.

    The last `switch_steps` of a stream and the first of the next are played together,
    with weights that go linearly from the one to the other; none is at 0 or 1.
    """
    if switch_steps < 0:
        raise ValueError(f"a switch of {switch_steps} steps, must not be negative")
    ends = (1, *(2,) * max(0, len(streams) - 2), 1)
    for number, (stream, switches) in enumerate(zip(streams, ends, strict=False)):
        if len(streams) > 1 and len(stream) < switches * switch_steps:
            raise ValueError(
                f"stream {number} has {len(stream)} steps, too few for {switches} "
                f"switches of {switch_steps}"
            )
    total, switches = streams[0], []
    for stream in streams[1:]:
        begin = len(total) - switch_steps
        weight = torch.arange(1, switch_steps + 1).to(stream) / (switch_steps + 1)
        blend = torch.lerp(total[begin:], stream[:switch_steps], weight[:, None])
        total = torch.cat((total[:begin], blend, stream[switch_steps:]))
        switches.append(slice(begin, begin + switch_steps))
    return total, switches


class SteeredSource:
    """Another source's skills, moved along directions: z(t) + V eta(t)."""

    def __init__(
        self,
        base: SkillSource,
        directions: np.ndarray,
        amplitudes: np.ndarray | Automation | Sequence[Fader],
        steps: int = 0,
    ):
        """Directions (k, d); amplitudes (T, k) for all robots, or (T, n, k).

        An automation is written out for `steps`; the last amplitudes hold on. Faders
        are asked for theirs at every step.
        """
        self.base, self.directions = base, np.asarray(directions)
        if isinstance(amplitudes, Automation):
            amplitudes = amplitudes.schedule(max(1, steps))
        self._faders: Sequence[Fader] | None = None
        self._offsets = torch.zeros(())
        if isinstance(amplitudes, np.ndarray):
            self._offsets = torch.from_numpy(self._move(amplitudes))
        else:
            self._faders = amplitudes

    def _move(self, amplitudes: np.ndarray) -> np.ndarray:
        """(..., d) what amplitudes (..., k) add to skills."""
        flat = amplitudes.reshape(-1, amplitudes.shape[-1])
        nothing = np.zeros((len(flat), self.directions.shape[1]))
        moved = steer(nothing, self.directions, flat)
        return moved.reshape(*amplitudes.shape[:-1], -1).astype(np.float32)

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """The base's skills and what the amplitudes of this step add."""
        skills = self.base.source(step, qpos)
        if self._faders is not None:
            now = np.array([[fader.step() for fader in self._faders]])
            return skills + torch.from_numpy(self._move(now)).to(skills)
        # Moved once, to where the skills are.
        self._offsets = self._offsets.to(skills)
        return skills + self._offsets[min(step, len(self._offsets) - 1)]

    def track(self, steps: int) -> Track | None:
        """The base's: what robots would do without steering."""
        return self.base.track(steps)

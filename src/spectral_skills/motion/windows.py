"""Context, chunk and future windows, cut and anchored on the device.

    X = x_{t-P+1..t}      context, P poses
    B = x_{t..t+H-1}      chunk, H poses: what the encoder sees
    Y = x_{t+H..t+H+L}    future, L + 1 poses: what the predictor predicts

X and B share x_t; B ends one pose before Y begins. All three are expressed in one
frame, the anchor at x_t. A pose is 38 numbers: 29 joints, pelvis position, rot6d.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.clip import mirror_rows
from spectral_skills.motion.corpus import Corpus
from spectral_skills.robot import g1

POSE_SIZE = g1.NUM_JOINTS + 3 + 6

Anchor = Literal["heading", "pose", "reference"]
"""Whose frame a window is expressed in.
`heading`: the robot's yaw, origin (x, y, 0): height and tilt are kept.
`pose`: the robot's full position and rotation.
`reference`: as heading, but of the reference motion even at run time, so that the
encoder never sees how far the robot is off. In pretraining the robot is the
reference, and `heading` and `reference` are the same."""


@dataclass(frozen=True)
class WindowConfig:
    """Lengths of the three windows, in poses."""

    context: int = 6
    chunk: int = 10
    future: int = 11
    stride: int = 1
    """Frames between consecutive poses."""
    anchor: Anchor = "heading"

    def __post_init__(self):
        for name in ("context", "chunk", "future", "stride"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")

    @property
    def before(self) -> int:
        """Frames needed before t."""
        return (self.context - 1) * self.stride

    @property
    def after(self) -> int:
        """Frames needed after t."""
        return (self.chunk + self.future - 1) * self.stride


@dataclass(frozen=True)
class Windows:
    """A batch of anchored windows."""

    context: Tensor  # (n, context, 38)
    chunk: Tensor  # (n, chunk, 38)
    future: Tensor  # (n, future, 38)

    def ahead_from(self, offset: Tensor) -> "Windows":
        """The same with chunk and future as a robot sees them that is off by offsets
        (n, 3); the context stays, as a robot's own past would."""
        chunk, future = (move_anchor(x, offset) for x in (self.chunk, self.future))
        return Windows(self.context, chunk, future)


@dataclass(frozen=True)
class MotionTensors:
    """Clips of a corpus on a device; several clips may read the same rows."""

    rows: Tensor  # (frames, 36) float32
    starts: Tensor
    lengths: Tensor
    mirrored: Tensor
    has_mirrored: bool  # known on the host, so that sampling never waits for the device

    @classmethod
    def of_clips(cls, clips: Sequence[Tensor]) -> "MotionTensors":
        """Clips (T, 36) that belong to no corpus."""
        rows = torch.cat(list(clips))
        lengths = torch.tensor([len(clip) for clip in clips], device=rows.device)
        mirrored = torch.zeros_like(lengths, dtype=torch.bool)
        return cls(rows, lengths.cumsum(0) - lengths, lengths, mirrored, False)

    @classmethod
    def load(cls, corpus: Corpus, device: torch.device | str) -> "MotionTensors":
        """Move the rows a corpus view needs, each once."""
        starts = torch.from_numpy(corpus.starts.copy())
        lengths = torch.from_numpy(corpus.lengths.copy())
        spans = sorted(set(zip(starts.tolist(), lengths.tolist(), strict=True)))
        total = sum(length for _, length in spans)
        if total == len(corpus.rows):
            rows = torch.from_numpy(corpus.rows).to(device)
        else:
            # A subset: pack its spans and point the clips at the packed rows.
            rows, packed, at = torch.empty((total, g1.QPOS_SIZE), device=device), {}, 0
            for start, length in spans:
                source = torch.from_numpy(corpus.rows[start : start + length])
                rows[at : at + length] = source.to(device)
                packed[start], at = at, at + length
            starts = torch.tensor([packed[s] for s in starts.tolist()])
        return cls(
            rows=rows,
            starts=starts.to(device),
            lengths=lengths.to(device),
            mirrored=torch.from_numpy(corpus.mirrored.copy()).to(device),
            has_mirrored=bool(corpus.mirrored.any()),
        )

    @classmethod
    def join(cls, parts: Sequence["MotionTensors"]) -> "MotionTensors":
        """The clips of several corpora, one after the other."""
        offsets = accumulate((len(p.rows) for p in parts), initial=0)
        starts = [p.starts + o for p, o in zip(parts, offsets, strict=False)]
        return cls(
            rows=torch.cat([p.rows for p in parts]),
            starts=torch.cat(starts),
            lengths=torch.cat([p.lengths for p in parts]),
            mirrored=torch.cat([p.mirrored for p in parts]),
            has_mirrored=any(p.has_mirrored for p in parts),
        )

    @property
    def device(self) -> torch.device:
        return self.rows.device

    def gather(self, clips: Tensor, frames: Tensor) -> Tensor:
        """Rows (n, k, 36) of frames (n, k) counted from the start of clips (n,)."""
        rows = self.rows[self.starts[clips, None] + frames]
        if not self.has_mirrored:
            return rows
        return torch.where(self.mirrored[clips, None, None], mirror_rows(rows), rows)


def anchor_poses(
    rows: Tensor, root_position: Tensor, root_quaternion: Tensor, anchor: Anchor
) -> Tensor:
    """Poses (..., k, 38) of rows (..., k, 36) seen from roots (..., 3), (..., 4).

    The root is the robot's; with the anchor `reference` it is not used, and the
    first row, the reference now, takes its place.
    """
    if anchor == "reference":
        root_position, root_quaternion = rows[..., 0, :3], rows[..., 0, 3:7]
    if anchor == "pose":
        frame, origin = root_quaternion, root_position
    else:
        frame = rotation.heading(root_quaternion)
        origin = torch.cat(
            (root_position[..., :2], torch.zeros_like(root_position[..., :1])), dim=-1
        )
    inverse = rotation.conjugate(frame)[..., None, :]
    position = rotation.rotate(inverse, rows[..., :3] - origin[..., None, :])
    orientation = rotation.to_rot6d(rotation.multiply(inverse, rows[..., 3:7]))
    return torch.cat((rows[..., 7:], position, orientation), dim=-1)


def move_rows(rows: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Rows (T, 36) moved along the floor and turned about the vertical, so that a frame
    `here` (36,) of their motion has the place and heading of a row `there`."""
    turn = rotation.multiply(
        rotation.heading(there[3:7]), rotation.conjugate(rotation.heading(here[3:7]))
    )
    flat = torch.tensor([1.0, 1.0, 0.0])
    position = rotation.rotate(turn, rows[:, :3] - flat * here[:3]) + flat * there[:3]
    quaternion = rotation.multiply(turn, rows[:, 3:7])
    return torch.cat((position, quaternion, rows[:, 7:]), dim=1)


def move_anchor(poses: Tensor, offset: Tensor) -> Tensor:
    """Poses (n, k, 38) as seen from an anchor moved by offsets (n, 3): metres ahead
    and to the left, and a turn to the left. Upright anchors only: not `pose`."""
    joints, position, rot6d = poses.split((g1.NUM_JOINTS, 3, 6), dim=-1)
    shift = torch.nn.functional.pad(offset[:, None, :2], (0, 1))
    inverse = rotation.from_yaw(-offset[:, None, 2])
    # The six numbers are two columns of a matrix, row by row.
    vectors = torch.stack((position - shift, rot6d[..., ::2], rot6d[..., 1::2]), dim=-2)
    x, one, two = rotation.rotate(inverse[:, :, None], vectors).unbind(-2)
    return torch.cat((joints, x, torch.stack((one, two), dim=-1).flatten(-2)), dim=-1)


def reference_poses(
    motions: MotionTensors, clips: Tensor, times: Tensor, steps: Tensor, anchor: Anchor
) -> Tensor:
    """Poses (n, k, 38) at frames times + steps, seen from the reference at `times`."""
    frames = torch.cat((times[:, None], times[:, None] + steps), dim=1)
    rows = motions.gather(clips, frames)
    now, rows = rows[:, 0], rows[:, 1:]
    # Here the robot is the reference, wherever x_t stands among the rows.
    own = "pose" if anchor == "pose" else "heading"
    return anchor_poses(rows, now[:, :3], now[:, 3:7], own)


class WindowSampler:
    """Draws windows uniformly over every valid time of every clip."""

    def __init__(self, motions: MotionTensors, config: WindowConfig):
        self.motions, self.config = motions, config
        need = config.before + config.after
        valid = (motions.lengths - need).clamp_min(0)
        # ends[i] is the number of valid times in clips 0..i.
        self._ends = valid.cumsum(0)
        self._first = self._ends - valid
        self.total = int(self._ends[-1]) if len(valid) else 0
        if self.total == 0:
            raise ValueError(
                f"no clip has the {need + 1} frames that one window needs; "
                f"the longest has {int(motions.lengths.max()) if len(valid) else 0}"
            )
        before = torch.arange(-config.context + 1, 1)
        after = torch.arange(1, config.chunk + config.future)
        steps = torch.cat((before, after)) * config.stride
        self._steps = steps.to(motions.device)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Windows:
        draws = torch.randint(
            self.total, (count,), generator=generator, device=self.motions.device
        )
        return self.at(*self.locate(draws))

    def locate(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Clip and time t of the numbered windows, 0 <= number < total."""
        clips = torch.searchsorted(self._ends, numbers, right=True)
        return clips, numbers - self._first[clips] + self.config.before

    def at(self, clips: Tensor, times: Tensor) -> Windows:
        """Windows at given clips and times t (frames from the clip's start)."""
        poses = reference_poses(
            self.motions, clips, times, self._steps, self.config.anchor
        )
        shared = self.config.context - 1
        end = shared + self.config.chunk
        return Windows(
            context=poses[:, : shared + 1],
            chunk=poses[:, shared:end],
            future=poses[:, end:],
        )


def every_frame(lengths: Tensor, every: int) -> tuple[Tensor, Tensor]:
    """Clips (n,) and frames (n,): every `every`-th frame of clips of these lengths."""
    if every < 1:
        raise ValueError(f"every is {every}, must be at least 1")
    counts = (lengths + every - 1) // every
    clips = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    first = (counts.cumsum(0) - counts)[clips]
    return clips, (torch.arange(len(clips), device=clips.device) - first) * every

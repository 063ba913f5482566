"""Reference motions on the device, and the commands that are made from them.

Velocities are those of joints and root, smoothed as SONIC's motion library smooths link
velocities; link states follow by forward kinematics, so that a robot put on a frame
moves exactly as the reference does. A frame takes 71 numbers: the paper's 47 M 13 GB.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import FILTER_SIGMA_FRAMES
from spectral_skills.motion.windows import (
    POSE_SIZE,
    Anchor,
    MotionTensors,
    anchor_poses,
)
from spectral_skills.robot import g1
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.encoder import SkillEncoder

_QVEL = 6 + g1.NUM_JOINTS
_FILTER_RADIUS = 8
_AT_ONCE = 1 << 17
"""Number of frames that are differentiated at once."""


class Reference(NamedTuple):
    """One frame of a clip for each robot: pose (n, 36) and velocities (n, 35)."""

    rows: Tensor
    qvel: Tensor


class References:
    """A table with one row a frame, clip after clip; mirror images are clips too."""

    def __init__(self, table: Tensor, starts: Tensor, lengths: Tensor):
        self.table, self.starts, self.lengths = table, starts, lengths
        self.device, self.count = table.device, len(starts)

    @classmethod
    def build(cls, motions: MotionTensors) -> "References":
        """Write out and differentiate every frame of every clip."""
        if not len(motions.lengths) or int(motions.lengths.max()) < 2:
            raise ValueError("no clip has the two frames that tracking needs")
        device, ends = motions.device, motions.lengths.cumsum(0)
        starts, total = ends - motions.lengths, int(ends[-1])
        table = torch.empty((total, g1.QPOS_SIZE + _QVEL), device=device)
        row, qvel = table.split([g1.QPOS_SIZE, _QVEL], dim=1)

        def parts():
            for first in range(0, total, _AT_ONCE):
                at = torch.arange(first, min(first + _AT_ONCE, total), device=device)
                clip = torch.searchsorted(ends, at, right=True)
                yield at, clip, starts[clip], ends[clip] - 1

        for at, clip, start, _ in parts():
            row[at] = motions.gather(clip, (at - start)[:, None])[:, 0]
        raw = torch.empty((total, _QVEL), device=device)
        for at, _, start, last in parts():
            after, before = (at + 1).minimum(last), (at - 1).maximum(start)
            hz = FPS / (after - before).clamp_min(1)[:, None]
            moved = row[after] - row[before]
            then, ago = row[after, 3:7], row[before, 3:7]
            turn = rotation.log(rotation.multiply(then, rotation.conjugate(ago)))
            raw[at] = hz * torch.cat((moved[:, :3], turn, moved[:, 7:]), dim=1)
        shifts = range(-_FILTER_RADIUS, _FILTER_RADIUS + 1)
        weights = torch.tensor([-0.5 * (s / FILTER_SIGMA_FRAMES) ** 2 for s in shifts])
        weights = weights.softmax(0).tolist()
        for at, _, start, last in parts():
            smooth = torch.zeros((len(at), _QVEL), device=device)
            for shift, weight in zip(shifts, weights, strict=True):
                smooth += weight * raw[(at + shift).maximum(start).minimum(last)]
            # MuJoCo has the root's angular velocity in the pelvis frame.
            smooth[:, 3:6] = rotation.rotate_inverse(row[at, 3:7], smooth[:, 3:6])
            qvel[at] = smooth
        if not torch.isfinite(table).all():
            first = int((~table.isfinite().all(1)).nonzero()[0])
            clip = int(torch.searchsorted(ends, first, right=True))
            raise ValueError(f"clip {clip} holds a value that is not a number")
        return cls(table, starts, motions.lengths)

    def at(self, clips: Tensor, frames: Tensor) -> Reference:
        """The frames (n,) of clips (n,); past its end a clip stays at its last."""
        inside = frames.clamp_min(0).minimum(self.lengths[clips] - 1)
        found = self.table[self.starts[clips] + inside]
        return Reference(*found.split([g1.QPOS_SIZE, _QVEL], dim=1))

    def rows_at(self, clips: Tensor, frames: Tensor) -> Tensor:
        """Rows (n, k, 36) of frames (n, k), clamped into their clips (n,)."""
        inside = frames.clamp_min(0).minimum(self.lengths[clips, None] - 1)
        return self.table[:, : g1.QPOS_SIZE][self.starts[clips, None] + inside]


@dataclass(frozen=True)
class CommandConfig:
    """The commands of a controller."""

    kind: Literal["skill", "pose", "joint"] = "skill"
    """Kind of command: a skill of a frozen encoder, the next reference pose, or a
    window of poses that the controller's own encoder turns into a skill."""
    width: int = 64
    """Numbers of a skill."""
    hold: int = 1
    """Control steps for which a command is held."""
    encoder: str = ""
    """Fingerprint of the frozen encoder whose skills are the commands."""
    adapter: tuple[int, ...] = ()
    """Hidden widths of a network before the controller, which turns commands (skill,
    pose) into the skills of `width` numbers that it knew before; none by default."""
    poses: int = 10
    """Poses of a window (joint)."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden widths of the encoder (joint); its decoder has them in reverse."""
    bottleneck: BottleneckConfig = BottleneckConfig()
    """Bottleneck of the encoder (joint)."""
    gradient: bool = True
    """Whether the encoder also learns from the policy's gradient (joint)."""

    def __post_init__(self):
        configs.at_least(self, 1, "width", "hold", "poses")
        if self.adapter and self.kind == "joint":
            raise ValueError(
                "an adapter is for skills and poses, these commands are joint"
            )

    @property
    def source_width(self) -> int:
        """Width of what commands are made from."""
        windows = {"pose": POSE_SIZE, "joint": self.poses * POSE_SIZE}
        return windows.get(self.kind, self.width)


class CommandSource:
    """Turns the reference ahead, as robots see it, into sources (n, s) of commands.
    `skill`: frames t to t + 9, encoded, with `half` in bf16 as in training on a GPU;
    `joint`: the window itself, for an encoder in the controller; `pose`: frame t + 1.
    """

    def __init__(
        self,
        references: References,
        command: CommandConfig,
        encoder: SkillEncoder | None,
        half: bool = False,
    ):
        if command.kind == "skill" and encoder is None:
            raise ValueError("a controller of skills needs a skill model's encoder")
        self.references, self.half = references, half
        self.encoder = encoder if command.kind == "skill" else None
        self.anchor: Anchor = "heading"
        if self.encoder is not None:
            steps, self.anchor = self.encoder.steps, self.encoder.windows.anchor
        elif command.kind == "pose":
            steps = torch.ones(1, dtype=torch.long)
        else:
            steps = torch.arange(command.poses)
        self.steps = steps.to(references.device)

    def __call__(
        self, clips: Tensor, frames: Tensor, position: Tensor, quaternion: Tensor
    ) -> Tensor:
        """Sources of robots at frames (n,) of clips (n,) with roots (n, 3), (n, 4)."""
        rows = self.references.rows_at(clips, frames[:, None] + self.steps)
        anchor = self.anchor
        if anchor == "reference":
            # Not the first row: an encoder that sees the context begins before t.
            now = self.references.at(clips, frames).rows
            position, quaternion, anchor = now[:, :3], now[:, 3:7], "heading"
        poses = anchor_poses(rows, position, quaternion, anchor)
        if self.encoder is None:
            return poses.flatten(1)
        if not self.half:
            return self.encoder.encode(poses)
        with torch.autocast(poses.device.type, torch.bfloat16):
            return self.encoder.encode(poses).float()

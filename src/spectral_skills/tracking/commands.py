"""What commands are made of: the reference ahead, as the robots see it.

The same in training and at run time. `skill`: frames t to t + 9, encoded; `joint`: the
window itself, for an encoder inside the controller; `pose`: frame t + 1 alone.
"""

import torch
from torch import Tensor

from spectral_skills.motion.windows import Anchor, anchor_poses
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.joint import CommandConfig
from spectral_skills.tracking.references import References


class CommandSource:
    """From frames of references and the roots of robots to sources (n, s)."""

    def __init__(
        self,
        references: References,
        command: CommandConfig,
        encoder: SkillEncoder | None,
        half: bool = False,
    ):
        """With `half` skills are encoded in bf16, as training on a GPU does."""
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

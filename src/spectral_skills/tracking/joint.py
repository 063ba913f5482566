"""What commands are made of, and an encoder that learns together with the policy.

The encoder is that of the paper's joint variants. It learns by rebuilding a window of
poses from its skill and, if the gradient is let through, from what the policy makes
of the skill.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from spectral_skills.motion.windows import POSE_SIZE
from spectral_skills.skill import bottleneck as bottlenecks
from spectral_skills.skill.bottleneck import BottleneckConfig, Code
from spectral_skills.skill.networks import mlp


@dataclass(frozen=True)
class CommandConfig:
    """What tells the controller what to do."""

    kind: Literal["skill", "pose", "joint"] = "skill"
    """A skill of a frozen encoder, the next reference pose, or a window of poses that
    an encoder of the controller's own makes a skill of."""
    width: int = 64
    """Numbers of a skill."""
    hold: int = 1
    """Control steps for which a command stays."""
    encoder: str = ""
    """Fingerprint of the frozen encoder whose skills these are."""
    adapter: tuple[int, ...] = ()
    """Hidden widths of a network before the controller, which has learned what skill
    of `width` numbers it knew in place of a command (skill, pose); none by default."""
    poses: int = 10
    """Poses of a window (joint)."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden widths of the encoder (joint); its decoder has them in reverse."""
    bottleneck: BottleneckConfig = BottleneckConfig()
    """Of the encoder (joint)."""
    gradient: bool = True
    """Whether the encoder also learns from the policy's gradient (joint)."""

    def __post_init__(self):
        for name in ("width", "hold", "poses"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")
        if self.adapter and self.kind == "joint":
            raise ValueError(
                "an adapter is for skills and poses, these commands are joint"
            )

    @property
    def source_width(self) -> int:
        """Numbers that commands are made of."""
        windows = {"pose": POSE_SIZE, "joint": self.poses * POSE_SIZE}
        return windows.get(self.kind, self.width)


class JointEncoder(nn.Module):
    """From a normalised window (n, w) to a skill, and back."""

    def __init__(self, command: CommandConfig, decodes: bool = True):
        super().__init__()
        window, hidden = command.source_width, command.hidden
        self.bottleneck = bottlenecks.build(command.bottleneck, command.width)
        *body, self.project = mlp((window, *hidden, self.bottleneck.features), nn.ELU)
        self.body, self.decoder = nn.Sequential(*body), None
        if decodes:
            self.decoder = mlp((command.width, *reversed(hidden), window), nn.ELU)

    def forward(self, window: Tensor) -> Code:
        """The same at run time and in training: nothing is drawn."""
        features = self.body(window)
        with torch.autocast(window.device.type, enabled=False):
            # The skill itself keeps its precision whatever the layers compute in.
            features = self.project(features.to(self.project.weight.dtype))
            return self.bottleneck(features)

    def reconstruction(self, window: Tensor, code: Code) -> Tensor:
        """(n,) mean squared error of the window rebuilt from its skill."""
        if self.decoder is None:
            raise ValueError("a released controller has no decoder to learn with")
        rebuilt = self.decoder(code.skill)
        return (rebuilt.float() - window.float()).square().mean(-1)

"""Building blocks of controller and critic: running normalisers, SiLU networks, and an
encoder that learns together with the policy."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills import config as configs
from spectral_skills.distributed import all_reduce_sum
from spectral_skills.motion.windows import POSE_SIZE
from spectral_skills.skill import bottleneck as bottlenecks
from spectral_skills.skill.bottleneck import BottleneckConfig, Code
from spectral_skills.skill.encoder import mlp


def aligned(width: int) -> int:
    """Width of a stored row: a multiple of 16, since such rows multiply faster."""
    return -(-width // 16) * 16


class Normalizer(nn.Module):
    """Subtracts the mean of all values seen and divides by their deviation."""

    floor, limit = 0.01, 10.0
    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, values: Tensor) -> Tensor:
        std = self.variance.sqrt().clamp_min(self.floor)
        return ((values - self.mean) / std).clamp(-self.limit, self.limit)

    def moments(self, values: Tensor) -> Tensor:
        """(2, width): sums over (n, width) of distances from the mean, and squares.

        From the mean and not from zero, so that small deviations survive float32.
        """
        away = values - self.mean
        return torch.stack((away.sum(0), away.square().sum(0)))

    @torch.no_grad()
    def learn(self, moments: Tensor, count: int) -> None:
        """Include `count` values with these moments, and those of other processes."""
        ours = torch.cat((moments.double().flatten(), self.count.new_tensor([count])))
        whole = all_reduce_sum(ours)
        added = whole[-1]
        shift, square = (whole[:-1] / added).view(2, -1)
        total = self.count + added
        share = added / total  # of the new values among all
        # Variance of a mixture: within both parts, and between their means.
        within = (1 - share) * self.variance + share * (square - shift.square())
        between = share * (1 - share) * shift.square()
        self.variance.copy_((within + between).clamp_min(0))
        self.mean.add_(share * shift)
        self.count.copy_(total)

    def update(self, values: Tensor) -> None:
        """Include values (n, width), and those of other processes."""
        self.learn(self.moments(values.double()), len(values))


class Network(nn.Module):
    """SiLU layers. The last computes in float32: the error of a mean in bf16 would be a
    large share of a small deviation, and log-probabilities would be noise."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, last: float):
        super().__init__()
        self.first = nn.Linear(inputs, hidden[0])
        pairs = zip(hidden[:-1], hidden[1:], strict=True)
        inner = [layer for a, b in pairs for layer in (nn.Linear(a, b), nn.SiLU())]
        self.body = nn.Sequential(nn.SiLU(), *inner)
        self.project = nn.Linear(hidden[-1], outputs)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        nn.init.normal_(self.project.weight, std=last / hidden[-1] ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs for inputs (n, w), which may be padded with columns of zeros."""
        more, weight = x.shape[-1] - self.first.in_features, self.first.weight
        if more:  # only then, since padding copies the weight
            weight = functional.pad(weight, (0, more))
        h = self.body(functional.linear(x, weight, self.first.bias))
        if h.dtype == self.project.weight.dtype:
            return self.project(h)
        with torch.autocast(x.device.type, enabled=False):
            return self.project(h.to(self.project.weight.dtype))


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


class JointEncoder(nn.Module):
    """The encoder of the paper's joint variants: a normalised window (n, w) to a skill.

    It learns by reconstructing the window and, if allowed, from the policy's gradient.
    """

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
        """(n,) mean squared error of the window reconstructed from its skill."""
        if self.decoder is None:
            raise ValueError("a released controller has no decoder to learn with")
        rebuilt = self.decoder(code.skill)
        return (rebuilt.float() - window.float()).square().mean(-1)

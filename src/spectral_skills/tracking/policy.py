"""The controller, from history and command to an action.

    controller = Controller.load("base")
    action = controller.act(history, source, phase)

The `source` of a command is the skill itself, a reference pose, or a window of poses
that an encoder inside the controller turns into a skill.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills import artifact
from spectral_skills import config as configs
from spectral_skills.artifact import Provenance
from spectral_skills.distributed import all_reduce_sum
from spectral_skills.robot import g1
from spectral_skills.skill import bottleneck as bottlenecks
from spectral_skills.skill.bottleneck import Code
from spectral_skills.skill.encoder import mlp
from spectral_skills.tracking.observations import HISTORY, PROPRIO
from spectral_skills.tracking.references import CommandConfig

KIND = "controller"
PHASE = 2


@dataclass(frozen=True)
class ControllerConfig:
    """A controller and its critic."""

    hidden: tuple[int, ...] = (2048, 2048, 1024, 1024, 512, 512)
    command: CommandConfig = CommandConfig()
    init_std: float = 0.5
    """Deviation of actions at the start."""
    min_std: float | None = 0.02
    """Least deviation; None lets deviations shrink freely."""
    max_std: float | None = 1.0
    bounds: tuple[float, ...] = ()
    """Largest size of each action: b tanh(x / b) of the network's output x. Without
    bounds, actions are the network's outputs."""
    reach: float = 1.0
    """How far beyond their limits joints may be asked to go, in units of action, each a
    quarter of a motor's effort."""
    critic_hidden: tuple[int, ...] = (2048, 2048, 1024, 1024, 512, 512)
    critic_command: bool = False
    """Whether the critic also sees command and phase, as the controller does."""
    history: int = HISTORY
    """Number of newest frames of the history that the controller sees."""
    proprio: int = PROPRIO
    actions: int = g1.NUM_JOINTS
    released: bool = False
    """Whether the parts that only training needs were omitted."""
    smoothing: float = 0.0
    """Share of the last action that stays in the next one: actions are smoother and a
    little late."""

    def __post_init__(self):
        smooth = 0 <= self.smoothing < 1
        configs.require(self, "smoothing", smooth, "at least 0 and below 1")
        within = 0 <= self.reach <= g1.MOST_REACH
        configs.require(self, "reach", within, f"0 to {g1.MOST_REACH:g}")
        low, high = self.std_limits
        if not 0 < low <= self.init_std <= high:
            raise ValueError(
                f"init_std {self.init_std} is not between min_std {self.min_std} "
                f"and max_std {self.max_std}, all above zero"
            )
        inside = 1 <= self.history <= HISTORY
        configs.require(self, "history", inside, f"1 to {HISTORY}")
        bounds, count = self.bounds, self.actions
        if bounds and (len(bounds) != count or not min(bounds) > 0):
            raise ValueError(f"bounds are {bounds}, must be {count} numbers above 0")

    @property
    def std_limits(self) -> tuple[float, float]:
        """Least and greatest deviation; the widest possible where they are free."""
        low = math.ulp(0.0) if self.min_std is None else self.min_std
        return low, math.inf if self.max_std is None else self.max_std


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
        """(2, width): sums over (n, width) of distances from the mean (not from zero:
        small deviations would not survive float32), and of their squares."""
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


class Controller(nn.Module):
    """History, command and phase to the mean of an action; deviations are learned."""

    bounds: Tensor | None

    def __init__(self, config: ControllerConfig):
        super().__init__()
        self.config, command = config, config.command
        self.history_width = config.history * config.proprio
        self._command_end = self.history_width + command.source_width
        self.input_width = self._command_end + PHASE
        self.proprio = Normalizer(config.proprio)
        """One for all frames of the history, which hold the same quantities."""
        self.source = self.joint = self.adapter = None
        width = command.source_width
        if command.kind != "skill":
            self.source = Normalizer(width)
        if command.adapter:
            self.adapter = mlp((width, *command.adapter, command.width))
            width = command.width
        if command.kind == "joint":
            width = command.width
            self.joint = JointEncoder(command, decodes=not config.released)
        width += self.history_width + PHASE
        # A small last layer: actions begin near zero, the default pose.
        self.network = Network(width, config.hidden, config.actions, 0.01)
        low, high = config.std_limits
        self._log_limits = math.log(low), math.log(high)
        log_std = torch.full((config.actions,), math.log(config.init_std))
        self.log_std = nn.Parameter(log_std)
        bounds = torch.tensor(config.bounds) if config.bounds else None
        self.register_buffer("bounds", bounds, persistent=False)

    @property
    def std(self) -> Tensor:
        return self.log_std.clamp(*self._log_limits).exp()

    @torch.no_grad()
    def limit_std(self) -> None:
        """Return deviations to their limits, beyond which they cannot learn."""
        self.log_std.clamp_(*self._log_limits)

    def inputs(self, history: Tensor, source: Tensor, phase: Tensor) -> Tensor:
        """The network's input (n, 930 + s + 2); skills and phase are not normalised."""
        frames = self.proprio(history[:, -self.config.history :]).flatten(1)
        source = source if self.source is None else self.source(source)
        return torch.cat((frames, source, phase), dim=-1)

    def command_of(self, inputs: Tensor) -> Tensor:
        """The command and its phase (n, s + 2) in the inputs."""
        return inputs[:, self.history_width : self.input_width]

    def encode(self, inputs: Tensor) -> tuple[Tensor, Code] | None:
        """The window in the inputs and its code, for a joint encoder."""
        if self.joint is None:
            return None
        window = inputs[:, self.history_width : self._command_end]
        return window, self.joint(window)

    def mean(self, inputs: Tensor, encoded: tuple[Tensor, Code] | None) -> Tensor:
        """Mean actions (n, 29) of inputs and what `encode` returned for them."""
        action = self.unlimited(inputs, encoded)
        if self.bounds is None:
            return action
        return self.bounds * torch.tanh(action / self.bounds)

    def unlimited(
        self, inputs: Tensor, encoded: tuple[Tensor, Code] | None = None
    ) -> Tensor:
        """Mean actions (n, 29) before bounds are applied."""
        start, end, skill = self.history_width, self._command_end, None
        if encoded is not None:
            skill = encoded[1].skill
            skill = skill if self.config.command.gradient else skill.detach()
        elif self.adapter is not None:
            skill = self.adapter(inputs[:, start:end])
        if skill is not None:
            skill = skill.to(inputs.dtype)
            inputs = torch.cat((inputs[:, :start], skill, inputs[:, end:]), dim=-1)
        return self.network(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.mean(inputs, self.encode(inputs))

    @torch.no_grad()
    def act(self, history: Tensor, source: Tensor, phase: Tensor) -> Tensor:
        """Mean actions (n, 29), as at run time."""
        return self.smoothed(self(self.inputs(history, source, phase)), history)

    def smoothed(self, action: Tensor, history: Tensor) -> Tensor:
        """Actions (n, 29) moved towards the last ones, which a history ends with."""
        share = self.config.smoothing
        last = history[:, -1, -self.config.actions :]
        return torch.lerp(action, last, share) if share else action

    def weights(self, critic: dict[str, Tensor]) -> dict[str, Tensor]:
        return self.state_dict() | {f"critic.{k}": v for k, v in critic.items()}

    def save(
        self, folder: Path, provenance: Provenance, critic: dict[str, Tensor]
    ) -> None:
        artifact.save(folder, self.config, self.weights(critic), provenance)

    def release(self, folder: Path, provenance: Provenance) -> None:
        """Write what run time needs, in bf16 shards; statistics stay exact."""
        exact = {"log_std", *(name for name, _ in self.named_buffers())}
        state, config = self.state_dict(), replace(self.config, released=True)
        weights = {k: v for k, v in state.items() if "joint.decoder." not in k}
        artifact.release(folder, config, weights, exact, provenance)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str = "cpu",
        smoothing: float | None = None,
    ) -> "Controller":
        """Read a controller: `base`, its folder, or the folder of its run."""
        config, weights = read(folder)
        if smoothing is not None:
            config = replace(config, smoothing=smoothing)
        controller = cls(config)
        ours = {k: v for k, v in weights.items() if not k.startswith("critic.")}
        artifact.fill(controller, ours, folder)
        return controller.to(device).eval()


def read(folder: Path | str) -> tuple[ControllerConfig, dict[str, Tensor]]:
    """Configuration and weights of a controller, those of its critic among them."""
    config, weights = artifact.load(folder, ControllerConfig, KIND)
    for name, known in (("proprio", PROPRIO), ("actions", g1.NUM_JOINTS)):
        if getattr(config, name) != known:
            raise ValueError(
                f"{folder}: a controller with {name} of {getattr(config, name)} "
                f"numbers; this robot's have {known}"
            )
    return config, weights

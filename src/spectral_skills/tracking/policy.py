"""The controller, from history and command to an action, and the critic beside it.

A controller is one folder on disk; `Controller.load(folder)` is all a user needs:

    controller = Controller.load("base")
    action = controller.act(history, source, phase)

What commands come from, `source`, is the skill itself, a reference pose, or a window
of poses that an encoder inside the controller turns into a skill.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills import artifact
from spectral_skills.artifact import Provenance
from spectral_skills.robot import g1
from spectral_skills.skill.bottleneck import Code
from spectral_skills.skill.model import SHARD_BYTES, place
from spectral_skills.skill.networks import mlp
from spectral_skills.tracking.networks import (
    CommandConfig,
    JointEncoder,
    Network,
    Normalizer,
    aligned,
)
from spectral_skills.tracking.observations import CRITIC, HISTORY, PROPRIO

KIND = "controller"
PHASE = 2


@dataclass(frozen=True)
class ControllerConfig:
    """A controller and its critic, whole."""

    hidden: tuple[int, ...] = (2048, 2048, 1024, 1024, 512, 512)
    command: CommandConfig = CommandConfig()
    init_std: float = 0.5
    """Of actions, at the start."""
    min_std: float | None = 0.02
    """None leaves deviations free to shrink, or to grow."""
    max_std: float | None = 1.0
    bounds: tuple[float, ...] = ()
    """How far each action can go from zero: b tanh(x / b) of the network's x. Without
    them actions are the network's outputs."""
    critic_hidden: tuple[int, ...] = (2048, 2048, 1024, 1024, 512, 512)
    critic_command: bool = False
    """Whether the critic also sees command and phase, as the controller does."""
    history: int = HISTORY
    """Newest frames of the history that the controller sees."""
    proprio: int = PROPRIO
    actions: int = g1.NUM_JOINTS
    released: bool = False
    """Whether what only training needs was left away."""

    def __post_init__(self):
        low, high = self.std_limits
        if not 0 < low <= self.init_std <= high:
            raise ValueError(
                f"init_std {self.init_std} is not between min_std {self.min_std} "
                f"and max_std {self.max_std}, all above zero"
            )
        if not 1 <= self.history <= HISTORY:
            raise ValueError(f"history is {self.history}, must be 1 to {HISTORY}")
        if self.bounds and (
            len(self.bounds) != self.actions or not min(self.bounds) > 0
        ):
            raise ValueError(
                f"bounds are {self.bounds}, must be {self.actions} numbers above 0"
            )

    @property
    def std_limits(self) -> tuple[float, float]:
        """Least and greatest deviation; where free, what no deviation comes to."""
        low = math.ulp(0.0) if self.min_std is None else self.min_std
        return low, math.inf if self.max_std is None else self.max_std


class Controller(nn.Module):
    """History, command and phase to the mean of an action; deviations are learned."""

    bounds: Tensor | None

    def __init__(self, config: ControllerConfig):
        super().__init__()
        self.config, command = config, config.command
        self.history_width = config.history * config.proprio
        self.input_width = self.history_width + command.source_width + PHASE
        self.proprio = Normalizer(config.proprio)
        """One for all frames of the history: they are the same quantities."""
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
        # Last layer: actions begin near zero, the default pose.
        self.network = Network(
            self.history_width + width + PHASE, config.hidden, config.actions, 0.01
        )
        low, high = config.std_limits
        self._log_limits = math.log(low), math.log(high)
        log_std = torch.full((config.actions,), math.log(config.init_std))
        self.log_std = nn.Parameter(log_std)
        bounds = torch.tensor(config.bounds) if config.bounds else None
        self.register_buffer("bounds", bounds, persistent=False)

    @property
    def std(self) -> Tensor:
        """(29,) deviations of actions."""
        return self.log_std.clamp(*self._log_limits).exp()

    @torch.no_grad()
    def limit_std(self) -> None:
        """Bring the deviations back to their limits, beyond which they cannot learn."""
        self.log_std.clamp_(*self._log_limits)

    def inputs(self, history: Tensor, source: Tensor, phase: Tensor) -> Tensor:
        """What the network sees (n, 930 + s + 2); skills and phase stay as they are."""
        frames = self.proprio(history[:, -self.config.history :]).flatten(1)
        source = source if self.source is None else self.source(source)
        return torch.cat((frames, source, phase), dim=-1)

    def told(self, inputs: Tensor) -> Tensor:
        """The command and its phase (n, s + 2) among the inputs."""
        return inputs[:, self.history_width : self.input_width]

    def encode(self, inputs: Tensor) -> tuple[Tensor, Code] | None:
        """The window among the inputs and its code, if the encoder is our own."""
        if self.joint is None:
            return None
        end = self.history_width + self.config.command.source_width
        window = inputs[:, self.history_width : end]
        return window, self.joint(window)

    def mean(self, inputs: Tensor, code: Code | None) -> Tensor:
        """Mean actions (n, 29) of inputs whose window has that code."""
        action = self.unlimited(inputs, code)
        if self.bounds is None:
            return action
        return self.bounds * torch.tanh(action / self.bounds)

    def unlimited(self, inputs: Tensor, code: Code | None = None) -> Tensor:
        """Mean actions (n, 29) before their bounds."""
        end = self.history_width + self.config.command.source_width
        skill = None
        if code is not None:
            gradient = self.config.command.gradient
            skill = code.skill if gradient else code.skill.detach()
        elif self.adapter is not None:
            skill = self.adapter(inputs[:, self.history_width : end])
        if skill is not None:
            before, after = inputs[:, : self.history_width], inputs[:, end:]
            inputs = torch.cat((before, skill.to(inputs.dtype), after), dim=-1)
        return self.network(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Mean actions (n, 29)."""
        encoded = self.encode(inputs)
        return self.mean(inputs, None if encoded is None else encoded[1])

    @torch.no_grad()
    def act(self, history: Tensor, source: Tensor, phase: Tensor) -> Tensor:
        """Mean actions (n, 29), as at run time."""
        return self(self.inputs(history, source, phase))

    def weights(self, critic: dict[str, Tensor]) -> dict[str, Tensor]:
        """All that a folder holds."""
        return self.state_dict() | {f"critic.{k}": v for k, v in critic.items()}

    def save(
        self, folder: Path, provenance: Provenance, critic: dict[str, Tensor]
    ) -> None:
        """Write controller, critic, statistics and config."""
        artifact.save(folder, self.config, self.weights(critic), provenance)

    def release(self, folder: Path, provenance: Provenance) -> None:
        """Write what run time needs, in bf16 shards; statistics stay as they are."""
        exact = {"log_std", *(name for name, _ in self.named_buffers())}
        weights = {
            name: value if name in exact else value.to(torch.bfloat16)
            for name, value in self.state_dict().items()
            if not name.startswith("joint.decoder.")
        }
        config = replace(self.config, released=True)
        artifact.save(folder, config, weights, provenance, SHARD_BYTES)

    @classmethod
    def load(
        cls, folder: Path | str, device: torch.device | str = "cpu"
    ) -> "Controller":
        """Read a controller: a released one by its name, else from its folder or the
        run folder it lies in."""
        config, weights = _read(folder)
        ours = {
            name: value.float() if value.is_floating_point() else value
            for name, value in weights.items()
            if not name.startswith("critic.")
        }
        controller = cls(config)
        try:
            controller.load_state_dict(ours)
        except RuntimeError as error:
            raise ValueError(
                f"{folder}: weights do not fit config.json: {error}"
            ) from None
        return controller.to(device).eval()


class Critic(nn.Module):
    """What the rest of an episode is worth, from all that a simulator knows."""

    def __init__(self, config: ControllerConfig):
        super().__init__()
        self.normalizer = Normalizer(CRITIC)
        self.sees_command, self.input_width = config.critic_command, CRITIC
        if self.sees_command:
            self.input_width += config.command.source_width + PHASE
        self.network = Network(self.input_width, config.critic_hidden, 1, 1.0)

    def inputs(self, critic: Tensor, told: Tensor | None = None) -> Tensor:
        """What the network sees (n, 286), or (n, 286 + s + 2) with what the controller
        is told."""
        seen = self.normalizer(critic)
        if not self.sees_command:
            return seen
        if told is None:
            raise ValueError("this critic needs what the controller is told")
        return torch.cat((seen, told), dim=-1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Values (n,)."""
        return self.network(inputs).squeeze(-1)


def critic_weights(folder: Path | str) -> dict[str, Tensor]:
    """The critic beside a controller; none where it was released without."""
    _, weights = _read(folder)
    found = {k: v for k, v in weights.items() if k.startswith("critic.")}
    return {k.removeprefix("critic."): v for k, v in found.items()}


def _read(folder: Path | str) -> tuple[ControllerConfig, dict[str, Tensor]]:
    folder = place(folder, KIND)
    kind = artifact.load_provenance(folder).kind
    if kind != KIND:
        raise ValueError(f"{folder}: a {kind} model, not a {KIND} model")
    config, weights = artifact.load(folder, ControllerConfig)
    for name, known in (("proprio", PROPRIO), ("actions", g1.NUM_JOINTS)):
        if getattr(config, name) != known:
            raise ValueError(
                f"{folder}: a controller with {name} of {getattr(config, name)} "
                f"numbers; this robot's have {known}"
            )
    return config, weights


# Twin critics of the off-policy learner: what an action is worth, as distributions.
#
# Each critic spreads its belief over fixed values, the atoms; what an action is worth
# is the mean of that belief. Two of them learn from the same rows and begin
# differently, and are computed as one network with a leading axis of 2.


class _TwinLayer(nn.Module):
    """Two linear layers side by side: (2, n, a) to (2, n, b)."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        bound = inputs**-0.5  # as nn.Linear begins
        self.weight = nn.Parameter(torch.empty(2, inputs, outputs).uniform_(-1, 1))
        self.weight.data.mul_(bound)
        self.bias = nn.Parameter(torch.zeros(2, 1, outputs))

    def forward(self, x: Tensor, frozen: bool) -> Tensor:
        weight, bias = self.weight, self.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return torch.baddbmm(bias.to(x.dtype), x, weight.to(x.dtype))


class TwinCritic(nn.Module):
    """Two beliefs about the rest of an episode, of states and actions."""

    support: Tensor

    def __init__(
        self, config: ControllerConfig, atoms: int, value_range: tuple[float, float]
    ):
        super().__init__()
        self.normalizer = Normalizer(CRITIC)
        self.input_width = CRITIC + config.command.source_width + PHASE
        self.state_width = aligned(self.input_width)
        self.action_width = aligned(config.actions)
        widths = (self.state_width + self.action_width, *config.critic_hidden)
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        self.layers = nn.ModuleList(_TwinLayer(a, b) for a, b in pairs)
        self.norms = nn.ParameterList(
            torch.stack((torch.ones(2, 1, b), torch.zeros(2, 1, b))) for _, b in pairs
        )
        self.last = _TwinLayer(widths[-1], atoms)
        low, high = value_range
        self.register_buffer("support", torch.linspace(low, high, atoms))

    def inputs(self, critic: Tensor, told: Tensor) -> Tensor:
        """A state (n, w): all a simulator knows, and what the controller is told."""
        return torch.cat((self.normalizer(critic), told), dim=-1)

    def forward(self, states: Tensor, actions: Tensor, frozen: bool = False) -> Tensor:
        """Logits (2, n, atoms) of states that were padded (n, state_width). With
        `frozen` gradients reach the actions alone."""
        more = self.action_width - actions.shape[-1]
        actions = functional.pad(actions, (0, more)).to(states.dtype)
        x = torch.cat((states, actions), dim=-1).expand(2, -1, -1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            scale, shift = (norm.detach() if frozen else norm).unbind()
            x = layer(x, frozen)
            h = functional.layer_norm(x.float(), x.shape[-1:]) * scale + shift
            x = functional.silu(h).to(x.dtype)
        return self.last(x, frozen).float()

    def values(self, logits: Tensor) -> Tensor:
        """Means (...,) of beliefs (..., atoms)."""
        return logits.softmax(dim=-1) @ self.support


def value_range(most: float, gamma: float) -> tuple[float, float]:
    """The least and the greatest value an episode may have, where a step pays at most
    `most`. With room above, since a belief has some width, and below for penalties."""
    ceiling = most / (1 - gamma)
    return -0.2 * ceiling, 1.2 * ceiling


def project(
    belief: Tensor, support: Tensor, returns: Tensor, discounts: Tensor
) -> Tensor:
    """The belief (n, atoms) about R + g Z, where `belief` is that about Z.

    Every atom moves to R + g z, and is shared by the two atoms it then lies between;
    what lies beyond the ends is put on them.
    """
    low, high, count = support[0], support[-1], len(support)
    moved = returns[:, None] + discounts[:, None] * support
    place = (moved.clamp(low, high) - low) * ((count - 1) / (high - low))
    atoms = torch.arange(count, device=support.device)
    share = (1 - (place[:, :, None] - atoms).abs()).clamp_min(0)
    return (belief[:, :, None] * share).sum(dim=1)

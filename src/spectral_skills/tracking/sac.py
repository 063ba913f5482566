"""Off-policy learning: soft actor-critic with twin distributional critics.

Every transition is learned from many times. One iteration:

    steps = learner.collect(env)          # a few control steps, into the replay memory
    losses = learner.update(steps, 0.5)   # for each of them, some updates of old rows

An update of the critics draws rows from the memory, asks the actor what it would do in
the later states, and moves the belief about each row's action towards the return plus
what the later state is believed to be worth. An update of the actor follows the
critics' gradient with respect to the action. Actions are Gaussian, squashed to the
controller's bounds; a temperature holds their entropy near that of a chosen deviation.

On a GPU all updates of a control step are one captured graph: nothing waits for the
host, and nothing is launched by it.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from spectral_skills.skill import distributed
from spectral_skills.skill.run_folder import load_optimizer, optimizer_tensors
from spectral_skills.tracking.learner import all_finite, over_ranks, part, start_alike
from spectral_skills.tracking.networks import Normalizer
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.replay import Batch, Replay
from spectral_skills.tracking.rollouts import Environment, precision
from spectral_skills.tracking.values import TwinCritic, aligned, project


@dataclass(frozen=True)
class SACConfig:
    """How the controller learns from what was kept."""

    steps: int = 8
    """Control steps of an iteration."""
    memory: int = 384
    """Control steps of every robot that are kept."""
    warmup: int = 24
    """Control steps before anything is learned, also after a restart."""
    critic_warmup: int = 0
    """Iterations at the start in which only the critics learn."""
    updates: int = 8
    """Updates of the critics for every control step."""
    actor_every: int = 2
    """The actor is updated with every so-manieth of them."""
    batch: int = 8192
    """Rows of an update, over all processes."""
    n_step: int = 3
    """Steps of a row's return."""
    gamma: float = 0.97
    target_rate: float = 0.02
    """Share by which the slow critics follow in an update."""
    learning_rate: float = 3e-4
    learning_rate_end: float = 1.5e-4
    """Rates fall to this along a cosine."""
    weight_decay: float = 1e-3
    clip_norm: float = 10.0
    atoms: int = 101
    twins: Literal["mean", "minimum"] = "mean"
    """What two critics together say."""
    entropy_std: float = 0.15
    """The temperature holds the entropy near that of this deviation of every action."""
    temperature: float = 1e-3
    """At first."""
    temperature_limits: tuple[float, float] = (1e-5, 5e-3)
    keep_noise: float = 0.0
    """Probability that a robot's noise stays as it is for another step."""

    def __post_init__(self):
        names = ("steps", "warmup", "updates", "actor_every", "batch", "n_step")
        for name in names:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")
        if self.memory <= self.n_step or self.warmup <= self.n_step:
            raise ValueError(
                f"memory {self.memory} and warmup {self.warmup} must be longer than "
                f"the {self.n_step} steps of a return"
            )
        if self.atoms < 2:
            raise ValueError(f"atoms is {self.atoms}, must be at least 2")


def value_range(most: float, gamma: float) -> tuple[float, float]:
    """The least and the greatest value an episode may have, where a step pays at most
    `most`. With room above, since a belief has some width, and below for penalties."""
    ceiling = most / (1 - gamma)
    return -0.2 * ceiling, 1.2 * ceiling


def squash(
    mean: Tensor, std: Tensor, noise: Tensor, bounds: Tensor
) -> tuple[Tensor, Tensor]:
    """Actions within their bounds (n, 29), and their log-probabilities (n,).

    a = b tanh(u / b) with u = m + s e, so log p(a) = log N(u; m, s) - log |da/du|.
    """
    scaled = (mean + std * noise) / bounds
    gaussian = -(noise.square() / 2 + std.log() + 0.5 * math.log(2 * math.pi))
    # da/du = 1 - tanh^2(x) = 4 / (e^x + e^-x)^2, in a form that does not overflow.
    slope = 2 * (math.log(2) - scaled - functional.softplus(-2 * scaled))
    return bounds * scaled.tanh(), (gaussian - slope).sum(-1)


class SACLearner:
    """Actor, twin critics, their slow copies, and the replay memory."""

    def __init__(
        self,
        config: SACConfig,
        controller: Controller,
        critic: TwinCritic,
        device: torch.device | str,
        compiled: bool = False,
    ):
        if controller.config.released:
            raise ValueError("a released controller lacks what training needs")
        if controller.bounds is None or controller.joint is not None:
            raise ValueError(
                "off-policy learning needs actions with bounds (--controller.bounds), "
                "and no encoder that learns with the policy"
            )
        self.config, self.device = config, torch.device(device)
        self.controller = controller.to(device).train()
        self.critic = critic.to(device).train()
        start_alike([controller, critic])
        self.slow_critic = deepcopy(critic).requires_grad_(False)
        self.iterations = 0
        self.rate = torch.tensor(config.learning_rate, device=device)
        self.log_temperature = nn.Parameter(
            torch.tensor(math.log(config.temperature), device=device)
        )
        # Entropy of a Gaussian of that deviation.
        single = math.log(config.entropy_std) + 0.5 * math.log(2 * math.pi * math.e)
        self.entropy_target = controller.config.actions * single
        layers = [*controller.network.parameters()]
        if controller.adapter is not None:
            layers += controller.adapter.parameters()
        self._actor = [*layers, controller.log_std]
        self._critic = [*critic.parameters()]
        decay, cuda = config.weight_decay, self.device.type == "cuda"
        shared = {"lr": self.rate, "betas": (0.9, 0.95), "fused": True}
        shared |= {"capturable": cuda}
        free = [controller.log_std, self.log_temperature]
        groups = [
            {"params": layers, "weight_decay": decay},
            {"params": free, "weight_decay": 0.0},
        ]
        self.actor_optimizer = torch.optim.AdamW(groups, **shared)
        self.critic_optimizer = torch.optim.AdamW(
            self._critic, weight_decay=decay, **shared
        )
        self.replay: Replay | None = None
        self._noise = torch.zeros(0, device=device)
        self._last = torch.zeros((), device=device)
        self._half = torch.bfloat16 if cuda else torch.float32
        self.normalizers: list[Normalizer] = [controller.proprio, critic.normalizer]
        if controller.source is not None:
            self.normalizers.insert(1, controller.source)
        self._captures = compiled and cuda and distributed.world_size() == 1
        self._replay_updates: Callable[[], Tensor] | None = None
        self._act, self._sample = self._choose, self._draw
        self._critic_loss, self._actor_loss = self.critic_loss, self.actor_loss
        if compiled:
            self._act = torch.compile(self._act, dynamic=False)
            self._sample = torch.compile(self._sample, dynamic=False)
            self._critic_loss = torch.compile(self._critic_loss, dynamic=False)
            self._actor_loss = torch.compile(self._actor_loss, dynamic=False)

    # Acting.

    @torch.no_grad()
    def collect(self, env: Environment) -> int:
        """Let the robots act, and keep it; gives the number of steps."""
        robots = len(env.observation.phase)
        if self.replay is None or self.replay.robots != robots:
            self._allocate(robots)
        assert self.replay is not None
        total: Tensor | None = None
        for _ in range(self.config.steps):
            with precision(self.device):
                inputs, states, action, self._noise, moments = self._act(
                    env.observation, self._noise
                )
            self.replay.before(inputs, states, action)
            self.replay.after(*env.step(action))
            total = moments if total is None else total + moments
        assert total is not None
        widths = [normalizer.width for normalizer in self.normalizers]
        parts = total.split(widths, dim=1)
        count = robots * self.config.steps
        for normalizer, moments in zip(self.normalizers, parts, strict=True):
            normalizer.learn(moments, count)
        return self.config.steps

    def _choose(self, observation: Observation, noise: Tensor) -> tuple[Tensor, ...]:
        """Inputs as they are kept, actions, their noise, sums for the normalisers."""
        history, source, phase, privileged = observation
        inputs = self.controller.inputs(history, source, phase)
        states = self.critic.inputs(privileged, inputs[:, -self._command_width :])
        kept = torch.rand_like(noise[:, :1]) < self.config.keep_noise
        noise = torch.where(kept, noise, torch.randn_like(noise))
        mean = self.controller.unlimited(inputs)
        assert self.controller.bounds is not None
        action, _ = squash(mean, self.controller.std, noise, self.controller.bounds)
        raw = [history[:, -1], privileged]
        if self.controller.source is not None:
            raw.insert(1, source)
        pairs = zip(self.normalizers, raw, strict=True)
        moments = torch.cat([n.moments(values) for n, values in pairs], dim=1)
        more = self._input_width - inputs.shape[-1]
        inputs = functional.pad(inputs, (0, more)).to(self._half)
        return inputs, states.to(self._half), action.float(), noise, moments.double()

    @property
    def _input_width(self) -> int:
        return aligned(self.controller.input_width)

    @property
    def _command_width(self) -> int:
        return self.controller.input_width - self.controller.history_width

    def _allocate(self, robots: int) -> None:
        actions = self.controller.config.actions
        widths = self._input_width, self.critic.state_width, actions
        self.replay = Replay(
            self.config.memory, robots, widths, self.device, self._half
        )
        self._noise = torch.randn((robots, actions), device=self.device)
        self._replay_updates = None

    # Learning.

    def update(self, steps: int, progress: float) -> dict[str, Tensor]:
        """Learn from old rows, once a step; `progress` is 0 to 1."""
        config = self.config
        assert self.replay is not None
        first, last = config.learning_rate, config.learning_rate_end
        share = 0.5 + 0.5 * math.cos(math.pi * progress)
        self.rate.fill_(last + share * (first - last))
        if self.iterations == config.critic_warmup:
            self._replay_updates = None  # what was captured leaves the actor alone
        if self.replay.count >= config.warmup:
            for _ in range(steps):
                self._last = self._learn()
        self.iterations += 1
        found = self._last if self._last.ndim else self._last.expand(len(FIGURES))
        found = dict(zip(FIGURES, over_ranks(found).unbind(), strict=True))
        return found | {
            "actor_lr": self.rate.clone(),
            "std": self.controller.std.detach().mean(),
            "temperature": self.log_temperature.detach().exp(),
        }

    def _learn(self) -> Tensor:
        """All updates that follow a control step; captured at the first call."""
        if not self._captures:
            return self._updates()
        if self._replay_updates is None:
            self._replay_updates = _captured(self._updates)
        return self._replay_updates()

    def _updates(self) -> Tensor:
        """Updates of critics and actor from rows that are drawn once for all."""
        config, actor_learns = self.config, self.iterations >= self.config.critic_warmup
        size = config.batch // distributed.world_size()
        drawn = self._sample(size * config.updates)
        figures: list[Tensor] = []
        actor_figures = torch.zeros(len(ACTOR_FIGURES), device=self.device)
        for number in range(config.updates):
            rows = slice(number * size, (number + 1) * size)
            batch = Batch(*(values[rows] for values in drawn))
            figures.append(self._critic_step(batch))
            if actor_learns and (number + 1) % config.actor_every == 0:
                actor_figures = self._actor_step(batch)
            slow, fast = self.slow_critic.parameters(), self.critic.parameters()
            with torch.no_grad():
                torch._foreach_lerp_(  # pyright: ignore
                    [*slow], [*fast], config.target_rate
                )
        return torch.cat((torch.stack(figures).mean(0), actor_figures))

    @torch.no_grad()
    def _draw(self, size: int) -> Batch:
        assert self.replay is not None
        return self.replay.sample(size, self.config.n_step, self.config.gamma)

    def _critic_step(self, batch: Batch) -> Tensor:
        with precision(self.device):
            loss, figures = self._critic_loss(batch)
        loss.backward()
        norm = self._descend(self.critic_optimizer, self._critic)
        return torch.cat((figures, norm[None]))

    def _actor_step(self, batch: Batch) -> Tensor:
        with precision(self.device):
            loss, figures = self._actor_loss(batch.inputs, batch.states)
        loss.backward()
        distributed.average_gradients([self.log_temperature])
        norm = self._descend(self.actor_optimizer, self._actor)
        self.controller.limit_std()
        low, high = (math.log(limit) for limit in self.config.temperature_limits)
        with torch.no_grad():
            self.log_temperature.clamp_(low, high)
        return torch.cat((figures, norm[None]))

    def _descend(
        self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
    ) -> Tensor:
        """One step along the gradients; their norm before it."""
        distributed.average_gradients(parameters)
        norm = clip_grad_norm_(parameters, self.config.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return norm.detach()

    def draw_action(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (n, 29) drawn for stored inputs, and their log-probabilities (n,)."""
        mean = self.controller.unlimited(inputs)
        assert self.controller.bounds is not None
        noise = torch.randn_like(mean)
        return squash(mean, self.controller.std, noise, self.controller.bounds)

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of both beliefs with the later state's, moved by the return."""
        support = self.critic.support
        with torch.no_grad():
            action, likely = self.draw_action(batch.later_inputs)
            logits = self.slow_critic(batch.later_states, action)
            belief = self._together(logits.softmax(dim=-1))
            # Z of the later state counts its entropy: R + g (Z - t log p).
            bonus = -self.log_temperature.exp() * likely
            returns = batch.returns + batch.discounts * bonus
            goal = project(belief, support, returns, batch.discounts)
        logits = self.critic(batch.states, batch.actions)
        cross = -(goal * logits.log_softmax(dim=-1)).sum(-1).mean(0)
        loss = (batch.weights * cross).sum() / batch.weights.sum().clamp_min(1)
        ends = goal[:, 0].mean() + goal[:, -1].mean()
        figures = torch.stack((loss, (goal @ support).mean(), ends))
        return 2 * loss, figures.detach()

    def _together(self, beliefs: Tensor) -> Tensor:
        """What two beliefs (2, n, atoms) say together."""
        if self.config.twins == "mean":
            return beliefs.mean(0)
        low, high = (beliefs @ self.critic.support).unbind()
        return torch.where((low < high)[:, None], beliefs[0], beliefs[1])

    def actor_loss(self, inputs: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """t log p(a) - Q(s, a) of actions drawn anew, and the temperature's loss."""
        action, likely = self.draw_action(inputs)
        values = self.critic.values(self.critic(states, action, frozen=True))
        value = values.mean(0) if self.config.twins == "mean" else values.amin(0)
        temperature = self.log_temperature.exp()
        loss = (temperature.detach() * likely - value).mean()
        entropy = -likely.mean()
        # Rises while the entropy is below its target.
        balance = temperature * (entropy.detach() - self.entropy_target)
        return loss + balance, torch.stack((-value.mean(), entropy)).detach()

    # Keeping.

    def finite(self) -> bool:
        """Whether weights, statistics and last losses are numbers; waits for them."""
        return all_finite([self.controller, self.critic], self._last)

    def tensors(self) -> dict[str, Tensor]:
        """All that changes during training but the memory, which fills again."""
        tensors = {
            f"{name}.{k}": v
            for name, module in self._modules().items()
            for k, v in module.state_dict().items()
        }
        for name, optimizer in self._optimizers().items():
            state = optimizer_tensors(optimizer)
            tensors |= {f"{name}_{k}": v for k, v in state.items()}
        counted = torch.tensor(self.iterations)
        return tensors | {
            "log_temperature": self.log_temperature.detach(),
            "iterations": counted,
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        for name, module in self._modules().items():
            module.load_state_dict(part(tensors, f"{name}."))
        for name, optimizer in self._optimizers().items():
            load_optimizer(optimizer, part(tensors, f"{name}_"))
            for group in optimizer.param_groups:
                group["lr"] = self.rate  # loading put a copy in its place
        with torch.no_grad():
            self.log_temperature.copy_(tensors["log_temperature"])
        self.iterations = int(tensors["iterations"])

    def _modules(self) -> dict[str, nn.Module]:
        return {
            "controller": self.controller,
            "critic": self.critic,
            "slow_critic": self.slow_critic,
        }

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"actor": self.actor_optimizer, "critic": self.critic_optimizer}


CRITIC_FIGURES = ("value_loss", "value", "end_atoms", "critic_gradient_norm")
ACTOR_FIGURES = ("actor_loss", "entropy", "actor_gradient_norm")
FIGURES = CRITIC_FIGURES + ACTOR_FIGURES


def _captured(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The function as one graph on the GPU; its result is overwritten by each call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles, and lets libraries take their memory
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay

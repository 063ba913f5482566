"""Off-policy learning: soft actor-critic with twin distributional critics.

    steps = learner.collect(env)         # a few control steps, into the replay memory
    losses = learner.update(steps, 0.5)  # for each of them, some updates from old rows

An update of the critics draws rows from the memory, asks the actor for its actions in
the later states, and moves the belief about each row's action towards the return plus
the value of the later state. An update of the actor follows the critics' gradient with
respect to the action. Actions are Gaussian, squashed to the controller's bounds; a
temperature holds their entropy near that of a chosen deviation. Each process has a
memory of its own robots; an update takes an equal share of rows from each.

On a GPU all updates of a control step are one captured graph (`Launcher`), and those of
an iteration run while the robots take their next steps. Robots then act by a copy of
the actor, which changes only between iterations, and rows are drawn from what the
memory held when the iteration began.
"""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills import config as configs
from spectral_skills import distributed
from spectral_skills.tracking.critics import TwinCritic, project
from spectral_skills.tracking.learner import (
    ActorCritic,
    Environment,
    Launcher,
    Replay,
    ReplayBatch,
)
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller
from spectral_skills.updates import precision

FIGURES = (
    *("value_loss", "value", "end_atoms", "critic_gradient_norm"),
    *("actor_loss", "entropy", "actor_gradient_norm"),
)


@dataclass(frozen=True)
class SACConfig:
    """Off-policy learning (learner sac)."""

    steps: int = 8
    """Control steps of an iteration."""
    memory: int = 384
    """Control steps of every robot that the memory holds."""
    warmup: int = 24
    """Control steps before anything is learned, also after a restart."""
    critic_warmup: int = 0
    """Iterations at the start in which only the critics learn."""
    updates: int = 8
    """Updates of the critics after every control step."""
    actor_every: int = 2
    """Updates of the critics for each update of the actor."""
    batch: int = 8192
    """Rows that an update learns from, over all processes."""
    n_step: int = 3
    """Control steps whose rewards count before the critics' value of the state that was
    reached."""
    gamma: float = 0.97
    """Value of a reward one control step later."""
    target_rate: float = 0.02
    """Share of the way that the slow copies of the critics move in an update."""
    learning_rate: float = 3e-4
    """Learning rate of actor, critics and temperature at the start."""
    learning_rate_end: float = 1.5e-4
    """Learning rate at the end, reached along a cosine."""
    rate_warmup: int = 32
    """Iterations over which the rate rises, at the start, after a restart and where the
    actor begins: an optimizer that has seen no gradients takes too large steps."""
    weight_decay: float = 1e-3
    clip_norm: float = 10.0
    """Largest norm of a gradient; longer ones are scaled down."""
    atoms: int = 101
    """Number of values that a critic spreads its belief over."""
    twins: Literal["mean", "minimum"] = "mean"
    """How the beliefs of the two critics are combined."""
    longest_hold: int = 1
    """Most control steps for which a robot keeps the noise of its action: it keeps it
    for k of them with a probability that falls as 1 / k^2. With 1 it never does."""
    entropy_std: float = 0.15
    """Deviation of actions whose entropy the temperature aims at."""
    temperature: float = 1e-3
    """Weight of entropy at the start."""
    temperature_limits: tuple[float, float] = (1e-5, 5e-3)
    """Least and greatest temperature."""
    overlap: bool = True
    """Whether, on one GPU, updates run while robots take their next steps."""
    keep_rate: float = 1.0
    """Share of the way that the saved controller moves in an iteration towards the one
    that learns; below 1 it is a slow average, at first over fewer iterations."""

    def __post_init__(self):
        counts = ("steps", "warmup", "updates", "actor_every", "batch", "n_step")
        configs.at_least(self, 1, *counts, "longest_hold")
        configs.at_least(self, 2, "atoms")
        configs.at_least(self, 0, "rate_warmup")
        if self.memory <= self.n_step or self.warmup <= self.n_step:
            raise ValueError(
                f"memory {self.memory} and warmup {self.warmup} must be longer than "
                f"the {self.n_step} steps of a return"
            )
        (low, high), keep = self.temperature_limits, self.keep_rate
        never = f"at most updates, {self.updates}: the actor would never learn"
        limits = f"in temperature_limits {low} {high}, which are above 0"
        for name, holds, rule in (
            ("actor_every", self.actor_every <= self.updates, never),
            ("keep_rate", 0 < keep <= 1, "above 0 and at most 1"),
            ("gamma", 0 < self.gamma < 1, "between 0 and 1"),
            ("entropy_std", self.entropy_std > 0, "above 0"),
            ("temperature", 0 < low <= self.temperature <= high, limits),
        ):
            configs.require(self, name, holds, rule)


class SACLearner(ActorCritic):
    """Actor, twin critics, their slow copies, and the replay memory."""

    config: SACConfig
    critic: TwinCritic

    def _prepare(self) -> None:
        config, controller, device = self.config, self.controller, self.device
        assert controller.bounds is not None and controller.joint is None
        self.bounds = controller.bounds
        self.slow_critic = deepcopy(self.critic).requires_grad_(False)
        self.kept = deepcopy(controller).requires_grad_(False)
        self._modules |= {"slow_critic": self.slow_critic, "kept": self.kept}
        self.rate = torch.tensor(config.learning_rate, device=device)
        self.log_temperature = nn.Parameter(
            torch.tensor(math.log(config.temperature), device=device)
        )
        # The entropy of a Gaussian with that deviation.
        single = math.log(config.entropy_std) + 0.5 * math.log(2 * math.pi * math.e)
        self.entropy_target = controller.config.actions * single
        cuda = device.type == "cuda"
        free, rates = [controller.log_std, self.log_temperature], (self.rate, self.rate)
        self._optimize(free, rates, betas=(0.9, 0.95), capturable=cuda)
        self.replay: Replay | None = None
        self._held: tuple[Tensor, Tensor] | None = None
        """Noise of every robot's action, and the steps for which it keeps it."""
        shares = torch.arange(1.0, config.longest_hold + 1, device=device) ** -2
        self._holds = (shares.cumsum(0) / shares.sum())[:-1]
        captures = self.compiled and cuda and distributed.world_size() == 1
        overlaps = captures and config.overlap
        self.launcher = Launcher(self._updates, device, captures, overlaps)
        self._acting = deepcopy(self.kept) if overlaps else controller
        """The controller that robots act by."""
        self._lately = 0
        """Iterations of learning since the rate last began to rise."""
        self._actor_learns = True
        self._act, self._sample = self._fast(self._choose), self._fast(self._draw)
        self._critic_loss = self._fast(self.critic_loss)
        self._actor_loss = self._fast(self.actor_loss)

    def collect(self, env: Environment) -> int:
        """Let the robots act into the memory; returns the number of steps."""
        robots = len(env.observation.phase)
        if self.replay is None or self.replay.robots != robots:
            sizes = self.config.memory, self.config.steps, robots
            widths = *self._inputs.widths, self.controller.config.actions
            self.replay = Replay(*sizes, widths, self.device, self._inputs.dtype)
            self.launcher.forget()
            noise = torch.zeros(robots, widths[-1], device=self.device)
            self._held = (
                noise,
                torch.zeros(robots, dtype=torch.long, device=self.device),
            )
        assert self._held is not None
        with self.launcher.beside() as figures, torch.no_grad():
            for _ in range(self.config.steps):
                with precision(self.device):
                    *row, moments, held = self._act(env.observation, self._held)
                (inputs, states, action), self._held = row, held
                self.replay.before(inputs, states, action)
                self._inputs.note(moments, robots)
                self.replay.after(*env.step(action))
        if figures is not None:
            self._last = figures
        self._inputs.learn()
        return self.config.steps

    def _choose(self, observation: Observation, held: tuple[Tensor, Tensor]):
        """Inputs as they are stored, actions, sums for the normalisers, and the noise
        of these actions with the steps for which it stays."""
        inputs, states = self._inputs.rows(observation)
        noise, left = held
        drawn = torch.randn_like(noise)
        if len(self._holds):
            new = left <= 0
            draw = torch.rand(len(left), device=left.device)
            steps = 1 + torch.searchsorted(self._holds, draw)
            noise = torch.where(new[:, None], drawn, noise)
            left = torch.where(new, steps, left) - 1
        else:
            noise = drawn
        mean = self._acting.unlimited(inputs)
        action, _ = squash(mean, self._acting.std, noise, self.bounds)
        return inputs, states, action, self._inputs.moments(observation), (noise, left)

    def draw_action(
        self, controller: Controller, inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sampled actions (n, 29) and their log-probabilities (n,)."""
        mean = controller.unlimited(inputs)
        return squash(mean, controller.std, torch.randn_like(mean), self.bounds)

    def update(self, steps: int, progress: float) -> dict[str, Tensor]:
        """Learn from the memory, once a control step; `progress` is 0 to 1. Where
        updates run beside the next steps, the losses are those of earlier updates."""
        config = self.config
        assert self.replay is not None
        learns = self.iterations >= config.critic_warmup
        if learns != self._actor_learns:
            self._actor_learns = learns
            self._lately = 0  # the actor's optimizer has seen nothing yet
            self.launcher.forget()
        self.rate.fill_(self._rate(progress))
        found: dict[str, Tensor] = {}
        if self.replay.count >= config.warmup:
            self.replay.show()
            if self.launcher.overlaps:
                self.launcher.due = steps
            else:
                self._last = distributed.mean_over_ranks(self.launcher.run(steps))
            if self._last.dim():
                found = dict(zip(FIGURES, self._last.clone().unbind(), strict=False))
            self.iterations += 1
            self._lately += 1
        self._follow()
        return found | {
            "actor_lr": self.rate.clone(),
            "std": self.controller.std.detach().mean(),
            "temperature": self.log_temperature.detach().exp(),
        }

    def _rate(self, progress: float) -> float:
        config = self.config
        first, last = config.learning_rate, config.learning_rate_end
        share = 0.5 + 0.5 * math.cos(math.pi * progress)
        grown = min(1.0, (self._lately + 1) / (config.rate_warmup + 1))
        return grown * (last + share * (first - last))

    @torch.no_grad()
    def _follow(self) -> None:
        """Move the saved and the acting controller towards the one that learns."""
        # An average over about the last tenth of all iterations, at most over as many
        # as the rate allows: what was learned first is not worth keeping.
        rate = max(self.config.keep_rate, 10 / (10 + self.iterations))
        followers = [(self.kept, rate)]
        if self.launcher.overlaps:
            followers.append((self._acting, 1.0))
        for model, rate in followers:
            _approach(model, self.controller, rate)
            # Statistics describe what was seen and are not averaged.
            ours, theirs = model.buffers(), self.controller.buffers()
            for mine, known in zip(ours, theirs, strict=True):
                mine.copy_(known)

    def _updates(self) -> Tensor:
        """Updates of critics and actor from rows that are drawn together."""
        config = self.config
        size = config.batch // distributed.world_size()
        drawn = self._sample(size * config.updates)
        figures: list[Tensor] = []
        actor_figures: list[Tensor] = []
        for number in range(config.updates):
            rows = slice(number * size, (number + 1) * size)
            batch = ReplayBatch(*(values[rows] for values in drawn))
            figures.append(self._critic_step(batch))
            if self._actor_learns and (number + 1) % config.actor_every == 0:
                actor_figures.append(self._actor_step(batch))
            _approach(self.slow_critic, self.critic, config.target_rate)
        means = [torch.stack(x).mean(0) for x in (figures, actor_figures) if x]
        return torch.cat(means)

    @torch.no_grad()
    def _draw(self, size: int) -> ReplayBatch:
        assert self.replay is not None
        return self.replay.sample(size, self.config.n_step, self.config.gamma)

    def _critic_step(self, batch: ReplayBatch) -> Tensor:
        with precision(self.device):
            loss, figures = self._critic_loss(batch)
        loss.backward()
        return self._followed("critic", self._critic, figures)

    def _actor_step(self, batch: ReplayBatch) -> Tensor:
        with precision(self.device):
            loss, figures = self._actor_loss(batch.inputs, batch.states)
        loss.backward()
        distributed.average_gradients([self.log_temperature])
        figures = self._followed("actor", self._actor, figures)
        self.controller.limit_std()
        low, high = (math.log(limit) for limit in self.config.temperature_limits)
        with torch.no_grad():
            self.log_temperature.clamp_(low, high)
        return figures

    def _followed(
        self, name: str, parameters: list[nn.Parameter], figures: Tensor
    ) -> Tensor:
        """Step along gradients; returns the figures with the norm of the gradients."""
        norm = self._descend({name: parameters}, name)[name]
        return torch.cat((figures, norm.detach()[None]))

    def critic_loss(self, batch: ReplayBatch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of both beliefs with the later one, shifted by the return."""
        support = self.critic.support
        with torch.no_grad():
            action, likely = self.draw_action(self.controller, batch.later_inputs)
            logits = self.slow_critic(batch.later_states, action)
            belief = self._together(logits.softmax(dim=-1))
            # Z of the later state includes its entropy: R + g (Z - t log p).
            bonus = -self.log_temperature.exp() * likely
            returns = batch.returns + batch.discounts * bonus
            goal = project(belief, support, returns, batch.discounts)
        logits = self.critic(batch.states, batch.actions)
        cross = -(goal * logits.log_softmax(dim=-1)).sum(-1).mean(0)
        # A mean over all rows, so that the mean over processes is that over all rows.
        loss = (batch.weights * cross).mean()
        ends = goal[:, 0].mean() + goal[:, -1].mean()
        figures = torch.stack((loss, (goal @ support).mean(), ends))
        return 2 * loss, figures.detach()

    def _together(self, beliefs: Tensor) -> Tensor:
        """Combine two beliefs (2, n, atoms)."""
        if self.config.twins == "mean":
            return beliefs.mean(0)
        first, second = (beliefs @ self.critic.support).unbind()
        return torch.where((first < second)[:, None], *beliefs.unbind())

    def actor_loss(self, inputs: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """t log p(a) - Q(s, a) of newly sampled actions, and the temperature's loss."""
        action, likely = self.draw_action(self.controller, inputs)
        values = self.critic.values(self.critic(states, action, frozen=True))
        value = values.mean(0) if self.config.twins == "mean" else values.amin(0)
        temperature = self.log_temperature.exp()
        loss = (temperature.detach() * likely - value).mean()
        entropy = -likely.mean()
        # The temperature rises while the entropy is below its target.
        balance = temperature * (entropy.detach() - self.entropy_target)
        return loss + balance, torch.stack((-value.mean(), entropy)).detach()

    def tensors(self) -> dict[str, Tensor]:
        """Everything but the memory, which fills again."""
        return super().tensors() | {"log_temperature": self.log_temperature.detach()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        with torch.no_grad():
            self.log_temperature.copy_(tensors["log_temperature"])
            self._acting.load_state_dict(self.controller.state_dict())
        self.launcher.forget()  # a captured graph uses old optimizer states
        self._lately = 0


@torch.no_grad()
def _approach(model: nn.Module, goal: nn.Module, rate: float) -> None:
    """Move a model's weights that share of the way towards another's."""
    ours, theirs = [*model.parameters()], [*goal.parameters()]
    torch._foreach_lerp_(ours, theirs, rate)  # pyright: ignore


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

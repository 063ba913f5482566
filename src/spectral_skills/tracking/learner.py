"""What learners are made of: their base class, rows of inputs, and for learning
off-policy a replay memory and launched updates."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_, get_total_norm

from spectral_skills import distributed
from spectral_skills.tracking.critics import Critic, TwinCritic
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, aligned
from spectral_skills.updates import captured, load_optimizer, optimizer_tensors, part


class Environment(Protocol):
    """The robots that a learner needs."""

    @property
    def observation(self) -> Observation: ...

    def step(self, action: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards, episodes that ended, and those of them that only ran out of time."""
        ...


class ActorCritic(ABC):
    """Lets robots act, learns from it, and can be saved and restored."""

    def __init__(
        self,
        config: Any,
        controller: Controller,
        critic: Any,
        device: torch.device | str,
        compiled: bool = False,
    ):
        if controller.config.released:
            raise ValueError("a released controller lacks what training needs")
        self.config, self.device = config, torch.device(device)
        self.controller = controller.to(device).train()
        self.critic = critic.to(device).train()
        self.compiled = compiled
        self.kept = controller
        """The controller that the run saves and measures."""
        self.iterations = 0
        """Number of updates that learned something."""
        self._last = torch.zeros((), device=device)
        """Losses of the last update, the same in every process."""
        self._modules: dict[str, nn.Module] = {
            "controller": controller,
            "critic": critic,
        }
        self._copy_from_first()
        self._layers = [*controller.network.parameters()]
        if controller.adapter is not None:
            self._layers += controller.adapter.parameters()
        self._actor = [*self._layers, controller.log_std]
        self._critic = [*critic.parameters()]
        self._inputs = Inputs(controller, critic, self.device)
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Create optimizers and whatever else one kind of learner has."""

    def _fast(self, function: Callable) -> Callable:
        """The function, compiled for fixed shapes if the learner is."""
        return torch.compile(function, dynamic=False) if self.compiled else function

    def _optimize(
        self, free: list[nn.Parameter], rates: tuple[Tensor, Tensor], **options: Any
    ) -> None:
        """Create optimizers of actor and critic. Rates are tensors, so that changing
        them does not wait for the device; `free` parameters of the actor do not decay.
        """
        decay = self.config.weight_decay
        layers = {"params": self._layers, "weight_decay": decay}
        groups = [layers, {"params": free, "weight_decay": 0.0}]
        options["fused"] = True
        self._optimizers = {
            "actor": torch.optim.AdamW(groups, **options),
            "critic": torch.optim.AdamW(self._critic, weight_decay=decay, **options),
        }
        self._rates = rates
        self._tie_rates()

    def _tie_rates(self) -> None:
        pairs = zip(self._optimizers.values(), self._rates, strict=True)
        for optimizer, rate in pairs:
            for group in optimizer.param_groups[:2]:
                group["lr"] = rate

    def _descend(
        self, groups: dict[str, list[nn.Parameter]], *names: str
    ) -> dict[str, Tensor]:
        """One step of these optimizers, or of all, along the accumulated gradients;
        returns the norms of groups of them before they were clipped."""
        norms = {}
        for name, parameters in groups.items():
            distributed.average_gradients(parameters)
            norms[name] = clip_grad_norm_(parameters, self.config.clip_norm)
        for name in names or self._optimizers:
            self._optimizers[name].step()
            self._optimizers[name].zero_grad(set_to_none=True)
        return norms

    @torch.no_grad()
    def _copy_from_first(self) -> None:
        """Give every process the weights and statistics of the first."""
        if distributed.world_size() > 1:
            for module in self._modules.values():
                for value in module.state_dict().values():
                    mine = value * float(distributed.rank() == 0)
                    value.copy_(distributed.all_reduce_sum(mine))

    @abstractmethod
    def collect(self, env: Any, /) -> Any:
        """Let the robots act for some steps; returns the argument of `update`."""

    @abstractmethod
    def update(self, collected: Any, progress: float, /) -> dict[str, Tensor]:
        """Learn; `progress` through the whole training is 0 to 1."""

    def finite(self) -> bool:
        """Whether weights, statistics and last losses are finite; waits for them."""
        modules = self._modules.values()
        state = [v.float() for module in modules for v in module.state_dict().values()]
        return bool((get_total_norm(state) + self._last.sum()).isfinite())

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a later run needs to continue."""
        tensors = {"iterations": torch.tensor(self.iterations)}
        for name, module in self._modules.items():
            tensors |= {f"{name}.{k}": v for k, v in module.state_dict().items()}
        for name, optimizer in self._optimizers.items():
            state = optimizer_tensors(optimizer)
            tensors |= {f"{name}_{k}": v for k, v in state.items()}
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `tensors` returned."""
        for name, module in self._modules.items():
            module.load_state_dict(part(tensors, f"{name}."))
        for name, optimizer in self._optimizers.items():
            load_optimizer(optimizer, part(tensors, f"{name}_"))
        self.iterations = int(tensors["iterations"])
        self._tie_rates()  # loading replaced them by copies


class Inputs:
    """Turns observations into rows for both networks; learns their normalisers."""

    def __init__(
        self, controller: Controller, critic: Critic | TwinCritic, device: torch.device
    ):
        self.controller, self.critic = controller, critic
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        """Type of stored rows."""
        self.widths = aligned(controller.input_width), aligned(critic.input_width)
        """Width of the actor's rows and of the critic's."""
        self._normalizers = [controller.proprio, critic.normalizer]
        if controller.source is not None:
            self._normalizers.insert(1, controller.source)
        self._widths = [normalizer.width for normalizer in self._normalizers]
        shape = (2, sum(self._widths))
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._count = 0

    def rows(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """(n, w) for the actor and for the critic, padded with columns of zeros."""
        history, source, phase, privileged = observation
        inputs = self.controller.inputs(history, source, phase)
        states = self.critic.inputs(privileged, self.controller.command_of(inputs))
        return self._padded(inputs), self._padded(states)

    def moments(self, observation: Observation) -> Tensor:
        """Sums (2, w) over robots for all normalisers."""
        seen = [observation.history[:, -1], observation.critic]
        if self.controller.source is not None:
            seen.insert(1, observation.source)
        pairs = zip(self._normalizers, seen, strict=True)
        return torch.cat([n.moments(values) for n, values in pairs], dim=1)

    def note(self, moments: Tensor, robots: int) -> None:
        self._sums += moments
        self._count += robots

    def learn(self) -> None:
        """Update the normalisers with everything noted, in all processes."""
        parts = self._sums.split(self._widths, dim=1)
        for normalizer, moments in zip(self._normalizers, parts, strict=True):
            normalizer.learn(moments, self._count)
        self._sums.zero_()
        self._count = 0

    def _padded(self, row: Tensor) -> Tensor:
        width = row.shape[-1]
        return functional.pad(row, (0, aligned(width) - width)).to(self.dtype)


class ReplayBatch(NamedTuple):
    """Rows to learn from: a state as actor (inputs) and critics (states) see it, the
    action taken there, and what followed."""

    inputs: Tensor
    states: Tensor
    actions: Tensor
    returns: Tensor
    """(n,) discounted rewards up to the later state."""
    discounts: Tensor
    """(n,) factor of the later state's value; 0 where the episode has failed."""
    later_inputs: Tensor
    later_states: Tensor
    weights: Tensor
    """(n,) 1, or 0 for a row without information."""


class Replay:
    """The last `steps` control steps of every robot; up to `ahead` more may be written
    before `show` includes them."""

    def __init__(
        self,
        steps: int,
        ahead: int,
        robots: int,
        widths: tuple[int, int, int],
        device: torch.device,
        dtype: torch.dtype,
    ):
        """`widths` are those of the actor's inputs, the critics' inputs and actions."""
        self.steps, self.slots, self.robots = steps, steps + ahead, robots

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            shape = (self.slots, robots, *shape)
            return torch.zeros(shape, dtype=dtype, device=device)

        stored = (zeros(width, dtype=dtype) for width in widths)
        self.inputs, self.states, self.actions = stored
        self.rewards = zeros(dtype=torch.float32)
        self.failed, self.timed_out = (zeros(dtype=torch.bool) for _ in range(2))
        self.count = 0
        """Number of control steps written so far."""
        # On the device, where a captured graph reads it.
        self._shown = torch.zeros((), dtype=torch.long, device=device)

    def before(self, inputs: Tensor, states: Tensor, actions: Tensor) -> None:
        """Store what robots see and are about to do."""
        slot = self.count % self.slots
        self.inputs[slot], self.states[slot] = inputs, states
        self.actions[slot] = actions

    def after(self, rewards: Tensor, done: Tensor, timed_out: Tensor) -> None:
        """Store the result of the step."""
        slot = self.count % self.slots
        self.rewards[slot], self.timed_out[slot] = rewards, timed_out
        self.failed[slot] = done & ~timed_out
        self.count += 1

    def show(self) -> None:
        """Let rows be drawn from everything written so far."""
        self._shown.fill_(self.count)

    def sample(self, size: int, n_step: int, gamma: float) -> ReplayBatch:
        """Rows drawn evenly from all whose n-th later state is stored as well.

        A return ends where the episode does. Where the episode only ran out of time,
        the last step is omitted, since the state after it was never seen: a return ends
        before it, and a row that begins with it has no information.
        """
        device = self._shown.device
        known = self._shown.clamp_max(self.steps) - n_step
        back = (torch.rand(size, device=device, dtype=torch.float64) * known).long()
        first = self._shown - 1 - n_step - back
        robot = torch.randint(self.robots, (size,), device=device)

        def rows(values: Tensor, step: Tensor) -> Tensor:
            return values.flatten(0, 1)[(step % self.slots) * self.robots + robot]

        returns = torch.zeros(size, device=device)
        discounts = torch.ones(size, device=device)
        going = torch.ones(size, dtype=torch.bool, device=device)
        last = first
        for k in range(n_step):
            step = first + k
            counts = going & ~rows(self.timed_out, step)
            if k == 0:
                weights = counts.float()
            returns = returns + counts * discounts * rows(self.rewards, step)
            failed = counts & rows(self.failed, step)
            discounts = torch.where(counts, gamma * discounts, discounts) * ~failed
            last = torch.where(counts, step + 1, last)
            going = counts & ~failed
        now = rows(self.inputs, first), rows(self.states, first)
        later = rows(self.inputs, last), rows(self.states, last)
        taken = rows(self.actions, first)
        return ReplayBatch(*now, taken, returns, discounts, *later, weights)


class Launcher:
    """Runs updates one after the other or, on a GPU, as one captured graph. With
    `overlaps` they run on a stream of their own while robots take their next steps:
    physics is a chain of many small kernels that leaves room beside it."""

    def __init__(
        self,
        function: Callable[[], Tensor],
        device: torch.device,
        captures: bool,
        overlaps: bool,
    ):
        self.function, self.device = function, device
        self.captures, self.overlaps = captures, overlaps
        self.due = 0
        """Number of calls that will run beside the next steps of robots."""
        self._graph: Callable[[], Tensor] | None = None
        if overlaps:
            self._aside = torch.cuda.Stream(device)
            # Robots have priority; the updates use what they leave free.
            self._robots = torch.cuda.Stream(device, priority=-1)

    def forget(self) -> None:
        """Drop the graph and pending calls: the function will do something else."""
        self._graph, self.due = None, 0

    def run(self, times: int) -> Tensor:
        """Call the function so many times; returns the last result."""
        call = self._ready()
        return [call() for _ in range(times)][-1]

    @contextmanager
    def beside(self) -> Iterator[Tensor | None]:
        """Run pending calls, if any, beside the work in this context; yields their last
        result, to be read afterwards."""
        if not self.overlaps:
            yield None
            return
        now = torch.cuda.current_stream(self.device)
        if self.due:
            self._ready()
        for stream in (self._aside, self._robots):
            stream.wait_stream(now)
        with torch.cuda.stream(self._aside):
            result = self.run(self.due) if self.due else None
        self.due = 0
        with torch.cuda.stream(self._robots):
            yield result
        for stream in (self._aside, self._robots):
            now.wait_stream(stream)

    def _ready(self) -> Callable[[], Tensor]:
        if not self.captures:
            return self.function
        if self._graph is None:
            self._graph = captured(self.function)
        return self._graph

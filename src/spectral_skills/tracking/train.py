"""Train a controller: the run top to bottom, and what it starts from."""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spectral_skills import config as configs
from spectral_skills import distributed, training
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.results import hardware
from spectral_skills.runs import RunFolder, part
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import rewards
from spectral_skills.tracking.env import TrackingEnv
from spectral_skills.tracking.learner import ActorCritic
from spectral_skills.tracking.policy import (
    KIND,
    Controller,
    ControllerConfig,
    Critic,
    TwinCritic,
    critic_weights,
    value_range,
)
from spectral_skills.tracking.ppo import PPOLearner
from spectral_skills.tracking.recipes import TrackConfig
from spectral_skills.tracking.references import CommandConfig, References
from spectral_skills.tracking.sac import SACLearner

MAY_CHANGE = (
    *("frames", "minutes", "robots", "log_every"),
    *("probe_every", "probe_clips", "checkpoint_every"),
)
"""Fields that may change when a run is continued."""
LEAST_FRAMES = FPS // 2
"""Length of the shortest usable clip: a shorter one is over before a robot can fall."""
NEW_CRITIC_WARMUP = 20
"""Iterations in which a new critic learns alone beside an old controller."""
GENTLE_LR = 3e-5
"""First learning rate of an old actor. The divergence rule raises it within a few
iterations, but a first step of 1e-3 can ruin a narrow policy for good."""
_MAY_DIFFER = (
    *("init_std", "min_std", "max_std", "released", "critic_hidden"),
    *("critic_command", "command.hold"),
)
"""Fields in which a new run may differ from the controller it starts from; bounds may
be added too."""
_SPARE = 0.85
"""Share of the memory to count on: a first iteration needs more than the start."""
_MANY_BEYOND = 0.01
"""Share of the critics' belief on their outermost atoms that is worth a warning: values
are being cut off."""

Probe = Callable[[Controller], dict[str, float]]
"""Measures success_rate, mpjpe_local_mm and mpjpe_global_mm on a fixed set of clips."""


def train(
    config: TrackConfig,
    corpora: Sequence[Corpus],
    encoder: SkillEncoder | None,
    out: Path,
    device: str,
    init: Path | None = None,
    probe: Probe | None = None,
    watch: Callable[[Path], None] = lambda run: None,
    command: str = "",
    compiled: bool | None = None,
) -> Controller:
    """Train in the folder `out`, or continue there; returns the last controller.

    `probe` measures the controller now and then, `watch` is called with the folder when
    there is something new to draw. `init` is a controller to start a new run from.
    """
    where = distributed.join(device)
    if where.type == "cuda":
        torch.set_float32_matmul_precision("high")
    check_shares(config, distributed.world_size())
    settings = commanded(config.controller, encoder, init)
    config = replace(config, controller=settings)
    corpora = usable(corpora)
    data_hash = "+".join(corpus.hash for corpus in corpora)
    about = {"command": command, "hardware": hardware(device)}
    first = distributed.rank() == 0
    folder = RunFolder(out, config, data_hash, about, first, "frames", MAY_CHANGE)
    parents = {"skill": settings.command.encoder} if encoder else {}
    provenance = Provenance(KIND, command, config.seed, data_hash, parents)
    with folder as run:
        job = TrackTraining(config, where, run, provenance, probe)
        job.build(corpora, encoder, init, compiled)
        with job.memory.advice():
            limits = config.frames, config.checkpoint_every, config.minutes
            training.train(run, job, *limits, watch)
    return Controller.load(run.model_folder, where)


class TrackTraining:
    """Robots, learner and record of a run."""

    def __init__(
        self,
        config: TrackConfig,
        device: torch.device,
        run: RunFolder,
        provenance: Provenance,
        probe: Probe | None,
    ):
        self.config, self.device, self.run = config, device, run
        self.provenance, self.probe = provenance, probe
        self.state: dict[str, Any] = {"frames": 0, "seconds": 0.0}
        self._iteration, self._slow = 0, 0.0
        self._learned: dict[str, Any] = {}
        self._mark: tuple[int, float] | None = None
        """Frames and time from which the next row's rate counts."""

    def build(
        self,
        corpora: Sequence[Corpus],
        encoder: SkillEncoder | None,
        init: Path | None,
        compiled: bool | None,
    ) -> None:
        """Build robots and learner, new or from the last checkpoint."""
        config, where, settings = self.config, self.device, self.config.controller
        found = self.run.load_checkpoint()
        if found is not None:
            self.state |= found[1]
        torch.manual_seed(config.seed)  # for the weights
        self.controller = Controller(settings).to(where)
        self.critic = critic_of(config).to(where)
        if found is None and init is not None:
            config = load_init(self.controller, self.critic, init, config)
            parent = load_provenance(init, KIND)
            self.state["before"] = parent.frames
            self.state["parents"] = {"controller": parent.weights_hash}
        if "before" in self.state:
            # Loose thresholds are for new actors.
            rules = replace(config.env.terminations, anneal_frames=None)
            config = replace(config, env=replace(config.env, terminations=rules))
        # The warm-up of a controller's new critic also survives a restart.
        alone = self.state.setdefault("critic_warmup", config.learning.critic_warmup)
        config = _with_warmup(config, alone)
        robots = config.robots // distributed.world_size()
        compiled = where.type == "cuda" if compiled is None else compiled
        self.memory = Memory(where, robots)
        with self.memory.advice():
            sides = [c.with_mirror() if config.mirror else c for c in corpora]
            motions = MotionTensors.join([side.to(where) for side in sides])
            references = References.build(motions)
            self.memory.fixed = self.memory.used()[0]
            self.physics = simulate(where, robots, config.physics)
            # Other starts and noise after a restart, and in every process.
            seed = config.seed * 7919 + self.state["frames"] * 31 + distributed.rank()
            seed %= 2**31
            torch.manual_seed(seed)
            command, physics = settings.command, self.physics
            self.env = TrackingEnv(
                config.env, command, physics, references, encoder, seed, compiled
            )
            actor, critic = self.controller, self.critic
            self.learner: ActorCritic
            if isinstance(critic, TwinCritic):
                self.learner = SACLearner(config.sac, actor, critic, where, compiled)
            else:
                self.learner = PPOLearner(config.ppo, actor, critic, where, compiled)
            if found is not None:
                self.learner.load(part(found[0], "learner."))
                self.env.sampler.load(part(found[0], "sampler."))
        self._began = self.state["seconds"]
        self._compiles = self.learner.iterations + 2
        """Until something was learned twice, time goes into compiling."""

    def step(self, until: float) -> None:
        """One iteration; learning rates follow the frames or the time that is used."""
        frames, seconds = self.state["frames"], self.state["seconds"]
        if self._mark is None:
            self._mark = frames, time.monotonic()
        if self.learner.iterations <= self._compiles:
            self._slow = seconds - self._began
        spent = (seconds - self._slow) / max(until - self._slow, 1e-9)
        self._learned = self.iterate(min(max(spent, frames / self.config.frames), 1.0))
        self._iteration += 1

    def iterate(self, progress: float) -> dict[str, Any]:
        """Let every robot act, and learn from it."""
        evenness = self.env.refresh(self.state["frames"])
        learned = self.learner.update(self.learner.collect(self.env), progress)
        if not self.learner.finite():
            options = {"ppo": "--ppo.actor-lr", "sac": "--sac.learning-rate"}
            raise ValueError(
                f"{self.run.path}: the policy is not finite after "
                f"{self.state['frames']:,} frames; try a lower rate "
                f"({options[self.config.learner]}), in another folder, with this one "
                "as --init. The last checkpoint and model are as they were"
            )
        self.state["frames"] += self.config.robots * self.config.learning.steps
        return learned | evenness

    def report(self, before: int, ended: bool) -> training.LogEntry | None:
        """What happened since the last report; waits for the device."""
        config, frames = self.config, self.state["frames"]
        probed = self.probe is not None and (
            training.crossed(before, frames, config.probe_every) or ended
        )
        if not (probed or ended or self._iteration % config.log_every == 0):
            return None
        assert self._mark is not None
        rate = (frames - self._mark[0]) / max(time.monotonic() - self._mark[1], 1e-9)
        row = {"frames": frames, "seconds": self.state["seconds"], "frames_per_s": rate}
        row |= self.env.statistics() | self.physics.counters()
        row |= {name: float(value) for name, value in self._learned.items()}
        if self.probe is not None and probed and distributed.rank() == 0:
            kept = self.learner.kept.eval()
            found = self.probe(kept)
            row |= {k: v for k, v in found.items() if math.isfinite(v)}
            kept.train()
        self._mark = None
        return training.LogEntry(row, line(row), draw=probed)

    def save(self) -> None:
        """Model first: a checkpoint promises that everything before it is there."""
        weights = self.learner.kept.weights(self.critic.state_dict())
        frames = self.state.get("before", 0) + self.state["frames"]
        parents = self.provenance.parents | self.state.get("parents", {})
        provenance = replace(self.provenance, parents=parents, frames=frames)
        self.run.save_model(self.config.controller, weights, provenance)
        tensors = {f"learner.{k}": v for k, v in self.learner.tensors().items()}
        tensors |= {f"sampler.{k}": v for k, v in self.env.sampler.tensors().items()}
        self.run.save_checkpoint(tensors, self.state)
        self._mark = None

    def stopped(self) -> str:
        return ""


_SHOWN = (
    ("reward", "reward", "{:.2f}"),
    ("failures/s", "failures_per_s", "{:.2f}"),
    ("episode", "episode_s", "{:.1f} s"),
    ("KL", "kl", "{:.3f}"),
    ("value", "value", "{:.2f}"),
    ("lr", "actor_lr", "{:.0e}"),
    ("critic", "critic_lr", "{:.0e}"),
    ("std", "std", "{:.2f}"),
    ("temperature", "temperature", "{:.0e}"),
    ("evenness", "sampler_entropy", "{:.2f}"),
)


def line(row: dict[str, float]) -> str:
    """The most important numbers of a row of the log, as they are printed."""
    parts = [f"{training.short(row['frames']):>7}"]
    if "success_rate" in row:
        parts.append(f"success {100 * row['success_rate']:.1f} %")
        for name, key in (("L", "mpjpe_local_mm"), ("G", "mpjpe_global_mm")):
            if key in row:
                parts.append(f"{name} {row[key]:.0f} mm")
    parts += [f"{name} {form.format(row[k])}" for name, k, form in _SHOWN if k in row]
    if (beyond := row.get("end_atoms", 0.0)) > _MANY_BEYOND:
        parts.append(f"values beyond the atoms {100 * beyond:.0f} %")
    causes = {k.removeprefix("cause/"): v for k, v in row.items() if "cause/" in k}
    by_cause = [f"{k.replace('_', ' ')} {v:.2f}" for k, v in causes.items() if v]
    parts += [f"({', '.join(by_cause)})"] if by_cause else []
    troubles = {k: int(row.get(k, 0)) for k in ("contacts", "constraints", "broken")}
    parts += [f"{name} {count:,}" for name, count in troubles.items() if count]
    return "  ".join([*parts, f"{training.short(row['frames_per_s'])}/s"])


def usable(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Corpora without clips that are too short, and without empty corpora."""
    kept = []
    for corpus in corpora:
        long = np.flatnonzero(corpus.lengths >= LEAST_FRAMES)
        if len(long):
            kept.append(corpus if len(long) == len(corpus) else corpus.select(long))
    if not kept:
        longest = max((int(c.lengths.max(initial=0)) for c in corpora), default=0)
        raise ValueError(
            f"no usable clip: tracking needs {LEAST_FRAMES} frames, the longest has "
            f"{longest}"
        )
    return kept


def check_shares(config: TrackConfig, processes: int) -> None:
    """Refuse robots or rows that processes cannot share equally."""
    parts = config.ppo.minibatches if config.learner == "ppo" else 1
    if config.robots % (processes * parts):
        raise ValueError(
            f"{config.robots:,} robots cannot be shared equally by {processes} "
            f"processes with {parts} minibatches each"
        )
    if config.learner == "sac" and config.sac.batch % processes:
        raise ValueError(
            f"a batch of {config.sac.batch:,} rows cannot be shared equally by "
            f"{processes} processes (--sac.batch)"
        )


def commanded(
    config: ControllerConfig, encoder: SkillEncoder | None, init: Path | None = None
) -> ControllerConfig:
    """A controller's configuration with the encoder's name and width filled in; fields
    left at their defaults follow the controller that the run starts from."""
    if init is not None:
        config = _fitted(config, Controller.load(init).config)
    command = config.command
    if command.kind != "skill":
        if encoder is not None:
            raise ValueError(
                f"this recipe's commands are of kind {command.kind!r} and come from no "
                "skill model; omit --skill"
            )
        return config
    if encoder is None:
        raise ValueError("this recipe's commands are skills; --skill is missing")
    name = encoder.fingerprint()
    if command.encoder and command.encoder != name:
        raise ValueError(
            f"this configuration is for the encoder {command.encoder}, the skill "
            f"model's is {name}"
        )
    return replace(config, command=replace(command, encoder=name, width=encoder.width))


def _fitted(config: ControllerConfig, old: ControllerConfig) -> ControllerConfig:
    """A configuration whose defaults are replaced by those of an old controller."""
    if config.command.kind not in (CommandConfig().kind, old.command.kind):
        return config  # nothing would fit, as load_init will say
    own = (*_MAY_DIFFER, "command.encoder")

    def fit(ours: Any, theirs: Any, usual: Any, prefix: str = "") -> Any:
        taken = {}
        for name in (field.name for field in fields(ours)):
            now, then, default = (getattr(x, name) for x in (ours, theirs, usual))
            if is_dataclass(now):
                taken[name] = fit(now, then, default, f"{prefix}{name}.")
            elif now == default and f"{prefix}{name}" not in own:
                taken[name] = then
        return replace(ours, **taken)

    return fit(config, old, ControllerConfig())


def critic_of(config: TrackConfig) -> Critic | TwinCritic:
    """A new critic of the kind that the run's learner uses."""
    if config.learner == "ppo":
        return Critic(config.controller)
    limits = value_range(rewards.maximum(config.env.rewards), config.sac.gamma)
    return TwinCritic(config.controller, config.sac.atoms, limits)


def load_init(
    controller: Controller, critic: nn.Module, init: Path, config: TrackConfig
) -> TrackConfig:
    """Load weights of another run, or refuse those that do not fit; a critic that is
    missing or does not fit learns alone first."""
    old = Controller.load(init)
    ours, theirs = controller.config.command.encoder, old.config.command.encoder
    if ours != theirs:
        raise ValueError(
            f"{init}: a controller for the encoder {theirs or 'of none'}, the "
            f"skill model's is {ours or 'none'}; commands would mean nothing"
        )
    found = configs.differences(old.config, controller.config)
    wrong = {k: v for k, v in found.items() if k not in (*_MAY_DIFFER, "bounds")}
    if wrong:
        has = ", ".join(f"its {name} is {value}" for name, value in wrong.items())
        options = (f"--controller.{name.replace('_', '-')}" for name in wrong)
        raise ValueError(
            f"{init}: {has}, unlike this recipe's; give {' and '.join(options)}, or "
            "another --init"
        )
    try:
        controller.load_state_dict(old.state_dict())
        controller.limit_std()
    except RuntimeError:
        raise ValueError(
            f"{init}: released without what learns beside it; begin with the model as "
            "`spectral track` wrote it"
        ) from None
    low, high = config.ppo.actor_lr_limits
    gentle = min(max(GENTLE_LR, low), config.ppo.actor_lr, high)
    config = replace(config, ppo=replace(config.ppo, actor_lr=gentle))
    weights = critic_weights(init)
    if _fits(weights, critic):
        critic.load_state_dict(weights)
        return config
    alone = max(config.learning.critic_warmup, NEW_CRITIC_WARMUP)
    return _with_warmup(config, alone)


def _fits(weights: dict[str, Tensor], critic: nn.Module) -> bool:
    """Whether old weights have a critic's shapes and the same values for its atoms,
    which depend on rewards and discounts."""
    wanted = critic.state_dict()
    shapes, known = ({k: v.shape for k, v in x.items()} for x in (weights, wanted))
    if shapes != known:
        return False
    return not isinstance(critic, TwinCritic) or torch.allclose(
        weights["support"].to(critic.support), critic.support
    )


def _with_warmup(config: TrackConfig, iterations: int) -> TrackConfig:
    """The run in which only the critic learns for that many iterations."""
    learning = replace(config.learning, critic_warmup=iterations)
    return replace(config, **{config.learner: learning})


class Memory:
    """Memory of a GPU; running out of it becomes advice on the number of robots."""

    def __init__(self, device: torch.device, robots: int):
        self.device, self.robots = device, robots
        self.fixed = 0
        """Bytes in use before there are robots."""

    def used(self) -> tuple[int, int]:
        """Bytes in use by all programs, and bytes in total."""
        if self.device.type != "cuda":
            return 0, 0
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free, total

    @contextmanager
    def advice(self) -> Iterator[None]:
        """Say how many robots would fit if memory runs out in this context."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            text = str(error)
            wants = re.search(r"out of memory|[Ff]ailed to allocate", text)
            if self.device.type != "cuda" or not wants:
                raise
            used, total = self.used()
            needed = used + _asked_for(text)
            fits = robots_that_fit(self.robots, total, self.fixed, needed)
            raise ValueError(
                f"out of GPU memory with {self.robots:,} robots a GPU; about {fits:,} "
                "would fit (--robots). What was saved before is as it was"
            ) from error


def robots_that_fit(robots: int, total: int, fixed: int, needed: int) -> int:
    """How many robots fit, in steps of 256, if `robots` of them need that much."""
    if needed <= fixed:
        return 0
    fits = int(robots * _SPARE * (total - fixed) / (needed - fixed))
    fits = min(fits, robots - 1)
    return fits // 256 * 256 if fits >= 256 else fits


def _asked_for(text: str) -> int:
    """Bytes that an allocation failed to get, according to its message."""
    if found := re.search(r"allocate ([\d.]+) ([KMG])iB", text):
        scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2]]
        return int(float(found[1]) * scale)
    found = re.search(r"allocate (\d+) bytes", text)
    return int(found[1]) if found else 0

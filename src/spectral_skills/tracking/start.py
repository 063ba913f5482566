"""A training run of a controller, whole."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from spectral_skills import config as configs
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import rewards
from spectral_skills.tracking.env import EnvConfig
from spectral_skills.tracking.networks import CommandConfig
from spectral_skills.tracking.policy import (
    Controller,
    ControllerConfig,
    Critic,
    TwinCritic,
    critic_weights,
    value_range,
)
from spectral_skills.tracking.ppo import PPOConfig
from spectral_skills.tracking.sac import SACConfig

MAY_CHANGE = (
    *("frames", "minutes", "robots", "log_every"),
    *("probe_every", "probe_clips", "checkpoint_every"),
)
"""Fields that do not make another run of it."""


@dataclass(frozen=True)
class TrackConfig:
    """A training run of a controller."""

    env: EnvConfig = EnvConfig()
    controller: ControllerConfig = ControllerConfig()
    learner: Literal["ppo", "sac"] = "ppo"
    """Learn from what just happened, once (ppo), or from what was kept of the last
    seconds, many times (sac)."""
    ppo: PPOConfig = PPOConfig()
    sac: SACConfig = SACConfig()
    physics: PhysicsConfig = PhysicsConfig()
    robots: int = 16_384
    """Over all processes."""
    frames: int = 50_000_000_000
    """Control steps of all robots together, over all calls; 200M is understood."""
    minutes: float | None = None
    """Stop this call after so many minutes, if not all frames are done before."""
    mirror: bool = False
    """Also train on every clip's mirror image."""
    log_every: int = 10
    """Iterations."""
    probe_every: int = 50_000_000
    """Frames."""
    probe_clips: int = 256
    """Clips that success and errors are measured on; 0 measures nothing."""
    checkpoint_every: int = 50_000_000
    """Frames."""
    seed: int = 0

    def __post_init__(self):
        counts = ("robots", "frames", "log_every", "probe_every", "checkpoint_every")
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes is {self.minutes}, must be above 0")
        if self.controller.released:
            raise ValueError("a released controller has no critic to train")
        if self.learner == "sac" and not self.controller.bounds:
            raise ValueError(
                "off-policy learning needs bounds of actions (--controller.bounds); "
                "the recipe lafan1 has them"
            )
        if self.learner == "sac" and self.controller.command.kind == "joint":
            raise ValueError(
                "an encoder that learns with the policy (--controller.command.kind "
                "joint) needs --learner ppo"
            )

    @property
    def steps(self) -> int:
        """Control steps of an iteration."""
        return self.sac.steps if self.learner == "sac" else self.ppo.steps

    @property
    def shares(self) -> int:
        """Parts into which every process must be able to divide its robots."""
        return self.ppo.minibatches if self.learner == "ppo" else 1


# What a training run starts from: clips, a command, old weights, and memory.

LEAST_FRAMES = FPS // 2
"""A clip that is over before a robot can fall teaches nothing."""
NEW_CRITIC_WARMUP = 20
"""Iterations in which a new critic learns what an old controller is worth, before it
judges it."""
GENTLE_LR = 3e-5
"""Of an old actor at first: the divergence rule raises it within a few iterations, but
what a first step of 1e-3 does to a narrow policy cannot be undone."""
_MAY_DIFFER = (
    *("init_std", "min_std", "max_std", "released", "critic_hidden"),
    *("critic_command", "command.hold"),
)
"""Of an old controller whose weights a new run begins with; bounds may be new too."""
RATE_OPTIONS = {"ppo": "--ppo.actor-lr", "sac": "--sac.learning-rate"}
_NOT_TAKEN = (*_MAY_DIFFER, "command.encoder")
"""Of an old controller, however little a new run's configuration says."""
_SPARE = 0.85
"""Share of the memory to count on: a first iteration needs more than a start."""


def usable(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Corpora without the clips that are too short, and without empty ones."""
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
    """Refuse robots or rows of which processes would not have the same number."""
    if config.robots % (processes * config.shares):
        raise ValueError(
            f"{config.robots:,} robots cannot be shared equally by {processes} "
            f"processes with {config.shares} minibatches each"
        )
    if config.learner == "sac" and config.sac.batch % processes:
        raise ValueError(
            f"a batch of {config.sac.batch:,} rows cannot be shared equally by "
            f"{processes} processes (--sac.batch)"
        )


def commanded(
    config: ControllerConfig, encoder: SkillEncoder | None, init: Path | None = None
) -> ControllerConfig:
    """A controller's configuration with the encoder's name and width in it, and with
    what the weights that it begins with dictate where it says nothing else."""
    if init is not None:
        config = _fitted(config, Controller.load(init).config)
    command = config.command
    if command.kind != "skill":
        if encoder is not None:
            raise ValueError(
                f"this recipe's commands are of kind {command.kind!r} and come from no "
                "skill model; leave --skill away"
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


def critic_of(config: TrackConfig) -> Critic | TwinCritic:
    """A new critic, as the run's learner wants it."""
    if config.learner == "ppo":
        return Critic(config.controller)
    most = rewards.maximum(config.env.rewards)
    limits = value_range(most, config.sac.gamma)
    return TwinCritic(config.controller, config.sac.atoms, limits)


def _fitted(config: ControllerConfig, old: ControllerConfig) -> ControllerConfig:
    """A configuration whose defaults give way to what an old controller has."""
    if config.command.kind not in (CommandConfig().kind, old.command.kind):
        return config  # nothing would fit; check_init says so

    def fit(ours: Any, theirs: Any, usual: Any, prefix: str = "") -> Any:
        taken = {}
        for name in (field.name for field in fields(ours)):
            now, then, default = (getattr(x, name) for x in (ours, theirs, usual))
            if is_dataclass(now):
                taken[name] = fit(now, then, default, f"{prefix}{name}.")
            elif now == default and f"{prefix}{name}" not in _NOT_TAKEN:
                taken[name] = then
        return replace(ours, **taken)

    return fit(config, old, ControllerConfig())


def check_init(config: ControllerConfig, init: Path) -> Controller:
    """The controller to begin with; refuses one whose weights do not fit."""
    old = Controller.load(init)
    ours, theirs = config.command, old.config.command
    if ours.encoder != theirs.encoder:
        raise ValueError(
            f"{init}: a controller for the encoder {theirs.encoder or 'of none'}, the "
            f"skill model's is {ours.encoder or 'none'}; commands would mean nothing"
        )
    found = configs.differences(old.config, config)
    wrong = {k: v for k, v in found.items() if k not in (*_MAY_DIFFER, "bounds")}
    if wrong:
        has = ", ".join(f"its {name} is {value}" for name, value in wrong.items())
        options = (f"--controller.{name.replace('_', '-')}" for name in wrong)
        raise ValueError(
            f"{init}: {has}, unlike this recipe's; give {' and '.join(options)}, or "
            "another --init"
        )
    return old


def load_init(
    controller: Controller, critic: nn.Module, init: Path, config: TrackConfig
) -> TrackConfig:
    """Begin with old weights; where no fitting critic is among them, a new one learns
    alone first."""
    old = check_init(controller.config, init)
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
    found = critic_weights(init)
    if not _fits(found, critic):
        return with_warmup(config, max(critic_warmup(config), NEW_CRITIC_WARMUP))
    critic.load_state_dict(found)
    return config


def _fits(weights: dict[str, Tensor], critic: nn.Module) -> bool:
    """Whether an old critic is of the same kind and, where it has atoms, means the same
    values by them: other rewards and discounts have others."""
    wanted = critic.state_dict()
    if {k: v.shape for k, v in weights.items()} != {
        k: v.shape for k, v in wanted.items()
    }:
        return False
    return not isinstance(critic, TwinCritic) or torch.allclose(
        weights["support"].to(critic.support), critic.support
    )


def without_anneal(config: TrackConfig) -> TrackConfig:
    """The same run with tight thresholds at once: loose ones are for new actors."""
    rules = replace(config.env.terminations, anneal_frames=None)
    return replace(config, env=replace(config.env, terminations=rules))


def critic_warmup(config: TrackConfig) -> int:
    """Iterations at the start in which only the critic learns."""
    return getattr(config, config.learner).critic_warmup


def with_warmup(config: TrackConfig, iterations: int) -> TrackConfig:
    """The same run in which only the critic learns for so many iterations."""
    learner = replace(getattr(config, config.learner), critic_warmup=iterations)
    return replace(config, **{config.learner: learner})


class Memory:
    """Of a GPU: turns a want of it into how many robots would fit."""

    def __init__(self, device: torch.device, robots: int):
        self.device, self.robots, self.fixed = device, robots, 0

    def used(self) -> tuple[int, int]:
        """Bytes in use, by whomever, and in all."""
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free, total

    def measure(self) -> None:
        """Note what is used before there are robots."""
        if self.device.type == "cuda":
            self.fixed = self.used()[0]

    @contextmanager
    def advice(self) -> Iterator[None]:
        """Explain a want of memory in here."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            text = str(error)
            wants = re.search(r"out of memory|[Ff]ailed to allocate", text)
            if self.device.type != "cuda" or not wants:
                raise
            used, total = self.used()
            fits = robots_that_fit(
                self.robots, total, self.fixed, used + _asked_for(text)
            )
            raise ValueError(
                f"out of GPU memory with {self.robots:,} robots a GPU; about {fits:,} "
                "would fit (--robots). What was saved before is as it was"
            ) from error


def robots_that_fit(robots: int, total: int, fixed: int, needed: int) -> int:
    """How many of so many robots fit, in steps of 256, if they need that much."""
    if needed <= fixed:
        return 0
    fits = int(robots * _SPARE * (total - fixed) / (needed - fixed))
    fits = min(fits, robots - 1)
    return fits // 256 * 256 if fits >= 256 else fits


def _asked_for(text: str) -> int:
    """Bytes that an allocation failed to get, as its message says."""
    if found := re.search(r"allocate ([\d.]+) ([KMG])iB", text):
        scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2]]
        return int(float(found[1]) * scale)
    found = re.search(r"allocate (\d+) bytes", text)
    return int(found[1]) if found else 0

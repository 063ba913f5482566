"""Configuration of a controller's training run, and what the run starts from: usable
clips, the command, old weights, and memory."""

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
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import rewards
from spectral_skills.tracking.critics import (
    Critic,
    TwinCritic,
    critic_weights,
    value_range,
)
from spectral_skills.tracking.env import EnvConfig
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.ppo import PPOConfig
from spectral_skills.tracking.references import CommandConfig
from spectral_skills.tracking.sac import SACConfig

MAY_CHANGE = (
    *("frames", "minutes", "planned_minutes", "robots", "log_every"),
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
    *("critic_command", "command.hold", "smoothing"),
)
"""Fields in which a new run may differ from the controller it starts from; where that
has no bounds, they may be added too."""
_ATOMS = 0.05
"""Relative change of atoms with which old critics are still taken: there is more room
above and below them."""
_SPARE = 0.85
"""Share of the memory to count on: a first iteration needs more than the start."""


@dataclass(frozen=True)
class TrackConfig:
    """A training run of a controller."""

    env: EnvConfig = EnvConfig()
    controller: ControllerConfig = ControllerConfig()
    learner: Literal["ppo", "sac"] = "ppo"
    """Learner: on-policy, from each rollout once (ppo), or off-policy, many times from
    the last seconds (sac)."""
    ppo: PPOConfig = PPOConfig()
    sac: SACConfig = SACConfig()
    physics: PhysicsConfig = PhysicsConfig()
    robots: int = 16_384
    """Number of robots over all processes."""
    frames: int = 50_000_000_000
    """Control steps of all robots together, over all calls; 200M is understood."""
    minutes: float | None = None
    """Time limit of this call."""
    planned_minutes: float | None = None
    """Time of all calls together, which learning rates follow down to their ends. By
    default it ends with this call, and a later call raises the rates again."""
    held_out: float = 0.0
    """Clips that are not trained on: a share below 1, or their number in each corpus.
    They depend on their names only, as in pretraining. Where there are any, they are
    what is measured during training."""
    mirror: bool = False
    """Whether every clip's mirror image is trained on as well."""
    log_every: int = 10
    """Iterations between lines of the log."""
    probe_every: int = 50_000_000
    """Frames between measurements of success and errors."""
    probe_clips: int = 256
    """Number of clips for these measurements, of those held out if there are any,
    otherwise of those trained on; 0 for none."""
    checkpoint_every: int = 50_000_000
    """Frames between checkpoints."""
    seed: int = 0

    def __post_init__(self):
        counts = ("robots", "frames", "log_every", "probe_every", "checkpoint_every")
        configs.at_least(self, 1, *counts)
        configs.at_least(self, 0, "held_out")
        for name in ("minutes", "planned_minutes"):
            limit = getattr(self, name)
            configs.require(self, name, limit is None or limit > 0, "above 0")
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
    def learning(self) -> PPOConfig | SACConfig:
        return getattr(self, self.learner)


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


def sides(
    corpora: Sequence[Corpus], held_out: float
) -> tuple[list[Corpus], list[Corpus]]:
    """Usable clips to train on, and usable clips held out, of which there may be none.

    Which clips are held out depends on no clip's length.
    """
    trained_on, unseen = motion_sets.hold_out(corpora, held_out)
    return usable(trained_on), usable(unseen) if unseen else []


def check_shares(config: TrackConfig, processes: int) -> None:
    """Refuse robots or rows that processes cannot share equally."""
    parts = config.ppo.minibatches if config.learner == "ppo" else 1
    what, rows = f"{config.robots:,} robots", config.sac.batch
    if config.robots % (processes * parts):
        sharers = f"{processes} processes with {parts} minibatches each"
    elif config.learner == "sac" and rows % processes:
        what = f"a batch of {rows:,} rows"
        sharers = f"{processes} processes (--sac.batch)"
    else:
        return
    raise ValueError(f"{what} cannot be shared equally by {sharers}")


def commanded(
    config: ControllerConfig, encoder: SkillEncoder | None, init: Path | None = None
) -> ControllerConfig:
    """A controller's configuration with the encoder's name and width filled in; fields
    left at their defaults follow the controller that the run starts from."""
    if init is not None:
        config = _fitted(config, Controller.load(init).config)
    command = config.command
    if command.kind == "skill" and encoder is None:
        raise ValueError("this recipe's commands are skills; --skill is missing")
    if command.kind != "skill" and encoder is not None:
        raise ValueError(
            f"this recipe's commands are of kind {command.kind!r} and come from no "
            "skill model; omit --skill"
        )
    if encoder is None:
        return config
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
    others = found.pop("bounds", ())
    wrong = {k: v for k, v in found.items() if k not in _MAY_DIFFER}
    if wrong:
        has = ", ".join(f"its {name} is {value}" for name, value in wrong.items())
        options = (f"--controller.{name.replace('_', '-')}" for name in wrong)
        raise ValueError(
            f"{init}: {has}, unlike this recipe's; give {' and '.join(options)}, or "
            "another --init"
        )
    if others:
        raise ValueError(
            f"{init}: its bounds of actions are not this recipe's, with which its "
            "outputs would mean something else; give the recipe it was trained with, "
            "or another --init"
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
    return with_warmup(config, max(config.learning.critic_warmup, NEW_CRITIC_WARMUP))


def _fits(weights: dict[str, Tensor], critic: nn.Module) -> bool:
    """Whether old weights have a critic's shapes and nearly the values of its atoms,
    which depend on rewards and discounts; the atoms then stay the old ones."""
    shapes, known = (
        {k: v.shape for k, v in x.items()} for x in (weights, critic.state_dict())
    )
    return shapes == known and (
        not isinstance(critic, TwinCritic)
        or torch.allclose(
            weights["support"].to(critic.support), critic.support, rtol=_ATOMS
        )
    )


def with_warmup(config: TrackConfig, iterations: int) -> TrackConfig:
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

"""The configuration of a controller's training run, and named runs: each is a function
that returns a whole configuration."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from spectral_skills import config as configs
from spectral_skills.physics.settings import FAST, PhysicsConfig
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.tracking import rewards
from spectral_skills.tracking.env import EnvConfig
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.policy import ControllerConfig
from spectral_skills.tracking.ppo import PPOConfig
from spectral_skills.tracking.randomization import RandomizationConfig, scaled
from spectral_skills.tracking.references import CommandConfig
from spectral_skills.tracking.sac import SACConfig
from spectral_skills.tracking.sampler import SamplerConfig
from spectral_skills.tracking.terminations import TerminationConfig


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
    mirror: bool = False
    """Whether every clip's mirror image is trained on as well."""
    log_every: int = 10
    """Iterations between lines of the log."""
    probe_every: int = 50_000_000
    """Frames between measurements of success and errors."""
    probe_clips: int = 256
    """Number of clips for these measurements; 0 for none."""
    checkpoint_every: int = 50_000_000
    """Frames between checkpoints."""
    seed: int = 0

    def __post_init__(self):
        counts = ("robots", "frames", "log_every", "probe_every", "checkpoint_every")
        configs.at_least(self, 1, *counts)
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
    def learning(self) -> PPOConfig | SACConfig:
        """Settings of the learner."""
        return getattr(self, self.learner)


def _authors(**changes) -> EnvConfig:
    """The environment of the paper's authors, except for where episodes start."""
    rules = TerminationConfig(low_average=False, anneal_frames=(5_000_000, 30_000_000))
    settings = EnvConfig(
        rewards=rewards.final(),
        terminations=rules,
        episode_steps=500,
        clip_end="terminal",
    )
    return replace(settings, **changes)


def _resets(*uniform: tuple[int, float]) -> SamplerConfig:
    """The authors' starts, with a share of uniform ones that changes."""
    return SamplerConfig(uniform=uniform, lead=199, rate_cap=200.0, clip_cap=None)


_AUTHORS_CONTROLLER = ControllerConfig(
    init_std=1.0, min_std=None, max_std=None, critic_command=True
)
_AUTHORS_PPO = PPOConfig(value_clip=0.2, one_norm=True, kl_each_step=True)


def hub(**command) -> TrackConfig:
    """The run of the authors' ablations: 2 B frames, up to which it is better than
    `combo`. The controller sees one frame of history. `command` changes the commands.
    """
    return TrackConfig(
        env=_authors(sampler=_resets((0, 0.8), (1_000_000_000, 0.2))),
        controller=replace(
            _AUTHORS_CONTROLLER, history=1, command=CommandConfig(**command)
        ),
        ppo=replace(
            _AUTHORS_PPO,
            epochs=5,
            # Steps with 368,640 of the 491,520 frames, and with the other 122,880.
            minibatches=4,
            merged=(3, 1),
            weight_decay=0.0,
            critic_lr_end=1e-3,
        ),
        physics=FAST,
        robots=20_480,
        frames=2_000_000_000,
    )


def combo() -> TrackConfig:
    """The run of the paper's controller: 50 B frames of 16,384 robots."""
    # In two stretches, the second of which begins at 8.6 B frames.
    sampler = _resets(
        *((0, 0.8), (4_000_000_000, 0.5)),
        *((8_600_000_000, 0.5), (12_600_000_000, 0.2)),
    )
    return TrackConfig(
        env=_authors(sampler=sampler),
        controller=_AUTHORS_CONTROLLER,
        ppo=_AUTHORS_PPO,
        physics=FAST,
        probe_every=500_000_000,
        probe_clips=1024,
        checkpoint_every=100_000_000,
    )


def base() -> TrackConfig:
    """The released controller, from the embedded corpus and its mirror image.

    Made for few frames: an iteration has a third of the paper's, since the change in
    one iteration is limited, and randomisation is half of SONIC's. A new actor starts
    gently, after statistics and critic have learned something: first steps of 1e-3 on
    a large batch can put it where it hardly learns.
    """
    return TrackConfig(
        env=EnvConfig(
            randomization=scaled(RandomizationConfig(), 0.5),
            sampler=SamplerConfig(uniform=((0, 0.8), (300_000_000, 0.2))),
            episode_steps=500,
        ),
        ppo=PPOConfig(steps=8, actor_lr=1e-4, critic_warmup=5),
        physics=FAST,
        frames=1_500_000_000,
        mirror=True,
        log_every=30,
    )


def refine() -> TrackConfig:
    """For a controller that tracks already (--init): all of SONIC's randomisation, and
    smaller steps, since an iteration gains most at a quarter of the usual change of the
    policy."""
    config = base()
    return replace(
        config,
        env=replace(config.env, randomization=RandomizationConfig()),
        ppo=replace(config.ppo, kl_target=0.01),
    )


def lafan1_ppo() -> TrackConfig:
    """LAFAN1 by PPO: few clips of minutes each, so episodes end before the clips do."""
    return replace(base(), frames=5_000_000_000)


def lafan1() -> TrackConfig:
    """LAFAN1, learned off-policy: the authors' rewards and annealed thresholds, which
    stay loose for a quarter of the robots, and half of the randomisation. Unlike the
    authors' rules, these also end an episode that has left its place, and one near the
    floor before it is 0.75 m off. Starts are everywhere at first, then mostly where
    robots failed recently. Small networks that see one frame of history allow more
    updates in the same time. The model is a slow average of the actor, which is
    steadier and completes more clips."""
    return TrackConfig(
        env=EnvConfig(
            rewards=rewards.final(),
            terminations=TerminationConfig(
                place_m=0.5,
                low_height_m=0.3,
                low_average=False,
                anneal_frames=(5_000_000, 30_000_000),
                loose_share=0.25,
            ),
            randomization=scaled(RandomizationConfig(), 0.5),
            sampler=SamplerConfig(
                uniform=((30_000_000, 1.0), (60_000_000, 0.3)), half_life=50_000_000
            ),
            episode_steps=500,
        ),
        controller=ControllerConfig(
            hidden=(1024, 1024, 512),
            critic_hidden=(1024, 1024, 512),
            history=1,
            bounds=joint_bounds(),
            init_std=0.3,
            min_std=0.05,
            max_std=0.4,
        ),
        learner="sac",
        sac=SACConfig(keep_rate=0.01),
        physics=FAST,
        frames=2_000_000_000,
        mirror=True,
        log_every=30,
    )


def deploy() -> TrackConfig:
    """For a robot: start from `base` (--init); steadier, for worse hardware.

    The last of the authors' seven stages of deployment training, from 50 B to 89.5 B
    frames, at once. Delays and gains are drawn once for every robot. The learner is
    that of `base`: the authors' 1e-5 is for a critic that has learned already.
    """
    config = base()
    random = RandomizationConfig(
        stiffness=(0.9, 1.1),
        damping=(0.9, 1.1),
        delay_substeps=(0, 1),
        anchor_walk_m=0.002,
        anchor_jitter_m=0.005,
        anchor_jump_m=0.03,
    )
    env = _authors(
        rewards=replace(
            rewards.final(),
            action_rate=-0.5,
            joint_limit=-50.0,
            power=-1e-4,
            posture=rewards.Kernel(0.05, math.sqrt(0.5)),
            default_pose=-0.001,
        ),
        terminations=TerminationConfig(joint_limit=0.5, low_average=False),
        randomization=random,
        sampler=_resets((0, 0.1)),
    )
    return replace(config, env=env, ppo=replace(config.ppo, steps=24))


def smoke() -> TrackConfig:
    """The same code at a small size: seconds on a CPU."""
    return TrackConfig(
        controller=ControllerConfig(hidden=(64, 64), critic_hidden=(64, 64)),
        ppo=PPOConfig(steps=8),
        robots=8,
        frames=4 * 8 * 8,
        log_every=1,
        probe_every=2 * 8 * 8,
        probe_clips=2,
        checkpoint_every=2 * 8 * 8,
    )


def smoke_sac() -> TrackConfig:
    """The same with the off-policy learner."""
    config = smoke()
    return replace(
        config,
        controller=replace(config.controller, bounds=joint_bounds()),
        learner="sac",
        sac=SACConfig(updates=2, batch=64, warmup=8, memory=64),
    )


TRACK: dict[str, Callable[[], TrackConfig]] = {
    "paper": combo,
    "base": base,
    "refine": refine,
    "lafan1": lafan1,
    "lafan1-ppo": lafan1_ppo,
    "deploy": deploy,
    "smoke": smoke,
    "smoke-sac": smoke_sac,
    # The authors' two runs.
    "hub": hub,
    "combo": combo,
    # Arms of the ablations: the same run on another skill model, or other commands.
    "ablation": hub,
    # *Expert heading*: with a skill model of `ablation-expert-heading`, which sees
    # windows from the reference's own place and heading, also in rollouts.
    "expert-heading": hub,
    "hold10": lambda: hub(hold=10),
    # The next reference pose in place of a skill.
    "explicit": lambda: hub(kind="pose"),
    # Table repr_ablation, encoders trained together with the controller.
    "joint-recon": lambda: hub(kind="joint", gradient=False),
    "joint-recon-pg": lambda: hub(kind="joint"),
    "joint-fsq": lambda: hub(kind="joint", bottleneck=BottleneckConfig("fsq")),
    "joint-vq": lambda: hub(kind="joint", bottleneck=BottleneckConfig("vq")),
}

"""A training run of a controller, whole."""

from dataclasses import dataclass
from typing import Literal

from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.tracking.env import EnvConfig
from spectral_skills.tracking.policy import ControllerConfig
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

"""Small controllers that have learned nothing, of other kinds than the released one."""

from functools import cache

import torch

from spectral_skills.motion.windows import WindowConfig
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.references import CommandConfig


def controller(**command) -> Controller:
    """A controller of some kind of commands."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = ControllerConfig(hidden=(16,), command=CommandConfig(**command))
        return Controller(config).eval()


@cache
def explicit() -> Controller:
    """A controller of poses."""
    return controller(kind="pose")


@cache
def tokens() -> tuple[Controller, SkillEncoder]:
    """A controller that holds FSQ tokens for ten steps, and their encoder."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fsq = EncoderConfig(width=8, hidden=(16,), bottleneck=BottleneckConfig("fsq"))
        encoder = SkillEncoder(fsq, WindowConfig()).eval()
    mark = encoder.fingerprint()
    return controller(width=8, hold=10, encoder=mark), encoder

"""Named runs of every kind, by name; the recipes are beside what they configure."""

from collections.abc import Callable
from typing import TypeVar

from spectral_skills.motion.synthetic.generate import SynthConfig
from spectral_skills.planner.recipes import PLAN
from spectral_skills.planner.train import PlanConfig
from spectral_skills.skill.recipes import PRETRAIN
from spectral_skills.skill.trainer import PretrainConfig
from spectral_skills.tracking.recipes import TRACK
from spectral_skills.tracking.start import TrackConfig

T = TypeVar("T")
SYNTH: dict[str, Callable[[], SynthConfig]] = {
    # About an hour of motion, from which the released models are made.
    "base": lambda: SynthConfig(clips=512, seed=0),
    "smoke": lambda: SynthConfig(clips=8, seed=0),
}


def synth(name: str) -> SynthConfig:
    """A recipe for an embedded corpus."""
    return _find(SYNTH, name)


def pretrain(name: str) -> PretrainConfig:
    """A recipe for a skill model."""
    return _find(PRETRAIN, name)


def track(name: str) -> TrackConfig:
    """A recipe for a controller."""
    return _find(TRACK, name)


def plan(name: str) -> PlanConfig:
    """A recipe for a planner."""
    return _find(PLAN, name)


def _find(recipes: dict[str, Callable[[], T]], name: str) -> T:
    if name not in recipes:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(recipes)}")
    return recipes[name]()

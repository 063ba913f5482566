"""Named runs of every kind: tables of changes in recipes.toml."""

from typing import Any, TypeVar

from spectral_skills import config as configs
from spectral_skills.config import read_table
from spectral_skills.motion.synthetic.generate import SynthConfig
from spectral_skills.physics.settings import FAST
from spectral_skills.planner.train import PlanConfig
from spectral_skills.skill.trainer import PretrainConfig
from spectral_skills.tracking import rewards
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.randomization import RandomizationConfig, scaled
from spectral_skills.tracking.start import TrackConfig

T = TypeVar("T")
_TABLES = read_table(__file__)
SYNTH, PRETRAIN, TRACK, PLAN = (
    _TABLES[kind] for kind in ("synth", "pretrain", "track", "plan")
)
"""Changes that each recipe makes, by its name."""
_SETS = {
    "final": rewards.final(),
    "sonic": RandomizationConfig(),
    "half of sonic": scaled(RandomizationConfig(), 0.5),
    "fast": FAST,
}
"""Parts of a configuration that a recipe may begin with."""
_VALUES = {
    "none": None,
    "joint bounds": list(joint_bounds()),
    "wide joint bounds": list(joint_bounds(4.0)),
}
"""Values that a recipe names instead of listing them; TOML has no None."""


def synth(name: str) -> SynthConfig:
    """A recipe for an embedded corpus."""
    return _read(SynthConfig, SYNTH, name)


def pretrain(name: str) -> PretrainConfig:
    """A recipe for a skill model."""
    return _read(PretrainConfig, PRETRAIN, name)


def track(name: str) -> TrackConfig:
    """A recipe for a controller."""
    return _read(TrackConfig, TRACK, name)


def plan(name: str) -> PlanConfig:
    """A recipe for a planner."""
    return _read(PlanConfig, PLAN, name)


def _read(config_class: type[T], recipes: dict[str, Any], name: str) -> T:
    if name not in recipes:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(recipes)}")
    changes = dict(recipes[name])
    parent = changes.pop("from", None)
    start = config_class() if parent is None else _read(config_class, recipes, parent)
    values = _changed(configs.to_dict(start), changes)
    return configs.from_dict(config_class, values, f"recipe {name}")


def _changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Nested values with changes."""
    changes = dict(changes)
    if "from" in changes:
        values = configs.to_dict(_SETS[changes.pop("from")])
    found = dict(values)
    for key, change in changes.items():
        if isinstance(change, dict):
            found[key] = _changed(values[key], change)
        else:
            named = isinstance(change, str) and change in _VALUES
            found[key] = _VALUES[change] if named else change
    return found

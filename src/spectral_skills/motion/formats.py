"""Read motions as people have them, told apart by content.

    clips = formats.read(path, ReadOptions())

gives clips and, for whatever could not be read, the reasons; it does not raise.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.kinds import TABLE
from spectral_skills.motion.readers import (
    archives,
    csv_motions,
    libraries,
    sonic_folder,
    stream,
    tables,
)
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    NAME_LENGTH,
    ReadOptions,
    plain,
)

__all__ = ["ReadOptions", "find", "read"]

SUFFIXES = (".csv", ".npz", ".pkl", ".joblib", ".pickle")
TEXT_LIMIT_BYTES = 512 << 20
"""Of a CSV: its numbers take five times the room of its text while being read."""


def find(paths: Iterable[Path]) -> list[Path]:
    """The motion files and reference folders among paths, folders expanded.

    Given files are kept whatever they are called; a folder's tables of words are
    left out. Order is that of the paths, sorted within a folder.
    """
    found: dict[Path, None] = {}
    seen: set[str] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        found.update(dict.fromkeys(_expand(path, seen) if path.is_dir() else [path]))
    return list(found)


def _expand(folder: Path, seen: set[str]) -> Iterator[Path]:
    # Links may lead round in circles: each folder is entered once.
    here = os.path.realpath(folder)
    if here in seen:
        return
    seen.add(here)
    try:
        reference = sonic_folder.is_reference(folder)
        children = [] if reference else sorted(folder.iterdir())
    except OSError:
        yield folder  # `read` will say why
        return
    if reference:
        yield folder
    for child in children:
        if child.name.startswith("."):
            continue
        if child.is_dir():
            yield from _expand(child, seen)
        elif child.suffix.lower() in SUFFIXES and not _describes(child):
            yield child


def _describes(file: Path) -> bool:
    """Whether a file of a folder is about motions rather than one."""
    if file.name.lower() == TABLE:
        return True
    if file.suffix.lower() != ".csv" or not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return tables.is_index(opened.read(tables.HEAD_BYTES))
    except OSError:
        return False  # `read` will say why


def read(path: Path, options: ReadOptions) -> list[Clip | ClipError]:
    """Every motion of a file or reference folder, and why the others are refused."""
    try:
        # Numbers out of range are told by the clip's checks, not by warnings.
        with np.errstate(all="ignore"):
            return _read(Path(path), options)
    except ClipError as error:
        return [error]
    except MemoryError:
        return [ClipError("too large", "does not fit into memory")]
    except OSError as error:
        return [ClipError("unreadable", plain(error.strerror or error))]
    except Exception as error:
        # A reader that fails in a way it did not foresee costs this file only.
        what = f"{type(error).__name__}: {plain(error, 120)}"
        return [ClipError("unreadable", what)]


def _read(path: Path, options: ReadOptions) -> list[Clip | ClipError]:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return [sonic_folder.read(path, options)]
    if not stat.S_ISREG(status.st_mode):
        raise ClipError("unreadable", "neither a file nor a folder")
    if status.st_size == 0:
        raise ClipError("empty", "the file is empty")
    if status.st_size > LIMIT_BYTES:
        size = status.st_size / 1024**3
        raise ClipError("too large", f"{size:.1f} GiB; files up to 2 GiB are read")
    name = plain(path.stem, NAME_LENGTH)
    with path.open("rb") as file:
        head = file.read(64)
        file.seek(max(0, status.st_size - 1))
        last = file.read(1)
        file.seek(0)
        if head.startswith(b"PK"):
            return [archives.read(file, name, options)]
        if head.startswith(b"\x93NUMPY"):
            raise ClipError(
                "unknown format", "a bare npy array; save an npz with qpos and fps"
            )
        if stream.is_compressed(head) or _is_pickle(head, last):
            return libraries.read(file, name, options)
        if status.st_size > TEXT_LIMIT_BYTES:
            size = status.st_size / 1024**2
            raise ClipError("too large", f"{size:.0f} MiB of text; 512 MiB are read")
        return [csv_motions.read(file.read(), name, options)]


def _is_pickle(head: bytes, last: bytes) -> bool:
    """Protocols 2 and up say so; the older ones look like text but for their end."""
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return True
    first_line = head.split(b"\n")[0]
    return head[:1] in b"(]}c" and last == b"." and b"," not in first_line

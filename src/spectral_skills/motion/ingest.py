"""Files of mixed formats in, one corpus out. Formats are recognised by content."""

import stat
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.intake import (
    TABLE,
    Intake,
    Made,
    Sidecars,
    Summary,
    build,
    key,
    walk,
)
from spectral_skills.motion.readers import archives, tables, unpickle
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    NAME_LENGTH,
    ReadOptions,
    attempted,
    printable,
)

__all__ = ["ReadOptions", "Summary", "find", "ingest", "read"]

SUFFIXES = (".csv", ".npz", ".pkl", ".pickle", ".joblib")
_TEXT_LIMIT_BYTES = 512 << 20  # numbers take five times the room of their text

Found = list[Clip | ClipError]


def find(paths: Iterable[Path]) -> list[Path]:
    """The motion files and reference folders among paths, folders expanded.

    A folder's tables of words are skipped.
    """

    def is_motion(file: Path) -> bool:
        return file.suffix.lower() in SUFFIXES and not _describes(file)

    return walk(paths, tables.is_reference, is_motion)


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


def read(path: Path, options: ReadOptions) -> Found:
    """Every motion of a file or reference folder, and why the others are refused.

    It does not raise.
    """
    return attempted(lambda: _read(Path(path), options))


def _read(path: Path, options: ReadOptions) -> Found:
    status = path.stat()
    size = status.st_size
    if stat.S_ISDIR(status.st_mode):
        return [tables.read_reference(path, options)]
    if not stat.S_ISREG(status.st_mode):
        raise ClipError("unreadable", "neither a file nor a folder")
    if size == 0:
        raise ClipError("empty", "the file is empty")
    if size > LIMIT_BYTES:
        reason = f"{size / 1024**3:.1f} GiB; files up to 2 GiB are read"
        raise ClipError("too large", reason)
    name = printable(path.stem, NAME_LENGTH)
    with path.open("rb") as file:
        head = file.read(64)
        file.seek(size - 1)
        last = file.read(1)
        file.seek(0)
        if head.startswith(b"PK"):
            return [archives.read_npz(file, name, options)]
        if head.startswith(b"\x93NUMPY"):
            reason = "a bare npy array; save an npz with qpos and fps"
            raise ClipError("unknown format", reason)
        if unpickle.is_compressed(head) or _is_pickle(head, last):
            return archives.read_pickle(file, name, options)
        if size > _TEXT_LIMIT_BYTES:
            reason = f"{size / 1024**2:.0f} MiB of text; 512 MiB are read"
            raise ClipError("too large", reason)
        return [tables.read_csv(file.read(), name, options)]


def _is_pickle(head: bytes, last: bytes) -> bool:
    """Protocols 2 and up say so; the older ones look like text except for their end."""
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return True
    first_line = head.split(b"\n")[0]
    return head[:1] in b"(]}c" and last == b"." and b"," not in first_line


def read_at_corpus_rate(path: Path, options: ReadOptions) -> list[Made | ClipError]:
    """Clips of one file at 50 Hz."""
    found: list[Made | ClipError] = []
    for item in read(path, options):
        try:
            if isinstance(item, Clip) and item.duration_s * FPS <= 1.0:
                raise ClipError("empty", f"{item.name} lasts {item.duration_s:.3f} s")
            found.append(Made(item.resampled(FPS)) if isinstance(item, Clip) else item)
        except ClipError as error:
            found.append(error)
    return found


def ingest(
    paths: list[Path],
    out: Path,
    *,
    fps: float | None = None,
    strict: bool = False,
    pad_wrists: bool = False,
    workers: int | None = None,
) -> Summary:
    """Read motion files and folders into the corpus `out`, which is replaced.

    With `strict` the first refusal raises ClipError. In that case, and if nothing was
    usable, an older corpus at `out` stays as it was.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers}: at least 1")
    if fps is not None and not 1.0 <= fps <= 1000.0:
        raise ValueError(f"--fps {fps}: not in 1..1000 Hz")
    inputs = {key(path, *_parts(path)): path for path in find(paths)}
    if not inputs:
        return Summary()
    options = {"fps": fps, "pad_wrists": pad_wrists, "strict": strict}
    make = partial(read_at_corpus_rate, options=ReadOptions(fps, pad_wrists))
    job = Intake("ingest", options, make, strict=strict)
    return build(out, job, inputs, Sidecars(), workers)


def _parts(path: Path) -> list[Path]:
    """Files of a reference folder."""
    return sorted(path.glob("*.csv")) if path.is_dir() else []

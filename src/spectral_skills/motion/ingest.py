"""Files of mixed formats in, one corpus out.

Formats are recognised by content. A file that cannot be read costs that file only,
and the reason is reported. Descriptions come from a sidecar file, from the motion's
own file, or from the clip's name.
"""

import csv
import os
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.corpus_writer import CorpusWriter, Refusal
from spectral_skills.motion.motion_sets import text_from_name
from spectral_skills.motion.readers import archives, tables, unpickle
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    NAME_LENGTH,
    TEXT_LENGTH,
    ReadOptions,
    printable,
    sentences,
)
from spectral_skills.workers import in_order

__all__ = ["ReadOptions", "Summary", "find", "ingest", "read"]

SUFFIXES = (".csv", ".npz", ".pkl", ".pickle", ".joblib")
TABLE = "metadata.csv"
_TEXT_LIMIT_BYTES = 512 << 20  # numbers take five times the room of their text
_NAME_COLUMNS = ("name", "filename", "file_name", "move_name")
_TEXT_COLUMNS = (
    "text",
    *(f"content_natural_desc_{i}" for i in range(1, 5)),
    "content_short_description",
)

Found = list[Clip | ClipError]


def find(paths: Iterable[Path]) -> list[Path]:
    """The motion files and reference folders among paths, folders expanded.

    Given files are kept whatever they are called; a folder's tables of words are
    skipped. The order is that of the paths, sorted within a folder.
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
        reference = tables.is_reference(folder)
        children = [] if reference else sorted(folder.iterdir())
    except OSError:
        reference, children = True, []  # `read` will say why
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


def read(path: Path, options: ReadOptions) -> Found:
    """Every motion of a file or reference folder, and why the others are refused.

    It does not raise.
    """
    try:
        # Numbers out of range are reported by the clip's checks, not by warnings.
        with np.errstate(all="ignore"):
            return _read(Path(path), options)
    except ClipError as error:
        return [error]
    except MemoryError:
        return [ClipError("too large", "does not fit into memory")]
    except OSError as error:
        return [ClipError("unreadable", printable(error.strerror or error))]
    except Exception as error:
        # A reader that fails in a way it did not foresee costs this file only.
        what = f"{type(error).__name__}: {printable(error, 120)}"
        return [ClipError("unreadable", what)]


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


def read_at_corpus_rate(path: Path, options: ReadOptions) -> Found:
    """Clips of one file at 50 Hz."""
    found: Found = []
    for item in read(path, options):
        try:
            if isinstance(item, Clip) and item.duration_s * FPS <= 1.0:
                raise ClipError("empty", f"{item.name} lasts {item.duration_s:.3f} s")
            found.append(item.resampled(FPS) if isinstance(item, Clip) else item)
        except ClipError as error:
            found.append(error)
    return found


class Description(NamedTuple):
    """What a sidecar says about a clip; empty where it is silent."""

    text: str = ""
    source: str = ""
    licence: str = ""


class Sidecars:
    """Looks for NAME.txt beside a motion and metadata.csv there or one folder up."""

    def __init__(self):
        self._tables: dict[Path, dict[str, Description]] = {}
        self.problems: list[str] = []  # sidecars that could not be used, and why

    def describe(self, path: Path, name: str) -> Description:
        """The description of clip `name` that was read from `path`."""
        near_and_far = map(self._table, (path.parent, path.parent.parent))
        rows = (table.get(_table_key(name)) for table in near_and_far)
        found = next((row for row in rows if row is not None), Description())
        # A name from inside a library may look like a path: it must not lead away.
        if Path(name).name != name:
            return found
        try:
            note = (path.parent / f"{name}.txt").read_text("utf-8-sig", "replace")
        except OSError:
            return found
        return found._replace(text=sentences([note]) or found.text)

    def _table(self, folder: Path) -> dict[str, Description]:
        if folder not in self._tables:
            path = folder / TABLE
            self._tables[folder] = {}
            try:
                if path.is_file():
                    self._tables[folder] = read_table(path)
            except (OSError, ValueError, csv.Error) as error:
                self.problems.append(f"{path}: not used: {printable(error, 200)}")
        return self._tables[folder]


def read_table(path: Path) -> dict[str, Description]:
    """Rows of a metadata table by clip name; BONES-SEED's columns are known too."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        keys = [c for c in _NAME_COLUMNS if c in columns]
        texts = [c for c in _TEXT_COLUMNS if c in columns]
        if not keys or not texts:
            has = ", ".join(columns) or "none"
            raise ValueError(f"it needs the columns name and text, and has {has}")
        table = {}
        for row in reader:
            licence = row.get("licence") or row.get("license") or ""
            description = Description(
                text=sentences(dict.fromkeys(row[c] or "" for c in texts)),
                source=printable(row.get("source") or "", TEXT_LENGTH),
                licence=printable(licence, TEXT_LENGTH),
            )
            for key in keys:
                if row[key]:
                    table.setdefault(_table_key(row[key]), description)
    return table


def _table_key(name: str) -> str:
    """Table rows name clips with or without an ending or folders."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1]
    return re.sub(r"\.(csv|npz|pkl|joblib)$", "", stem)


@dataclass(frozen=True)
class Summary:
    files: int
    clips: int
    frames: int
    noted: int  # number of clips taken with a note about their quality or origin
    refusals: list[Refusal]
    seconds: float

    def lines(self) -> list[str]:
        hours = self.frames / FPS / 3600
        lines = [
            f"accepted  {self.clips:,} clips, {self.frames:,} frames at {FPS} Hz, "
            f"{hours:.2f} h, from {self.files:,} files in {self.seconds:.1f} s"
        ]
        if self.noted:
            lines.append(f"          {self.noted:,} with a note: corpus list --notes")
        lines.append(f"refused   {len(self.refusals):,}")
        kinds = Counter(refusal.kind for refusal in self.refusals)
        return lines + [f"          {n:,} {kind}" for kind, n in kinds.most_common()]


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
    start = time.perf_counter()
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers}: at least 1")
    if fps is not None and not 1.0 <= fps <= 1000.0:
        raise ValueError(f"--fps {fps}: not in 1..1000 Hz")
    keys = {_key(path): path for path in find(paths)}
    if not keys:
        return Summary(0, 0, 0, 0, [], 0.0)
    job = {"fps": fps, "pad_wrists": pad_wrists, "strict": strict}
    writer, sidecars = CorpusWriter(out, job, list(keys)), Sidecars()
    todo = {key: path for key, path in keys.items() if key not in writer.done}
    reading = partial(read_at_corpus_rate, options=ReadOptions(fps, pad_wrists))
    few = min(workers or os.cpu_count() or 1, max(1, len(todo)))
    # disable=None: silent when the output is no terminal.
    look = {"unit": "file", "desc": "ingest", "disable": None}
    try:
        with tqdm(total=len(keys), initial=len(keys) - len(todo), **look) as bar:
            for refusal in writer.refused:
                bar.write(str(refusal), file=sys.stderr)
            results = in_order(reading, todo.values(), few)
            for (key, path), found in zip(todo.items(), results, strict=True):
                errors = [e for e in found if isinstance(e, ClipError)]
                if strict and errors:
                    raise ClipError(errors[0].kind, f"{path}: {errors[0]}")
                refused = [Refusal(str(path), e.kind, str(e)) for e in errors]
                clips = [c for c in found if isinstance(c, Clip)]
                clips = [_described(c, path, sidecars) for c in clips]
                for message in (*map(str, refused), *sidecars.problems):
                    bar.write(message, file=sys.stderr)
                sidecars.problems.clear()
                writer.add(key, path.name, clips, refused)
                bar.update()
        summary = Summary(
            files=len(keys),
            clips=len(writer.clips),
            frames=sum(clip["length"] for clip in writer.clips),
            noted=sum(bool(clip["notes"]) for clip in writer.clips),
            refusals=writer.refused,
            seconds=time.perf_counter() - start,
        )
        if summary.clips:
            writer.finish()
        else:
            writer.discard()
        return summary
    finally:
        writer.close()


def _key(path: Path) -> str:
    """Name of a file and its state, so that what has changed is read again."""
    inside = sorted(path.glob("*.csv")) if path.is_dir() else []
    described = [folder / TABLE for folder in (path.parent, path.parent.parent)]
    note = path.parent / f"{path.stem}.txt"
    stamps = map(_stamp, (path, note, *described, *inside))
    return "|".join((os.path.abspath(path), *stamps))


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_size},{status.st_mtime_ns}"


def _described(clip: Clip, path: Path, sidecars: Sidecars) -> Clip:
    found = sidecars.describe(path, clip.name)
    return clip.described(
        text=found.text or clip.text or text_from_name(clip.name),
        source=found.source or clip.source,
        licence=found.licence or clip.licence,
    )

"""Many clips in memory-mapped arrays, opened in milliseconds whatever their size.

On disk a corpus is a folder:

    corpus.json            version, fps, counts and the name of
    <generation>/          one immutable set of arrays, named by its hash:
        frames.f32         (frames, 36) float32: root position, quaternion, joints
        spans.npy          (clips, 2) int64: first frame, number of frames
        <column>.npy/.bin  one text column of the index: offsets, UTF-8 bytes

A kill at any moment while a corpus is written costs nothing. Clips are appended to
`.building/frames.f32` and, once they are on file, to `.building/journal.jsonl`. A run
that is killed leaves the old corpus untouched; the next one truncates the frames to
what the journal knows and goes on from there. The finished generation is moved in place
and corpus.json swapped in one step.
"""

import difflib
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.motion.clip import Clip, mirror_name, mirror_rows, mirror_text
from spectral_skills.robot import g1

if TYPE_CHECKING:
    import torch

    from spectral_skills.motion.windows import MotionTensors

VERSION = 1
FPS = 50
HEADER, FRAMES, SPANS = "corpus.json", "frames.f32", "spans.npy"
COLUMNS = ("name", "text", "source", "file", "licence", "notes", "hash")
_BUILDING, _JOURNAL, _LOCK = ".building", "journal.jsonl", ".lock"
_ROW_BYTES = 4 * g1.QPOS_SIZE


@dataclass(frozen=True)
class Entry:
    """The index row of one clip."""

    start: int  # in rows of `Corpus.rows`
    length: int
    name: str
    text: str  # sentences, one a line
    source: str
    file: str
    licence: str
    notes: str
    hash: str


class Strings:
    """A memory-mapped column of strings."""

    def __init__(self, stem: Path):
        self._offsets = np.load(stem.with_suffix(".npy"), mmap_mode="r")
        path = stem.with_suffix(".bin")
        empty = path.stat().st_size == 0
        self._bytes = b"" if empty else np.memmap(path, np.uint8, "r")

    def __getitem__(self, index: int) -> str:
        start, end = self._offsets[index], self._offsets[index + 1]
        return bytes(self._bytes[start:end]).decode()

    @staticmethod
    def write(stem: Path, values: Sequence[str]) -> None:
        encoded = [value.encode() for value in values]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(value) for value in encoded], out=offsets[1:])
        np.save(stem.with_suffix(".npy"), offsets)
        stem.with_suffix(".bin").write_bytes(b"".join(encoded))


@dataclass(frozen=True, eq=False)
class Corpus:
    """A set of clips at 50 Hz; subsets and mirror images are views, not copies."""

    header: dict
    rows: np.ndarray
    """(frames, 36) float32 of the whole folder, whatever this view selects."""
    spans: np.ndarray  # of the whole folder, as are the columns
    columns: dict[str, Strings]
    ids: np.ndarray  # of the clips of this view in the folder
    mirrored: np.ndarray  # which clips are read as their mirror image

    @classmethod
    def open(cls, folder: Path | str) -> "Corpus":
        try:
            return cls._open(Path(folder))
        except FileNotFoundError:
            # A new corpus may have taken its place meanwhile: ask once more.
            return cls._open(Path(folder))

    @classmethod
    def _open(cls, folder: Path) -> "Corpus":
        path = folder / HEADER
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder}: no corpus here; make one with `spectral ingest`, or with "
                "`spectral synth`"
            )
        try:
            header = json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path}: damaged, ingest again ({error})") from error
        if header["version"] != VERSION:
            raise ValueError(
                f"{path}: corpus version {header['version']}, this package reads "
                f"{VERSION}; ingest the motions again"
            )
        place, shape = folder / header["generation"], (header["frames"], g1.QPOS_SIZE)
        try:
            # Copy-on-write keeps torch from warning about read-only memory; nothing
            # is ever written, so no page is ever copied.
            rows = np.memmap(place / FRAMES, np.float32, "c", shape=shape)
            spans = np.load(place / SPANS, mmap_mode="r")
            columns = {name: Strings(place / name) for name in COLUMNS}
        except FileNotFoundError as error:
            missing = f"{folder}: damaged, ingest again ({error.filename} is missing)"
            raise FileNotFoundError(missing) from error
        except (ValueError, OSError) as error:
            raise ValueError(f"{folder}: damaged, ingest again ({error})") from error
        ids = np.arange(len(spans))
        return cls(header, rows, spans, columns, ids, np.zeros(len(ids), bool))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def hash(self) -> str:
        """Hash of all motions and texts of the folder, for provenance."""
        return self.header["generation"]

    @cached_property
    def starts(self) -> np.ndarray:
        """First row of every clip."""
        return np.asarray(self.spans[self.ids, 0])

    @cached_property
    def lengths(self) -> np.ndarray:
        """Frames of every clip."""
        return np.asarray(self.spans[self.ids, 1])

    @property
    def frames(self) -> int:
        return int(self.lengths.sum())

    @property
    def hours(self) -> float:
        return self.frames / FPS / 3600

    @cached_property
    def names(self) -> list[str]:
        """Names of all clips; a mirror image has `_mirror` appended."""
        column = self.columns["name"]
        pairs = zip(self.ids.tolist(), self.mirrored.tolist(), strict=True)
        return [mirror_name(column[i]) if m else column[i] for i, m in pairs]

    @cached_property
    def _index_of_name(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        if name not in self._index_of_name:
            near = difflib.get_close_matches(name, self.names, n=3, cutoff=0.3)
            hint = f"; close to it: {', '.join(near)}" if near else ""
            raise ValueError(f"no clip named {name!r} among {len(self)}{hint}")
        return self._index_of_name[name]

    def entry(self, index: int) -> Entry:
        base = int(self.ids[index])
        start, length = self.spans[base].tolist()
        fields = {name: column[base] for name, column in self.columns.items()}
        if self.mirrored[index]:
            fields["name"] = mirror_name(fields["name"])
            fields["text"] = mirror_text(fields["text"])
        return Entry(start=start, length=length, **fields)

    def qpos(self, index: int) -> np.ndarray:
        """(T, 36) rows of a clip; a view of the file unless mirrored."""
        start, length = self.spans[int(self.ids[index])].tolist()
        rows = self.rows[start : start + length]
        return mirror_rows(rows) if self.mirrored[index] else rows

    def clip(self, index: int) -> Clip:
        entry = self.entry(index)
        about = {key: getattr(entry, key) for key in ("name", "text", "source")}
        about |= {"licence": entry.licence, "fps": float(FPS)}
        notes = tuple(filter(None, entry.notes.split("\n")))
        return Clip.from_qpos(self.qpos(index), notes=notes, **about)

    def select(self, indices: Sequence[int] | np.ndarray) -> "Corpus":
        """A view of some clips, in the given order."""
        indices = np.asarray(indices)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        indices = indices.astype(np.int64)
        return replace(self, ids=self.ids[indices], mirrored=self.mirrored[indices])

    def with_mirror(self) -> "Corpus":
        """A view that has every clip and its left-right mirror image."""
        if self.mirrored.any():
            raise ValueError("these clips include mirror images already")
        mirrored = np.concatenate((self.mirrored, ~self.mirrored))
        return replace(self, ids=np.tile(self.ids, 2), mirrored=mirrored)

    def shards(self, max_frames: int) -> Iterator["Corpus"]:
        """Views of consecutive clips, each of at most `max_frames` frames.

        A single clip longer than that is a shard of its own.
        """
        first, total = 0, 0
        for index, length in enumerate(self.lengths.tolist()):
            if index > first and total + length > max_frames:
                yield self.select(np.arange(first, index))
                first, total = index, 0
            total += length
        if first < len(self):
            yield self.select(np.arange(first, len(self)))

    def to(self, device: "torch.device | str") -> "MotionTensors":
        """All clips of this view on a device, each stored once."""
        from spectral_skills.motion.windows import MotionTensors

        return MotionTensors.load(self, device)


@dataclass(frozen=True)
class Refusal:
    """Why a file, or one clip of it, was not taken."""

    file: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


class CorpusWriter:
    """Appends the clips of one input after another; `finish` makes the corpus."""

    def __init__(self, folder: Path, job: dict, inputs: list[str]):
        """Continue the unfinished work of the same job on the same inputs, if any.

        `inputs` are keys of everything that will be added, in this order.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / _LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{folder}: another process is writing here") from None
        self._building = folder / _BUILDING
        self.clips: list[dict] = []
        self.refused: list[Refusal] = []
        self.done: set[str] = set()
        """Keys of inputs that are already on file, from this run or a killed one."""
        self._names: set[str] = set()
        self._resume({"version": VERSION, "job": job}, inputs)

    def _resume(self, job: dict, inputs: list[str]) -> None:
        journal, frames_file = self._building / _JOURNAL, self._building / FRAMES
        text = journal.read_text() if journal.exists() else ""
        lines = text.splitlines(keepends=True)
        first_line = json.dumps(job, sort_keys=True) + "\n"
        if not frames_file.exists() or lines[:1] != [first_line]:
            shutil.rmtree(self._building, ignore_errors=True)
            self._building.mkdir()
            frames_file.touch()
            lines = [first_line]
        on_file = frames_file.stat().st_size // _ROW_BYTES
        kept, frames = lines[:1], 0
        for line in lines[1:]:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                break  # the kill came in the middle of this line
            length = sum(clip["length"] for clip in record["clips"])
            if not line.endswith("\n") or frames + length > on_file:
                break
            if inputs[len(kept) - 1 : len(kept)] != [record["input"]]:
                break  # a file was added, removed or changed since
            frames += length
            kept.append(line)
            self._remember(record)
        write_file(journal, "".join(kept))
        self._frames = frames_file.open("r+b")
        self._frames.truncate(frames * _ROW_BYTES)
        self._frames.seek(0, os.SEEK_END)
        self._journal = journal.open("a")

    def _remember(self, record: dict) -> None:
        self.done.add(record["input"])
        self.clips.extend(record["clips"])
        for clip in record["clips"]:
            self._names |= {clip["name"], mirror_name(clip["name"])}
        self.refused.extend(Refusal(**r) for r in record["refused"])

    def add(self, key: str, file: str, clips: list[Clip], refused: list[Refusal]):
        """Put one input's clips on file."""
        for clip in clips:
            if clip.fps != FPS:
                raise ValueError(f"{clip.name}: {clip.fps} Hz; a corpus has {FPS} Hz")
        records = []
        for clip in clips:
            data = clip.qpos().astype("<f4").tobytes()
            self._frames.write(data)
            facts = {
                "name": self._unique(_encodable(clip.name)),
                "text": clip.text,
                "source": clip.source,
                "file": file,
                "licence": clip.licence,
                "notes": "\n".join(clip.notes),
                "hash": hashlib.blake2b(data, digest_size=16).hexdigest(),
            }
            facts = {name: _encodable(value) for name, value in facts.items()}
            records.append(facts | {"length": clip.frames})
        self._frames.flush()
        refusals = [asdict(r) for r in refused]
        record = {"input": key, "clips": records, "refused": refusals}
        self._journal.write(json.dumps(record) + "\n")
        self._journal.flush()
        self._remember(record)

    def _unique(self, name: str) -> str:
        """A name that neither a clip nor a clip's mirror image has."""
        candidate, number = name, 2
        while {candidate, mirror_name(candidate)} & self._names:
            candidate, number = f"{name}~{number}", number + 1
        self._names |= {candidate, mirror_name(candidate)}
        return candidate

    def finish(self) -> None:
        """Make what was added the corpus of the folder."""
        if not self.clips:
            raise ValueError("no clip was added")
        generation = write_index(self._building, self.clips)
        self._frames.flush()
        for path in self._building.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())  # on the disk before corpus.json points here
        place = self.folder / generation
        (self._building / _JOURNAL).unlink()
        same = self._live_generation() == generation
        if same and _sizes(place) == _sizes(self._building):
            shutil.rmtree(self._building)  # the very same corpus is already there
        else:
            if place.exists():
                shutil.rmtree(place)  # half removed, or damaged since
            os.replace(self._building, place)
        write_header(self.folder, generation, self.clips)
        for old in self.folder.iterdir():
            if re.fullmatch("[0-9a-f]{32}", old.name) and old.name != generation:
                shutil.rmtree(old)
        self.close()

    def _live_generation(self) -> str:
        try:
            return json.loads((self.folder / HEADER).read_text())["generation"]
        except (OSError, ValueError, KeyError):
            return ""

    def discard(self) -> None:
        """Forget what was added; the corpus of the folder stays as it was."""
        shutil.rmtree(self._building)
        self.close()

    def close(self) -> None:
        """Close the files; unfinished work stays for the next run."""
        for file in (self._frames, self._journal, self._lock):
            file.close()


def write_index(folder: Path, clips: list[dict]) -> str:
    """Write spans and columns of clips whose rows follow each other; returns a hash."""
    lengths = np.array([clip["length"] for clip in clips], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    np.save(folder / SPANS, np.stack((starts, lengths), axis=1))
    digest = hashlib.blake2b(digest_size=16)
    for column in COLUMNS:
        values = [clip[column] for clip in clips]
        Strings.write(folder / column, values)
        digest.update(json.dumps(values).encode())
    return digest.hexdigest()


def write_header(folder: Path, generation: str, clips: list[dict]) -> None:
    """Make a generation the corpus of the folder, in one step."""
    frames = sum(clip["length"] for clip in clips)
    header = {
        "version": VERSION,
        "generation": generation,
        "fps": FPS,
        "clips": len(clips),
        "frames": frames,
        "hours": round(frames / FPS / 3600, 4),
    }
    write_file(folder / HEADER, json.dumps(header, indent=2) + "\n")


def _sizes(folder: Path) -> dict[str, int]:
    files = folder.iterdir() if folder.exists() else ()
    return {file.name: file.stat().st_size for file in files}


def _encodable(text: str) -> str:
    """Text that can be written: names of files may hold bytes that are no text."""
    return text.encode("utf-8", "replace").decode()

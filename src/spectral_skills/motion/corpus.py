"""Many clips in memory-mapped arrays, opened in milliseconds whatever their size.

On disk a corpus is a folder:

    corpus.json            version, fps, counts and the name of
    <generation>/          one immutable set of arrays, named by its hash:
        frames.f32         (frames, 36) float32: root position, quaternion, joints
        spans.npy          (clips, 2) int64: first frame, number of frames
        <column>.npy/.bin  one text column of the index: offsets, UTF-8 bytes
        human.bin          where the clips were made from a person's motion: that
                           person, one row a frame (`human/rows.py`)
"""

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spectral_skills.motion.clip import Clip, mirror_name, mirror_rows, mirror_text
from spectral_skills.motion.human.rows import ROW, HumanRows
from spectral_skills.robot import g1

if TYPE_CHECKING:
    import torch

    from spectral_skills.motion.windows import MotionTensors

VERSION = 1
FPS = 50
HEADER, FRAMES, SPANS = "corpus.json", "frames.f32", "spans.npy"
HUMAN = "human.bin"
PAGE = "retarget.html"
"""About a corpus, beside it; it goes when another corpus takes its place."""
COLUMNS = ("name", "text", "source", "file", "licence", "notes", "hash")
HUMAN_COLUMNS = ("quality", "skeleton", "person")
"""Of corpora whose clips were made from a person's motion."""


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
    quality: str = ""  # JSON: measures of a clip made from a person's motion
    skeleton: str = ""  # of that person
    person: str = ""  # hash of that person's points as they were read


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
    humans: np.ndarray | None = None  # rows of persons, of the whole folder

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
                f"{folder}: no corpus here; make one with `spectral ingest`, "
                "`spectral retarget` or `spectral synth`"
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
            humans, names = None, COLUMNS
            if (place / HUMAN).exists():
                names = COLUMNS + HUMAN_COLUMNS
                humans = np.memmap(place / HUMAN, ROW, "r", shape=shape[:1])
            columns = {name: Strings(place / name) for name in names}
        except FileNotFoundError as error:
            missing = f"{folder}: damaged, ingest again ({error.filename} is missing)"
            raise FileNotFoundError(missing) from error
        except (ValueError, OSError) as error:
            raise ValueError(f"{folder}: damaged, ingest again ({error})") from error
        ids = np.arange(len(spans))
        mirrored = np.zeros(len(ids), bool)
        return cls(header, rows, spans, columns, ids, mirrored, humans)

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

    def human(self, index: int) -> HumanRows | None:
        """The person a clip was made from, frame by frame, if there was one."""
        if self.humans is None:
            return None
        base = int(self.ids[index])
        start, length = self.spans[base].tolist()
        rows = self.humans[start : start + length]
        human = HumanRows.unpacked(rows, self.columns["skeleton"][base])
        return human.mirrored() if self.mirrored[index] else human

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

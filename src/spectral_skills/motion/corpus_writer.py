"""Writes a corpus, whole or not at all.

A kill at any moment while a corpus is written costs nothing. Clips are appended to
`.building/frames.f32` and, once they are on file, to `.building/journal.jsonl`. A run
that is killed leaves the old corpus untouched; the next one truncates the frames to
what the journal knows and goes on from there. The finished generation is moved in place
and corpus.json swapped in one step.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.motion.clip import Clip, mirror_name
from spectral_skills.motion.corpus import (
    COLUMNS,
    FPS,
    FRAMES,
    HEADER,
    HUMAN,
    HUMAN_COLUMNS,
    PAGE,
    SPANS,
    VERSION,
    Strings,
)
from spectral_skills.motion.human.rows import ROW, HumanRows
from spectral_skills.robot import g1

_BUILDING, _JOURNAL, _LOCK = ".building", "journal.jsonl", ".lock"
_ROW_BYTES = 4 * g1.QPOS_SIZE


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

    def __init__(
        self, folder: Path, job: dict, inputs: list[str], *, human: bool = False
    ):
        """Continue the unfinished work of the same job on the same inputs, if any.

        `inputs` are keys of everything that will be added, in this order. With
        `human` every clip comes with the person it was made from.
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
        self._row_bytes = {FRAMES: _ROW_BYTES}
        if human:
            self._row_bytes[HUMAN] = ROW.itemsize
        self._resume({"version": VERSION, "job": job}, inputs)

    def _resume(self, job: dict, inputs: list[str]) -> None:
        journal = self._building / _JOURNAL
        files = {self._building / name: n for name, n in self._row_bytes.items()}
        text = journal.read_text() if journal.exists() else ""
        lines = text.splitlines(keepends=True)
        first_line = json.dumps(job, sort_keys=True) + "\n"
        if not all(file.exists() for file in files) or lines[:1] != [first_line]:
            shutil.rmtree(self._building, ignore_errors=True)
            self._building.mkdir()
            for file in files:
                file.touch()
            lines = [first_line]
        on_file = min(file.stat().st_size // size for file, size in files.items())
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
        self._rows = {file.name: file.open("r+b") for file in files}
        for name, file in self._rows.items():
            file.truncate(frames * self._row_bytes[name])
            file.seek(0, os.SEEK_END)
        self._journal = journal.open("a")

    def _remember(self, record: dict) -> None:
        self.done.add(record["input"])
        self.clips.extend(record["clips"])
        for clip in record["clips"]:
            self._names |= {clip["name"], mirror_name(clip["name"])}
        self.refused.extend(Refusal(**r) for r in record["refused"])

    def add(
        self,
        key: str,
        file: str,
        clips: list[Clip],
        refused: list[Refusal],
        humans: Sequence[HumanRows] = (),
        facts: Sequence[dict[str, str]] = (),
    ):
        """Put one input's clips on file.

        `humans` are the persons and `facts` the clips' columns that are about them.
        """
        for clip in clips:
            if clip.fps != FPS:
                raise ValueError(f"{clip.name}: {clip.fps} Hz; a corpus has {FPS} Hz")
        rows = {FRAMES: [clip.qpos().astype("<f4").tobytes() for clip in clips]}
        if HUMAN in self._rows:
            rows[HUMAN] = [human.packed().tobytes() for human in humans]
            for human, clip in zip(humans, clips, strict=True):
                assert len(human.points) == clip.frames, clip.name
        records = []
        for i, clip in enumerate(clips):
            about = {
                "name": self._unique(_encodable(clip.name)),
                "text": clip.text,
                "source": clip.source,
                "file": file,
                "licence": clip.licence,
                "notes": "\n".join(clip.notes),
                "hash": _hash(rows[FRAMES][i]),
            }
            if HUMAN in rows:
                about["skeleton"] = humans[i].skeleton
            about |= facts[i] if facts else {}
            about = {name: _encodable(value) for name, value in about.items()}
            records.append(about | {"length": clip.frames})
        for name, data in rows.items():
            self._rows[name].writelines(data)
            self._rows[name].flush()
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
        columns = COLUMNS + HUMAN_COLUMNS * (HUMAN in self._rows)
        generation = write_index(self._building, self.clips, columns)
        for path in self._building.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())  # on the disk before corpus.json points here
        place = self.folder / generation
        (self.folder / PAGE).unlink(missing_ok=True)  # about the old corpus
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
        for file in (*self._rows.values(), self._journal, self._lock):
            file.close()


def write_index(
    folder: Path, clips: list[dict], columns: Sequence[str] = COLUMNS
) -> str:
    """Write spans and columns of clips whose rows follow each other; returns a hash."""
    lengths = np.array([clip["length"] for clip in clips], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    np.save(folder / SPANS, np.stack((starts, lengths), axis=1))
    digest = hashlib.blake2b(digest_size=16)
    for column in columns:
        values = [clip[column] for clip in clips]
        Strings.write(folder / column, values)
        digest.update(json.dumps(values).encode())
    if (folder / HUMAN).exists():  # clips have hashes of their frames, not of persons
        with (folder / HUMAN).open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
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


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _sizes(folder: Path) -> dict[str, int]:
    files = folder.iterdir() if folder.exists() else ()
    return {file.name: file.stat().st_size for file in files}


def _encodable(text: str) -> str:
    """Text that can be written: names of files may hold bytes that are no text."""
    return text.encode("utf-8", "replace").decode()

"""The packed CMU set: a folder of index.csv, skeletons.json and an archive of motions
for each subject, one recording to an array.

A recording is named by the folder and its name, as `cmu/35_01`, though no such file
exists. The motions are at 60 Hz with CMU's false frame rates already mended.
"""

import csv
import io
import json
import lzma
from functools import lru_cache
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human.bvh import Capture
from spectral_skills.motion.human.chains import forward, from_euler
from spectral_skills.motion.readers.archives import ZippedArrays

SOURCE = "mocap.cs.cmu.edu"
LICENCE = (
    "CMU graphics lab motion capture database: free for all uses, not to be resold"
)
UNIT_M = 2.54 / 100 / 0.45
FPS = 60.0
_INDEX, _SKELETONS = "index.csv", "skeletons.json"
_ROOT_STEP_M, _ANGLE_STEP = 1e-4, np.deg2rad(0.02)
_ARCHIVE_LIMIT = 512 << 20


def is_pack(folder: Path) -> bool:
    """Whether a folder holds a pack."""
    return (folder / _INDEX).is_file() and (folder / _SKELETONS).is_file()


def is_clip(path: Path) -> bool:
    """Whether a path names a recording of a pack."""
    return is_pack(path.parent) and path.name in _index(path.parent)


def clips(folder: Path) -> list[Path]:
    """The suitable recordings of a pack; those of a subject follow each other."""
    return [folder / n for n, row in _index(folder).items() if row["suitable"] == "yes"]


def archive(clip: Path) -> Path:
    """The file that has a recording's motion."""
    subject = int(_index(clip.parent)[clip.name]["subject"])
    return clip.parent / "motion" / f"{subject:03d}.npz.xz"


def files(clip: Path) -> list[Path]:
    """All files that a recording is read from."""
    return [archive(clip), clip.parent / _INDEX, clip.parent / _SKELETONS]


def seconds(clip: Path) -> float:
    """How long a recording lasts, as the index says."""
    return float(_index(clip.parent)[clip.name]["seconds"])


def read(clip: Path) -> Capture:
    """One recording, in file units and axes as its BVH would have it."""
    row = _index(clip.parent)[clip.name]
    file = archive(clip)
    motions = _subject(file, file.stat().st_mtime_ns) if file.is_file() else {}
    if clip.name not in motions:
        why = row["reason"] or f"{file.parent.name}/{file.name} lacks it"
        raise ClipError("unreadable", f"its motion is not in the pack: {why}")
    skeleton = _skeletons(clip.parent)[row["skeleton"]]
    joints, kept = skeleton["joints"], skeleton["kept"]
    # Second differences, (channels, frames).
    steps = motions[clip.name].astype(np.int64).T
    whole = steps.cumsum(axis=0).cumsum(axis=0)
    if whole.shape[1] != 3 + 3 * len(kept):
        raise ClipError("columns", f"{whole.shape[1]} channels for {len(kept)} joints")
    names = tuple(joint["name"] for joint in joints)
    turns = np.zeros((4, len(whole), len(joints)))
    turns[0] = 1.0
    angles = (whole[:, 3:] * _ANGLE_STEP).reshape(len(whole), len(kept), 3)
    turns[:, :, [names.index(name) for name in kept]] = from_euler(angles, "zyx")
    parents = tuple(joint["parent"] for joint in joints)
    offsets = np.array([joint["offset"] for joint in joints], dtype=np.float64)
    root = whole[:, :3] * (_ROOT_STEP_M / UNIT_M)
    places = forward(parents, offsets, turns, root)
    return Capture(names, parents, offsets, *places, FPS)


def text(clip: Path) -> str:
    """What the index says that a recording shows."""
    row = _index(clip.parent)[clip.name]
    return row["text"] or row["kind"]


@lru_cache(maxsize=4)
def _index(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / _INDEX).open(newline="", encoding="utf-8-sig") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


@lru_cache(maxsize=4)
def _skeletons(folder: Path) -> dict:
    return json.loads((folder / _SKELETONS).read_text("utf-8"))


@lru_cache(maxsize=1)
def _subject(file: Path, _changed: int) -> dict[str, np.ndarray]:
    """A subject's motions: unpacking costs more than reading one of them."""
    try:
        with lzma.open(file) as opened:
            data = opened.read(_ARCHIVE_LIMIT)
    except (lzma.LZMAError, EOFError) as error:
        raise ClipError("unreadable", f"{file.name}: {error}") from None
    return dict(ZippedArrays(io.BytesIO(data)))

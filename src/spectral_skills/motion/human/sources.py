"""Human motion of many formats in, recordings out.

BVH files, joint positions of SMPL's order in npy and npz files, AMASS archives with a
body model that the user has, and the packed CMU set.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import body_model, bvh, cmu_pack
from spectral_skills.motion.human.conditions import HumanOptions, settle
from spectral_skills.motion.human.recording import POINTS, SIDES, Raw, Recording, point
from spectral_skills.motion.human.repairs import cmu_recording
from spectral_skills.motion.human.skeletons import Skeleton, identify
from spectral_skills.motion.intake import walk
from spectral_skills.motion.readers.archives import ZippedArrays, read_array, texts
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    NAME_LENGTH,
    TEXT_LENGTH,
    ReadOptions,
    attempted,
    frame_rate,
    numbers,
    printable,
    sentences,
)

__all__ = ["HumanOptions", "find", "read"]

SUFFIXES = (".bvh", ".npy", ".npz")
Found = list[Recording | ClipError]
_HUMANML3D_FPS = 20.0
_JOINT_KEYS = ("joints", "joint_positions", "positions", "keypoints3d")
_RATE_KEYS = ("fps", "mocap_framerate", "mocap_frame_rate", "framerate", "frame_rate")
_PAIRS = ("hip", "knee", "ankle", "toe", "shoulder", "elbow", "wrist", "hand")
_LEFT = (1, 4, 7, 10, 16, 18, 20, 22)
_SMPL = {"pelvis": 0, "chest": 9, "neck": 12, "head": 15} | {
    f"{side}_{part}": joint + number
    for part, joint in zip(_PAIRS, _LEFT, strict=True)
    for number, side in enumerate(SIDES)
}
"""Joints of SMPL's order; its feet are the balls, and hands are the last two of 24."""


def find(paths: Iterable[Path]) -> list[Path]:
    """The motions among paths: files, and recordings of a pack as PACK/NAME."""
    packs: set[Path] = set()

    def is_pack(folder: Path) -> bool:
        packs.update([folder] * cmu_pack.is_pack(folder))
        return folder in packs

    def is_motion(file: Path) -> bool:
        return file.suffix.lower() in SUFFIXES

    found: dict[Path, None] = {}
    for path in map(Path, paths):
        named = not path.exists() and cmu_pack.is_clip(path)
        for one in [path] if named else walk([path], is_pack, is_motion):
            found.update(dict.fromkeys(cmu_pack.clips(one) if one in packs else [one]))
    return list(found)


def read(path: Path, options: HumanOptions) -> Found:
    """Every motion of a file, and why the others are refused. It does not raise."""
    return attempted(lambda: _read(Path(path), options))


def _read(path: Path, options: HumanOptions) -> Found:
    if not path.exists() and cmu_pack.is_clip(path):
        about = {"source": cmu_pack.SOURCE, "licence": cmu_pack.LICENCE}
        about["text"] = cmu_pack.text(path)
        raw = _person(cmu_pack.read(path), path.name, options, **about)
        return [settle(raw, options, fps_known=True)]
    size, name = path.stat().st_size, printable(path.stem, NAME_LENGTH)
    if not path.is_file():
        raise ClipError("unreadable", "neither a file nor a folder")
    if size > LIMIT_BYTES:
        reason = f"{size / 1024**3:.1f} GiB; files up to 2 GiB are read"
        raise ClipError("too large", reason)
    with path.open("rb") as file:
        head = file.read(6)
        file.seek(0)
        if head == b"\x93NUMPY":
            joints = read_array(path.name, file, size)
            return [settle(_joints(joints, name, options), options)]
        if head.startswith(b"PK"):
            return [settle(_archive(ZippedArrays(file), name, options), options)]
    people = bvh.read(path, options.fps)
    if len(people) == 1:
        return [settle(_person(people[0], name, options), options)]
    found: Found = []
    for number, capture in enumerate(people, 1):
        try:
            raw = _person(capture, f"{name}_{number}", options)
            found.append(settle(raw, options))
        except ClipError as error:
            reason = f"person {number}: {error.reason}"
            found.append(ClipError(error.kind, reason, error.frame))
    return found


def _person(capture: bvh.Capture, name: str, options: HumanOptions, **about) -> Raw:
    mapping = tuple((options.mapping or {}).items())
    offsets = np.ascontiguousarray(capture.offsets, dtype=np.float64)
    skeleton = _skeleton(capture.names, capture.parents, offsets.tobytes(), mapping)
    points = np.full((len(capture.positions), len(POINTS), 3), np.nan)
    for key, joint in skeleton.joints.items():
        if joint is not None:
            points[:, point(key)] = capture.positions[:, joint]
    notes, recording = capture.notes, cmu_recording(name, skeleton.name)
    if recording and not about:
        about = {"source": cmu_pack.SOURCE, "licence": cmu_pack.LICENCE}
        notes += (f"Source and licence are CMU's: by name it is their {recording}.",)
    return Raw(
        name,
        capture.fps,
        points,
        capture.turns[:, skeleton.pelvis],
        rest_up=skeleton.up,
        skeleton=skeleton.name,
        notes=notes,
        **about,
    )


@lru_cache(maxsize=16)
def _skeleton(
    names: tuple[str, ...],
    parents: tuple[int, ...],
    offsets: bytes,
    mapping: tuple[tuple[str, str], ...],
) -> Skeleton:
    """Files of a folder often share theirs."""
    rest = np.frombuffer(offsets).reshape(-1, 3)
    return identify(names, parents, rest, dict(mapping) or None)


def _archive(arrays: ZippedArrays, name: str, options: HumanOptions) -> Raw:
    """Joint positions, or an AMASS archive."""
    rate = next((arrays[key] for key in _RATE_KEYS if key in arrays), None)
    about: dict[str, Any] = {
        "text": sentences(texts(arrays, "text")),
        "source": printable(" ".join(texts(arrays, "source")), TEXT_LENGTH),
        "licence": printable(
            " ".join(texts(arrays, "licence") or texts(arrays, "license")), TEXT_LENGTH
        ),
    }
    about = {key: value for key, value in about.items() if value}
    key = next((key for key in _JOINT_KEYS if key in arrays), None)
    if key is not None:
        return _joints(arrays[key], name, options, rate, **about)
    if "poses" in arrays and "trans" in arrays:
        joints, about["pelvis_turn"] = body_model.positions(arrays, options.body_model)
        fps = frame_rate(rate, ReadOptions(options.fps))
        return _joints(joints, name, options, np.array(fps), **about)
    if "qpos" in arrays or "joint_pos" in arrays:
        raise ClipError("unknown format", "a robot's motion; use spectral ingest")
    known = printable(", ".join(arrays) or "no arrays", 200)
    wanted = f"{', '.join(_JOINT_KEYS)} (T, 22, 3), or AMASS's poses and trans"
    raise ClipError("unknown format", f"an archive of {known}; expected {wanted}")


def _joints(
    array: Any, name: str, options: HumanOptions, rate: object = None, **about
) -> Raw:
    """SMPL's first 22 joints, or its 24 with hands."""
    shape = getattr(array, "shape", ())
    if len(shape) == 2 and shape[1] in (66, 72):
        array = np.reshape(array, (shape[0], -1, 3))
    elif len(shape) != 3 or shape[1] not in (22, 24) or shape[2] != 3:
        reason = f"joints have shape {shape}; expected (T, 22, 3) or (T, 24, 3)"
        if len(shape) == 2 and shape[1] == 263:
            reason += "; these are HumanML3D's features, new_joints has the positions"
        raise ClipError("columns", reason)
    joints = numbers(array, "joints", 3)
    points = np.full((len(joints), len(POINTS), 3), np.nan)
    for key, joint in _SMPL.items():
        if joint < joints.shape[1]:
            points[:, point(key)] = joints[:, joint]
    notes: tuple[str, ...] = ()
    fps = _HUMANML3D_FPS
    if rate is not None or options.fps is not None:
        fps = frame_rate(rate, ReadOptions(options.fps))
    else:
        notes = ("The file has no frame rate: 20 Hz, as in HumanML3D; or say --fps.",)
    return Raw(name, fps, points, skeleton="SMPL", notes=notes, **about)

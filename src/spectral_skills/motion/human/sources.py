"""Human motion of many formats in, recordings out.

BVH files, joint positions of SMPL's order in npy and npz files, AMASS archives with a
body model that the user has, and the packed CMU set.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import cmu_pack
from spectral_skills.motion.human.conditions import HumanOptions, Raw, settle
from spectral_skills.motion.human.recording import POINTS, SIDES, Recording, point
from spectral_skills.motion.intake import walk
from spectral_skills.motion.readers.assemble import NAME_LENGTH, printable

__all__ = ["HumanOptions", "find", "read"]

SUFFIXES = (".bvh", ".npy", ".npz")
Found = list[Recording | ClipError]
_HUMANML3D_FPS = 20.0
_SMPL = {
    "pelvis": 0,
    **{f"{s}_hip": 1 + i for i, s in enumerate(SIDES)},
    **{f"{s}_knee": 4 + i for i, s in enumerate(SIDES)},
    **{f"{s}_ankle": 7 + i for i, s in enumerate(SIDES)},
    **{f"{s}_toe": 10 + i for i, s in enumerate(SIDES)},
    "chest": 9,
    "neck": 12,
    "head": 15,
    **{f"{s}_shoulder": 16 + i for i, s in enumerate(SIDES)},
    **{f"{s}_elbow": 18 + i for i, s in enumerate(SIDES)},
    **{f"{s}_wrist": 20 + i for i, s in enumerate(SIDES)},
    **{f"{s}_hand": 22 + i for i, s in enumerate(SIDES)},
}


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
    try:
        # Numbers out of range are reported by the checks, not by warnings.
        with np.errstate(all="ignore"):
            return [settle(_read(Path(path), options), options)]
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


def _read(path: Path, options: HumanOptions) -> Raw:
    if not path.exists() and cmu_pack.is_clip(path):
        return _packed(path)
    name = printable(path.stem, NAME_LENGTH)
    if path.suffix.lower() == ".npy":
        return _joints(np.load(path), name, None)
    raise ClipError("unknown format", f"a {path.suffix} file")


def _packed(path: Path) -> Raw:
    clip = cmu_pack.read(path)
    order = [clip.names.index(_CMU[name]) for name in POINTS]
    return Raw(
        path.name,
        clip.positions[:, order],
        cmu_pack.FPS,
        clip.turns[:, clip.names.index("Hips")],
        clip.turns[:, clip.names.index("Spine1")],
        skeleton="CMU",
        fps_known=True,
        text=clip.text or clip.kind,
        source=cmu_pack.SOURCE,
        licence=cmu_pack.LICENCE,
    )


_CMU = {"pelvis": "Hips", "chest": "Spine1", "neck": "Neck1", "head": "Head"} | {
    f"{s}_{p}": s.capitalize() + joint
    for s in SIDES
    for p, joint in {
        "hip": "UpLeg",
        "knee": "Leg",
        "ankle": "Foot",
        "toe": "ToeBase",
        "shoulder": "Arm",
        "elbow": "ForeArm",
        "wrist": "Hand",
        "hand": "HandIndex1",
    }.items()
}


def _joints(joints: np.ndarray, name: str, fps: float | None) -> Raw:
    """SMPL's first 22 joints, or its 24 with hands."""
    if joints.ndim == 2 and joints.shape[1] in (66, 72):
        joints = joints.reshape(len(joints), -1, 3)
    if joints.ndim != 3 or joints.shape[1] not in (22, 24) or joints.shape[2] != 3:
        reason = f"joints have shape {joints.shape}; expected (T, 22, 3) or (T, 24, 3)"
        raise ClipError("columns", reason)
    points = np.full((len(joints), len(POINTS), 3), np.nan)
    for key, joint in _SMPL.items():
        if joint < joints.shape[1]:
            points[:, point(key)] = joints[:, joint]
    notes: tuple[str, ...] = ()
    if fps is None:
        fps = _HUMANML3D_FPS
        notes = ("The file has no frame rate: 20 Hz as in HumanML3D; or say --fps.",)
    return Raw(name, points, fps, skeleton="SMPL", notes=notes)

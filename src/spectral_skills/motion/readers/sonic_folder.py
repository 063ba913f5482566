"""SONIC reference folders: one CSV per quantity, joints in IsaacLab order."""

import re
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.readers import tables
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    NAME_LENGTH,
    ReadOptions,
    build,
    frame_rate,
    from_isaaclab,
    plain,
)

RATE_HZ = 50.0
_MARKS = ("joint_pos.csv", "body_quat.csv")


def is_reference(folder: Path) -> bool:
    """Whether a folder is one motion rather than a place with motions in it."""
    return all((folder / mark).is_file() for mark in _MARKS)


def read(folder: Path, options: ReadOptions) -> Clip:
    """The motion of a reference folder."""
    if not is_reference(folder):
        raise ClipError(
            "unknown format", f"a folder without {' and '.join(_MARKS)} is no motion"
        )
    if not (folder / "body_pos.csv").is_file():
        raise ClipError(
            "columns", "no body_pos.csv: the root's position is not in this folder"
        )
    joints = _values(folder / "joint_pos.csv")
    position = _values(folder / "body_pos.csv")
    quaternion = _values(folder / "body_quat.csv")
    rows = {
        "joint_pos.csv": len(joints),
        "body_pos.csv": len(position),
        "body_quat.csv": len(quaternion),
        **_metadata(folder),
    }
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{n} in {name}" for name, n in rows.items())
        raise ClipError("truncated", f"row counts differ: {found}")
    widths = position.shape[1], quaternion.shape[1]
    if widths[0] % 3 or widths[1] % 4:
        raise ClipError(
            "columns", f"{widths[0]} position and {widths[1]} quaternion columns"
        )
    return build(
        position[:, :3],
        quaternion[:, :4],
        from_isaaclab(joints),
        options,
        name=plain(folder.resolve().name, NAME_LENGTH),
        fps=frame_rate(RATE_HZ, options),
        source="sonic reference",
    )


def _values(path: Path) -> np.ndarray:
    if path.stat().st_size > LIMIT_BYTES:
        raise ClipError("too large", f"{path.name} is over 2 GiB")
    try:
        return tables.parse(path.read_bytes()).values
    except ClipError as error:
        reason = f"{path.name}: {error.reason}"
        raise ClipError(error.kind, reason, error.frame) from None


def _metadata(folder: Path) -> dict[str, int]:
    """The row count metadata.txt promises, if it does."""
    path = folder / "metadata.txt"
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        text = file.read(1 << 16).decode("utf-8", "replace")
    bodies = re.search(r"Body part indexes:\s*\[\s*(\d{1,6})", text)
    if bodies and int(bodies[1]) != 0:
        raise ClipError(
            "columns", f"the first body is number {bodies[1]}, not the root"
        )
    steps = re.search(r"Total timesteps:\s*(\d{1,12})", text)
    return {"metadata.txt": int(steps[1])} if steps else {}

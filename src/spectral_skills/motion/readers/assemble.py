"""From what a file holds to a clip: the last step all readers share."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.robot import g1

LIMIT_BYTES = 2 * 1024**3
"""Files, and what they expand to, are refused above this size."""
NAME_LENGTH = 255
TEXT_LENGTH = 4000
MAX_SENTENCES = 64
MAX_TEXT = 100_000
PADDED = "wrists padded with zeros (23-joint source)"


@dataclass(frozen=True)
class ReadOptions:
    """What the user knows better than the file."""

    fps: float | None = None
    """Frame rate, Hz; overrides the file's."""
    pad_wrists: bool = False
    """Accept 23-joint motions and set the six wrist joints to zero."""


def frame_rate(value: object, options: ReadOptions) -> float:
    """The rate to use, given what the file says about it (None: nothing)."""
    if options.fps is not None:
        return float(options.fps)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "fiu":
        value = value.item()
    if value is None:
        raise ClipError("frame rate", "the file has no frame rate; pass --fps")
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise ClipError("frame rate", "the file's fps is not a number; pass --fps")
    # Compared as it is: a forged integer may be too large for a float.
    if not 0 < value < math.inf:
        raise ClipError("frame rate", "the file's fps is not positive; pass --fps")
    return float(min(value, 1e9))


def wxyz(xyzw: np.ndarray) -> np.ndarray:
    """Move the real part of quaternions (T, 4) from last to first."""
    return np.roll(xyzw, 1, axis=-1)


def numbers(value: object, name: str, ndim: int = 2) -> np.ndarray:
    """An array of numbers with `ndim` axes, or a refusal that names it."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        raise ClipError("unreadable", f"{name} is not an array of numbers")
    if value.ndim != ndim:
        raise ClipError("columns", f"{name} has shape {value.shape}; expected {ndim}-D")
    return value


def from_isaaclab(joints: np.ndarray) -> np.ndarray:
    """Reorder (T, 29) or (T, 23) joints from IsaacLab's order to MuJoCo's."""
    wristless = [name for name in g1.ISAACLAB_JOINTS if "wrist" not in name]
    if joints.shape[-1] == len(wristless):
        order = [wristless.index(g1.JOINTS[i]) for i in g1.WITHOUT_WRISTS]
        return joints[..., order]
    if joints.shape[-1] == g1.NUM_JOINTS:
        return joints[..., g1.ISAACLAB_TO_MUJOCO]
    return joints  # Refused by `build`, in its words.


def all_joints(joints: np.ndarray, options: ReadOptions) -> np.ndarray:
    """(T, 29) joints; 23 are padded when that was asked for."""
    count = joints.shape[-1] if joints.ndim else 0
    if count == g1.NUM_JOINTS:
        return joints
    if count != len(g1.WITHOUT_WRISTS):
        raise ClipError(
            "joints", f"{count} joints; the G1 has 29, or 23 without its wrists"
        )
    if not options.pad_wrists:
        raise ClipError(
            "joints", "23 joints, wrists missing; pass --pad-wrists to set them to zero"
        )
    padded = np.zeros((*joints.shape[:-1], g1.NUM_JOINTS))
    padded[..., g1.WITHOUT_WRISTS] = joints
    return padded


def build(
    position: np.ndarray,
    quaternion: np.ndarray,
    joints: np.ndarray,
    options: ReadOptions,
    notes: tuple[str, ...] = (),
    **fields,
) -> Clip:
    """The clip of these arrays (quaternion wxyz), which checks their values."""
    if joints.shape[-1:] == (len(g1.WITHOUT_WRISTS),):
        notes = (*notes, PADDED)
    return Clip(
        root_position=position,
        root_quaternion=quaternion,
        joints=all_joints(joints, options),
        notes=notes,
        **fields,
    )


def plain(value: object, limit: int = 80) -> str:
    """Untrusted text on one printable line, which any encoding can write."""
    shown = (c if c.isprintable() else " " for c in str(value)[: 4 * limit])
    text = " ".join("".join(shown).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def sentences(values: Iterable[str]) -> str:
    """Untrusted descriptions of a clip, one a line."""
    lines = (line for value in values for line in str(value)[:MAX_TEXT].splitlines())
    shown = (plain(line, TEXT_LENGTH) for line in islice(lines, MAX_SENTENCES))
    return "\n".join(filter(None, shown))

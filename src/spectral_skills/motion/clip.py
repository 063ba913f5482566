"""One motion clip, checked when it is made.

A reader turns any file into clips of this shape; whatever is wrong with the numbers
is reported once, here, with the frame where it happens.
"""

import copy
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from spectral_skills.robot import g1

MIN_FRAMES = 2
MAX_HEIGHT_M = 5.0
MAX_DISTANCE_M = 1000.0
MAX_ROOT_SPEED_M_S = 10.0
MAX_ROOT_TURN_RAD_S = 40.0
MAX_JOINT_STEP_RAD = 2.4
MAX_JOINT_SPEED_RAD_S = 120.0
"""Three times the fastest motor. Published motions have single-frame spikes of
104 rad/s; those pass with a note, teleports do not."""

Rows = TypeVar("Rows", bound=Any)
# Plain numbers: a compiler that traces this cannot look into NumPy arrays.
_MIRROR_ORDER = [*range(7), *(7 + g1.MIRROR_JOINTS).tolist()]
# Reflection in y = 0 negates y, and the turns about x and z.
_MIRROR_SIGNS = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, *g1.MIRROR_SIGNS.tolist()]


class ClipError(ValueError):
    """Why a motion is refused: a short kind for counting, a reason, a frame."""

    def __init__(self, kind: str, reason: str, frame: int | None = None):
        self.kind, self.reason, self.frame = kind, reason, frame
        super().__init__(reason if frame is None else f"frame {frame}: {reason}")

    def __reduce__(self):
        # Exceptions cross process boundaries by their arguments.
        return type(self), (self.kind, self.reason, self.frame)


@dataclass(frozen=True)
class Clip:
    """A motion of the 29-joint G1: z up, metres, radians, quaternions wxyz."""

    name: str
    fps: float
    root_position: np.ndarray  # (T, 3) pelvis position, m
    root_quaternion: np.ndarray  # (T, 4) pelvis orientation, wxyz, unit
    joints: np.ndarray  # (T, 29) joint angles in MuJoCo order, rad
    text: str = ""
    source: str = ""  # where the motion comes from
    licence: str = "unknown"
    notes: tuple[str, ...] = field(default=())
    """What was done to the motion or is remarkable about it."""

    def __post_init__(self):
        for name in ("root_position", "root_quaternion", "joints"):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, array)
        _check_shapes(self)
        _check_values(self)
        object.__setattr__(self, "root_quaternion", _smooth(self.root_quaternion))
        _check_steps(self)

    @property
    def frames(self) -> int:
        return len(self.joints)

    @property
    def duration_s(self) -> float:
        return (self.frames - 1) / self.fps

    def qpos(self) -> np.ndarray:
        """(T, 36) float32 rows as stored in a corpus."""
        parts = (self.root_position, self.root_quaternion, self.joints)
        return np.concatenate(parts, axis=1, dtype=np.float32)

    @classmethod
    def from_qpos(cls, qpos: np.ndarray, **fields) -> "Clip":
        """Build from (T, 36) rows: root position, root quaternion wxyz, joints."""
        qpos = np.asarray(qpos)
        if qpos.ndim != 2 or qpos.shape[1] != g1.QPOS_SIZE:
            reason = f"qpos has shape {qpos.shape}, expected (T, {g1.QPOS_SIZE})"
            raise ClipError("columns", reason)
        root = {"root_position": qpos[:, :3], "root_quaternion": qpos[:, 3:7]}
        return cls(**root, joints=qpos[:, 7:], **fields)

    def described(self, text: str, source: str, licence: str) -> "Clip":
        """The same motion under other words; the numbers are not checked again."""
        clip = copy.copy(self)
        for name, value in (("text", text), ("source", source), ("licence", licence)):
            object.__setattr__(clip, name, value)
        return clip

    def resampled(self, fps: float) -> "Clip":
        """The same motion at another rate: linear, and slerp for the root.

        Sample times run from zero up to, not including, the last frame, the rule
        of SONIC's motion library; a clip already at the rate is kept as it is.
        """
        if math.isclose(self.fps, fps, rel_tol=1e-6):
            return self if self.fps == fps else replace(self, fps=float(fps))
        # Imported here so that listing a corpus does not wait for torch.
        import torch

        from spectral_skills.rotation import slerp

        count = max(1, math.ceil((self.frames - 1) * fps / self.fps - 1e-6))
        position = np.arange(count) * (self.fps / fps)
        low = np.minimum(position.astype(np.int64), self.frames - 2)
        weight = (position - low)[:, None]

        def lerp(values: np.ndarray) -> np.ndarray:
            return values[low] + weight * (values[low + 1] - values[low])

        quaternion = torch.from_numpy(self.root_quaternion)
        part = torch.from_numpy(position - low)
        return replace(
            self,
            fps=float(fps),
            root_position=lerp(self.root_position),
            root_quaternion=slerp(quaternion[low], quaternion[low + 1], part).numpy(),
            joints=lerp(self.joints),
        )


def _check_shapes(clip: Clip) -> None:
    if not (math.isfinite(clip.fps) and 1.0 <= clip.fps <= 1000.0):
        raise ClipError("frame rate", f"frame rate {clip.fps:g} is not in 1..1000 Hz")
    shapes = (clip.root_position.shape, clip.root_quaternion.shape, clip.joints.shape)
    frames = len(clip.joints)
    if shapes != ((frames, 3), (frames, 4), (frames, g1.NUM_JOINTS)):
        raise ClipError(
            "columns",
            "root position, quaternion and joints have shapes "
            f"{shapes[0]}, {shapes[1]}, {shapes[2]}; expected (T, 3), (T, 4), "
            f"(T, {g1.NUM_JOINTS})",
        )
    if frames < MIN_FRAMES:
        raise ClipError("empty", f"{frames} frames; a motion needs {MIN_FRAMES}")


def _refuse_first(wrong: np.ndarray, kind: str, reason: Callable, later: int = 0):
    """Refuse the first frame, and joint, where something is wrong."""
    if wrong.any():
        where = np.argwhere(wrong)[0].tolist()
        raise ClipError(kind, reason(*where), where[0] + later)


def _check_values(clip: Clip) -> None:
    position, quaternion, joints = clip.root_position, clip.root_quaternion, clip.joints
    finite = np.isfinite(np.concatenate((position, quaternion, joints), axis=1))
    columns = ("x", "y", "z", "qw", "qx", "qy", "qz", *g1.JOINTS)
    _refuse_first(
        ~finite, "not finite", lambda _, column: f"{columns[column]} is not a number"
    )
    length, height = np.linalg.norm(quaternion, axis=1), position[:, 2]
    _refuse_first(
        np.abs(length - 1.0) > 0.01,
        "quaternion",
        lambda i: f"root quaternion has length {length[i]:.3g}",
    )
    _refuse_first(
        height < 0.0, "under floor", lambda i: f"pelvis at height {height[i]:.3f} m"
    )
    far = (np.abs(position) > MAX_DISTANCE_M).any(axis=1) | (height > MAX_HEIGHT_M)
    places = "pelvis at ({:.4g}, {:.4g}, {:.4g}); are these centimetres?"
    _refuse_first(far, "units", lambda i: places.format(*position[i]))
    angle = "{} is {:.4g}; are these degrees?"
    _refuse_first(
        np.abs(joints) > 2 * np.pi,
        "units",
        lambda i, joint: angle.format(g1.JOINTS[joint], joints[i, joint]),
    )


def _check_steps(clip: Clip) -> None:
    """Refuse what no robot can do between two frames; note what no motor can."""
    step = np.linalg.norm(np.diff(clip.root_position, axis=0), axis=1)
    dot = np.abs((clip.root_quaternion[1:] * clip.root_quaternion[:-1]).sum(axis=1))
    turn = 2 * np.arccos(np.clip(dot, 0.0, 1.0))
    joint_step = np.abs(np.diff(clip.joints, axis=0))
    largest = joint_step.max(axis=1)
    limit = min(MAX_JOINT_STEP_RAD, MAX_JOINT_SPEED_RAD_S / clip.fps)
    joint = g1.JOINTS[joint_step[(largest > limit).argmax()].argmax()]

    def refuse_jump(what: str, value: np.ndarray, most: float) -> None:
        message = f"{what}; no robot can"
        _refuse_first(value > most, "jump", lambda i: message.format(value[i]), 1)

    refuse_jump("pelvis moves at {:.3g} m/s", step * clip.fps, MAX_ROOT_SPEED_M_S)
    refuse_jump("pelvis turns at {:.3g} rad/s", turn * clip.fps, MAX_ROOT_TURN_RAD_S)
    refuse_jump(f"{joint} moves {{:.3g}} rad in one frame", largest, limit)
    speed = joint_step * clip.fps
    frame, joint, excess = _worst(speed / g1.VELOCITY_LIMIT)
    if excess > 1.5:
        reached = f"{g1.JOINTS[joint]} reaches {speed[frame, joint]:.0f} rad/s"
        motor = f"{g1.VELOCITY_LIMIT[joint]:.0f}"
        _note(clip, f"{reached} at frame {frame + 1}, its motor {motor}", "its motor")
    low, high = g1.JOINT_LIMITS.T
    frame, joint, excess = _worst(np.maximum(low - clip.joints, clip.joints - high))
    if excess > 0.1:
        past = f"{g1.JOINTS[joint]} is {excess:.2f} rad past its limit"
        _note(clip, f"{past} at frame {frame}", "past its limit")


def _worst(values: np.ndarray) -> tuple[int, int, float]:
    """Frame, joint and value of the greatest value."""
    frame, joint = divmod(int(values.argmax()), values.shape[1])
    return frame, joint, values[frame, joint]


def _note(clip: Clip, note: str, about: str) -> None:
    """Add a note, unless the clip came with one about the same thing."""
    if not any(about in other for other in clip.notes):
        object.__setattr__(clip, "notes", (*clip.notes, note))


def _smooth(q: np.ndarray) -> np.ndarray:
    """Unit quaternions whose signs do not flip from frame to frame."""
    flips = np.where((q[1:] * q[:-1]).sum(axis=1) < 0, -1.0, 1.0)
    signs = np.concatenate(([1.0], np.cumprod(flips)))
    return q * (signs / np.linalg.norm(q, axis=1))[:, None]


def mirror_rows(rows: Rows) -> Rows:
    """Reflect (..., 36) rows, a NumPy array or a tensor on any device."""
    if isinstance(rows, np.ndarray):
        return rows[..., _MIRROR_ORDER] * np.array(_MIRROR_SIGNS, rows.dtype)  # type: ignore[return-value]
    return rows[..., _MIRROR_ORDER] * rows.new_tensor(_MIRROR_SIGNS)


def mirror_name(name: str) -> str:
    return f"{name}_mirror"


def mirror_text(text: str) -> str:
    """Swap left and right in a description, upper and lower case kept."""

    def swap(match: re.Match[str]) -> str:
        word = "right" if match[0].lower() == "left" else "left"
        if match[0].isupper():
            return word.upper()
        return word.capitalize() if match[0][0].isupper() else word

    # Whole words and leftward(s): not the right in upright.
    pattern = r"(?i)(?<![a-z])(left|right)(?=(wards?)?(?![a-z]))"
    return re.sub(pattern, swap, text)

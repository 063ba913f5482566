"""From what a file holds to a clip: the last step that all readers share.

Two things no file states: the order of the joints and where a quaternion keeps its
real part. Both are decided by what the robot would look like.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TypeVar

import mujoco
import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

Item = TypeVar("Item")

LIMIT_BYTES = 2 * 1024**3  # size above which a file, or what it expands to, is refused
NAME_LENGTH, TEXT_LENGTH = 255, 4000
MAX_SENTENCES, _MAX_TEXT = 64, 100_000
_PADDED = "wrists padded with zeros (23-joint source)"
_ORDER_FRAMES = 8
_ORDER_TOLERANCE_M = 0.02  # the right joint order is under 2 mm off, a wrong one 5 cm
_MAX_BODIES = 64
_CONTACT_FRAMES = 48
_FOOT_HEIGHT_M = 0.012  # centre of the lowest capsule of a robot that stands
_SLIP_WEIGHT_S = 0.1
_MAX_SLIP_M_S = 1.0
_TILT_WEIGHT_M = 0.1
_WXYZ_MARGIN_M = 0.005  # files with the real part last are the rule


@dataclass(frozen=True)
class ReadOptions:
    """What the user knows better than the file."""

    fps: float | None = None
    """Frame rate, Hz; overrides the file's."""
    pad_wrists: bool = False
    """Whether to accept 23-joint motions and set the six wrist joints to zero."""


def printable(value: object, limit: int = 80) -> str:
    """Untrusted text on one printable line, which any encoding can write."""
    shown = (c if c.isprintable() else " " for c in str(value)[: 4 * limit])
    text = " ".join("".join(shown).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def sentences(values: Iterable[str]) -> str:
    """Untrusted descriptions of a clip, one a line."""
    lines = (line for value in values for line in str(value)[:_MAX_TEXT].splitlines())
    shown = (printable(line, TEXT_LENGTH) for line in islice(lines, MAX_SENTENCES))
    return "\n".join(filter(None, shown))


def attempted(
    job: Callable[[], Sequence[Item]], unforeseen: str = "unreadable"
) -> list[Item | ClipError]:
    """What a job makes of one file, or why it makes nothing. It does not raise."""
    try:
        # Numbers out of range are reported by the checks, not by warnings.
        with np.errstate(all="ignore"):
            return list(job())
    except ClipError as error:
        return [error]
    except MemoryError:
        return [ClipError("too large", "does not fit into memory")]
    except OSError as error:
        return [ClipError(unforeseen, printable(error.strerror or error))]
    except Exception as error:
        # A job that fails in a way it did not foresee costs this file only.
        what = f"{type(error).__name__}: {printable(error, 120)}"
        return [ClipError(unforeseen, what)]


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
    # Compared before it is converted: a forged integer may be too large for a float.
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


def joint_columns(names: Sequence[str]) -> list[int] | None:
    """Columns of the 29 joints, or of the 23 without wrists, by name."""
    bare = [re.sub("(?:_joint|_dof|_pos)+$", "", name) for name in names]
    for wanted in (g1.JOINTS, [g1.JOINTS[i] for i in g1.WITHOUT_WRISTS]):
        if all(bare.count(joint) == 1 for joint in wanted):
            return [bare.index(joint) for joint in wanted]
    return None


def from_isaaclab(joints: np.ndarray) -> np.ndarray:
    """Reorder (T, 29) or (T, 23) joints from IsaacLab's order to MuJoCo's."""
    wristless = [name for name in g1.ISAACLAB_JOINTS if "wrist" not in name]
    if joints.shape[-1] == len(wristless):
        return joints[..., [wristless.index(g1.JOINTS[i]) for i in g1.WITHOUT_WRISTS]]
    if joints.shape[-1] == g1.NUM_JOINTS:
        return joints[..., g1.ISAACLAB_TO_MUJOCO]
    return joints  # `build` refuses it


def all_joints(joints: np.ndarray, options: ReadOptions) -> np.ndarray:
    """(T, 29) joints; 23 are padded when that was asked for."""
    count = joints.shape[-1] if joints.ndim else 0
    if count == g1.NUM_JOINTS:
        return joints
    if count != len(g1.WITHOUT_WRISTS):
        reason = f"{count} joints; the G1 has 29, or 23 without its wrists"
        raise ClipError("joints", reason)
    if not options.pad_wrists:
        reason = "23 joints, wrists missing; pass --pad-wrists to set them to zero"
        raise ClipError("joints", reason)
    padded = np.zeros((*joints.shape[:-1], g1.NUM_JOINTS))
    padded[..., g1.WITHOUT_WRISTS] = joints
    return padded


def build(
    position: np.ndarray,
    quaternion: np.ndarray,
    joints: np.ndarray,
    options: ReadOptions,
    fps: object,
    notes: tuple[str, ...] = (),
    **fields,
) -> Clip:
    """The clip of these arrays (quaternion wxyz), which checks their values."""
    rate = frame_rate(fps, options)
    if joints.shape[-1:] == (len(g1.WITHOUT_WRISTS),):
        notes = (*notes, _PADDED)
    joints = all_joints(joints, options)
    fields |= {"fps": rate, "notes": notes}
    root = {"root_position": position, "root_quaternion": quaternion}
    return Clip(**root, joints=joints, **fields)


_model = cache(lambda: build_model(meshes=False, floor=False))


def _kinematics(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Link positions (N, 30, 3) and centres of collision shapes (N, G, 3)."""
    qpos, model = np.concatenate(columns, axis=1), _model()
    data = mujoco.MjData(model)
    ids = [model.body(name).id for name in g1.LINKS]
    links = np.empty((len(qpos), len(ids), 3))
    shapes = np.empty((len(qpos), model.ngeom, 3))
    for frame, row in enumerate(qpos):
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        links[frame], shapes[frame] = data.xpos[ids], data.geom_xpos
    return links, shapes


def _spread(frames: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, frames - 1, count).astype(int))


def joint_order(
    candidates: dict[str, np.ndarray], body_pos: np.ndarray, body_quat: np.ndarray
) -> str:
    """Name of the candidate (T, 29) joints that put the bodies where they are.

    The file's bodies (T, B, ...) may be any of the robot's links in any order, the
    root first: each is compared with the link that fits it best.
    """
    count = body_pos.shape[1]
    if not 2 <= count <= _MAX_BODIES:
        why = "too few to find the joint order"
        why = why if count < 2 else f"the G1 has {len(g1.LINKS)}"
        raise ClipError("joints", f"{count} bodies stored: {why}")
    frames = _spread(len(body_pos), _ORDER_FRAMES)
    bodies = body_pos[frames].astype(np.float64)
    errors = {}
    for name, joints in candidates.items():
        links, _ = _kinematics(bodies[:, 0], body_quat[frames, 0], joints[frames])
        distance = np.linalg.norm(bodies[:, :, None] - links[:, None], axis=-1)
        errors[name] = float(distance.mean(axis=0).min(axis=1).max())
    best = min(errors, key=lambda name: errors[name])
    # Written so that a NaN is refused, too.
    if not errors[best] < _ORDER_TOLERANCE_M:
        found = ", ".join(f"{100 * e:.1f} cm as {n}" for n, e in errors.items())
        reason = f"no joint order puts the links at body_pos_w: off by {found}"
        raise ClipError("joints", reason)
    return best


def quaternion_is_wxyz(
    position: np.ndarray, columns: np.ndarray, joints: np.ndarray, fps: float
) -> bool:
    """Whether four unnamed quaternion columns are w x y z rather than x y z w.

    Uprightness alone is not enough: a robot that faces along x is upright under both
    readings, 180 degrees apart. But only under the right one does the lowest point
    of the body lie on the floor and stay there.
    """
    unit = np.abs(np.linalg.norm(columns, axis=1) - 1.0) < 0.01
    finite = np.isfinite(position).all() and np.isfinite(joints).all()
    if len(position) < 2 or not (unit.all() and finite):
        return False  # refused later, with the frame
    first = _spread(len(position) - 1, _CONTACT_FRAMES)
    pairs = np.concatenate([first, first + 1])

    def implausibility(order: list[int]) -> float:
        quaternion = columns[pairs][:, order]
        _, shapes = _kinematics(position[pairs], quaternion, joints[pairs])
        now, after = np.split(shapes, 2)
        lowest = (np.arange(len(first)), now[:, :, 2].argmin(axis=1))
        height = np.abs(now[lowest][:, 2] - _FOOT_HEIGHT_M)
        slip = np.linalg.norm(after[lowest] - now[lowest], axis=1) * fps
        # 1 - cos of the tilt, from the x and y parts.
        tilt = 2 * (quaternion[:, 1:3] ** 2).sum(axis=1)
        cost = height.mean() + _TILT_WEIGHT_M * tilt.mean()
        return float(cost + _SLIP_WEIGHT_S * np.minimum(slip, _MAX_SLIP_M_S).mean())

    xyzw, wxyz = implausibility([3, 0, 1, 2]), implausibility([0, 1, 2, 3])
    return wxyz + _WXYZ_MARGIN_M < xyzw

"""Motions in npz archives: our own, mjlab and BeyondMimic, holosoma."""

from typing import BinaryIO

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.readers.assemble import (
    ReadOptions,
    all_joints,
    build,
    frame_rate,
    from_isaaclab,
    numbers,
    plain,
)
from spectral_skills.motion.readers.conventions import joint_order
from spectral_skills.motion.readers.zipped_arrays import ZippedArrays
from spectral_skills.robot import g1


def read(file: BinaryIO, name: str, options: ReadOptions) -> Clip:
    """The motion of an npz file."""
    arrays = ZippedArrays(file)
    if "qpos" in arrays:
        qpos = numbers(arrays["qpos"], "qpos")
        return _from_qpos(qpos, "spectral npz", arrays, name, options)
    if "joint_pos" not in arrays:
        raise ClipError(
            "unknown format", f"an archive of {arrays.names or 'no arrays'}"
        )
    joint_pos = numbers(arrays["joint_pos"], "joint_pos")
    if joint_pos.shape[1] == g1.QPOS_SIZE:
        qpos = joint_pos.copy()
        qpos[:, 7:] = qpos[:, 7:][:, _order_of_names(arrays)]
        return _from_qpos(qpos, "holosoma npz", arrays, name, options)
    return _mjlab(joint_pos, arrays, name, options)


def _from_qpos(
    qpos: np.ndarray, label: str, arrays: ZippedArrays, name: str, options: ReadOptions
) -> Clip:
    return build(
        qpos[:, :3],
        qpos[:, 3:7],
        qpos[:, 7:],
        options,
        name=name,
        **_described(arrays, label, options),
    )


def _mjlab(
    joint_pos: np.ndarray, arrays: ZippedArrays, name: str, options: ReadOptions
) -> Clip:
    """The root is body 0; the joint order is told by where the bodies are."""
    missing = [n for n in ("body_pos_w", "body_quat_w") if n not in arrays]
    if missing:
        raise ClipError(
            "unknown format", f"joint_pos without {' and '.join(missing)}: no root"
        )
    position = numbers(arrays["body_pos_w"], "body_pos_w", ndim=3)
    quaternion = numbers(arrays["body_quat_w"], "body_quat_w", ndim=3)
    frames = len(joint_pos)
    if position.shape[::2] != (frames, 3) or quaternion.shape[::2] != (frames, 4):
        raise ClipError(
            "columns",
            f"joint_pos, body_pos_w and body_quat_w have shapes {joint_pos.shape}, "
            f"{position.shape} and {quaternion.shape}",
        )
    if not frames or not (position.shape[1] and quaternion.shape[1]):
        raise ClipError("empty", "no frames or no bodies")
    orders = {
        "mjlab": joint_pos,
        "beyondmimic": from_isaaclab(joint_pos),
    }
    # Not finite: either order will do, the clip says where.
    label = "mjlab"
    if np.isfinite(joint_pos).all() and np.isfinite(quaternion[:, 0]).all():
        complete = {name: all_joints(j, options) for name, j in orders.items()}
        label = joint_order(complete, position, quaternion)
    return build(
        position[:, 0],
        quaternion[:, 0],
        orders[label],
        options,
        name=name,
        **_described(arrays, f"{label} npz", options),
    )


def _described(arrays: ZippedArrays, label: str, options: ReadOptions) -> dict:
    return {
        "fps": frame_rate(arrays.get("fps"), options),
        "text": arrays.sentences("text"),
        "source": arrays.text("source") or label,
        "licence": arrays.text("licence") or arrays.text("license") or "unknown",
    }


def _order_of_names(arrays: ZippedArrays) -> list[int]:
    """Where each joint is, by the file's joint_names; as they come without."""
    names = arrays.get("joint_names")
    if names is None:
        return list(range(g1.NUM_JOINTS))
    bare = [str(n).removesuffix("_joint") for n in names.reshape(-1)[: g1.QPOS_SIZE]]
    unknown = [joint for joint in g1.JOINTS if bare.count(joint) != 1]
    if unknown or len(bare) != g1.NUM_JOINTS:
        what = plain(", ".join(unknown)) or f"{len(bare)} names"
        raise ClipError("joints", f"joint_names does not name the 29 joints: {what}")
    return [bare.index(joint) for joint in g1.JOINTS]

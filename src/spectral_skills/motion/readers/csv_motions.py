"""Motions in one CSV file: Unitree, Kimodo, BONES-SEED and named columns."""

import re

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.readers import tables
from spectral_skills.motion.readers.assemble import (
    ReadOptions,
    all_joints,
    build,
    frame_rate,
    wxyz,
)
from spectral_skills.motion.readers.conventions import quaternion_is_wxyz
from spectral_skills.robot import g1

UNITREE_HZ = 30.0
BONES_SEED_HZ = 120.0
ROOT_COLUMNS = 7
MAX_EXTRA_COLUMNS = 2

_BONES_ROOT = tuple(
    f"root_{kind}{axis}" for kind in ("translate", "rotate") for axis in "xyz"
)
_ROOT = r"(?:(?:root|base|pelvis)_)?(?:joint_)?"
_POSITION = re.compile(rf"{_ROOT}(?:(?:pos|position|trans|translation)_)?([xyz])")
_QUATERNION = re.compile(rf"{_ROOT}(?:q|quat_|quaternion_|rot_|orientation_)([wxyz])")
_JOINT_SUFFIX = re.compile(r"(?:_joint|_dof|_pos)+$")
_RATE_IN_NAME = re.compile(r"(?<![\d.])(\d{1,6}(?:\.\d+)?)[ _-]?(?:hz|fps)(?![a-z])")


def read(data: bytes, name: str, options: ReadOptions) -> Clip:
    """The motion in a CSV file's bytes."""
    table = tables.parse(data)
    if not table.values.size:
        raise ClipError("empty", "the table holds no frames")
    if set(_BONES_ROOT) <= set(table.header):
        return _bones_seed(table, name, options)
    named = _named_columns(table.header)
    if named is not None:
        return _named(table.values, named, name, options)
    return _unnamed(table.values, name, options)


def _bones_seed(table: tables.Table, name: str, options: ReadOptions) -> Clip:
    """Centimetres, degrees, rotation about the fixed x, y, z axes in turn."""
    # Imported here: torch takes seconds and no other reader needs it.
    import torch

    from spectral_skills.rotation import from_axis_angle, multiply

    root = table.values[:, [table.header.index(c) for c in _BONES_ROOT]]
    columns = _joint_columns(table.header)
    if columns is None:
        raise ClipError("joints", "a joint column is missing from the header")
    radians = torch.from_numpy(np.radians(root[:, 3:]))
    x, y, z = (
        from_axis_angle(axis, angle)
        for axis, angle in zip(
            torch.eye(3, dtype=torch.float64), radians.unbind(1), strict=True
        )
    )
    return build(
        root[:, :3] / 100.0,
        multiply(z, multiply(y, x)).numpy(),
        np.radians(table.values[:, columns]),
        options,
        name=name,
        fps=frame_rate(BONES_SEED_HZ, options),
        source="bones-seed csv",
    )


def _joint_columns(header: tuple[str, ...]) -> list[int] | None:
    """Columns of the 29 joints, or of the 23 without wrists, by name."""
    bare = [_JOINT_SUFFIX.sub("", column) for column in header]
    without_wrists = [g1.JOINTS[i] for i in g1.WITHOUT_WRISTS]
    for names in (g1.JOINTS, without_wrists):
        if all(bare.count(joint) == 1 for joint in names):
            return [bare.index(joint) for joint in names]
    return None


def _named_columns(header: tuple[str, ...]) -> list[int] | None:
    """Columns of x y z, qw qx qy qz and the joints, if the names say so."""
    position, quaternion = {}, {}
    for column, label in enumerate(header):
        if match := _POSITION.fullmatch(label):
            position[match[1]] = column
        elif match := _QUATERNION.fullmatch(label):
            quaternion[match[1]] = column
    joints = _joint_columns(header)
    if joints is None or len(position) != 3 or len(quaternion) != 4:
        return None
    root = [*(position[a] for a in "xyz"), *(quaternion[a] for a in "wxyz")]
    return [*root, *joints]


def _named(
    values: np.ndarray, columns: list[int], name: str, options: ReadOptions
) -> Clip:
    chosen = values[:, columns]
    return build(
        chosen[:, :3],
        chosen[:, 3:7],
        chosen[:, 7:],
        options,
        name=name,
        fps=frame_rate(_rate_in_name(name) or UNITREE_HZ, options),
        source="unitree csv",
    )


def _unnamed(values: np.ndarray, name: str, options: ReadOptions) -> Clip:
    values, time_rate, notes = _without_extras(values)
    position, quaternion = values[:, :3], values[:, 3:ROOT_COLUMNS]
    joints = all_joints(values[:, ROOT_COLUMNS:], options)
    fps = frame_rate(time_rate or _rate_in_name(name) or UNITREE_HZ, options)
    real_first = quaternion_is_wxyz(position, quaternion, joints, fps)
    if real_first:
        notes = (*notes, "root quaternion read as w x y z, judged by the pose")
    return build(
        position,
        quaternion if real_first else wxyz(quaternion),
        values[:, ROOT_COLUMNS:],
        options,
        notes,
        name=name,
        fps=fps,
        source="kimodo csv" if real_first else "unitree csv",
    )


def _without_extras(
    values: np.ndarray,
) -> tuple[np.ndarray, float | None, tuple[str, ...]]:
    """Drop an index or time column in front and anything after the joints.

    Four consecutive columns of unit length, wherever they are, give the root's
    quaternion away.
    """
    width = values.shape[1]
    extra = width - g1.QPOS_SIZE
    if extra == 0 or width == ROOT_COLUMNS + len(g1.WITHOUT_WRISTS):
        return values, None, ()
    if not 0 < extra <= MAX_EXTRA_COLUMNS:
        raise ClipError(
            "columns",
            f"{width} columns; expected {g1.QPOS_SIZE}: x y z, a quaternion, 29 joints",
        )
    starts = [
        start
        for start in range(extra + 1)
        if (np.diff(values[:, :start], axis=0) > 0).all()
        and np.allclose(
            np.linalg.norm(values[:, start + 3 : start + 7], axis=1), 1.0, atol=0.01
        )
    ]
    if len(starts) != 1:
        raise ClipError(
            "columns",
            f"{width} columns; cannot tell which {extra} to leave out of the "
            f"{g1.QPOS_SIZE} expected",
        )
    start = starts[0]
    notes = (f"{extra} of {width} columns left out: {start} in front",)
    rates = [_rate_of_time(values[:, column]) for column in range(start)]
    rate = next((r for r in rates if r is not None), None)
    return values[:, start : start + g1.QPOS_SIZE], rate, notes


def _rate_of_time(column: np.ndarray) -> float | None:
    """Frame rate if the column counts seconds; None if it counts frames."""
    steps = np.diff(column)
    if not len(steps):
        return None
    # Printed times are rounded: the mean step is exact, single ones need not be.
    step = steps.mean()
    if not 0.001 <= step <= 0.5 or np.abs(steps - step).max() > 0.5 * step:
        return None
    return round(float(1.0 / step), 2)


def _rate_in_name(name: str) -> float | None:
    match = _RATE_IN_NAME.search(name.lower())
    return float(match[1]) if match and float(match[1]) >= 1.0 else None

"""Motions in text: one CSV file, or a SONIC reference folder with one per quantity.

Files are those of Unitree, Kimodo and BONES-SEED, or have named columns.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    NAME_LENGTH,
    ReadOptions,
    all_joints,
    build,
    frame_rate,
    from_isaaclab,
    joint_columns,
    printable,
    quaternion_is_wxyz,
    wxyz,
)
from spectral_skills.robot import g1

HEAD_BYTES = 1 << 16  # bytes that hold the first two rows of any table people have
UNITREE_HZ, BONES_SEED_HZ, SONIC_HZ = 30.0, 120.0, 50.0
_MAX_EXTRA_COLUMNS = 2
_REFERENCE_FILES = ("joint_pos.csv", "body_quat.csv")

_BONES_ROOT = tuple(
    f"root_{kind}{axis}" for kind in ("translate", "rotate") for axis in "xyz"
)
_ROOT = r"(?:(?:root|base|pelvis)_)?(?:joint_)?"
_POSITION = re.compile(rf"{_ROOT}(?:(?:pos|position|trans|translation)_)?([xyz])")
_QUATERNION = re.compile(rf"{_ROOT}(?:q|quat_|quaternion_|rot_|orientation_)([wxyz])")
_RATE_IN_NAME = re.compile(r"(?<![\d.])(\d{1,6}(?:\.\d+)?)[ _-]?(?:hz|fps)(?![a-z])")


class TextTable(NamedTuple):
    header: tuple[str, ...]  # column names, lower case; empty when the file has none
    values: np.ndarray  # (rows, columns) float64


def parse(data: bytes) -> TextTable:
    """Read separated numbers with an optional header row."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ClipError("unknown format", "neither text nor a known archive")
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    start = next((i for i, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise ClipError("empty", "the file holds no text")
    separator = _separator(lines[start])
    first = lines[start].lstrip("# ").split(separator)
    header = ()
    if sum(_is_number(cell) for cell in first) < len(first) / 2:
        header = tuple(cell.strip(" \t\"'").lower() for cell in first)
        start += 1
    lines = lines[start:] if start else lines
    if not lines:
        _refuse_prose(header, words=separator is None)
        raise ClipError("empty", "a header row and no frames")
    try:
        values = np.loadtxt(lines, delimiter=separator, comments=None, ndmin=2)
    except ValueError:
        _explain(lines, separator, header)
    if header and len(header) != values.shape[1]:
        reason = f"{len(header)} column names over {values.shape[1]} columns"
        raise ClipError("columns", reason)
    return TextTable(header, values)


def is_index(head: bytes) -> bool:
    """Whether the start of a table holds words in several columns under its names.

    Such a table describes motions and is none itself.
    """
    lines = head.decode("utf-8-sig", "replace").splitlines()[:2]
    separator = _separator(lines[0]) if lines else None
    if separator is None or len(lines) < 2:
        return False
    return all(_words(line, separator) > 1 for line in lines)


def _words(line: str, separator: str | None) -> int:
    return sum(bool(c.strip()) and not _is_number(c) for c in line.split(separator))


def _separator(line: str) -> str | None:
    """None stands for any white space."""
    return "," if "," in line else ";" if ";" in line else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _refuse_prose(header: tuple[str, ...], words: bool = False) -> None:
    if not header:
        return
    first = " ".join(header)
    if first.startswith("version https://git-lfs"):
        raise ClipError("unknown format", "a Git LFS pointer; run git lfs pull")
    if words or len(header) < 4 or first.startswith("<"):
        reason = f"text, not a table: {printable(first, 40)!r}"
        raise ClipError("unknown format", reason)


def _explain(
    lines: list[str], separator: str | None, header: tuple[str, ...]
) -> NoReturn:
    """Find the cell or row that NumPy stumbled over."""
    _refuse_prose(header)
    if header and _words(lines[0], separator) > 1:
        raise ClipError("unknown format", "a table of words, not of numbers")
    rows = [line.split(separator) for line in lines if line.strip()]
    width = len(header) or Counter(map(len, rows)).most_common(1)[0][0]
    for frame, cells in enumerate(rows):
        if len(cells) != width:
            last = frame == len(rows) - 1 and len(cells) < width
            reason = f"{len(cells)} columns in a table of {width}"
            raise ClipError("truncated" if last else "columns", reason, frame)
        for column, cell in enumerate(cells, start=1):
            if not cell.strip():
                raise ClipError("not finite", f"column {column} is empty", frame)
            if not _is_number(cell):
                what = f"column {column} is {printable(cell, 30)!r}, not a number"
                if width < 4:
                    raise ClipError("unknown format", f"text, not a table: {what}")
                raise ClipError("unreadable", what, frame)
    raise ClipError("unreadable", "the table cannot be parsed")


def read_csv(data: bytes, name: str, options: ReadOptions) -> Clip:
    header, values = parse(data)
    if not values.size:
        raise ClipError("empty", "the table holds no frames")
    if set(_BONES_ROOT) <= set(header):
        return _bones_seed(header, values, name, options)
    columns, notes, rate = _named_columns(header), (), None
    if columns is not None:
        values = values[:, columns]
    else:
        values, rate, notes = _without_extras(values)
    position, quaternion, joints = values[:, :3], values[:, 3:7], values[:, 7:]
    fps = frame_rate(rate or _rate_in_name(name) or UNITREE_HZ, options)
    source = "unitree csv"
    if columns is None:
        complete = all_joints(joints, options)
        if quaternion_is_wxyz(position, quaternion, complete, fps):
            notes = (*notes, "root quaternion read as w x y z, judged by the pose")
            source = "kimodo csv"
        else:
            quaternion = wxyz(quaternion)
    fields = {"name": name, "source": source}
    return build(position, quaternion, joints, options, fps, notes, **fields)


def _bones_seed(
    header: tuple[str, ...], values: np.ndarray, name: str, options: ReadOptions
) -> Clip:
    """Centimetres, degrees, rotation about the fixed x, y, z axes in turn."""
    # Imported here: torch takes seconds and no other reader needs it.
    import torch

    from spectral_skills.rotation import from_axis_angle, multiply

    root = values[:, [header.index(c) for c in _BONES_ROOT]]
    columns = joint_columns(header)
    if columns is None:
        raise ClipError("joints", "a joint column is missing from the header")
    radians = torch.from_numpy(np.radians(root[:, 3:])).unbind(1)
    x, y, z = map(from_axis_angle, torch.eye(3, dtype=torch.float64), radians)
    turn, joints = multiply(z, multiply(y, x)).numpy(), np.radians(values[:, columns])
    parts = (root[:, :3] / 100.0, turn, joints)
    return build(*parts, options, BONES_SEED_HZ, name=name, source="bones-seed csv")


def _named_columns(header: tuple[str, ...]) -> list[int] | None:
    """Columns of x y z, qw qx qy qz and the joints, if the names say so."""
    position, quaternion = {}, {}
    for column, label in enumerate(header):
        if match := _POSITION.fullmatch(label):
            position[match[1]] = column
        elif match := _QUATERNION.fullmatch(label):
            quaternion[match[1]] = column
    joints = joint_columns(header)
    if joints is None or len(position) != 3 or len(quaternion) != 4:
        return None
    root = [*(position[a] for a in "xyz"), *(quaternion[a] for a in "wxyz")]
    return [*root, *joints]


def _without_extras(
    values: np.ndarray,
) -> tuple[np.ndarray, float | None, tuple[str, ...]]:
    """Drop an index or time column in front and anything after the joints.

    Four consecutive columns of unit length show where the root's quaternion is.
    """
    width = values.shape[1]
    extra = width - g1.QPOS_SIZE
    if extra == 0 or width == 7 + len(g1.WITHOUT_WRISTS):
        return values, None, ()
    expected = f"{g1.QPOS_SIZE}: x y z, a quaternion, 29 joints"
    if not 0 < extra <= _MAX_EXTRA_COLUMNS:
        raise ClipError("columns", f"{width} columns; expected {expected}")
    lengths = [np.linalg.norm(values[:, i + 3 : i + 7], axis=1) for i in range(3)]
    starts = [
        start
        for start in range(extra + 1)
        if (np.diff(values[:, :start], axis=0) > 0).all()
        and np.allclose(lengths[start], 1.0, atol=0.01)
    ]
    if len(starts) != 1:
        reason = f"{width} columns; it is unclear which {extra} do not belong to the "
        raise ClipError("columns", f"{reason}{expected}")
    start = starts[0]
    notes = (f"{extra} of {width} columns left out: {start} in front",)
    rates = map(_rate_of_time, values[:, :start].T)
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


def is_reference(folder: Path) -> bool:
    """Whether a folder is one SONIC motion rather than a place with motions in it."""
    return all((folder / name).is_file() for name in _REFERENCE_FILES)


def read_reference(folder: Path, options: ReadOptions) -> Clip:
    """The motion of a SONIC reference folder; its joints are in IsaacLab's order."""
    if not is_reference(folder):
        needed = " and ".join(_REFERENCE_FILES)
        raise ClipError("unknown format", f"a folder without {needed} is no motion")
    if not (folder / "body_pos.csv").is_file():
        reason = "no body_pos.csv: the root's position is not in this folder"
        raise ClipError("columns", reason)
    files = ("joint_pos.csv", "body_pos.csv", "body_quat.csv")
    joints, position, quaternion = (_values(folder / name) for name in files)
    counts = map(len, (joints, position, quaternion))
    rows = dict(zip(files, counts, strict=True)) | _promised_rows(folder)
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{n} in {name}" for name, n in rows.items())
        raise ClipError("truncated", f"row counts differ: {found}")
    widths = position.shape[1], quaternion.shape[1]
    if widths[0] % 3 or widths[1] % 4:
        reason = f"{widths[0]} position and {widths[1]} quaternion columns"
        raise ClipError("columns", reason)
    name = printable(folder.resolve().name, NAME_LENGTH)
    parts = (position[:, :3], quaternion[:, :4], from_isaaclab(joints))
    return build(*parts, options, SONIC_HZ, name=name, source="sonic reference")


def _values(path: Path) -> np.ndarray:
    if path.stat().st_size > LIMIT_BYTES:
        raise ClipError("too large", f"{path.name} is over 2 GiB")
    try:
        return parse(path.read_bytes()).values
    except ClipError as error:
        reason = f"{path.name}: {error.reason}"
        raise ClipError(error.kind, reason, error.frame) from None


def _promised_rows(folder: Path) -> dict[str, int]:
    """The row count that metadata.txt promises, if it does."""
    path = folder / "metadata.txt"
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        text = file.read(1 << 16).decode("utf-8", "replace")
    bodies = re.search(r"Body part indexes:\s*\[\s*(\d{1,6})", text)
    if bodies and int(bodies[1]) != 0:
        reason = f"the first body is number {bodies[1]}, not the root"
        raise ClipError("columns", reason)
    steps = re.search(r"Total timesteps:\s*(\d{1,12})", text)
    return {"metadata.txt": int(steps[1])} if steps else {}

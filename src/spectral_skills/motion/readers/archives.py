"""Motions in npz archives and in pickles.

Archives are our own or those of mjlab, BeyondMimic and holosoma; pickles are clips of
GMR, TWIST and GMT, or libraries of ASAP, PBHC and SONIC.
"""

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.readers import unpickle
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    MAX_SENTENCES,
    NAME_LENGTH,
    TEXT_LENGTH,
    ReadOptions,
    all_joints,
    build,
    from_isaaclab,
    joint_columns,
    joint_order,
    numbers,
    printable,
    sentences,
    wxyz,
)
from spectral_skills.robot import g1

_MAX_DIRECTORY_BYTES = 1 << 20
_MAX_HEADER_BYTES = 1 << 16
_END_OF_DIRECTORY = b"PK\x05\x06"
_END_SEARCH_BYTES = (1 << 16) + 22
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?)(f[248]|[iu][1248]|b1|[US]\d{1,6})', "
    r"'fortran_order': (True|False), 'shape': \(((?:\d{1,12}L?,? ?){0,8})\),? *\}\s*"
)
# All that zipfile raises for a damaged, encrypted or strangely packed member.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
_LAYOUTS = {
    "gmr pkl": ("root_pos", "root_rot", "dof_pos"),
    "motion library pkl": ("root_trans_offset", "root_rot", "dof"),
}


class ZippedArrays(Mapping[str, np.ndarray]):
    """The arrays of an npz file, without trusting what it says about itself.

    NumPy's own reader allocates what an array's header claims; here the claim is
    compared with the bytes that are there.
    """

    def __init__(self, file: BinaryIO):
        _check_directory(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, struct.error) as error:
            raise ClipError("unreadable", f"damaged zip: {printable(error)}") from None
        members = [m for m in self._zip.infolist() if m.filename.endswith(".npy")]
        if sum(member.file_size for member in members) > LIMIT_BYTES:
            raise ClipError("too large", "the archive expands to more than 2 GiB")
        self._members = {m.filename.removesuffix(".npy"): m for m in members}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> np.ndarray:
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ClipError("unreadable", f"{name}: not compressed as NumPy does")
        try:
            with self._zip.open(member) as data:
                return read_array(name, data, member.file_size)
        except ClipError:
            raise
        except _DAMAGE as error:
            raise ClipError("unreadable", f"{name}: {printable(error)}") from None


def _check_directory(file: BinaryIO) -> None:
    """Refuse a directory of millions of entries before zipfile reads it."""
    size = file.seek(0, 2)
    start = file.seek(max(0, size - _END_SEARCH_BYTES))
    tail = file.read()
    found = tail.rfind(_END_OF_DIRECTORY)
    if found < 0 or start + found + 22 > size:
        raise ClipError("truncated", "a zip archive without its end")
    (directory_bytes,) = struct.unpack_from("<I", tail, found + 12)
    if directory_bytes > _MAX_DIRECTORY_BYTES:
        raise ClipError("too large", "a zip archive with far too many entries")


def read_array(name: str, data, member_bytes: int) -> np.ndarray:
    start = data.read(8)
    if len(start) < 8 or start[:6] != b"\x93NUMPY" or start[6] not in (1, 2, 3):
        raise ClipError("unreadable", f"{name}: not a NumPy array")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(data.read(width), "little")
    if length > _MAX_HEADER_BYTES:
        raise ClipError("unreadable", f"{name}: array header of {length} bytes")
    header = data.read(length).decode("latin1")
    if "'|O'" in header:
        reason = f"{name}: an array of Python objects; nothing was run"
        raise ClipError("code in pickle", reason)
    match = _HEADER.fullmatch(header)
    if match is None:
        reason = f"{name}: array header {printable(header, 60)!r}"
        raise ClipError("unreadable", reason)
    order, code, fortran, sizes = match.groups()
    shape = tuple(int(n) for n in re.findall(r"\d+", sizes))
    dtype = np.dtype(order.replace("|", "") + code)
    wanted = math.prod(shape) * dtype.itemsize
    left = member_bytes - 8 - width - length
    content = data.read(wanted) if wanted <= left else b""
    if len(content) != wanted:
        left = min(left, len(content)) if wanted <= left else left
        reason = f"{name}: shape {shape} needs {wanted} bytes, there are {left}"
        raise ClipError("truncated", reason)
    flat = np.frombuffer(content, dtype)
    return flat.reshape(shape, order="F" if fortran == "True" else "C")


def read_npz(file: BinaryIO, name: str, options: ReadOptions) -> Clip:
    arrays = ZippedArrays(file)
    if "qpos" in arrays:
        label, qpos = "spectral", numbers(arrays["qpos"], "qpos")
    elif "joint_pos" not in arrays:
        raise ClipError("unknown format", f"an archive of {_keys(arrays)}")
    else:
        qpos = numbers(arrays["joint_pos"], "joint_pos")
        if qpos.shape[1] == g1.QPOS_SIZE:
            label, qpos = "holosoma", _by_joint_names(qpos, arrays.get("joint_names"))
        else:
            label, qpos = _mjlab(qpos, arrays, options)
    parts = (qpos[:, :3], qpos[:, 3:7], qpos[:, 7:])
    return build(*parts, options, name=name, **_about(arrays, f"{label} npz"))


def _mjlab(
    joint_pos: np.ndarray, arrays: ZippedArrays, options: ReadOptions
) -> tuple[str, np.ndarray]:
    """The root is body 0; where the bodies are decides the order of the joints."""
    missing = [n for n in ("body_pos_w", "body_quat_w") if n not in arrays]
    if missing:
        reason = f"joint_pos without {' and '.join(missing)}: no root"
        raise ClipError("unknown format", reason)
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
    orders = {"mjlab": joint_pos, "beyondmimic": from_isaaclab(joint_pos)}
    # If not finite, either order will do: the clip says where.
    label = "mjlab"
    if np.isfinite(joint_pos).all() and np.isfinite(quaternion[:, 0]).all():
        complete = {name: all_joints(j, options) for name, j in orders.items()}
        label = joint_order(complete, position, quaternion)
    parts = (position[:, 0], quaternion[:, 0], orders[label])
    return label, np.concatenate(parts, axis=1, dtype=np.float64)


def _by_joint_names(qpos: np.ndarray, names: np.ndarray | None) -> np.ndarray:
    """Rows with joints in our order; without names they have it already."""
    if names is None:
        return qpos
    stored = [str(name) for name in names.reshape(-1)[: g1.QPOS_SIZE]]
    columns = joint_columns(stored)
    if columns is None or not len(stored) == len(columns) == g1.NUM_JOINTS:
        known = f"{len(stored)} names, {printable(', '.join(stored))}"
        raise ClipError("joints", f"joint_names does not name the 29 joints: {known}")
    return qpos[:, [*range(7), *(7 + i for i in columns)]]


def read_pickle(
    file: BinaryIO, name: str, options: ReadOptions
) -> list[Clip | ClipError]:
    """All motions of a pickle; a library's bad entries are errors in the list."""
    stream = unpickle.Stream(file)
    root = unpickle.load(stream)
    if not isinstance(root, dict):
        array = isinstance(root, unpickle.StandIn)
        kind = "array" if array else type(root).__name__
        raise ClipError("unknown format", f"a pickled {kind}, not a dict")
    if not root:
        raise ClipError("empty", "an empty library")
    if _layout(root):
        return [_clip(_plain(root), name, options)]
    if not any(_layout(entry) for entry in root.values()):
        raise ClipError("unknown format", f"a pickled dict with keys {_keys(root)}")
    found: list[Clip | ClipError] = []
    spare = stream.total + unpickle.SHARED_BYTES
    for key, entry in root.items():
        named = isinstance(key, str | int)
        title = (printable(key, NAME_LENGTH) if named else "") or "unnamed"
        values = _plain(entry)
        spare -= sum(v.nbytes for v in values.values() if isinstance(v, np.ndarray))
        try:
            # A thousand names for one array would fill the memory with copies.
            if spare < 0:
                raise ClipError("too large", "entries repeat each other's arrays")
            found.append(_clip(values, title, options))
        except ClipError as error:
            reason = f"{printable(title)}: {error.reason}"
            found.append(ClipError(error.kind, reason, error.frame))
            if spare < 0:
                break
    return found


def _layout(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((n for n, keys in _LAYOUTS.items() if set(keys) <= set(entry)), None)


def _plain(entry: object) -> dict:
    """An entry with arrays in place of their stand-ins; empty if it is no dict."""
    items = entry.items() if isinstance(entry, dict) else ()
    return {k: v.value if isinstance(v, unpickle.StandIn) else v for k, v in items}


def _clip(entry: dict, name: str, options: ReadOptions) -> Clip:
    layout = _layout(entry)
    if layout is None:
        what = f"keys {_keys(entry)}" if entry else "no motion"
        raise ClipError("unknown format", f"an entry with {what}")
    position, rotation, joints = (numbers(entry[k], k) for k in _LAYOUTS[layout])
    about = _about(entry, layout)
    return build(position, wxyz(rotation), joints, options, name=name, **about)


def _about(values: Mapping, source: str) -> dict[str, Any]:
    """Frame rate, text, source and licence that a file states."""

    def one(key: str) -> str:
        found = texts(values, key)
        return printable(found[0], TEXT_LENGTH) if len(found) == 1 else ""

    return {
        "fps": values.get("fps"),
        "text": sentences(texts(values, "text")),
        "source": one("source") or source,
        "licence": one("licence") or one("license") or "unknown",
    }


def texts(values: Mapping, key: str) -> list[str]:
    """Stored strings. They are optional: a bad one does not cost the motion."""
    try:
        value = values.get(key)
    except ClipError:
        return []
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[:MAX_SENTENCES].tolist()
    found = value[:MAX_SENTENCES] if isinstance(value, list) else [value]
    # Strings only: a nest of lists may be endless when written out.
    return [text for text in found if isinstance(text, str)]


def _keys(entry: Mapping) -> str:
    names = (printable(k, 30) for k in list(entry)[:12] if isinstance(k, str))
    return printable(", ".join(names)) or "no arrays"

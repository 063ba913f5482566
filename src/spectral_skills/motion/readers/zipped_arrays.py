"""Arrays of an npz archive, read without trusting what it says about itself.

NumPy's own reader allocates what an array's header claims and evaluates that
header as Python; here a header is matched against the one form NumPy writes,
and its claim is held against the bytes that are there.
"""

import math
import re
import struct
import zipfile
import zlib
from typing import BinaryIO

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.readers.assemble import (
    LIMIT_BYTES,
    MAX_SENTENCES,
    TEXT_LENGTH,
    plain,
    sentences,
)

MAX_DIRECTORY_BYTES = 1 << 20
MAX_HEADER_BYTES = 1 << 16
_END_OF_DIRECTORY = b"PK\x05\x06"
_END_SEARCH_BYTES = (1 << 16) + 22
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?)(f[248]|[iu][1248]|b1|[US]\d{1,6})', "
    r"'fortran_order': (True|False), 'shape': \(((?:\d{1,12}L?,? ?){0,8})\),? *\}\s*"
)

# All that zipfile raises for a damaged, encrypted or strangely packed member.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


class ZippedArrays:
    """The arrays of an npz file by name, each read when asked for."""

    def __init__(self, file: BinaryIO):
        _check_directory(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, struct.error) as error:
            raise ClipError("unreadable", f"damaged zip: {plain(error)}") from None
        members = [m for m in self._zip.infolist() if m.filename.endswith(".npy")]
        if sum(member.file_size for member in members) > LIMIT_BYTES:
            raise ClipError("too large", "the archive expands to more than 2 GiB")
        self._members = {m.filename.removesuffix(".npy"): m for m in members}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> str:
        """The array names, for a message."""
        return plain(", ".join(plain(name, 30) for name in list(self._members)[:12]))

    def get(self, name: str) -> np.ndarray | None:
        return self[name] if name in self else None

    def text(self, name: str) -> str:
        """A stored string; empty if there is none."""
        value = self._text_array(name)
        if value is None or value.size != 1:
            return ""
        return plain(value.item(), TEXT_LENGTH)

    def _text_array(self, name: str) -> np.ndarray | None:
        """Words are optional: what is not text costs the words, not the motion."""
        try:
            value = self.get(name)
        except ClipError:
            return None
        return value if value is not None and value.dtype.kind == "U" else None

    def sentences(self, name: str) -> str:
        """One text with a sentence a line, or an array of sentences."""
        value = self._text_array(name)
        if value is None:
            return ""
        return sentences(value.reshape(-1)[:MAX_SENTENCES])

    def __getitem__(self, name: str) -> np.ndarray:
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ClipError("unreadable", f"{name}: not compressed as NumPy does")
        try:
            with self._zip.open(member) as data:
                return _read_array(name, data, member.file_size)
        except ClipError:
            raise
        except _DAMAGE as error:
            raise ClipError("unreadable", f"{name}: {plain(error)}") from None


def _check_directory(file: BinaryIO) -> None:
    """Refuse a directory of millions of entries before zipfile reads it."""
    size = file.seek(0, 2)
    start = file.seek(max(0, size - _END_SEARCH_BYTES))
    tail = file.read()
    found = tail.rfind(_END_OF_DIRECTORY)
    if found < 0 or start + found + 22 > size:
        raise ClipError("truncated", "a zip archive without its end")
    (directory_bytes,) = struct.unpack_from("<I", tail, found + 12)
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise ClipError("too large", "a zip archive with far too many entries")


def _read_array(name: str, data, member_bytes: int) -> np.ndarray:
    start = data.read(8)
    if len(start) < 8 or start[:6] != b"\x93NUMPY" or start[6] not in (1, 2, 3):
        raise ClipError("unreadable", f"{name}: not a NumPy array")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(data.read(width), "little")
    if length > MAX_HEADER_BYTES:
        raise ClipError("unreadable", f"{name}: array header of {length} bytes")
    header = data.read(length).decode("latin1")
    if "'|O'" in header:
        raise ClipError(
            "code in pickle", f"{name}: an array of Python objects; nothing was run"
        )
    match = _HEADER.fullmatch(header)
    if match is None:
        raise ClipError("unreadable", f"{name}: array header {plain(header, 60)!r}")
    order, code, fortran, sizes = match.groups()
    shape = tuple(int(n) for n in re.findall(r"\d+", sizes))
    dtype = np.dtype(order.replace("|", "") + code)
    wanted = math.prod(shape) * dtype.itemsize
    left = member_bytes - 8 - width - length
    if wanted > left:
        raise ClipError(
            "truncated", f"{name}: shape {shape} needs {wanted} bytes, {left} are there"
        )
    content = data.read(wanted)
    if len(content) != wanted:
        raise ClipError("truncated", f"{name}: ends after {len(content)} bytes")
    flat = np.frombuffer(content, dtype)
    return flat.reshape(shape, order="F" if fortran == "True" else "C")

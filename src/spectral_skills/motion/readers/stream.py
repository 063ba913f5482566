"""A file as a stream of bytes that can neither overrun nor overfill memory."""

import bz2
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.readers.assemble import LIMIT_BYTES

BLOCK = 1 << 20
LZMA_MEMORY = 256 << 20
"""An lzma header may ask for a 4 GiB dictionary."""

_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b")
_LZMA = (b"\xfd7zXZ\x00", b"\x5d\x00\x00")
_BZ2 = b"BZh"


def is_compressed(head: bytes) -> bool:
    """Whether the first bytes are those of a compressed joblib file."""
    return head.startswith((*_ZLIB, *_LZMA, _BZ2))


class Stream:
    """`read` and `readline` over a file, decompressed if need be.

    Memory grows with the bytes that are there, never with a length the file
    claims.
    """

    def __init__(self, file: BinaryIO):
        head = file.read(8)
        file.seek(0)
        self.total = 0
        """Bytes delivered so far, after decompression."""
        self._blocks = _expand(file, head) if is_compressed(head) else _plain(file)
        self._block = io.BytesIO()

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        data = self._block.read(size)
        if len(data) == size:
            return data
        parts, missing = [data], size - len(data)
        while missing:
            self._advance()
            parts.append(self._block.read(missing))
            missing -= len(parts[-1])
        return b"".join(parts)

    def readline(self) -> bytes:
        """Up to and including the next line feed."""
        parts = [self._block.readline()]
        while not parts[-1].endswith(b"\n"):
            self._advance()
            parts.append(self._block.readline())
        return b"".join(parts)

    def _advance(self) -> None:
        block = next(self._blocks, None)
        if block is None:
            raise ClipError("truncated", "the file ends in the middle of its data")
        self.total += len(block)
        if self.total > LIMIT_BYTES:
            raise ClipError("too large", "expands to more than 2 GiB")
        self._block = io.BytesIO(block)


def _plain(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK), b"")


def _expand(file: BinaryIO, head: bytes) -> Iterator[bytes]:
    try:
        if head.startswith(_ZLIB):
            yield from _expand_zlib(file)
            return
        decoder = (
            bz2.BZ2Decompressor()
            if head.startswith(_BZ2)
            else lzma.LZMADecompressor(memlimit=LZMA_MEMORY)
        )
        while not decoder.eof:
            data = file.read(BLOCK) if decoder.needs_input else b""
            if not data and decoder.needs_input:
                return
            yield decoder.decompress(data, BLOCK)
    except (OSError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise ClipError("unreadable", f"does not decompress: {error}") from None


def _expand_zlib(file: BinaryIO) -> Iterator[bytes]:
    # 32 + 15: zlib and gzip headers are both understood.
    decoder = zlib.decompressobj(wbits=47)
    while not decoder.eof:
        data = decoder.unconsumed_tail or file.read(BLOCK)
        block = decoder.decompress(data, BLOCK)
        if not block and not data:
            return
        yield block

"""Values in pickles, read without running anything they ask for.

A pickle is a program. It runs here under three rules: a name stands only for one of
the stand-ins below, which run no code of NumPy or joblib; opcodes that no motion
needs are refused; and nothing is made that is larger than the bytes in the file.
The unpickler is the standard library's pure Python one, because the one in C
allocates its memo for whatever index a file claims.
"""

import bz2
import io
import lzma
import math
import pickle
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.kinds import printable
from spectral_skills.motion.readers.assemble import LIMIT_BYTES

MAX_READS = 40_000_000
"""About half a minute. A clip takes 500, so 2 GiB of motions need fewer."""
SHARED_BYTES = 64 << 20
"""How much may be made by using the same bytes twice, beyond the size of the file."""
_BLOCK = 1 << 20
_LZMA_MEMORY = 256 << 20  # an lzma header may ask for a 4 GiB dictionary
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b")
_OTHER = {
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY),
    b"\x5d\x00\x00": lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY),
}


def is_compressed(head: bytes) -> bool:
    """Whether the first bytes are those of a compressed joblib file."""
    return head.startswith((*_ZLIB, *_OTHER))


class Stream:
    """The bytes of a file, decompressed if need be.

    Memory grows with the bytes that are there, never with a length the file claims.
    """

    def __init__(self, file: BinaryIO):
        head = file.read(8)
        file.seek(0)
        self.total = 0  # number of bytes delivered so far, after decompression
        self._reads = 0
        self._blocks = _blocks(file, head)
        self._block = io.BytesIO()

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        self._reads += 1
        if self._reads > MAX_READS:
            raise ClipError("too large", f"the pickle takes over {MAX_READS:,} steps")
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


def _blocks(file: BinaryIO, head: bytes) -> Iterator[bytes]:
    try:
        if head.startswith(_ZLIB):
            # 32 + 15: zlib and gzip headers are both understood.
            zipped = zlib.decompressobj(wbits=47)
            while not zipped.eof:
                data = zipped.unconsumed_tail or file.read(_BLOCK)
                block = zipped.decompress(data, _BLOCK)
                if not block and not data:
                    return
                yield block
            return
        decoder = next((d() for h, d in _OTHER.items() if head.startswith(h)), None)
        while decoder is None or not decoder.eof:
            hungry = decoder is None or decoder.needs_input
            data = file.read(_BLOCK) if hungry else b""
            if not data and hungry:
                return
            yield data if decoder is None else decoder.decompress(data, _BLOCK)
    except (OSError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise ClipError("unreadable", f"does not decompress: {error}") from None


def refuse(what: str) -> NoReturn:
    """Refuse a pickle that wants to run something."""
    raise ClipError("code in pickle", f"{printable(what, 120)}; nothing was run")


def damaged(what: str) -> ClipError:
    return ClipError("unreadable", f"damaged pickle: {what}")


@dataclass
class PickledArray:
    """Stand-in for an array."""

    value: np.ndarray | None = None  # none for arrays of text, which no reader needs


@dataclass
class _DType:
    """Stand-in for a NumPy dtype, whose own state is not to be trusted."""

    kind: str
    itemsize: int
    order: str = "<"

    def set_state(self, state: object) -> None:
        # (version, byte order, subarray, names, fields, ...)
        if type(state) is not tuple or state[1] not in ("<", ">", "|", "="):
            raise damaged("odd dtype")
        if any(part is not None for part in state[2:5]):
            raise ClipError("unreadable", "arrays of records are not supported")
        self.order = state[1].replace("|", "<")


def _dtype(code: object, *_: object) -> _DType:
    code = code.decode("ascii") if isinstance(code, bytes) else code
    if not isinstance(code, str):
        raise damaged("odd dtype")
    if code.startswith("O"):
        refuse("holds an array of Python objects")
    if not re.fullmatch(r"f[248]|[iu][1248]|b1|[US]\d{1,6}", code):
        raise ClipError("unreadable", f"arrays of type {printable(code, 20)!r}")
    return _DType(code[0], int(code[1:]) * (4 if code[0] == "U" else 1))


def _bytes_needed(dtype: object, shape: object) -> int:
    if not isinstance(dtype, _DType):
        raise damaged("array without a dtype")
    # Bounded one by one: products of forged giant integers take for ever.
    if not (
        type(shape) is tuple
        and len(shape) <= 8
        and all(type(n) is int and 0 <= n < 2**40 for n in shape)
    ):
        raise damaged("odd array shape")
    return math.prod(shape) * dtype.itemsize


def _array(data: object, dtype: Any, shape: Any, fortran: bool) -> np.ndarray | None:
    """A view of the bytes; None for text."""
    data = data.encode("latin1") if isinstance(data, str) else data
    if not isinstance(data, bytes | bytearray):
        refuse("holds an array of Python objects")
    if _bytes_needed(dtype, shape) != len(data):
        raise ClipError("truncated", f"an array of shape {shape} has {len(data)} bytes")
    if dtype.kind in "US":
        return None
    name = "?" if dtype.kind == "b" else f"{dtype.order}{dtype.kind}{dtype.itemsize}"
    flat = np.frombuffer(data, np.dtype(name))
    return flat.reshape(shape, order="F" if fortran else "C")


def _from_buffer(data: object, dtype: object, shape: object, order: object, *_: object):
    return PickledArray(_array(data, dtype, shape, order == "F"))


def _scalar(dtype: object, data: object = b"") -> object:
    array = _array(data, dtype, (), fortran=False)
    return None if array is None else array[()]


def _bytes(value: object = b"", codec: object = "latin1") -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if type(value) is not str or codec not in ("latin1", "latin-1"):
        raise damaged("odd bytes")
    return value.encode("latin1")


def _ordered_dict(pairs: object = ()) -> dict:
    items: dict = {}
    for key, value in pairs:  # type: ignore[union-attr]
        _set_item(items, key, value)
    return items


def _set_item(target: object, key: object, value: object) -> None:
    """Put into a dictionary, under nothing whose hash costs much or collides."""
    if type(target) is not dict:
        raise damaged("items set on no dictionary")
    cheap = key is None or isinstance(key, str | bytes | float)
    if not cheap and not (type(key) is int and abs(key) < 2**60):
        raise damaged(f"a {type(key).__name__} as dictionary key")
    target[key] = value


@dataclass(frozen=True)
class _Global:
    """What a pickle gets for a name."""

    name: str
    call: Callable[..., Any] | None = None


_NDARRAY = _Global("numpy.ndarray")
_WRAPPER = _Global("joblib.numpy_pickle.NumpyArrayWrapper")
_CALLS: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _dtype,
    "numpy.core.multiarray._reconstruct": lambda *_: PickledArray(),
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "builtins.bytes": _bytes,
    "builtins.bytearray": lambda *values: bytearray(_bytes(*values)),
    "_codecs.encode": _bytes,
    "collections.OrderedDict": _ordered_dict,
}
_GLOBALS = {n: _Global(n, call) for n, call in _CALLS.items()}
_GLOBALS |= {known.name: known for known in (_NDARRAY, _WRAPPER)}

_private: Any = pickle  # the type stubs do not have the pure Python unpickler


class _Unpickler(_private._Unpickler):
    dispatch = dict(_private._Unpickler.dispatch)

    def __init__(self, stream: Stream):
        super().__init__(stream, encoding="latin1")
        self._stream = stream
        self._made = 0

    def find_class(self, module: str, name: str) -> _Global:
        # NumPy renamed core to _core, Python 3 __builtin__ to builtins, and joblib
        # once lived inside scikit-learn.
        full = f"{module}.{name}".removeprefix("sklearn.externals.")
        usual = full.replace("numpy._core.", "numpy.core.", 1)
        usual = usual.replace("__builtin__.", "builtins.", 1)
        if usual not in _GLOBALS:
            refuse(f"refers to {printable(full)}")
        return _GLOBALS[usual]

    def _charged(self, value: Any) -> Any:
        """The value, unless calls have made more than the file could hold."""
        held = value.value if isinstance(value, PickledArray) else value
        if isinstance(held, np.ndarray):
            self._made += held.nbytes
        elif isinstance(held, bytes | bytearray | dict):
            self._made += len(held) * (100 if isinstance(held, dict) else 1)
        if self._made > self._stream.total + SHARED_BYTES:
            raise ClipError("too large", "the pickle makes more data than it holds")
        return value

    def load_frame(self) -> None:
        self.read(8)  # what a frame holds follows it anyway, and each step is counted

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        if not isinstance(function, _Global) or function.call is None:
            refuse(f"calls {getattr(function, 'name', type(function).__name__)}")
        self.stack[-1] = self._charged(function.call(*arguments))

    def load_newobj(self) -> None:
        self.stack.pop()
        if self.stack[-1] is not _WRAPPER:
            refuse(f"makes a {getattr(self.stack[-1], 'name', 'strange object')}")
        self.stack[-1] = PickledArray()

    def load_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _DType):
            target.set_state(state)
        elif not isinstance(target, PickledArray):
            raise damaged("state for no array")
        elif type(state) is tuple and len(state) in (4, 5):
            shape, dtype, fortran, data = state[-4:]
            target.value = _array(data, dtype, shape, bool(fortran))
        elif type(state) is dict and state.get("subclass") is _NDARRAY:
            # joblib writes an array's bytes into the stream after its description.
            dtype, shape = state.get("dtype"), state.get("shape")
            size = _bytes_needed(dtype, shape)
            if state.get("numpy_array_alignment_bytes") is not None:
                self.read(self.read(1)[0])
            data = self.read(size)
            target.value = _array(data, dtype, shape, state.get("order") == "F")
        else:
            raise damaged("odd array state")
        self._charged(target)

    def load_bytearray8(self) -> None:
        # The parent allocates whatever length is claimed.
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _set_item(self.stack[-1], key, value)

    def load_setitems(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            _set_item(self.stack[-1], key, value)

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append(_ordered_dict(zip(items[::2], items[1::2], strict=True)))


for _name in ("FRAME REDUCE NEWOBJ BUILD BYTEARRAY8 SETITEM SETITEMS DICT").split():
    _Unpickler.dispatch[getattr(pickle, _name)[0]] = getattr(
        _Unpickler, f"load_{_name.lower()}"
    )
for _name in (
    "PERSID BINPERSID EXT1 EXT2 EXT4 OBJ NEWOBJ_EX EMPTY_SET ADDITEMS FROZENSET "
    "NEXT_BUFFER READONLY_BUFFER"
).split():
    _Unpickler.dispatch[getattr(pickle, _name)[0]] = lambda _, name=_name: refuse(
        f"uses the opcode {name}"
    )


def load(stream: Stream) -> object:
    """The value that a pickle describes, or a ClipError."""
    try:
        return _Unpickler(stream).load()
    except (ClipError, MemoryError, OSError):
        raise
    except KeyError as error:
        raise ClipError("unreadable", f"not a pickle: opcode {error}") from None
    except Exception as error:
        what = f"{type(error).__name__} {printable(error)}"
        raise damaged(what) from None

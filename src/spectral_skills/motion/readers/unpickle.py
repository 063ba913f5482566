"""Values in pickles, read without running anything they ask for.

A pickle is a program. It runs here under three rules: a name stands only for one of
the functions below, which run no code of NumPy or joblib; opcodes that no motion
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.readers.assemble import LIMIT_BYTES, printable

MAX_READS = 40_000_000
"""About half a minute. A clip takes 500, so 2 GiB of motions need fewer."""
SHARED_BYTES = 64 << 20
"""How much may be made by using the same bytes twice, beyond the size of the file."""
_BLOCK = 1 << 20
_LZMA_MEMORY = 256 << 20  # an lzma header may ask for a 4 GiB dictionary
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b")
_DECODERS: dict[bytes, Callable[[], Any]] = {
    # 32 + 15: zlib and gzip headers are both understood.
    **dict.fromkeys(_ZLIB, lambda: zlib.decompressobj(wbits=47)),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY),
    b"\x5d\x00\x00": lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY),
}


def is_compressed(head: bytes) -> bool:
    """Whether the first bytes are those of a compressed joblib file."""
    return head.startswith(tuple(_DECODERS))


class Stream:
    """The bytes of a file, decompressed if need be.

    Memory grows with the bytes that are there, never with a length the file claims.
    """

    def __init__(self, file: BinaryIO):
        self.total = 0  # number of bytes delivered so far, after decompression
        self._reads = 0
        self._blocks = _blocks(file)
        self._block = io.BytesIO()

    def read(self, size: int) -> bytes:
        self._reads += 1
        if self._reads > MAX_READS:
            raise ClipError("too large", f"the pickle takes over {MAX_READS:,} steps")
        parts = [self._block.read(size)]
        missing = size - len(parts[0])
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


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    head = file.read(8)
    file.seek(0)
    decoder = next((d() for h, d in _DECODERS.items() if head.startswith(h)), None)
    try:
        while decoder is None or not decoder.eof:
            # zlib hands back the input that it had no room for, the others keep it.
            hungry = getattr(decoder, "needs_input", True)
            data = getattr(decoder, "unconsumed_tail", b"")
            data = data or (file.read(_BLOCK) if hungry else b"")
            block = decoder.decompress(data, _BLOCK) if decoder else data
            if hungry and not (data or block):
                return
            yield block
    except (OSError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise ClipError("unreadable", f"does not decompress: {error}") from None


def _refuse(what: str) -> NoReturn:
    raise ClipError("code in pickle", f"{printable(what, 120)}; nothing was run")


def _require(good: object, what: str) -> None:
    if not good:
        raise ClipError("unreadable", f"damaged pickle: {what}")


@dataclass
class StandIn:
    """An array or a dtype while its pickle is read: their state follows later."""

    value: Any = None  # stays none for arrays of text, which no reader needs

    def set_array(self, data: object, dtype: Any, shape: Any, fortran: bool) -> None:
        """Make a view of the bytes."""
        data = data.encode("latin1") if isinstance(data, str) else data
        if not isinstance(data, bytes | bytearray):
            _refuse("holds an array of Python objects")
        if _bytes_needed(dtype, shape) != len(data):
            reason = f"an array of shape {shape} has {len(data)} bytes"
            raise ClipError("truncated", reason)
        if dtype.value.kind not in "US":
            flat = np.frombuffer(data, dtype.value)
            self.value = flat.reshape(shape, order="F" if fortran else "C")

    def set_dtype(self, state: Any) -> None:
        # (version, byte order, subarray, names, fields, ...)
        known = type(state) is tuple and state[1] in ("<", ">", "|", "=")
        _require(known, "odd dtype")
        if any(part is not None for part in state[2:5]):
            raise ClipError("unreadable", "arrays of records are not supported")
        self.value = np.dtype(state[1].replace("|", "<") + self.value.str[1:])


def _bytes_needed(dtype: object, shape: Any) -> int:
    dtype = dtype.value if isinstance(dtype, StandIn) else None
    _require(isinstance(dtype, np.dtype), "array without a dtype")
    # Bounded one by one: products of forged giant integers take for ever.
    _require(
        type(shape) is tuple
        and len(shape) <= 8
        and all(type(n) is int and 0 <= n < 2**40 for n in shape),
        "odd array shape",
    )
    return math.prod(shape) * dtype.itemsize  # type: ignore[union-attr]


def _dtype(code: Any, *_: object) -> StandIn:
    code = code.decode("ascii") if isinstance(code, bytes) else code
    _require(isinstance(code, str), "odd dtype")
    if code.startswith("O"):
        _refuse("holds an array of Python objects")
    if not re.fullmatch(r"f[248]|[iu][1248]|b1|[US]\d{1,6}", code):
        raise ClipError("unreadable", f"arrays of type {printable(code, 20)!r}")
    return StandIn(np.dtype(code))


def _from_buffer(data: object, dtype: object, shape: object, order: object, *_: object):
    array = StandIn()
    array.set_array(data, dtype, shape, order == "F")
    return array


def _scalar(dtype: object, data: object = b"") -> object:
    value = _from_buffer(data, dtype, (), "C").value
    return None if value is None else value[()]


def _bytes(value: Any = b"", codec: object = "latin1") -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    _require(type(value) is str and codec in ("latin1", "latin-1"), "odd bytes")
    return value.encode("latin1")


class _Items(dict):
    """A dictionary with no key whose hash costs much or collides."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()):
        for key, value in pairs:
            self[key] = value

    def __setitem__(self, key: object, value: object) -> None:
        cheap = key is None or isinstance(key, str | bytes | float)
        cheap = cheap or (type(key) is int and abs(key) < 2**60)
        _require(cheap, f"a {type(key).__name__} as dictionary key")
        super().__setitem__(key, value)


@dataclass(frozen=True)
class _Global:
    """What a pickle gets for a name; no tuple, or it could be taken apart."""

    name: str
    call: Callable[..., Any] | None = None


_NDARRAY = _Global("numpy.ndarray")
_WRAPPER = _Global("joblib.numpy_pickle.NumpyArrayWrapper")
_KNOWN = (
    _NDARRAY,
    _WRAPPER,
    _Global("numpy.dtype", _dtype),
    _Global("numpy.core.multiarray._reconstruct", lambda *_: StandIn()),
    _Global("numpy.core.multiarray.scalar", _scalar),
    _Global("numpy.core.numeric._frombuffer", _from_buffer),
    _Global("builtins.bytes", _bytes),
    _Global("builtins.bytearray", lambda *values: bytearray(_bytes(*values))),
    _Global("_codecs.encode", _bytes),
    _Global("collections.OrderedDict", _Items),
)
_GLOBALS = {known.name: known for known in _KNOWN}
_REFUSED = (
    "PERSID BINPERSID EXT1 EXT2 EXT4 OBJ NEWOBJ_EX EMPTY_SET ADDITEMS FROZENSET "
    "NEXT_BUFFER READONLY_BUFFER"
).split()
_private: Any = pickle  # the type stubs do not have the pure Python unpickler


class _Unpickler(_private._Unpickler):
    def __init__(self, stream: Stream):
        super().__init__(stream, encoding="latin1")
        self._stream, self._made = stream, 0

    def find_class(self, module: str, name: str) -> _Global:
        # NumPy renamed core to _core, Python 3 __builtin__ to builtins, and joblib
        # once lived inside scikit-learn.
        full = f"{module}.{name}".removeprefix("sklearn.externals.")
        usual = full.replace("numpy._core.", "numpy.core.", 1)
        usual = usual.replace("__builtin__.", "builtins.", 1)
        if usual not in _GLOBALS:
            _refuse(f"refers to {printable(full)}")
        return _GLOBALS[usual]

    def _charged(self, made: Any) -> Any:
        """What a call made, unless calls make more than the file could hold."""
        held = made.value if isinstance(made, StandIn) else made
        if isinstance(held, np.ndarray):
            self._made += held.nbytes
        elif isinstance(held, bytes | bytearray | dict):
            self._made += len(held) * (100 if isinstance(held, dict) else 1)
        if self._made > self._stream.total + SHARED_BYTES:
            raise ClipError("too large", "the pickle makes more data than it holds")
        return made

    def load_frame(self) -> None:
        self.read(8)  # what a frame holds follows it anyway, and each step is counted

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        if not isinstance(function, _Global) or function.call is None:
            _refuse(f"calls {getattr(function, 'name', type(function).__name__)}")
        self.stack[-1] = self._charged(function.call(*arguments))

    def load_newobj(self) -> None:
        self.stack.pop()
        if self.stack[-1] is not _WRAPPER:
            _refuse(f"makes a {getattr(self.stack[-1], 'name', 'strange object')}")
        self.stack[-1] = StandIn()

    def load_build(self) -> None:
        state: Any = self.stack.pop()
        target = self.stack[-1]
        _require(isinstance(target, StandIn), "state for no array")
        if isinstance(target.value, np.dtype):
            target.set_dtype(state)
        elif isinstance(state, dict):
            # joblib writes an array's bytes into the stream after its description.
            _require(state.get("subclass") is _NDARRAY, "odd array state")
            dtype, shape = state.get("dtype"), state.get("shape")
            size = _bytes_needed(dtype, shape)
            if state.get("numpy_array_alignment_bytes") is not None:
                self.read(self.read(1)[0])
            data = self.read(size)
            target.set_array(data, dtype, shape, state.get("order") == "F")
        else:
            good = type(state) is tuple and len(state) in (4, 5)
            _require(good, "odd array state")
            shape, dtype, fortran, data = state[-4:]
            target.set_array(data, dtype, shape, bool(fortran))
        self._charged(target)

    def load_bytearray8(self) -> None:
        # The parent allocates whatever length is claimed.
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def load_empty_dictionary(self) -> None:
        self.append(_Items())

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append(_Items(zip(items[::2], items[1::2], strict=True)))

    dispatch = dict(_private._Unpickler.dispatch)
    dispatch[pickle.FRAME[0]], dispatch[pickle.REDUCE[0]] = load_frame, load_reduce
    dispatch[pickle.NEWOBJ[0]], dispatch[pickle.BUILD[0]] = load_newobj, load_build
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    dispatch[pickle.EMPTY_DICT[0]] = load_empty_dictionary
    dispatch[pickle.DICT[0]] = load_dict
    for _name in _REFUSED:
        dispatch[getattr(pickle, _name)[0]] = lambda _, name=_name: _refuse(
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
        what = f"damaged pickle: {type(error).__name__} {printable(error)}"
        raise ClipError("unreadable", what) from None

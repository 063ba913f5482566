"""What a pickle may name: stand-ins for NumPy's and joblib's own functions.

None of them is, or calls, code of the module it stands for. An array is a view
of bytes that are there; a shape or type that asks for more is refused.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.readers.assemble import plain
from spectral_skills.motion.readers.stream import Stream

MAX_AXES = 8
SHARED_BYTES = 64 << 20
"""How much may be made by using the same bytes twice, beyond the size of the file."""


def refuse(what: str) -> NoReturn:
    """The pickle wants to run something."""
    raise ClipError("code in pickle", f"{plain(what, 120)}; nothing was run")


def damaged(what: str) -> ClipError:
    return ClipError("unreadable", f"damaged pickle: {what}")


@dataclass(frozen=True)
class Global:
    """What a pickle gets for a name."""

    name: str
    call: Callable[..., Any] | None = None


@dataclass
class Pending:
    """An array between its creation and its BUILD, and the memo keys it has."""

    joblib: bool
    keys: list[int] = field(default_factory=list)


@dataclass
class DType:
    """A NumPy dtype, described but not made: its state is not to be trusted."""

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


_DTYPE_CODE = re.compile(r"(f)([248])|([iu])([1248])|(b)(1)|([US])(\d{1,6})")


def _dtype(code: object, *_: object) -> DType:
    if isinstance(code, bytes):
        code = code.decode("ascii")
    if not isinstance(code, str):
        raise damaged("odd dtype")
    if code.startswith("O"):
        refuse("holds an array of Python objects")
    match = _DTYPE_CODE.fullmatch(code)
    if match is None:
        raise ClipError("unreadable", f"arrays of type {plain(code, 20)!r}")
    kind, size = (group for group in match.groups() if group is not None)
    return DType(kind, int(size) * (4 if kind == "U" else 1))


def _bytes_needed(dtype: object, shape: object) -> int:
    if not isinstance(dtype, DType):
        raise damaged("array without a dtype")
    if type(shape) is not tuple or len(shape) > MAX_AXES:
        raise damaged("odd array shape")
    # Bounded one by one: products of forged giant integers take for ever.
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise damaged("odd array shape")
    return math.prod(shape) * dtype.itemsize


def _array(data: object, dtype: Any, shape: Any, fortran: bool) -> np.ndarray | None:
    """A view of the bytes. Text arrays become None: no reader needs them."""
    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(data, bytes | bytearray):
        refuse("holds an array of Python objects")
    if _bytes_needed(dtype, shape) != len(data):
        raise ClipError("truncated", f"an array of shape {shape} has {len(data)} bytes")
    if dtype.kind in "US":
        return None
    name = "?" if dtype.kind == "b" else f"{dtype.order}{dtype.kind}{dtype.itemsize}"
    flat = np.frombuffer(data, np.dtype(name))
    return flat.reshape(shape, order="F" if fortran else "C")


def from_state(state: object) -> np.ndarray | None:
    """The array of NumPy's own state: version, shape, dtype, order, bytes."""
    if type(state) is not tuple or len(state) not in (4, 5):
        raise damaged("odd array state")
    shape, dtype, fortran, data = state[-4:]
    return _array(data, dtype, shape, bool(fortran))


def from_stream(state: object, stream: Stream) -> np.ndarray | None:
    """joblib writes an array's bytes into the stream after its description."""
    if type(state) is not dict or state.get("subclass") is not NDARRAY:
        raise damaged("odd joblib array")
    dtype, shape = state.get("dtype"), state.get("shape")
    size = _bytes_needed(dtype, shape)
    if state.get("numpy_array_alignment_bytes") is not None:
        stream.read(stream.read(1)[0])
    return _array(stream.read(size), dtype, shape, state.get("order") == "F")


def size_of(value: object) -> int:
    """Bytes of something a call made, roughly."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, bytes | bytearray):
        return len(value)
    return 100 * len(value) if isinstance(value, dict) else 0


def _reconstruct(*_: object) -> Pending:
    return Pending(joblib=False)


def _frombuffer(
    data: object, dtype: object, shape: object, order: object, *_: object
) -> np.ndarray | None:
    return _array(data, dtype, shape, fortran=order == "F")


def _scalar(dtype: object, data: object = b"") -> object:
    array = _array(data, dtype, (), fortran=False)
    return None if array is None else array[()]


def _encode(text: object, codec: object = "latin1") -> bytes:
    if type(text) is not str or codec not in ("latin1", "latin-1"):
        raise damaged("odd bytes")
    return text.encode("latin1")


def _bytes(*values: object) -> bytes:
    if not values:
        return b""
    if len(values) == 1 and isinstance(values[0], bytes | bytearray):
        return bytes(values[0])
    return _encode(*values)


def _bytearray(*values: object) -> bytearray:
    return bytearray(_bytes(*values))


def _ordered_dict(*values: object) -> dict:
    result: dict = {}
    for pairs in values:
        if type(pairs) is not list:
            raise damaged("odd dictionary")
        for key, value in pairs:
            set_item(result, key, value)
    return result


def set_item(target: object, key: object, value: object) -> None:
    """Put into a dictionary, under nothing whose hash costs or collides."""
    if type(target) is not dict:
        raise damaged("items set on no dictionary")
    cheap = key is None or isinstance(key, str | bytes | float)
    if not cheap and not (type(key) is int and abs(key) < 2**60):
        raise damaged(f"a {type(key).__name__} as dictionary key")
    target[key] = value


NDARRAY = Global("numpy.ndarray")
WRAPPER = Global("joblib.numpy_pickle.NumpyArrayWrapper")
_CORE = {
    "multiarray._reconstruct": _reconstruct,
    "multiarray.scalar": _scalar,
    "numeric._frombuffer": _frombuffer,
}
_BUILTINS = {"bytes": _bytes, "bytearray": _bytearray}
GLOBALS: dict[str, Global] = {
    known.name: known
    for known in (
        NDARRAY,
        WRAPPER,
        Global("numpy.dtype", _dtype),
        # NumPy renamed core to _core, Python 3 __builtin__ to builtins.
        *(
            Global(f"numpy.{c}.{n}", f)
            for c in ("core", "_core")
            for n, f in _CORE.items()
        ),
        *(
            Global(f"{module}.{name}", call)
            for module in ("builtins", "__builtin__")
            for name, call in _BUILTINS.items()
        ),
        Global("_codecs.encode", _encode),
        Global("collections.OrderedDict", _ordered_dict),
    )
}

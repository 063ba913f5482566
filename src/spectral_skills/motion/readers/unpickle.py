"""Read pickles without running anything they say.

Motion libraries come as pickles, and a pickle is a program. This one may build
numbers, text, plain containers and NumPy arrays, nothing else: the globals it
may name are those of `pickled_arrays`. Based on the standard library's pure
Python unpickler, whose memo is a dictionary, so that a forged index cannot claim
memory; opcodes that a motion does not need are not in the table.
"""

import pickle
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.readers import pickled_arrays as arrays
from spectral_skills.motion.readers.assemble import plain
from spectral_skills.motion.readers.pickled_arrays import damaged, refuse
from spectral_skills.motion.readers.stream import Stream

MAX_OPCODES = 20_000_000
"""Some twenty seconds; a clip takes about 300, so 2 GiB of motion needs fewer."""


_DAMAGE = (pickle.UnpicklingError, LookupError, TypeError, ValueError, ArithmeticError)


def load(stream: Stream) -> object:
    """The value a pickle describes, or a ClipError."""
    try:
        return _Unpickler(stream).load()
    except ClipError:
        raise
    except _DAMAGE as error:
        raise damaged(f"{type(error).__name__} {plain(error)}") from None


# Not in the type stubs: the pure Python unpickler and its parts.
_private: Any = pickle


class _Unpickler(_private._Unpickler):
    def __init__(self, stream: Stream):
        super().__init__(stream, encoding="latin1")
        self.stream = stream
        self.made = 0
        """Bytes made by calls, which a pickle may repeat at will."""

    def load(self) -> object:
        # The parent's loop, with a table of our own and an end.
        stream = self.stream
        self._unframer = _private._Unframer(stream.read, stream.readline)
        self.read = self._unframer.read
        self.readline = self._unframer.readline
        self.metastack: list = []
        self.stack: list = []
        self.append = self.stack.append
        self.proto = 0
        try:
            for _ in range(MAX_OPCODES):
                opcode = self.read(1)
                handler = _HANDLERS.get(opcode)
                if handler is None:
                    self._refuse_opcode(opcode)
                handler(self)
        except _private._Stop as stop:
            return stop.value
        raise ClipError("too large", f"the pickle has more than {MAX_OPCODES:,} steps")

    def find_class(self, module: str, name: str) -> arrays.Global:
        # joblib once lived inside scikit-learn.
        module = module.removeprefix("sklearn.externals.")
        known = arrays.GLOBALS.get(f"{module}.{name}")
        if known is None:
            refuse(f"refers to {plain(module)}.{plain(name)}")
        return known

    def _refuse_opcode(self, opcode: bytes) -> NoReturn:
        if opcode == pickle.INST:
            module, name = self.readline()[:-1], self.readline()[:-1]
            refuse(f"refers to {module.decode('latin1')}.{name.decode('latin1')}")
        if opcode in _FORBIDDEN:
            refuse(f"uses the opcode {_FORBIDDEN[opcode]}")
        raise ClipError("unreadable", f"not a pickle: opcode {opcode!r}")

    def do_reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack[-1]
        if type(arguments) is not tuple:
            raise damaged("a call without arguments")
        if not isinstance(function, arrays.Global) or function.call is None:
            refuse(f"calls {getattr(function, 'name', type(function).__name__)}")
        self.stack[-1] = self._counted(function.call(*arguments))

    def _counted(self, value: object) -> object:
        """The value, unless all that was made is more than the file could hold."""
        self.made += arrays.size_of(value)
        if self.made > self.stream.total + arrays.SHARED_BYTES:
            raise ClipError("too large", "the pickle makes more data than it holds")
        return value

    def do_newobj(self) -> None:
        self.stack.pop()
        if self.stack[-1] is not arrays.WRAPPER:
            refuse(f"makes a {getattr(self.stack[-1], 'name', 'strange object')}")
        self.stack[-1] = arrays.Pending(joblib=True)

    def do_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, arrays.DType):
            target.set_state(state)
            return
        if not isinstance(target, arrays.Pending):
            raise damaged("state for no array")
        array = (
            arrays.from_stream(state, self.stream)
            if target.joblib
            else arrays.from_state(state)
        )
        self.stack[-1] = self._counted(array)
        for key in target.keys:
            if self.memo.get(key) is target:
                self.memo[key] = array

    def do_bytearray8(self) -> None:
        # The parent allocates the length it is told.
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def do_append(self) -> None:
        value = self.stack.pop()
        _list(self.stack[-1]).append(value)

    def do_appends(self) -> None:
        values = self.pop_mark()
        _list(self.stack[-1]).extend(values)

    def do_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        arrays.set_item(self.stack[-1], key, value)

    def do_setitems(self) -> None:
        items = self.pop_mark()
        _set_pairs(self.stack[-1], items)

    def do_dict(self) -> None:
        result: dict = {}
        _set_pairs(result, self.pop_mark())
        self.append(result)

    def _remember(self, key: int) -> None:
        value = self.memo[key] = self.stack[-1]
        if isinstance(value, arrays.Pending):
            value.keys.append(key)

    def do_put(self) -> None:
        self._remember(int(self.readline()[:-1]))

    def do_binput(self) -> None:
        self._remember(self.read(1)[0])

    def do_long_binput(self) -> None:
        self._remember(int.from_bytes(self.read(4), "little"))

    def do_memoize(self) -> None:
        self._remember(len(self.memo))


def _list(value: object) -> list:
    if type(value) is not list:
        raise damaged("items appended to no list")
    return value


def _set_pairs(target: object, items: list) -> None:
    for key, value in zip(items[::2], items[1::2], strict=True):
        arrays.set_item(target, key, value)


def _inherited(names: Iterable[str]) -> dict[bytes, Callable]:
    opcodes = (getattr(pickle, name) for name in names)
    return {code: _Unpickler.dispatch[code[0]] for code in opcodes}


_HANDLERS: dict[bytes, Callable[[_Unpickler], None]] = {
    **_inherited(
        (
            *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP"),
            *("NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2"),
            *("LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING"),
            *("SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
            *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
            *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
            *("EMPTY_LIST", "LIST", "EMPTY_DICT", "GET", "BINGET", "LONG_BINGET"),
            *("GLOBAL", "STACK_GLOBAL"),
        )
    ),
    pickle.REDUCE: _Unpickler.do_reduce,
    pickle.NEWOBJ: _Unpickler.do_newobj,
    pickle.BUILD: _Unpickler.do_build,
    pickle.BYTEARRAY8: _Unpickler.do_bytearray8,
    pickle.APPEND: _Unpickler.do_append,
    pickle.APPENDS: _Unpickler.do_appends,
    pickle.SETITEM: _Unpickler.do_setitem,
    pickle.SETITEMS: _Unpickler.do_setitems,
    pickle.DICT: _Unpickler.do_dict,
    pickle.PUT: _Unpickler.do_put,
    pickle.BINPUT: _Unpickler.do_binput,
    pickle.LONG_BINPUT: _Unpickler.do_long_binput,
    pickle.MEMOIZE: _Unpickler.do_memoize,
}
_FORBIDDEN = {
    getattr(pickle, name): name
    for name in (
        *("PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "OBJ", "NEWOBJ_EX"),
        *("EMPTY_SET", "ADDITEMS", "FROZENSET", "NEXT_BUFFER", "READONLY_BUFFER"),
    )
}

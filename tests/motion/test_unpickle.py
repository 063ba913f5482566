"""A pickle is a program; none of these gets to run."""

import io
import os
import pickle
import struct
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import samples

from spectral_skills.motion import ingest
from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.ingest import ReadOptions
from spectral_skills.motion.readers import archives, unpickle
from spectral_skills.motion.readers.unpickle import StandIn, Stream

TRUTH = samples.motion(4)


class Evil:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def refused(tmp_path: Path, data: bytes, kind: str = "code in pickle") -> ClipError:
    path = tmp_path / "evil.pkl"
    path.write_bytes(data)
    start = time.process_time()
    found = ingest.read(path, ReadOptions())
    assert time.process_time() - start < 2.0
    assert len(found) == 1 and isinstance(found[0], ClipError), found
    assert found[0].kind == kind, f"{found[0].kind}: {found[0]}"
    return found[0]


def load(data: bytes, tmp_path: Path) -> object:
    path = tmp_path / "good.pkl"
    path.write_bytes(data)
    with path.open("rb") as file:
        return unpickle.load(Stream(file))


@pytest.mark.parametrize("protocol", range(6))
def test_calls_are_refused_by_name(protocol: int, tmp_path: Path):
    marker = tmp_path / "it_ran"
    for function in (os.system, eval, exec, os.remove, open, getattr, __import__):
        data = pickle.dumps(Evil(function, f"touch {marker}"), protocol=protocol)
        error = refused(tmp_path, data)
        name = function.__name__
        assert f".{name}; nothing was run" in error.reason
    data = pickle.dumps(Evil(os.system, f"touch {marker}"), protocol=protocol)
    assert "posix.system" in refused(tmp_path, data).reason
    assert not marker.exists()


def test_new_objects_are_refused_by_name(tmp_path: Path):
    marker = tmp_path / "it_ran"
    arguments = pickle.dumps((["touch", str(marker)],), protocol=2)[2:-1]
    for protocol in range(2, 6):
        head = b"\x80%c" % protocol
        by_line = head + b"csubprocess\nPopen\n" + arguments + pickle.NEWOBJ + b"."
        assert "subprocess.Popen" in refused(tmp_path, by_line).reason
    names = short("subprocess") + short("Popen") + pickle.STACK_GLOBAL
    for rest in (pickle.NEWOBJ, b"}" + pickle.NEWOBJ_EX):
        by_stack = b"\x80\x04" + names + arguments + rest + b"."
        assert "subprocess.Popen" in refused(tmp_path, by_stack).reason
    assert not marker.exists()


def test_hidden_calls_are_found(tmp_path: Path):
    """Inside a good library, after the arrays; nothing of the file is used."""
    marker = tmp_path / "it_ran"
    entry = samples.library_dict(TRUTH) | {"x": Evil(os.system, f"touch {marker}")}
    refused(tmp_path, samples.joblib({"wave": entry}))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"(S'true'\nios\nsystem\n.", "os.system"),
        (b"\x80\x02(cos\nsystem\nS'true'\no.", "os.system"),
        (b"\x80\x04" + short("os") + short("system") + b"\x93.", "os.system"),
        (b"\x80\x04" + short("builtins") + short("eval") + b"\x93.", "builtins.eval"),
        # Names with dots walk attributes in the real unpickler.
        (b"\x80\x04" + short("numpy") + short("f2py.os.system") + b"\x93.", "f2py.os"),
        (b"\x80\x02cnumpy\nload\n.", "numpy.load"),
        (b"\x80\x02cnumpy._core.multiarray\nfromfile\n.", "multiarray.fromfile"),
        (b"\x80\x02cjoblib.numpy_pickle\nload\n.", "joblib.numpy_pickle.load"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.", "torch._utils"),
        (b"\x80\x02Pname\n.", "PERSID"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x04\x8f.", "EMPTY_SET"),
        # numpy.ndarray((10**12,)): eight terabytes.
        (b"\x80\x02cnumpy\nndarray\n\x8a\x06\x00\x10\xa5\xd4\xe8\x00\x85R.", "ndarray"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "numpy.ndarray"),
    ],
)
def test_opcodes_by_hand(data: bytes, name: str, tmp_path: Path):
    assert name in refused(tmp_path, data).reason


def test_arrays_of_objects(tmp_path: Path):
    for protocol in range(6):
        array = np.array([None, {}], dtype=object)
        data = pickle.dumps({"fps": 30, "dof": array}, protocol=protocol)
        assert "Python objects" in refused(tmp_path, data).reason
    refused(tmp_path, samples.joblib({"dof": np.array([None], dtype=object)}))


def test_shape_beyond_the_bytes(tmp_path: Path):
    data = pickle.dumps({"a": np.zeros((300, 7), np.float64)}, protocol=4)
    shape = b"M,\x01K\x07\x86"
    assert shape in data
    for forged in (b"M\xff\xffK\x07\x86", b"M,\x01K\x06\x86"):
        refused(tmp_path, data.replace(shape, forged), "truncated")
    giant = b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"
    refused(tmp_path, unframed(data).replace(shape, giant), "truncated")


def unframed(data: bytes) -> bytes:
    """Without FRAME, whose length a longer forgery would contradict."""
    return data[:2] + data[11:]


def test_joblib_shape_beyond_the_file(tmp_path: Path):
    data = samples.joblib({"a": np.zeros((300, 7))})
    forged = data.replace(b"M,\x01K\x07", b"M\xff\xffK\xff")
    assert forged != data
    refused(tmp_path, forged, "truncated")


def test_forged_lengths_claim_no_memory(tmp_path: Path):
    for opcode in (pickle.BINBYTES8, pickle.BINUNICODE8, pickle.BYTEARRAY8):
        data = b"\x80\x05" + opcode + struct.pack("<Q", 10**12) + b"abc."
        refused(tmp_path, data, "truncated")
    # A frame is only a hint: its length is passed over.
    frame = b"\x80\x04\x95" + struct.pack("<Q", 10**15) + b"N."
    refused(tmp_path, frame, "unknown format")


def test_forged_memo_index(tmp_path: Path):
    put = b"\x80\x02]r" + struct.pack("<I", 2**32 - 1)
    refused(tmp_path, put + b".", "unknown format")
    refused(tmp_path, b"\x80\x02j" + struct.pack("<I", 2**32 - 1) + b".", "unreadable")


def test_nested_bombs(tmp_path: Path):
    """Lists of the list before, twice: short to write, endless to look through."""
    doubled = b"\x80\x02]q\x00" + b"".join(
        b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(100)
    )
    refused(tmp_path, doubled + b".", "unknown format")
    refused(tmp_path, doubled + b"\x85cnumpy\ndtype\nh\x64\x85R.", "unreadable")
    deep = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    refused(tmp_path, deep, "unknown format")
    tuples = b"\x80\x02)" + b"\x85" * 200_000 + b"}" + b"2N" + b"s."
    refused(tmp_path, tuples, "unreadable")
    key = b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."
    assert "tuple" in refused(tmp_path, key, "unreadable").reason


def test_endless_pickle(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(unpickle, "MAX_READS", 10_000)
    refused(tmp_path, b"\x80\x02" + b"N0" * 20_000 + b"N.", "too large")


def test_one_array_under_many_names(tmp_path: Path):
    entry = samples.library_dict(samples.motion(2000))
    names = {f"clip{i}": entry for i in range(1000)}
    path = tmp_path / "shared.pkl"
    path.write_bytes(pickle.dumps(names))
    found = ingest.read(path, ReadOptions())
    last = found[-1]
    assert isinstance(last, ClipError) and last.kind == "too large"
    assert len(found) < 200


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_survive(protocol: int, tmp_path: Path):
    value = {
        "none": None,
        "flags": [True, False],
        "numbers": (1, -2, 2**40, -(2**70), 1.5, float("inf")),
        "texts": ["", "naïve", "x" * 300, "line\nbreak"],
        "bytes": [b"", b"\x00\xff" * 200, bytearray(b"abc")],
        "ordered": OrderedDict(a=1, b=2),
        3: "int key",
    }
    expected = value | {"ordered": {"a": 1, "b": 2}}
    assert load(pickle.dumps(value, protocol=protocol), tmp_path) == expected


ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(6, dtype=">i4"),
    np.array([True, False]),
    np.array(2.5),
    np.zeros((0, 29)),
    np.arange(5, dtype=np.uint8),
    np.arange(4, dtype=np.float16),
]


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_survive(protocol: int, tmp_path: Path):
    shared = ARRAYS[0]
    value = {"arrays": [*ARRAYS, shared], "scalar": np.float32(1.5), "int": np.int64(7)}
    files = [pickle.dumps(value, protocol=protocol)]
    if protocol >= 2:  # joblib's least
        files += [samples.joblib(value, protocol, align) for align in (16, None)]
    for data in files:
        read = load(data, tmp_path)
        assert isinstance(read, dict)
        assert (read["scalar"], read["int"]) == (1.5, 7)
        arrays = [stand_in.value for stand_in in read["arrays"]]
        for got, expected in zip(arrays, value["arrays"], strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


def test_a_name_cannot_be_taken_apart(tmp_path: Path):
    """What stands for a name is no pair of the name and a function."""
    dtype = b"]cnumpy\ndtype\na"
    refused(
        tmp_path,
        b"\x80\x02ccollections\nOrderedDict\n" + dtype + b"\x85R.",
        "unreadable",
    )


def test_text_arrays_are_passed_over(tmp_path: Path):
    value = {"names": np.array(["pelvis", "torso"]), "name": np.str_("x"), "n": 1}
    for data in (pickle.dumps(value), samples.joblib(value)):
        assert load(data, tmp_path) == {"names": StandIn(), "name": None, "n": 1}


def test_a_nest_of_lists_is_not_written_out():
    """Forty levels of [l, l] are a trillion words: they are no text."""
    nest: list = ["x"]
    for _ in range(40):
        nest = [nest, nest]
    assert archives.texts({"text": nest}, "text") == []
    assert archives.texts({"text": ["a", nest, "b"]}, "text") == ["a", "b"]


def test_repeated_calls_cannot_fill_the_memory():
    """One string, turned into bytes a hundred thousand times, is refused early."""
    text = "x" * 1_000_000
    start = pickle.dumps(text, protocol=2)[:-1]  # without its STOP, memo 0
    encode = b"c_codecs\nencode\nq\x01" + b"X\x06\x00\x00\x00latin1q\x020"
    again = b"h\x01h\x00h\x02\x86R0"
    data = start + encode + again * 100_000 + b"."
    with pytest.raises(ClipError) as refused:
        unpickle.load(Stream(io.BytesIO(data)))
    assert refused.value.kind == "too large"


def test_an_array_alone_is_called_an_array(tmp_path: Path):
    error = refused(tmp_path, pickle.dumps(np.zeros(3)), "unknown format")
    assert "a pickled array, not a dict" in error.reason

"""Ten thousand damaged files: each gives clips or reasons, soon, and runs nothing.

The files are read in a process of their own, because an audit hook and a memory
limit cannot be taken back.
"""

import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import bvh_samples
import numpy as np
import samples

from spectral_skills.motion import ingest
from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.human import bvh, skeletons
from spectral_skills.motion.ingest import ReadOptions

FILES = 10_000
SECONDS_PER_FILE = 2.0
SPARE_MEMORY = 1 << 30
KINDS = {
    *("empty", "too large", "unreadable", "unknown format", "columns", "truncated"),
    *("not finite", "quaternion", "frame rate", "joints", "under floor", "jump"),
    *("units", "code in pickle", "skeleton"),
}
# What a pickle or a header that got its way would do.
WATCHED = (
    *("exec", "compile", "import", "marshal.", "pickle.", "code.__new__", "object.__"),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename"),
    *("os.mkdir", "os.chmod", "os.putenv", "os.link", "os.symlink", "os.truncate"),
    *("subprocess.", "socket.", "ctypes.", "shutil.", "tempfile.", "webbrowser."),
)


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.choice((1, 4, 100)))


def remove(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 4, 100))]


def swap(data: bytearray, rng: random.Random) -> None:
    size = rng.randrange(1, 2 + len(data) // 4)
    a, b = (rng.randrange(len(data) - size + 1) for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def edit_start(data: bytearray, rng: random.Random) -> None:
    """Formats keep what they say about themselves in their first bytes."""
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(min(len(data), 300))] = rng.randrange(256)


def edit_numbers(data: bytearray, rng: random.Random) -> None:
    """Replace runs of digits by awkward numbers."""
    awkward = (b"nan", b"inf", b"-1e999", b"1e300", b"0", b"", b"99999999999", b"0x1p3")
    digits = [i for i, c in enumerate(data) if 48 <= c < 58]
    for _ in range(rng.choice((1, 3, 10)) if digits else 0):
        at = min(rng.choice(digits), len(data))
        end = at
        while end < len(data) and 48 <= data[end] < 58:
            end += 1
        data[at:end] = rng.choice(awkward)


def splice(data: bytearray, rng: random.Random) -> None:
    """Put a piece in that means something to a pickle, an archive or a BVH file."""
    pieces = (
        *(b"cos\nsystem\n", b"(S'true'\ntR", b"\x8c\x02os\x8c\x06system\x93", b"\x93"),
        *(
            b"R",
            b"b",
            b"\x81",
            b"0",
            b"2",
            b"h\x00",
            b"j\xff\xff\xff\xff",
            b"\x94",
            b".",
        ),
        *(b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f", b"M\xff\xff", b"O8", b"PK\x05\x06"),
        *(b"{", b"}", b"\nROOT a\n", b"\nJOINT a\n{", b"\nEnd Site\n", b"\nMOTION\n"),
        *(b"CHANNELS 9999 Xrotation ", b"OFFSET 0 0 0", b"Frames: 99", b"Xposition"),
        *(b"|O", b"(1000000000, 36)", b"\x95" + bytes(8), b"\x8a\xff" + bytes(255)),
    )
    at = rng.randrange(len(data))
    piece = rng.choice(pieces)
    data[at : at + rng.choice((0, len(piece)))] = piece


MUTATIONS = (flip, cut, insert, remove, swap, edit_start, edit_numbers, splice)


def mutate(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2))):
        if changed:
            rng.choice(MUTATIONS)(changed, rng)
    return bytes(changed)


def mutate_inside(data: bytes, rng: random.Random) -> bytes:
    """Damage a member of a zip; its checksum is made anew and does not shield it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        names = old.namelist()
        target = rng.choice(names)
        for name in names:
            content = old.read(name)
            new.writestr(name, mutate(content, rng) if name == target else content)
    return buffer.getvalue()


def person() -> bytes:
    """A small BVH file."""
    tree = bvh_samples.tree(*bvh_samples.PLAIN)
    joints = sum(not name.endswith("_end") for name in tree[0])
    rows = np.random.default_rng(0).uniform(-90, 90, (4, 3 + 3 * joints)).round(2)
    return bvh_samples.text(*tree, rows).encode()


def read(path: Path, options: ReadOptions) -> list:
    """Clips of robots, skeletons of persons, or errors."""
    if path.suffix != ".bvh":
        return ingest.read(path, options)
    try:
        found = bvh.read(path)
        return [skeletons.identify(p.names, p.parents, p.offsets) for p in found]
    except ClipError as error:
        return [error]


def fuzz(folder: Path, files: int, seed: int) -> dict:
    """Read damaged files of every format; what came out, and what went wrong."""
    rng = random.Random(seed)
    motion = samples.motion(20)
    bases = {name: write(motion) for name, (write, _, _) in samples.FORMATS.items()}
    entry = samples.library_dict(motion)
    bases["merged.pkl"] = samples.joblib({"a": entry, "b": dict(entry)})
    reference = samples.write_reference(folder / "reference", motion)
    for name, data in bases.items():  # Imports and the robot's model come first.
        (folder / name).write_bytes(data)
        assert isinstance(ingest.read(folder / name, ReadOptions())[0], Clip)
    assert isinstance(ingest.read(reference, ReadOptions())[0], Clip)
    bases["person.bvh"] = person()
    (folder / "person.bvh").write_bytes(bases["person.bvh"])
    assert isinstance(read(folder / "person.bvh", ReadOptions())[0], skeletons.Skeleton)

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_MEMORY, used + SPARE_MEMORY))
    events, watching = [], False

    def hook(event: str, arguments: tuple) -> None:
        if watching and (
            event.startswith(WATCHED)
            or (event == "open" and set(str(arguments[1])) & set("wax+"))
        ):
            events.append(f"{event} {arguments!r:.100}")

    sys.addaudithook(hook)
    outcomes, slowest, wrong = Counter(), 0.0, []
    names = [*bases, "reference"]
    for number in range(files):
        name = names[number % len(names)]
        if name == "reference":
            part = rng.choice(sorted(reference.iterdir()))
            original = part.read_bytes()
            data, path = mutate(original, rng), reference
            part.write_bytes(data)
        else:
            inside = name.endswith(".npz") and rng.random() < 0.7
            data = (mutate_inside if inside else mutate)(bases[name], rng)
            path = folder / f"fuzz{Path(name).suffix}"
            path.write_bytes(data)
        options = ReadOptions(pad_wrists=rng.random() < 0.5)
        start = time.perf_counter()
        watching = True
        try:
            found = read(path, options)
        except BaseException as error:
            found = []
            wrong.append(f"{number} {name} raised {error!r}")
        watching = False
        slowest = max(slowest, time.perf_counter() - start)
        for item in found:
            outcomes[item.kind if isinstance(item, ClipError) else "read"] += 1
            if isinstance(item, ClipError) and (
                item.kind not in KINDS
                or ("\n" in item.reason and item.kind != "skeleton")
            ):
                wrong.append(f"{number} {name} odd error {item.kind}: {item}")
        if not found:
            wrong.append(f"{number} {name} gave nothing")
        if name == "reference":
            part.write_bytes(original)
    return {
        "outcomes": dict(outcomes.most_common()),
        "slowest_s": slowest,
        "wrong": wrong[:20],
        "events": events[:20],
    }


def test_ten_thousand_damaged_files(tmp_path: Path):
    command = [sys.executable, __file__, str(tmp_path), str(FILES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert not result["wrong"]
    assert not result["events"]
    assert result["slowest_s"] < SECONDS_PER_FILE
    assert sum(result["outcomes"].values()) >= FILES
    assert len(result["outcomes"]) >= 10


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else FILES
    print(json.dumps(fuzz(Path(target), count, seed=2025), indent=1))

"""BVH files: a tree of joints and rows of numbers become points and turns over time.

Everything stays in the units and axes of the file. Position channels take the place
of a joint's offset, as in most programs, unless the bones would vanish by that.
"""

import codecs
import io
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from spectral_skills.motion.clip import MIN_FRAMES, ClipError
from spectral_skills.motion.readers.assemble import LIMIT_BYTES, NAME_LENGTH, printable
from spectral_skills.quaternion import Planes, rotate_planes

TEXT_LIMIT_BYTES = 512 << 20  # numbers take several times the room of their text
MAX_JOINTS, MAX_DEPTH = 2000, 64
MAX_VALUE = 1e7  # in any unit that people have, a person is nearer and turns less
END = "_end"
_HEADER_BYTES = 8 << 20  # more than the joints of any file
_JOINT_BYTES = 7 * 8  # what a joint takes in a frame: position and turn
_CHUNK_FRAMES = 2048  # arrays of this length stay in the processor's cache

_DECIMAL_COMMA = ": numbers need decimal points, not commas"

_MOTION = re.compile(rb"(?:^|[\r\n])[ \t]*MOTION(?=\s|$)", re.IGNORECASE)
_COUNTS = re.compile(
    rb"\s*Frames[ \t]*:?[ \t]*([^:\s]+)\s+Frame[ \t]*Time[ \t]*:?[ \t]*([^:\s]+)",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"(?:(?P<open>\{)|(?P<close>\})"
    r"|(?P<joint>(?P<kind>ROOT|JOINT)\b[ \t]*(?P<name>[^\n{}]*))"
    r"|(?P<end>END[ \t]*SITE\b[^\n{}]*)"
    r"|(?P<offset>OFFSET\b(?P<numbers>(?:\s+[^\s{}]+){3}))"
    r"|(?P<channels>CHANNELS\s+(?P<count>\d{1,4})"
    r"(?P<kinds>(?:\s+[XYZ](?:position|rotation)\b)*)))\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Capture:
    """A tree of joints over time, in the file's units and axes."""

    names: tuple[str, ...]  # unique; an end site is called after its parent
    parents: tuple[int, ...]  # -1 for the root, which comes first
    offsets: np.ndarray  # (J, 3) from the parent, in the parent's axes
    """Where a joint moves within its parent, the median over frames."""
    positions: np.ndarray  # (T, J, 3)
    turns: np.ndarray  # (T, J, 4) wxyz, identity where all channels are zero
    fps: float
    notes: tuple[str, ...] = field(default=())
    """What is wrong with the file and was mended, a sentence each."""


class _Joint(NamedTuple):
    name: str
    parent: int
    offset: list[float]
    channels: list[str]  # such as xposition or zrotation


def read(path: Path, fps: float | None = None) -> list[Capture]:
    """The persons of a file, one for each root; `fps` overrides the file's rate."""
    size = Path(path).stat().st_size
    if size > TEXT_LIMIT_BYTES:
        reason = f"{size / 1024**2:.0f} MiB of text; 512 MiB are read"
        raise ClipError("too large", reason)
    return parse(Path(path).read_bytes(), fps)


def parse(data: bytes, fps: float | None = None) -> list[Capture]:
    """The same for the bytes of a file."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode()
    motion = _MOTION.search(data, 0, _HEADER_BYTES)
    text = _text(data[: motion.start() if motion else _HEADER_BYTES])
    if motion is None:
        raise ClipError("truncated", "no MOTION follows the joints: a part of a file")
    joints = _tree(text)
    counts = _COUNTS.match(data, motion.end())
    if counts is None:
        reason = "no 'Frames: N' and 'Frame Time: SECONDS' follow MOTION"
        raise ClipError("truncated", reason)
    promised, time_s = (printable(c.decode("latin-1"), 30) for c in counts.groups())
    rate = _frame_rate(time_s) if fps is None else float(fps)
    columns = [f"{kind} of {j.name}" for j in joints for kind in j.channels]
    values, notes = _rows(data[counts.end() :], columns, promised)
    if str(len(values)) != promised:
        notes.append(f"The file promises {promised} frames and has {len(values)}.")
    if len(values) < MIN_FRAMES:
        reason = f"{len(values)} whole frames; a motion needs {MIN_FRAMES}"
        raise ClipError("empty", reason)
    if len(values) * len(joints) * _JOINT_BYTES > LIMIT_BYTES:
        reason = f"{len(values)} frames of {len(joints)} joints take over 2 GiB"
        raise ClipError("too large", reason)
    _check_values(values, columns)
    return _captures(joints, values, rate, notes)


def _text(head: bytes) -> str:
    """The header after its first word."""
    if not head.strip():
        raise ClipError("empty", "the file is empty")
    if b"\0" in head:
        raise ClipError("unknown format", "not text, so not a BVH file")
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = head.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = re.match(r"\s*HIERARCHY\b", text, re.IGNORECASE)
    if found is None:
        first = printable(text.lstrip().partition("\n")[0], 40)
        if first.startswith("version https://git-lfs"):
            raise ClipError("unknown format", "a Git LFS pointer; run git lfs pull")
        reason = f"a BVH file starts with HIERARCHY, this one with {first!r}"
        raise ClipError("unknown format", reason)
    # Lines keep their numbers.
    return "\n" * text.count("\n", 0, found.end()) + text[found.end() :].rstrip()


def _tree(text: str) -> list[_Joint]:
    """Joints of a header in the order of their channels."""
    joints: list[_Joint] = []
    stack: list[int] = []  # joints whose braces are open
    names: set[str] = set()
    at, waiting = len(text) - len(text.lstrip()), False  # for the last joint's brace

    def refuse(what: str) -> NoReturn:
        raise ClipError("unreadable", f"line {1 + text.count(chr(10), 0, at)}: {what}")

    def add(name: str) -> None:
        if len(joints) == MAX_JOINTS or len(stack) > MAX_DEPTH:
            refuse(f"more than {len(joints)} joints or {MAX_DEPTH} within each other")
        if not stack:
            names.clear()  # another person, whose joints may be called the same
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.add(unique)
        joints.append(_Joint(unique, stack[-1] if stack else -1, [], []))

    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            words = text[at : at + 1000].partition("\n")[0]
            refuse(f"{printable(words, 40)!r} is not BVH")
        kind = token.lastgroup
        if waiting != (kind == "open"):
            refuse(f"no {{ follows {joints[-1].name}" if waiting else "a { too many")
        waiting = kind in ("joint", "end")
        here = joints[stack[-1]] if stack else None
        if kind == "open":
            stack.append(len(joints) - 1)
        elif kind == "joint":
            name = printable(token["name"], NAME_LENGTH)
            if (token["kind"].upper() == "ROOT") != (here is None):
                place = f"inside {here.name}" if here else "outside of a root"
                refuse(f"{token['kind']} {name} is {place}")
            add(name or "joint")
        elif here is None:
            refuse(f"{printable(token[0], 40)!r} is outside of a joint")
        elif kind == "end":
            add(here.name + END)
        elif kind == "close":
            if not here.offset:
                refuse(f"{here.name} has no OFFSET")
            stack.pop()
        elif kind == "offset":
            if here.offset:
                refuse(f"a second OFFSET of {here.name}")
            here.offset.extend(map(_number, token["numbers"].split()))
            if not np.abs(here.offset).max() < MAX_VALUE:
                numbers = printable(token["numbers"], 60)
                comma = _DECIMAL_COMMA if "," in numbers else ""
                refuse(f"OFFSET of {here.name} is {numbers}{comma}")
        else:
            kinds = token["kinds"].lower().split()
            if here.channels:
                refuse(f"a second line of CHANNELS of {here.name}")
            if len(kinds) != int(token["count"]):
                counts = f"{token['count']} CHANNELS and names {len(kinds)} of them"
                refuse(f"{here.name} has {counts}")
            here.channels.extend(kinds)
        at = token.end()
    if waiting or stack:
        raise ClipError("unreadable", f"no }} closes {joints[-1].name}")
    if not joints:
        raise ClipError("unreadable", "no joints follow HIERARCHY")
    if not any(joint.channels for joint in joints):
        raise ClipError("columns", f"{len(joints)} joints without CHANNELS: no motion")
    return joints


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _frame_rate(text: str) -> float:
    """Hz: a whole number where the printed frame time is one, rounded."""
    time_s = _number(text)
    if not 1e-3 <= time_s <= 1.0:
        reason = f"Frame Time: {text} s is not 0.001 to 1; pass --fps"
        raise ClipError("frame rate", reason)
    digits = -int(Decimal(text).as_tuple().exponent)
    whole = round(1.0 / time_s)
    # 29.97 Hz is 0.1 % away from 30.
    slack = max(0.501 * 10.0**-digits, 2e-4 * time_s)
    is_whole = abs(1.0 / whole - time_s) < slack
    return float(whole) if is_whole else 1.0 / time_s


def _rows(
    body: bytes, columns: list[str], promised: str
) -> tuple[np.ndarray, list[str]]:
    """(T, C) numbers, and what is to be said about them."""
    values = _table(body, len(columns))
    ended = body[-1:].isspace()
    if values is not None and (ended or str(len(values)) == promised):
        return values, []
    # A file that was cut off ends within a row, or within its last number.
    whole = body if ended else body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    values, notes = _table(whole, len(columns)), []
    if values is None:
        values, left = _broken_rows(whole, columns)
        ended = ended and not left
    if not ended:
        notes.append("The file is cut off: its last row is left out.")
    return values, notes


def _table(body: bytes, width: int) -> np.ndarray | None:
    """(T, width) numbers; None where a row is not of that width or holds words."""
    if not body.strip():
        return np.empty((0, width))
    try:
        values = np.loadtxt(io.BytesIO(body), comments=None, ndmin=2)
    except ValueError:
        return None
    return values if values.shape[1] == width else None


def _broken_rows(body: bytes, columns: list[str]) -> tuple[np.ndarray, bool]:
    """Rows that go over several lines, and whether a part of one is left at the end.

    Where a row has too many numbers or a word, the file is refused.
    """
    rows: list[np.ndarray] = []
    row: list[bytes] = []
    for line in body.splitlines():
        cells = line.split()
        if len(row) + len(cells) > len(columns):
            count = len(row) or len(cells)
            reason = f"{count} numbers in a row for {len(columns)} channels"
            raise ClipError("columns", reason, len(rows))
        row += cells
        if len(row) == len(columns):
            try:
                rows.append(np.fromiter(map(float, row), float, len(row)))
            except ValueError:
                _refuse_word(row, columns, len(rows))
            row = []
    return np.array(rows).reshape(-1, len(columns)), bool(row)


def _refuse_word(row: list[bytes], columns: list[str], frame: int) -> NoReturn:
    for cell, column in zip(row, columns, strict=True):
        try:
            float(cell)
        except ValueError:
            word = printable(cell.decode("latin-1"), 30)
            # Some programs write -nan(ind) or 1.#QNAN.
            finite = not re.search("nan|inf|#ind", word, re.IGNORECASE)
            kind = "unreadable" if finite else "not finite"
            why = _DECIMAL_COMMA if "," in word else ", not a number"
            raise ClipError(kind, f"{column} is {word!r}{why}", frame) from None
    raise AssertionError("a row without a word")


def _check_values(values: np.ndarray, columns: list[str]) -> None:
    wrong = ~(np.abs(values) < MAX_VALUE)
    if wrong.any():
        frame, column = np.argwhere(wrong)[0].tolist()
        value = values[frame, column]
        kind = "units" if np.isfinite(value) else "not finite"
        raise ClipError(kind, f"{columns[column]} is {value:g}", frame)


def _captures(
    joints: list[_Joint], values: np.ndarray, fps: float, notes: list[str]
) -> list[Capture]:
    """Forward kinematics; every root has a capture of its own."""
    offsets, notes = _usual_offsets(joints, values, notes)
    positions = np.empty((len(values), len(joints), 3))
    turns = np.empty((len(values), len(joints), 4))
    for start in range(0, len(values), _CHUNK_FRAMES):
        chunk = slice(start, start + _CHUNK_FRAMES)
        places, quaternions = _kinematics(joints, values[chunk].T.copy())
        positions[chunk] = places.transpose(2, 0, 1)
        turns[chunk] = quaternions.transpose(2, 0, 1)
    roots = [i for i, joint in enumerate(joints) if joint.parent < 0]
    captures = []
    for first, end in zip(roots, [*roots[1:], len(joints)], strict=True):
        about = f"One of {len(roots)} persons of the file, root {joints[first].name}."
        captures.append(
            Capture(
                names=tuple(joint.name for joint in joints[first:end]),
                parents=tuple(max(j.parent - first, -1) for j in joints[first:end]),
                offsets=offsets[first:end],
                positions=positions[:, first:end],
                turns=turns[:, first:end],
                fps=fps,
                notes=(*notes, *[about] * (len(roots) > 1)),
            )
        )
    return captures


def _usual_offsets(
    joints: list[_Joint], values: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, list[str]]:
    """(J, 3) medians of where joints are within their parents.

    Where most bones would vanish, the channels hold shifts from the offsets, which are
    then added to the values.
    """
    offsets = np.array([joint.offset for joint in joints])
    channels = [(i, kind) for i, joint in enumerate(joints) for kind in joint.channels]
    column = [n for n, (_, kind) in enumerate(channels) if kind.endswith("position")]
    if not column:
        return offsets, notes
    joint = np.array([channels[n][0] for n in column])
    axis = np.array(["xyz".index(channels[n][1][0]) for n in column])
    usual = offsets.copy()
    usual[joint, axis] = np.median(values[:, column], axis=0)
    length, left = np.linalg.norm(offsets, axis=1), np.linalg.norm(usual, axis=1)
    inner = np.array([i for i in set(joint.tolist()) if joints[i].parent >= 0], int)
    lost = inner[left[inner] < 0.1 * length[inner]]
    if 2 * len(lost) > np.count_nonzero(length[inner]):
        moved = np.isin(joint, lost)
        added = offsets[joint, axis][moved]
        values[:, np.array(column)[moved]] += added
        usual[joint[moved], axis[moved]] += added
        notes = [*notes, "Position channels are shifts from the joints' offsets."]
    return usual, notes


def _kinematics(
    joints: list[_Joint], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions (J, 3, T) and turns (J, 4, T) of channels (C, T)."""
    frames, column = rows.shape[1], 0
    positions = np.zeros((len(joints), 3, frames))
    turns = np.empty((len(joints), 4, frames))
    for number, joint in enumerate(joints):
        place = list(joint.offset)
        root = joint.parent < 0
        turn = np.eye(4)[0][:, None] if root else turns[joint.parent]
        for kind in joint.channels:
            axis = "xyz".index(kind[0])
            if kind.endswith("position"):
                place[axis] = rows[column]
            else:
                turn = _turned(turn, axis, np.radians(0.5 * rows[column]))
            column += 1
        for plane in range(4):
            turns[number, plane] = turn[plane]
        if not root:
            moved = rotate_planes(turns[joint.parent], place)
            place = [a + b for a, b in zip(positions[joint.parent], moved, strict=True)]
        for plane in range(3):
            positions[number, plane] = place[plane]
    return positions, turns


def _turned(q: Planes, axis: int, half: np.ndarray) -> list[np.ndarray]:
    """Quaternions q times a turn about one of their own axes by twice `half`."""
    cos, sin = np.cos(half), np.sin(half)
    w, (a, b, c) = q[0], (q[1 + (axis + i) % 3] for i in range(3))
    vector = a * cos + w * sin, b * cos + c * sin, c * cos - b * sin
    return [w * cos - a * sin, *(vector[(i - axis) % 3] for i in range(3))]

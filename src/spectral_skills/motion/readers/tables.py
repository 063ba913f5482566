"""Numbers from text, at C speed; a slow second look only to say what is wrong."""

from collections import Counter
from typing import NamedTuple, NoReturn

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.readers.assemble import plain

HEAD_BYTES = 1 << 16
"""Enough for the first two rows of any table people have."""


class Table(NamedTuple):
    header: tuple[str, ...]
    """Column names, lower case; empty when the file has none."""
    values: np.ndarray
    """(rows, columns) float64."""


def parse(data: bytes) -> Table:
    """Read separated numbers with an optional header row."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ClipError("unknown format", "neither text nor a known archive") from None
    if "\0" in text:
        raise ClipError("unknown format", "neither text nor a known archive")
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    start = next((i for i, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise ClipError("empty", "the file holds no text")
    separator = _separator(lines[start])
    first = lines[start].lstrip("# ").split(separator)
    header = ()
    if sum(_is_number(cell) for cell in first) < len(first) / 2:
        header = tuple(cell.strip(" \t\"'").lower() for cell in first)
        start += 1
    lines = lines[start:] if start else lines
    if not lines:
        _refuse_prose(header, words=separator is None)
        raise ClipError("empty", "a header row and no frames")
    try:
        values = np.loadtxt(lines, delimiter=separator, comments=None, ndmin=2)
    except ValueError:
        _explain(lines, separator, header)
    if header and len(header) != values.shape[1]:
        raise ClipError(
            "columns", f"{len(header)} column names over {values.shape[1]} columns"
        )
    return Table(header, values)


def is_index(head: bytes) -> bool:
    """Whether the start of a table holds words in several columns under its names.

    Such a table describes motions and is none itself.
    """
    lines = head.decode("utf-8-sig", "replace").splitlines()[:2]
    separator = _separator(lines[0]) if lines else None
    if separator is None or len(lines) < 2:
        return False
    return all(_words(line, separator) > 1 for line in lines)


def _words(line: str, separator: str | None) -> int:
    return sum(bool(c.strip()) and not _is_number(c) for c in line.split(separator))


def _separator(line: str) -> str | None:
    """None stands for any white space."""
    return "," if "," in line else ";" if ";" in line else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _refuse_prose(header: tuple[str, ...], words: bool = False) -> None:
    if not header:
        return
    first = " ".join(header)
    if first.startswith("version https://git-lfs"):
        raise ClipError("unknown format", "a Git LFS pointer; run git lfs pull")
    if words or len(header) < 4 or first.startswith("<"):
        raise ClipError("unknown format", f"text, not a table: {plain(first, 40)!r}")


def _explain(
    lines: list[str], separator: str | None, header: tuple[str, ...]
) -> NoReturn:
    """Find the cell or row that NumPy stumbled over."""
    _refuse_prose(header)
    if header and _words(lines[0], separator) > 1:
        raise ClipError("unknown format", "a table of words, not of numbers")
    rows = [line.split(separator) for line in lines if line.strip()]
    width = len(header) or Counter(map(len, rows)).most_common(1)[0][0]
    for frame, cells in enumerate(rows):
        if len(cells) != width:
            last = frame == len(rows) - 1 and len(cells) < width
            raise ClipError(
                "truncated" if last else "columns",
                f"{len(cells)} columns in a table of {width}",
                frame,
            )
        for column, cell in enumerate(cells, start=1):
            if not cell.strip():
                raise ClipError("not finite", f"column {column} is empty", frame)
            if not _is_number(cell):
                what = f"column {column} is {plain(cell, 30)!r}, not a number"
                if width < 4:
                    raise ClipError("unknown format", f"text, not a table: {what}")
                raise ClipError("unreadable", what, frame)
    raise ClipError("unreadable", "the table cannot be parsed")

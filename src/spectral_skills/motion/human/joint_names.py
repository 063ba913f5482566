"""What the name of a joint says: its side, and which point of the body it may be."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from spectral_skills.config import read_table
from spectral_skills.motion.human.bvh import END

TABLE = read_table(__file__, "skeletons.toml")
_WORDS = {
    word: tuple(points.split(" or "))
    for points, words in TABLE["words"].items()
    for word in words
}
_SIDES = {word: side for side, words in TABLE["sides"].items() for word in words}
_ENDS = {"end", "nub", "tip", "site", "effector", "top"}
# LThumb is L and Thumb, LUArm is LU and Arm; other scripts have no capitals.
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_VERTEBRA = re.compile(r"[lt]\d{1,2}(?!\d)")  # L5, T12, jL5S1


class Meaning(NamedTuple):
    side: str | None = None
    points: tuple[str, ...] = ()
    """What it may be, the likeliest first; empty where the name says nothing."""
    end: bool = False  # of a bone: no joint

    def fit(self, point: str) -> float | None:
        """How well the name fits a point of a limb; None: it is something else."""
        if point in self.points:
            return 3.0 - self.points.index(point)
        return None if self.points or self.end else 0.0


def meanings(names: Sequence[str]) -> list[Meaning]:
    """What the names of a tree tell."""
    pieces = [_pieces(name) for name in names]
    # A prefix of nearly all joints, such as Bip01, says nothing about one.
    while True:
        firsts = Counter(p[0] for p in pieces if len(p) > 1)
        first, count = firsts.most_common(1)[0] if firsts else ("", 0)
        if first in _SIDES or count < 0.8 * len(names) or len(names) < 5:
            break
        pieces = [p[1:] if p[0] == first and len(p) > 1 else p for p in pieces]
    return [_meaning(name, p) for name, p in zip(names, pieces, strict=True)]


def plain(name: str) -> str:
    """A name without capitals and separators."""
    return "".join(_pieces(name.replace(":", "_"))) or name


def _pieces(name: str) -> list[str]:
    last = re.split(r"[:|]", name)[-1]
    return [piece.lower() for piece in _PIECE.findall(last)] or [last.lower()]


def _meaning(name: str, pieces: list[str]) -> Meaning:
    end = name.endswith(END) or bool(_ENDS & set(pieces))
    side, rest = _side(pieces)
    points = _points(rest)
    if not points and _VERTEBRA.search("".join(pieces)):
        return Meaning(None, ("spine",), end)
    return Meaning(side, points, end)


def _side(pieces: list[str]) -> tuple[str | None, list[str]]:
    for i, piece in enumerate(pieces):
        if piece in _SIDES:
            return _SIDES[piece], pieces[:i] + pieces[i + 1 :]
    for word, side in _SIDES.items():  # lfemur, LUArm, 左足
        rest = [pieces[0].removeprefix(word), *pieces[1:]]
        if rest != pieces and any("".join(rest[:n]) in _WORDS for n in (1, 2)):
            return side, rest
    return None, pieces


def _points(pieces: list[str]) -> tuple[str, ...]:
    """Those of the longest word made of neighbouring pieces; some words overrule."""
    letters = [piece for piece in pieces if not piece.isdigit()]
    spans = [
        (i, j)
        for i, j in itertools.combinations(range(len(letters) + 1), 2)
        if "".join(letters[i:j]) in _WORDS
    ]
    words = [
        "".join(letters[i:j])
        for i, j in spans
        if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in spans)
    ]
    for kind in ("other", "thumb", "finger"):
        if any(_WORDS[word] == (kind,) for word in words):
            return (kind,)
    return _WORDS[max(words, key=len)] if words else ()

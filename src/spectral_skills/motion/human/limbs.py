"""Legs and arms in a tree of joints: chains of three joints and what is beyond them.

Names decide first: they say the side of a joint, and which point of the body it may be.
Among joints whose names fit equally, or say nothing, the lengths of the bones do: those
of a limb are about equal and make up most of it.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spectral_skills.config import read_table
from spectral_skills.motion.human.bvh import END
from spectral_skills.motion.human.recording import SIDES

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


LEG = ("hip", "knee", "ankle", "toe")
ARM = ("shoulder", "elbow", "wrist", "hand")
NEEDED = tuple(f"{side}_{point}" for side in SIDES for point in (*LEG[:3], *ARM[:3]))
NO_LENGTH = 0.02  # of a limb
_KNUCKLES = 0.38  # of a forearm, from the wrist
_SMALL_LIMB = 0.3  # of a leg: fingers, ears and the like
_MIRRORED = 0.2  # difference of bones of two sides

Chain = Sequence[int]
"""The three joints of a limb, and maybe a fourth beyond them; or nothing."""


class Tree:
    """Names, relations and lengths of joints; parents come before children."""

    def __init__(self, names: Sequence[str], parents: Sequence[int], offsets):
        self.names, self.parents = tuple(names), tuple(parents)
        self.meanings = meanings(names)
        self.bones = np.linalg.norm(offsets, axis=1)  # from the parent
        self.bones[[p < 0 for p in parents]] = 0.0
        self.children: list[list[int]] = [[] for _ in names]
        self.up: list[list[int]] = []  # the joint itself and its ancestors
        self.rest = np.array(offsets, dtype=float)  # positions without turns
        self.way = self.bones.copy()  # length of the bones from the root
        self.reach = np.zeros(len(names))  # length of the longest chain below
        for joint, parent in enumerate(parents):
            self.up.append([joint, *(self.up[parent] if parent >= 0 else [])])
            if parent >= 0:
                self.children[parent].append(joint)
                self.rest[joint] += self.rest[parent]
                self.way[joint] += self.way[parent]
        for joint in reversed(range(1, len(names))):
            parent = parents[joint]
            length = self.reach[joint] + self.bones[joint]
            if parent >= 0:
                self.reach[parent] = max(self.reach[parent], length)

    def below(self, joint: int) -> list[int]:
        """All joints that hang on one, near ones first."""
        found = list(self.children[joint])
        for child in found:  # which grows
            found += self.children[child]
        return found

    def meeting(self, a: int, b: int) -> int:
        return next(joint for joint in self.up[a] if joint in self.up[b])

    def branch(self, joint: int, to: int) -> list[int]:
        """The joints of the branch of one that leads to another, if it does."""
        way = self.up[to]
        top = way[way.index(joint) - 1] if joint in way[1:] else None
        return [] if top is None else [top, *self.below(top)]

    def is_a(self, joint: int, point: str) -> bool:
        return point in self.meanings[joint].points

    def length(self, a: int, b: int) -> float:
        """Of the bones between two joints, or their distance at rest."""
        if a in self.up[b] or b in self.up[a]:
            return abs(float(self.way[a] - self.way[b]))
        return float(np.linalg.norm(self.rest[a] - self.rest[b]))


def find(tree: Tree) -> dict[str, int]:
    """Joints of legs and arms, as far as they are found."""
    found: dict[str, int] = {}
    for side in SIDES:
        own = [i for i, m in enumerate(tree.meanings) if m.side == side]
        for limb in (LEG, ARM):
            _add(found, side, limb, _chain(tree, own, limb, words=2))
    if not set(NEEDED) <= set(found):
        for side, limb, chain in _limbs_by_structure(tree):
            _add(found, side, limb, chain)
    return found


def _add(found: dict[str, int], side: str, limb: Sequence[str], chain: Chain) -> None:
    if f"{side}_{limb[0]}" not in found:
        found.update({f"{side}_{p}": j for p, j in zip(limb, chain, strict=False)})


def _chain(tree: Tree, joints: Sequence[int], limb: Sequence[str], words: int) -> Chain:
    """The best chain; the names of at least so many of its three joints must fit.

    A fourth is given only if its name fits.
    """
    fits = {
        point: {j: f for j in joints if (f := tree.meanings[j].fit(point)) is not None}
        for point in limb
    }
    first, second, third, last = (fits[point] for point in limb)
    among, best, chain = set(joints), -math.inf, ()
    for c in third:
        above = [j for j in tree.up[c][1:] if j in among]
        ends = [j for j in tree.below(c) if last.get(j) and tree.length(c, j)]
        end = max(ends, key=lambda j: last[j], default=None)
        for b in above:
            for a in tree.up[b][1:]:
                if a not in first or b not in second or a not in among:
                    continue
                names = [first[a], second[b], third[c]]
                if sum(map(bool, names)) < words:
                    continue
                shape = _shape(tree, (a, b, c), above, limb)
                if shape is None and not words:
                    continue
                # Names that fit count more than any shape.
                score = sum(names) + (-0.5 if shape is None else max(shape, -0.5))
                score += 0.0 if end is None else last[end]
                if score > best:
                    best, chain = score, (a, b, c) if end is None else (a, b, c, end)
    return chain


def _shape(
    tree: Tree, chain: tuple[int, int, int], above: list[int], limb: Sequence[str]
) -> float | None:
    """How much three joints look like a limb, at most 0.5; None without length.

    Its bones are about equal, make up most of it and have no joints within.
    """
    a, b, c = chain
    upper, lower = tree.length(a, b), tree.length(b, c)
    if not upper or not lower:
        return None
    usual = 0.0 if limb == LEG else 0.2
    top = above[-1]
    skipped = [
        j
        for j in above[: above.index(a)]
        if j != b and tree.bones[j] and tree.meanings[j].points != ("other",)
    ]
    share = (upper + lower) / tree.reach[top]
    return 0.5 * share - abs(math.log(upper / lower) - usual) - 0.3 * len(skipped)


def _limbs_by_structure(tree: Tree) -> Iterator[tuple[str, Sequence[str], Chain]]:
    """Sides, kinds and chains of two pairs of branches that mirror each other."""
    pairs = [
        (a, b)
        for children in tree.children
        for a, b in itertools.combinations(children, 2)
        if _mirrored(tree, a, b)
    ]
    longest = max((tree.reach[a] for a, _ in pairs), default=0.0)
    pairs = [p for p in pairs if tree.reach[p[0]] > _SMALL_LIMB * longest]
    if len(pairs) != 2:
        return
    legs, arms = sorted(pairs, key=lambda pair: len(tree.up[pair[0]]))
    up = tree.rest[tree.parents[arms[0]]] - tree.rest[tree.parents[legs[0]]]
    chains = {
        joint: _chain(tree, [joint, *tree.below(joint)], limb, words=0)
        for pair, limb in ((legs, LEG), (arms, ARM))
        for joint in pair
    }
    if not all(chains.values()):
        return
    forward = np.zeros(3)
    for joint in legs:
        end = toe(tree, chains[joint])
        if end is not None:
            forward += tree.rest[end] - tree.rest[chains[joint][2]]
    left = np.cross(up, forward)
    for pair, limb in ((legs, LEG), (arms, ARM)):
        sides = _sides(tree, pair, chains, left)
        for side, joint in zip(sides, pair, strict=False):
            yield side, limb, chains[joint]


def _mirrored(tree: Tree, a: int, b: int) -> bool:
    """Whether the longest chains of two branches have three joints and equal bones."""
    chains = []
    for joint in (a, b):
        bones = []
        while children := tree.children[joint]:
            joint = max(children, key=lambda j: tree.reach[j] + tree.bones[j])
            bones.append(tree.bones[joint])
        chains.append(np.array(bones))
    one, other = chains
    if len(one) != len(other) or np.count_nonzero(one) < 2:
        return False
    return bool((np.abs(one - other) <= _MIRRORED * max(one.max(), other.max())).all())


def _sides(
    tree: Tree, pair: tuple[int, int], chains: dict[int, Chain], left: np.ndarray
) -> tuple[str, ...]:
    """Sides of two branches by their names, else by where they are."""
    for joint in pair:
        named = {tree.meanings[j].side for j in (joint, *tree.below(joint))} - {None}
        if len(named) == 1:
            first = (named == {"left"}) == (joint == pair[0])
            return SIDES if first else SIDES[::-1]
    a, b = (tree.rest[chains[joint][0]] for joint in pair)
    across = np.dot(a - b, left)
    if abs(across) <= 0.5 * np.linalg.norm(a - b) * np.linalg.norm(left):
        return ()
    return SIDES if across > 0 else SIDES[::-1]


def toe(tree: Tree, chain: Chain) -> int | None:
    """The ball of the foot, else the first joint or end site beyond the ankle."""
    hip, knee, ankle, *named = chain
    short = NO_LENGTH * (tree.length(hip, knee) + tree.length(knee, ankle))
    heels = {
        j for i in tree.below(ankle) if tree.is_a(i, "other") for j in tree.below(i)
    }
    for joint in (*named, *tree.below(ankle)):
        heel = joint in heels or tree.is_a(joint, "other")
        if not heel and tree.length(ankle, joint) > short:
            return joint
    return None


def hand(tree: Tree, chain: Chain) -> int | None:
    """Where the fingers begin, the middle one's best; else the end of the hand."""
    shoulder, elbow, wrist, *named = chain
    forearm = tree.length(elbow, wrist)
    short = NO_LENGTH * (tree.length(shoulder, elbow) + forearm)
    if named and tree.length(wrist, named[0]) > short:
        return named[0]

    def rank(joint: int) -> tuple[int, float]:
        middle = tree.is_a(joint, "finger") and "mid" in tree.names[joint].lower()
        order = 2 if tree.meanings[joint].end else 0 if middle else 1
        return order, abs(tree.length(wrist, joint) - _KNUCKLES * forearm)

    beyond = [
        j
        for j in tree.below(wrist)
        if tree.length(wrist, j) > short
        and not tree.is_a(j, "thumb")
        and not tree.is_a(j, "other")
    ]
    return min(beyond, key=rank, default=None)

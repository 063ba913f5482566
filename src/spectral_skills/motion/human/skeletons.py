"""Which joint of any tree is which point of the body.

Names and structure decide together. A leg is a chain of thigh, shank and foot, an arm
one of upper arm, forearm and hand; the pelvis is where the legs meet, the chest where
the arms do. `skeletons.toml` says what joints are called.
"""

import difflib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import joint_names
from spectral_skills.motion.human.recording import POINTS, SIDES
from spectral_skills.motion.readers.assemble import printable

LEG = ("hip", "knee", "ankle", "toe")
ARM = ("shoulder", "elbow", "wrist", "hand")
NEEDED = tuple(f"{side}_{point}" for side in SIDES for point in (*LEG[:3], *ARM[:3]))
_BONES = {
    "thigh": ("hip", "knee"),
    "shank": ("knee", "ankle"),
    "upper arm": ("shoulder", "elbow"),
    "forearm": ("elbow", "wrist"),
}
_NO_LENGTH = 0.02  # of a leg
_KNUCKLES = 0.38  # of a forearm, from the wrist
_SMALL_LIMB = 0.3  # of a leg: fingers, ears and the like
_MIRRORED = 0.2  # difference of bones of two sides
_TREE_LINES = 200


@dataclass(frozen=True)
class Skeleton:
    name: str  # whose, or "other"
    joints: dict[str, int | None]
    """The joint of every point. None where there is none: hands, to be put beyond the
    wrist along the forearm; the head, above the neck; the neck, between the shoulders.
    """
    pelvis: int  # the bone that carries the hips
    chest: int  # the bone that carries the arms


class _Tree:
    def __init__(self, names: Sequence[str], parents: Sequence[int], offsets):
        self.names, self.parents = tuple(names), tuple(parents)
        self.meanings = joint_names.meanings(names)
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
        """Of the bones between two joints, one of which hangs on the other or not."""
        return float(self.way[a] + self.way[b] - 2 * self.way[self.meeting(a, b)])


def identify(
    names: Sequence[str],
    parents: Sequence[int],
    offsets: np.ndarray,
    mapping: Mapping[str, str] | None = None,
) -> Skeleton:
    """Find the points of the body; `mapping`, point to name of joint, overrules."""
    tree = _Tree(names, parents, offsets)
    given = _given(tree, mapping or {})
    found = _limbs(tree) | given
    _refuse_missing(tree, found)
    found = _trunk(tree, found) | given
    for side in SIDES:
        for limb, end in ((LEG, _toe), (ARM, _hand)):
            points = [f"{side}_{point}" for point in limb]
            chain = [found[point] for point in points if point in found]
            joint = end(tree, chain)
            found |= {} if joint is None else {points[-1]: joint}
    _check(tree, found)
    joints = {point: found.get(point) for point in POINTS}
    return Skeleton(_name(names), joints, found["pelvis"], found["chest"])


def load_map(path: Path) -> dict[str, str]:
    """Points and names of joints from a file for `--map`."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error
    for point, joint in table.items():
        if point not in POINTS:
            like = _alike(point, POINTS) or f"one of {', '.join(POINTS)}"
            raise ValueError(f"{path}: {point} is no point of the body; {like}")
        if not isinstance(joint, str):
            raise ValueError(f'{path}: {point} = "JOINT" is expected, not {joint!r}')
    return {point: joint for point, joint in table.items() if joint}


def _given(tree: _Tree, mapping: Mapping[str, str]) -> dict[str, int]:
    for point, name in mapping.items():
        if name not in tree.names:
            like = _alike(name, tree.names) or "it has " + ", ".join(tree.names)
            reason = f"--map: {point} is {name}, which the file lacks; {like}"
            raise ClipError("skeleton", printable(reason, 2000))
    return {point: tree.names.index(name) for point, name in mapping.items()}


def _alike(name: str, names: Iterable[str]) -> str:
    lower = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.5)
    return f"do you mean {' or '.join(lower[c] for c in close)}?" if close else ""


def _limbs(tree: _Tree) -> dict[str, int]:
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


def _add(found: dict[str, int], side: str, limb: Sequence[str], chain: Sequence[int]):
    if f"{side}_{limb[0]}" not in found:
        found.update({f"{side}_{p}": j for p, j in zip(limb, chain, strict=False)})


def _chain(
    tree: _Tree, joints: Sequence[int], limb: Sequence[str], words: int
) -> Sequence[int]:
    """The three joints of a limb, and a fourth that is named, or nothing.

    At least so many of the three must have fitting names.
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
    tree: _Tree, chain: tuple[int, int, int], above: list[int], limb: Sequence[str]
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


def _limbs_by_structure(tree: _Tree):
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
        toe = _toe(tree, chains[joint])
        if toe is not None:
            forward += tree.rest[toe] - tree.rest[chains[joint][2]]
    left = np.cross(up, forward)
    for pair, limb in ((legs, LEG), (arms, ARM)):
        sides = _sides(tree, pair, chains, left)
        for side, joint in zip(sides, pair, strict=False):
            yield side, limb, chains[joint]


def _mirrored(tree: _Tree, a: int, b: int) -> bool:
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


def _sides(tree: _Tree, pair, chains, left: np.ndarray) -> tuple[str, ...]:
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


def _trunk(tree: _Tree, found: dict[str, int]) -> dict[str, int]:
    """Joints of pelvis, chest, neck and head beside those of the limbs."""
    hips, shoulders = (
        [found[f"{side}_{point}"] for side in SIDES] for point in ("hip", "shoulder")
    )
    waist, collar = tree.meeting(*hips), tree.meeting(*shoulders)
    # In 3ds Max legs may hang on the spine, and arms on the neck.
    pelvis = next((j for j in tree.up[waist] if tree.is_a(j, "pelvis")), waist)
    chest = next((j for j in tree.up[collar] if not tree.is_a(j, "neck")), collar)
    found = found | {"pelvis": pelvis, "chest": chest}
    elsewhere = {j for joint in shoulders for j in tree.branch(collar, joint)}
    elsewhere.update(tree.branch(chest, pelvis))
    short = _NO_LENGTH * _limb_length(tree, found, "left", LEG)
    upper = [
        j
        for j in tree.below(chest)
        if j not in elsewhere
        and not tree.meanings[j].end
        and tree.length(chest, j) > short
    ]
    neck = next((j for j in upper if tree.is_a(j, "neck")), None)
    head = next((j for j in upper if tree.is_a(j, "head")), None)
    if neck is None and head is None:
        # The longest chain; Blender counts the neck among the spine.
        unnamed = [j for j in upper if tree.meanings[j].points in ((), ("spine",))]
        top = max(unnamed, key=lambda j: tree.way[j], default=-1)
        chain = [j for j in unnamed if j in tree.up[top]] if unnamed else []
        neck = chain[0] if chain else None
        head = chain[-1] if len(chain) > 1 else None
    if neck is None and head is not None:
        neck = next(j for j in upper if j in tree.up[head])
    found |= {} if neck is None else {"neck": neck}
    return found | ({} if head is None else {"head": head})


def _limb_length(
    tree: _Tree, found: Mapping[str, int], side: str, limb: Sequence[str]
) -> float:
    a, b, c = (found[f"{side}_{point}"] for point in limb[:3])
    return tree.length(a, b) + tree.length(b, c)


def _toe(tree: _Tree, chain: Sequence[int]) -> int | None:
    """The ball of the foot, else the first joint or end site beyond the ankle."""
    hip, knee, ankle, *named = chain
    short = _NO_LENGTH * (tree.length(hip, knee) + tree.length(knee, ankle))
    for joint in (*named, *tree.below(ankle)):
        way = tree.up[joint][: tree.up[joint].index(ankle)] if joint != ankle else []
        if tree.length(ankle, joint) > short and not any(
            tree.is_a(j, "other") for j in way
        ):
            return joint
    return None


def _hand(tree: _Tree, chain: Sequence[int]) -> int | None:
    """Where the fingers begin, the middle one's best; else the end of the hand."""
    shoulder, elbow, wrist, *named = chain
    forearm = tree.length(elbow, wrist)
    short = _NO_LENGTH * (tree.length(shoulder, elbow) + forearm)
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


def _refuse_missing(tree: _Tree, found: dict[str, int]) -> None:
    """Refuse a tree without two legs and two arms."""
    limbs = {
        f"{side} {name}": [f"{side}_{point}" for point in limb[:3]]
        for side in SIDES
        for name, limb in (("leg", LEG), ("arm", ARM))
    }
    missing = [name for name, points in limbs.items() if not set(points) <= set(found)]
    if not missing:
        return
    seen = [
        f"{name} {', '.join(tree.names[found[point]] for point in points)}"
        for name, points in limbs.items()
        if name not in missing
    ]
    reason = f"no {', no '.join(missing)} among {len(tree.names)} joints"
    reason += f"; found {'; '.join(seen)}" if seen else ""
    lines = [f"{reason}. Name the joints in a file for --map:", *_template(tree, found)]
    raise ClipError("skeleton", "\n".join(lines))


def _template(tree: _Tree, found: Mapping[str, int]) -> list[str]:
    """A file for `--map` to be filled in, under the tree of joints."""
    shown, waiting = [], [j for j, parent in enumerate(tree.parents) if parent < 0]
    while waiting:
        joint = waiting.pop(0)
        shown.append(f"#   {'  ' * (len(tree.up[joint]) - 1)}{tree.names[joint]}")
        waiting = tree.children[joint] + waiting
    more = [f"#   and {len(shown) - _TREE_LINES} more"] * (len(shown) > _TREE_LINES)
    lines = ["# The joints of the file:", *shown[:_TREE_LINES], *more]
    for point in POINTS:
        name = tree.names[found[point]] if point in found else ""
        remark = "" if point in NEEDED else "  # found by itself if empty"
        lines.append(f"{point} = {json.dumps(name, ensure_ascii=False)}{remark}")
    return lines


def _check(tree: _Tree, found: dict[str, int]) -> None:
    names, lengths = tree.names, []
    for side, limb in itertools.product(SIDES, (LEG, ARM)):
        lengths.append(_limb_length(tree, found, side, limb))
    short = _NO_LENGTH * max(lengths)
    for side, (bone, ends) in itertools.product(SIDES, _BONES.items()):
        a, b = (found[f"{side}_{point}"] for point in ends)
        if tree.length(a, b) <= short:
            reason = f"the {side} {bone}, {names[a]} to {names[b]}, has no length"
            raise ClipError("skeleton", reason)
    pelvis, chest = found["pelvis"], found["chest"]
    if tree.length(pelvis, chest) <= short:
        reason = f"no spine between pelvis {names[pelvis]} and chest {names[chest]}"
        raise ClipError("skeleton", reason)
    leg = tree.rest[found["left_ankle"]] - tree.rest[found["left_hip"]]
    trunk = tree.rest[chest] - tree.rest[pelvis]
    for side in SIDES:
        ankle, toe = found[f"{side}_ankle"], found.get(f"{side}_toe")
        # An end site straight below the ankle is the heel.
        if toe is None or (
            tree.meanings[toe].end
            and _cosine(leg, trunk) < -0.7
            and _cosine(leg, tree.rest[toe] - tree.rest[ankle]) > 0.9
        ):
            reason = f"no toes beyond {names[ankle]}: the sole's direction is unknown"
            raise ClipError("skeleton", reason)
    used: dict[int, str] = {}
    for point, joint in found.items():
        if point != "head" and used.setdefault(joint, point) != point:
            reason = f"{names[joint]} would be both {used[joint]} and {point}"
            raise ClipError("skeleton", reason)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-12))


def _name(names: Sequence[str]) -> str:
    whole = [re.split(r"[:|]", name)[-1] for name in names]
    here = set(map(joint_names.plain, (*names, *whole)))
    for name, joints in joint_names.TABLE["skeletons"].items():
        if here.issuperset(map(joint_names.plain, joints)):
            return name
    return "other"

"""Which joint of any tree is which point of the body.

Names and structure decide together. A leg is a chain of thigh, shank and foot, an arm
one of upper arm, forearm and hand; the pelvis is where the legs meet, the chest where
the arms do. `skeletons.toml` says what joints are called.
"""

import difflib
import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import limbs
from spectral_skills.motion.human.limbs import ARM, LEG, NEEDED, NO_LENGTH, Tree
from spectral_skills.motion.human.recording import POINTS, SIDES
from spectral_skills.motion.readers.assemble import printable

_BONES = {
    "thigh": ("hip", "knee"),
    "shank": ("knee", "ankle"),
    "upper arm": ("shoulder", "elbow"),
    "forearm": ("elbow", "wrist"),
}
_STANDS = 0.85  # cosine; CMU's legs are 20 degrees apart from the vertical
_FAR = 0.6  # of a leg: no hips are as far from the pelvis
_NAME_THEM = "Name the joints in a file for --map:"
_TREE_LINES = 200


@dataclass(frozen=True)
class Skeleton:
    name: str  # whose, or "other"
    joints: dict[str, int | None]
    """The joint of every point. None where there is none: hands, to be put beyond the
    wrist along the forearm; the head, above the neck; the neck, between the shoulders.
    """
    pelvis: int  # the bone that carries the hips
    up: str | None = None  # the axis along which the rest pose stands, if it does


def identify(
    names: Sequence[str],
    parents: Sequence[int],
    offsets: np.ndarray,
    mapping: Mapping[str, str] | None = None,
) -> Skeleton:
    """Find the points of the body; `mapping`, point to name of joint, overrules."""
    tree = Tree(names, parents, offsets)
    given = _given(tree, mapping or {})
    found = limbs.find(tree) | given
    _refuse_missing(tree, found)
    found = _trunk(tree, found) | given
    for side in SIDES:
        for limb, beyond in ((LEG, limbs.toe), (ARM, limbs.hand)):
            points = [f"{side}_{point}" for point in limb]
            chain = [found[point] for point in points if point in found]
            end = beyond(tree, chain)
            found.pop(points[-1], None)
            found |= {} if end is None else {points[-1]: end}
    found |= given
    _check(tree, found)
    joints = {point: found.get(point) for point in POINTS}
    return Skeleton(_name(names), joints, found["pelvis"], _rest_up(tree, found))


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


def _given(tree: Tree, mapping: Mapping[str, str]) -> dict[str, int]:
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


def _trunk(tree: Tree, found: dict[str, int]) -> dict[str, int]:
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
    short = NO_LENGTH * _limb_length(tree, found, "left", LEG)
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
    tree: Tree, found: Mapping[str, int], side: str, limb: Sequence[str]
) -> float:
    a, b, c = (found[f"{side}_{point}"] for point in limb[:3])
    return tree.length(a, b) + tree.length(b, c)


def _refuse_missing(tree: Tree, found: dict[str, int]) -> None:
    """Refuse a tree without two legs and two arms."""
    wanted = {
        f"{side} {name}": [f"{side}_{point}" for point in limb[:3]]
        for side in SIDES
        for name, limb in (("leg", LEG), ("arm", ARM))
    }
    missing = [name for name, points in wanted.items() if not set(points) <= set(found)]
    if not missing:
        return
    seen = [
        f"{name} {', '.join(tree.names[found[point]] for point in points)}"
        for name, points in wanted.items()
        if name not in missing
    ]
    reason = f"no {', no '.join(missing)} among {len(tree.names)} joints"
    reason += f"; found {'; '.join(seen)}" if seen else ""
    lines = [f"{reason}. {_NAME_THEM}", *_template(tree, found)]
    raise ClipError("skeleton", "\n".join(lines))


def _template(tree: Tree, found: Mapping[str, int]) -> list[str]:
    """A file for `--map` to be filled in, under the tree of joints."""
    shown, waiting = [], [j for j, parent in enumerate(tree.parents) if parent < 0]
    while waiting:
        joint = waiting.pop(0)
        shown.append(f"#   {'  ' * (len(tree.up[joint]) - 1)}{tree.names[joint]}")
        waiting = tree.children[joint] + waiting
    more = [f"#   and {len(shown) - _TREE_LINES} more"] * (len(shown) > _TREE_LINES)
    lines = ["# The joints of the file:", *shown[:_TREE_LINES], *more]
    named = _by_name(tree, found)
    for point in POINTS:
        name = tree.names[named[point]] if point in named else ""
        remark = "" if point in NEEDED else "  # found by itself if empty"
        lines.append(f"{point} = {json.dumps(name, ensure_ascii=False)}{remark}")
    return lines


def _by_name(tree: Tree, found: Mapping[str, int]) -> dict[str, int]:
    """What was found, and of limbs that were not, joints that are called so."""
    named = dict(found)
    for side, limb in itertools.product(SIDES, (LEG, ARM)):
        for point in limb[:3]:
            if f"{side}_{point}" not in found:
                fits = {
                    joint: meaning.fit(point) or 0.0
                    for joint, meaning in enumerate(tree.meanings)
                    if meaning.side == side and joint not in named.values()
                }
                best = max(fits, key=lambda j: fits[j], default=0)
                if fits.get(best):
                    named[f"{side}_{point}"] = best
    return named


def _check(tree: Tree, found: dict[str, int]) -> None:
    names, lengths = tree.names, []
    for side, limb in itertools.product(SIDES, (LEG, ARM)):
        lengths.append(_limb_length(tree, found, side, limb))
    short = NO_LENGTH * max(lengths)
    for side, (bone, ends) in itertools.product(SIDES, _BONES.items()):
        a, b = (found[f"{side}_{point}"] for point in ends)
        if tree.length(a, b) <= short:
            reason = f"the {side} {bone}, {names[a]} to {names[b]}, has no length"
            raise ClipError("skeleton", reason)
    pelvis, chest = found["pelvis"], found["chest"]
    if tree.length(pelvis, chest) <= short:
        reason = f"no spine between pelvis {names[pelvis]} and chest {names[chest]}"
        raise ClipError("skeleton", reason)
    hip = found["left_hip"]
    if tree.length(pelvis, hip) > _FAR * _limb_length(tree, found, "left", LEG):
        far = f"{names[pelvis]} is far from {names[hip]}"
        raise ClipError("skeleton", f"{far}: name the pelvis in a file for --map")
    for point in ("hip", "shoulder"):
        a, b = (found[f"{side}_{point}"] for side in SIDES)
        if np.linalg.norm(tree.rest[a] - tree.rest[b]) <= short:
            where = f"both {point}s, {names[a]} and {names[b]}, are at one place"
            lines = [f"{where}. {_NAME_THEM}", *_template(tree, found)]
            raise ClipError("skeleton", "\n".join(lines))
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
            other = f"if it is not the ankle, name {side}_ankle in a file for --map"
            raise ClipError("skeleton", f"{reason}; {other}")
    used: dict[int, str] = {}
    for point, joint in found.items():
        if point != "head" and used.setdefault(joint, point) != point:
            reason = f"{names[joint]} would be both {used[joint]} and {point}"
            raise ClipError("skeleton", reason)


def _rest_up(tree: Tree, found: Mapping[str, int]) -> str | None:
    """The axis along which the offsets stand upright: both legs down, the chest up.

    In many files all bones lie along one axis at rest, which tells nothing.
    """
    place = {point: tree.rest[joint] for point, joint in found.items()}
    trunk = place["chest"] - place["pelvis"]
    axis = int(np.argmax(np.abs(trunk)))
    up = np.sign(trunk[axis]) * np.eye(3)[axis]
    legs = [place[f"{side}_hip"] - place[f"{side}_ankle"] for side in SIDES]
    if min(_cosine(part, up) for part in (trunk, *legs)) < _STANDS:
        return None
    return "-" * bool(trunk[axis] < 0) + "xyz"[axis]


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-12))


def _name(names: Sequence[str]) -> str:
    whole = [re.split(r"[:|]", name)[-1] for name in names]
    here = set(map(limbs.plain, (*names, *whole)))
    for name, joints in limbs.TABLE["skeletons"].items():
        if here.issuperset(map(limbs.plain, joints)):
            return name
    return "other"

"""Gestures of a robot that stays where it is, made of key poses.

A controller follows them though nobody recorded them, so what no clip shows can be
played as well. Two tables say what there is, and by which sentences: `gestures.toml` of
arms and waist, `stances.toml` of legs.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from spectral_skills import config as configs
from spectral_skills.control import recorded
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.stances import STANDING, LegPose, stood, values
from spectral_skills.motion.clip import mirror_rows
from spectral_skills.motion.corpus import FPS, Entry
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.generate import LICENCE, SOURCE
from spectral_skills.motion.synthetic.sketch import ease
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder

SIDES = ("right", "left")
"""Sides of a gesture of one arm; they are written for the first."""
_ARM = ("shoulder", "elbow", "wrist")
_ARMS = {
    side: np.array(
        [
            i
            for i, n in enumerate(g1.JOINTS)
            if n.startswith(tuple(f"{side}_{p}" for p in _ARM))
        ]
    )
    for side in SIDES
}
_WAIST = np.array([i for i, name in enumerate(g1.JOINTS) if name.startswith("waist")])
_FILES = ("gestures.toml", "stances.toml")
_MOVED = np.sort(np.concatenate((_WAIST, *_ARMS.values())))


@dataclass(frozen=True)
class KeyPose:
    """A pose of a gesture; what it does not name stays as it was."""

    s: float
    """Duration of the movement to it."""
    left: str = ""
    """Pose of the left arm, by its name."""
    right: str = ""
    both: str = ""
    waist: tuple[float, float, float] | None = None
    """Yaw, roll and pitch, rad; of no effect in stances."""
    legs: str = ""
    """LegPose of the legs, by its name."""


@dataclass(frozen=True)
class Gesture:
    """A gesture as it is written."""

    say: tuple[str, ...]
    """Sentences that ask for it."""
    first: tuple[KeyPose, ...]
    again: tuple[KeyPose, ...] = ()
    """Poses that follow, and are repeated."""
    times: int = 1
    """Number of repetitions."""
    flows: bool = False
    """Whether it passes through its poses without a stop."""

    @property
    def has_stances(self) -> bool:
        return any(key.legs for key in (*self.first, *self.again))


@dataclass(frozen=True)
class Moves:
    """A gesture to either side, or to both."""

    name: str
    sentences: tuple[str, ...]
    rows: np.ndarray
    """(T, 36) float32"""


@cache
def gestures() -> tuple[Moves, ...]:
    """All gestures; those of one arm for the right and for the left."""
    return tuple(_each())


def _each() -> Iterator[Moves]:
    for name, one in _read().gestures.items():
        rows = _rows(one)
        if not any("{side}" in sentence for sentence in one.say):
            yield Moves(name, one.say, rows)
            continue
        for side, other in (SIDES, SIDES[::-1]):
            own = [s for s in one.say if side == SIDES[0] or "{" in s]
            said = tuple(sentence.format(side=side, other=other) for sentence in own)
            yield Moves(f"{name}_{side}", said, rows)
            rows = _mirrored(one, rows)


def _mirrored(gesture: Gesture, rows: np.ndarray) -> np.ndarray:
    """The same to the other side; legs that only stand stay as they are."""
    mirror = mirror_rows(rows)
    if gesture.has_stances:
        return mirror
    found = rows.copy()
    found[:, 7 + _MOVED] = mirror[:, 7 + _MOVED]
    return found


def played(encoder: SkillEncoder) -> Iterator[PlayedBase]:
    """Yield all gestures as skills, each called by its first sentence."""
    for one in gestures():
        about = {"text": "\n".join(one.sentences), "source": SOURCE, "file": ""}
        about |= {"licence": LICENCE, "notes": "", "hash": ""}
        entry = Entry(0, len(one.rows), f"gesture_{one.name}", **about)
        whole = slice(0, len(one.rows))
        made = recorded.of_motion(encoder, one.sentences[0], entry, one.rows, whole)
        yield replace(made, sentences=one.sentences)


class _Tables(NamedTuple):
    poses: dict[str, np.ndarray]
    """Of a left arm."""
    stances: dict[str, LegPose]
    gestures: dict[str, Gesture]


@cache
def _read() -> _Tables:
    tables = [configs.read_table(__file__, name) for name in _FILES]
    poses, stances, found = (
        _joined([table.get(kind, {}) for table in tables])
        for kind in ("poses", "stances", "gestures")
    )
    return _Tables(
        {name: np.array(angles) for name, angles in poses.items()},
        {n: configs.from_dict(LegPose, one, n) for n, one in stances.items()},
        {n: configs.from_dict(Gesture, one, n) for n, one in found.items()},
    )


def _joined(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tables as one; a name that is in several of them is refused."""
    counts = Counter(name for table in tables for name in table)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"{', '.join(_FILES)}: {twice[0]!r} is in several of them")
    return {name: one for table in tables for name, one in table.items()}


def _curves(gesture: Gesture) -> np.ndarray:
    """(T, 29 + 13) angles of the arms and the waist, and the stances."""
    stances = {"": LegPose(), "standing": STANDING} | _read().stances
    pose, stance = _posed(np.zeros(g1.NUM_JOINTS), KeyPose(0.0, both="rest")), STANDING
    numbers = values(None, stance)
    poses, seconds = [np.append(pose, numbers)], [0.0]
    for key in (*gesture.first, *gesture.again * gesture.times):
        pose = _posed(pose, key)
        numbers = values(numbers, stances[key.legs])
        poses.append(np.append(pose, numbers))
        seconds.append(seconds[-1] + key.s)
    t, at = np.arange(round(seconds[-1] * FPS) + 1) / FPS, np.array(seconds)
    if gesture.flows:
        return PchipInterpolator(at, np.array(poses))(t.clip(max=at[-1]))
    curves = np.tile(poses[0], (len(t), 1))
    for i, (before, after) in enumerate(zip(poses, poses[1:], strict=False)):
        share = ease((t - at[i]) / (at[i + 1] - at[i]))
        curves += share[:, None] * (after - before)
    return curves


def _posed(pose: np.ndarray, key: KeyPose) -> np.ndarray:
    """A pose (29,) with what a key changes of it."""
    arms, pose = _read().poses, pose.copy()
    for side, name in (
        ("left", key.both or key.left),
        ("right", key.both or key.right),
    ):
        if name:
            other = np.zeros(g1.NUM_JOINTS)
            other[_ARMS["left"]] = arms[name]
            if side == "right":
                other = other[g1.MIRROR_JOINTS] * g1.MIRROR_SIGNS
            pose[_ARMS[side]] = other[_ARMS[side]]
    if key.waist is not None:
        pose[_WAIST] = key.waist
    return pose


def _rows(gesture: Gesture) -> np.ndarray:
    """(T, 36) a robot that stands, or stands in stances, and moves arms and waist."""
    joints, stances = np.split(_curves(gesture), [g1.NUM_JOINTS], axis=1)
    if gesture.has_stances:
        return stood(stances, joints)
    rows = np.repeat(bases.generate("stand", 1).rows[:1], len(joints), axis=0)
    rows[:, 7 + _MOVED] = joints[:, _MOVED]
    return rows

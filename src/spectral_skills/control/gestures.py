"""Gestures of the arms and the waist of a standing robot, made of key poses.

A controller follows them though nobody recorded them, so what no clip shows can be
played as well. `gestures.toml` says what there is, and by which sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.interpolate import PchipInterpolator

from spectral_skills import config as configs
from spectral_skills.control import recorded
from spectral_skills.control.played import PlayedBase
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
    """Yaw, roll and pitch, rad."""


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


@dataclass(frozen=True)
class Moves:
    """A gesture to either side, or to both."""

    name: str
    sentences: tuple[str, ...]
    rows: np.ndarray
    """(T, 36) float32"""


def gestures() -> Iterator[Moves]:
    """Yield all gestures; those of one arm for the right and for the left."""
    for name, one in _read()[1].items():
        joints = _joints(one)
        if not any("{side}" in sentence for sentence in one.say):
            yield Moves(name, one.say, _rows(joints))
            continue
        for side in SIDES:
            own = [s for s in one.say if side == SIDES[0] or "{side}" in s]
            said = tuple(sentence.format(side=side) for sentence in own)
            yield Moves(f"{name}_{side}", said, _rows(joints))
            joints = joints[:, g1.MIRROR_JOINTS] * g1.MIRROR_SIGNS


def played(encoder: SkillEncoder) -> Iterator[PlayedBase]:
    """Yield all gestures as skills, each called by its first sentence."""
    for one in gestures():
        about = {"text": "\n".join(one.sentences), "source": SOURCE, "file": ""}
        about |= {"licence": LICENCE, "notes": "", "hash": ""}
        entry = Entry(0, len(one.rows), f"gesture_{one.name}", **about)
        whole = slice(0, len(one.rows))
        made = recorded.of_motion(encoder, one.sentences[0], entry, one.rows, whole)
        yield replace(made, sentences=one.sentences)


@cache
def _read() -> tuple[dict[str, np.ndarray], dict[str, Gesture]]:
    """Poses of a left arm, and gestures."""
    table = configs.read_table(__file__)
    poses = {name: np.array(angles) for name, angles in table["poses"].items()}
    found = table["gestures"].items()
    return poses, {n: configs.from_dict(Gesture, one, n) for n, one in found}


def _joints(gesture: Gesture) -> np.ndarray:
    """(T, 29) angles of the arms and the waist; the legs are zero."""
    pose = _posed(np.zeros(g1.NUM_JOINTS), KeyPose(0.0, both="rest"))
    poses, seconds = [pose], [0.0]
    for key in (*gesture.first, *gesture.again * gesture.times):
        pose = _posed(pose, key)
        poses.append(pose)
        seconds.append(seconds[-1] + key.s)
    t, at = np.arange(round(seconds[-1] * FPS) + 1) / FPS, np.array(seconds)
    if gesture.flows:
        return PchipInterpolator(at, np.array(poses))(t.clip(max=at[-1]))
    joints = np.tile(poses[0], (len(t), 1))
    for i, (before, after) in enumerate(zip(poses, poses[1:], strict=False)):
        share = ease((t - at[i]) / (at[i + 1] - at[i]))
        joints += share[:, None] * (after - before)
    return joints


def _posed(pose: np.ndarray, key: KeyPose) -> np.ndarray:
    """A pose (29,) with what a key changes of it."""
    arms, pose = _read()[0], pose.copy()
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


def _rows(joints: np.ndarray) -> np.ndarray:
    """(T, 36) a robot that stands still and moves its arms and its waist."""
    rows = np.repeat(bases.generate("stand", 1).rows[:1], len(joints), axis=0)
    rows[:, 7 + _MOVED] = joints[:, _MOVED]
    return rows

"""How good a robot's version of a person's motion is, and what is too bad to keep.

Everything is measured on MuJoCo's model, not on what the solver believes. The person
is scaled by the ratio of leg lengths about the middle of the hips, frame by frame, so
that errors do not depend on where the robot is: what is left is the difference of
poses and of proportions, as a trunk or an arm is not scaled like the legs.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spectral_skills.config import from_dict, to_dict
from spectral_skills.motion.checks import Evidence, Plausibility, share, summary
from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.human.fit import Fit
from spectral_skills.motion.human.recording import SIDES, point
from spectral_skills.robot import g1

LINK_OF_POINT = {
    f"{side}_{name}": f"{side}_{link}_link"
    for side in SIDES
    for name, link in {
        "hip": "hip_roll",
        "knee": "knee",
        "ankle": "ankle_roll",
        "shoulder": "shoulder_roll",
        "elbow": "elbow",
        "wrist": "wrist_pitch",
    }.items()
}
"""Links of the robot whose origins correspond to points of a person."""


def _chain(side: str, *parts: str) -> tuple[tuple[str, str], ...]:
    """Bones from one point of a side to the next."""
    return tuple((f"{side}_{a}", f"{side}_{b}") for a, b in pairwise(parts))


BONES = tuple(
    bone
    for side in SIDES
    for chain in (("hip", "knee", "ankle"), ("shoulder", "elbow", "wrist"))
    for bone in _chain(side, *chain)
)
"""Bones whose directions the robot should have."""


def _limb(side: str, *parts: str) -> tuple[list[int], tuple]:
    """Joints of a limb and the bones that turn with it, with the line that it hangs
    on from side to side."""
    names = tuple(f"{side}_{part}" for part in parts)
    own = [i for i, joint in enumerate(g1.JOINTS) if joint.startswith(names)]
    return own, (*_chain(side, *parts), _across(parts[0]))


def _across(part: str) -> tuple[str, str]:
    return f"left_{part}", f"right_{part}"


_LIMBS = (
    *(_limb(side, "hip", "knee", "ankle", "toe") for side in SIDES),
    *(_limb(side, "shoulder", "elbow", "wrist", "hand") for side in SIDES),
    (
        [i for i, joint in enumerate(g1.JOINTS) if joint.startswith("waist")],
        (_across("hip"), _across("shoulder"), ("pelvis", "neck")),
    ),
)
"""Joints, and the bones of a person that they should not outrun."""
SKATING_M_S, SUNK_M, INSIDE_M, FLOATING_M = 0.1, 0.02, 0.02, 0.03
LIMB_OFF = np.radians(60)
"""What one sees at a glance in a film."""
_JUMP_RAD_S, _JUMP_OF_LIMB, _JUMP_OF_HIPS_M_S = 12.0, 3.0, 1.5
"""A joint jumps that is so much faster than so many times the person's limb; hips, that
leave the scaled person's so fast."""


@dataclass(frozen=True)
class Quality:
    """Measures of one clip. Shares are of frames where nothing else is said."""

    frames: int
    floor_share: float  # with any shape over a centimetre under the floor
    sunk_share: float  # over two centimetres
    floor_depth_mm: float
    floating_share: float  # with no shape within three centimetres of the floor
    planted_share: float  # of feet and frames; see `checks.planted_speeds`
    planted_fast_share: float  # of those, faster than 2 cm/s
    skating_share: float  # of those, faster than 10 cm/s
    self_share: float  # with a link over a centimetre inside another
    inside_share: float  # over two centimetres
    self_depth_mm: float
    self_pair: str
    limit_excess: float  # farthest beyond a joint's limit, rad
    speed_ratio: float  # of the fastest joint, to its motor's limit
    joint_acceleration_95: float  # over joints and frames, rad/s^2
    jump_share: float  # with a joint, or hips, that move fast while the person's do not
    hips_off: float  # fastest that hips leave the scaled person's, m/s
    point_error_mm: float  # mean over frames and links of the distance to the person
    point_error_95_mm: float
    bone_error_deg: float  # mean over frames and limbs of the angle to the person's
    limb_off_share: float  # with a limb over 60 degrees off the person's
    airborne_share: float  # with both feet off the floor
    torque_share: float  # with all motors within their limits
    balanced_share: float  # of loaded frames, with the zero-moment point in the soles
    balance_95: float  # distance of that point outside, m
    worst: dict[str, int] = field(default_factory=dict)
    """Frames to look at, by the measure that is worst there."""

    def to_json(self) -> str:
        return json.dumps(to_dict(self))

    @classmethod
    def from_json(cls, text: str) -> "Quality":
        return from_dict(cls, json.loads(text))


def pooled(clips: Sequence[Mapping[str, Any]], measure: str) -> float:
    """A measure of all frames of some clips, or of all their planted feet where it is
    of those; clips are the fields of a `Quality`, or of a `Plausibility`."""
    weights = np.array([clip["frames"] for clip in clips], dtype=np.float64)
    if measure in _OF_PLANTED:
        weights *= [clip["planted_share"] for clip in clips]
    values = [clip[measure] for clip in clips]
    return float(np.average(values, weights=weights)) if weights.any() else 0.0


_OF_PLANTED = ("planted_fast_share", "skating_share")


def measure(fit: Fit) -> Quality:
    """Measure a robot's motion at the corpus' rate against the person's."""
    found = Evidence.of(fit.qpos, FPS)
    known, shapes, joints = summary(found), found.shapes, found.qpos[:, 7:]
    low, high = g1.JOINT_LIMITS.T
    excess = np.maximum(low - joints, joints - high).max(axis=1)
    speed = np.abs(np.diff(joints, axis=0)) * FPS
    ratio = (speed / g1.VELOCITY_LIMIT).max(axis=1)
    planted = found.planted[~np.isnan(found.planted)]
    points, bones = point_errors(found, fit), bone_errors(found, fit)
    hips_off = _hips_off(found, fit)
    jumps = np.maximum(
        _outrun(joints, fit.human) / _JUMP_RAD_S, hips_off / _JUMP_OF_HIPS_M_S
    )
    fastest = np.nan_to_num(found.planted).max(axis=1)
    worst = {
        "floor": shapes.lowest.argmin(),
        "floating": shapes.lowest.argmax(),
        "feet": fastest.argmax(),
        "self": shapes.own_depth.argmax(),
        "limits": excess.argmax(),
        "speed": ratio.argmax(),
        "jump": jumps.argmax(),
        "hips": hips_off.argmax(),
        "bones": bones.max(axis=1).argmax(),
    }
    same = {name: getattr(known, name) for name in _SAME}
    return Quality(
        **same,
        sunk_share=share(shapes.lowest < -SUNK_M),
        floating_share=share(shapes.lowest > FLOATING_M),
        skating_share=share(planted > SKATING_M_S),
        inside_share=share(shapes.own_depth > INSIDE_M),
        limit_excess=float(excess.max().clip(0.0)),
        jump_share=share(jumps > 1),
        hips_off=float(hips_off.max()),
        point_error_mm=1e3 * float(points.mean()),
        point_error_95_mm=1e3 * float(np.percentile(points, 95)),
        bone_error_deg=float(np.degrees(bones.mean())),
        limb_off_share=share(bones.max(axis=1) > LIMB_OFF),
        worst={name: int(frame) for name, frame in worst.items()},
    )


_SAME = Quality.__annotations__.keys() & Plausibility.__annotations__.keys()
_SAME -= {"limit_excess"}  # of soft limits there, of the joints' own here


def _links(found: Evidence, names: list[str]) -> np.ndarray:
    """(T, names, 3) places of the links that correspond to points, m."""
    chosen = [g1.LINKS.index(LINK_OF_POINT[name]) for name in names]
    return found.shapes.links[:, chosen]


def point_errors(found: Evidence, fit: Fit) -> np.ndarray:
    """(T, 10) distance of knees, ankles, shoulders, elbows and wrists to the person's,
    scaled about the middle of the hips, m."""
    names = [name for name in LINK_OF_POINT if not name.endswith("hip")]
    robot, middle = _links(found, names), _hips(found, fit)
    person = fit.scale * fit.human[:, [point(name) for name in names]]
    apart = (robot - middle[0][:, None]) - (person - middle[1][:, None])
    return np.linalg.norm(apart, axis=-1)


def _hips(found: Evidence, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """(T, 3) between the hips, of the robot and of the scaled person, m."""
    links = [g1.LINKS.index(f"{side}_hip_pitch_link") for side in SIDES]
    points = [point(f"{side}_hip") for side in SIDES]
    robot, person = found.shapes.links[:, links], fit.scale * fit.human[:, points]
    return robot.mean(axis=1), person.mean(axis=1)


def _hips_off(found: Evidence, fit: Fit) -> np.ndarray:
    """(T - 1,) how fast the robot's hips leave the scaled person's, m/s."""
    robot, person = _hips(found, fit)
    return FPS * np.linalg.norm(np.diff(robot - person, axis=0), axis=1)


def bone_errors(found: Evidence, fit: Fit) -> np.ndarray:
    """(T, 8) angles between the limbs of the robot and of the person, rad."""
    starts, ends = (list(names) for names in zip(*BONES, strict=True))
    robot = _links(found, ends) - _links(found, starts)
    return _angles(robot, _bones(fit.human, BONES))


def _bones(points: np.ndarray, bones: Iterable[tuple[str, str]]) -> np.ndarray:
    """(T, bones, 3) of a person, m."""
    starts, ends = (list(map(point, names)) for names in zip(*bones, strict=True))
    return points[:, ends] - points[:, starts]


def _outrun(joints: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(T - 1,) how much a joint is faster than the person's limb allows, rad/s."""
    worst = np.full(len(joints) - 1, -np.inf)
    speed = FPS * np.abs(np.diff(joints, axis=0))
    for own, bones in _LIMBS:
        limb = _bones(points, bones)
        turns = FPS * _angles(limb[1:], limb[:-1]).max(axis=1)
        excess = speed[:, own].max(axis=1) - _JUMP_OF_LIMB * turns
        worst = np.maximum(worst, excess)
    return worst


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    across = np.linalg.norm(np.cross(a, b), axis=-1)
    return np.arctan2(across, (a * b).sum(axis=-1))


class _Rule(NamedTuple):
    """A measure that refuses a clip when it is above a limit."""

    kind: str
    measure: str
    limit: float
    worst: str  # the frame to look at
    reason: str  # of the value


_RULES = (
    _Rule(
        *("under floor", "sunk_share", 0.03, "floor"),
        "over 2 cm under the floor in {value:.0%} of frames, deepest "
        "{floor_depth_mm:.0f} mm",
    ),
    _Rule(
        *("floats", "floating_share", 0.5, "floating"),
        "nothing is within 3 cm of the floor in {value:.0%} of frames",
    ),
    _Rule(
        *("feet skate", "skating_share", 0.05, "feet"),
        "{value:.0%} of planted feet move faster than 10 cm/s",
    ),
    _Rule(
        *("self-contact", "inside_share", 0.05, "self"),
        "links are over 2 cm inside each other in {value:.0%} of frames, "
        "deepest {self_pair}, {self_depth_mm:.0f} mm",
    ),
    _Rule(
        *("joint limits", "limit_excess", 0.01, "limits"),
        "a joint is {value:.2f} rad beyond its limit",
    ),
    _Rule(
        *("joint speed", "speed_ratio", 1.001, "speed"),
        "a joint is {value:.1f} times as fast as its motor",
    ),
    _Rule(
        *("hips jump", "hips_off", 4.0, "hips"),
        "hips leave the person's at {value:.1f} m/s",
    ),
    _Rule(
        *("joints jump", "jump_share", 0.01, "jump"),
        "joints or hips jump in {value:.1%} of frames, in which the person is slow",
    ),
    _Rule(
        *("unlike person", "bone_error_deg", 25.0, "bones"),
        "limbs are {value:.0f} degrees off the person's on average",
    ),
    _Rule(
        *("unlike person", "limb_off_share", 0.03, "bones"),
        "a limb is over 60 degrees off the person's in {value:.0%} of frames",
    ),
)
"""What one sees in a film: worse is refused. The first that applies is the reason."""


def judge(quality: Quality) -> ClipError | None:
    """Why a clip is too bad to keep, with the frame to look at; None if it is not."""
    for rule in _RULES:
        value = getattr(quality, rule.measure)
        if not value <= rule.limit:  # also what is not a number
            frame = quality.worst.get(rule.worst)
            reason = rule.reason.format(value=value, **to_dict(quality))
            return ClipError(rule.kind, reason, frame)
    return None

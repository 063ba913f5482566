"""A person's motion made the robot's, the whole clip at once.

The robot takes the directions of the person's bones and its own lengths. The path of
the hips is scaled by the ratio of the legs, so that speeds and steps shrink together.
Feet stand where the person's do (see `feet`). What is left is inverse kinematics of
all frames at once: fitting every frame alternates with smoothing over time, so that no
frame depends on the first, and none is far from its neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.interpolate import make_interp_spline
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation
from torch import Tensor

from spectral_skills.motion import legs
from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.collisions import Clearance
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.human import arms, feet, flights
from spectral_skills.motion.human import balance as balancing
from spectral_skills.motion.human.feet import Soles, Stance, find_contacts, smoothed
from spectral_skills.motion.human.recording import SIDES, Recording
from spectral_skills.motion.ik import InverseKinematics, Pull, limit_velocity
from spectral_skills.motion.targets import BoneTarget, PoseTarget
from spectral_skills.robot import g1

STRAIGHT_M = 0.65  # from hip to ankle, what a person's straight leg becomes
_TREMOR_FRAMES = 1.0  # of the corpus' rate, over which a person's points are averaged
_UPRIGHT = 0.9  # the trunk's vertical part, and the legs' share of their length

# Frames between those that are fitted from the default pose, and steps of the solver:
# there, in every pass over all frames, and in the last one of the legs alone.
_STRIDE, _FIRST_STEPS, _STEPS, _LEG_STEPS = 4, 10, 3, 5
_AT_ONCE = 1024  # frames: what they need stays small, however long a clip is
_PULLS = (0.01, 0.1)  # of each pass towards the smoothed joints
_SMOOTH, _SMOOTH_ARMS = 3.0, 0.3
_HIP_YAW = 1.0  # as far as people's; the robot's own would turn knees outwards
_MARGIN_M, _PUSH, _FLOOR_PUSH = 0.01, 30.0, 300.0
_LEGS = tuple(j for j in g1.JOINTS if any(p in j for p in ("hip", "knee", "ankle")))
_WAIST = 7 + len(_LEGS)
_CALM_FRAMES = 3


class Bone(NamedTuple):
    """A limb of the robot that points as a person's does."""

    points: tuple[str, str]  # of the person, from and to
    base: str
    link: str
    length_m: float
    weight: float
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)


_BONES = (
    Bone(("shoulder", "elbow"), "shoulder_roll", "elbow", 0.185, 1.0),
    Bone(("elbow", "wrist"), "elbow", "wrist_pitch", 0.139, 1.0),
    Bone(("wrist", "hand"), "wrist_yaw", "wrist_yaw", 0.1, 0.02, (0.1, 0.0, 0.0)),
)
_THIGH_WEIGHT = 0.1
# Hands of a person that are near each other are so too on the robot, which needs some
# room between them; m, and the weight where they touch.
_HANDS_NEAR_M, _HANDS_APART_M, _HANDS_WEIGHT = 0.15, 0.09, 2.0
_PALM = (0.1, 0.0, 0.0)
_HIPS = [(0.0, sign * legs.HIP_OUT_M, -legs.HIP_BELOW_M) for sign in (1, -1)]


@dataclass(frozen=True)
class Fit:
    """A robot's motion with the person's that it follows, frame by frame at 50 Hz."""

    qpos: np.ndarray  # (T, 36)
    human: np.ndarray  # (T, 20, 3) points of the person, m
    contacts: np.ndarray  # (T, 2) bool, feet that stand
    scale: float  # robot's leg over the person's


def fit(person: Recording, balance: bool = False) -> Fit:
    """Fit the robot to a person; in `balance` the weight is over the feet."""
    recorded, person = person, resampled(person)
    stance, scale = find_contacts(person), STRAIGHT_M / person.leg_m()
    if found := flights.find_flights(person, stance.standing):
        person = resampled(recorded, flights.shown_at(person, found, scale))
        stance = find_contacts(person)
    trunk = TrunkPath.of(person, scale, stance)
    soles = feet.plan(person, stance, scale, trunk.pelvis)
    rows = _solver().rows(person, trunk, soles)
    for _ in range(balancing.PASSES if balance else 0):
        trunk = trunk._replace(hips=trunk.hips + balancing.shift(rows, soles))
        rows = _solver().rows(person, trunk, soles)
    return Fit(rows, person.points, soles.standing, scale)


def resampled(person: Recording, at: np.ndarray | None = None) -> Recording:
    """The same motion, free of tremor, at the rate of a corpus or at given times, s:
    cubic splines."""
    times = np.arange(person.frames) / person.fps
    count = int(np.floor(times[-1] * FPS + 1e-6)) + 1
    if count < 4:
        raise ClipError("empty", f"{person.name} lasts {times[-1]:.3f} s")
    if at is None:
        at = np.arange(count) / FPS

    def curves(values: np.ndarray) -> np.ndarray:
        sigma = _TREMOR_FRAMES * person.fps / FPS
        values = gaussian_filter1d(values, sigma, axis=0, mode="nearest")
        return make_interp_spline(times, values, min(3, len(values) - 1))(at)

    bone = person.pelvis_turn
    if bone is not None:
        bone = _quaternion(curves(_matrix(bone)))
    points = curves(person.points)
    return replace(person, fps=float(FPS), points=points, pelvis_turn=bone)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector, axis=-1, keepdims=True).clip(1e-9)


def axes(up: np.ndarray, left: np.ndarray, keep_left: bool = False) -> np.ndarray:
    """(T, 3, 3) with ahead, left and up as columns; up is kept exactly, or left."""
    up, left = unit(up), unit(left)
    ahead = unit(np.cross(left, up))
    if keep_left:
        up = np.cross(ahead, left)
    else:
        left = np.cross(up, ahead)
    return np.stack((ahead, left, up), axis=-1)


class TrunkPath(NamedTuple):
    """What pelvis and torso of the robot shall do."""

    hips: np.ndarray  # (T, 3) between both hip joints, m
    pelvis: np.ndarray  # (T, 3, 3) ahead, left and up as columns
    torso: np.ndarray  # (T, 3, 3)

    @classmethod
    def of(cls, person: Recording, scale: float, stance: Stance) -> "TrunkPath":
        at = person.at
        middle = 0.5 * (at("left_hip") + at("right_hip"))
        # Half way between hip joints and pelvis is under the neck of who stands.
        spine = at("neck") - 0.5 * (middle + at("pelvis"))
        torso = axes(spine, at("left_shoulder") - at("right_shoulder"))
        hips = scale * middle
        hips[:, 2] += feet.FLAT_M - scale * stance.ankle_m.mean()
        return cls(hips, _pelvis(person, spine, middle), torso)


def _pelvis(person: Recording, spine: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """(T, 3, 3) how the pelvis is turned."""
    at = person.at
    across, above = at("left_hip") - at("right_hip"), at("pelvis") - middle
    usual = axes(spine, across, keep_left=True)
    if person.pelvis_turn is not None:
        bone = _matrix(person.pelvis_turn)
    elif np.median(np.linalg.norm(above, axis=1)) > 0.03:
        bone = axes(above, across, keep_left=True)
    else:
        return usual
    # The bone's own axes may be any: on average the spine's while a person is upright.
    lines = [at(f"{side}_hip") - at(f"{side}_ankle") for side in SIDES]
    shorter = np.linalg.norm(lines, axis=2).min(axis=0)
    upright = shorter > _UPRIGHT * person.leg_m()
    upright &= unit(spine)[:, 2] > _UPRIGHT
    some = upright if upright.sum() > 10 else np.ones(person.frames, bool)
    mean = (np.swapaxes(bone[some], 1, 2) @ usual[some]).sum(axis=0)
    return bone @ Rotation.from_matrix(mean).as_matrix()


@cache
def _solver() -> "Solver":
    return Solver()


class Solver:
    """What all clips share."""

    def __init__(self):
        limits = g1.SOFT_LIMITS.copy()
        limits[[name.endswith("hip_yaw") for name in g1.JOINTS]] = -_HIP_YAW, _HIP_YAW

        def solver(joints: tuple[str, ...], steps: int) -> InverseKinematics:
            return InverseKinematics(joints, iterations=steps, limits=limits)

        self._first = solver(g1.JOINTS, _FIRST_STEPS)
        self._again = solver(g1.JOINTS, _STEPS)
        self._legs = solver(_LEGS, _LEG_STEPS)
        whole, below = self._again.jacobians.carried, self._legs.jacobians.carried
        self._clearance = Clearance(whole, _MARGIN_M, 0.0, _PUSH)
        self._floor = Clearance(below, None, 0.0, _FLOOR_PUSH)

    def rows(self, person: Recording, trunk: TrunkPath, soles: Soles) -> np.ndarray:
        """(T, 36) rows that follow a person, smooth over time."""
        count = person.frames
        start = np.tile(g1.DEFAULT_QPOS, (count, 1))
        start[:, :3] = trunk.hips + legs.HIP_BELOW_M * trunk.pelvis[:, :, 2]
        start[:, 3:7] = _quaternion(trunk.pelvis)
        placed, start[:, 2] = soles.reached(start, lower=True)
        upper = _upper_targets(person, start, trunk)
        keys = np.unique(np.append(np.arange(0, count, _STRIDE), count - 1))
        rest = torch.from_numpy(g1.DEFAULT_JOINTS)
        rows = _solved(
            self._first,
            start[keys],
            [_at(t, keys) for t in (*upper, *_foot_targets(placed))],
            self._clearance,
            Pull(rest.expand(len(keys), -1), torch.full_like(rest, 1e-4)),
        )
        rows = _blended(arms.unturned(rows, keys), keys, count)
        fastest = arms.fastest(person)
        for strength in _PULLS:
            near = _smoothed(rows, _SMOOTH)
            near[:, arms.FIRST :] = arms.slowed(near[:, arms.FIRST :], fastest)
            placed, _ = soles.reached(near)
            near = placed.bent(near)
            weight = torch.full_like(rest, strength)
            weight[: len(_LEGS)] = 1e-4
            targets = [*upper, *_foot_targets(placed)]
            pull = Pull(torch.from_numpy(near)[:, 7:], weight)
            rows = _solved(self._again, near, targets, self._clearance, pull)
        return self._on_its_feet(rows, soles, fastest)

    def _on_its_feet(
        self, rows: np.ndarray, soles: Soles, fastest: np.ndarray
    ) -> np.ndarray:
        """Trunk and arms stay as they are now; legs bring the feet in place."""
        above, rows = _smoothed(rows, _SMOOTH_ARMS), _smoothed(rows, _SMOOTH)
        rows[:, arms.FIRST :] = arms.slowed(above[:, arms.FIRST :], fastest)
        placed, rows[:, 2] = soles.reached(rows, lower=True)
        rows = placed.bent(rows)
        root = torch.from_numpy(rows[:, :7])
        held = PoseTarget("pelvis", root[:, :3], root[:, 3:], 30.0, 30.0)
        targets = [held, *_foot_targets(placed)]
        rows = _solved(self._legs, rows, targets, self._floor)
        rows = _calmed(rows, soles.standing)
        low, high = g1.SOFT_LIMITS.T
        joints = torch.from_numpy(rows[None, :, 7:].clip(low, high))
        limit = torch.from_numpy(0.9 * g1.VELOCITY_LIMIT / FPS)
        rows[:, 7:] = limit_velocity(joints, limit)[0].numpy()
        return rows


def _solved(
    solver: InverseKinematics,
    start: np.ndarray,
    targets: Sequence[PoseTarget | BoneTarget],
    clearance: Clearance,
    pull: Pull | None = None,
) -> np.ndarray:
    """Rows (T, 36) that reach the targets, every frame by itself, some at a time."""
    rows = np.empty_like(start)
    for first in range(0, len(start), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        begin = torch.from_numpy(start[part, None])
        some = [_at(target, (part, None)) for target in targets]
        near = None if pull is None else pull._replace(joints=pull.joints[part, None])
        found = solver.solve(begin, some, FPS, near, clearance)
        rows[part] = found.qpos[:, 0].numpy()
    return rows


def _calmed(rows: np.ndarray, standing: np.ndarray) -> np.ndarray:
    """Rows (T, 36) whose legs are smooth while they swing."""
    rows, calm = rows.copy(), smoothed(rows[:, 7:_WAIST], _SMOOTH)
    size = calm.shape[1] // 2
    for number, stands in enumerate(standing.T):
        part = np.clip((feet.frames_from(stands) - 1) / _CALM_FRAMES, 0.0, 1.0)
        leg = slice(number * size, (number + 1) * size)
        joints = rows[:, 7:_WAIST][:, leg]
        joints += part[:, None] * (calm[:, leg] - joints)
    return rows


def _matrix(quaternion: np.ndarray) -> np.ndarray:
    return Rotation.from_quat(quaternion, scalar_first=True).as_matrix()


def _quaternion(matrix: np.ndarray) -> np.ndarray:
    return Rotation.from_matrix(matrix).as_quat(scalar_first=True)


def _upper_targets(
    person: Recording, start: np.ndarray, trunk: TrunkPath
) -> list[PoseTarget | BoneTarget]:
    """Pelvis, torso, arms and, weakly, thighs."""
    pelvis, torso = torch.from_numpy(start), torch.from_numpy(_quaternion(trunk.torso))
    targets: list[PoseTarget | BoneTarget] = []
    targets.append(PoseTarget("pelvis", pelvis[:, :3], pelvis[:, 3:7], 3.0, 0.1))
    targets.append(PoseTarget("torso_link", quaternion=torso, orientation_weight=0.1))

    def along(side: str, start: str, end: str, length_m: float) -> Tensor:
        line = person.at(f"{side}_{end}") - person.at(f"{side}_{start}")
        return torch.from_numpy(length_m * unit(line))

    for side, hip in zip(SIDES, _HIPS, strict=True):
        thigh = along(side, "hip", "knee", legs.THIGH_M)
        knee = f"{side}_knee_link"
        targets.append(BoneTarget(knee, "pelvis", thigh, _THIGH_WEIGHT, base_point=hip))
        targets += [
            BoneTarget(
                f"{side}_{bone.link}_link",
                f"{side}_{bone.base}_link",
                along(side, *bone.points, bone.length_m),
                bone.weight,
                bone.point,
            )
            for bone in _BONES
        ]
    targets.append(_hands(person, trunk))
    return targets


def _hands(person: Recording, trunk: TrunkPath) -> BoneTarget:
    """From the left palm to the right one."""
    line = person.at("right_hand") - person.at("left_hand")
    near = np.exp(-np.linalg.norm(line, axis=1) / _HANDS_NEAR_M)
    # Hands that are at the same place are where they belong, side by side.
    line = line - 0.03 * trunk.torso[:, :, 1]
    far = np.linalg.norm(line, axis=1)
    scale = STRAIGHT_M / person.leg_m()
    length = np.hypot(scale * far, _HANDS_APART_M)
    weight = torch.from_numpy(_HANDS_WEIGHT * near)[:, None]
    vector = torch.from_numpy(length[:, None] * unit(line))
    left, right = g1.WRISTS
    return BoneTarget(right, left, vector, weight, _PALM, _PALM)


def _foot_targets(soles: Soles) -> list[PoseTarget]:
    targets = []
    for link, foot, standing in zip(g1.FEET, soles.feet, soles.standing.T, strict=True):
        angles = np.stack((foot.yaw, foot.pitch, foot.roll), axis=1)
        turn = Rotation.from_euler("ZYX", angles).as_quat(scalar_first=True)
        stands = torch.from_numpy(standing)[:, None].double()
        targets.append(
            PoseTarget(
                link,
                torch.from_numpy(foot.position),
                torch.from_numpy(turn),
                position_weight=3 + 27 * stands,
                orientation_weight=0.02 + stands,
            )
        )
    return targets


def _at(target: PoseTarget | BoneTarget, frames: np.ndarray | tuple):
    def some(value):
        return value[frames] if isinstance(value, Tensor) else value

    changed = {name: some(value) for name, value in vars(target).items()}
    return replace(target, **changed)


def _unflipped(rows: np.ndarray) -> np.ndarray:
    """The same rows, quaternions with signs that do not change from row to row."""
    turn = rows[:, 3:7]
    flips = np.where((turn[1:] * turn[:-1]).sum(axis=1) < 0, -1.0, 1.0)
    turn = turn * np.concatenate(([1.0], np.cumprod(flips)))[:, None]
    return np.concatenate((rows[:, :3], turn, rows[:, 7:]), axis=1)


def _smoothed(rows: np.ndarray, strength: float) -> np.ndarray:
    rows = smoothed(_unflipped(rows), strength)
    rows[:, 3:7] = unit(rows[:, 3:7])
    return rows


def _blended(rows: np.ndarray, frames: np.ndarray, count: int) -> np.ndarray:
    """Rows (count, 36) between those of some frames, the first and last among them."""
    at, rows = np.arange(count), _unflipped(rows)
    after = np.searchsorted(frames, at, side="right").clip(1, len(frames) - 1)
    start, end = frames[after - 1], frames[after]
    part = ((at - start) / (end - start))[:, None]
    blend = (1 - part) * rows[after - 1] + part * rows[after]
    blend[:, 3:7] = unit(blend[:, 3:7])
    return blend

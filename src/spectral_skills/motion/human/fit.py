"""A person's motion made the robot's: the whole clip at once.

The robot takes the directions of the person's bones and its own lengths. The path of
the hips is scaled by the ratio of the legs, so that speeds and steps shrink together.
Feet stand where the person's do, without sliding and flat, and swing between as the
person's; arms and trunk follow the person's directions. What is left is inverse
kinematics of all frames at once, in which smoothing over time alternates with fitting.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.interpolate import make_interp_spline
from scipy.linalg import solveh_banded
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation
from torch import Tensor

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.collisions import Clearance
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.human.contacts import Feet, find_contacts
from spectral_skills.motion.human.recording import SIDES, Recording
from spectral_skills.motion.ik import (
    BoneTarget,
    InverseKinematics,
    PoseTarget,
    Pull,
    limit_velocity,
)
from spectral_skills.robot import g1

# Of the robot: the hips' pitch axes below and beside the pelvis, from there to the
# ankle's roll axis, and the ankle above the floor, m.
HIP_BELOW_M, HIP_OUT_M, LEG_M, ANKLE_M = 0.1027, 0.1185, 0.6542, 0.035
STRAIGHT = 0.99  # share of the leg that a person's straight leg becomes
_REACH_M = 0.995 * LEG_M
_UPPER_ARM_M, _FOREARM_M, _THIGH_M, _SHANK_M = 0.185, 0.139, 0.337, 0.318
_HAND_POINT = (0.1, 0.0, 0.0)
_TOE_M, _HEEL_M, _SOLE_M = 0.132, -0.054, 0.025
_SMOOTH_FRAMES = 1.0  # of the person's points
_UPRIGHT = 0.9  # the trunk's vertical part, and the legs' share of their length
_FLAT_RAD = (0.05, 0.3)  # heels that rise less stay down; those above rise as much
_CLEARANCE_M, _CLEARANCE_FRAMES = 0.015, 3
_EASE_FRAMES = 15.0
_STRIDE, _FIRST_STEPS, _STEPS, _LEG_STEPS = 4, 10, 3, 5
_PULLS = (0.01, 0.1)
_MARGIN_M = 0.01
_ARM = 7 + g1.joint_index("left_shoulder_pitch")  # all columns from here are arms
_LEGS = tuple(j for j in g1.JOINTS if any(p in j for p in ("hip", "knee", "ankle")))


@dataclass(frozen=True)
class Fit:
    """A robot's motion with the person's that it follows, frame by frame at 50 Hz."""

    qpos: np.ndarray  # (T, 36)
    human: np.ndarray  # (T, 20, 3) points of the person, m
    contacts: np.ndarray  # (T, 2) bool, feet that stand
    scale: float  # robot's leg over the person's
    notes: tuple[str, ...] = ()


def resample(person: Recording, fps: float = FPS) -> Recording:
    """The same motion, free of tremor, at another rate: cubic splines."""
    times = np.arange(person.frames) / person.fps
    count = int(np.floor(times[-1] * fps + 1e-6)) + 1
    if count < 4:
        raise ClipError("empty", f"{person.name} lasts {times[-1]:.3f} s")
    at = np.arange(count) / fps

    def curves(values: np.ndarray) -> np.ndarray:
        sigma = _SMOOTH_FRAMES * person.fps / fps
        values = gaussian_filter1d(values, sigma, axis=0, mode="nearest")
        order = min(3, len(values) - 1)
        return make_interp_spline(times, values, order, axis=0)(at)

    def turns(values: np.ndarray | None) -> np.ndarray | None:
        if values is None:
            return None
        matrix = curves(Rotation.from_quat(values, scalar_first=True).as_matrix())
        return Rotation.from_matrix(matrix).as_quat(scalar_first=True)

    return replace(
        person,
        fps=float(fps),
        points=curves(person.points),
        pelvis_turn=turns(person.pelvis_turn),
        chest_turn=turns(person.chest_turn),
    )


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector, axis=-1, keepdims=True).clip(1e-9)


def frame(up: np.ndarray, left: np.ndarray, first: str = "up") -> np.ndarray:
    """(T, 3, 3) axes ahead, left, up as columns; the `first` is kept exactly."""
    up, left = unit(up), unit(left)
    ahead = unit(np.cross(left, up))
    if first == "up":
        left = np.cross(up, ahead)
    else:
        up = np.cross(ahead, left)
    return np.stack((ahead, left, up), axis=-1)


class TrunkPath(NamedTuple):
    """Poses that the trunk shall take."""

    scale: float
    hips: np.ndarray  # (T, 3) between both hip joints, m
    pelvis: np.ndarray  # (T, 3, 3)
    torso: np.ndarray  # (T, 3, 3)


def trunk(person: Recording, feet: Feet) -> TrunkPath:
    """Pelvis and torso of the robot from the person's."""
    at = person.at
    scale = STRAIGHT * LEG_M / person.leg_m()
    middle = 0.5 * (at("left_hip") + at("right_hip"))
    # Half way between hip joints and pelvis, people who stand have it under the neck.
    spine = at("neck") - 0.5 * (middle + at("pelvis"))
    across = at("left_hip") - at("right_hip")
    torso = frame(spine, at("left_shoulder") - at("right_shoulder"))
    pelvis = frame(spine, across, first="left")
    turn = person.pelvis_turn
    if turn is not None:
        carried = Rotation.from_quat(turn, scalar_first=True).as_matrix()
    else:
        carried = frame(at("pelvis") - middle, across, first="left")
    rigid = (
        turn is not None
        or np.median(np.linalg.norm(at("pelvis") - middle, axis=1)) > 0.03
    )
    if rigid:
        # The bone's own axes may be any: on average the trunk's, where it is upright.
        legs = [
            np.linalg.norm(at(f"{s}_hip") - at(f"{s}_ankle"), axis=1) for s in SIDES
        ]
        straight = np.min(legs, axis=0) > _UPRIGHT * person.leg_m()
        upright = straight & (torso[:, 2, 2] > _UPRIGHT)
        some = upright if upright.sum() > 10 else np.ones(person.frames, bool)
        mean = (np.swapaxes(carried[some], 1, 2) @ pelvis[some]).sum(axis=0)
        pelvis = carried @ Rotation.from_matrix(mean).as_matrix()
    hips = scale * middle
    hips[:, 2] += ANKLE_M - scale * feet.ankle_m.mean()
    return TrunkPath(scale, hips, pelvis, torso)


class FootPath(NamedTuple):
    """What a foot shall do."""

    ankle: np.ndarray  # (T, 3) of the ankle's roll axis, m
    yaw: np.ndarray  # (T,)
    pitch: np.ndarray  # (T,) positive with the heel up
    standing: np.ndarray  # (T,) bool


def ease(path: np.ndarray, fixed: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """A path (T, n) that is at its goal where fixed, and between has the accelerations
    of the given one as far as that allows."""
    if not fixed.any():
        return path
    stiff = 1e4
    bands = np.zeros((3, len(path)))
    bands[2] = _EASE_FRAMES**-4 + stiff * fixed
    bands[2, :-2] += 1
    bands[2, 1:-1] += 4
    bands[2, 2:] += 1
    bands[1, 1:-1] -= 2
    bands[1, 2:] -= 2
    bands[0, 2:] += 1
    offset = solveh_banded(bands, stiff * fixed[:, None] * (goal - path))
    return np.where(fixed[:, None], goal, path + offset)


def rolled(pitch: np.ndarray) -> np.ndarray:
    """(T, 3) of the ankle from where it is when flat on the floor, of a foot that has
    rolled over its toe or heel; ahead, left, up."""
    pivot = np.where(pitch > 0, _TOE_M, _HEEL_M)
    cosine, sine = np.cos(pitch), np.sin(pitch)
    ahead = pivot * (1 - cosine) + _SOLE_M * sine + g1.SOLE_RADIUS * pitch
    up = pivot * sine + _SOLE_M * (cosine - 1)
    return np.stack((ahead, np.zeros_like(ahead), up), axis=1)


def runs(mask: np.ndarray) -> np.ndarray:
    """(n, 2) first frames of the stretches that are true, and the frames after."""
    edges = np.diff(np.concatenate(([0], mask.astype(int), [0])))
    return np.flatnonzero(edges).reshape(-1, 2)


def walk(person: Recording, feet: Feet, body: TrunkPath) -> list[FootPath]:
    """Paths of both feet of the robot."""
    at, scale, paths = person.at, body.scale, []
    width = np.linalg.norm(at("left_hip") - at("right_hip"), axis=1)
    out_m = HIP_OUT_M - 0.5 * scale * np.median(width)
    ahead = body.pelvis[:, :, 0]
    for number, side in enumerate(SIDES):
        standing = feet.standing[:, number]
        sign = 1 - 2 * number
        ankle, toe = at(f"{side}_ankle"), at(f"{side}_toe")
        sole = toe - ankle
        length = np.median(np.linalg.norm(sole, axis=1))
        # Feet that point straight up or down go where the hips face.
        towards = sole[:, :2] + 0.1 * length * ahead[:, :2]
        yaw = np.unwrap(np.arctan2(towards[:, 1], towards[:, 0]))
        rest = feet.toe_m[number] - feet.ankle_m[number]
        flat = np.arcsin(np.clip(rest / length, -1, 1))
        slope = np.arcsin(np.clip(sole[:, 2] / length, -1, 1))
        pitch = gaussian_filter1d(flat - slope, 1.0, mode="nearest")

        path = scale * ankle + sign * out_m * body.pelvis[:, :, 1]
        path[:, 2] = scale * (ankle[:, 2] - feet.ankle_m[number]) + ANKLE_M
        part = np.clip((pitch - _FLAT_RAD[0]) / np.ptp(_FLAT_RAD), 0, 1)
        heel = pitch * part * part * (3 - 2 * part)
        planted = standing[:, None]
        tilt = ease(pitch[:, None], planted[:, 0], heel[:, None])[:, 0]
        roll = rolled(heel)
        goal, turn = path.copy(), yaw[:, None].copy()
        for start, end in runs(standing):
            stance = slice(start, end)
            turn[stance] = np.median(yaw[stance])
            direction = np.array((np.cos(turn[start, 0]), np.sin(turn[start, 0])))
            still = path[stance, :2] - roll[stance, :1] * direction
            goal[stance, :2] = np.median(still, axis=0) + roll[stance, :1] * direction
            goal[stance, 2] = ANKLE_M + roll[stance, 2]
        path = ease(path, standing, goal)
        yaw = ease(yaw[:, None], standing, turn)[:, 0]
        # Feet that do not stand are off the floor, soon after and until soon before.
        lowest = ANKLE_M + rolled(tilt)[:, 2]
        if standing.any():
            from scipy.ndimage import distance_transform_edt

            away = distance_transform_edt(~standing)
            free = _CLEARANCE_M * np.clip(away / _CLEARANCE_FRAMES, 0, 1)
        else:
            free = np.full(len(path), _CLEARANCE_M)
        path[:, 2] = np.maximum(path[:, 2], lowest + free)
        paths.append(FootPath(path, yaw, tilt, standing))
    return paths


def lowered(body: TrunkPath, paths: list[FootPath]) -> tuple[TrunkPath, list[FootPath]]:
    """Hips as low as feet that stand need them, other feet within reach."""
    hips, excess = body.hips.copy(), np.zeros(len(body.hips))
    shifts = [s * HIP_OUT_M * body.pelvis[:, :, 1] for s in (1, -1)]
    for path, shift in zip(paths, shifts, strict=True):
        leg = path.ankle - (hips + shift)
        away = (leg[:, :2] ** 2).sum(axis=1)
        up = np.sqrt(np.maximum(_REACH_M**2 - away, 0.3**2))
        too_high = np.where(path.standing, -leg[:, 2] - up, 0.0)
        excess = np.maximum(excess, too_high)
    window = np.lib.stride_tricks.sliding_window_view(np.pad(excess, 5, "edge"), 11)
    hips[:, 2] -= gaussian_filter1d(window.max(axis=1), 3.0, mode="nearest")
    reached = []
    for path, shift in zip(paths, shifts, strict=True):
        leg = path.ankle - (hips + shift)
        far = np.linalg.norm(leg, axis=1, keepdims=True)
        near = hips + shift + leg * np.minimum(1.0, _REACH_M / far)
        ankle = np.where(path.standing[:, None], path.ankle, near)
        reached.append(path._replace(ankle=ankle))
    return body._replace(hips=hips), reached


def fit(person: Recording) -> Fit:
    """Fit the robot to a person."""
    person = resample(person)
    feet = find_contacts(person)
    body = trunk(person, feet)
    body, paths = lowered(body, walk(person, feet, body))
    targets = _targets(person, body, paths)
    start = np.tile(g1.DEFAULT_QPOS, (person.frames, 1))
    start[:, :3], start[:, 3:7] = targets[0].position, targets[0].quaternion
    rows = _solver().rows(targets, start)
    return Fit(rows, person.points, feet.standing, body.scale)


@cache
def _solver() -> "Solver":
    return Solver()


def _quaternion(matrix: np.ndarray) -> Tensor:
    found = Rotation.from_matrix(matrix).as_quat(scalar_first=True)
    return torch.from_numpy(found)


def _foot_turn(path: FootPath) -> Tensor:
    angles = np.stack((path.yaw, path.pitch), axis=1)
    found = Rotation.from_euler("ZY", angles).as_quat(scalar_first=True)
    return torch.from_numpy(found)


def _targets(person: Recording, body: TrunkPath, paths: list[FootPath]):
    pelvis = body.hips + HIP_BELOW_M * body.pelvis[:, :, 2]
    each = [
        PoseTarget(
            "pelvis",
            torch.from_numpy(pelvis),
            _quaternion(body.pelvis),
            position_weight=1.0,
            orientation_weight=0.1,
        ),
        PoseTarget(
            "torso_link", quaternion=_quaternion(body.torso), orientation_weight=0.1
        ),
    ]
    for side, path in zip(SIDES, paths, strict=True):
        standing = torch.from_numpy(path.standing)[:, None].double()
        each.append(
            PoseTarget(
                f"{side}_ankle_roll_link",
                torch.from_numpy(path.ankle),
                _foot_turn(path),
                position_weight=3 + 27 * standing,
                orientation_weight=0.02 + 1.0 * standing,
            )
        )
        hip = (0.0, HIP_OUT_M if side == "left" else -HIP_OUT_M, -HIP_BELOW_M)
        thigh = unit(person.at(f"{side}_knee") - person.at(f"{side}_hip"))
        each.append(
            BoneTarget(
                f"{side}_knee_link",
                "pelvis",
                torch.from_numpy(_THIGH_M * thigh),
                0.1,
                base_point=hip,
            )
        )
        for link, base, parts, length, weight, point in (
            ("elbow", "shoulder_roll", ("shoulder", "elbow"), _UPPER_ARM_M, 1.0, ()),
            ("wrist_pitch", "elbow", ("elbow", "wrist"), _FOREARM_M, 1.0, ()),
            ("wrist_yaw", "wrist_yaw", ("wrist", "hand"), 0.1, 0.02, _HAND_POINT),
        ):
            start, end = (person.at(f"{side}_{part}") for part in parts)
            vector = torch.from_numpy(length * unit(end - start))
            each.append(
                BoneTarget(
                    f"{side}_{link}_link",
                    f"{side}_{base}_link",
                    vector,
                    weight,
                    point=point or (0.0, 0.0, 0.0),
                )
            )
    return each


def _alone(targets):
    """Targets of frames that are each a clip of their own."""

    def one(value):
        return value[:, None] if isinstance(value, Tensor) else value

    return [
        replace(t, **{name: one(value) for name, value in vars(t).items()})
        for t in targets
    ]


def smooth(values: np.ndarray, strength: float) -> np.ndarray:
    """Nearest curves (T, n) with small accelerations."""
    bands = np.zeros((3, len(values)))
    bands[2] = 1.0
    bands[2, :-2] += strength
    bands[2, 1:-1] += 4 * strength
    bands[2, 2:] += strength
    bands[1, 1:-1] -= 2 * strength
    bands[1, 2:] -= 2 * strength
    bands[0, 2:] += strength
    return solveh_banded(bands, values)


def _unflipped(rows: np.ndarray) -> np.ndarray:
    """The same rows, quaternions with signs that do not change from row to row."""
    turn = rows[:, 3:7]
    flips = np.where((turn[1:] * turn[:-1]).sum(axis=1) < 0, -1.0, 1.0)
    turn = turn * np.concatenate(([1.0], np.cumprod(flips)))[:, None]
    return np.concatenate((rows[:, :3], turn, rows[:, 7:]), axis=1)


def _smoothed(rows: np.ndarray, strength: float = 3.0) -> np.ndarray:
    rows = smooth(_unflipped(rows), strength)
    rows[:, 3:7] = unit(rows[:, 3:7])
    return rows


def _blended(rows: np.ndarray, frames: np.ndarray, count: int) -> np.ndarray:
    """Rows (count, 36) between those of some frames, the first and last among them."""
    at = np.arange(count)
    after = np.searchsorted(frames, at, side="right").clip(1, len(frames) - 1)
    start, end = frames[after - 1], frames[after]
    part = ((at - start) / (end - start))[:, None]
    rows = _unflipped(rows)
    blend = (1 - part) * rows[after - 1] + part * rows[after]
    blend[:, 3:7] = unit(blend[:, 3:7])
    return blend


class Solver:
    """What all clips share."""

    def __init__(self):
        self._first = InverseKinematics(iterations=_FIRST_STEPS)
        self._again = InverseKinematics(iterations=_STEPS)
        self._legs = InverseKinematics(_LEGS, iterations=_LEG_STEPS)
        self._clearance = Clearance(self._again.jacobians.carried, _MARGIN_M, 0.0, 30.0)
        self._floor = Clearance(self._legs.jacobians.carried, None, 0.0, 300.0)

    def rows(self, targets: list, start: np.ndarray) -> np.ndarray:
        """(T, 36) rows that meet targets, smooth over time."""
        count = len(start)
        keys = np.unique(np.append(np.arange(0, count, _STRIDE), count - 1))
        alone, rest = _alone(targets), torch.from_numpy(g1.DEFAULT_JOINTS)
        light = torch.full((g1.NUM_JOINTS,), 1e-4).double()
        found = self._first.solve(
            torch.from_numpy(start[keys, None]),
            [_picked(t, keys) for t in alone],
            pull=Pull(rest, light),
        )
        rows = _blended(found.qpos[:, 0].numpy(), keys, count)
        for strength in _PULLS:
            weight = torch.full((g1.NUM_JOINTS,), strength).double()
            weight[: len(_LEGS)] = 1e-4
            near = torch.from_numpy(_smoothed(rows))[:, None]
            pull = Pull(near[..., 7:], weight)
            found = self._again.solve(near, alone, FPS, pull, self._clearance)
            rows = found.qpos[:, 0].numpy()
        trunk, arms = _smoothed(rows), _smoothed(rows, 0.3)
        rows = torch.from_numpy(np.concatenate((trunk[:, :_ARM], arms[:, _ARM:]), 1))
        # Trunk and arms stay as they are now; the legs bring the feet in place.
        held = PoseTarget("pelvis", rows[:, :3], rows[:, 3:7], 10.0, 10.0)
        feet = [t for t in targets if isinstance(t, PoseTarget) and t.link in g1.FEET]
        rows = self._legs.solve(
            rows[:, None], _alone([held, *feet]), clearance=self._floor
        ).qpos[:, 0]
        low, high = torch.from_numpy(g1.SOFT_LIMITS.T)
        limit = torch.from_numpy(0.9 * g1.VELOCITY_LIMIT / FPS)
        joints = rows[:, 7:].clamp(low, high)
        rows[:, 7:] = limit_velocity(joints[None], limit)[0]
        return rows.numpy()


def _picked(target, frames: np.ndarray):
    """A target at some frames."""

    def some(value):
        return value[frames] if isinstance(value, Tensor) else value

    return replace(
        target, **{name: some(value) for name, value in vars(target).items()}
    )

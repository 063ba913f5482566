"""Where the robot's feet stand and how they swing, from where a person's do.

When a person's feet stand is found from heights and speeds of ankles and toes. A foot
that stands does not move: it is flat, or has its heel up where the person's is. Between
two stances it has the accelerations of the person's foot as far as its start and end
allow, and is off the floor.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import solveh_banded
from scipy.ndimage import distance_transform_edt, gaussian_filter1d, minimum_filter1d

from spectral_skills.motion import legs
from spectral_skills.motion.gait import average, rate, runs
from spectral_skills.motion.human.recording import SIDES, Recording
from spectral_skills.motion.legs import FootMotion
from spectral_skills.robot import g1

# A point that stands is below the first height above its usual one, m, and slower than
# the first speed, m/s; it stands until it is above the second height or speed. Both
# speeds grow with the body's: feet of runners are never quite still.
_HEIGHT_M = (0.035, 0.055)
_SPEED, _SPEED_OF_BODY = (0.2, 0.4), (0.1, 0.2)
_LONGEST_GAP_S, _SHORTEST_S = 0.06, 0.08
_LOW_SHARE, _SLOW = 0.1, 0.3
# A foot whose ankle is usually so much higher than the other's, and so much higher
# over its toes, is never flat: the other one tells how it would stand.
_ON_TOES_M = 0.04
_LYING = 0.25  # hips below this share of the leg: feet carry nothing


class Stance(NamedTuple):
    """How feet stand, both in the order of SIDES."""

    standing: np.ndarray  # (T, 2) bool
    ankle_m: np.ndarray  # (2,) height of ankles above the floor when standing
    toe_m: np.ndarray  # (2,) height of toes


def find_contacts(person: Recording) -> Stance:
    """Find when feet stand, and how high their joints are then."""
    hips = 0.5 * (person.at("left_hip") + person.at("right_hip"))
    body = rate(hips[:, :2], person.fps)
    body = np.linalg.norm(average(body, round(0.4 * person.fps)), axis=1)
    up = hips[:, 2] > _LYING * person.leg_m()
    path = np.array(
        [[person.at(f"{side}_{part}") for part in ("ankle", "toe")] for side in SIDES]
    )
    height = path[..., 2]  # (2 sides, 2 parts, T)
    velocity = [[rate(part, person.fps) for part in foot] for foot in path]
    speed = np.linalg.norm(velocity, axis=3)
    usual = np.array(
        [list(map(standing_height, *foot)) for foot in zip(height, speed, strict=True)]
    )
    low, high = np.argsort(usual[:, 0])
    (ankle_m, toe_m), flat = usual[high] - usual[low], usual.copy()
    if min(ankle_m, ankle_m - toe_m) > _ON_TOES_M:
        usual[high, 0], flat[high] = usual[low, 0], usual[low]
    near, far = (
        (height < usual[..., None] + most) & (speed < still + share * body)
        for most, still, share in zip(_HEIGHT_M, _SPEED, _SPEED_OF_BODY, strict=True)
    )
    standing = []
    for foot in zip(near, far, strict=True):
        on = np.any(list(map(hysteresis, *foot)), axis=0)
        standing.append(_settled(on & up, person.fps))
    return Stance(np.stack(standing, axis=1), *flat.T)


def standing_height(height: np.ndarray, speed: np.ndarray) -> float:
    """The usual height of a point while it is slow and low."""
    low = np.quantile(height, _LOW_SHARE)
    slow = (speed < _SLOW) & (height < low + 0.05)
    return float(np.median(height[slow])) if slow.sum() > 5 else float(low)


def hysteresis(on: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """Stretches of `stay` that hold at least one frame of `on`."""
    found = np.zeros(len(stay), bool)
    for start, end in runs(stay):
        found[start:end] = on[start:end].any()
    return found


def _settled(standing: np.ndarray, fps: float) -> np.ndarray:
    """Without short gaps, then without short stances."""
    standing = standing.copy()
    for value, longest_s in ((False, _LONGEST_GAP_S), (True, _SHORTEST_S)):
        for start, end in runs(standing == value):
            inside = start > 0 and end < len(standing)
            if inside and end - start < longest_s * fps:
                standing[start:end] = not value
    return standing


FLAT_M = legs.ANKLE_M + g1.SOLE_RADIUS  # height of the ankle over a flat sole
_REACH_M = 0.6525  # from hip to ankle, of a leg that is almost straight
_LEAST_M, _BELOW_M = 0.3, 0.2
_HEEL_RAD = (0.05, 0.3)  # heels that rise less stay down; those above rise as much
_CLEARANCE_M, _CLEARANCE_FRAMES = 0.015, 3
# Feet that drift or turn farther than this while they stand take a step of so long.
_DRIFT_M, _PIVOT_RAD, _STEP_FRAMES = 0.06, 0.6, 10
_EASE_FRAMES, _STIFF = (15.0, 4.0), 1e4
_AS_HIPS = 0.1
_UNDER_M = 0.005  # toes may be so far under the floor
_WIDER_M = 0.03  # least that the feet are farther out than a person's, scaled


@dataclass(frozen=True)
class Soles:
    """What both feet shall do."""

    feet: list[FootMotion]
    standing: np.ndarray  # (T, 2) bool

    def reached(
        self, rows: np.ndarray, lower: bool = False
    ) -> tuple["Soles", np.ndarray]:
        """Feet that legs can bring there from the pelvis of rows (T, 36), and heights
        of the pelvis: `lower` where feet that stand need it.

        Soles tip and roll onto their edge where ankles do not bend any farther; feet
        that swing come nearer.
        """
        turn, pelvis = torch.from_numpy(rows[:, 3:7]), rows[:, :3].copy()
        if lower:
            lines = legs.hip_to_ankle(pelvis, turn, self.feet)
            excess = np.zeros(len(rows))
            for line, stands in zip(lines, self.standing.T, strict=True):
                away = (line[:, :2] ** 2).sum(axis=1)
                up = np.sqrt(np.maximum(_REACH_M**2 - away, _LEAST_M**2))
                excess = np.maximum(excess, np.where(stands, -line[:, 2] - up, 0.0))
            pelvis[:, 2] -= legs.around(excess)
        lines = legs.hip_to_ankle(pelvis, turn, self.feet)
        feet = []
        for foot, line, stands in zip(self.feet, lines, self.standing.T, strict=True):
            far = np.linalg.norm(line, axis=1)
            part = np.where(stands, 1.0, np.minimum(1.0, _REACH_M / far))
            shift = line * (part - 1.0)[:, None]
            near = replace(foot, position=foot.position + shift)
            line = line + shift
            # Feet as high as the hips have no floor to adapt to.
            below = np.clip(-line[:, 2] / _BELOW_M, 0.0, 1.0)
            tip = below * (legs.tip(line, near) - legs.point(line, near))
            feet.append(legs.adapted(near, tip, below * legs.edge(line, near)))
        return replace(self, feet=feet), pelvis[:, 2]

    def bent(self, rows: np.ndarray) -> np.ndarray:
        """Rows (T, 36) whose knees bend as far as the feet are away: where a leg is
        almost straight, a solver has no slope to find that by."""
        rows = rows.copy()
        turn = torch.from_numpy(rows[:, 3:7])
        lines = legs.hip_to_ankle(rows[:, :3], turn, self.feet)
        for side, line in zip(SIDES, lines, strict=True):
            far = np.linalg.norm(line, axis=1)
            square = far**2 - legs.THIGH_M**2 - legs.SHANK_M**2
            cosine = square / (2 * legs.THIGH_M * legs.SHANK_M)
            hip, knee, ankle = (
                7 + g1.joint_index(f"{side}_{joint}")
                for joint in ("hip_pitch", "knee", "ankle_pitch")
            )
            more = np.arccos(np.clip(cosine, -1.0, 1.0)) - rows[:, knee]
            rows[:, knee] += more
            rows[:, hip] -= 0.5 * more
            rows[:, ankle] -= 0.5 * more
        return rows


def plan(person: Recording, stance: Stance, scale: float, pelvis: np.ndarray) -> Soles:
    """Both feet of the robot, whose pelvis (T, 3, 3) is turned as given."""
    width = np.linalg.norm(person.at("left_hip") - person.at("right_hip"), axis=1)
    wider_m = max(_WIDER_M, legs.HIP_OUT_M - 0.5 * scale * float(np.median(width)))
    feet, masks = [], []
    for number, side in enumerate(SIDES):
        standing = stance.standing[:, number]
        ankle = person.at(f"{side}_ankle")
        yaw, pitch = _direction(person, side, stance, pelvis)
        path = scale * ankle + (1 - 2 * number) * wider_m * pelvis[:, :, 1]
        path[:, 2] += FLAT_M - scale * stance.ankle_m[number]
        other = masks[0] if masks else stance.standing[:, 1]
        still = stepped(standing, path[:, :2], yaw, other)
        masks.append(still)
        feet.append(_planted(path, yaw, pitch, still))
    return Soles(feet, np.stack(masks, axis=1))


def stepped(
    standing: np.ndarray, path: np.ndarray, yaw: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Stances in which a foot stays: where a person's turns on the spot or drifts too
    far, the robot's takes a small step, when the person's is fastest and the `other`
    foot stands."""
    found = standing.copy()
    held = minimum_filter1d(other, _STEP_FRAMES + 1, mode="nearest")
    todo = runs(standing)
    while todo:
        start, end = todo.pop()
        stance = slice(start, end)
        where = np.column_stack((path[stance] / _DRIFT_M, yaw[stance] / _PIVOT_RAD))
        if end - start < 2 or (np.ptp(where, axis=0) < 1.0).all():
            continue
        speed = np.linalg.norm(np.gradient(where, axis=0), axis=1) * held[stance]
        if not speed.any():
            continue
        fastest = start + int(speed.argmax())
        first = max(start, fastest - _STEP_FRAMES // 2)
        last = min(end, fastest + _STEP_FRAMES // 2 + 1)
        found[first:last] = False
        for part in ((start, first), (last, end)):
            if part[1] - part[0] < _STEP_FRAMES // 2:
                found[part[0] : part[1]] = False
            else:
                todo.append(part)
    return found


def _direction(
    person: Recording, side: str, stance: Stance, pelvis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Yaw of a foot, and pitch: zero as it stands, positive with the heel up."""
    number, ankle = SIDES.index(side), person.at(f"{side}_ankle")
    sole, shank = person.at(f"{side}_toe") - ankle, person.at(f"{side}_knee") - ankle
    length = np.median(np.linalg.norm(sole, axis=1))
    # Across foot and shank, which tells ahead from back also of a foot behind the knee.
    left = np.cross(shank, sole)
    left /= np.linalg.norm(left, axis=1, keepdims=True).clip(1e-9)
    left += _AS_HIPS * pelvis[:, :, 1]
    yaw = np.unwrap(np.arctan2(-left[:, 0], left[:, 1]))
    ahead = (sole[:, :2] * legs.headings(yaw)).sum(axis=1)
    rise = stance.toe_m[number] - stance.ankle_m[number]
    flat = np.arcsin(np.clip(rise / length, -1, 1))
    pitch = np.arctan2(-sole[:, 2], ahead) + flat
    # Toes of some recordings go through the floor: how high the ankle is counts then.
    above = ankle[:, 2] - stance.toe_m[number] + _UNDER_M
    most = np.maximum(np.arcsin(np.clip(above / length, -1, 1)) + flat, 0.0)
    upright = np.clip(2 * shank[:, 2] / np.linalg.norm(shank, axis=1), 0, 1)
    pitch = np.unwrap(pitch - upright * np.maximum(pitch - most, 0.0))
    return yaw, gaussian_filter1d(pitch, 1.0, mode="nearest")


def _planted(
    path: np.ndarray, yaw: np.ndarray, pitch: np.ndarray, standing: np.ndarray
) -> FootMotion:
    """A foot that follows a path, yaw and pitch and does not move while it stands."""
    part = np.clip((pitch - _HEEL_RAD[0]) / np.ptp(_HEEL_RAD), 0, 1)
    heel = pitch * part * part * (3 - 2 * part)
    ahead, up = legs.rolled(heel)
    goal, heading = path.copy(), yaw.copy()
    for start, end in runs(standing):
        still = slice(start, end)
        heading[still] = np.median(yaw[still])
        rolls = ahead[still, None] * legs.headings(heading[start])
        goal[still, :2] = np.median(path[still, :2] - rolls, axis=0) + rolls
        goal[still, 2] = up[still]
    path = eased(path, standing, goal)
    yaw = eased(yaw[:, None], standing, heading[:, None])[:, 0]
    pitch = eased(pitch[:, None], standing, heel[:, None])[:, 0]
    # Feet that do not stand are off the floor soon after and until soon before.
    free = _CLEARANCE_M * np.clip(frames_from(standing) / _CLEARANCE_FRAMES, 0, 1)
    path[:, 2] = np.maximum(path[:, 2], legs.rolled(pitch)[1] + free)
    return FootMotion(path, yaw, pitch, np.zeros_like(yaw))


def frames_from(standing: np.ndarray) -> np.ndarray:
    """(T,) how far the nearest frame is in which a foot stands; T where none is."""
    if not standing.any():
        return np.full(len(standing), float(len(standing)))
    return np.asarray(distance_transform_edt(~standing))


def _second_differences(count: int, strength: float) -> np.ndarray:
    """(3, count) upper bands of the matrix of squared second differences."""
    bands = np.zeros((3, count))
    for start, end, share in ((0, -2, 1), (1, -1, 4), (2, None, 1)):
        bands[2, start:end] += share * strength
    bands[1, 1:-1] -= 2 * strength
    bands[1, 2:] -= 2 * strength
    bands[0, 2:] += strength
    return bands


def smoothed(values: np.ndarray, strength: float) -> np.ndarray:
    """Nearest curves (T, n) whose squared second differences weigh `strength`."""
    bands = _second_differences(len(values), strength)
    bands[2] += 1.0
    return solveh_banded(bands, values)


def eased(path: np.ndarray, fixed: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """A path (T, n) that is at its goal where fixed, and between has the accelerations
    of the given one as far as that allows."""
    bands = _second_differences(len(path), 1.0)
    # Before the first goal and after the last one nothing else brings it back.
    between = (
        np.logical_or.accumulate(fixed) & np.logical_or.accumulate(fixed[::-1])[::-1]
    )
    frames = np.where(between, *_EASE_FRAMES)
    bands[2] += frames**-4 + _STIFF * fixed
    offset = solveh_banded(bands, _STIFF * fixed[:, None] * (goal - path))
    return np.where(fixed[:, None], goal, path + offset)

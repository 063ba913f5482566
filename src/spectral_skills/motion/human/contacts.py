"""When a person's feet stand, from heights and speeds of ankles and toes."""

from typing import NamedTuple

import numpy as np

from spectral_skills.motion.gait import average, rate, runs
from spectral_skills.motion.human.recording import SIDES, Recording

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

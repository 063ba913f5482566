"""Factors of a motion as they can be seen in it, whatever its name says."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.checks import average, rate
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics, LinkPoses, sole_heights
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.robot import g1

_SHOULDERS = ("left_shoulder_pitch_link", "right_shoulder_pitch_link")
_LINKS = (*g1.FEET, *g1.WRISTS, *_SHOULDERS, "torso_link")
_STRIDE_S = 1.2
"""Speeds are averages over this long, so that sway does not count as travel."""
_LIFTED_M, _SWING_S, _STEP_S = 0.01, 0.12, 1.0


@dataclass(frozen=True)
class Measures:
    """Curves of a clip, and what its steps measure."""

    forward: np.ndarray
    """Speed along the heading, m/s."""
    sideways: np.ndarray
    """Speed to the left, m/s."""
    turning: np.ndarray
    """Yaw rate, rad/s."""
    pelvis_height: np.ndarray
    """m."""
    torso_pitch: np.ndarray
    """rad; positive leans forward."""
    hand_height: np.ndarray
    """(T, 2) left and right hand above its shoulder, m."""
    cadence: np.ndarray
    """Steps a second, one value for every two steps in a row."""
    clearance: np.ndarray
    """Highest that the sole's lowest point gets, m, one value a swing."""
    feet: np.ndarray
    """(T, 2, 3) x, y and yaw of the feet, m and rad."""
    standing: np.ndarray
    """(T, 2) which of them are on the floor."""


def measures(qpos: np.ndarray, fps: float = FPS) -> Measures:
    """Measure (T, 36) rows."""
    qpos = np.asarray(qpos, dtype=np.float64)
    poses = _links()(torch.from_numpy(qpos))
    place, turn = poses.position.numpy(), poses.quaternion
    yaw = np.unwrap(rotation.yaw(torch.from_numpy(qpos[:, 3:7])).numpy())
    velocity = rate(qpos[:, :2], fps)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    upright = torch.tensor([0.0, 0.0, 1.0], dtype=turn.dtype)
    up = rotation.rotate_inverse(turn[:, -1], upright).numpy()
    heights = sole_heights(LinkPoses(poses.position[:, :2], turn[:, :2])).numpy()
    swings = [
        (foot, span) for foot in (0, 1) for span in _swings(heights[:, foot], fps)
    ]
    landings = np.sort([end for _, (_, end) in swings])
    pairs = (landings[2:] - landings[:-2]) / fps
    window = round(_STRIDE_S * fps)
    return Measures(
        forward=average(velocity[:, 0] * cosine + velocity[:, 1] * sine, window),
        sideways=average(velocity[:, 1] * cosine - velocity[:, 0] * sine, window),
        turning=average(rate(yaw, fps), window),
        pelvis_height=qpos[:, 2],
        torso_pitch=np.arctan2(-up[:, 0], up[:, 2]),
        hand_height=place[:, 2:4, 2] - place[:, 4:6, 2],
        cadence=2.0 / pairs[(pairs > 0) & (pairs < 2 * _STEP_S)],
        clearance=np.array([heights[a:b, foot].max() for foot, (a, b) in swings]),
        feet=np.concatenate(
            (place[:, :2, :2], rotation.yaw(turn[:, :2]).numpy()[..., None]), axis=-1
        ),
        standing=heights < _LIFTED_M,
    )


def seen_from_start(places: np.ndarray, qpos: np.ndarray) -> np.ndarray:
    """Places (..., 2) as the robot sees them in its first frame: ahead, left, m."""
    yaw = first_yaw(qpos)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    return (places - qpos[0, :2]) @ np.array([[cosine, -sine], [sine, cosine]])


def first_yaw(qpos: np.ndarray) -> float:
    """Heading of the first frame, rad."""
    return float(rotation.yaw(torch.from_numpy(np.array(qpos[0, 3:7], dtype=float))))


def clips_with(names: list[str]) -> Counter[frozenset[str]]:
    """Number of clips that have each factor, and each pair of factors."""
    found: Counter[frozenset[str]] = Counter()
    for name in names:
        factors = factors_of(name)
        found.update(frozenset((factor,)) for factor in factors)
        found.update(frozenset(pair) for pair in combinations(factors, 2))
    return found


@cache
def _links() -> Kinematics:
    return Kinematics(_LINKS, dtype=torch.float64)


def _swings(heights: np.ndarray, fps: float) -> list[tuple[int, int]]:
    """First frame off the floor and first frame back on it, of whole swings."""
    change = np.diff((heights > _LIFTED_M).astype(int))
    starts, ends = np.flatnonzero(change > 0) + 1, np.flatnonzero(change < 0) + 1
    ends = ends[ends > starts[0]] if len(starts) else ends[:0]
    spans = zip(starts.tolist(), ends.tolist(), strict=False)
    return [(a, b) for a, b in spans if b - a >= _SWING_S * fps]

"""How fast the robot's arms may turn, and arms that do not turn over and back.

The same directions of an upper arm and a forearm can belong to two poses of a shoulder
that are far from each other, and near its limits first the one is nearer and then the
other. People's arms do no such thing.
"""

import numpy as np
import torch
from scipy.ndimage import maximum_filter1d

from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.human.recording import SIDES, Recording
from spectral_skills.motion.ik import limit_change
from spectral_skills.robot import g1

FIRST = 7 + g1.joint_index("left_shoulder_pitch")
"""The column of rows (T, 36) from which on all are arms."""
_RAD_S, _GAIN, _FRAMES = 6.0, 2.5, 9
# An arm turns over where a joint is so far from where it was just before. It is back
# when it is nearer than that to where it was, or than a share of how far it turned, and
# not after more frames than these. Wrists have no part in it.
_OVER_RAD, _BACK_SHARE, _BACK_FRAMES = 1.5, 0.6, 35
_SHOULDER_AND_ELBOW = 4


def fastest(person: Recording) -> np.ndarray:
    """(T - 1, 1) how far arm joints may turn from frame to frame, rad: not much faster
    than the person's arms, though that is how a shoulder's axes line up."""
    lines = []
    for side in SIDES:
        joints = [person.at(f"{side}_{at}") for at in ("shoulder", "elbow", "wrist")]
        bones = np.diff(joints, axis=0)
        lines += list(bones / np.linalg.norm(bones, axis=2, keepdims=True).clip(1e-9))
    turn = np.linalg.norm(np.diff(lines, axis=1), axis=2).max(axis=0)
    around = maximum_filter1d(turn, _FRAMES, mode="nearest")
    return (_RAD_S / FPS + _GAIN * around)[:, None]


def slowed(values: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Nearest-looking curves (T, n) that change by at most `most` (T - 1, 1)."""
    ramp = torch.from_numpy(np.pad(np.cumsum(most, axis=0), ((1, 0), (0, 0))))
    return limit_change(torch.from_numpy(values)[None], ramp)[0].numpy()


def unturned(rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Rows (n, 36) of some frames without arms that turn over and soon back again:
    between, they go from the pose before to the pose after."""
    rows, size = rows.copy(), (rows.shape[1] - FIRST) // 2
    for first in (FIRST, FIRST + size):
        arm = rows[:, first : first + size]
        shoulder = rows[:, first : first + _SHOULDER_AND_ELBOW].copy()
        steps = np.abs(np.diff(shoulder, axis=0)).max(axis=1)
        over, end = np.flatnonzero(steps > _OVER_RAD), 0
        for start in over[:-1]:
            ends = over[over > start] + 1
            away = np.abs(shoulder[ends] - shoulder[start]).max(axis=1)
            soon = frames[ends] - frames[start] <= _BACK_FRAMES
            near = away < max(_OVER_RAD, _BACK_SHARE * steps[start])
            back = ends[near & soon]
            if start >= end and len(back):
                end = back[0]
                at = (frames[start + 1 : end] - frames[start])[:, None]
                part = at / (frames[end] - frames[start])
                arm[start + 1 : end] = arm[start] + part * (arm[end] - arm[start])
    return rows

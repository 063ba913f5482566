"""The part of a clip that can be planned.

A planner sees a fifth of a second. If two frames of a clip look alike and continue
differently, it cannot know which one it is in: how long a robot still stands, when a
raised arm comes down. So the longest part of a clip is used in which similar frames
continue alike and something happens. At its end it continues from an earlier frame that
looks like the end: a walk walks on, a raised arm stays raised.

A part must show what its clip shows: a kick, not the steps before it. What a clip shows
is how far a hand, a foot or the pelvis gets from where it usually is. Where no part
that can be planned shows it, the three seconds around it are taken as they are; when a
robot does it is then left to chance.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.planner.data import CHUNK
from spectral_skills.robot import g1

STEPS = 500
"""Largest number of frames of a motion, as in the paper."""
ALIKE_RAD, ALIKE_RAD_S = 0.1, 1.0
"""Root mean square differences of joints and of their speeds below which two frames
look alike."""
APART_M = 0.125
"""Difference in height of pelvis, hands or feet within a chunk from which two frames
continue differently: half of what the success criterion allows."""
APART_RAD_S = 0.3
"""The same for the root mean square speed of the joints: one stands, one walks."""
_LATER = (CHUNK // 3, 2 * CHUNK // 3, CHUNK)
_STILL = 0.2
"""Worth of a frame after which nothing moves."""
_BETTER = 1.1
"""Factor by which a later part must be worth more to be used."""
_SHOWN, _AROUND = 0.8, 150
"""Share of what a clip shows that a part must show, and frames around it otherwise."""
_NOTABLE_M, _PELVIS, _NEARLY = 0.1, 3.0, 0.85
"""Least distance that is anything to show, how much more the pelvis counts, and the
share of the largest distance that is as good as all of it."""


class ClipSection(NamedTuple):
    """A part of a clip."""

    first: int
    end: int
    """First frame after it."""
    loop: int
    """Frame, counted from the first, from which it continues at its end."""
    worth: float
    """Number of frames; those in which hardly anything moves count less, and all count
    less if the part does not show what the clip shows."""


def section(rows: np.ndarray, most: int = STEPS) -> ClipSection:
    """The part of rows (T, 36) to plan, with at most `most` frames."""
    state, speed = _states(rows)
    activity = _activity(speed)
    alike = (_distances(state) < ALIKE_RAD) & (_distances(speed) < ALIKE_RAD_S)
    differs = np.abs(activity[:, None] - activity) > APART_RAD_S
    worth = np.clip(activity / APART_RAD_S, _STILL, 1.0)
    shown = _shown(rows)
    first, end = _longest(alike & (_diverges(rows) | differs), worth, most, shown)
    if _most(shown, first, end) < _SHOWN:
        first = max(0, min(int(shown.argmax()) - _AROUND // 2, len(rows) - _AROUND))
        end = min(len(rows), first + min(_AROUND, most))
    loop = _continued(state[first:end], speed[first:end])
    worths = worth[first:end].sum() * _most(shown, first, end) ** 2
    # Rounded, so that a clip and its mirror image are worth the same.
    return ClipSection(first, end, loop, round(float(worths), 1))


def beginning(rows: np.ndarray) -> ClipSection:
    """A whole clip, or its first frames if it is longer, as the paper plans it."""
    end = min(len(rows), STEPS)
    return ClipSection(0, end, _continued(*_states(rows[:end])), float(end))


def _continued(state: np.ndarray, speed: np.ndarray) -> int:
    """The frame most like the last one that has a chunk after it."""
    scaled = np.concatenate((state / ALIKE_RAD, speed / ALIKE_RAD_S), axis=1)
    earlier = scaled[: max(1, len(scaled) - CHUNK)]
    return int(np.linalg.norm(earlier - scaled[-1], axis=1).argmin())


def _states(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T, 32) joints, height and tilt, and (T, 29) speeds of the joints."""
    quaternion = torch.from_numpy(np.ascontiguousarray(rows[:, 3:7]))
    up = rotation.rotate_inverse(quaternion, torch.tensor((0.0, 0.0, 1.0)))
    state = np.concatenate((rows[:, 7:], rows[:, 2:3], up[:, :2].numpy()), axis=1)
    speed = np.gradient(rows[:, 7:], axis=0) * FPS
    return state.astype(np.float32), speed.astype(np.float32)


def _distances(values: np.ndarray) -> np.ndarray:
    """(T, T) root mean square difference of rows."""
    tensor = torch.from_numpy(values)
    # By differences: products would lose the digits of rows that are alike.
    found = torch.cdist(tensor, tensor, compute_mode="donot_use_mm_for_euclid_dist")
    return (found / values.shape[1] ** 0.5).numpy()


def _diverges(rows: np.ndarray) -> np.ndarray:
    """(T, T) whether heights differ after two frames; the last frame is held."""
    links = _links()(torch.from_numpy(np.asarray(rows, np.float32))).position
    heights, last = links[..., 2], len(rows) - 1
    found = np.zeros((len(rows), len(rows)), bool)
    for ahead in _LATER:
        then = heights[(torch.arange(len(rows)) + ahead).clamp_max(last)]
        found |= (torch.cdist(then, then, p=torch.inf) > APART_M).numpy()
    return found


def _shown(rows: np.ndarray) -> np.ndarray:
    """(T,) how far frames show what a clip shows, as a share of its most.

    That is the distance of one link from where it usually is, seen from the pelvis and
    its heading; the pelvis itself counts by its height.
    """
    whole = torch.from_numpy(np.asarray(rows, np.float32))
    links = _links()(whole).position
    heading = rotation.heading(whole[:, 3:7])[:, None]
    away = rotation.rotate_inverse(heading, links - whole[:, None, :3]).numpy()
    away[:, 0] = 0.0
    away[:, 0, 2] = _PELVIS * rows[:, 2]
    off = np.linalg.norm(away - np.median(away, axis=0), axis=-1)
    found = off[:, off.max(axis=0).argmax()]
    if found.max() < _NOTABLE_M:
        return np.ones(len(rows))
    return np.minimum(found / (_NEARLY * found.max()), 1.0)


@cache
def _links() -> Kinematics:
    return Kinematics(("pelvis", *g1.END_EFFECTORS))


def _activity(speed: np.ndarray) -> np.ndarray:
    """(T,) how fast joints move in the chunk that follows each frame."""
    now = np.pad(np.square(speed).mean(axis=1), (0, CHUNK), mode="edge")
    total = np.cumsum(np.pad(now, (1, 0)))
    return np.sqrt((total[CHUNK:] - total[:-CHUNK])[: len(speed)] / CHUNK)


def _most(shown: np.ndarray, first: int, end: int) -> float:
    """How much a part shows; at its very end it would be cut off."""
    return float(shown[first : max(first + 1, end - CHUNK // 2)].max())


def _longest(
    conflicts: np.ndarray, worth: np.ndarray, most: int, shown: np.ndarray
) -> tuple[int, int]:
    """First frame and end of the part of most worth without two frames in conflict.

    What follows a frame counts only inside the part, so the last chunk of a part is in
    conflict with nothing. A later part must be worth clearly more. A part counts less
    the less it shows.
    """
    total = np.cumsum(np.pad(worth, (1, 0)))
    best, most_worth, first = (0, min(len(conflicts), CHUNK)), 0.0, 0
    for end in range(CHUNK + 1, len(conflicts) + 1):
        before = np.flatnonzero(conflicts[end - CHUNK - 1, : end - CHUNK - 1])
        if len(before):
            first = max(first, int(before[-1]) + 1)
        first = max(first, end - most)
        found = (total[end] - total[first]) * _most(shown, first, end) ** 2
        if found > (_BETTER if first > best[0] else 1.0) * most_worth:
            best, most_worth = (first, end), found
    return best

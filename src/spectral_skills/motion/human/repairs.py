"""Frames that are no motion: poses before the first frame, teleports, swapped markers.

A jump is a step of the points that differs from the steps around it by more than any
person's muscles can do.
"""

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human.recording import POINTS

# What the mean over points may differ by, and per fps squared.
_BODY_M, _BODY_M_S2 = 0.05, 60.0
_POINT_M, _POINT_M_S2 = 0.10, 200.0  # of one point
_TELEPORT_M = 0.25  # mean over points: larger jumps are not blended
_EDGE_S = 0.25  # what jumps so soon after the start or before the end is left out
_SPIKE_FRAMES = 3
_BLEND_S = 0.1  # on either side of a jump
_KEPT, _KEPT_S = 0.8, 1.0


def jumps(points: np.ndarray) -> np.ndarray:
    """(T - 1, 20) metres by which each step differs from the median of seven."""
    steps = np.diff(points, axis=0)
    count = len(steps)
    sizes = np.zeros(steps.shape[:2])
    # Most steps are smooth, and medians are slow.
    change = np.abs(np.diff(steps, axis=0)).max(axis=(1, 2))
    rough = np.flatnonzero(change > 0.2 * _BODY_M)
    at = np.unique(np.concatenate([rough, rough + 1]))
    if len(at):
        usual = np.median(steps[_around(at, count)], axis=1)
        sizes[at] = np.linalg.norm(steps[at] - usual, axis=2)
    return sizes


def _around(steps: np.ndarray, count: int) -> np.ndarray:
    """(n, 7) steps nearest to each, itself among them."""
    first = np.clip(steps - 3, 0, max(0, count - 7))
    return first[:, None] + np.arange(min(7, count))


def whole_part(points: np.ndarray, fps: float) -> tuple[slice, list[str]]:
    """The longest part of a motion without a teleport, and notes about the rest.

    Points are (T, N, 3) in metres.
    """
    frames, size = len(points), jumps(points).mean(axis=1)
    broken = np.flatnonzero(size > _BODY_M + _BODY_M_S2 / fps**2)
    edge = max(_SPIKE_FRAMES, round(_EDGE_S * fps))
    # Steps after which the body is elsewhere: large, or near the start or the end.
    far = size[broken] > _TELEPORT_M
    cuts = broken[far | (broken < edge) | (broken >= frames - 1 - edge)]
    cuts = cuts[~_spikes(points, cuts, fps)]
    bounds = [0, *(cuts + 1).tolist(), frames]
    start, stop = max(
        zip(bounds[:-1], bounds[1:], strict=True), key=lambda run: run[1] - run[0]
    )
    if stop - start < min(_KEPT * frames, _KEPT_S * fps):
        frame = int(cuts[0])
        reason = f"the body jumps {size[frame]:.2f} m to the next frame"
        raise ClipError("teleport", f"{reason}; {stop - start} frames are whole", frame)
    notes = []
    if start:
        jump = f"the body jumps {size[start - 1]:.2f} m after"
        notes.append(f"{_frames(start, 'first')} left out: {jump}.")
    if stop < frames:
        jump = f"the body jumps {size[stop - 1]:.2f} m before"
        notes.append(f"{_frames(frames - stop, 'last')} left out: {jump}.")
    return slice(start, stop), notes


def _frames(count: int, which: str) -> str:
    return f"The {which} {count} frames are" if count > 1 else f"The {which} frame is"


def _spikes(points: np.ndarray, cuts: np.ndarray, fps: float) -> np.ndarray:
    """Which cuts lead away for a few frames and back."""
    back = np.zeros(len(cuts), dtype=bool)
    for i in range(len(cuts) - 1):
        gap = int(cuts[i + 1] - cuts[i])
        if gap <= _SPIKE_FRAMES and cuts[i] > 0 and cuts[i + 1] < len(points) - 2:
            left, right = int(cuts[i]), int(cuts[i + 1]) + 1
            across = np.linalg.norm(points[right] - points[left], axis=1).mean()
            step = np.linalg.norm(points[left] - points[left - 1], axis=1).mean()
            allowed = _BODY_M + _BODY_M_S2 / fps**2 + (gap + 1) * step
            back[i : i + 2] |= across < allowed
    return back


def smoothed(points: np.ndarray, fps: float) -> tuple[np.ndarray, list[str]]:
    """Points without spikes of up to three frames, other jumps spread over 0.2 s."""
    size, points = jumps(points), points.copy()
    broken = size > _POINT_M + _POINT_M_S2 / fps**2
    broken |= (size.mean(axis=1) > _BODY_M + _BODY_M_S2 / fps**2)[:, None]
    spikes, blends = np.zeros(broken.shape[0], bool), np.zeros(broken.shape[0], bool)
    for number in np.flatnonzero(broken.any(axis=0)):
        path, at = points[:, number], np.flatnonzero(broken[:, number]).tolist()
        while at:
            first = at.pop(0)
            last = next((b for b in at[::-1] if b - first <= _SPIKE_FRAMES), None)
            if last is not None and _returns(path, first, last + 1):
                weight = np.linspace(0.0, 1.0, last + 2 - first)[1:-1, None]
                away = path[last + 1] - path[first]
                path[first + 1 : last + 1] = path[first] + weight * away
                at = [b for b in at if b > last]
                spikes[first] = True
            else:
                _spread(path, first, max(2, round(_BLEND_S * fps)))
                blends[first] = True
    notes = []
    for found, what in ((spikes, "bridged"), (blends, "spread over 0.2 s")):
        where = np.flatnonzero(found)
        if len(where):
            names = {POINTS[i] for i in np.flatnonzero(broken[where].any(axis=0))}
            who = "the body" if len(names) > 6 else ", ".join(sorted(names))
            worst = size[where].max()
            many = f"{len(where)} jumps" if len(where) > 1 else "A jump"
            notes.append(
                f"{many} of up to {worst:.2f} m {what}, the first at frame "
                f"{where[0]}: {who.replace('_', ' ')}."
            )
    return points, notes


def bridged(turns: np.ndarray, broken: np.ndarray) -> np.ndarray:
    """Turns (T, 4), wxyz, with those of broken frames (T,) made from the others."""
    good = np.flatnonzero(~broken)
    if len(good) in (0, 1, len(turns)):
        return turns
    turns, at = turns.copy(), np.flatnonzero(broken).clip(good[0], good[-1])
    known = Slerp(good, Rotation.from_quat(turns[good], scalar_first=True))
    turns[broken] = known(at).as_quat(scalar_first=True)
    return turns


def _returns(path: np.ndarray, left: int, right: int) -> bool:
    """Whether a spike between two frames comes back to where it began."""
    away = np.linalg.norm(path[left + 1 : right] - path[left], axis=1).max()
    return bool(np.linalg.norm(path[right] - path[left]) < 0.5 * away)


def _spread(path: np.ndarray, frame: int, reach: int) -> None:
    """Move the frames on either side of a jump towards each other, in place."""
    steps = np.diff(path, axis=0)
    usual = np.median(steps[_around(np.array([frame]), len(steps))[0]], axis=0)
    half = 0.5 * (steps[frame] - usual)
    before, after = range(frame, -1, -1), range(frame + 1, len(path))
    for sign, frames in ((1.0, before), (-1.0, after)):
        part = np.array(frames[:reach])
        fade = 0.5 + 0.5 * np.cos(np.pi * np.arange(len(part)) / reach)
        path[part] += sign * fade[:, None] * half

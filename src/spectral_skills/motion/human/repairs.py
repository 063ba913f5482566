"""What is false in a recording: its frame rate, and frames that are no motion.

In the air a body's centre falls at 9.81 m/s2 whatever the person does. A file that says
twice the true rate shows four times that. Every BVH of CMU says 120 Hz; a fifth of them
were recorded at 60.

Frames that are no motion are poses before the first frame, teleports and swapped
markers. A jump is a step of the points that differs from the steps around it by more
than any person's muscles can do.
"""

import re
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.gait import runs
from spectral_skills.motion.human.recording import POINTS, SIDES, point

GRAVITY = 9.81
_CMU_HZ = 120.0
CMU_AT_60 = frozenset(
    (60, 61, 62, 74, 75, 77, 79, 80, 84, 88, 89, 93, 103, 106, 107, 115, 139, 141, 143)
)
_CMU_EXCEPTIONS = frozenset(
    "74_09 77_21 77_28 84_09 88_03 88_07 89_02 89_05 139_21 139_28 "  # at 120 Hz
    "87_03 90_08 90_11 121_08 121_11".split()  # at 60 Hz
)
"""Recordings at the other rate than the rest of their subject's."""
_CMU_NAME = re.compile(r"(?:cmu_)?((\d{2,3})_\d{2})(?:_[a-z]+)?", re.IGNORECASE)
_CMU_SUBJECTS = 144
_SUSPICIOUS = 2.0  # times gravity: the user is told
_TOLERANCE = 0.22  # of gravity, in a flight of a few frames
_CLEAR_M = 0.04  # both feet above where they rest
_LEAST_FRAMES = 5
_LEAST_SAG_M, _LONG_SAG_M = 0.006, 0.02  # of the parabola between its ends
_MISFIT = 0.06  # of the sag, root mean square


def _masses() -> np.ndarray:
    """Share of the body's mass that each point stands for."""
    hips, shoulders = ([f"{s}_{p}" for s in SIDES] for p in ("hip", "shoulder"))
    # Segments between points, where on them their centre lies, and their mass.
    segments = [(["head"], ["head"], 0.0, 0.081), (hips, shoulders, 0.5, 0.497)]
    limbs = (
        ("hip", "knee", 0.433, 0.1),
        ("knee", "ankle", 0.433, 0.0465),
        ("ankle", "toe", 0.5, 0.0145),
        ("shoulder", "elbow", 0.436, 0.028),
        ("elbow", "wrist", 0.43, 0.016),
        ("hand", "hand", 0.0, 0.006),
    )
    for near, far, along, mass in limbs:
        segments += [([f"{s}_{near}"], [f"{s}_{far}"], along, mass) for s in SIDES]
    weights = np.zeros(len(POINTS))
    for near, far, along, mass in segments:
        for names, share in ((near, 1.0 - along), (far, along)):
            for name in names:
                weights[point(name)] += mass * share / len(names)
    return weights / weights.sum()


MASSES = _masses()


class Flight(NamedTuple):
    start: int
    stop: int
    fall: float  # downward acceleration, m per frame squared
    sag_m: float


def flights(points: np.ndarray) -> list[Flight]:
    """When both feet are clear of the floor and the body's centre goes in a parabola.

    Points (T, 20, 3) are in metres, z up; the floor need not be known.
    """
    clear = np.ones(len(points), dtype=bool)
    for joint in ("toe", "ankle"):
        height = points[:, [point(f"{s}_{joint}") for s in SIDES], 2].min(axis=1)
        clear &= height > np.percentile(height, 10) + _CLEAR_M
    centre = points[:, :, 2] @ MASSES
    found = []
    for start, stop in runs(clear):
        # The feet leave and meet the floor during the frames at the ends.
        path = centre[start + 1 : stop - 1]
        if len(path) < _LEAST_FRAMES:
            continue
        t = np.arange(len(path)) - 0.5 * (len(path) - 1)
        curve = np.polyfit(t, path, 2)
        misfit = float(np.sqrt(np.mean((np.polyval(curve, t) - path) ** 2)))
        sag = -float(curve[0]) * float(t[0]) ** 2
        if sag > _LEAST_SAG_M and misfit < _MISFIT * sag:
            found.append(Flight(start, stop, -2.0 * float(curve[0]), sag))
    return found


def cmu_recording(name: str, skeleton: str) -> str:
    """Which of CMU's recordings a file is by its whole name and its skeleton.

    Files are called 35_22 or cmu_35_22, maybe with a word after that; other people's
    may be of the same skeleton and have dates in their names.
    """
    found = _CMU_NAME.fullmatch(name) if "CMU" in skeleton else None
    return found[1] if found and 1 <= int(found[2]) <= _CMU_SUBJECTS else ""


def true_rate(
    points: np.ndarray, fps: float, name: str, skeleton: str
) -> tuple[float, str]:
    """The rate to use and a sentence about it, empty where all is as the file says.

    Rates are only ever lowered: a false flight may look like weak gravity, but nothing
    falls faster than it should.
    """
    cmu = "CMU" in skeleton and abs(fps - _CMU_HZ) < 1.0
    found = flights(points)
    falls = np.array([flight.fall * fps**2 for flight in found])
    times = _times_too_fast(falls, [f.sag_m for f in found], one_will_do=cmu)
    if times > 1:
        right = f"{_flights(falls)}, so the rate is {fps / times:g} Hz, not {fps:g}."
        return fps / times, right
    fits = bool((np.abs(falls / GRAVITY - 1.0) < _TOLERANCE).any())
    recording = cmu_recording(name, skeleton) if cmu else ""
    if recording and not fits:
        at_60 = int(recording.partition("_")[0]) in CMU_AT_60
        if at_60 != (recording in _CMU_EXCEPTIONS):
            note = f"CMU recorded {recording}, as it is named, at 60 Hz, not {fps:g}"
            return 60.0, f"{note}; or say --fps."
    if len(falls) and np.median(falls) > _SUSPICIOUS * GRAVITY:
        better = fps * np.sqrt(GRAVITY / np.median(falls))
        as_if = f"as if the rate were {better:.0f} Hz: see --fps."
        return fps, f"{_flights(falls)}, {as_if}"
    return fps, ""


def _flights(falls: np.ndarray) -> str:
    many = f"{len(falls)} flights" if len(falls) > 1 else "one flight"
    return f"The body falls at {np.median(falls):.0f} m/s2 in {many}"


def _times_too_fast(
    falls: np.ndarray, sags_m: list[float], *, one_will_do: bool
) -> int:
    """By which whole factor the rate is too high; 1 where nothing says so surely."""
    if not len(falls):
        return 1
    ratio = float(np.sqrt(np.median(falls) / GRAVITY))
    times = round(ratio)
    if not 2 <= times <= 4:
        return 1
    agree = np.abs(falls / (GRAVITY * times**2) - 1.0) < _TOLERANCE
    enough = agree.sum() >= 2 or (one_will_do and max(sags_m) > _LONG_SAG_M)
    return times if enough and agree.mean() > 0.5 else 1


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

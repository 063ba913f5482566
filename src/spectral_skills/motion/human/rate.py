"""The true frame rate of a motion, by gravity in flight and by what is known of CMU.

In the air a body's centre falls at 9.81 m/s2 whatever the person does. A file that says
twice the true rate shows four times that. Every BVH of CMU says 120 Hz; a fifth of them
were recorded at 60.
"""

import re
from typing import NamedTuple

import numpy as np

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

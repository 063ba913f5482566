"""How fast a robot's clock runs beside a person's, so that it falls as things fall.

A robot whose legs are three quarters of a person's moves three quarters as far. In the
air it would then fall with three quarters of gravity, which nothing can follow. So
while a person is in the air the robot is faster than the person, by the root of the
ratio of the legs; before and after, its clock changes little by little.
"""

import numpy as np

from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.gait import runs
from spectral_skills.motion.human.recording import Recording

SHORTEST_S = 0.2
"""Shorter flights, as those of runners, rise by 5 cm at most and stay as they are."""
_CHANGE_S = 0.3
"""Time over which the clock changes before a flight, and changes back after it."""
_GRAVITY = 9.81
_FALLS = (0.6, 1.4)
"""Accelerations of a body that falls, as shares of gravity: a person who hangs, lies or
climbs also has no foot on the floor."""
_TRUNK = ("pelvis", "left_hip", "right_hip", "chest", "neck")


def find_flights(person: Recording, standing: np.ndarray) -> list[tuple[int, int]]:
    """First frame of every flight, and the frame after it; `standing` are the feet
    (T, 2) that stand."""
    found = []
    height = np.mean([person.at(name)[:, 2] for name in _TRUNK], axis=0)
    least, most = (share * _GRAVITY for share in _FALLS)
    for start, end in runs(np.logical_not(standing.any(axis=1))):
        inside = start > 0 and end < person.frames
        if inside and end - start >= SHORTEST_S * person.fps:
            times = np.arange(end - start) / person.fps
            falls = -2 * np.polyfit(times, height[start:end], 2)[0]
            if least < falls < most:
                found.append((start, end))
    return found


def shown_at(
    person: Recording, flights: list[tuple[int, int]], scale: float
) -> np.ndarray:
    """(n,) times of the person, s, that the frames of a robot show whose legs are
    `scale` times the person's."""
    frames = np.arange(person.frames)
    near = np.zeros(person.frames)
    for start, end in flights:
        away = np.maximum(np.maximum(start - frames, frames - (end - 1)), 0)
        share = np.clip(1.0 - away / (_CHANGE_S * person.fps), 0.0, 1.0)
        near = np.maximum(near, share * share * (3.0 - 2.0 * share))
    rate = scale ** (-0.5 * near)
    steps = 2.0 / (rate[1:] + rate[:-1]) / person.fps
    shown = np.concatenate(([0.0], np.cumsum(steps)))
    count = int(np.floor(shown[-1] * FPS + 1e-6)) + 1
    return np.interp(np.arange(count) / FPS, shown, frames / person.fps)

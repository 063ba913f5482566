"""Rows (36,) as a desk needs them: headings, and a base put where the robot is."""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from spectral_skills.quaternion import heading, turned
from spectral_skills.robot import g1

_SPEED_STEPS = g1.CONTROL_HZ
"""Over a second, or the robot's sway would be shown instead of its speed."""

_RISE = g1.CONTROL_HZ
"""Steps in which a robot may come up from a base that is lower than the next."""
_WELL_M, _STAYS = 0.15, g1.CONTROL_HZ // 2
"""How far above the limit, and for how many steps, is up again."""


def placed(row: np.ndarray, robot: np.ndarray) -> np.ndarray:
    """A row at the place and with the heading of another; its height is its own."""
    found = np.asarray(row, np.float64).copy()
    angle = heading(robot[3:7]) - heading(found[3:7])
    found[3:7] = turned(found[3:7], angle)
    found[:2] = robot[:2]
    return found


@dataclass(frozen=True)
class Measures:
    """What is read off a robot."""

    speed: float
    """Along its path, m/s."""
    turning: float
    """To the left, deg/s."""
    heading: float
    """From where it began, deg."""
    left_arm: float
    """How far the upper arm is raised to the front, deg."""
    right_arm: float
    height: float
    """Of the pelvis, m."""


class Meter:
    """Measures of a robot that moves."""

    def __init__(self):
        self._places: deque[np.ndarray] = deque(maxlen=_SPEED_STEPS + 1)
        self._headings: deque[float] = deque(maxlen=_SPEED_STEPS + 1)

    def clear(self) -> None:
        """Forget where the robot was."""
        self._places.clear()
        self._headings.clear()

    def read(self, row: np.ndarray) -> Measures:
        """Measures after one more control step."""
        angle = heading(row[3:7])
        if self._headings:  # without jumps
            before = self._headings[-1]
            angle = before + math.remainder(angle - before, math.tau)
        self._places.append(row[:2].copy())
        self._headings.append(angle)
        seconds = max(len(self._places) - 1, 1) / g1.CONTROL_HZ
        away = float(np.linalg.norm(self._places[-1] - self._places[0]))
        change = self._headings[-1] - self._headings[0]
        return Measures(
            speed=away / seconds,
            turning=math.degrees(change) / seconds,
            heading=math.degrees(angle),
            left_arm=-math.degrees(row[7 + _LEFT]),
            right_arm=-math.degrees(row[7 + _RIGHT]),
            height=float(row[2]),
        )


class FallLamp:
    """Whether a robot has fallen. One that lies throws itself about: it is up again
    only when it stays well above where it fell."""

    def __init__(self):
        self._limits: deque[float] = deque(maxlen=_RISE)
        self._up = 0
        self.steps = 0
        """Since it has fallen."""

    def read(self, height_m: float, limit_m: float) -> bool:
        """After one more control step; lower than the limit is a fall."""
        self._limits.append(limit_m)
        lowest_m = min(self._limits)
        self._up = self._up + 1 if height_m > lowest_m + _WELL_M else 0
        if not height_m > lowest_m:
            self.steps = max(self.steps, 1)
        elif self._up >= _STAYS:
            self.steps = 0
        if self.steps:
            self.steps += 1
        return self.steps > 0


_LEFT, _RIGHT = (g1.joint_index(f"{side}_shoulder_pitch") for side in ("left", "right"))

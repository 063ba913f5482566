"""A floor that rises in one direction, found from where feet stand.

Capture rooms are calibrated by hand: in a tenth of CMU's recordings the floor rises by
about a degree, the same way in all of a subject's, and a walk of four metres ends nine
centimetres higher.
"""

import numpy as np
from scipy.spatial.transform import Rotation

from spectral_skills.motion.checks import rate
from spectral_skills.motion.human.raw import Raw
from spectral_skills.motion.human.recording import SIDES

_SLOW_M_S, _REST_S = 0.3, 0.1
_LEAST_STANCES = 4
_ACROSS_M = 0.15  # stances within such a strip say nothing about the slope across it
_NOISE_M = 0.01
_LEAST_RISE_M, _STEEPEST = 0.03, 0.05  # between the lowest stance and the highest
_LEFT_OVER = 0.6  # of what stances differ by when the floor is taken to be level


def levelled(raw: Raw) -> Raw:
    """Turned so that the floor is level, where feet show that it is not."""
    places, sides = _stances(raw)
    if len(places) < _LEAST_STANCES:
        return raw
    slope, heights = _plane(places, sides)
    around = places[:, :2] - places[:, :2].mean(axis=0)
    rise = float(np.ptp(around @ slope))
    flat = places[:, 2].copy()
    for side in np.unique(sides):
        flat[sides == side] -= np.median(flat[sides == side])
    apart, left_over = (np.percentile(np.abs(h), 80) for h in (flat, heights))
    steep = float(np.linalg.norm(slope))
    if rise < _LEAST_RISE_M or steep > _STEEPEST or left_over > _LEFT_OVER * apart:
        return raw
    angle = float(np.arctan(steep))
    axis = np.array([slope[1], -slope[0], 0.0]) / steep
    note = f"The floor rose by {np.degrees(angle):.1f} degrees, {100 * rise:.0f} cm"
    turn = Rotation.from_rotvec(-angle * axis).as_matrix()
    return raw.turned(turn).noted(f"{note} in all: it is made level.")


def _stances(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
    """Where toes rest (n, 3), once for each time, and on which side."""
    places, sides = [], []
    for number, side in enumerate(SIDES):
        toe = raw.at(f"{side}_toe")
        slow = np.linalg.norm(rate(toe, raw.fps), axis=1) < _SLOW_M_S
        edges = np.flatnonzero(np.diff(slow, prepend=False, append=False))
        for start, stop in edges.reshape(-1, 2):
            if stop - start >= _REST_S * raw.fps:
                places.append(np.median(toe[start:stop], axis=0))
                sides.append(number)
    return np.array(places).reshape(-1, 3), np.array(sides, dtype=int)


def _plane(places: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope (2,) of the floor and the heights of stances over it.

    Toes of either side may rest at a height of their own; stances that are off count
    little, and a direction along which nobody went has no slope.
    """
    around = places[:, :2] - places[:, :2].mean(axis=0)
    known = np.column_stack([around, sides == 0, sides == 1]).astype(float)
    weights, shrink = np.ones(len(places)), np.array([_ACROSS_M**2] * 2 + [1e-9] * 2)
    for _ in range(10):
        weighted = known * weights[:, None]
        normal = weighted.T @ known + np.diag(weights.sum() * shrink)
        found = np.linalg.solve(normal, weighted.T @ places[:, 2])
        heights = places[:, 2] - known @ found
        weights = 1.0 / (1.0 + (heights / _NOISE_M) ** 2)
    return found[:2], heights

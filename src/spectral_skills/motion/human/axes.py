"""Which axis of a file points up, whether its left is left, and whether its floor,
found from where feet stand, rises in one direction.

Capture rooms are calibrated by hand: in a tenth of CMU's recordings the floor rises by
about a degree, the same way in all of a subject's, and a walk of four metres ends nine
centimetres higher.
"""

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from spectral_skills.motion.gait import rate, runs
from spectral_skills.motion.human.recording import SIDES, Raw, leg_length, point
from spectral_skills.quaternion import multiply_planes

UPS = ("y", "z", "-y", "-z", "x", "-x")
_NEAR_FLOOR_M = 0.15  # most files have their floor at zero
_CLEAR = 0.25  # lead over the next axis
_STANDS, _NEARLY, _GOES = 0.8, 0.8, 0.5  # cosine, share of frames, lengths of the leg
_AT_ZERO_M = -0.06, 0.15  # lowest joints of people on a floor at zero

_SLOW_M_S, _REST_S = 0.3, 0.1
_LEAST_STANCES = 4
_ACROSS_M = 0.15  # stances within such a strip say nothing about the slope across it
_NOISE_M = 0.01
_LEAST_RISE_M, _STEEPEST = 0.03, 0.05  # between the lowest stance and the highest
_LEFT_OVER = 0.6  # of what stances differ by when the floor is taken to be level


def _axis(up: str) -> np.ndarray:
    axis = np.zeros(3)
    axis["xyz".index(up[-1])] = -1.0 if up.startswith("-") else 1.0
    return axis


def _to_z_up(up: str) -> np.ndarray:
    """Proper rotation that takes the axis to z; y up as in most files: z is ahead."""
    axes = {
        "z": "x y z",
        "y": "z x y",
        "x": "y z x",
        "-y": "z -x -y",
        "-z": "x -y -z",
        "-x": "y -z -x",
    }
    return np.stack([_axis(a) for a in axes[up].split()])


def find_up(points: np.ndarray) -> tuple[str, bool]:
    """The axis that points up, and whether that is clear; points are in metres."""
    some = _some(points)
    leg, spine, scores = leg_length(some), _spine(some), {}
    for up in UPS:
        axis = _axis(up)
        # What carries a person stays at one height, whichever way the body lies.
        support = (some @ axis).min(axis=1)
        wander = float(np.subtract(*np.percentile(support, [90, 10]))) / leg
        usual = 0.5 if up in ("y", "z") else 0.0
        grounded = 0.5 if abs(np.median(support)) < _NEAR_FLOOR_M else 0.0
        upright = float((spine @ axis).mean())
        scores[up] = upright - min(1.0, wander) + usual + grounded
    best, next_best = sorted(scores, key=lambda up: -scores[up])[:2]
    return best, scores[best] - scores[next_best] > _CLEAR


def _some(points: np.ndarray) -> np.ndarray:
    """About 500 frames."""
    return points[:: max(1, len(points) // 500)]


def _spine(points: np.ndarray) -> np.ndarray:
    """(T, 3) directions from the feet to the neck."""
    feet = np.mean([points[:, point(f"{s}_ankle")] for s in SIDES], axis=0)
    spine = points[:, point("neck")] - feet
    return spine / np.maximum(np.linalg.norm(spine, axis=1, keepdims=True), 1e-9)


def surely_up(points: np.ndarray, up: str, rest: str) -> bool:
    """Whether a person stands along an axis in spite of the rest pose.

    Somebody who lies or does push-ups is stretched along an axis too, but goes nowhere
    across it, and has the floor at zero, as most files do, along the rest pose's axis.
    """
    some = _some(points)
    if (_spine(some) @ _axis(up) > _STANDS).mean() < _NEARLY:
        return False
    low, high = np.percentile(some[:, point("pelvis")], [5, 95], axis=0)
    across = (high - low) * (1.0 - np.abs(_axis(up)))
    if np.linalg.norm(across) > _GOES * leg_length(some):
        return True
    floor = {a: np.median((some @ _axis(a)).min(axis=1)) for a in (up, rest)}
    zero = [_AT_ZERO_M[0] < floor[a] < _AT_ZERO_M[1] for a in (up, rest)]
    return zero == [True, False]


def turned(raw: Raw, turn: np.ndarray) -> Raw:
    """Turned by a proper rotation matrix."""
    bone = raw.pelvis_turn
    if bone is not None:
        q = np.roll(Rotation.from_matrix(turn).as_quat(), 1)
        bone = np.stack(multiply_planes(q, bone.T), 1)
    return replace(raw, points=raw.points @ turn.T, pelvis_turn=bone)


def mirrored(raw: Raw) -> Raw:
    """Left and right exchanged by a mirror across y."""
    bone = raw.pelvis_turn
    bone = None if bone is None else bone * [1.0, -1.0, 1.0, -1.0]
    return replace(raw, points=raw.points * [1.0, -1.0, 1.0], pelvis_turn=bone)


def upright(raw: Raw, up: str | None) -> Raw:
    """Turned so that z is up."""
    if up is not None:
        raw = turned(raw, _to_z_up(up.lower()))
        return raw.noted(f"{up.upper()} is up as stated.")
    (found, clear), rest = find_up(raw.points), raw.rest_up
    note = "is up." if clear or rest else "is probably up; or say --up."
    if rest not in (None, found):
        sure = surely_up(raw.points, found, rest)
        why = f"though {rest.upper()} is" if sure else "as it is"
        note = f"is probably up, {why} in the rest pose; or say --up."
        found = found if sure else rest
    return turned(raw, _to_z_up(found)).noted(f"{found.upper()} {note}")


def same_sides(raw: Raw) -> Raw:
    """Mirrored if left and right are swapped, as in left-handed axes."""
    ahead = sum(raw.at(f"{s}_toe") - raw.at(f"{s}_ankle") for s in SIDES)
    left = raw.at("left_hip") - raw.at("right_hip")
    up = raw.at("neck") - raw.at("pelvis")
    proper = np.einsum("ij,ij->i", np.cross(ahead, left), up) > 0
    if proper.mean() > 0.2:
        return raw
    note = "Left and right were swapped, as in left-handed axes: it is mirrored."
    return mirrored(raw).noted(note)


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
    if rise < _LEAST_RISE_M or left_over > _LEFT_OVER * apart:
        return raw
    angle = float(np.arctan(steep))
    if steep > _STEEPEST:
        note = f"Feet stand on a slope or stairs of {np.degrees(angle):.0f} degrees,"
        return raw.noted(f"{note} which are not made level.")
    axis = np.array([slope[1], -slope[0], 0.0]) / steep
    note = f"The floor rose by {np.degrees(angle):.1f} degrees, {100 * rise:.0f} cm"
    turn = Rotation.from_rotvec(-angle * axis).as_matrix()
    return turned(raw, turn).noted(f"{note} in all: it is made level.")


def _stances(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
    """Where toes rest (n, 3), once for each time, and on which side."""
    places, sides = [], []
    for number, side in enumerate(SIDES):
        toe = raw.at(f"{side}_toe")
        slow = np.linalg.norm(rate(toe, raw.fps), axis=1) < _SLOW_M_S
        for start, stop in runs(slow):
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

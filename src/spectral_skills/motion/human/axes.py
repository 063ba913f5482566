"""Which axis of a file points up, and whether its left is left."""

import numpy as np

from spectral_skills.motion.human.raw import Raw, leg_length
from spectral_skills.motion.human.recording import SIDES, point

UPS = ("y", "z", "-y", "-z", "x", "-x")
_NEAR_FLOOR_M = 0.15  # most files have their floor at zero
_CLEAR = 0.25  # lead over the next axis


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
    some = points[:: max(1, len(points) // 500)]
    leg = leg_length(some)
    feet = np.mean([some[:, point(f"{s}_ankle")] for s in SIDES], axis=0)
    spine = some[:, point("neck")] - feet
    spine /= np.maximum(np.linalg.norm(spine, axis=1, keepdims=True), 1e-9)
    scores = {}
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


def upright(raw: Raw, up: str | None) -> Raw:
    """Turned so that z is up."""
    if up is not None:
        return raw.turned(_to_z_up(up.lower())).noted(f"{up.upper()} is up as stated.")
    found, clear = find_up(raw.points)
    raw = raw.turned(_to_z_up(found))
    if not clear:
        return raw.noted(f"{found.upper()} is probably up; or say --up.")
    return raw if found == "z" else raw.noted(f"{found.upper()} is up.")


def same_sides(raw: Raw) -> Raw:
    """Mirrored if left and right are swapped, as in left-handed axes."""
    ahead = sum(raw.at(f"{s}_toe") - raw.at(f"{s}_ankle") for s in SIDES)
    left = raw.at("left_hip") - raw.at("right_hip")
    up = raw.at("neck") - raw.at("pelvis")
    proper = np.einsum("ij,ij->i", np.cross(ahead, left), up) > 0
    if proper.mean() > 0.2:
        return raw
    note = "Left and right were swapped, as in left-handed axes: it is mirrored."
    return raw.mirrored().noted(note)

"""A person beside the robot: stills, films and a page of what was retargeted.

A person is drawn in the robot's world and at its size: scaled by the ratio of leg
lengths, about the floor. What then differs between the two is the retargeting.
"""

import numpy as np

from spectral_skills.motion.human.recording import POINTS, SIDES
from spectral_skills.robot.model import Capsules, unit

SIDE_RGB = (0.27, 0.52, 0.74), (0.86, 0.50, 0.27)
BODY_RGB = (0.66, 0.68, 0.71)
_LIMBS = {
    ("hip", "knee"): (0.100, 0.068),
    ("knee", "ankle"): (0.070, 0.046),
    ("shoulder", "elbow"): (0.062, 0.048),
    ("elbow", "wrist"): (0.051, 0.036),
    ("wrist", "hand"): (0.041, 0.036),
}
"""Radii of both ends, in lengths of the leg as all that follows."""


def figure(points: np.ndarray, leg_m: float) -> Capsules:
    """A body around the points (20, 3) of a person with such legs."""
    at = dict(zip(POINTS, points / leg_m, strict=True))
    across = unit(at["left_hip"] - at["right_hip"])
    up = unit(at["neck"] - at["pelvis"])
    back = unit(np.cross(up, across))
    rods: list[tuple] = []
    for side, rgb, out in zip(SIDES, SIDE_RGB, (across, -across), strict=True):
        own = {name.partition("_")[2]: at[name] for name in POINTS if side in name}
        rods += [(own[a], own[b], radii, rgb) for (a, b), radii in _LIMBS.items()]
        # The heel is below the ankle, and at rest as high as the ball of the foot.
        ankle, toe = own["ankle"], own["toe"]
        ahead, down = unit(toe - ankle), unit(ankle - own["knee"]) + 0.5 * back
        heel = ankle + 0.07 * unit(down - (down @ ahead) * ahead)
        tip = toe + 0.05 * unit(toe - heel)
        rods.append((ankle, heel, (0.046, 0.042), rgb))
        rods.append((heel, tip, (0.042, 0.034), rgb))
        rods.append((ankle, toe, (0.042, 0.034), rgb))
        # Half of the trunk, from the hips to below the shoulder.
        low = at["pelvis"] + 0.05 * out + 0.08 * up
        high = 0.4 * own["shoulder"] + 0.6 * at["chest"]
        rods.append((low, high, (0.105, 0.125), BODY_RGB))
        rods.append((own["hip"], low, (0.096, 0.105), BODY_RGB))
        rods.append((at["chest"] + 0.06*up, own["shoulder"], (0.08, 0.058), BODY_RGB))
    skull, head = unit(at["head"] - at["neck"]), at["head"]
    rods.append((at["pelvis"] + 0.08 * up, at["chest"], (0.11, 0.14), BODY_RGB))
    rods.append((at["neck"], head, (0.06, 0.055), BODY_RGB))
    rods.append((head + 0.06 * skull, head + 0.13 * skull, (0.09, 0.112), BODY_RGB))
    start, end, radii, rgb = map(np.array, zip(*rods, strict=True))
    return Capsules(leg_m * np.stack([start, end], axis=1), leg_m * radii, rgb)

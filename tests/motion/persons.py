"""A made-up person, as text-to-motion models write one: (T, 22, 3) joints, y up."""

import numpy as np

_UPPER = {
    **{0: (0, 0.05), 3: (0, 0.15), 6: (0, 0.28), 9: (0, 0.33), 12: (0, 0.52)},
    **{13: (0.08, 0.45), 14: (-0.08, 0.45), 15: (0, 0.62)},
    **{16: (0.18, 0.46), 17: (-0.18, 0.46), 18: (0.4, 0.3), 19: (-0.4, 0.3)},
}
"""Joints over the hips: to the left and up from between them, m."""


def squats(
    seconds: float = 2.0, fps: float = 20.0, depth_m: float = 0.1, lean: float = 0.0
) -> np.ndarray:
    """Somebody who faces z, goes down and up again, and swings the forearms; the trunk
    leans ahead by so many metres a metre."""
    time = np.arange(round(seconds * fps)) / fps
    down = depth_m * (0.5 - 0.5 * np.cos(2 * np.pi * time / 2.0))
    joints = np.zeros((len(time), 22, 3))
    hips_m = 0.9 - down
    for joint, (left, up) in _UPPER.items():
        joints[:, joint, 0], joints[:, joint, 1] = left, hips_m + up
        joints[:, joint, 2] = lean * up
    knee_m = 0.5 * (hips_m + 0.08)
    ahead = np.sqrt(np.maximum(0.41**2 - (hips_m - knee_m) ** 2, 1e-6))
    for first, left in ((1, 0.09), (2, -0.09)):
        joints[:, first::3, 0][:, :4] = left
        joints[:, first, 1] = hips_m
        joints[:, first + 3, 1], joints[:, first + 3, 2] = knee_m, ahead
        joints[:, first + 6, 1] = 0.08
        joints[:, first + 9, 1], joints[:, first + 9, 2] = 0.02, 0.13
    swing = 0.3 * np.sin(2 * np.pi * time)
    for elbow, wrist in ((18, 20), (19, 21)):
        joints[:, wrist] = joints[:, elbow]
        joints[:, wrist, 1] -= 0.25 * np.cos(0.5 + swing)
        joints[:, wrist, 2] += 0.25 * np.sin(0.5 + swing)
    return joints.astype(np.float32)

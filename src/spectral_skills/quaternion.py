"""Quaternion formulas for NumPy arrays and tensors alike, without importing torch.

Quaternions are wxyz and unit. Functions on planes take the components as separate
arrays: a plane is contiguous, so a CPU works on whole vector registers.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Planes = Sequence[Any] | np.ndarray
"""Components of quaternions (w, x, y, z) or of vectors (x, y, z)."""


def multiply_planes(a: Planes, b: Planes) -> tuple[Any, ...]:
    """Hamilton product: first b, then a."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def rotate_planes(q: Planes, v: Planes) -> tuple[Any, ...]:
    """Rotate vectors by quaternions: R(q) v."""
    w, x, y, z = q
    vx, vy, vz = v
    # t = 2 u x v and R v = v + w t + u x t, with u the vector part.
    tx = 2 * (y * vz - z * vy)
    ty = 2 * (z * vx - x * vz)
    tz = 2 * (x * vy - y * vx)
    return (
        vx + w * tx + y * tz - z * ty,
        vy + w * ty + z * tx - x * tz,
        vz + w * tz + x * ty - y * tx,
    )


def cross_planes(a: Planes, b: Planes) -> tuple[Any, ...]:
    """Cross product of vectors."""
    (ax, ay, az), (bx, by, bz) = a, b
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


def gravity_planes(q: Planes) -> tuple[Any, ...]:
    """The direction of gravity (0, 0, -1) seen from a body with this orientation."""
    w, x, y, z = q
    # The last row of R, negated.
    return 2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1


def heading(q: np.ndarray) -> float:
    """Heading angle of one quaternion in (-pi, pi]: its twist about the vertical.

    `rotation.yaw` is the same for tensors, and says why it is no Euler angle.
    """
    w, z = float(q[0]), float(q[3])
    return math.atan2(2 * w * z, w * w - z * z)


def turned(q: np.ndarray, angle: float) -> np.ndarray:
    """A quaternion turned about the world's vertical by `angle`."""
    about_z = math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle)
    return np.array(multiply_planes(about_z, q))

"""Rotations of tensors: quaternions, rotation vectors, matrices, rot6d and headings.

Quaternions are wxyz and unit; every function works on tensors of any leading
shape, on any device. Heading is the twist about the vertical (the quaternion
with x and y set to zero), not an Euler angle: the two differ at large tilt, and
the twist never flips when the robot leans past 90 degrees. NumPy rows have the same
rules in `quaternion.py`.
"""

import torch
from torch import Tensor

from spectral_skills.quaternion import Planes as Planes
from spectral_skills.quaternion import cross_planes as cross_planes
from spectral_skills.quaternion import multiply_planes, rotate_planes


def normalize(q: Tensor) -> Tensor:
    """Scale to unit length."""
    return q / q.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def conjugate(q: Tensor) -> Tensor:
    """Inverse of a unit quaternion."""
    w, x, y, z = q.unbind(-1)
    return torch.stack((w, -x, -y, -z), dim=-1)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Hamilton product: first b, then a."""
    return torch.stack(multiply_planes(a.unbind(-1), b.unbind(-1)), dim=-1)


def rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors by quaternions: R(q) v."""
    return torch.stack(rotate_planes(q.unbind(-1), v.unbind(-1)), dim=-1)


def rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors by inverse quaternions: R(q)^T v."""
    return rotate(conjugate(q), v)


def from_axis_angle(axis: Tensor, angle: Tensor) -> Tensor:
    """Quaternion of a turn by `angle` (...) about a unit `axis` (..., 3)."""
    half = 0.5 * angle[..., None]
    return torch.cat((half.cos(), half.sin() * axis), dim=-1)


def exp(v: Tensor) -> Tensor:
    """Quaternion of a rotation vector."""
    angle = v.norm(dim=-1, keepdim=True)
    # sin(a/2)/a tends to 1/2 at zero; torch.sinc is sin(pi x)/(pi x).
    scale = 0.5 * torch.sinc(angle / (2 * torch.pi))
    return torch.cat(((0.5 * angle).cos(), scale * v), dim=-1)


def log(q: Tensor) -> Tensor:
    """Rotation vector of a quaternion, the short way round (angle at most pi)."""
    w, x, y, z = q.unbind(-1)
    # The floor keeps the gradient at the identity finite.
    sine = torch.sqrt((x * x + y * y + z * z).clamp_min(1e-30))
    small = sine < 1e-7
    angle = 2 * torch.atan2(sine, w.abs())
    scale = torch.where(small, 2.0, angle / torch.where(small, 1.0, sine))
    scale = torch.copysign(scale, w)
    return torch.stack((scale * x, scale * y, scale * z), dim=-1)


def angle_between(a: Tensor, b: Tensor) -> Tensor:
    """Angle of the rotation that takes b to a, in [0, pi]."""
    return log(multiply(a, conjugate(b))).norm(dim=-1)


def slerp(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    """Interpolate from a to b the short way round; `weight` (...) in [0, 1]."""
    turn = log(multiply(b, conjugate(a)))
    return normalize(multiply(exp(weight[..., None] * turn), a))


def from_matrix(matrix: Tensor) -> Tensor:
    """Quaternion of a rotation matrix, with w >= 0."""
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = matrix.flatten(-2).unbind(-1)
    # Four ways to write the same quaternion; the one with the largest pivot is
    # well conditioned.
    pivots = torch.stack(
        (
            1 + m00 + m11 + m22,
            1 + m00 - m11 - m22,
            1 - m00 + m11 - m22,
            1 - m00 - m11 + m22,
        ),
        dim=-1,
    )
    candidates = torch.stack(
        (
            torch.stack((pivots[..., 0], m21 - m12, m02 - m20, m10 - m01), -1),
            torch.stack((m21 - m12, pivots[..., 1], m10 + m01, m02 + m20), -1),
            torch.stack((m02 - m20, m10 + m01, pivots[..., 2], m12 + m21), -1),
            torch.stack((m10 - m01, m20 + m02, m21 + m12, pivots[..., 3]), -1),
        ),
        dim=-2,
    )
    best = pivots.argmax(dim=-1)[..., None, None].expand(*matrix.shape[:-2], 1, 4)
    q = normalize(candidates.gather(-2, best).squeeze(-2))
    return torch.where(q[..., :1] < 0, -q, q)


def to_rot6d(q: Tensor) -> Tensor:
    """First two columns of the matrix, row by row: R00 R01 R10 R11 R20 R21."""
    w, x, y, z = q.unbind(-1)
    return torch.stack(
        (
            1 - 2 * (y * y + z * z),
            2 * (x * y - w * z),
            2 * (x * y + w * z),
            1 - 2 * (x * x + z * z),
            2 * (x * z - w * y),
            2 * (y * z + w * x),
        ),
        dim=-1,
    )


def from_rot6d(rot6d: Tensor) -> Tensor:
    """Quaternion of a (possibly noisy) rot6d, by Gram-Schmidt."""
    first, second = rot6d.unflatten(-1, (3, 2)).unbind(-1)
    c0 = torch.nn.functional.normalize(first, dim=-1)
    c1 = second - (c0 * second).sum(-1, keepdim=True) * c0
    c1 = torch.nn.functional.normalize(c1, dim=-1)
    return from_matrix(torch.stack((c0, c1, torch.linalg.cross(c0, c1)), dim=-1))


def yaw(q: Tensor) -> Tensor:
    """Heading angle in (-pi, pi]: twice the half angle of the twist about z."""
    # Halved first so that q and -q give the same angle.
    w, z = q[..., 0], q[..., 3]
    return torch.atan2(2 * w * z, w * w - z * z)


def heading(q: Tensor) -> Tensor:
    """The yaw-only part of a rotation: its twist about the vertical."""
    w, z = q[..., 0], q[..., 3]
    length = torch.sqrt(w * w + z * z)
    # Upside down about a horizontal axis the twist is undefined: take zero.
    defined = length > 1e-9
    length = torch.where(defined, length, 1.0)
    zero = torch.zeros_like(w)
    w = torch.where(defined, w / length, 1.0)
    return torch.stack((w, zero, zero, torch.where(defined, z / length, 0.0)), dim=-1)


def from_yaw(angle: Tensor) -> Tensor:
    """Quaternion of a turn about the vertical."""
    zero = torch.zeros_like(angle)
    return torch.stack(((0.5 * angle).cos(), zero, zero, (0.5 * angle).sin()), dim=-1)

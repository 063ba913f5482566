"""Where the joints of a skeleton are, from the turn of each about its parent."""

from collections.abc import Sequence

import numpy as np

from spectral_skills.quaternion import multiply_planes, rotate_planes

_AXES = {"x": 1, "y": 2, "z": 3}


def from_euler(angles: np.ndarray, axes: str) -> np.ndarray:
    """(4, ...) planes w x y z of turns about the axes, each in the turned frame.

    `angles` (..., n) are in radians, one for each letter of `axes`.
    """
    total = None
    for angle, axis in zip(np.moveaxis(angles, -1, 0), axes, strict=True):
        turn = np.zeros((4, *angle.shape))
        turn[0], turn[_AXES[axis]] = np.cos(0.5 * angle), np.sin(0.5 * angle)
        total = turn if total is None else np.stack(multiply_planes(total, turn))
    assert total is not None
    return total


def from_vector(vectors: np.ndarray) -> np.ndarray:
    """(4, ...) planes w x y z of rotation vectors (..., 3)."""
    angle = np.linalg.norm(vectors, axis=-1)
    # sin(a/2)/a tends to 1/2 at zero; sinc is sin(pi x)/(pi x).
    scale = 0.5 * np.sinc(angle / (2 * np.pi))
    return np.stack([np.cos(0.5 * angle), *(scale * np.moveaxis(vectors, -1, 0))])


def forward(
    parents: Sequence[int], offsets: np.ndarray, turns: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions (T, J, 3) and orientations (T, J, 4), wxyz, in the world.

    Parents come before their children; `turns` are planes (4, T, J) of local turns,
    `root` is the path (T, 3) of joint 0.
    """
    frames, joints = turns.shape[1:]
    position, turn = np.empty((joints, 3, frames)), np.empty((joints, 4, frames))
    position[0], turn[0] = root.T, turns[:, :, 0]
    for j in range(1, joints):
        parent = parents[j]
        turn[j] = multiply_planes(turn[parent], turns[:, :, j])
        position[j] = rotate_planes(turn[parent], offsets[j])
        position[j] += position[parent]
    return position.transpose(2, 0, 1), turn.transpose(2, 0, 1)

"""Weight over the feet: how the hips move for the floor to be able to carry a motion.

A person's zero-moment point is over their feet. The robot's is not, as its masses lie
elsewhere and its feet are smaller. Where it is off the soles, an inverted pendulum that
knows the whole way ahead says how to shift the mass so that it is not.
"""

from functools import cache

import numpy as np
import torch

from spectral_skills.motion import legs
from spectral_skills.motion.checks import separation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.human.feet import Soles
from spectral_skills.motion.momentum import Momentum, follow, stiffness

PASSES = 2
_INSIDE_M = 0.02  # from the edge of the soles
_GAIN = 1.5  # feet stay where they are, so the mass moves less than the hips
_FARTHEST_M = 0.25  # that one pass moves the point: in a flight it is wild
_LEAST_FORCE, _FULL_FORCE = 0.2, 0.7  # of the weight, on feet that stand
_LEAST_HEIGHT_M = 0.3
_momentum = cache(Momentum)


def shift(rows: np.ndarray, soles: Soles) -> np.ndarray:
    """(T, 3) how to move the hips of rows (T, 36), m."""
    demand = _momentum().dynamics(torch.from_numpy(rows), FPS)
    stands = soles.standing.any(axis=1)
    corners = np.concatenate([_corners(foot) for foot in soles.feet], axis=1)
    carry = np.repeat(soles.standing, 4, axis=1)
    point, force = demand.zmp.numpy(), demand.force.numpy()
    away, outwards = separation(point[stands], corners[stands], carry[stands])
    move = np.zeros_like(point)
    # A point that is a little way inside is moved farther in.
    move[stands] = -(np.maximum(away + _INSIDE_M, 0.0))[:, None] * outwards
    loaded = (force - _LEAST_FORCE) / (_FULL_FORCE - _LEAST_FORCE)
    move *= np.clip(loaded, 0.0, 1.0)[:, None]
    move = legs.soften(move.clip(-_FARTHEST_M, _FARTHEST_M), 1.0)
    height = legs.soften(demand.centre[:, 2].numpy(), 2.0)
    moved = follow(move, stiffness(height.clip(_LEAST_HEIGHT_M)))
    return _GAIN * np.pad(moved, ((0, 0), (0, 1)))


def _corners(foot: legs.FootMotion) -> np.ndarray:
    """(T, 4, 2) of a sole, m."""
    ahead = legs.headings(foot.yaw)
    left = np.stack((-ahead[:, 1], ahead[:, 0]), axis=1)
    return np.stack(
        [
            foot.position[:, :2] + along * ahead + beside * left
            for along in (legs.HEEL_M, legs.TOE_M)
            for beside in (-legs.HALF_WIDTH_M, legs.HALF_WIDTH_M)
        ],
        axis=1,
    )

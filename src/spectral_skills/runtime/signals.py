"""What a robot tells of itself, and what its motors are told."""

import math
from dataclasses import dataclass

import numpy as np

from spectral_skills.quaternion import gravity_planes
from spectral_skills.robot import g1

DAMPED = 8.0
"""Nm s / rad of every motor in a damped stop."""


@dataclass(frozen=True)
class Sensed:
    """What a robot tells of itself."""

    time_s: float
    """When it arrived, by the monotonic clock."""
    tick: int
    """The robot's own counter."""
    quaternion: np.ndarray
    """(4,) wxyz of the pelvis."""
    gyro: np.ndarray
    """(3,) rad/s in the pelvis."""
    joints: np.ndarray
    """(29,) rad"""
    velocities: np.ndarray
    """(29,) rad/s"""
    keys: int = 0
    """Buttons of the remote that are held."""

    @property
    def gravity(self) -> np.ndarray:
        """(3,) which way is down, in the pelvis."""
        return np.array(gravity_planes(self.quaternion))

    @property
    def tilt_rad(self) -> float:
        """How far the pelvis leans."""
        return math.acos(min(1.0, max(-1.0, -float(self.gravity[2]))))


@dataclass(frozen=True)
class Order:
    """What motors are told; target velocities and torques are zero."""

    targets: np.ndarray
    """(29,) rad"""
    stiffness: np.ndarray
    """(29,) Nm / rad"""
    damping: np.ndarray
    """(29,) Nm s / rad"""

    @property
    def damped(self) -> bool:
        """Whether motors only brake."""
        return not self.stiffness.any()


def damped_stop(joints: np.ndarray) -> Order:
    """Motors that only brake; their targets do not count, and are within limits too."""
    zero = np.zeros_like(joints)
    return Order(np.clip(joints, *g1.JOINT_LIMITS.T), zero, zero + DAMPED)

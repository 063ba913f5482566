"""Two robots that follow one person: how far apart two retargetings are.

Retargeters start their clips at other places and facings, and may drop frames. One
motion is shifted in time, turned about the vertical and moved along the floor until it
lies on the other; what is left are differences.
"""

from dataclasses import dataclass

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

_MOST_LAG = 100
"""Largest number of frames by which one motion may begin later than the other."""
_PLACED = ("pelvis", *g1.FEET)
_LINKS = (*_PLACED, *g1.WRISTS)
_PARTS = {
    "leg": ("hip", "knee", "ankle"),
    "waist": ("waist",),
    "arm": ("shoulder", "elbow"),
    "wrist": ("wrist",),
}


@dataclass(frozen=True)
class Alignment:
    """How a motion is laid onto another one of the same rate."""

    lag: int  # its frame i + lag belongs to frame i of the other
    frames: int  # that both have
    first: int  # frame of the other one that the first common frame is
    yaw: float  # rad
    shift: tuple[float, float]  # m, after the turn
    scale: float  # that its path would need to be as long as the other's

    def common(self, one: np.ndarray, other: np.ndarray) -> tuple:
        """Rows of the common frames, the second motion turned and moved."""
        rows = other[self.first + self.lag :][: self.frames].copy()
        heading = rotation.from_yaw(torch.tensor(self.yaw, dtype=torch.float64))
        turned = rotation.multiply(heading, torch.from_numpy(rows[:, 3:7]))
        rows[:, :2] = rows[:, :2] @ turn(self.yaw).T + self.shift
        rows[:, 3:7] = turned.numpy()
        return one[self.first :][: self.frames], rows


@dataclass(frozen=True)
class Difference:
    """Between two motions that are laid onto each other, mean and 95th percentile."""

    alignment: Alignment
    joints_deg: float  # over frames and joints
    joints_95_deg: float
    parts_deg: dict[str, float]  # mean of the joints of each part of the body
    root_mm: float
    root_95_mm: float
    root_turn_deg: float
    feet_mm: float  # ankles
    feet_95_mm: float
    feet_from_root_mm: float  # of ankles seen from the pelvis, both facing ahead
    hands_from_root_mm: float


def compare(
    one: np.ndarray, other: np.ndarray
) -> tuple[Difference, np.ndarray, np.ndarray]:
    """Difference of (T, 36) rows of one rate, and the rows of the common frames."""
    one, other = (np.asarray(rows, dtype=np.float64) for rows in (one, other))
    alignment = align(one, other)
    one, other = alignment.common(one, other)
    joints = np.degrees(np.abs(one[:, 7:] - other[:, 7:]))
    kinematics = Kinematics(_LINKS, dtype=torch.float64)
    poses = [kinematics(torch.from_numpy(rows)) for rows in (one, other)]
    apart = (poses[0].position - poses[1].position).norm(dim=-1).numpy() * 1e3
    turns = [pose.quaternion[:, 0] for pose in poses]
    seen = [
        rotation.rotate_inverse(
            rotation.heading(turn)[:, None],
            pose.position[:, 1:] - pose.position[:, :1],
        )
        for turn, pose in zip(turns, poses, strict=True)
    ]
    around = (seen[0] - seen[1]).norm(dim=-1).numpy() * 1e3
    parts = {
        part: float(joints[:, [any(w in n for w in words) for n in g1.JOINTS]].mean())
        for part, words in _PARTS.items()
    }
    difference = Difference(
        alignment=alignment,
        joints_deg=float(joints.mean()),
        joints_95_deg=float(np.percentile(joints, 95)),
        parts_deg=parts,
        root_mm=float(apart[:, 0].mean()),
        root_95_mm=float(np.percentile(apart[:, 0], 95)),
        root_turn_deg=np.degrees(float(rotation.angle_between(*turns).mean())),
        feet_mm=float(apart[:, 1:3].mean()),
        feet_95_mm=float(np.percentile(apart[:, 1:3], 95)),
        feet_from_root_mm=float(around[:, :2].mean()),
        hands_from_root_mm=float(around[:, 2:].mean()),
    )
    return difference, one, other


def align(one: np.ndarray, other: np.ndarray) -> Alignment:
    """Lay the second motion onto the first.

    The lag is the one at which joints differ least. Turn and shift are those that bring
    pelvis and ankles closest along the floor.
    """

    def common(lag: int) -> tuple[int, int]:
        """First of their frames, and number of frames, that both have."""
        first = max(0, -lag)
        return first, min(len(one) - first, len(other) - first - lag)

    def error(lag: int) -> float:
        first, frames = common(lag)
        later = other[first + lag :][:frames, 7:]
        return float(np.abs(one[first:][:frames, 7:] - later).mean())

    least = min(len(one), len(other)) // 2
    every = range(-_MOST_LAG, _MOST_LAG + 1)
    lags = [lag for lag in every if common(lag)[1] >= least]
    lag = min(lags, key=lambda lag: (error(lag), abs(lag)))
    first, frames = common(lag)
    kinematics = Kinematics(_PLACED, dtype=torch.float64)

    def places(rows: np.ndarray) -> np.ndarray:
        return (
            kinematics(torch.from_numpy(rows)).position[..., :2].reshape(-1, 2).numpy()
        )

    goal, found = places(one[first:][:frames]), places(other[first + lag :][:frames])
    return Alignment(lag, frames, first, *laid(goal, found))


def laid(
    goal: np.ndarray, found: np.ndarray
) -> tuple[float, tuple[float, float], float]:
    """Turn, shift after it, and the scale it would need, that lay places (n, 2) of the
    floor onto others."""
    centres = goal.mean(axis=0), found.mean(axis=0)
    goal, found = goal - centres[0], found - centres[1]
    dot = (goal * found).sum()
    cross = (found[:, 0] * goal[:, 1] - found[:, 1] * goal[:, 0]).sum()
    yaw = float(np.arctan2(cross, dot))
    x, y = (centres[0] - turn(yaw) @ centres[1]).tolist()
    scale = float(np.hypot(dot, cross) / max((found**2).sum(), 1e-12))
    return yaw, (x, y), scale


def turn(yaw: float) -> np.ndarray:
    """(2, 2) matrix of a turn on the floor."""
    return np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])

"""Legs of a gesture: from stances, which say where feet and mass are, to a whole body.

The soles are where a stance has them, the centre of mass is over them, and trunk and
pelvis are turned as it says; inverse kinematics finds legs and waist.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from spectral_skills.motion.ik import InverseKinematics
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.body import turned
from spectral_skills.motion.targets import PoseTarget
from spectral_skills.robot import g1

_FREE = tuple(
    joint
    for joint in g1.JOINTS
    if not any(part in joint for part in ("shoulder", "elbow", "wrist"))
)


@dataclass(frozen=True)
class LegPose:
    """What a stance changes of the one before it; the first one is standing."""

    over: tuple[float, float] | None = None
    """Where the centre of mass is, forward and to the left, m."""
    height: float | None = None
    """Height of the pelvis, m."""
    pelvis: float | None = None
    """How far the pelvis leans forward, rad."""
    trunk: float | None = None
    left: tuple[float, float, float, float] | None = None
    """Place of the left ankle, forward, to the left and up, m, and how far its toes
    point down, rad."""
    right: tuple[float, float, float, float] | None = None


STANDING = LegPose(
    over=(0.0, 0.0),
    height=0.766,
    pelvis=0.0,
    trunk=0.0,
    left=(-0.035, 0.1136, 0.035, 0.0),
    right=(-0.035, -0.1136, 0.035, 0.0),
)


def values(before: np.ndarray | None, stance: LegPose) -> np.ndarray:
    """(13,) numbers of a stance that follows another one."""
    parts = vars(STANDING).keys()
    own = [
        np.atleast_1d(np.nan if (v := getattr(stance, p)) is None else v) for p in parts
    ]
    sizes = [np.size(getattr(STANDING, p)) for p in parts]
    full = np.concatenate(
        [np.resize(v, n) for v, n in zip(own, sizes, strict=True)]
    ).astype(float)
    return full if before is None else np.where(np.isnan(full), before, full)


@cache
def _solver() -> InverseKinematics:
    return InverseKinematics(_FREE, iterations=30, posture=1e-5)


def stood(wanted: np.ndarray, joints: np.ndarray) -> np.ndarray:
    """(T, 36) a robot with arms as in joints (T, 29) in stances (T, 13)."""
    still = bases.generate("stand", 1).rows[0].astype(np.float64)
    rows = np.tile(still, (len(wanted), 1))
    arms = [i for i, name in enumerate(g1.JOINTS) if name not in _FREE]
    rows[:, [7 + i for i in arms]] = joints[:, arms]
    rows[:, 2] = wanted[:, 2]
    none = np.zeros(len(wanted))
    place = np.stack((none, none, wanted[:, 2]), axis=1)
    over = np.stack((wanted[:, 0], wanted[:, 1], none), axis=1)

    def each(values: np.ndarray | torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(values)[:, None]

    def leaning(angle: np.ndarray) -> torch.Tensor:
        return each(turned(none, angle, none))

    level, upright = torch.tensor((1.0, 1.0, 0.0)), torch.tensor((0.0, 0.0, 0.3))
    targets = [
        PoseTarget("pelvis", each(place), leaning(wanted[:, 3]), upright, 0.03),
        PoseTarget("torso_link", None, leaning(wanted[:, 4]), 1.0, 0.1),
        PoseTarget(None, each(over), None, level),
    ]
    for link, first in zip(g1.FEET, (5, 9), strict=True):
        foot = wanted[:, first : first + 4]
        sole = each(foot[:, :3].copy()), leaning(foot[:, 3])
        targets.append(PoseTarget(link, *sole, 1.0, 0.03))
    found = _solver().solve(each(rows), targets).qpos
    return found.view(len(rows), g1.QPOS_SIZE).numpy().astype(np.float32)

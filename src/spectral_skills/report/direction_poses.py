"""Directions as pictures: the standing robot, changed as the model predicts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.report.figures import motion_grid
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions

LARGEST_RAD = 0.9
"""Change of the joint that moves most, at either end of a row."""
PANELS = 7
SHOWN = (
    *("s01", "s02", "s03", "s04"),
    *("left_arm_1", "right_leg_1"),
    *("right_arm", "spread", "stance_height"),
)
"""Directions of each family."""


def poses(directions: Directions, index: int) -> np.ndarray:
    """(PANELS, 36) the default pose from one end of a direction to the other.

    Predicted changes are linear in the amplitude; how far is chosen for the eye.
    """
    effect = dict(
        zip(directions.attributes, directions.effect_mean[index], strict=True)
    )
    joints = np.array([effect[name] for name in g1.JOINTS])
    largest = max(float(np.abs(joints).max()), 1e-9)
    qpos = np.tile(g1.DEFAULT_QPOS, (PANELS, 1))
    amplitude = np.linspace(-1, 1, PANELS)[:, None] * LARGEST_RAD / largest
    qpos[:, 7:] = (qpos[:, 7:] + amplitude * joints).clip(*g1.JOINT_LIMITS.T)
    feet = Kinematics(g1.FEET, dtype=torch.float64)(torch.as_tensor(qpos))
    qpos[:, 2] -= sole_heights(feet).amin(dim=1).numpy()  # stand on the floor
    return qpos


def draw_poses(
    directions: Directions, path: str | Path, names: Sequence[str] = SHOWN
) -> None:
    """Write a row of pictures for each direction, from minus to plus."""
    rows = []
    for name in names:
        index = directions.index(name)
        rows.append((directions.names[index], poses(directions, index)))
    motion_grid(rows, path, panels=PANELS)

"""Directions as pictures: the standing robot, changed as the model predicts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.plots import film
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions

LARGEST_RAD = 0.9
"""Change of the joint that moves most, at either end of a row."""
FARTHEST = 30.0
"""No amplitude beyond is drawn: a whole skill has a length of about 7."""
PANELS = 7
SHOWN = (
    *("s01", "s02", "s03", "s04", "s06"),
    *("right_arm", "left_arm", "spread", "stance_height"),
)
"""Directions that every file has."""


def amplitude(directions: Directions, index: int) -> float | None:
    """Moves the foremost joint by LARGEST_RAD.

    None if that joint moves now one way, now the other, or hardly at all: a picture
    would claim too much.
    """
    columns = [directions.attributes.index(name) for name in g1.JOINTS]
    mean = np.abs(directions.effect_mean[index, columns])
    foremost = int(mean.argmax())
    steady = mean[foremost] > directions.effect_std[index, columns[foremost]]
    if not steady or mean[foremost] * FARTHEST < LARGEST_RAD:
        return None
    return LARGEST_RAD / float(mean[foremost])


def poses(directions: Directions, index: int, amplitude: float) -> np.ndarray:
    """(PANELS, 36) the default pose from minus to plus an amplitude, joints alone."""
    columns = [directions.attributes.index(name) for name in g1.JOINTS]
    joints = directions.effect_mean[index, columns]
    qpos = np.tile(g1.DEFAULT_QPOS, (PANELS, 1))
    steps = np.linspace(-amplitude, amplitude, PANELS)[:, None]
    qpos[:, 7:] = (qpos[:, 7:] + steps * joints).clip(*g1.JOINT_LIMITS.T)
    feet = Kinematics(g1.FEET, dtype=torch.float64)(torch.as_tensor(qpos))
    qpos[:, 2] -= sole_heights(feet).amin(dim=1).numpy()  # stand on the floor
    return qpos


def draw_poses(
    directions: Directions, path: str | Path, names: Sequence[str] = SHOWN
) -> None:
    """Write a row of pictures for each direction that moves joints one way."""
    rows = []
    for name in names:
        index = directions.index(name)
        if (far := amplitude(directions, index)) is not None:
            label = f"{directions.names[index]} +-{far:.1f}"
            qpos = poses(directions, index, far)
            rows.append(film.Motion(qpos, np.arange(PANELS), label=label))
    if not rows:
        raise ValueError(
            f"within an amplitude of {FARTHEST:g} no direction moves a joint by "
            f"{LARGEST_RAD:g} rad, the same way in most contexts; train longer"
        )
    film.strip(path, rows, tall_px=238, times=False)

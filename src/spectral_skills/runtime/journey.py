"""A drive of a simulated robot: where it was, what was played, how time was kept."""

from typing import NamedTuple

import numpy as np

from spectral_skills.control.loop import ControlLoop, Timing, drive
from spectral_skills.control.rollout import FALL_M, Rollout, fallen
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.runtime.robot_sim import Gantry

HELD_STEPS = 25
"""Number of steps under control before the gantry lets go."""


class Journey(NamedTuple):
    """The record of a drive, which ends with a fall."""

    rollout: Rollout
    """One row for every step, with what was `playing`, and from control on the
    `distance` of the commanded skill to the corpus."""
    timing: Timing
    fell_at_s: float | None

    @property
    def walked_m(self) -> float:
        """Length of the root's path on the floor."""
        steps = np.diff(self.rollout.robot[:, 0, :2], axis=0)
        return float(np.linalg.norm(steps, axis=1).sum())


def simulate(
    loop: ControlLoop, robot: SimulatedRobot, seconds: float, paced: bool
) -> Journey:
    """Drive a simulated robot by its own time; a gantry holds it until it is under
    control."""
    gantry = Gantry(robot)
    gantry.height_m = Gantry.STANDING_M
    rows, references, playing, distance, falls = [], [], [], [], []

    def note(loop: ControlLoop) -> bool:
        mixed, row = loop.mixed, robot.qpos.copy()
        if len(distance) > HELD_STEPS:
            gantry.height_m = None
        gantry.pull()
        rows.append(row)
        references.append(row if mixed is None or mixed.row is None else mixed.row)
        playing.append(str(loop.state) if mixed is None else mixed.name)
        if mixed is not None:
            distance.append(loop.bundle.support.distance(mixed.skill))
        base = loop.bundle.bases.get(playing[-1])
        if fallen(row, FALL_M if base is None else base.fall_m):
            falls.append(robot.time_s)
        return bool(falls)

    timing = drive(loop, robot, seconds, note, lambda: robot.time_s, paced)
    extra = {"playing": np.array(playing), "distance": np.array(distance)}
    record = Rollout.of_rows("drive", np.array(rows), np.array(references), extra=extra)
    return Journey(record, timing, falls[0] if falls else None)

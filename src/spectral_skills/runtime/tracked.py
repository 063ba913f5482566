"""A bundle that follows its bases in simulation, each seen from where the robot is.

What the batch evaluation measures with torch, done by what runs on a robot. It needs to
know where the robot is, which a simulation does and a robot does not.
"""

import mujoco
import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.session import Pilot
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.robot import g1


def follow(bundle: Bundle, name: str) -> np.ndarray:
    """(T, 36) what the robot did while the reference went through the base's rows."""
    rows = bundle.base(name).rows.astype(np.float64)
    robot, pilot, encoder = SimulatedRobot(), Pilot(bundle), bundle.encoder()
    robot.reset(rows[0], velocity(robot.model, rows))
    first, last = bundle.manifest.layout.window
    done = [robot.qpos.copy()]
    for step in range(len(rows) - 1):
        seen = np.clip(np.arange(step + first, step + last + 1), 0, len(rows) - 1)
        pilot.sense(robot.sense())
        action = pilot.act(encoder(rows[seen], robot.qpos[:7]))
        robot.apply(pilot.order(action))
        robot.step()
        done.append(robot.qpos.copy())
    return np.stack(done)


def velocity(model: mujoco.MjModel, rows: np.ndarray) -> np.ndarray:
    """(35,) how a motion moves at its first row."""
    found = np.zeros(model.nv)
    mujoco.mj_differentiatePos(model, found, 1.0 / g1.CONTROL_HZ, rows[0], rows[1])
    return found

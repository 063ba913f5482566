"""What stands around a robot that is being started: a gantry, and an operator."""

import mujoco
import numpy as np

from spectral_skills.control.safety import HOLD_KEY, START_KEY, STOP_KEY, Order
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.robot import g1


class Gantry:
    """Springs that hold the pelvis upright, at a height."""

    HANGING_M, STANDING_M = g1.DEFAULT_HEIGHT + 0.10, g1.DEFAULT_HEIGHT
    STIFFNESS, TURN_STIFFNESS = 4000.0, 600.0
    DAMPING, TURN_DAMPING = 300.0, 60.0

    def __init__(self, robot: SimulatedRobot):
        self._model, self._data = robot.model, robot.data
        self._pelvis = self._model.body("pelvis").id
        self._weight = float(self._model.body_mass.sum()) * 9.81
        self.height_m: float | None = self.HANGING_M
        """None: let go."""

    def pull(self) -> None:
        """Forces of the next step; damping is left to the integrator, implicitly."""
        held = self.height_m is not None
        self._model.dof_damping[:3] = self.DAMPING * held
        self._model.dof_damping[3:6] = self.TURN_DAMPING * held
        force = np.zeros(6)
        if self.height_m is not None:
            position, quaternion = self._data.qpos[:3], self._data.qpos[3:7]
            force[:3] = self.STIFFNESS * (np.array((0, 0, self.height_m)) - position)
            # A rope carries, and never pushes down.
            force[2] = max(force[2] + self._weight, 0.0)
            turn = np.empty(3)
            mujoco.mju_quat2Vel(turn, quaternion, 1.0)
            force[3:] = -self.TURN_STIFFNESS * turn
        self._data.xfrc_applied[self._pelvis] = force


class Operator:
    """Somebody at the remote and at the gantry, who follows the instructions."""

    WAITED_S, PRESSED_S = 0.5, 0.3
    LOWERED_S, HELD_S = 0.5, 1.0

    def __init__(self, gantry: Gantry, stop_after_s: float | None = None):
        self._gantry, self._stop_after_s = gantry, stop_after_s
        self._reached_s: float | None = None
        self.started_s: float | None = None
        """When start was pressed."""

    def keys(self, now: float, order: Order | None) -> int:
        """Buttons that are held now."""
        if self.started_s is None:
            self._wait(now, order)
        if self.started_s is None:
            return 0
        since = now - self.started_s
        self._lower(since)
        if self._stop_after_s is not None and since > self._stop_after_s:
            return int(HOLD_KEY | STOP_KEY)
        return int(HOLD_KEY | START_KEY if since < self.PRESSED_S else HOLD_KEY)

    def _wait(self, now: float, order: Order | None) -> None:
        """Start a while after the driver has reached the default pose."""
        if order is None or order.damped:
            self._reached_s = None
        elif self._reached_s is not None:
            if now - self._reached_s > self.WAITED_S:
                self.started_s = now
        elif abs(order.targets - g1.DEFAULT_JOINTS).max() < 0.02:
            self._reached_s = now

    def _lower(self, since: float) -> None:
        gantry = self._gantry
        if since > self.LOWERED_S + self.HELD_S:
            gantry.height_m = None
        elif gantry.height_m is not None:
            share = min(since / self.LOWERED_S, 1.0)
            way = gantry.STANDING_M - gantry.HANGING_M
            gantry.height_m = gantry.HANGING_M + share * way

"""One G1 in MuJoCo that takes orders as the real one does, without torch."""

import mujoco
import numpy as np

from spectral_skills.control.safety import Order, Sensed
from spectral_skills.physics.settings import LARGEST, PhysicsConfig, tracking_model
from spectral_skills.robot import g1

NOISE = {"joints": 0.003, "velocities": 0.1, "gyro": 0.03, "tilt": 0.005}
"""Usual deviations of what is sensed: rad, rad/s, rad/s, rad."""
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class SimulatedRobot:
    """The training environment's own physics, for one robot."""

    def __init__(self, noise: float = 0.0, seed: int = 0):
        """`noise` scales the usual deviations of what is sensed."""
        self.noise = noise
        self.model = tracking_model(PhysicsConfig())
        # MuJoCo would write a file of warnings into the working folder,
        mujoco.set_mju_user_warning(lambda text: None)
        # and a broken robot must show, not silently restart in the zero pose.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.data = mujoco.MjData(self.model)
        self._random = np.random.default_rng(seed)
        self._ticks = 0
        self.reset(g1.DEFAULT_QPOS)

    @property
    def time_s(self) -> float:
        return self.data.time

    @property
    def qpos(self) -> np.ndarray:
        """(36,) root position, root quaternion, joints."""
        return self.data.qpos

    @property
    def qvel(self) -> np.ndarray:
        """(35,) root velocity in the world, its turn rate in the pelvis, joints."""
        return self.data.qvel

    @property
    def broken(self) -> bool:
        """Whether the simulation has left what is possible."""
        state = np.concatenate((self.qpos, self.qvel))
        return not bool((np.abs(state) < LARGEST).all())

    def reset(self, row: np.ndarray, velocity: np.ndarray | None = None) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos = row
        self.data.qvel = 0.0 if velocity is None else velocity
        self.data.ctrl = row[7:]

    def velocity_between(self, row: np.ndarray, after: np.ndarray) -> np.ndarray:
        """(35,) velocity that leads from a row to another in one control step."""
        found = np.zeros(self.model.nv)
        mujoco.mj_differentiatePos(self.model, found, 1 / g1.CONTROL_HZ, row, after)
        return found

    def snapshot(self) -> np.ndarray:
        """Everything that the simulation continues from, to the last bit."""
        found = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, found, _STATE)
        return found

    def restore(self, state: np.ndarray) -> None:
        if state.shape != (mujoco.mj_stateSize(self.model, _STATE),):
            raise ValueError(f"a state of shape {state.shape} is of another robot")
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setState(self.model, self.data, state, _STATE)

    def apply(self, order: Order) -> None:
        self.data.ctrl = order.targets
        self.model.actuator_gainprm[:, 0] = order.stiffness
        self.model.actuator_biasprm[:, 1] = -order.stiffness
        self.model.actuator_biasprm[:, 2] = -order.damping

    def step(self, seconds: float = g1.DECIMATION * g1.PHYSICS_DT_S) -> None:
        """Let time pass."""
        mujoco.mj_step(self.model, self.data, round(seconds / g1.PHYSICS_DT_S))
        self._ticks += 1

    def push(self, velocity: np.ndarray) -> None:
        """Add to the root's velocity (6,): in the world, and turning."""
        self.data.qvel[:6] += velocity

    def sense(self, noise: float = 0.0) -> Sensed:
        quaternion, gyro = self.qpos[3:7].copy(), self.qvel[3:6].copy()
        joints, velocities = self.qpos[7:].copy(), self.qvel[6:].copy()
        if noise:

            def normal(count: int, deviation: float) -> np.ndarray:
                return self._random.normal(0.0, deviation, count)

            joints += normal(29, noise * NOISE["joints"])
            velocities += normal(29, noise * NOISE["velocities"])
            gyro += normal(3, noise * NOISE["gyro"])
            axis, turn = normal(3, 1.0), np.empty(4)
            axis /= max(float(np.linalg.norm(axis)), 1e-9)
            mujoco.mju_axisAngle2Quat(turn, axis, normal(1, NOISE["tilt"])[0])
            mujoco.mju_mulQuat(quaternion, quaternion.copy(), turn)
        return Sensed(self.time_s, self._ticks, quaternion, gyro, joints, velocities)

    def read(self) -> Sensed:
        return self.sense(self.noise)

    def write(self, order: Order) -> None:
        """Follow an order for one control step."""
        self.apply(order)
        self.step()

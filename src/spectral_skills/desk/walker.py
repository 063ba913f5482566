"""A simulated robot under the bundle's controller, whose whole state can be kept."""

from collections.abc import Mapping

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.session import Pilot
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.physics.settings import LARGEST

_SIMULATION = "simulation"


class Walker:
    """One G1 that follows skills. The same skills from the same state give the same
    rows, to the last bit, on the same machine."""

    def __init__(self, bundle: Bundle):
        self._pilot, self._robot = Pilot(bundle), SimulatedRobot()

    @property
    def row(self) -> np.ndarray:
        """(36,) a copy."""
        return self._robot.qpos.copy()

    @property
    def broken(self) -> bool:
        """Whether the simulation has left what is possible."""
        now = np.concatenate((self._robot.qpos, self._robot.qvel))
        return not bool((np.abs(now) < LARGEST).all())

    def put(self, row: np.ndarray) -> None:
        """Put the robot into a pose, at rest."""
        self._robot.reset(row)
        self._pilot.reset(self._robot.sense())

    def push(self, velocity: np.ndarray) -> None:
        """Add to the root's velocity (6,)."""
        self._robot.push(velocity)

    def sense(self) -> np.ndarray:
        """(10, 93) what the robot has sensed, before a step."""
        self._pilot.sense(self._robot.sense())
        return self._pilot.history

    def act(self, skill: np.ndarray) -> None:
        """One control step by a skill, after `sense`."""
        action = self._pilot.act(skill)
        if np.isfinite(action).all():  # else motors go on with their last order
            self._robot.apply(self._pilot.order(action))
        self._robot.step()

    def state(self) -> dict[str, np.ndarray]:
        """All that the next steps depend on."""
        return self._pilot.state() | {_SIMULATION: self._robot.state()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        self._robot.restore(state[_SIMULATION])
        self._pilot.restore(state)

"""Senses to actions: the history of a robot and the controller that reads it."""

import math
from collections.abc import Mapping

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.safety import Order, Sensed


class Pilot:
    """One robot under the bundle's controller."""

    def __init__(self, bundle: Bundle):
        robot, self.layout = bundle.manifest.robot, bundle.manifest.layout
        self.default = np.array(robot.default_rad)
        self.stiffness = np.array(robot.stiffness)
        self.damping = np.array(robot.damping)
        self.limits = np.array(robot.limits_rad)
        self._scale = np.array(robot.action_scale_rad)
        self._limit = robot.action_limit
        self._controller = bundle.controller()
        self.history = np.zeros((self.layout.history, 0))
        """(10, 93) what the robot has sensed, oldest first."""
        self._command = np.zeros(self.layout.skill)
        self._last_action, self._steps = np.zeros(len(self.default)), 0

    def reset(self, sensed: Sensed) -> None:
        """Begin with a robot that has stood as it does now for a while."""
        asked = (sensed.joints - self.default) / self._scale
        self._last_action = np.clip(asked, -self._limit, self._limit)
        self.history = np.tile(self._frame(sensed), (self.layout.history, 1))
        self._steps = 0

    def sense(self, sensed: Sensed) -> None:
        """Take in what was sensed before the next step; plans read it then."""
        if self._steps == 0:
            self.reset(sensed)
        else:
            self.history = np.vstack((self.history[1:], self._frame(sensed)))

    def act(self, skill: np.ndarray) -> np.ndarray:
        """An action (29,); a skill counts once the held one's time is over."""
        since = self._steps % self.layout.hold
        if since == 0:
            self._command = skill
        angle = since * (2 * math.pi / self.layout.hold)
        command = np.append(self._command, (math.sin(angle), math.cos(angle)))
        action = self._controller(self.history, command).astype(np.float64)
        if np.isfinite(action).all():
            self._last_action = action
        self._steps += 1
        return action

    def state(self) -> dict[str, np.ndarray]:
        """All that actions depend on besides what is sensed next."""
        return {
            "history": self.history.copy(),
            "command": np.array(self._command, np.float64),
            "last_action": self._last_action.copy(),
            "steps": np.array(self._steps),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state as if nothing had been in between."""
        self.history = state["history"].copy()
        self._command = state["command"].copy()
        self._last_action = state["last_action"].copy()
        self._steps = int(state["steps"])

    def order(self, action: np.ndarray) -> Order:
        """What motors are told of an action: never past a joint's limit."""
        targets = self.default + self._scale * np.clip(
            action, -self._limit, self._limit
        )
        return Order(np.clip(targets, *self.limits.T), self.stiffness, self.damping)

    def stand(self, targets: np.ndarray) -> Order:
        """What motors are told to hold a pose."""
        return Order(np.clip(targets, *self.limits.T), self.stiffness, self.damping)

    def _frame(self, sensed: Sensed) -> np.ndarray:
        return np.concatenate(
            (
                sensed.gravity,
                sensed.gyro,
                sensed.joints - self.default,
                sensed.velocities,
                self._last_action,
            )
        )

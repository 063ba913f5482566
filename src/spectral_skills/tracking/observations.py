"""What a controller senses, what a critic sees, what an action means, and the state of
robots beside their references that rewards and terminations judge."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkStates
from spectral_skills.quaternion import gravity_planes
from spectral_skills.robot import g1
from spectral_skills.tracking.references import Reference

PROPRIO = 3 + 3 + 3 * g1.NUM_JOINTS
"""Gravity and angular velocity in the pelvis, joints, their velocities, last action."""
HISTORY = 10
CRITIC = 286
ACTION_LIMIT = 20.0


class Observation(NamedTuple):
    """What robots observe before they act."""

    history: Tensor
    """(n, 10, 93), oldest first."""
    source: Tensor
    """(n, s) skill, pose or window that the command is made from."""
    phase: Tensor
    critic: Tensor


class TrackingState(NamedTuple):
    """State after a control step, paired with the reference frame of that step."""

    robot: LinkStates
    reference: LinkStates
    """World states of the 14 tracked links, (n, 14, .)."""
    relative_position: Tensor
    relative_quaternion: Tensor
    """(n, 14, .) reference links moved to the place and heading of the robot's pelvis;
    heights are the reference's."""
    joints: Tensor
    reference_joints: Tensor
    joint_velocities: Tensor
    joint_accelerations: Tensor
    torque: Tensor
    contact_force: Tensor
    """(n, 30) largest normal force on each link, N."""
    action: Tensor
    last_action: Tensor
    """(n, 29), as the policy gave them."""
    low: Tensor
    """(n,) bool: the reference is near the floor."""


def relative_reference(
    robot: LinkStates, reference: LinkStates
) -> tuple[Tensor, Tensor]:
    """Reference links at the robot's pelvis and heading; the pelvis is link 0."""
    back = rotation.conjugate(reference.quaternion[:, 0])
    turn = rotation.heading(rotation.multiply(robot.quaternion[:, 0], back))[:, None]
    anchor = reference.position[:, :1]
    moved = rotation.rotate(turn, reference.position - anchor)
    base = torch.cat((robot.position[:, :1, :2], anchor[..., 2:]), dim=-1)
    return base + moved, rotation.multiply(turn, reference.quaternion)


class Body:
    """Turns states into proprioception, and actions into joint targets."""

    def __init__(self, device: torch.device | str, reach: float = 1.0):
        """`reach` is how far beyond their limits joints may be asked to go, in units
        of action."""
        limits = g1.target_limits(reach).T
        numbers = g1.DEFAULT_JOINTS, g1.ACTION_SCALE, *limits
        self.default, self.scale, self.low, self.high = (
            torch.tensor(of.tolist(), dtype=torch.float32, device=device)
            for of in numbers
        )

    def targets(self, action: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Joint targets within their limits, moved by the errors of the joints' zeros,
        which nobody knows of."""
        targets = self.default + self.scale * limited(action)
        return targets.clamp(self.low, self.high) + offset

    def first_action(self, joints: Tensor) -> Tensor:
        """The action that asks for a pose: the last action of a robot placed there."""
        return limited((joints - self.default) / self.scale)

    def proprio(
        self, qpos: Tensor, qvel: Tensor, last_action: Tensor, offset: Tensor | float
    ) -> Tensor:
        """One frame (n, 93) of proprioception."""
        gravity = torch.stack(gravity_planes(qpos[:, 3:7].unbind(-1)), -1)
        joints = qpos[:, 7:] - self.default - offset
        return torch.cat((gravity, qvel[:, 3:6], joints, qvel[:, 6:], last_action), -1)


def limited(action: Tensor) -> Tensor:
    """Actions within the range that a robot accepts."""
    return action.clamp(-ACTION_LIMIT, ACTION_LIMIT)


def joint_bounds(reach: float = 1.0) -> tuple[float, ...]:
    """Bounds of actions: the farther limit of each joint, what a motor at its limit may
    push with, and one unit more, since bounds are approached and not reached."""
    far = np.abs(g1.JOINT_LIMITS - g1.DEFAULT_JOINTS[:, None]).max(axis=1)
    bounds = np.minimum(far / g1.ACTION_SCALE + reach + 1.0, ACTION_LIMIT)
    return tuple(bounds.round(3).tolist())


def push_history(history: Tensor, frame: Tensor, fresh: Tensor) -> Tensor:
    """Append a frame (n, 93); fresh (n,) robots get a history of this frame alone."""
    moved = torch.cat((history[:, 1:], frame[:, None]), dim=1)
    return torch.where(fresh[:, None, None], frame[:, None], moved)


def phase(since: Tensor, hold: int) -> Tensor:
    """Sine and cosine (n, 2) of the share of a held command's time that has passed."""
    angle = since * (2 * math.pi / hold)
    return torch.stack((angle.sin(), angle.cos()), dim=-1)


def critic(
    robot: LinkStates, reference: Reference, qpos: Tensor, qvel: Tensor, action: Tensor
) -> Tensor:
    """(n, 286): the reference's joints, and the whole state in the pelvis frame."""
    pelvis, frame = robot.position[:, 0], robot.quaternion[:, 0]
    back = rotation.conjugate(frame)
    ahead = reference.rows[:, :3] - pelvis
    position = rotation.rotate(back[:, None], robot.position - pelvis[:, None])
    orientation = rotation.multiply(back[:, None], robot.quaternion)
    target = rotation.multiply(back, reference.rows[:, 3:7])
    return torch.cat(
        (
            *(reference.rows[:, 7:], reference.qvel[:, 6:]),
            *(rotation.rotate(back, ahead), rotation.to_rot6d(target)),
            *(position.flatten(1), rotation.to_rot6d(orientation).flatten(1)),
            *(rotation.rotate(back, qvel[:, :3]), qvel[:, 3:], qpos[:, 7:], action),
        ),
        dim=-1,
    )

"""A moment of many robots beside their references: all that rewards look at."""

from typing import NamedTuple

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkStates


class Moment(NamedTuple):
    """State after a control step, paired with the reference frame of that step."""

    robot: LinkStates
    """World states of the 14 tracked links, (n, 14, .)."""
    reference: LinkStates
    relative_position: Tensor
    """(n, 14, 3) reference links moved to where the robot's pelvis is, with its
    heading; heights are the reference's."""
    relative_quaternion: Tensor
    """(n, 14, 4)"""
    joints: Tensor
    """(n, 29) rad."""
    reference_joints: Tensor
    joint_velocities: Tensor
    joint_accelerations: Tensor
    torque: Tensor
    """(n, 29) Nm."""
    contact_force: Tensor
    """(n, 30) largest normal force on each link, N."""
    action: Tensor
    """(n, 29), as the policy gave it."""
    last_action: Tensor
    low: Tensor
    """(n,) bool: the reference is near the floor."""


def relative_reference(
    robot: LinkStates, reference: LinkStates
) -> tuple[Tensor, Tensor]:
    """Reference links at the robot's pelvis and heading; the pelvis is link 0."""
    turn = rotation.heading(
        rotation.multiply(
            robot.quaternion[:, 0], rotation.conjugate(reference.quaternion[:, 0])
        )
    )[:, None]
    anchor = reference.position[:, :1]
    moved = rotation.rotate(turn, reference.position - anchor)
    base = torch.cat((robot.position[:, :1, :2], anchor[..., 2:]), dim=-1)
    return base + moved, rotation.multiply(turn, reference.quaternion)

"""Moments to judge: robots on their references, or out of place by known amounts."""

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.kinematics import LinkStates
from spectral_skills.robot import g1
from spectral_skills.tracking.observations import TrackingState, relative_reference


def pair(robot: LinkStates, reference: LinkStates, **others) -> TrackingState:
    """A moment of quiet robots in the default pose that differ in their links."""
    n = len(robot.position)
    zero = torch.zeros((n, 29))
    default = torch.tensor(g1.DEFAULT_JOINTS).float().expand(n, 29)
    relative = relative_reference(robot, reference)
    values = {
        "joints": default,
        "reference_joints": default,
        "joint_velocities": zero,
        "joint_accelerations": zero,
        "torque": zero,
        "contact_force": torch.zeros((n, 30)),
        "action": zero,
        "last_action": zero,
        "low": torch.zeros(n, dtype=torch.bool),
    }
    return TrackingState(robot, reference, *relative, **(values | others))


def links(seed: int = 0, n: int = 3) -> LinkStates:
    """Links anywhere, turned anyhow, in any motion."""
    torch.manual_seed(seed)
    quaternion = rotation.normalize(torch.randn(n, 14, 4))
    position, linear, angular = torch.randn(3, n, 14, 3)
    # Slow enough not to shake.
    return LinkStates(position, quaternion, linear, 0.3 * angular)


def on_reference(**others) -> TrackingState:
    """Robots exactly where they should be."""
    return pair(links(), links(), **others)


def turn(angle: float, axis: tuple[float, float, float]) -> Tensor:
    return rotation.from_axis_angle(torch.tensor(axis), torch.tensor(angle))

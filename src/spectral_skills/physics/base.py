"""What a simulator must give: many G1s that take joint targets for 20 ms at a time.

Both simulators keep the state of all robots in torch tensors that are read and written
in place. Link poses are not among them: whoever needs them computes them from `qpos`,
which is never a substep old.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Variation:
    """How each robot differs from the nominal one; None leaves a field as it is."""

    friction: Tensor | None = None
    """(n,) sliding friction of all the robot's geoms."""
    mass_scale: Tensor | None = None
    """(n, 30) factor of each link's mass and inertia."""
    torso_com: Tensor | None = None
    """(n, 3) shift of the torso's centre of mass, m."""
    stiffness_scale: Tensor | None = None
    """(n, 29)"""
    damping_scale: Tensor | None = None
    """(n, 29)"""


class Physics(Protocol):
    """`count` robots on a device."""

    count: int
    device: torch.device
    qpos: Tensor
    """(n, 36) root position, root quaternion, joints."""
    qvel: Tensor
    """(n, 35) root velocity in the world, its turn rate in the pelvis, joints."""
    targets: Tensor
    """(n, 29) joint targets of the next step, rad."""
    delay: Tensor
    """(n,) int32 substeps for which the targets before still hold, 0 to 4."""
    held: Tensor
    """(n, 29) the targets before, rad; a reset must write them where there is delay."""
    qacc: Tensor
    """(n, 35) of the last substep."""
    torque: Tensor
    """(n, 29) of the motors in the last substep, Nm."""
    contact_force: Tensor
    """(n, 30) largest normal force of one contact of each link, last substep, N."""
    broken: Tensor
    """(n,) bool: state or targets were not sane, and the robot was put upright."""

    def step(self) -> None:
        """One control step of four substeps."""
        ...

    def vary(self, variation: Variation) -> None:
        """Set fields of each robot's model."""
        ...

    def counters(self) -> dict[str, int]:
        """What went wrong since the last call: `contacts` and `constraints` are robots
        that overflowed their share, `broken` steps that were not sane."""
        ...

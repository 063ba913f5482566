"""The interface of both simulators: many G1s that take joint targets every 20 ms.

Both keep the state of all robots in torch tensors that are read and written in place.
Link poses are not among them: they follow from `qpos`, which is never a substep old.
"""

from dataclasses import dataclass
from typing import Protocol

import mujoco
import torch
from torch import Tensor

from spectral_skills.physics.settings import PhysicsConfig


@dataclass(frozen=True)
class Variation:
    """Differences of each robot from the nominal one; None keeps the nominal value."""

    friction: Tensor | None = None
    """(n,) sliding friction of all the robot's geoms."""
    mass_scale: Tensor | None = None
    """(n, 30) factor of each link's mass and inertia."""
    torso_com: Tensor | None = None
    """(n, 3) shift of the torso's centre of mass, m."""
    stiffness_scale: Tensor | None = None
    damping_scale: Tensor | None = None
    """(n, 29)"""


class Physics(Protocol):
    """`count` robots on a device."""

    count: int
    device: torch.device
    qpos: Tensor
    """(n, 36) root position, root quaternion, joints."""
    qvel: Tensor
    """(n, 35) root velocity in the world, angular in the pelvis, joint velocities."""
    targets: Tensor
    """(n, 29) joint targets of the next step, rad."""
    delay: Tensor
    """(n,) int32 substeps for which the previous targets still hold, 0 to 4."""
    held: Tensor
    """(n, 29) previous targets, rad; a reset must write them where there is delay."""
    qacc: Tensor
    """(n, 35) accelerations of the last substep."""
    torque: Tensor
    """(n, 29) motor torques of the last substep, Nm."""
    contact_force: Tensor
    """(n, 30) largest normal force of a contact of each link, last substep, N."""
    broken: Tensor
    """(n,) bool: state or targets were not sane, and the robot was put upright."""

    def step(self) -> None:
        """One control step of four substeps."""

    def vary(self, variation: Variation) -> None:
        """Change each robot's model."""

    def counters(self) -> dict[str, int]:
        """Problems since the last call: `contacts` and `constraints` are robots that
        overflowed their share, `broken` is the number of steps that were not sane."""
        ...


def simulate(
    device: torch.device | str, count: int, config: PhysicsConfig | None = None
) -> Physics:
    """`count` robots, simulated by Warp on a GPU and by MuJoCo itself on a CPU."""
    config = config or PhysicsConfig()
    # Imported here: Warp takes seconds to import and is useless without a GPU.
    if torch.device(device).type == "cuda":
        from spectral_skills.physics.warp import WarpPhysics

        return WarpPhysics(count, config, device)
    from spectral_skills.physics.native import NativePhysics

    return NativePhysics(count, config)


Change = tuple[str, tuple[int | slice, ...], Tensor]
"""A field of the model, the part of it that changes, and values (n, ...) of robots."""
VARIED = (
    *("geom_friction", "body_mass", "body_inertia", "body_ipos"),
    *("actuator_gainprm", "actuator_biasprm"),
)
"""Fields of the model that a variation changes."""


def changes(model: mujoco.MjModel, variation: Variation) -> list[Change]:
    """A variation of the nominal `model`, field by field."""

    def nominal(field: str, *index: int | slice, like: Tensor) -> Tensor:
        return torch.as_tensor(getattr(model, field)[index], device=like.device)

    whole, links = slice(None), slice(1, None)  # body 0 is the world, geom 0 the floor
    found: list[Change] = []
    if (friction := variation.friction) is not None:
        found.append(("geom_friction", (links, 0), friction[:, None]))
    if (scale := variation.mass_scale) is not None:
        for field, each in (("body_mass", scale), ("body_inertia", scale[..., None])):
            value = nominal(field, links, like=scale)
            found.append((field, (links,), value * each))
    if (shift := variation.torso_com) is not None:
        torso = model.body("torso_link").id
        centre = nominal("body_ipos", torso, like=shift)
        found.append(("body_ipos", (torso,), centre + shift))
    for scale, field, at in (
        (variation.stiffness_scale, "actuator_gainprm", 0),
        (variation.stiffness_scale, "actuator_biasprm", 1),
        (variation.damping_scale, "actuator_biasprm", 2),
    ):
        if scale is not None:
            gain = nominal(field, whole, at, like=scale)
            found.append((field, (whole, at), gain * scale))
    return found

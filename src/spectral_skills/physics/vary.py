"""How robots differ from the nominal one, as new values of the model's fields."""

from typing import NamedTuple

import mujoco
import torch
from torch import Tensor

from spectral_skills.physics.base import Variation


class Change(NamedTuple):
    """New values of a part of one field of the model."""

    field: str
    index: tuple[int | slice, ...]
    values: Tensor
    """(n, ...) of each robot."""


VARIED = (
    *("geom_friction", "body_mass", "body_inertia", "body_ipos"),
    *("actuator_gainprm", "actuator_biasprm"),
)
"""The fields of the model that a variation changes."""


def changes(model: mujoco.MjModel, variation: Variation) -> list[Change]:
    """What a variation of the nominal `model` means, field by field."""

    def nominal(field: str, *index: int | slice, like: Tensor) -> Tensor:
        return torch.as_tensor(getattr(model, field)[index], device=like.device)

    whole, links = slice(None), slice(1, None)  # body 0 is the world, geom 0 the floor
    found = []
    if (friction := variation.friction) is not None:
        found.append(Change("geom_friction", (links, 0), friction[:, None]))
    if (scale := variation.mass_scale) is not None:
        mass = nominal("body_mass", links, like=scale)
        inertia = nominal("body_inertia", links, like=scale)
        found.append(Change("body_mass", (links,), mass * scale))
        found.append(Change("body_inertia", (links,), inertia * scale[..., None]))
    if (shift := variation.torso_com) is not None:
        torso = model.body("torso_link").id
        centre = nominal("body_ipos", torso, like=shift)
        found.append(Change("body_ipos", (torso,), centre + shift))
    if (scale := variation.stiffness_scale) is not None:
        for field, at in (("actuator_gainprm", 0), ("actuator_biasprm", 1)):
            gain = nominal(field, whole, at, like=scale)
            found.append(Change(field, (whole, at), gain * scale))
    if (scale := variation.damping_scale) is not None:
        gain = nominal("actuator_biasprm", whole, 2, like=scale)
        found.append(Change("actuator_biasprm", (whole, 2), gain * scale))
    return found

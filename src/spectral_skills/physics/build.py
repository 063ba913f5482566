"""The simulator that fits a device."""

import torch

from spectral_skills.physics.base import Physics
from spectral_skills.physics.settings import PhysicsConfig


def simulate(
    device: torch.device | str, count: int, config: PhysicsConfig | None = None
) -> Physics:
    """`count` robots, by Warp on a GPU and by MuJoCo itself on a CPU."""
    config = config or PhysicsConfig()
    # Imported here: Warp takes seconds, and is of no use without a GPU.
    if torch.device(device).type == "cuda":
        from spectral_skills.physics.warp import WarpPhysics

        return WarpPhysics(count, config, device)
    from spectral_skills.physics.native import NativePhysics

    return NativePhysics(count, config)

"""The simulated G1: every choice that trades accuracy for speed, in one place.

The solver is Newton with pyramidal friction cones and implicit damping at 5 ms; both
simulators run the model built here. `benchmarks/physics.py` measures what each choice
costs in accuracy and time; docs/findings/tracking.md has the numbers.
"""

from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np

from spectral_skills.robot import g1
from spectral_skills.robot.model import build_spec

FRICTION = 0.6
"""Nominal sliding friction of the robot's geoms."""

LARGEST = 1e6
"""Largest coordinate or velocity of a robot that is not broken."""

_NOT_IN_LIGHT_SOLE = (3, 5)
"""Capsules, of 1 to 7 from right to left, that a light foot lacks. It keeps rims,
corners, and the middle one, which reaches farthest to heel and toe."""


@dataclass(frozen=True)
class PhysicsConfig:
    """Settings of the simulators; the defaults are exact, for evaluation."""

    iterations: int = 10
    """Largest number of Newton iterations of a substep."""
    line_search: int = 20
    """Largest number of line search steps in one iteration."""
    contacts: int = 60
    """Number of contacts per robot, pooled over all robots; Warp only."""
    constraints: int = 160
    """Number of constraint rows per robot: four for a contact with friction, one for a
    joint at its limit; Warp only."""
    feet: Literal["full", "light"] = "full"
    self_collision: bool = True


FAST = PhysicsConfig(iterations=5, line_search=10, feet="light")
"""Settings for training."""


def tracking_model(config: PhysicsConfig) -> mujoco.MjModel:
    """The G1 without meshes on a floor. Contacts of the feet and of all links with the
    floor have friction, those between other links have none: friction there would take
    four rows instead of one."""
    spec = build_spec(meshes=False)
    option = spec.option
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.iterations = config.iterations
    option.ls_iterations = config.line_search
    # Sensors would be computed in every substep, and nothing reads them.
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    if config.feet == "light":
        sides = ("left_foot{}_collision", "right_foot{}_collision")
        dropped = {side.format(i) for side in sides for i in _NOT_IN_LIGHT_SOLE}
        for geom in [g for g in spec.geoms if g.name in dropped]:
            spec.delete(geom)
    for geom in spec.geoms:
        if geom.name == "floor":
            # The larger friction of two geoms counts: here it is the robot's.
            geom.condim, geom.friction[0] = 3, mujoco.mjMINMU
            geom.contype = int(config.self_collision)
            continue
        foot = geom.parent.name in g1.FEET
        geom.condim = 3 if foot else 1
        geom.priority = int(foot)
        geom.friction[0] = FRICTION
        geom.conaffinity = int(config.self_collision)
    return spec.compile()


def geom_links(model: mujoco.MjModel) -> np.ndarray:
    """Link of each geom as an index into `g1.LINKS`, -1 for the floor."""
    links = np.array([model.body(name).id for name in g1.LINKS])
    assert (links == np.arange(1, len(g1.LINKS) + 1)).all(), "the world is body 0"
    return model.geom_bodyid.astype(np.int32) - 1

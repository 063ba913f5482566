"""The simulated G1: every choice that trades accuracy for speed, in one place.

The solver is Newton with pyramidal friction cones and implicit damping at 5 ms; both
simulators run the model built here. `benchmarks/physics.py` measures the cost of each
choice (table Physics), and docs/findings/tracking.md has the times. The distances
below, of joints (rms) and root, are means over a second of robots swaying on both feet,
to the same second with 100 / 50 iterations; in C of eight robots. Starts a microradian
apart diverge to 0.1 mrad and 0.03 mm in C, 1.0 and 0.4 in Warp.

* `iterations`, `line_search`: 10 / 20 is within that. Fewer cost little accuracy in
  Warp only: 6 / 12 gives 0.9 mrad and 0.2 mm there, 5 / 10 1.9 and 0.7, 3 / 6 3.0 and
  1.2, 2 / 4 4.6 and 1.9. In C 5 / 10 gives 3.2 and 1.6, 3 / 6 44 and 64, 2 / 4 broken
  robots.
* `feet`: a flat foot of seven capsules touches the ground with 14 contacts, 56 rows.
  "light" keeps five (10 contacts, 40 rows): 2.8 mrad and 1.2 mm in C. Its corners
  lose at most 3.1 mm, and its support polygon 1.4 % of its area.
* `self_collision`: 469 pairs of geoms (365 with light feet) besides those with the
  floor. Without them (4.5 mrad and 1.5 mm in C) arms pass through the trunk, and only
  contacts with the floor have forces.
* `contacts`, `constraints`: the size of each robot's share. 120 rows and 35 contacts
  overflowed for 71 % of the robots of a training run from scratch, 160 and 60 for
  6.7 %, and for none of 16,384 robots in 300 M frames of the embedded corpus. What does
  not fit is dropped, and counted by `Physics.counters`.
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

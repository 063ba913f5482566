"""How deep the robot's shapes are in each other and under the floor, by MuJoCo.

Shapes are the capsules and spheres that the simulated robot collides with, and pairs
are those that MuJoCo itself tests: links that follow each other are allowed to touch.
"""

from dataclasses import dataclass
from functools import cache

import mujoco
import numpy as np

from spectral_skills.robot.model import build_model


@dataclass(frozen=True)
class Overlap:
    """Overlaps of a clip of T frames; what does not overlap has depth zero."""

    own_depth: np.ndarray  # (T,) of the deepest pair of the robot's own links, m
    own_links: np.ndarray  # (T, 2) MuJoCo's bodies of that pair; 0 for none
    lowest: np.ndarray  # (T,) height of the lowest point of any shape, m
    links: np.ndarray  # (T, 30, 3) places of the links in the order of g1.LINKS, m

    def pair(self, frame: int) -> str:
        """Names of the links of a frame's deepest pair; empty where there is none."""
        names = [_model().body(i).name for i in self.own_links[frame] if i]
        return " and ".join(sorted(names))


@cache
def _model() -> mujoco.MjModel:
    return build_model(meshes=False, floor=False)


def overlap(qpos: np.ndarray) -> Overlap:
    """Overlaps of (T, 36) rows."""
    model, frames = _model(), len(qpos)
    data = mujoco.MjData(model)
    depth, pair = np.zeros(frames), np.zeros((frames, 2), np.int32)
    height, upright = np.empty((frames, model.ngeom)), np.empty((frames, model.ngeom))
    links = np.empty((frames, model.nbody - 1, 3))
    for i, row in enumerate(np.asarray(qpos, dtype=np.float64)):
        data.qpos = row
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        if data.ncon:
            contact = data.contact
            deepest = contact.dist.argmin()
            depth[i] = max(0.0, -contact.dist[deepest])
            pair[i] = model.geom_bodyid[contact.geom[deepest]] * (depth[i] > 0)
        links[i] = data.xpos[1:]  # the first one is the world
        height[i], upright[i] = data.geom_xpos[:, 2], data.geom_xmat[:, 8]
    # A capsule's axis is its z, from end to end; a sphere has none.
    radius, half = model.geom_size[:, 0], model.geom_size[:, 1]
    half = half * (model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)
    bottom = height - np.abs(upright) * half - radius
    return Overlap(depth, pair, bottom.min(axis=1), links)

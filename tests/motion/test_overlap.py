"""Depths of shapes, against MuJoCo's other ways to find them."""

import mujoco
import numpy as np

from spectral_skills.motion.checks import overlap
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model


def random_rows(frames: int) -> np.ndarray:
    """Any pose within the limits, near the floor, turned in any way."""
    random = np.random.default_rng(0)
    rows, (low, high) = np.tile(g1.DEFAULT_QPOS, (frames, 1)), g1.JOINT_LIMITS.T
    rows[:, 2] = random.uniform(0.2, 0.6, frames)
    rows[:, 3:7] = random.normal(size=(frames, 4))
    rows[:, 3:7] /= np.linalg.norm(rows[:, 3:7], axis=1, keepdims=True)
    rows[:, 7:] = random.uniform(low, high, (frames, g1.NUM_JOINTS))
    return rows


def test_default_pose_touches_nothing():
    found = overlap(g1.DEFAULT_QPOS[None])
    assert found.own_depth[0] == 0
    assert found.pair(0) == ""


def test_depths_are_those_of_a_simulation_with_a_floor():
    """Contacts of the whole pipeline, floor included, frame by frame."""
    rows = random_rows(60)
    found = overlap(rows)
    model = build_model(meshes=False, floor=True)
    data = mujoco.MjData(model)
    floor = model.geom("floor").id
    deep = []
    for i, row in enumerate(rows):
        data.qpos = row
        mujoco.mj_forward(model, data)
        geoms, depth = data.contact.geom, -data.contact.dist
        on_floor = (geoms == floor).any(axis=1)
        own = depth[~on_floor].max(initial=0.0)
        np.testing.assert_allclose(found.own_depth[i], own, atol=1e-9)
        under = depth[on_floor].max(initial=0.0)
        np.testing.assert_allclose(max(0.0, -found.lowest[i]), under, atol=1e-9)
        deep.append((own > 0, under > 0))
        if own > 0:
            pair = geoms[~on_floor][depth[~on_floor].argmax()]
            names = sorted(model.body(model.geom_bodyid[g]).name for g in pair)
            assert found.pair(i) == " and ".join(names)
    # Both happen in many of the frames, and not in all of them.
    assert (np.mean(deep, axis=0) > 0.2).all() and (np.mean(deep, axis=0) < 1).all()

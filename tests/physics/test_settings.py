"""What the settings change in the model, and what they leave as it is."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from spectral_skills.config import from_dict, to_dict
from spectral_skills.physics.settings import PhysicsConfig, geom_links, tracking_model
from spectral_skills.robot import g1


def sole(config: PhysicsConfig) -> np.ndarray:
    """(k, 2) ends of the left foot's capsules in the frame of its link."""
    model = tracking_model(config)
    foot = model.body("left_ankle_roll_link").id
    ends = []
    for geom in np.flatnonzero(model.geom_bodyid == foot):
        w, x, y, z = model.geom_quat[geom]
        axis = np.array([2 * (x * z + w * y), 2 * (y * z - w * x)])
        for sign in (1, -1):
            half = sign * model.geom_size[geom, 1]
            ends.append(model.geom_pos[geom, :2] + half * axis)
    return np.array(ends)


def test_light_feet_keep_the_sole():
    """Ten contacts instead of fourteen, at most 3.2 mm inside the full outline."""
    full, light = sole(PhysicsConfig()), sole(PhysicsConfig(feet="light"))
    assert len(full) == 14 and len(light) == 10
    hull = ConvexHull(light)
    outside = full @ hull.equations[:, :2].T + hull.equations[:, 2]
    assert 2e-3 < outside.max() < 3.2e-3
    assert hull.volume / ConvexHull(full).volume == pytest.approx(0.986, abs=2e-3)


def test_settings_reach_the_model():
    config = PhysicsConfig(iterations=7, line_search=9)
    model = tracking_model(config)
    assert (model.opt.iterations, model.opt.ls_iterations) == (7, 9)
    assert model.opt.timestep == g1.PHYSICS_DT_S
    assert model.nsensor == 0 and model.nu == 29 and model.nv == 35
    feet = np.isin(geom_links(model), [g1.LINKS.index(name) for name in g1.FEET])
    assert feet.sum() == 14
    assert (model.geom_condim[feet] == 3).all() and (model.geom_priority[feet]).all()
    assert (model.geom_condim[1:][~feet[1:]] == 1).all()
    assert model.geom_condim[0] == 3
    assert from_dict(PhysicsConfig, to_dict(config)) == config


def test_self_collision_can_be_left_out():
    """The floor still meets every geom."""
    model = tracking_model(PhysicsConfig(self_collision=False))
    meet = model.geom_contype[:, None] & model.geom_conaffinity[None] > 0
    meet |= meet.T
    assert meet[0, 1:].all() and not meet[1:, 1:].any()
    assert not meet[0, 0]

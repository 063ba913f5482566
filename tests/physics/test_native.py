"""MuJoCo in C behind the common interface: laws of motion, and nothing stale."""

import time

import mujoco
import numpy as np
import pytest
import torch

from spectral_skills.physics.base import Variation
from spectral_skills.physics.native import NativePhysics
from spectral_skills.physics.settings import FRICTION, PhysicsConfig, tracking_model
from spectral_skills.robot import g1

DEFAULT = torch.tensor(g1.DEFAULT_QPOS).float()
JOINTS = DEFAULT[7:]
GRAVITY = 9.81


def standing(count: int = 1, height: float = 0.735, **options) -> NativePhysics:
    """Robots in the default pose whose soles touch the ground."""
    physics = NativePhysics(count, **options)
    physics.qpos[:, 2] = height
    return physics


def lying() -> NativePhysics:
    """One robot dropped on its front, hands and feet on the ground."""
    physics = standing(height=0.2)
    physics.qpos[:, 3:7] = torch.tensor([0.5, 0.0, 0.5, 0.0]).mul(2**0.5)
    for _ in range(30):
        physics.step()
    return physics


def test_falls_as_a_free_body():
    """At rest in its targets' pose it falls rigidly, as the integrator has it."""
    physics = standing(2, height=8.0)
    for _ in range(50):
        physics.step()
    substeps = 200
    fallen = GRAVITY * g1.PHYSICS_DT_S**2 * substeps * (substeps + 1) / 2
    torch.testing.assert_close(physics.qpos[:, 2], torch.full((2,), 8.0 - fallen))
    speed = torch.full((2,), -GRAVITY * g1.PHYSICS_DT_S * substeps)
    torch.testing.assert_close(physics.qvel[:, 2], speed)
    torch.testing.assert_close(physics.qpos[:, 7:], JOINTS.repeat(2, 1))
    assert physics.contact_force.abs().max() == 0
    assert physics.torque.abs().max() < 1e-3


def test_motors_do_not_move_the_centre_of_mass():
    """Whatever the motors do in the air, gravity alone moves the whole."""
    physics = standing(height=8.0)
    generator = torch.Generator().manual_seed(0)
    model, data = physics.model, mujoco.MjData(physics.model)

    def centre() -> float:
        data.qpos = physics.qpos[0].numpy()
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return data.subtree_com[1, 2]

    before = centre()
    for _ in range(50):
        physics.targets[:] = JOINTS + 0.4 * torch.randn(1, 29, generator=generator)
        physics.step()
    substeps = 200
    fallen = GRAVITY * g1.PHYSICS_DT_S**2 * substeps * (substeps + 1) / 2
    assert before - centre() == pytest.approx(fallen, abs=0.01)


def test_stands_for_a_while():
    """Gains this soft cannot balance for long, but half a second they hold."""
    physics = standing()
    for _ in range(25):
        physics.step()
    assert physics.qpos[0, 2] == pytest.approx(0.735, abs=0.01)
    assert physics.qpos[0, 3] > 0.995
    assert (physics.qpos[0, 7:] - JOINTS).abs().max() < 0.25


def test_joints_reach_their_targets():
    physics = standing(height=8.0)
    physics.model.opt.gravity[:] = 0.0
    offset = 0.2 * torch.tensor([(-1.0) ** i for i in range(29)])
    physics.targets[:] = JOINTS + offset
    for _ in range(75):
        physics.step()
    assert (physics.qpos[0, 7:] - physics.targets[0]).abs().max() < 0.01
    assert physics.qvel.abs().max() < 0.1


@pytest.mark.parametrize("delay", range(5))
def test_old_targets_hold_for_the_delay(delay: int):
    """Two steps, against substeps made by hand."""
    physics = standing()
    physics.delay[:] = delay
    model = tracking_model(PhysicsConfig())
    data = mujoco.MjData(model)
    data.qpos = DEFAULT.numpy()
    data.qpos[2] = np.float32(0.735)
    first, second = JOINTS + 0.1, JOINTS - 0.2
    for targets, held in ((first, JOINTS), (second, first)):
        physics.targets[:] = targets
        physics.step()
        for substep in range(g1.DECIMATION):
            data.ctrl = held if substep < delay else targets
            mujoco.mj_step(model, data)
    torch.testing.assert_close(
        physics.qpos[0], torch.tensor(data.qpos).float(), atol=2e-6, rtol=0
    )
    torch.testing.assert_close(
        physics.torque[0],
        torch.tensor(data.actuator_force).float(),
        atol=2e-3,
        rtol=1e-3,
    )


def test_robots_differ_by_their_variation():
    physics = standing(2)
    scale = torch.ones(2, 30)
    scale[1, g1.LINKS.index("torso_link")] = 2.0
    physics.vary(
        Variation(
            mass_scale=scale,
            torso_com=torch.tensor([[0.0, 0.0, 0.0], [0.01, 0.02, 0.03]]),
            stiffness_scale=torch.tensor([1.0, 0.5])[:, None].repeat(1, 29),
        )
    )
    physics.vary(Variation(damping_scale=torch.full((2, 29), 3.0)))
    plain, heavy = physics.models
    torso = plain.body("torso_link").id
    assert heavy.body_subtreemass[0] - plain.body_subtreemass[0] == pytest.approx(7.818)
    np.testing.assert_allclose(heavy.body_inertia[torso], 2 * plain.body_inertia[torso])
    np.testing.assert_allclose(
        heavy.body_ipos[torso] - plain.body_ipos[torso], [0.01, 0.02, 0.03]
    )
    assert (heavy.dof_invweight0 < plain.dof_invweight0).any()
    np.testing.assert_allclose(heavy.actuator_gainprm[:, 0], g1.STIFFNESS / 2)
    np.testing.assert_allclose(heavy.actuator_biasprm[:, 1], -g1.STIFFNESS / 2)
    np.testing.assert_allclose(heavy.actuator_biasprm[:, 2], -g1.DAMPING * 3)
    np.testing.assert_allclose(physics.model.actuator_gainprm[:, 0], g1.STIFFNESS)


def test_the_ground_carries_the_weight():
    """Of a robot half as heavy again too; no link but the feet feels it."""
    physics = standing(2)
    scale = torch.tensor([1.0, 1.5])[:, None].repeat(1, 30)
    physics.vary(Variation(mass_scale=scale))
    for _ in range(15):
        physics.step()
    feet = [g1.LINKS.index(name) for name in g1.FEET]
    for i, (model, data) in enumerate(zip(physics.models, physics.data, strict=True)):
        force, total = np.zeros(6), 0.0
        for contact in range(data.ncon):
            mujoco.mj_contactForce(model, data, contact, force)
            total += force[0]
        assert total == pytest.approx(GRAVITY * 33.341 * float(scale[i, 0]), rel=0.1)
        largest = physics.contact_force[i]
        assert largest.sum() == largest[feet].sum()
        assert total / data.ncon <= largest.max() <= total


def floor_contacts(physics: NativePhysics) -> tuple[np.ndarray, np.ndarray]:
    """(k,) links and (k, 2) sliding frictions of contacts with the floor."""
    contact = physics.data[0].contact
    floor = (contact.geom == 0).any(axis=1)
    links = physics.model.geom_bodyid[contact.geom[floor]].max(axis=1) - 1
    assert (contact.dim[floor] == 3).all()
    return np.array(g1.LINKS)[links], contact.friction[floor, :2]


@pytest.mark.parametrize("friction", [0.3, 1.4])
@pytest.mark.parametrize("pose", [standing, lying])
def test_friction_is_the_robots(pose, friction: float):
    """On the feet of one who stands, and on other links of one who lies."""
    physics = pose()
    physics.step()
    links, before = floor_contacts(physics)
    assert len(links) and np.isin(links, g1.FEET).all() == (pose is standing)
    np.testing.assert_allclose(before, FRICTION)
    physics.vary(Variation(friction=torch.tensor([friction])))
    physics.step()
    np.testing.assert_allclose(floor_contacts(physics)[1], friction, rtol=1e-6)


def test_slippery_feet_slide():
    physics = standing(2)
    physics.vary(Variation(friction=torch.tensor([0.02, 1.5])))
    physics.qvel[:, 1] = 0.5
    for _ in range(10):
        physics.step()
    feet = physics.models[0].body("left_ankle_roll_link").id
    slid = [data.xpos[feet, 1] for data in physics.data]
    assert slid[0] - slid[1] > 0.05


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -2e6])
def test_a_broken_robot_is_put_upright(bad: float):
    physics = standing(3)
    for _ in range(3):
        physics.step()
    physics.qvel[1, 9] = bad
    physics.step()
    assert physics.broken.tolist() == [False, True, False]
    torch.testing.assert_close(physics.qpos[1], DEFAULT)
    assert physics.qvel[1].abs().max() == 0
    torch.testing.assert_close(physics.qpos[0], physics.qpos[2])
    assert physics.counters() == {"broken": 1, "contacts": 0, "constraints": 0}
    physics.step()
    assert not physics.broken.any()
    assert physics.counters()["broken"] == 0


def test_what_breaks_within_a_step_leaves_no_file(tmp_path, monkeypatch):
    """MuJoCo notes it in the folder one works in, unless it is told not to."""
    monkeypatch.chdir(tmp_path)
    physics = standing(1)
    physics.qvel[0, 9:] = 5e5
    physics.step()
    assert physics.broken.all()
    assert not [*tmp_path.iterdir()]


def test_contact_force_of_each_link():
    """Against MuJoCo's own decoding, on a robot that touches itself and the floor."""
    physics = lying()
    physics.targets[:, g1.joint_index("left_hip_roll")] = -0.5
    physics.targets[:, g1.joint_index("right_hip_roll")] = 0.5
    for _ in range(15):
        physics.step()
    data, expected = physics.data[0], np.zeros(30)
    force, both = np.zeros(6), 0
    for i, contact in enumerate(data.contact):
        mujoco.mj_contactForce(physics.model, data, i, force)
        bodies = physics.model.geom_bodyid[contact.geom]
        both += (bodies > 0).all()
        for body in bodies[bodies > 0]:
            expected[body - 1] = max(expected[body - 1], force[0])
    assert both and np.count_nonzero(expected) >= 4
    np.testing.assert_allclose(physics.contact_force[0], expected, rtol=1e-5, atol=1e-4)


def test_what_is_written_counts():
    """A reset robot moves like a new one, whatever it did before."""
    used, fresh = standing(), standing()
    used.targets[:] = JOINTS + 0.5
    for _ in range(30):
        used.step()
    for physics in (used, fresh):
        physics.qpos[:] = DEFAULT
        physics.qpos[:, 2] = 3.0
        physics.qvel[:] = 0.1
        physics.targets[:] = JOINTS + 0.1
        physics.held[:] = JOINTS
        for _ in range(5):
            physics.step()
    torch.testing.assert_close(used.qpos, fresh.qpos, atol=1e-6, rtol=0)
    torch.testing.assert_close(used.qvel, fresh.qvel, atol=1e-4, rtol=0)


def test_threads_change_nothing():
    alone, together = standing(3, threads=1), standing(3, threads=2)
    for physics in (alone, together):
        physics.targets[:] += torch.tensor([0.0, 0.1, 0.2])[:, None]
        for _ in range(5):
            physics.step()
    assert torch.equal(alone.qpos, together.qpos)
    assert torch.equal(alone.contact_force, together.contact_force)


def test_eight_robots_in_real_time():
    """On two cores; in processor time, since tests may share the machine."""
    physics = standing(8)
    start = time.process_time()
    for _ in range(50):
        physics.step()
    assert (time.process_time() - start) / 2 < 1.0

"""Forward kinematics is MuJoCo's; velocities are those of SONIC's motion library."""

import mujoco
import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation

from spectral_skills import rotation
from spectral_skills.motion.kinematics import (
    Kinematics,
    LinkPoses,
    joint_velocities,
    link_velocities,
    smooth,
)
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

FPS = 50.0


def random_rows(count: int, seed: int = 0) -> np.ndarray:
    """Any pose within the joint limits, any orientation, metres from the origin."""
    random = np.random.default_rng(seed)
    position = random.uniform(-5, 5, (count, 3))
    quaternion = random.normal(size=(count, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    low, high = g1.JOINT_LIMITS.T
    joints = random.uniform(low, high, (count, 29))
    return np.concatenate((position, quaternion, joints), axis=1)


@pytest.fixture(scope="module")
def kinematics():
    return Kinematics()


def test_a_long_motion_is_computed_chunk_by_chunk(kinematics, monkeypatch):
    """At no time are all links of a long motion in memory."""
    calls = []

    def noted(name):
        true = getattr(Kinematics, name)
        monkeypatch.setattr(
            Kinematics, name, lambda self, x: (calls.append(name), true(self, x))[1]
        )

    rows = torch.from_numpy(random_rows(10)).float()
    whole = kinematics(rows)
    monkeypatch.setattr("spectral_skills.motion.kinematics._CPU_CHUNK", 4)
    noted("_walk")
    noted("_rows")
    parts = kinematics(rows)
    assert calls == ["_walk", "_rows", "_rows"] * 3
    assert torch.equal(parts.position, whole.position)
    assert torch.equal(parts.quaternion, whole.quaternion)


@pytest.fixture(scope="module")
def walking(make_clip, kinematics):
    """Poses of a walk in double precision, and its rows."""
    rows = torch.from_numpy(make_clip(frames=60, seed=3).qpos().astype(np.float64))
    return Kinematics(dtype=torch.float64)(rows), rows


def test_equals_mujoco(kinematics):
    """Every link within 1e-5 m and 1e-4 rad of mj_kinematics, in float32."""
    rows = random_rows(100)
    poses = kinematics(torch.from_numpy(rows).float())
    model = build_model(floor=False)
    data = mujoco.MjData(model)
    for row, position, quaternion in zip(
        rows, poses.position, poses.quaternion, strict=True
    ):
        data.qpos[:] = row.astype(np.float32)
        mujoco.mj_kinematics(model, data)
        error = np.linalg.norm(position.numpy() - data.xpos[1:], axis=1)
        assert error.max() < 1e-5
        expected = torch.from_numpy(data.xquat[1:])
        angle = rotation.angle_between(quaternion.double(), expected)
        assert angle.max() < 1e-4


def test_quaternions_are_unit(kinematics):
    """Down the longest chain they stay unit to float precision."""
    poses = kinematics(torch.from_numpy(random_rows(50)).float())
    assert (poses.quaternion.norm(dim=-1) - 1).abs().max() < 1e-5


def test_links_come_in_the_order_asked(kinematics):
    """A subset, in any order, is that selection of all links."""
    rows = torch.from_numpy(random_rows(5)).float()
    everything = kinematics(rows)
    for links in (g1.TRACKED_LINKS, tuple(reversed(g1.LINKS)), ("torso_link",)):
        some = Kinematics(links)(rows)
        index = [g1.LINKS.index(name) for name in links]
        torch.testing.assert_close(some.position, everything.position[:, index])
        torch.testing.assert_close(some.quaternion, everything.quaternion[:, index])


def test_unknown_link_is_an_error():
    """Not a spurious zero."""
    with pytest.raises(ValueError, match="head_link"):
        Kinematics(("head_link",))


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3), (0,), (2, 0, 3)])
def test_leading_shapes(kinematics, shape):
    """Any leading shape, also none and empty."""
    count = int(np.prod(shape))
    rows = torch.from_numpy(random_rows(count)).float()
    poses = kinematics(rows.reshape(*shape, 36))
    assert poses.position.shape == (*shape, 30, 3)
    assert poses.quaternion.shape == (*shape, 30, 4)
    flat = kinematics(rows)
    torch.testing.assert_close(poses.position.reshape(-1, 30, 3), flat.position)


def test_chunks_are_invisible(kinematics):
    """Above 8192 rows a CPU works in rounds; the result does not show it."""
    rows = torch.from_numpy(random_rows(9000)).float()
    ends = torch.cat((rows[:3], rows[-3:]))
    poses, expected = kinematics(rows), kinematics(ends)
    found = torch.cat((poses.position[:3], poses.position[-3:]))
    torch.testing.assert_close(found, expected.position)


def test_input_may_be_strided(kinematics):
    """Rows that are a slice of something larger."""
    rows = torch.from_numpy(random_rows(8)).float()
    wide = torch.zeros(8, 40)
    wide[:, 2:38] = rows
    found = kinematics(wide[::2, 2:38]).position
    torch.testing.assert_close(found, kinematics(rows[::2].contiguous()).position)


def test_derivative_matches_finite_differences():
    """Autograd through the tree, in float64."""
    kinematics = Kinematics(g1.END_EFFECTORS, dtype=torch.float64)
    rows = torch.from_numpy(random_rows(2)).requires_grad_()

    def forward(rows):
        poses = kinematics(rows)
        return poses.position, poses.quaternion

    assert torch.autograd.gradcheck(forward, (rows,))


def test_rigid_motion_of_the_root_moves_every_link_rigidly(kinematics):
    """FK commutes with turning and shifting the world."""
    rows = torch.from_numpy(random_rows(10))
    kinematics = Kinematics(dtype=torch.float64)
    turn = rotation.exp(torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64))
    shift = torch.tensor([1.0, -2, 3], dtype=torch.float64)
    root = rotation.rotate(turn, rows[:, :3]) + shift
    moved = torch.cat((root, rotation.multiply(turn, rows[:, 3:7]), rows[:, 7:]), 1)
    before, after = kinematics(rows), kinematics(moved)
    expected = rotation.rotate(turn, before.position) + shift
    torch.testing.assert_close(after.position, expected)


def test_smooth_is_scipys_gaussian():
    """sigma 2 frames, edges repeated, for long clips and very short ones."""
    for frames in (1, 2, 5, 17, 60):
        values = np.random.default_rng(frames).normal(size=(frames, 3, 2))
        expected = gaussian_filter1d(values, sigma=2, axis=0, mode="nearest")
        found = smooth(torch.from_numpy(values)).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_link_velocities_follow_sonic(walking):
    """Gradient and forward quaternion difference (last 0), then the Gaussian."""
    poses, _ = walking
    found = link_velocities(poses, FPS)
    linear = np.gradient(poses.position.numpy(), 1 / FPS, axis=0)
    linear = gaussian_filter1d(linear, sigma=2, axis=0, mode="nearest")
    np.testing.assert_allclose(found.linear.numpy(), linear, atol=1e-9)
    xyzw = np.roll(poses.quaternion.numpy(), -1, axis=-1)
    frames, links = xyzw.shape[:2]
    after = Rotation.from_quat(xyzw[1:].reshape(-1, 4))
    before = Rotation.from_quat(xyzw[:-1].reshape(-1, 4))
    turn = (after * before.inv()).as_rotvec().reshape(frames - 1, links, 3) * FPS
    angular = np.concatenate((turn, np.zeros((1, links, 3))))
    angular = gaussian_filter1d(angular, sigma=2, axis=0, mode="nearest")
    np.testing.assert_allclose(found.angular.numpy(), angular, atol=1e-8)


def test_velocities_ignore_the_double_cover(walking):
    """Flipping the sign of some quaternions changes nothing."""
    poses, _ = walking
    flips = torch.ones(len(poses.position), 1, 1, dtype=torch.float64)
    flips[20:35] = -1
    flipped = LinkPoses(poses.position, poses.quaternion * flips)
    found, expected = link_velocities(flipped, FPS), link_velocities(poses, FPS)
    torch.testing.assert_close(found.angular, expected.angular)


def test_joint_velocities_are_forward_differences(walking):
    """Unfiltered; the last one repeats."""
    joints = walking[1][:, 7:]
    found = joint_velocities(joints, FPS)
    expected = (joints[1:] - joints[:-1]) * FPS
    torch.testing.assert_close(found[:-1], expected)
    torch.testing.assert_close(found[-1], expected[-1])


def test_constant_velocity_is_recovered(kinematics):
    """A root that glides gives that velocity to every link."""
    velocity = torch.tensor([0.7, -0.3, 0.1], dtype=torch.float64)
    time = torch.arange(50, dtype=torch.float64)[:, None] / FPS
    rows = torch.from_numpy(g1.DEFAULT_QPOS).repeat(50, 1)
    rows[:, :3] += time * velocity
    found = link_velocities(Kinematics(dtype=torch.float64)(rows), FPS)
    torch.testing.assert_close(found.linear, velocity.expand(50, 30, 3))
    torch.testing.assert_close(found.angular, torch.zeros_like(found.angular))


def test_pure_spin_is_recovered():
    """A root that spins about a tilted axis gives that world angular velocity."""
    spin = torch.tensor([0.4, -0.2, 2.0], dtype=torch.float64)
    time = torch.arange(50, dtype=torch.float64)[:, None] / FPS
    rows = torch.from_numpy(g1.DEFAULT_QPOS).repeat(50, 1)
    lean = rotation.exp(torch.tensor([0.2, 0.1, 0.5], dtype=torch.float64))
    rows[:, 3:7] = rotation.multiply(rotation.exp(time * spin), lean)
    poses = Kinematics(dtype=torch.float64)(rows)
    found = link_velocities(poses, FPS)
    interior = slice(0, 50 - 1 - 8)  # the zero of the last frame is smeared by 8
    expected = spin.expand(41, 30, 3)
    torch.testing.assert_close(found.angular[interior], expected)
    assert (found.angular[-1].norm(dim=-1) < spin.norm()).all()
    # v = w x r, up to the smoothing of a circle: 0.2 % at 2 rad/s.
    arm = poses.position - poses.position[:, :1]
    speed = torch.linalg.cross(spin.expand_as(arm), arm)
    middle = slice(10, 40)
    error = (found.linear[middle] - speed[middle]).norm(dim=-1)
    assert error.max() < 5e-3 * speed.norm(dim=-1).max()


def test_one_frame_has_no_velocity(kinematics):
    """Zero rather than NaN."""
    poses = kinematics(torch.from_numpy(g1.DEFAULT_QPOS).float()[None])
    found = link_velocities(poses, FPS)
    assert not found.linear.any() and not found.angular.any()
    assert not joint_velocities(torch.ones(1, 29), FPS).any()


def test_clips_side_by_side_do_not_mix():
    """Velocities of a batch of clips are those of each clip alone."""
    generator = torch.Generator().manual_seed(3)
    clips = torch.randn((3, 40, 36), generator=generator, dtype=torch.float64)
    clips[..., 3:7] = rotation.normalize(clips[..., 3:7])
    forward = Kinematics(g1.TRACKED_LINKS, dtype=torch.float64)
    together = link_velocities(forward(clips), 50)
    joints = joint_velocities(clips[..., 7:], 50)
    for index, clip in enumerate(clips):
        alone = link_velocities(forward(clip), 50)
        assert torch.allclose(together.linear[index], alone.linear)
        assert torch.allclose(together.angular[index], alone.angular)
        assert torch.equal(joints[index], joint_velocities(clip[:, 7:], 50))


def test_link_velocities_of_a_state_equal_mujoco():
    """Poses and velocities of all links, at any attitude, as mj_objectVelocity says."""
    model = build_model()
    data = mujoco.MjData(model)
    random = np.random.default_rng(0)
    qpos = np.tile(g1.DEFAULT_QPOS, (8, 1)) + 0.4 * random.normal(size=(8, 36))
    qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
    qvel = random.normal(size=(8, 35))
    states = Kinematics(dtype=torch.float64).states(
        torch.tensor(qpos), torch.tensor(qvel)
    )
    for i in range(8):
        data.qpos, data.qvel = qpos[i], qvel[i]
        mujoco.mj_forward(model, data)
        for link in range(len(g1.LINKS)):
            speed = np.zeros(6)
            kind = mujoco.mjtObj.mjOBJ_XBODY
            mujoco.mj_objectVelocity(model, data, kind, link + 1, speed, 0)
            np.testing.assert_allclose(
                states.position[i, link], data.xpos[link + 1], atol=1e-10
            )
            np.testing.assert_allclose(states.linear[i, link], speed[3:], atol=1e-9)
            np.testing.assert_allclose(states.angular[i, link], speed[:3], atol=1e-9)


def test_states_of_some_links_are_those_of_all():
    qpos, qvel = torch.randn(3, 36), torch.randn(3, 35)
    qpos[:, 3:7] /= qpos[:, 3:7].norm(dim=1, keepdim=True)
    whole = Kinematics().states(qpos, qvel)
    some = Kinematics(g1.TRACKED_LINKS).states(qpos, qvel)
    pick = [g1.LINKS.index(name) for name in g1.TRACKED_LINKS]
    for all_links, few in zip(whole, some, strict=True):
        torch.testing.assert_close(all_links[:, pick], few)

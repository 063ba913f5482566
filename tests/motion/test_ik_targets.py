"""Derivatives behind inverse kinematics are those of finite differences."""

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.ik import (
    Coupling,
    curvature,
    curvature_diagonal,
    limit_velocity,
)
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.targets import (
    BoneTarget,
    Jacobians,
    PoseTarget,
    Targets,
    inverse_right_jacobian,
)
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

FREE = torch.tensor(torch.inf, dtype=torch.float64)
forward = Kinematics(dtype=torch.float64)


@pytest.fixture(scope="module")
def walk(make_clip) -> Tensor:
    rows = torch.from_numpy(make_clip(frames=120, seed=3).qpos()).double()
    rows[:, 3:7] = rotation.normalize(rows[:, 3:7])
    return rows


def test_centre_of_mass_is_mujocos(walk):
    """Within 1e-9 m, at several poses."""
    model = build_model(floor=False)
    data = mujoco.MjData(model)
    found = Jacobians().weighted_links(forward(walk[::40])).sum(dim=-2)
    for row, centre in zip(walk[::40], found, strict=True):
        data.qpos[:] = row.numpy()
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        np.testing.assert_allclose(centre.numpy(), data.subtree_com[0], atol=1e-9)


def test_jacobians_match_finite_differences(walk):
    """Positions, orientations, the centre of mass and bones, far from the goal."""
    jacobians = Jacobians(g1.JOINTS[3:25])
    rows = walk[10:13]
    weight = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    poses = forward(walk[60:63])
    there: list[PoseTarget | BoneTarget] = [
        PoseTarget(
            name,
            poses.position[:, index],
            poses.quaternion[:, index],
            orientation_weight=weight,
        )
        for index, name in enumerate(g1.LINKS)
    ]
    there.append(PoseTarget(None, rows[:, :3] + 0.3, position_weight=weight))
    arm = torch.tensor([0.1, 0.2, -0.1], dtype=torch.float64).expand(3, 3)
    ends = {"point": (0.1, 0.0, 0.2), "base_point": (0.0, 0.1, 0.0)}
    there.append(BoneTarget("left_elbow_link", "torso_link", arm, weight, **ends))
    there.append(BoneTarget("right_knee_link", "left_knee_link", arm))
    goals = Targets(there, rows.shape[:-1], jacobians)
    errors = goals.measure(forward(rows))
    analytic = goals.jacobian(errors, jacobians.screws(errors.poses))
    small = 1e-6
    for column in range(jacobians.size):
        step = torch.zeros(len(rows), jacobians.size, dtype=torch.float64)
        step[:, column] = small
        ends = [
            goals.measure(forward(jacobians.advance(rows, s, -FREE, FREE))).weighted
            for s in (step, -step)
        ]
        numeric = (ends[1] - ends[0]) / (2 * small)
        torch.testing.assert_close(analytic[..., column], numeric, atol=1e-7, rtol=0)


@pytest.mark.parametrize("angle", [1e-4, 9e-3, 1.1e-2, 1.0, 3.0])
def test_derivative_of_the_rotation_vector(angle):
    """Small, large, and on both sides of where the series ends."""
    vector = angle * rotation.normalize(torch.tensor([0.3, -0.5, 0.8]).double())
    matrix = inverse_right_jacobian(vector)
    for column, unit in enumerate(torch.eye(3).double()):
        ends = [
            rotation.log(
                rotation.multiply(
                    rotation.exp(vector), rotation.exp(sign * 1e-6 * unit)
                )
            )
            for sign in (1, -1)
        ]
        numeric = (ends[0] - ends[1]) / 2e-6
        torch.testing.assert_close(matrix[:, column], numeric, atol=1e-8, rtol=0)


def test_force_between_frames_is_the_gradient(walk):
    """Of the velocity hinge, in tangent coordinates."""
    jacobians = Jacobians()
    limit = torch.full((35,), 0.01, dtype=torch.float64)
    stiffness = torch.full((1, 1, 1), 3.0, dtype=torch.float64)
    coupling = Coupling(stiffness, limit, jacobians.joints)
    rows = walk[None, ::6]
    force = coupling.force(coupling.velocity(rows))
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        step = torch.randn(force.shape, generator=generator, dtype=torch.float64)
        ends = [
            coupling.cost(
                coupling.velocity(jacobians.advance(rows, s * 1e-6 * step, -FREE, FREE))
            )
            for s in (1, -1)
        ]
        slope = (ends[0] - ends[1]).item() / 2e-6
        assert slope == pytest.approx(-(force * step).sum().item(), rel=1e-5)


def test_curvature_between_frames_has_its_diagonal():
    """Multiplied by unit steps it is symmetric."""
    limit = torch.full((8,), 0.5, dtype=torch.float64)
    stiffness = torch.ones(1, 1, 1, dtype=torch.float64)
    coupling = Coupling(stiffness, limit, torch.arange(2))
    for frames in (2, 3, 7):
        velocity = torch.linspace(0, 1, 8 * (frames - 1)).double().view(1, -1, 8)
        active = coupling.active(velocity)
        assert active is not None
        units = torch.eye(8 * frames).double().view(-1, 1, frames, 8)
        matrix = torch.stack([curvature(active, u).flatten() for u in units])
        torch.testing.assert_close(matrix, matrix.T)
        diagonal = curvature_diagonal(active)
        torch.testing.assert_close(matrix.diagonal(), diagonal.flatten())


def test_limiting_velocity():
    """Exact, idle where slow, within the range of the values."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn((2, 50, 3), generator=generator, dtype=torch.float64)
    limit = torch.tensor([0.1, 0.5, 20.0], dtype=torch.float64)
    slow = limit_velocity(values, limit)
    assert (slow.diff(dim=1).abs() <= limit + 1e-12).all()
    assert (slow.amax(dim=1) <= values.amax(dim=1) + 1e-12).all()
    torch.testing.assert_close(slow[..., 2], values[..., 2])

"""Gaps are MuJoCo's, their derivatives are true, and odd shapes give numbers."""

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.collisions import Clearance, Gaps, _direction, _nearest
from spectral_skills.motion.kinematics import Kinematics, LinkPoses
from spectral_skills.motion.targets import Jacobians
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model, build_spec

forward = Kinematics(dtype=torch.float64)
jacobians = Jacobians()
everything = Clearance(jacobians.carried, margin=100.0, floor=100.0)
model = build_model(meshes=False)


def random_rows(count: int, seed: int = 0) -> Tensor:
    """Poses within the limits, turned and lifted anyhow."""
    random = np.random.default_rng(seed)
    rows = np.concatenate(
        (
            random.normal(size=(count, 3)),
            random.normal(size=(count, 4)),
            random.uniform(*g1.SOFT_LIMITS.T, size=(count, g1.NUM_JOINTS)),
        ),
        axis=1,
    )
    rows = torch.from_numpy(rows)
    rows[:, 3:7] = rotation.normalize(rows[:, 3:7])
    return rows


def table(gaps: Gaps, frames: int, pairs: int) -> Tensor:
    """(frames, pairs) gaps, infinite where there is none."""
    dense = torch.full((frames, pairs), torch.inf, dtype=torch.float64)
    dense[gaps.frames, gaps.pairs] = gaps.gap
    return dense


def derivatives(clearance: Clearance, gaps: Gaps, screws: Tensor) -> Tensor:
    """(n, size) of each gap by itself."""
    gaps = gaps._replace(lack=torch.arange(1.0, 1 + len(gaps.gap)))
    packed = clearance.rows(gaps, screws)
    frames = packed.frames[:, None].expand(packed.lack.shape)
    filled = packed.lack > 0  # the others are padding
    number = packed.lack[filled].long() - 1
    assert torch.equal(frames[filled], gaps.frames[number])
    assert not packed.rows[~filled].any()
    rows = packed.rows.new_full((len(gaps.gap), screws.shape[2]), torch.nan)
    rows[number] = packed.rows[filled]
    return rows


def named(pair: tuple[str, str]) -> tuple[int, int]:
    names = (n if n == "floor" else f"{n}_collision" for n in pair)
    first, second = (model.geom(name).id for name in names)
    return first, second


def test_gaps_are_those_of_mujoco():
    rows = random_rows(60)
    dense = table(everything.measure(forward(rows)), 60, len(everything.pairs)).numpy()
    data, points = mujoco.MjData(model), np.zeros(6)
    for frame, qpos in enumerate(rows.numpy()):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        found: dict[tuple[int, int], float] = {}
        for pair, gap in zip(everything.pairs, dense[frame], strict=True):
            # A capsule is as far from the floor as the nearer one of its ends.
            found[named(pair)] = min(gap, found.get(named(pair), np.inf))
        true = [mujoco.mj_geomDistance(model, data, *p, 100.0, points) for p in found]
        np.testing.assert_allclose(list(found.values()), true, atol=1e-6)


def test_pairs_are_those_that_mujoco_tests():
    """With every shape swollen, MuJoCo reports a contact for each pair it tests."""
    spec = build_spec(meshes=False)
    for geom in spec.geoms:
        if geom.type != mujoco.mjtGeom.mjGEOM_PLANE:
            geom.size[0] = 2.0
    fat = spec.compile()
    data = mujoco.MjData(fat)
    mujoco.mj_forward(fat, data)
    touching = {frozenset(map(int, contact.geom)) for contact in data.contact}
    assert {frozenset(named(pair)) for pair in everything.pairs} == touching


@pytest.mark.parametrize("margin", [0.0, 0.03])
def test_all_gaps_below_the_margin_are_found(margin):
    rows, count = random_rows(1500), len(everything.pairs)
    poses = forward(rows)
    some = Clearance(jacobians.carried, margin=margin, floor=0.01).measure(poses)
    dense = table(everything.measure(poses), len(rows), count)
    floor = torch.tensor([other == "floor" for _, other in everything.pairs])
    limit = torch.where(floor, 0.01, margin)
    expected = torch.where(dense < limit, dense, torch.inf)
    assert torch.equal(table(some, len(rows), count), expected)
    torch.testing.assert_close(some.lack, limit[some.pairs] - some.gap)


def test_floor_only():
    poses = forward(random_rows(50))
    some = Clearance(jacobians.carried, margin=None, floor=100.0)
    dense = table(everything.measure(poses), 50, len(everything.pairs))
    floor = [other == "floor" for _, other in everything.pairs]
    assert {other for _, other in some.pairs} == {"floor"}
    assert torch.equal(table(some.measure(poses), 50, len(some.pairs)), dense[:, floor])


def test_derivatives_agree_with_finite_differences():
    rows, size, step = random_rows(8, seed=1), jacobians.size, 1e-6
    poses, count = forward(rows), len(everything.pairs)
    gaps = everything.measure(poses)
    rates = derivatives(everything, gaps, jacobians.screws(poses))
    high = torch.full((g1.NUM_JOINTS,), torch.inf, dtype=torch.float64)

    def shifted(distance: float) -> Tensor:
        steps = distance * torch.eye(size, dtype=torch.float64)
        repeated = rows[:, None].expand(-1, size, -1)
        moved = jacobians.advance(repeated, steps, -high, high).flatten(0, 1)
        dense = table(everything.measure(forward(moved)), len(moved), count)
        return dense.unflatten(0, (len(rows), size))

    slope = (shifted(step) - shifted(-step)) / (2 * step)
    true = slope[gaps.frames, :, gaps.pairs]
    # Where the nearest point jumps from one place to another there is no slope.
    wrong = ((rates - true).abs() > 1e-5).any(dim=1)
    assert wrong.double().mean() < 1e-3
    assert rates.abs().amax() > 0.3


def test_frames_with_unequal_counts():
    """What the padded rows add up to is what the gaps do one by one."""
    poses = forward(random_rows(600, seed=2))
    clearance = Clearance(jacobians.carried, margin=0.02)
    gaps, screws = clearance.measure(poses), jacobians.screws(poses)
    packed = clearance.rows(gaps, screws)
    push = torch.zeros(600, jacobians.size, dtype=torch.float64)
    push[packed.frames] = (packed.rows * packed.lack[..., None]).sum(dim=1)
    single = derivatives(clearance, gaps, screws) * gaps.lack[:, None]
    expected = torch.zeros_like(push).index_add_(0, gaps.frames, single)
    torch.testing.assert_close(push, expected)
    assert len(packed.frames) < 600
    assert len(gaps.gap) > 2 * len(packed.frames)


def test_some_joints_only():
    legs = Jacobians(g1.JOINTS[:12])
    clearance = Clearance(legs.carried, margin=100.0, floor=100.0)
    poses = forward(random_rows(4))
    some, every = clearance.measure(poses), everything.measure(poses)
    rows = derivatives(clearance, some, legs.screws(poses))
    whole = derivatives(everything, every, jacobians.screws(poses))[:, : legs.size]
    # Gaps that the legs change, and only those, are there, in the same order.
    changed = whole.abs().amax(dim=1) > 1e-9
    torch.testing.assert_close(rows[rows.abs().amax(dim=1) > 1e-9], whole[changed])
    assert ("torso", "left_hand") in everything.pairs
    assert ("torso", "left_hand") not in clearance.pairs
    assert ("left_thigh", "left_hand") in clearance.pairs


def test_robot_in_default_pose_touches_nothing():
    poses = forward(torch.from_numpy(g1.DEFAULT_QPOS)[None])
    clearance = Clearance(jacobians.carried, margin=0.01, floor=-0.01)
    gaps = clearance.measure(poses)
    assert len(gaps.gap) == 0
    none = clearance.rows(gaps, jacobians.screws(poses))
    assert none.rows.shape == (0, 0, jacobians.size)


def segments(*vectors: tuple[float, float, float]) -> list[Tensor]:
    return [torch.tensor(v, dtype=torch.float64)[:, None] for v in vectors]


X, Y, SHORT, POINT = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("apart", "u", "v", "distance"),
    [
        ((0.0, 0.0, 2.0), X, Y, 2.0),  # crossing above each other
        ((0.0, 3.0, 0.0), X, X, 3.0),  # side by side
        ((5.0, 0.0, 0.0), X, X, 3.0),  # one behind the other
        ((1.5, 0.0, 2.0), X, SHORT, np.hypot(0.4, 2.0)),  # parallel, past the end
        ((4.0, 0.0, 4.0), X, POINT, 5.0),  # an end and a sphere
        ((0.0, 0.0, 4.0), POINT, POINT, 4.0),
        (POINT, X, Y, 0.0),  # axes through each other
        (POINT, X, X, 0.0),  # the same axis
        (POINT, X, POINT, 0.0),
        (POINT, POINT, POINT, 0.0),
    ],
)
def test_odd_positions(apart, u, v, distance):
    apart, u, v = segments(apart, u, v)
    lengths = [a.square().sum(0) for a in (u, v)]
    inverse = [torch.where(x > 0, 1 / x, 0.0) for x in lengths]
    s, t = _nearest(apart, u, v, *inverse)
    step = apart + t * v - s * u
    far = step.norm(dim=0)
    assert float(far) == pytest.approx(distance)
    normal = _direction(step, far, u, v)
    assert float(normal.norm()) == pytest.approx(1.0)
    if not distance:
        for axis in (u, v):
            assert float((normal * axis).sum()) == pytest.approx(0.0)
    else:
        torch.testing.assert_close(normal * far, step)


def test_collapsed_robot_gives_numbers():
    """All links at one place, turned alike: many axes meet or are parallel."""
    upright = torch.eye(4, dtype=torch.float64)[:1].expand(1, 30, 4)
    poses = LinkPoses(torch.zeros(1, 30, 3, dtype=torch.float64), upright)
    gaps = everything.measure(poses)
    rows = derivatives(everything, gaps, jacobians.screws(poses))
    assert gaps.gap.isfinite().all()
    assert rows.isfinite().all()
    assert gaps.gap.amin() < -0.05

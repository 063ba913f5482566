"""Inverse kinematics meets what can be met, and keeps its limits where it cannot."""

import numpy as np
import pytest
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.ik import InverseKinematics
from spectral_skills.motion.ingest import ReadOptions, read
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.targets import Jacobians, PoseTarget
from spectral_skills.robot import g1

WHOLE_BODY = ("pelvis", "torso_link", *g1.END_EFFECTORS)
LEGS_AND_WAIST = g1.JOINTS[:15]
FPS = 50.0
LOW, HIGH = torch.from_numpy(g1.SOFT_LIMITS.T)
SPEED = torch.from_numpy(g1.VELOCITY_LIMIT)
DEFAULT = torch.from_numpy(g1.DEFAULT_QPOS)
forward = Kinematics(dtype=torch.float64)
jacobians = Jacobians()


@pytest.fixture(scope="module")
def walk(make_clip) -> Tensor:
    rows = make_clip(frames=120, seed=3).qpos().astype(np.float64)
    rows[:, 7:] = rows[:, 7:].clip(*g1.SOFT_LIMITS.T)
    return normalized(torch.from_numpy(rows))


def normalized(rows: Tensor) -> Tensor:
    rows[..., 3:7] = rotation.normalize(rows[..., 3:7])
    return rows


def poses_of(rows: Tensor, link: str) -> tuple[Tensor, Tensor]:
    """Position and orientation of a link."""
    poses, index = forward(rows.double()), g1.LINKS.index(link)
    return poses.position[..., index, :], poses.quaternion[..., index, :]


def targets_of(rows: Tensor, links=WHOLE_BODY, **weights) -> list[PoseTarget]:
    """Poses that these rows have."""
    return [PoseTarget(name, *poses_of(rows, name), **weights) for name in links]


def errors_of(qpos: Tensor, targets: list[PoseTarget]) -> tuple[Tensor, Tensor]:
    """(targets, ..., T) distances in m and in rad; zero where nothing was asked."""
    far, turned = [], []
    for target in targets:
        position, quaternion = poses_of(qpos, target.link or "")
        place = position if target.position is None else target.position
        turn = quaternion if target.quaternion is None else target.quaternion
        rest = rotation.log(rotation.multiply(turn, rotation.conjugate(quaternion)))
        far.append((place - position).norm(dim=-1))
        turned.append(rest.norm(dim=-1))
    return torch.stack(far), torch.stack(turned)


def centre_of_mass(rows: Tensor) -> Tensor:
    return jacobians.weighted_links(forward(rows)).sum(dim=-2)


def standing_at(rows: Tensor) -> Tensor:
    """The default pose, upright where the root of the rows is."""
    start = DEFAULT.expand_as(rows).clone()
    start[..., :3] = rows[..., :3]
    start[..., 3:7] = rotation.heading(rows[..., 3:7])
    return start


def assert_within_limits(qpos: Tensor) -> None:
    joints = qpos[..., 7:]
    assert qpos.isfinite().all()
    assert ((joints >= LOW) & (joints <= HIGH)).all()
    speed = joints.diff(dim=-2).abs() * FPS
    assert (speed <= 0.9 * SPEED + 1e-9).all()


def test_recovers_a_motion_from_its_targets(walk):
    """From the default pose, in ten iterations, below 0.02 mm and 0.001 degrees."""
    targets = targets_of(walk)
    found = InverseKinematics().solve(standing_at(walk), targets, fps=FPS)
    assert found.iterations <= 10
    far, turned = errors_of(found.qpos, targets)
    assert far.max() < 2e-5 and turned.max() < np.radians(1e-3)
    assert_within_limits(found.qpos)
    # All links given, the joints follow too.
    every = InverseKinematics().solve(standing_at(walk), targets_of(walk, g1.LINKS))
    assert (every.qpos - walk)[..., 7:].abs().max() < 1e-5


def test_legs_follow_feet_and_centre_of_mass(walk):
    """Arms are prescribed; the solution is as smooth as the motion it comes from."""
    start = standing_at(walk)
    start[:, 22:] = walk[:, 22:]
    poses = forward(walk)
    torso = poses.quaternion[:, g1.LINKS.index("torso_link")]
    height, feet = torch.tensor([0.0, 0.0, 1.0]), targets_of(walk, g1.FEET)
    targets = [
        *feet,
        *targets_of(walk, ("pelvis",), position_weight=height),
        PoseTarget("torso_link", quaternion=torso),
    ]
    flat = torch.tensor([1.0, 1.0, 0.0])
    targets.append(PoseTarget(None, centre_of_mass(walk), position_weight=flat))
    solver = InverseKinematics(LEGS_AND_WAIST)
    found = solver.solve(start, targets)
    assert found.iterations <= 10
    stray = centre_of_mass(found.qpos) - centre_of_mass(walk)
    assert stray[:, :2].norm(dim=-1).max() < 2e-5
    assert errors_of(found.qpos, feet)[0].max() < 2e-5
    assert (found.qpos - walk)[:, 2].abs().max() < 2e-5
    assert torch.equal(found.qpos[:, 22:], start[:, 22:])
    bends = [q[:, 7:].diff(n=4, dim=0).abs().max() for q in (found.qpos, walk)]
    assert bends[0] < bends[1] + 2e-5
    again = solver.solve(found.qpos, targets)
    assert again.iterations <= 2


def test_real_motion(motions_folder):
    """A dance of LAFAN1, clamped to the soft limits, comes back to below 1 mm."""
    path = motions_folder / "lafan1" / "dance1_subject1.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    (clip,) = read(path, ReadOptions())
    assert isinstance(clip, Clip)
    rows = torch.from_numpy(clip.qpos()[1000:1300].astype(np.float64))
    rows = normalized(rows)
    rows[:, 7:] = rows[:, 7:].clamp(LOW, HIGH)
    solver = InverseKinematics(velocity_fraction=1.0)
    targets = targets_of(rows, g1.TRACKED_LINKS)
    found = solver.solve(standing_at(rows), targets, fps=clip.fps)
    far, turned = errors_of(found.qpos, targets)
    assert far.max() < 1e-3 and turned.max() < np.radians(0.5)


def test_unreachable_targets(walk):
    """Feet in the sky, everything far away, orientations upside down: no harm."""
    solver = InverseKinematics(iterations=15)
    idle = InverseKinematics(iterations=0)
    start = standing_at(walk)
    poses = {link: poses_of(walk, link) for link in WHOLE_BODY}
    up = walk.new_tensor([0.0, 0.0, 2.0])
    lifted = [
        *targets_of(walk),
        *(PoseTarget(foot, poses[foot][0] + up) for foot in g1.FEET),
    ]
    far = [PoseTarget(link, 10 * poses[link][0]) for link in WHOLE_BODY]
    over = rotation.exp(torch.tensor([np.pi, 0, 0]).double())
    turned = [
        PoseTarget(link, position, rotation.multiply(over, quaternion))
        for link, (position, quaternion) in poses.items()
    ]
    for targets in (lifted, far, turned):
        before, found = idle.solve(start, targets), solver.solve(start, targets)
        assert_within_limits(found.qpos)
        errors = [errors_of(solution.qpos, targets) for solution in (before, found)]
        costs = [(far.square() + turned.square()).sum() for far, turned in errors]
        assert costs[1] < costs[0]


def test_limits_hold_against_targets(walk):
    """A target motion past the limits is met up to them."""
    beyond = walk.clone()
    beyond[:, 7:] = DEFAULT[7:] + 2 * (walk[:, 7:] - DEFAULT[7:])
    assert (beyond[:, 7:] > HIGH).any()
    targets = targets_of(beyond, g1.TRACKED_LINKS)
    found = InverseKinematics().solve(standing_at(walk), targets)
    assert_within_limits(found.qpos)
    assert errors_of(found.qpos, targets)[0].mean() < 0.02


def test_velocity_limit_holds_when_targets_jump(walk):
    """The arm takes several frames; elsewhere the motion is met."""
    jump = walk.clone()
    jump[60:, 7 + g1.joint_index("left_elbow")] += 1.2
    jump[60:, 7 + g1.joint_index("left_shoulder_pitch")] -= 1.5
    targets = targets_of(jump, g1.TRACKED_LINKS)
    found = InverseKinematics().solve(standing_at(walk), targets)
    assert_within_limits(found.qpos)
    far, _ = errors_of(found.qpos, targets)
    assert far[:, :50].max() < 1e-3 and far[:, 70:].max() < 1e-3


def test_same_bytes_every_time(walk):
    """Two solvers, the same inputs."""
    found = [
        InverseKinematics().solve(standing_at(walk), targets_of(walk)).qpos
        for _ in range(2)
    ]
    assert torch.equal(*found)


def test_clips_side_by_side_do_not_mix(make_clip):
    """A batch of clips, of which one needs the velocity limit, is each alone."""
    clips = [make_clip(frames=40, seed=s).qpos().astype(np.float64) for s in range(3)]
    rows = normalized(torch.from_numpy(np.stack(clips)))
    rows[..., 7:] = rows[..., 7:].clamp(LOW, HIGH)
    rows[1, 20:, 7 + g1.joint_index("right_elbow")] += 1.0
    solver = InverseKinematics(posture=1e-4, iterations=8)
    together = solver.solve(standing_at(rows), targets_of(rows, g1.TRACKED_LINKS))
    for index, clip in enumerate(rows):
        alone = solver.solve(standing_at(clip), targets_of(clip, g1.TRACKED_LINKS))
        torch.testing.assert_close(together.qpos[index], alone.qpos, atol=1e-6, rtol=0)


def test_joints_stay_where_targets_leave_them_open(walk):
    """With the feet alone, the arms stay as they were at the start."""
    start = standing_at(walk)
    targets = targets_of(walk, ("pelvis", *g1.FEET))
    arms = InverseKinematics().solve(start, targets).qpos[:, 22:]
    torch.testing.assert_close(arms, start[:, 22:], atol=1e-4, rtol=0)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_very_short_clips(walk, frames):
    """One frame has no velocity, two no acceleration."""
    rows = walk[:frames]
    found = InverseKinematics().solve(standing_at(rows), targets_of(rows))
    assert errors_of(found.qpos, targets_of(rows))[0].max() < 1e-3

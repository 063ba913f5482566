"""Senses, history, phase and the meaning of actions, by hand."""

import math

import pytest
import torch

from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1
from spectral_skills.tracking import observations
from spectral_skills.tracking.observations import CRITIC, PROPRIO, Body
from spectral_skills.tracking.references import Reference

BODY = Body("cpu")


def standing(n=1):
    qpos = torch.tensor(g1.DEFAULT_QPOS, dtype=torch.float32).repeat(n, 1)
    return qpos, torch.zeros(n, 35)


def test_a_robot_at_rest_senses_only_gravity():
    qpos, qvel = standing()
    frame = BODY.proprio(qpos, qvel, torch.zeros(1, 29), 0.0)[0]
    assert len(frame) == PROPRIO == 93
    assert frame[:3].tolist() == [0.0, 0.0, -1.0]
    assert not frame[3:].any()


def test_gravity_is_turned_into_the_pelvis():
    qpos, qvel = standing(64)
    qpos[:, 3:7] = rotation.normalize(torch.randn(64, 4))
    frame = BODY.proprio(qpos, qvel, torch.zeros(64, 29), 0.0)
    down = torch.tensor([0.0, 0.0, -1.0]).expand(64, 3)
    expected = rotation.rotate_inverse(qpos[:, 3:7], down)
    torch.testing.assert_close(frame[:, :3], expected, atol=1e-6, rtol=0)


def test_offset_moves_targets_and_zero_of_the_joints_together():
    """A robot that stands where its targets are senses no error, offset or not."""
    offset = torch.full((1, 29), 0.01)
    qpos, qvel = standing()
    qpos[:, 7:] = BODY.targets(torch.zeros(1, 29), offset)
    frame = BODY.proprio(qpos, qvel, torch.zeros(1, 29), offset)
    assert frame[0, 6:35].abs().max() < 1e-7


def test_first_action_asks_for_the_pose():
    joints = torch.tensor(g1.DEFAULT_JOINTS).float() + 0.3 * torch.rand(5, 29)
    torch.testing.assert_close(BODY.targets(BODY.first_action(joints)), joints)


@pytest.mark.parametrize("reach", [None, 1.0, 4.0])
def test_targets_are_limited(reach):
    """Those of soft joints by their limits and the controller's reach, one unit if it
    says nothing; those of wrists by the largest action."""
    ankle, wrist = map(g1.joint_index, ("left_ankle_pitch", "left_wrist_pitch"))
    body = BODY if reach is None else Body("cpu", reach)
    far = body.targets(torch.full((1, 29), 1e6))[0]
    limit = g1.JOINT_LIMITS[:, 1] + (reach or 1.0) * g1.ACTION_SCALE
    assert far[ankle].item() == pytest.approx(limit[ankle])
    most = g1.DEFAULT_JOINTS + 20 * g1.ACTION_SCALE
    assert far[wrist].item() == pytest.approx(most[wrist])
    assert (far <= torch.from_numpy(limit) + 1e-6).all()


@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_bounds_of_actions_leave_room_for_the_farthest_targets(reach):
    """By one unit, unless no action is as large."""
    limits = g1.target_limits(reach) - g1.DEFAULT_JOINTS[:, None]
    farthest = (abs(limits) / g1.ACTION_SCALE[:, None]).max(axis=1)
    bounds = observations.joint_bounds(reach)
    assert bounds == pytest.approx((farthest + 1).clip(max=20.0), abs=1e-3)
    assert observations.joint_bounds() == observations.joint_bounds(1.0)


def test_history_is_oldest_first_and_starts_full():
    frames = torch.arange(12.0)[:, None, None] * torch.ones(12, 2, PROPRIO)
    history = torch.zeros(2, 10, PROPRIO)
    for number, frame in enumerate(frames):
        fresh = torch.tensor([number == 0, number in (0, 9)])
        history = observations.push_history(history, frame, fresh)
    assert history[0, :, 0].tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert history[1, :, 0].tolist() == [9] * 8 + [10, 11]


def test_phase_of_a_held_command():
    """At hold one the phase is (0, 1), as the paper says."""
    since = torch.tensor([0, 1, 2])
    assert observations.phase(torch.tensor([0]), 1).tolist() == [[0.0, 1.0]]
    expected = [[math.sin(a), math.cos(a)] for a in (0, math.pi / 2, math.pi)]
    found = observations.phase(since, 4)
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-6, rtol=0)


def test_critic_does_not_depend_on_where_the_robot_stands():
    """Everything is seen from the pelvis: a turn and a shift of both change nothing."""
    torch.manual_seed(0)
    kinematics = Kinematics(g1.TRACKED_LINKS)
    qpos, qvel = standing(4)
    qpos[:, 7:] += 0.2 * torch.randn(4, 29)
    qvel = torch.randn(4, 35)
    target = qpos + 0.05 * torch.randn(4, 36)
    target[:, 3:7] = rotation.normalize(target[:, 3:7])

    def seen(turn, shift):
        def moved(rows):
            place = rotation.rotate(turn, rows[:, :3]) + shift
            facing = rotation.multiply(turn, rows[:, 3:7])
            return torch.cat((place, facing, rows[:, 7:]), 1)

        speed = torch.cat((rotation.rotate(turn, qvel[:, :3]), qvel[:, 3:]), 1)
        robot = kinematics.states(moved(qpos), speed)
        reference = Reference(moved(target), speed)
        zero = torch.zeros(4, 29)
        return observations.critic(robot, reference, moved(qpos), speed, zero)

    here = seen(torch.tensor([[1.0, 0, 0, 0]]).expand(4, 4), torch.zeros(3))
    there = seen(rotation.from_yaw(torch.full((4,), 2.0)), torch.tensor([5.0, -3, 0]))
    assert here.shape == (4, CRITIC)
    torch.testing.assert_close(here, there, atol=2e-5, rtol=0)

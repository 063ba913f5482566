"""Every term by hand, and the law that the reference itself earns the maximum."""

import math
from dataclasses import fields, replace

import pytest
import torch
from moments import links, on_reference, pair, turn
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1
from spectral_skills.tracking import rewards
from spectral_skills.tracking.rewards import RewardConfig

WRIST = g1.TRACKED_LINKS.index("left_wrist_yaw_link")
EVERYTHING = RewardConfig(power=-1e-4, posture=-1.0, wrist_orientation=0.4)


def at(column: int, value: float, width: int = 29) -> Tensor:
    row = torch.zeros((3, width))
    row[:, column] = value
    return row


def same(found: Tensor, expected: float, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(
        found, torch.full((3,), expected), rtol=tolerance, atol=1e-6
    )


@pytest.mark.parametrize("config", [RewardConfig(), EVERYTHING])
def test_the_reference_itself_earns_the_maximum(config):
    """Kernels are 1 and penalties 0."""
    paid = rewards.terms(on_reference(), config)
    assert set(paid) == {f.name for f in fields(config) if getattr(config, f.name)}
    for name, values in paid.items():
        weight = max(getattr(config, name), 0.0)
        assert (values - weight * 0.02).abs().max() < 1e-9, name
    same(torch.stack(list(paid.values())).sum(0), rewards.maximum(config))


def test_real_poses_earn_the_maximum(make_clip):
    """Also for states of a clip far from the origin, through the kinematics."""
    clip = make_clip(frames=20)
    rows = torch.tensor(clip.qpos()).float()
    rows[:, :2] += 50.0
    state = Kinematics(g1.TRACKED_LINKS).states(rows, 0.2 * torch.randn(len(rows), 35))
    paid = rewards.terms(pair(state, state, joints=rows[:, 7:]), RewardConfig())
    total = torch.stack(list(paid.values())).sum(0)
    torch.testing.assert_close(total, torch.full_like(total, 7.0 * 0.02))


def test_maximum_is_sonics():
    """7.0 for the release, 7.4 with v1.1's wrists, per second of 50 steps."""
    assert rewards.maximum(RewardConfig()) == pytest.approx(7.0 * 0.02)
    assert rewards.maximum(EVERYTHING) == pytest.approx(7.4 * 0.02)


def test_a_shift_costs_the_anchor_alone():
    """0.3 m sideways is e = 0.09 and exp(-1); nothing else sees the place."""
    reference = links()
    shift = torch.tensor([0.18, -0.24, 0.0])
    moment = pair(reference._replace(position=reference.position + shift), reference)
    same(rewards.anchor_position(moment), math.exp(-1))
    for name in set(rewards.KERNELS) - {"anchor_position"}:
        same(rewards.KERNELS[name](moment), 1.0)


def test_height_costs_anchor_and_links():
    """The relative reference keeps its height: all 14 links are 0.15 m off."""
    reference = links()
    lifted = reference.position + torch.tensor([0.0, 0.0, 0.15])
    moment = pair(reference._replace(position=lifted), reference)
    same(rewards.anchor_position(moment), math.exp(-0.25))
    same(rewards.link_position(moment), math.exp(-0.25))
    same(rewards.local_points(moment), 1.0)


def test_one_link_out_of_place():
    """A wrist 0.1 m off: 1/14 of 0.01 over 0.09, and 1/3 of 0.01 over 0.01."""
    reference = links()
    position = reference.position.clone()
    position[:, WRIST, 1] += 0.1
    moment = pair(reference._replace(position=position), reference)
    same(rewards.link_position(moment), math.exp(-0.01 / 14 / 0.09))
    same(rewards.local_points(moment), math.exp(-1 / 3), 1e-4)
    same(rewards.anchor_position(moment), 1.0)


def test_a_turned_pelvis():
    """0.4 rad of tilt is exp(-1) for the anchor, and a fourteenth of it for links."""
    reference = links()
    quaternion = torch.zeros(3, 14, 4)
    quaternion[..., 0] = 1.0
    reference = reference._replace(quaternion=quaternion)
    tilted = quaternion.clone()
    tilted[:, 0] = turn(0.4, (1.0, 0.0, 0.0))
    moment = pair(reference._replace(quaternion=tilted), reference)
    same(rewards.anchor_orientation(moment), math.exp(-1))
    same(rewards.link_orientation(moment), math.exp(-1 / 14))


def test_heading_is_the_anchors_affair():
    """All turned about the vertical by 0.2 rad: links are as they should be."""
    reference = links()
    yaw = turn(0.2, (0.0, 0.0, 1.0))
    centre = reference.position[:, :1]
    moment = pair(
        reference._replace(
            position=centre + rotation.rotate(yaw, reference.position - centre),
            quaternion=rotation.multiply(yaw, reference.quaternion),
        ),
        reference,
    )
    same(rewards.anchor_orientation(moment), math.exp(-0.25))
    for term in (
        *(rewards.link_position, rewards.link_orientation, rewards.local_points),
        rewards.wrist_orientation,
    ):
        same(term(moment), 1.0)


def test_velocities():
    """All links 1 m/s too fast, one link turning 3.14 rad/s too fast."""
    reference = links()
    angular = reference.angular.clone()
    angular[:, WRIST, 2] += 3.14
    moment = pair(
        reference._replace(
            linear=reference.linear + torch.tensor([0.6, 0.0, -0.8]), angular=angular
        ),
        reference,
    )
    same(rewards.link_linear_velocity(moment), math.exp(-1))
    same(rewards.link_angular_velocity(moment), math.exp(-1 / 14))


def test_head_is_half_a_metre_above_the_torso():
    """A torso leaning 0.2 rad moves the head by the chord 2 sin(0.1) x 0.5 m."""
    reference = links()
    torso = g1.TRACKED_LINKS.index("torso_link")
    quaternion = reference.quaternion.clone()
    quaternion[:, torso] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    leaning = quaternion.clone()
    leaning[:, torso] = turn(0.2, (0.0, 1.0, 0.0))
    moment = pair(
        reference._replace(quaternion=leaning),
        reference._replace(quaternion=quaternion),
    )
    squared = (2 * math.sin(0.1) * 0.5) ** 2
    same(rewards.local_points(moment), math.exp(-squared / 3 / 0.01), 1e-4)


def test_wrists_turn_in_the_pelvis():
    """One of two wrists 0.1 rad off is exp(-1/2)."""
    reference = links()
    quaternion = reference.quaternion.clone()
    quaternion[:, WRIST] = rotation.multiply(
        quaternion[:, WRIST], turn(0.1, (1.0, 0.0, 0.0))
    )
    moment = pair(reference._replace(quaternion=quaternion), reference)
    same(rewards.wrist_orientation(moment), math.exp(-0.5), 1e-4)


def test_posture_is_the_mean_square_of_the_waist_joints():
    """Against joint angles, through the kinematics; the pelvis may be anywhere."""
    rows = torch.tensor(g1.DEFAULT_QPOS).float().repeat(3, 1)
    other = rows.clone()
    waist = [g1.joint_index(f"waist_{axis}") for axis in ("yaw", "roll", "pitch")]
    change = torch.tensor([0.03, -0.02, 0.01])
    other[:, [7 + joint for joint in waist]] += change
    other[:, 3:7] = turn(1.0, (0.0, 0.6, 0.8))
    kinematics, still = Kinematics(g1.TRACKED_LINKS), torch.zeros(3, 35)
    moment = pair(kinematics.states(other, still), kinematics.states(rows, still))
    same(rewards.posture(moment), change.square().mean().item(), 0.01)


def test_penalties_by_hand():
    """Small numbers that can be checked on paper."""
    moment = on_reference(action=at(3, 2.0) + at(5, 1.0), last_action=at(3, -1.0))
    same(rewards.action_rate(moment), 9.0 + 1.0)
    knee = g1.joint_index("left_knee")
    quiet = on_reference().joints
    low, high = g1.SOFT_LIMITS[knee]
    past = quiet + at(knee, high + 0.25 - g1.DEFAULT_JOINTS[knee])
    same(rewards.joint_limit(on_reference(joints=past)), 0.25)
    short = quiet + at(knee, low - 0.125 - g1.DEFAULT_JOINTS[knee])
    same(rewards.joint_limit(on_reference(joints=short)), 0.125)
    moment = on_reference(
        torque=at(2, -3.0) + at(7, 2.0), joint_velocities=at(2, 2.0) + at(7, 5.0)
    )
    same(rewards.power(moment), 16.0)


def test_foot_acceleration_sees_the_four_ankle_joints():
    moment = on_reference(joint_accelerations=torch.full((3, 29), 10.0))
    same(rewards.foot_acceleration(moment), 400.0)
    for name in ("left_ankle_pitch", "right_ankle_roll"):
        moment = on_reference(joint_accelerations=at(g1.joint_index(name), 3.0))
        same(rewards.foot_acceleration(moment), 9.0)


def test_anti_shake_begins_at_a_speed():
    """A wrist at 3.5 rad/s is 2 above: 4, halved by the other that is still."""
    state = links()._replace(angular=torch.zeros(3, 14, 3))
    for speed, expected in ((1.5, 0.0), (3.5, 2.0)):
        angular = torch.zeros(3, 14, 3)
        angular[:, WRIST, 1] = speed
        moment = pair(state._replace(angular=angular), state)
        same(rewards.anti_shake(moment), expected)


def test_undesired_contacts_count_links():
    """Feet, elbows and the hand's links may touch; 1 N is no contact yet."""
    everywhere = on_reference(contact_force=torch.full((3, 30), 1.5))
    same(rewards.undesired_contacts(everywhere), 30.0 - 10.0)
    barely = on_reference(contact_force=torch.full((3, 30), 1.0))
    same(rewards.undesired_contacts(barely), 0.0)
    for link, counts in (
        ("pelvis", 1.0),
        ("left_knee_link", 1.0),
        ("right_ankle_pitch_link", 1.0),
        ("right_ankle_roll_link", 0.0),
        ("left_elbow_link", 0.0),
        ("left_wrist_pitch_link", 0.0),
        ("right_wrist_yaw_link", 0.0),
    ):
        force = at(g1.LINKS.index(link), 2.0, width=30)
        same(rewards.undesired_contacts(on_reference(contact_force=force)), counts)


def test_terms_are_weighted_for_a_step():
    """Weight x 0.02 s; terms without a weight are absent."""
    config = replace(RewardConfig(), action_rate=-0.5, anti_shake=0.0)
    paid = rewards.terms(on_reference(action=at(0, 2.0)), config)
    same(paid["action_rate"], -0.5 * 0.02 * 4.0)
    assert not {"anti_shake", "power"} & set(paid)


def test_config_round_trip_and_signs():
    assert configs.loads(RewardConfig, configs.dumps(EVERYTHING)) == EVERYTHING
    with pytest.raises(ValueError, match="power: 0.1 is not <= 0"):
        RewardConfig(power=0.1)
    with pytest.raises(ValueError, match="local_points"):
        RewardConfig(local_points=math.nan)


def test_compiles_to_one_graph():
    compiled = torch.compile(rewards.terms, fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    moment = pair(links(1), links(2), contact_force=torch.rand(3, 30) * 2)
    moment = moment._replace(joints=3 * torch.randn(3, 29), action=torch.randn(3, 29))
    found, expected = compiled(moment, EVERYTHING), rewards.terms(moment, EVERYTHING)
    assert list(found) == list(expected)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])

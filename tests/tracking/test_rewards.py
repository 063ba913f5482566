"""Every term by hand, and the law that the reference itself earns the maximum."""

import math
from dataclasses import fields, replace

import pytest
import torch
from states import links, on_reference, pair, turn
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills import rotation
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1
from spectral_skills.tracking import rewards
from spectral_skills.tracking.rewards import Kernel, RewardConfig, final, sonic, tuned

WRIST = g1.TRACKED_LINKS.index("left_wrist_yaw_link")
EVERYTHING = replace(
    final(), head_and_hands=Kernel(2.0, 0.1), posture=Kernel(0.05, 0.7), power=-1e-4
)
SETS = {"sonic": sonic(), "tuned": tuned(), "final": final(), "all": EVERYTHING}


def at(column: int, value: float, width: int = 29) -> Tensor:
    row = torch.zeros((3, width))
    row[:, column] = value
    return row


def same(found: Tensor, expected: float, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(
        found, torch.full((3,), expected), rtol=tolerance, atol=1e-6
    )


def kernel(name: str, moment, width: float) -> Tensor:
    """What the kernel pays, of what it pays at most."""
    config = replace(final(), **{name: Kernel(1.0, width)})
    return rewards.terms(moment, config)[name] / rewards.STEP_S


@pytest.mark.parametrize("config", SETS.values(), ids=SETS)
def test_the_reference_itself_earns_the_maximum(config):
    """Kernels are 1 and penalties 0."""
    paid = rewards.terms(on_reference(), config)
    assert list(paid) == rewards.weighted(config)
    for name, values in paid.items():
        weight = getattr(config, name).weight if name in rewards.KERNELS else 0.0
        assert (values - weight * 0.02).abs().max() < 1e-8, name
    same(torch.stack(list(paid.values())).sum(0), rewards.maximum(config))


@pytest.mark.parametrize("seed", range(3))
def test_every_kernel_falls_as_the_error_grows(seed):
    """Robots ever farther from their references, in all ways at once: each kernel pays
    less and less, and no set ever more than on the reference."""
    reference, at_home = links(seed), on_reference().joints
    position, turned, linear, angular = 0.05 * torch.randn(4, 3, 14, 3)
    joints = 0.05 * torch.randn(3, 29)
    alike = dict.fromkeys(rewards.KERNELS, Kernel(1.0, 0.3))
    before = dict.fromkeys(alike, torch.full((3,), 2 * rewards.STEP_S))
    for far in (0.0, 0.25, 0.5, 1.0, 2.0):
        robot = reference._replace(
            position=reference.position + far * position,
            quaternion=rotation.multiply(
                rotation.exp(far * turned), reference.quaternion
            ),
            linear=reference.linear + far * linear,
            angular=reference.angular + far * angular,
        )
        moment = pair(robot, reference, joints=at_home + far * joints)
        paid = rewards.terms(moment, replace(final(), **alike))
        for name in alike:
            assert (paid[name] < before[name]).all(), (name, far)
            before[name] = paid[name]
        for config in SETS.values():
            total = torch.stack([*rewards.terms(moment, config).values()]).sum(0)
            assert (total <= rewards.maximum(config) + 1e-6).all()


def test_real_poses_earn_the_maximum(make_clip):
    """Also for states of a clip far from the origin, through the kinematics."""
    clip = make_clip(frames=20)
    rows = torch.tensor(clip.qpos()).float()
    rows[:, :2] += 50.0
    state = Kinematics(g1.TRACKED_LINKS).states(rows, 0.2 * torch.randn(len(rows), 35))
    paid = rewards.terms(pair(state, state, joints=rows[:, 7:]), RewardConfig())
    total = torch.stack(list(paid.values())).sum(0)
    torch.testing.assert_close(total, torch.full_like(total, 7.0 * 0.02))


def test_maxima_of_the_sets():
    """7 for SONIC, by the second; 15 for the authors' tuned set, 17 for their last."""
    assert rewards.maximum(RewardConfig()) == pytest.approx(7.0 * 0.02)
    assert rewards.maximum(tuned()) == pytest.approx(15.0 * 0.02)
    assert rewards.maximum(final()) == pytest.approx(17.0 * 0.02)


def test_sets_are_the_authors():
    """Weight and width of every kernel, and the penalties, column by column."""
    kernels = {
        "anchor_position": ((0.5, 0.3), (2, 0.1), (2, 0.1)),
        "anchor_position_wide": ((0, 0.5), (0, 0.5), (1, 0.5)),
        "anchor_orientation": ((0.5, 0.4), (2, 0.15), (2, 0.15)),
        "link_position": ((1, 0.3), (2, 0.05), (2, 0.05)),
        "link_orientation": ((1, 0.4),) * 3,
        "link_linear_velocity": ((1, 1.0),) * 3,
        "link_angular_velocity": ((1, 3.14),) * 3,
        "head_and_hands": ((2, 0.1), (0, 0.1), (0, 0.1)),
        "hands_and_feet": ((0, 0.1), (4, 0.1), (4, 0.1)),
        "foot_position": ((0, 0.1), (2, 0.1), (2, 0.1)),
        "wrist_position": ((0, 0.1), (0, 0.1), (1, 0.1)),
        "posture": ((0, math.sqrt(0.5)),) * 3,
    }
    penalties = {
        "action_rate": (-0.1, 0, -0.03),
        "joint_limit": (-10,) * 3,
        "undesired_contacts": (-0.1,) * 3,
        "anti_shake": (-0.005,) * 3,
        "foot_acceleration": (-2.5e-6, -2.5e-7, -2.5e-6),
        "power": (0,) * 3,
        "default_pose": (0,) * 3,
    }
    for column, config in enumerate((sonic(), tuned(), final())):
        for name, values in kernels.items():
            assert getattr(config, name) == Kernel(*values[column]), name
        for name, values in penalties.items():
            assert getattr(config, name) == values[column], name
    assert {*kernels, *penalties} == {field.name for field in fields(RewardConfig)}


def test_a_kernel_leaves_a_share_of_1_over_e_at_its_width():
    """e = width^2 is exp(-1), and twice the error exp(-4)."""
    reference = links()
    for times, expected in ((1, math.exp(-1)), (2, math.exp(-4))):
        shift = times * torch.tensor([0.06, -0.08, 0.0])
        moved = reference._replace(position=reference.position + shift)
        moment = pair(moved, reference)
        same(kernel("anchor_position", moment, 0.1), expected)
        same(kernel("anchor_position_wide", moment, 0.1 * times), math.exp(-1))


def test_a_shift_costs_the_anchor_alone():
    """0.3 m sideways is e = 0.09; nothing else sees the place."""
    reference = links()
    shift = torch.tensor([0.18, -0.24, 0.0])
    moment = pair(reference._replace(position=reference.position + shift), reference)
    same(rewards.anchor_position(moment), 0.09)
    for name in set(rewards.KERNELS) - {"anchor_position", "anchor_position_wide"}:
        same(rewards.KERNELS[name](moment), 0.0)


def test_height_costs_anchor_and_links():
    """The relative reference keeps its height: all 14 links are 0.15 m off."""
    reference = links()
    lifted = reference.position + torch.tensor([0.0, 0.0, 0.15])
    moment = pair(reference._replace(position=lifted), reference)
    for term in (
        *(rewards.anchor_position, rewards.link_position),
        *(rewards.foot_position, rewards.wrist_position),
    ):
        same(term(moment), 0.15**2)
    same(rewards.head_and_hands(moment), 0.0)
    same(rewards.hands_and_feet(moment), 0.0)


@pytest.mark.parametrize(
    ("link", "shares"),
    [
        ("left_wrist_yaw_link", (1 / 3, 1 / 5, 0, 1 / 2)),
        ("right_ankle_roll_link", (0, 1 / 5, 1 / 2, 0)),
        ("torso_link", (1 / 3, 0, 0, 0)),
        ("left_knee_link", (0, 0, 0, 0)),
    ],
)
def test_one_link_out_of_place(link, shares):
    """0.1 m off: a 14th of 0.01 of all links, and its share of each smaller set."""
    reference = links()
    position = reference.position.clone()
    position[:, g1.TRACKED_LINKS.index(link), 1] += 0.1
    moment = pair(reference._replace(position=position), reference)
    same(rewards.link_position(moment), 0.01 / 14)
    same(rewards.anchor_position(moment), 0.0)
    for term, share in zip(
        (
            *(rewards.head_and_hands, rewards.hands_and_feet),
            *(rewards.foot_position, rewards.wrist_position),
        ),
        shares,
        strict=True,
    ):
        same(term(moment), 0.01 * share, 1e-4)


@pytest.mark.parametrize(("side", "aside"), [("left", -0.025), ("right", 0.025)])
def test_the_hand_is_ahead_of_the_wrist_and_aside(side, aside):
    """A wrist turned about its z moves the hand by the chord of (0.18, -/+0.025)."""
    wrist = g1.TRACKED_LINKS.index(f"{side}_wrist_yaw_link")
    reference = links()
    quaternion = reference.quaternion.clone()
    quaternion[:, wrist] = rotation.multiply(
        quaternion[:, wrist], turn(0.2, (0.0, 0.0, 1.0))
    )
    moment = pair(reference._replace(quaternion=quaternion), reference)
    radius = math.hypot(0.18, 0.025)
    chord = 2 * math.sin(0.1) * radius
    same(rewards.hands_and_feet(moment), chord**2 / 5, 1e-4)
    # Turned about the way to the hand the wrist leaves it where it is.
    spun = reference.quaternion.clone()
    axis = (0.18 / radius, aside / radius, 0.0)
    spun[:, wrist] = rotation.multiply(spun[:, wrist], turn(0.5, axis))
    same(
        rewards.hands_and_feet(pair(reference._replace(quaternion=spun), reference)),
        0.0,
    )


def test_a_turned_pelvis():
    """0.4 rad of tilt: 0.16 for the anchor, and a fourteenth of it for links."""
    reference = links()
    quaternion = torch.zeros(3, 14, 4)
    quaternion[..., 0] = 1.0
    reference = reference._replace(quaternion=quaternion)
    tilted = quaternion.clone()
    tilted[:, 0] = turn(0.4, (1.0, 0.0, 0.0))
    moment = pair(reference._replace(quaternion=tilted), reference)
    same(rewards.anchor_orientation(moment), 0.16)
    same(rewards.link_orientation(moment), 0.16 / 14)


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
    same(rewards.anchor_orientation(moment), 0.04)
    turning = {"anchor_orientation", "link_linear_velocity", "link_angular_velocity"}
    for name in set(rewards.KERNELS) - turning:
        assert (rewards.KERNELS[name](moment) < 1e-6).all(), name


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
    same(rewards.link_linear_velocity(moment), 1.0)
    same(rewards.link_angular_velocity(moment), 3.14**2 / 14)


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
    same(rewards.head_and_hands(moment), squared / 3, 1e-4)


def test_posture_and_default_pose():
    """Two joints 0.3 and 0.4 rad from the reference: 0.25; and from the default."""
    default = on_reference().joints
    moved = default + at(3, 0.3) + at(20, -0.4)
    same(rewards.posture(on_reference(reference_joints=moved)), 0.25)
    same(rewards.default_pose(on_reference(joints=moved)), 0.7)
    same(rewards.default_pose(on_reference(reference_joints=moved)), 0.0)
    moment = on_reference(joints=moved)
    same(kernel("posture", moment, math.sqrt(0.5)), math.exp(-0.5))


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
    """A wrist or the torso at 3.5 rad/s is 2 above: 4, a third with two still ones."""
    state = links()._replace(angular=torch.zeros(3, 14, 3))
    for link, speed, expected in (
        ("left_wrist_yaw_link", 1.5, 0.0),
        ("left_wrist_yaw_link", 3.5, 4 / 3),
        ("torso_link", 3.5, 4 / 3),
        ("pelvis", 3.5, 0.0),
    ):
        angular = torch.zeros(3, 14, 3)
        angular[:, g1.TRACKED_LINKS.index(link), 1] = speed
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
    with pytest.raises(ValueError, match="power: weight 0.1 is not <= 0"):
        RewardConfig(power=0.1)
    with pytest.raises(ValueError, match="hands_and_feet: weight nan"):
        RewardConfig(hands_and_feet=Kernel(math.nan, 0.1))
    with pytest.raises(ValueError, match=r"link_position: width 0.0 is not above 0"):
        RewardConfig(link_position=Kernel(1.0, 0.0))


def test_compiles_to_one_graph():
    compiled = torch.compile(rewards.terms, fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    moment = pair(links(1), links(2), contact_force=torch.rand(3, 30) * 2)
    moment = moment._replace(joints=3 * torch.randn(3, 29), action=torch.randn(3, 29))
    found, expected = compiled(moment, EVERYTHING), rewards.terms(moment, EVERYTHING)
    assert list(found) == list(expected)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])

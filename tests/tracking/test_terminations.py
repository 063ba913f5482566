"""Every threshold from both sides, and the switch for low postures."""

import math
from dataclasses import replace

import pytest
import torch
from states import links, on_reference, pair, turn

from spectral_skills import config as configs
from spectral_skills import rotation
from spectral_skills.robot import g1
from spectral_skills.tracking import terminations
from spectral_skills.tracking.observations import TrackingState
from spectral_skills.tracking.terminations import (
    CAUSES,
    TerminationConfig,
    evaluation,
    failures,
    thresholds,
    thresholds_of,
)

EPSILON = 1e-3


def causes(moment: TrackingState, config: TerminationConfig) -> set[str]:
    """By what all three robots have failed; they must agree."""
    found = failures(moment, config)
    assert found.shape == (3, len(CAUSES)) and found.dtype == torch.bool
    assert torch.equal(found, found[:1].expand_as(found))
    return {CAUSES[i] for i in found[0].nonzero()[:, 0].tolist()}


def moved(
    link: str, shift: tuple[float, float, float], low: bool = False
) -> TrackingState:
    """Robots with one link out of place."""
    reference = links()
    position = reference.position.clone()
    position[:, g1.TRACKED_LINKS.index(link)] += torch.tensor(shift)
    moment = pair(reference._replace(position=position), reference)
    return moment._replace(low=torch.full((3,), low))


def lifted(height: float, low: bool = False) -> TrackingState:
    """Robots that are too high as a whole."""
    reference = links()
    position = reference.position + torch.tensor([0.0, 0.0, height])
    moment = pair(reference._replace(position=position), reference)
    return moment._replace(low=torch.full((3,), low))


def turned(angle: float) -> TrackingState:
    """Robots with the pelvis turned, and the rest as it was."""
    reference = links()
    quaternion = reference.quaternion.clone()
    quaternion[:, 0] = rotation.multiply(quaternion[:, 0], turn(angle, (0.6, 0.8, 0.0)))
    moment = pair(reference._replace(quaternion=quaternion), reference)
    # A turned pelvis also turns the relative reference; only the angle is meant here.
    return moment._replace(relative_position=reference.position)


@pytest.mark.parametrize("config", [TerminationConfig(), evaluation()])
def test_nothing_fails_on_the_reference(config):
    assert causes(on_reference(), replace(config, joint_limit=0.0)) == set()


@pytest.mark.parametrize("sign", [-1, 1])
def test_height_of_the_whole_robot(sign):
    config = replace(TerminationConfig(), foot_position_m=None)
    assert causes(lifted(sign * (0.15 - EPSILON)), config) == set()
    both = {"anchor_height", "end_effector_height"}
    assert causes(lifted(sign * (0.15 + EPSILON)), config) == both


def test_low_postures_are_judged_mildly():
    """0.75 m takes the place of both heights, for the robots that are low."""
    config = replace(TerminationConfig(), foot_position_m=None)
    both = {"anchor_height", "end_effector_height"}
    assert causes(lifted(0.75 - EPSILON, low=True), config) == set()
    assert causes(lifted(0.75 + EPSILON, low=True), config) == both
    assert causes(lifted(0.2, low=True), replace(config, low_height_m=None)) == both
    mixed = lifted(0.2)._replace(low=torch.tensor([True, False, True]))
    assert failures(mixed, config)[:, 0].tolist() == [False, True, False]
    # The feet's place is not eased.
    assert causes(lifted(0.3, low=True), TerminationConfig()) == {"foot_position"}


def test_pelvis_angle():
    """SONIC's 0.2 is on the squared angle."""
    assert causes(turned(0.446), TerminationConfig()) == set()
    assert causes(turned(0.448), TerminationConfig()) == {"anchor_orientation"}
    assert TerminationConfig().anchor_angle_rad == pytest.approx(math.sqrt(0.2))


@pytest.mark.parametrize("link", g1.END_EFFECTORS)
def test_end_effector_heights(link):
    inside, outside = (moved(link, (0.0, 0.0, -0.15 + e)) for e in (EPSILON, -EPSILON))
    assert causes(inside, TerminationConfig()) == set()
    assert causes(outside, TerminationConfig()) == {"end_effector_height"}


@pytest.mark.parametrize("link", g1.FEET)
def test_feet_in_space(link):
    """0.16, 0.12 is 0.2 m along the floor."""
    near = moved(link, (0.16 - EPSILON, 0.12, 0.0))
    assert causes(near, TerminationConfig()) == set()
    far = moved(link, (0.16 + EPSILON, 0.12, 0.0))
    assert causes(far, TerminationConfig()) == {"foot_position"}
    assert causes(far, evaluation()) == set()


def test_other_links_may_be_anywhere():
    found = causes(moved("left_knee_link", (1.0, 1.0, 1.0)), TerminationConfig())
    assert found == set()


def test_place_is_off_by_default():
    """0.3, 0.4 is 0.5 m along the floor; heights do not count."""
    config = replace(TerminationConfig(), place_m=0.5)
    shift = torch.tensor([0.3, 0.4, 0.1])
    for scale, expected in ((1 - EPSILON, set()), (1 + EPSILON, {"place"})):
        reference = links()
        moved = reference._replace(position=reference.position + scale * shift)
        assert causes(pair(moved, reference), config) == expected
        assert causes(pair(moved, reference), TerminationConfig()) == set()


def test_joint_limit_is_between_soft_limit_and_stop():
    """Off by default; 0.5 is half the way from the soft limit to the stop."""
    knee = g1.joint_index("left_knee")
    config = replace(TerminationConfig(), joint_limit=0.5)
    pairs = zip(g1.SOFT_LIMITS[knee], g1.JOINT_LIMITS[knee], strict=True)
    for soft, stop in pairs:
        for way, expected in ((0.49, set()), (0.51, {"joint_limit"})):
            joints = on_reference().joints.clone()
            joints[:, knee] = soft + way * (stop - soft)
            assert causes(on_reference(joints=joints), config) == expected
            assert causes(on_reference(joints=joints), TerminationConfig()) == set()


def test_thresholds_go_from_loose_to_final():
    """Linear in frames; the angle in its square, from 1.0 to 0.2 rad^2."""
    config = TerminationConfig(anneal_frames=(5_000_000, 30_000_000))
    never = [math.inf, math.inf]
    loose, final = [0.25, 1.0, 0.25, 0.3, *never, 0.75], thresholds(TerminationConfig())
    assert final == [0.15, math.sqrt(0.2), 0.15, 0.2, *never, 0.75]
    middle = [0.2, math.sqrt(0.6), 0.2, 0.25, *never, 0.75]
    for millions, expected in (
        *((0, loose), (5, loose), (17.5, middle), (30, final), (50_000, final)),
    ):
        found = thresholds(config, int(millions * 1e6))
        assert found == pytest.approx(expected), millions
    assert thresholds(config) == final
    assert thresholds(TerminationConfig(), 0) == final
    assert thresholds(evaluation(), 0)[3] == math.inf
    # Of the place there is no loose rule: it counts when the others are tight.
    config = replace(config, place_m=0.5)
    for millions, limit in ((0, math.inf), (29, math.inf), (30, 0.5)):
        assert thresholds(config, int(millions * 1e6))[4] == limit
    # Heights of low references tighten only where the last is another.
    config = replace(config, low_height_m=0.35)
    for millions, limit in ((5, 0.75), (17.5, 0.55), (30, 0.35)):
        assert thresholds(config, int(millions * 1e6))[-1] == pytest.approx(limit)


def test_some_robots_keep_loose_thresholds():
    """The first quarter of them, at any time; the others' tighten."""
    config = TerminationConfig(
        anneal_frames=(5_000_000, 30_000_000), loose_share=0.25, foot_position_m=None
    )
    loose, final = thresholds(config, 0), thresholds(config)
    assert loose != final
    for frames, others in ((0, loose), (30_000_000, final)):
        each = thresholds_of(config, frames, 8)
        expected = torch.tensor([loose] * 2 + [others] * 6).T
        assert torch.equal(each, expected)
    assert (
        thresholds_of(TerminationConfig(), 0, 4).T.tolist()
        == [pytest.approx(thresholds(TerminationConfig()))] * 4
    )
    # Of three robots that are 0.2 m too high, the first is loose.
    each = thresholds_of(replace(config, loose_share=0.34), 10**9, 3)
    assert failures(lifted(0.2), config, each).any(1).tolist() == [False, True, True]
    # The same near the floor, where the first may be 0.75 m off.
    config = replace(config, loose_share=0.34, low_height_m=0.3)
    each = thresholds_of(config, 10**9, 3)
    for height, expected in ((0.2, [False] * 3), (0.4, [False, True, True])):
        found = failures(lifted(height, low=True), config, each)
        assert found.any(1).tolist() == expected
    with pytest.raises(ValueError, match="loose_share is 1.5"):
        TerminationConfig(loose_share=1.5)


def test_failures_take_thresholds_of_now():
    """As numbers and as a tensor, near the floor and above it."""
    config = TerminationConfig(anneal_frames=(0, 10), foot_position_m=None)
    both = {"anchor_height", "end_effector_height"}
    assert causes(lifted(0.2), config) == both
    for limits in (thresholds(config, 0), torch.tensor(thresholds(config, 0))):
        for height, low, expected in (
            *((0.24, False, 0), (0.26, False, 2), (0.74, True, 0), (0.76, True, 2)),
        ):
            found = failures(lifted(height, low), config, limits)
            assert found.sum(1).tolist() == [expected] * 3


def test_evaluation_is_the_papers():
    """0.25 m, 0.25 m, 1 rad, no feet, and no easing near the floor."""
    both = {"anchor_height", "end_effector_height"}
    for low in (False, True):
        assert causes(lifted(0.25 - EPSILON, low), evaluation()) == set()
        assert causes(lifted(0.25 + EPSILON, low), evaluation()) == both
    assert causes(turned(1.0 - EPSILON), evaluation()) == set()
    assert causes(turned(1.0 + EPSILON), evaluation()) == {"anchor_orientation"}


def test_what_is_not_a_number_fails():
    """A comparison with it is never true, so no threshold would be passed."""
    moment = on_reference()
    position = torch.full_like(moment.robot.position, math.nan)
    moment = moment._replace(robot=moment.robot._replace(position=position))
    found = causes(moment, TerminationConfig())
    assert found == {"anchor_height", "end_effector_height", "foot_position"}


def test_lowness_is_a_moving_average():
    """From 0.8 m to the floor: 0.8 x 0.9^k falls below 0.5 m at k = 5."""
    height = torch.tensor([0.8, 0.8])
    ema = terminations.lowered(
        torch.tensor([9.0, 9.0]), height, torch.tensor([True, True])
    )
    assert torch.equal(ema, height)
    for k in range(1, 6):
        fresh = torch.tensor([False, k == 3])
        ema = terminations.lowered(ema, torch.zeros(2), fresh)
        assert ema[0].item() == pytest.approx(0.8 * 0.9**k, rel=1e-5)
        assert terminations.is_low(ema).tolist() == [k >= 5, k >= 3]


def test_config_round_trip():
    text = configs.dumps(evaluation())
    assert configs.loads(TerminationConfig, text) == evaluation()
    with pytest.raises(ValueError, match="anneal_frames = 30 5"):
        TerminationConfig(anneal_frames=(30, 5))


def test_compiles_to_one_graph():
    config = replace(TerminationConfig(), joint_limit=0.0)
    compiled = torch.compile(failures, fullgraph=True, backend="aot_eager")
    moment = pair(links(1), links(2))._replace(low=torch.tensor([True, False, True]))
    limits = torch.tensor(thresholds(config))
    assert torch.equal(compiled(moment, config, limits), failures(moment, config))

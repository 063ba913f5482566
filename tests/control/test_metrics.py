"""Metrics: nothing for the reference itself, known numbers for known mistakes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.control import metrics
from spectral_skills.control.metrics import CAUSES, Episodes, Measure, errors, summary
from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.tracking import failures
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1
from spectral_skills.tracking.terminations import TerminationConfig, evaluation

STEPS = 60


def rollout(robot: torch.Tensor, reference: torch.Tensor, lengths=None) -> Rollout:
    """A record of poses alone."""
    rows, n = robot.shape[:2]
    return Rollout(
        robot=robot,
        reference=reference,
        lengths=torch.tensor(lengths or [rows] * n),
        names=tuple(f"walk{i}" for i in range(n)),
    )


@pytest.fixture
def walks(make_clip) -> torch.Tensor:
    """(61, 2, 36) two walks side by side."""
    clips = [make_clip(frames=STEPS + 1, seed=seed).qpos() for seed in (0, 1)]
    return torch.tensor(np.stack(clips, axis=1)).float()


def standing(rows: int, n: int = 1) -> torch.Tensor:
    """(rows, n, 36) the default pose."""
    return torch.tensor(g1.DEFAULT_QPOS).float().expand(rows, n, -1).clone()


def values(found: list[Measure]) -> dict[str, float]:
    return {m.name: m.value for m in found}


def test_the_reference_itself_has_no_error(walks):
    found = values(summary(metrics.episodes(rollout(walks.clone(), walks))))
    assert found["success_rate"] == 1
    for what in ("acceleration", "jerk"):
        own, same = (found.pop(f"{name}_{what}") for name in ("joint", "reference"))
        assert own == same > 0  # of motions, not of an error
    for name, value in found.items():
        shares = ("success_rate", "followed", "path_share", "fall_free_relative_share")
        expected = float(name in (*shares, "joint_correlation"))
        assert value == pytest.approx(expected, abs=1e-6), name


def test_a_shift_is_scored_as_its_length(walks):
    """3 and 4 cm make 5 cm, all of it drift and none of it local."""
    shifted = walks.clone()
    shifted[1:, :, :2] += torch.tensor([0.03, -0.04])
    episodes = metrics.episodes(rollout(shifted, walks))
    found = values(summary(episodes))
    for name in ("mpjpe_global_mm", "root_drift_mm", "final_error_mm"):
        assert found[name] == pytest.approx(50, abs=0.01), name
    assert found["mpjpe_local_mm"] == pytest.approx(0, abs=0.01)
    assert found["root_and_local_mm"] == pytest.approx(50, abs=0.01)
    assert found["success_rate"] == 1


def test_a_joint_that_shakes_is_as_unsteady_as_it_accelerates():
    """A jump to and fro by a at every frame is an acceleration of 4 a / dt^2 and a
    jerk of 8 a / dt^3."""
    stands = standing(STEPS + 1)
    shakes = stands.clone()
    shakes[::2, :, 7] += 0.002
    shakes[1::2, :, 7] -= 0.002
    pairs = ((stands, shakes), (shakes, stands))
    still, found = (
        values(summary(metrics.episodes(rollout(robot, reference))))
        for robot, reference in pairs
    )
    assert still["joint_acceleration"] == found["reference_acceleration"] == 0
    assert still["reference_acceleration"] == found["joint_acceleration"]
    # One joint of 29; of 60 frames the first has no two before it.
    expected = 4 * 0.002 * 50**2 * math.sqrt(59 / 60 / 29)
    assert found["joint_acceleration"] == pytest.approx(expected, rel=1e-3)
    assert still["joint_jerk"] == 0
    expected = 8 * 0.002 * 50**3 * math.sqrt(58 / 60 / 29)
    assert found["joint_jerk"] == pytest.approx(expected, rel=1e-3)
    short = rollout(stands[:2], stands[:2])
    assert values(summary(metrics.episodes(short)))["joint_jerk"] == 0


def test_a_turn_about_the_pelvis_is_local_error_of_known_size(walks):
    """A link at a horizontal distance r moves by 2 r sin(a / 2), and only heading
    was removed from nothing: MPJPE-L sees it."""
    angle = 0.3
    turned = walks.clone()
    turn = rotation.from_yaw(torch.tensor(angle))
    turned[1:, :, 3:7] = rotation.multiply(turn, walks[1:, :, 3:7])
    links = Kinematics(g1.TRACKED_LINKS)(walks).position
    radius = (links - links[:, :, :1])[..., :2].norm(dim=-1)
    expected = 2000 * math.sin(angle / 2) * radius[1:].mean()
    found = values(summary(metrics.episodes(rollout(turned, walks))))
    assert found["mpjpe_local_mm"] == pytest.approx(float(expected), rel=1e-4)
    assert found["mpjpe_global_mm"] == pytest.approx(float(expected), rel=1e-4)
    assert found["root_drift_mm"] == 0


def test_world_error_is_root_drift_plus_local_residual(walks):
    """Vector by vector, and so never more than the sum of the two means."""
    torch.manual_seed(0)
    off = walks.clone()
    off[..., :3] += 0.02 * torch.randn(walks.shape[0], 2, 3)
    off[..., 7:] += 0.05 * torch.randn(walks.shape[0], 2, 29)
    measured = errors(rollout(off, walks))
    links = Kinematics(g1.TRACKED_LINKS)
    apart = links(off).position - links(walks).position
    local = apart - apart[:, :, :1]
    torch.testing.assert_close(
        measured.local_mm, 1000 * local.norm(dim=-1).mean(-1), atol=1e-2, rtol=1e-4
    )
    torch.testing.assert_close(
        measured.global_mm, 1000 * apart.norm(dim=-1).mean(-1), atol=1e-2, rtol=1e-4
    )
    assert (measured.global_mm <= measured.local_mm + measured.root_mm + 1e-2).all()
    assert (measured.global_mm > measured.local_mm - measured.root_mm).all()


def test_one_frame_late_is_not_zero(walks):
    """An off-by-one of the pairing costs what the body moves in 20 ms."""
    late = torch.cat((walks[:1], walks[:-1]))
    found = values(summary(metrics.episodes(rollout(late, walks))))
    moved = (walks[1:, :, :3] - walks[:-1, :, :3]).norm(dim=-1).mean() * 1000
    assert moved > 2
    assert found["root_drift_mm"] == pytest.approx(float(moved), rel=1e-3)


def test_the_start_and_frames_past_the_clip_do_not_count(walks):
    robot = walks.clone()
    robot[0] += 1.0
    robot[31:, 1] = 0.0
    found = metrics.episodes(rollout(robot, walks, [STEPS + 1, 31]))
    assert found.success.all()
    assert found.frames.tolist() == [STEPS, 30]
    assert found.global_mm.tolist() == [0, 0] and found.final_mm.tolist() == [0, 0]


def test_means_weigh_frames_and_skip_failures(walks):
    """10 mm over 60 frames and 40 mm over 30 make 20; the failed one has no say."""
    reference = torch.cat((walks, walks[:, :1]), dim=1)
    robot = reference.clone()
    robot[1:, 0, 0] += 0.010
    robot[1:, 1, 0] += 0.040
    robot[20:, 2, 2] -= 0.30
    found = summary(metrics.episodes(rollout(robot, reference, [61, 31, 61])))
    by_name = {m.name: m for m in found}
    assert by_name["mpjpe_global_mm"].value == pytest.approx(20, abs=0.01)
    assert by_name["mpjpe_global_mm"].n == 2
    assert by_name["final_error_mm"].value == pytest.approx(25, abs=0.01)
    assert by_name["success_rate"].value == pytest.approx(2 / 3)
    assert by_name["success_rate"].n == 3
    # Frames 1 to 19 of 60.
    assert by_name["progress_of_failed"].value == pytest.approx(19 / 60)


def _fall(change, rules=None, rows: int = 20) -> tuple[int, str]:
    """First failing frame and cause of a standing robot that is changed."""
    robot, reference = standing(rows), standing(rows)
    change(robot[:, 0])
    found = metrics.episodes(rollout(robot, reference), rules)
    cause = int(found.cause[0])
    return int(found.failed_at[0]), CAUSES[cause] if cause >= 0 else ""


def test_failures_are_found_at_their_first_frame_with_their_cause():
    """The paper's three thresholds, just under and just over."""

    def lower(by: float, at: int):
        def change(rows):
            rows[at:, 2] -= by

        return change

    def lean(angle: float, at: int):
        def change(rows):
            # About the vertical: heights stay.
            rows[at:, 3:7] = rotation.from_yaw(torch.tensor(angle))

        return change

    def raise_arm(angle: float, at: int):
        def change(rows):
            rows[at:, 7 + g1.joint_index("left_shoulder_pitch")] -= angle

        return change

    assert _fall(lower(0.249, 7)) == (0, "")
    assert _fall(lower(0.251, 7)) == (7, "anchor_height")
    assert _fall(lean(0.99, 4)) == (0, "")
    assert _fall(lean(1.01, 4)) == (4, "anchor_orientation")
    assert _fall(raise_arm(0.2, 11)) == (0, "")
    assert _fall(raise_arm(1.5, 11)) == (11, "end_effector_height")
    # What comes back later has still failed, and the last frame counts.
    assert _fall(lambda rows: rows[5].sub_(1.0)) == (5, "anchor_height")
    assert _fall(lower(0.3, 19)) == (19, "anchor_height")


def test_where_the_robot_is_on_the_floor_plan_is_no_failure():
    assert _fall(lambda rows: rows[3:, :2].add_(5.0)) == (0, "")


def test_the_strict_rules_have_a_foot_in_its_place():
    """A leg swung forward by 0.45 rad takes the foot over 0.2 m away, under 0.25 up."""

    def kick(rows):
        rows[6:, 7 + g1.joint_index("left_hip_pitch")] -= 0.45

    assert _fall(kick) == (0, "")
    strict = replace(evaluation(), foot_position_m=TerminationConfig().foot_position_m)
    assert _fall(kick, strict) == (6, "foot_position")
    assert strict.foot_position_m == 0.2


def test_errors_of_a_failed_episode_are_those_before_it():
    robot, reference = standing(20), standing(20)
    robot[1:10, 0, 0] += 0.02
    robot[10:, 0, 2] -= 0.5
    found = metrics.episodes(rollout(robot, reference))
    assert found.failed_at.tolist() == [10]
    assert found.global_mm[0] == pytest.approx(20, abs=0.01)
    robot[1:, 0, 2] -= 0.5
    found = metrics.episodes(rollout(robot, reference))
    assert found.failed_at.tolist() == [1] and np.isnan(found.global_mm[0])
    assert found.progress.tolist() == [0]
    assert "mpjpe_global_mm" not in values(summary(found))
    assert values(summary(found))["success_rate"] == 0


def test_the_drift_slope_is_that_of_the_mean_curve():
    """20 and 40 mm/s from the start on make 30; clips under 8 s have no say."""
    rows = 8 * 50 + 1
    robot, reference = standing(rows, 3), standing(rows, 3)
    seconds = torch.arange(rows) / 50
    robot[:, 0, 0] += 0.020 * seconds
    robot[:, 1, 1] -= 0.040 * seconds
    robot[:, 2, 0] += 1.0 * seconds
    found = summary(metrics.episodes(rollout(robot, reference, [rows, rows, rows - 1])))
    slope = next(m for m in found if m.name == "drift_slope_mm_s")
    assert slope.value == pytest.approx(30, rel=1e-3) and slope.n == 2


def test_the_end_is_split_along_and_across_the_travel():
    """Travel of 3 m along (3, 4) / 5; errors by hand in that frame."""
    n = 4
    robot, reference = standing(20, n), standing(20, n)
    reference[10:, :3, :2] += torch.tensor([1.8, 2.4])
    reference[10:, 3, 0] += 1.9  # not far enough to say anything
    robot[1:] = reference[1:]
    along, left = torch.tensor([0.6, 0.8]), torch.tensor([-0.8, 0.6])
    robot[1:, 0, :2] += -0.30 * along + 0.02 * left
    robot[1:, 1, :2] += -0.15 * along - 0.06 * left
    robot[1:, 2, :2] += 0.06 * along + 0.04 * left
    robot[1:, 3, :2] += 1.0
    episodes = metrics.episodes(rollout(robot, reference))
    np.testing.assert_allclose(episodes.along_mm[:3], [-300, -150, 60], atol=0.01)
    np.testing.assert_allclose(episodes.across_mm[:3], [20, 60, 40], atol=0.01)
    by_name = {m.name: m for m in summary(episodes)}
    assert by_name["along_mm"].n == 3
    assert by_name["along_mm"].value == pytest.approx(-150, abs=0.01)
    assert by_name["along_share_of_travel"].value == pytest.approx(-0.05, abs=1e-5)
    assert by_name["across_mm"].value == pytest.approx(40, abs=0.01)
    assert by_name["short_share"].value == pytest.approx(2 / 3)


def test_a_fall_is_a_low_torso_over_a_reference_that_stands():
    robot, reference = standing(30, 3), standing(30, 3)
    robot[12:, 0, 2] = 0.2
    # Down with its reference is no fall.
    robot[12:, 1, 2], reference[12:, 1, 2] = 0.2, 0.25
    found = metrics.episodes(rollout(robot, reference))
    assert found.fell_at.tolist() == [12, 0, 0]
    # A low torso is one wherever the reference is, and a broken robot has one.
    robot[20, 2] = torch.nan
    found = metrics.episodes(rollout(robot, reference))
    assert found.low_at.tolist() == [12, 12, 20]


def test_a_fall_by_the_reference_lasts_half_a_second():
    """25 frames 0.26 m below; not 24, not 0.24 m, and not across a recovery."""
    reference = standing(60, 5)
    robot = reference.clone()
    robot[12:37, 0, 2] -= 0.26
    robot[12:36, 1, 2] -= 0.26
    robot[12:60, 2, 2] -= 0.24
    robot[12:56, 3, 2] -= 0.26
    robot[33, 3, 2] += 0.26
    robot[30, 4] = torch.nan  # no simulation is not a robot that stands
    found = metrics.episodes(rollout(robot, reference))
    assert found.sank_at.tolist() == [12, 0, 0, 0, 30]
    assert values(summary(found))["fall_free_relative_share"] == 0.6
    # What follows a clip's end is no part of it.
    short = metrics.episodes(rollout(robot, reference, [36, 60, 60, 60, 60]))
    assert short.sank_at.tolist() == [0, 0, 0, 0, 30]


def test_means_before_failures_and_falls_and_over_all_frames():
    """40 mm over 14 frames, then a pelvis 0.3 m too low for 5, then on the floor; and
    one that is broken for a frame, which no mean over all frames counts."""
    robot, reference = standing(50, 3), standing(50, 3)
    robot[1:, 0, 0] += 0.010
    robot[1:15, 1, 0] += 0.040
    robot[15:, 1, 2] -= 0.30
    robot[20:, 1, 2] -= 0.30
    robot[1:, 2, 0] += 0.020
    robot[30, 2] = torch.nan
    found = metrics.episodes(rollout(robot, reference))
    assert found.failed_at.tolist() == [0, 15, 30]
    assert found.fell_at.tolist() == [0, 20, 30]
    assert found.sank_at.tolist() == [0, 15, 30]
    assert found.broken.tolist() == [0, 0, 1]
    assert found.survived.tolist() == found.afloat.tolist() == [49, 14, 29]
    upright = (14 * 40 + 5 * 300) / 19
    whole = (14 * 40 + 5 * 300 + 30 * 600) / 49
    for column, expected in (
        ("global_mm", (10, 40, 20)),
        ("upright_global_mm", (10, upright, 20)),
        ("afloat_global_mm", (10, 40, 20)),
        ("whole_global_mm", (10, whole, 20)),
    ):
        np.testing.assert_allclose(getattr(found, column), expected, rtol=1e-3)
    assert found.whole_local_mm == pytest.approx([0, 0, 0], abs=0.01)
    # The paper's three causes are told always, others where there are any.
    assert values(failures(found)) == {
        "failed_anchor_height": 1,
        "failed_anchor_orientation": 0,
        "failed_end_effector_height": 0,
        "failed_broken": 1,
    }


def test_targets_that_alternate_change_by_twice_their_amplitude():
    """One joint of 29; of 60 steps the first has none before it. Without actions there
    is no such number."""
    stands = standing(STEPS + 1)
    record = rollout(stands, stands)
    assert "action_rate" not in values(summary(metrics.episodes(record)))
    actions = torch.zeros(STEPS, 1, g1.NUM_JOINTS)
    actions[::2, :, 3], actions[1::2, :, 3] = 0.1, -0.1
    found = values(summary(metrics.episodes(replace(record, actions=actions))))
    expected = 0.2 * g1.ACTION_SCALE[3] * math.sqrt(59 / 60 / 29)
    assert found["action_rate"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_targets_change_as_far_as_the_controller_reaches(reach):
    """From one of its limits to the other, whatever more is asked for."""
    stands, ankle = standing(STEPS + 1), g1.joint_index("left_ankle_pitch")
    actions = torch.zeros(STEPS, 1, g1.NUM_JOINTS)
    actions[::2, :, ankle], actions[1::2, :, ankle] = 20.0, -20.0
    record = replace(rollout(stands, stands), actions=actions, reach=reach)
    found = values(summary(metrics.episodes(record)))
    low, high = g1.JOINT_LIMITS[ankle]
    range_rad = high - low + 2 * reach * g1.ACTION_SCALE[ankle]
    expected = range_rad * math.sqrt(59 / 60 / 29)
    assert found["action_rate"] == pytest.approx(expected, rel=1e-5)


def test_records_can_be_measured_in_parts(walks, monkeypatch):
    """A frame's error does not depend on what it is measured with."""
    torch.manual_seed(0)
    robot = walks + 0.01 * torch.randn_like(walks)
    robot[..., 3:7] = rotation.normalize(robot[..., 3:7])
    record = rollout(robot, walks)
    whole = metrics.episodes(record)
    monkeypatch.setattr("spectral_skills.control.metrics._AT_ONCE", 14)
    parts = [metrics.episodes(record.select([i])) for i in (1, 0)]
    joined = Episodes.join(parts).select([1, 0])
    assert joined.names == whole.names
    np.testing.assert_allclose(joined.local_mm, whole.local_mm, rtol=1e-5)
    np.testing.assert_allclose(joined.curve_mm, whole.curve_mm, rtol=1e-4, atol=1e-3)
    assert whole.select(np.array([False, True])).names == ("walk1",)

"""Following: robots that do what they should not, and what is said about them."""

import math

import numpy as np
import pytest
import torch

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes, summary
from spectral_skills.control.rollout import Rollout
from spectral_skills.robot import g1

ROWS = 401
SECONDS = torch.arange(ROWS) / 50


def still(n: int = 1) -> torch.Tensor:
    """(401, n, 36) the default pose."""
    return torch.tensor(g1.DEFAULT_QPOS).float().expand(ROWS, n, -1).clone()


def going(*places: torch.Tensor) -> torch.Tensor:
    """(401, n, 36) the default pose along places (401, 2)."""
    rows = still(len(places))
    rows[..., :2] = torch.stack(places, dim=1)
    return rows


def line(speed_mps: float, heading: float = 0.3) -> torch.Tensor:
    way = torch.tensor([math.cos(heading), math.sin(heading)])
    return speed_mps * SECONDS[:, None] * way


def judge(robot: torch.Tensor, reference: torch.Tensor, lengths=None) -> Episodes:
    n = robot.shape[1]
    return metrics.episodes(
        Rollout(
            robot=robot,
            reference=reference.expand_as(robot),
            lengths=torch.tensor(lengths or [ROWS] * n),
            names=tuple(f"clip{i}" for i in range(n)),
        )
    )


def test_the_share_of_a_walk_is_how_much_of_it_is_gone():
    """8 m: on it, beside it, half as fast, standing, trembling, shaking from foot to
    foot, backwards, at right angles, twice as fast, and late by a fifth of a second."""
    torch.manual_seed(0)
    walk, zero = line(1.0), torch.zeros(ROWS, 2)
    across = torch.tensor([-math.sin(0.3), math.cos(0.3)])
    sway = 0.05 * torch.sin(2 * math.pi * SECONDS)[:, None] * torch.ones(2)
    late = torch.cat((walk[:1].expand(10, 2), walk[:-10]))
    robots = {
        "on it": (walk, 1.0),
        "beside it": (walk + 0.1 * across, 1.0),
        "half as fast": (line(0.5), 0.5),
        "standing": (zero, 0.0),
        "trembling": (0.02 * torch.randn(ROWS, 2), 0.0),
        "on the spot": (sway, 0.0),
        "backwards": (line(-1.0), 0.0),
        "at right angles": (SECONDS[:, None] * across, 0.0),
        "twice as fast": (line(2.0), 1.0),
        "late": (late, 1.0),
    }
    found = judge(going(*(place for place, _ in robots.values())), going(walk))
    assert found.path_m == pytest.approx([8.02] * len(robots), abs=0.01)
    expected = [share for _, share in robots.values()]
    np.testing.assert_allclose(found.path_share, expected, atol=0.03)
    # The paper's rule is content with all of them.
    assert found.success.all()
    followed = dict(zip(robots, found.followed.tolist(), strict=True))
    assert [name for name, good in followed.items() if good] == [
        *("on it", "beside it", "late")
    ]
    # Too fast: all of the path is gone, and half of the time it is elsewhere.
    assert found.global_mm[8] > 500


def test_the_way_back_of_a_walk_to_and_fro_counts():
    """2 m there and 2 m back: standing is nothing of it though both end at the start,
    and going there but not back is half."""
    places = 2 - (2 - 0.5 * SECONDS).abs()
    there = 0.5 * SECONDS.clamp_max(4.0)
    zero = torch.zeros(ROWS)
    x = [torch.stack((p, zero), dim=1) for p in (places, zero, 0.5 * places, there)]
    found = judge(going(*x), going(x[0]))
    assert found.path_m[0] == pytest.approx(4, abs=0.3)
    np.testing.assert_allclose(found.path_share, [1, 0, 0.5, 0.5], atol=0.03)
    assert found.travel_m[0] == pytest.approx(0, abs=0.01)


def test_standing_between_walks_is_no_path():
    """A robot that drifts while its reference stands has gone no more of the walk."""
    walk = torch.where(SECONDS < 6, 0.0, SECONDS - 6)
    drift = torch.where(SECONDS < 6, 0.05 * SECONDS, 0.3)
    wanted, found = (torch.stack((p, 0 * p), dim=1) for p in (walk, drift))
    done = judge(going(found), going(wanted))
    assert done.path_m[0] == pytest.approx(2, abs=0.1)
    assert done.path_share[0] == pytest.approx(0, abs=0.03)


def test_a_reference_that_goes_nowhere_is_followed_by_staying_near():
    """It sways by 15 cm in 2 s, more than 2 m in all. Standing is right, and so is 0.3
    m of drift; 0.9 m is not, even for a moment, nor is a walk."""
    sway = 0.15 * torch.sin(math.pi * SECONDS)[:, None] * torch.tensor([1.0, 0.0])
    assert sway.diff(dim=0).abs().sum() > 2
    zero, visit = torch.zeros(ROWS, 2), torch.zeros(ROWS, 2)
    visit[200:210, 0] = 0.9
    robots = going(sway, zero, line(0.04), visit, line(1.0))
    found = judge(robots, going(sway))
    assert (found.path_m < 0.3).all() and not found.goes.any()
    assert found.path_share.tolist() == [1, 1, 1, 0, 0]
    assert found.followed.tolist() == [True, True, True, False, False]
    assert "path_share" not in {m.name for m in summary(found)}
    # Three times as far out, it does go somewhere, and who stands has not gone there.
    found = judge(going(zero), going(3 * sway))
    assert found.goes[0] and found.path_share[0] == pytest.approx(0, abs=0.03)


def test_what_is_gone_is_gone_before_the_failure_and_the_end():
    """Down at 2 of 8 s, though it slides on; broken at 4 s; and a clip of 2 s."""
    walk = going(line(1.0)).expand(-1, 3, -1)
    robot = walk.clone()
    robot[100:, 0, 2] -= 0.5
    robot[200:, 1] = torch.nan
    robot[101:, 2, :2] = 0.0
    found = judge(robot, walk, [ROWS, ROWS, 101])
    assert found.success.tolist() == [False, False, True]
    np.testing.assert_allclose(found.path_share, [0.25, 0.5, 1.0], atol=0.03)
    assert found.path_m == pytest.approx([8.02, 8.02, 2.02], abs=0.01)
    assert found.followed.tolist() == [False, False, True]


def test_joints_correlate_as_they_move():
    """Two joints that swing: as they should, by a third, not at all, the wrong way, and
    one of both; a joint that hardly moves has no say."""
    swing = torch.sin(4 * SECONDS)
    reference = still()
    reference[:, 0, 7] += 0.3 * swing
    reference[:, 0, 10] -= 0.2 * swing
    reference[:, 0, 12] += 0.04 * swing
    robot = still(5)
    for i, (first, second) in enumerate(((1, 1), (1 / 3, 1 / 3), (0, 0), (-1, -1))):
        robot[:, i, 7] += 0.3 * first * swing
        robot[:, i, 10] -= 0.2 * second * swing
    robot[:, 4, 7] += 0.3 * swing
    robot[:, :, 12] -= 0.04 * swing[:, None]
    found = judge(robot, reference)
    expected = [1, 1, 0, -1, 0.5]
    np.testing.assert_allclose(found.joint_correlation, expected, atol=1e-3)
    # Of a reference that stands there is none, and a summary has no such number.
    stands = judge(still(), still())
    assert np.isnan(stands.joint_correlation[0])
    assert "joint_correlation" not in {m.name for m in summary(stands)}


def test_a_summary_has_what_is_followed_beside_success():
    """Four succeed; one stands while its reference walks, one is 0.6 m beside it. Of
    the failed one a quarter is gone, and the fifth goes nowhere."""
    walk = line(1.0)
    reference = going(walk, walk, walk, walk, torch.zeros(ROWS, 2))
    robot = reference.clone()
    robot[:, 1, :2] = 0.0
    robot[:, 2, 1] += 0.6
    robot[100:, 3, 2] -= 0.5
    found = judge(robot, reference)
    assert found.followed.tolist() == [True, False, False, False, True]
    measures = {m.name: m for m in summary(found)}
    assert measures["success_rate"].value == 0.8
    assert measures["followed"].value == 0.4 and measures["followed"].n == 5
    gone = measures["path_share"]
    assert gone.n == 4 and gone.value == pytest.approx((1 + 0 + 1 + 0.25) / 4, abs=0.01)

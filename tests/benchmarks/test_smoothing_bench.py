"""The benchmark of smoother actions compares the same clips, on the robots it says."""

import numpy as np
import pytest
import smoothing
import torch

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.robot import g1


def shaken(sizes: list[float], falls: int | None = None) -> Episodes:
    """Robots whose knee shakes by so much beside references that stand."""
    rows = torch.tensor(g1.DEFAULT_QPOS).float().expand(200, len(sizes), -1)
    robot, time = rows.clone(), torch.arange(200)[:, None] / 50
    robot[..., 7 + g1.joint_index("left_knee")] += (
        torch.tensor(sizes) * (20 * time).sin()
    )
    if falls is not None:
        robot[100:, falls, 2] -= 0.5
    names = tuple(f"clip{i}" for i in range(len(sizes)))
    lengths = torch.full((len(sizes),), len(rows))
    return metrics.episodes(Rollout(robot, names, lengths, rows.clone()))


def test_jerk_is_of_clips_that_always_succeed():
    """The clip that shakes most falls once, and counts in no jerk."""
    plain, smooth = shaken([0.02, 0.2, 0.02]), shaken([0.01, 0.2, 0.01], falls=1)
    cells = {(r.row, r.metric): r for r in smoothing.results({0.0: plain, 0.5: smooth})}
    assert cells["smoothing 0", "success_rate"].value == 1
    assert cells["smoothing 0.5", "success_rate"].value == pytest.approx(2 / 3)
    jerks = [cells[f"smoothing {share}", "joint_jerk"] for share in ("0", "0.5")]
    assert [one.n for one in jerks] == [2, 2]
    assert jerks[1].value == pytest.approx(jerks[0].value / 2, rel=1e-3)


def test_other_robots_are_late_and_differ():
    physics = smoothing.other_robots(16)
    assert set(physics.delay.tolist()) == {0, 1}
    masses = [model.body_mass.sum() for model in physics.models]  # type: ignore
    assert len(set(np.round(masses, 6))) == 16

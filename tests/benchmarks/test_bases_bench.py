"""The benchmark of bases measures robots against the motion that they should play."""

from dataclasses import replace
from typing import Any

import bases as benchmark
import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.control.batch import Executed, Run
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.recorded import as_base
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1


def motion(steps: int, speed: float, turning: float, swing: float) -> np.ndarray:
    """Rows that go ahead and turn, m/s and rad/s, while an elbow swings, rad."""
    t = np.arange(steps) / 50
    rows = np.tile(g1.DEFAULT_QPOS, (steps, 1)).astype(np.float32)
    rows[:, 0] = speed * t
    rows[:, 3:7] = rotation.from_yaw(torch.from_numpy(turning * t)).numpy()
    rows[:, 7 + g1.joint_index("left_elbow")] += swing * np.sin(8 * t)
    return rows


def executed(base: PlayedBase, **moves: float) -> Executed:
    run = Run("played", as_base(base, benchmark.STEPS), None)
    return Executed(run, motion(benchmark.STEPS + 1, **moves))


@pytest.fixture
def played() -> benchmark.Played:
    """Four seconds, of which the last three are repeated; it turns all the time."""
    rows = motion(200, speed=1.0, turning=0.1, swing=0.5)
    own = 0.1 * np.arange(200, dtype=np.float32) / 50
    base = PlayedBase("go", "", (50, 200), 0.4, np.zeros((200, 4)), rows, None, own)
    return benchmark.Played(base, rows)


def test_the_heading_goes_on_where_a_base_is_repeated(played):
    """The motion turns 0.8 rad in 8 s, however often it begins again."""
    same = executed(played.base, speed=1.0, turning=0.1, swing=0.5)
    assert benchmark.off_deg(same, played.base) == pytest.approx(0, abs=0.01)
    # In the mean of the last second, 7.5 s after the start.
    faster = executed(played.base, speed=1.0, turning=0.2, swing=0.5)
    right = np.degrees(0.1 * 7.5)
    assert benchmark.off_deg(faster, played.base) == pytest.approx(right, abs=0.2)


def test_shares_are_of_what_the_motion_does(played):
    kinematics = Kinematics(benchmark.HANDS)
    slower = executed(played.base, speed=0.5, turning=0.1, swing=0.25)
    found = benchmark.shares(slower, played, kinematics)
    assert found["path gone"] == pytest.approx(0.5, abs=0.01)
    assert found["joint correlation"] == pytest.approx(1, abs=1e-4)
    assert found["hands' motion"] == pytest.approx(0.5, abs=0.02)
    standing = benchmark.Played(played.base, motion(200, 0.0, 0.0, 0.0))
    assert benchmark.shares(slower, standing, kinematics) == {}


def test_where_a_fallen_robot_lies_says_nothing_about_its_base(played, monkeypatch):
    fine = executed(played.base, speed=0.5, turning=0.1, swing=0.5)
    lies = executed(played.base, speed=0.0, turning=0.0, swing=0.0)
    lies.rows[200:, 2] = 0.1
    ran = {"go": [fine, lies]}
    monkeypatch.setattr(benchmark, "everything", lambda *_: {"go": played})
    monkeypatch.setattr(benchmark, "play", lambda *_: ran)
    models: Any = None
    found = {r.metric: (r.value, r.n) for r in benchmark.results(models, None, 2)}
    assert found["falls"] == (1, 2)
    assert found["heading, kept"] == (pytest.approx(0, abs=0.01), 1)
    assert found["path gone"] == (pytest.approx(0.5, abs=0.01), 1)
    ran["go"] = [lies]
    assert [r.metric for r in benchmark.results(models, None, 1)] == ["falls"]


def test_a_robot_that_falls_on_the_way_is_counted(bundle):
    """One that is told to do something impossible, or comes from there, and not one
    that stands; every base is left for the fast ones too."""
    base = bundle.base("stand")
    wild = replace(base, name="wild", skills=-10 * base.skills, speed_m_s=2.0)
    both = replace(bundle, bases={"stand": base, "wild": wild})
    found = benchmark.changes(both, robots=1)
    fell = {(one.row, one.metric): one.value for one in found}
    assert fell == {
        ("stand", "falls, from stand"): 0,
        ("stand", "falls, from wild"): 1,
        ("stand", "falls, to wild"): 1,
        ("wild", "falls, from stand"): 1,
        ("wild", "falls, from wild"): 1,
        ("wild", "falls, to wild"): 1,
    }

"""Pairs that the corpus leaves out: the table, the rules, and one pair composed."""

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.experiments import findings, unseen
from spectral_skills.experiments.effects import hold
from spectral_skills.experiments.unseen import (
    ADDED,
    GRID,
    PAIRS,
    PairVerdict,
    judge,
    measure,
    steered,
)
from spectral_skills.motion.synthetic.factors import LEFT_OUT
from spectral_skills.robot import g1


def standing(rows: int = 200) -> np.ndarray:
    return np.tile(g1.DEFAULT_QPOS, (rows, 1))


def test_the_table_holds_every_pair_that_is_left_out_once():
    assert len(PAIRS) == len(LEFT_OUT)
    assert {frozenset(pair) for pair in PAIRS} == LEFT_OUT


def test_every_rule_asks_for_something_that_is_measured():
    known, units = measure(standing()), findings._table("texts")["unseen"]["units"]
    for added in ADDED.values():
        assert set(added["least"]) <= set(known)
        assert {name.replace("_", " ") for name in added["least"]} <= units.keys()
    assert set(GRID.kept.values()) <= set(known)


def test_clips_with_both_factors_are_counted():
    clips = [
        "jog_0001",
        "raise_0002",
        "jog+raise_0003",
        "forward+jog+raise_0004_mirror",
    ]
    assert unseen.clips_with(("jog", "raise"), clips) == 2
    assert unseen.clips_with(("jog", "reach_up"), clips) == 0


def test_a_beat_is_measured_at_its_own_frequency_alone():
    rows, joint = standing(270), 7 + g1.joint_index("right_shoulder_pitch")
    t = np.arange(270) / g1.CONTROL_HZ
    rows[:, joint] += 0.3 * np.sin(2 * np.pi * GRID.beat_hz * t + 1.0)
    assert measure(rows)["right_shoulder_beat"] == pytest.approx(0.3, rel=0.02)
    rows = standing(270)
    rows[:, joint] += 0.3 * np.sin(2 * np.pi * 0.8 * t)
    assert measure(rows)["right_shoulder_beat"] < 0.02


def test_travel_is_measured_in_the_heading_of_the_robot():
    rows = standing()
    rows[:, 3:7] = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # looks along y
    rows[:, 1] = -0.4 * np.arange(len(rows)) / g1.CONTROL_HZ
    found = measure(rows)
    assert found["forward_speed"] == pytest.approx(-0.4, abs=1e-3)
    assert found["sideways_speed"] == pytest.approx(0.0, abs=1e-3)
    assert found["left_hand_y"] > 0.05 > -0.05 > found["right_hand_y"]


@pytest.mark.parametrize(
    ("change", "success"),
    [
        ({"right_shoulder_pitch": -0.41}, True),
        ({"right_shoulder_pitch": -0.39}, False),
        ({"right_shoulder_pitch": 0.41}, False),
        # The walk goes on: its speed may change by 0.15 m/s, not more.
        ({"right_shoulder_pitch": -0.41, "speed": -0.14}, True),
        ({"right_shoulder_pitch": -0.41, "speed": -0.16}, False),
        # Backward is still backward.
        ({"right_shoulder_pitch": -0.41, "forward_speed": 0.15}, True),
        ({"right_shoulder_pitch": -0.41, "forward_speed": 0.2}, False),
    ],
)
def test_an_arm_is_raised_on_a_backward_walk(change, success):
    plain = {"right_shoulder_pitch": 0.1, "speed": 0.4, "forward_speed": -0.4}
    run = {name: value + change.get(name, 0.0) for name, value in plain.items()}
    assert judge(("backward", "raise"), run, plain).success is success


def test_both_arms_must_spread():
    plain = {
        "left_shoulder_roll": 0.2,
        "right_shoulder_roll": -0.2,
        "speed": 0.0,
        "root_range": 0.25,
    }
    run = plain | {"left_shoulder_roll": 0.9, "right_shoulder_roll": -0.3}
    judged = judge(("squat", "spread"), run, plain)
    assert judged.share == pytest.approx(0.5)
    assert not judged.success


def test_who_lies_flat_is_measured():
    """A component of the trunk's up may be more than 1 in floats."""
    axis, flat = torch.tensor((0.0, 1.0, 0.0)), torch.tensor(np.pi / 2)
    for yaw in torch.linspace(-3, 3, 25):
        turned = rotation.multiply(
            rotation.from_yaw(yaw), rotation.from_axis_angle(axis, flat)
        )
        rows = standing(60)
        rows[:, 3:7] = turned.numpy()
        assert all(np.isfinite(value) for value in measure(rows).values())


def test_who_falls_does_not_succeed():
    assert PairVerdict(2.0, True).success
    assert not PairVerdict(2.0, True, stands=False).success


def test_a_beating_knob_goes_to_the_amplitude_and_back(lab):
    base = lab.base("backward", 200)
    change = steered(lab, base, "wave", 2.0).skills - lab.skills(base)
    along = change @ lab.direction("right_arm_1")
    held = along[hold(base)]
    assert held.max() == pytest.approx(2.0, abs=0.05)
    assert held.min() == pytest.approx(0.0, abs=0.05)
    assert np.abs(along[:40]).max() < 1e-4


def test_a_hand_is_moved_along_its_map(lab):
    base = lab.base("backward", 200)
    change = steered(lab, base, "reach", 3.0).skills - lab.skills(base)
    column = lab.directions.hand_maps[1][:, 0]
    full = change[100]
    assert np.linalg.norm(full) == pytest.approx(3.0, rel=1e-3)
    assert full @ column > 0.999 * 3.0 * np.linalg.norm(column)


def test_one_pair_is_composed(lab):
    pairs = [("backward", "raise"), ("backward", "high")]
    found = unseen.unseen(lab, pairs=pairs, steps=200, clips=["backward_0001"])
    cells = {(r.row, r.metric): r.value for r in found.results}
    assert cells["backward + raise", "succeeds"] == 1
    assert cells["backward + raise", "right shoulder pitch"] < -0.4
    assert cells["all pairs", "clips with both"] == 0
    ok = [cells[f"backward + {name}", "succeeds"] for name in ("raise", "high")]
    assert cells["all pairs", "success"] == pytest.approx(100 * np.mean(ok))
    (chart,) = found.charts
    assert sum(len(series.x) for series in chart.series) == len(pairs)


def test_every_seed_has_a_row_and_larger_amplitudes_do_not_count(lab):
    pairs, clips = [("squat", "punch")], ["squat_0001"]
    found = unseen.unseen(lab, (3,), pairs=pairs, steps=200, clips=clips)
    cells = {(r.row, r.metric): r for r in found.results}
    assert cells["all pairs, seed 3", "success"].seed == 3
    assert cells["squat + punch", "amplitude"].value in GRID.amplitudes
    assert cells["all pairs, a=4", "falls"].n > 0

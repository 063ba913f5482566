"""Pairs that the corpus leaves out: the table, the rules, and one pair composed."""

from typing import Any

import numpy as np
import pytest
import torch
from obedient import Obedient, follow
from released import released

from spectral_skills import rotation
from spectral_skills.experiments import findings, unseen
from spectral_skills.experiments.effects import hold
from spectral_skills.experiments.unseen import (
    ADDED,
    GRID,
    HALVES,
    PAIRS,
    PairVerdict,
    Try,
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
    along = change @ lab.direction("right_arm")
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


def test_every_factor_has_pairs_in_both_halves():
    """So what is scored was always chosen on other pairs; names decide, not order."""
    assert unseen.halves(reversed(PAIRS)) == HALVES and set(HALVES) == set(PAIRS)
    for factor in ADDED:
        own = [HALVES[pair] for pair in PAIRS if pair[1] == factor]
        assert abs(2 * sum(own) - len(own)) <= 1


def a_try(pair, choice: int, amplitude: float, share: float, goes_on=True) -> Try:
    none: Any = None  # A choice does not look at the run.
    return Try(pair, choice, amplitude, none, PairVerdict(share, goes_on), {})


def test_a_half_is_scored_with_what_the_other_chose():
    """One half likes the second knobs at 3, where the other half fails."""
    one, two = (
        next(pair for pair in PAIRS if pair[1] == "raise" and HALVES[pair] == half)
        for half in (0, 1)
    )
    shares = {(one, 1, 3.0): 1.2, (one, 0, 1.0): 0.9, (two, 0, 1.0): 1.5}
    tried = [
        a_try(pair, choice, amplitude, shares.get((pair, choice, amplitude), 0.1))
        for pair in (one, two)
        for choice in (0, 1)
        for amplitude in (1.0, 3.0)
    ]
    chosen = unseen.choices(tried)
    assert chosen == [{"raise": (1, 3.0)}, {"raise": (0, 1.0)}]
    scored = {one.pair: one.verdict.success for one in unseen.judged(tried, chosen)}
    assert scored == {one: False, two: False}


def test_what_stops_the_base_is_worth_nothing():
    """A strong effect on a base that no longer goes on comes after a weak one."""
    pair = PAIRS[0]
    tried = [a_try(pair, 0, 3.0, 9.0, goes_on=False), a_try(pair, 0, 1.0, 0.2)]
    assert unseen.choose(tried) == {pair[1]: (0, 1.0)}
    # Of equals the smaller amplitude is taken.
    tried = [a_try(pair, 0, 3.0, 2.0), a_try(pair, 0, 1.0, 1.0)]
    assert unseen.choose(tried) == {pair[1]: (0, 1.0)}


def test_one_pair_is_composed(lab):
    """By the released controller, with what the other half chose."""
    pairs = [("jog", "raise"), ("backward", "raise")]
    assert [HALVES[pair] for pair in pairs] == [0, 1]
    found = unseen.unseen(lab, pairs=pairs, steps=200, clips=["backward_0001"])
    cells = {(r.row, r.metric): r.value for r in found.results}
    assert cells["jog + raise", "succeeds"] == 1
    assert cells["jog + raise", "right shoulder pitch"] < -0.5
    assert cells["all pairs", "clips with both"] == 0
    ok = [cells[f"{base} + raise", "succeeds"] for base, _ in pairs]
    assert cells["all pairs", "success"] == pytest.approx(100 * np.mean(ok))


def test_pairs_of_robots_that_obey():
    """The arm rises by 0.3 rad a unit: 2 is the smallest amplitude that is enough."""
    rule = follow(released()[2], {"right_arm": ("right_shoulder_pitch", -0.3)})
    raised = [pair for pair in PAIRS if pair[1] == "raise"]
    pairs = [next(p for p in raised if HALVES[p] == half) for half in (0, 1)]
    clips = ["jog_0001", "+".join(pairs[0]) + "_0002"]
    found = unseen.unseen(Obedient(rule), (3,), pairs=pairs, steps=200, clips=clips)
    cells = {(r.row, r.metric): r for r in found.results}
    for base, _ in pairs:
        assert cells[f"{base} + raise", "succeeds"].value == 1
        assert cells[f"{base} + raise", "amplitude"].value == 2.0
        change = cells[f"{base} + raise", "right shoulder pitch"].value
        assert change == pytest.approx(-0.6, abs=1e-2)
    for row in ("all pairs", "first half", "second half", "all pairs, chosen in view"):
        assert cells[row, "success"].value == 100
    assert cells["all pairs, seed 3", "success"].seed == 3
    assert cells["all pairs", "clips with both"].value == 1
    (chart,) = found.charts
    assert sum(len(series.x) for series in chart.series) == len(pairs)

"""What is tried, what it has come to, and which direction serves a knob."""

import json
from dataclasses import replace

import numpy as np
import pytest
from puppets import STEPS, Puppets
from released import released

from spectral_skills.control.batch import Runner
from spectral_skills.experiments import catalogue
from spectral_skills.experiments.catalogue import (
    GRID,
    MOST,
    brief,
    choose,
    foretold,
    matched,
    outcome,
    survey,
)
from spectral_skills.experiments.effects import Effect, hold
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import NOTICED, UNITS, mainly


def _effect(elbow: float = 0.0, **noticed: float) -> Effect:
    """Changes given as multiples of what one notices."""
    pose = np.zeros(29)
    pose[g1.joint_index("left_elbow")] = elbow
    return Effect({n: noticed.get(n, 0.0) * NOTICED[n] for n in UNITS}, pose)


def test_matched_amplitudes_have_one_predicted_gain_or_are_the_most():
    directions = released()[2]
    directions = directions.select(np.array(directions.families) != "robot")
    found, gains = matched(directions, most=6.0), directions.gains
    assert found[0] == 2.0
    free = found < 6.0
    assert 5 < free.sum() < len(found)
    np.testing.assert_allclose(found[free] * gains[free], 2.0 * gains[0], rtol=0.01)
    assert (found[~free] == 6.0).all()
    assert (6.0 * gains[~free] <= 2.0 * gains[0] * 1.001).all()
    knobs = replace(directions, families=("spectral",) + ("robot",) * (len(gains) - 1))
    assert (matched(knobs) == 2.0).all()


@pytest.mark.parametrize(
    ("plus", "minus", "expected"),
    [
        (_effect(heading=2.0), _effect(heading=-1.2), "both signs"),
        (_effect(heading=2.0), _effect(heading=1.2), "one sign"),
        (_effect(heading=2.0), _effect(heading=-0.9), "one sign"),
        (None, _effect(heading=-1.2), "one sign"),
        (_effect(heading=0.9), _effect(speed=-0.9), "weak"),
        (None, _effect(speed=-0.9), "weak"),
        (None, None, "falls"),
        (_effect(elbow=0.4), _effect(elbow=-0.4), "both signs"),
    ],
)
def test_outcomes(plus, minus, expected):
    assert outcome(plus, minus) == expected


def test_a_forearm_gives_the_name_where_nothing_else_does():
    assert _effect(elbow=0.4).full_name == "left elbow"
    assert _effect(elbow=0.4, heading=1.5).full_name == "turn left"
    assert _effect(elbow=0.2).full_name == ""


def test_a_knob_is_served_by_what_mainly_changes_it_and_not_the_other_side():
    arm, both = GRID.knobs["right arm raise"], GRID.knobs["both arms"]
    assert mainly(_effect(right_shoulder_pitch=-2, heading=1.9).changes, arm)
    assert not mainly(_effect(right_shoulder_pitch=-2, heading=2.1).changes, arm)
    slight = _effect(right_shoulder_pitch=-2, left_shoulder_pitch=-0.9)
    assert mainly(slight.changes, arm)
    raised = _effect(right_shoulder_pitch=-2, left_shoulder_pitch=-1.5)
    assert not mainly(raised.changes, arm)
    assert mainly(raised.changes, both)


def _rule(direction: str, a: float) -> dict[str, float]:
    """Five directions with known effects per unit."""
    if direction == "s01":
        return {"left_shoulder_pitch": -0.2 * a, "right_shoulder_pitch": -0.3 * a}
    if direction == "s02":
        return {"heading": -30 * a} if a < 3 else {"heading": -30 * a, "fall": 1}
    if direction == "s03":
        return {"fall": 1} if a == -2 else {}
    if direction == "right_arm_1":
        return {"right_shoulder_pitch": 0.4 * a}
    if direction == "predicted_turn":
        return {"heading": 5 * abs(a)} if abs(a) <= 2 else {"fall": 1}
    return {}


NAMES = ("s01", "s02", "s03", "right_arm_1", "predicted_turn")
WEAK = "s64"
"""A direction of so little gain that its amplitude is cut off."""


def test_a_survey_tells_outcome_and_safe_range():
    lab = Puppets(_rule)
    found = {one.direction: one for one in survey(lab, "walk", (*NAMES, WEAK))}
    assert {k: e.outcome for k, e in found.items()} == {
        "s01": "both signs",
        "s02": "both signs",
        "s03": "weak",
        "right_arm_1": "both signs",
        "predicted_turn": "falls",
        WEAK: "weak",
    }
    assert list(found[WEAK].attempts) == [2, -2, 6, -6, MOST, -MOST]
    assert found[WEAK].amplitude == MOST and found[WEAK].safe == (-MOST, MOST)
    turn = found["predicted_turn"]
    reach = turn.amplitude
    assert 2.0 < reach < 6.0 and turn.safe == (-2.0, 2.0)
    assert list(turn.attempts) == [2, -2, reach, -reach]
    assert turn.effect(reach) is None
    reach = found["s03"].amplitude
    assert 2.0 < reach < 6.0
    # It stands there on both sides, but falls at -2.
    assert found["s03"].safe == (0.0, reach)
    # 5 degrees a unit in either sign, where the robot stands: weak.
    assert turn.limited(2.0).outcome == "weak"


def test_the_strongest_direction_that_keeps_the_rest_serves_a_knob():
    found = survey(Puppets(_rule), "walk", NAMES)
    one, sign = choose(found, GRID.knobs["right arm raise"]) or (None, 0)
    assert one and (one.direction, sign) == ("right_arm_1", -1)
    one, sign = choose(found, GRID.knobs["turn"]) or (None, 0)
    assert one and (one.direction, sign) == ("s02", -1)
    one, _ = choose(found, GRID.knobs["both arms"]) or (None, 0)
    assert one and one.direction == "s01"
    assert choose(found, GRID.knobs["high steps"]) is None


def test_a_spectral_knob_is_chosen_by_what_is_predicted():
    """One that moves the arm alone, in its other sign; not one that moves both more."""
    directions = released()[2]
    effects = np.zeros_like(directions.effect_mean)
    for name, left, right in (("s02", -0.6, -0.6), ("s05", 0.0, 0.4)):
        for side, change in (("left", left), ("right", right)):
            column = directions.attributes.index(f"{side}_shoulder_pitch")
            effects[directions.index(name), column] = change
    known, steps = replace(directions, effect_mean=effects), slice(65, 335)
    assert foretold(known, GRID.knobs["right arm raise"], steps) == ("s05", -1)
    assert foretold(known, GRID.knobs["both arms"], steps) == ("s02", 1)


def test_findings_count_and_keep_the_entries(tmp_path):
    lab = Puppets(_rule, records=tmp_path / "records")
    found = catalogue.catalogue(lab, (0,), names=NAMES)
    cells = {(r.row, r.metric): r for r in found.results}
    assert cells["spectral on walk, a up to 12", "both signs"].value == 2
    assert cells["spectral on walk, a up to 12", "weak"].value == 1
    assert cells["spectral on walk, a up to 12", "groups"].value == 2
    fallen = cells["parts and targets on walk", "falls at a=2"]
    assert (fallen.value, fallen.n) == (0, 4)
    assert cells["spectral on walk", "falls at a=2"].value == 1
    assert ("parts and targets on walk, seed 0", "falls at a=2") in cells
    assert ("spectral on walk, seed 0", "falls at a=2") not in cells
    raised = cells["right arm raise by right_arm_1 on walk, a=-2", "effect"]
    assert raised.value == pytest.approx(0.8) and raised.paper == "±0.90"
    # 60 degrees over the 70 steps that are measured here.
    turned = cells["turn by s02 on walk, a=-2", "effect"]
    assert turned.value == pytest.approx(60.0 * 4.0 * 50 / (STEPS - 131))
    name, sign = foretold(released()[2], GRID.knobs["turn"], hold(lab.base("walk")))
    spectral = [row for row, _ in cells if row.startswith("turn, spectral")]
    assert all(name in row for row in spectral) and bool(spectral) == (name in NAMES)
    bars = {s.name: s for s in found.charts[0].series}
    assert bars["both signs"].x == (1, 2) and bars["weak"].x == (3,)
    assert found.charts[1].series[0].marks[-1] == "fall"
    assert {film.title for film in found.films} == {
        "right arm raise on walk",
        "turn on walk",
    }
    listed = json.loads((tmp_path / catalogue.FILE).read_text())
    turn = next(one for one in listed if one["direction"] == "predicted_turn")
    assert turn["outcome"] == "falls" and turn["safe"] == [-2.0, 2.0]
    assert [run["fell"] for run in turn["runs"]] == [False] * 2 + [True] * 2
    assert turn["runs"][-1]["effects"] is None
    assert turn["runs"][0]["effects"]["heading"] == pytest.approx(10.0)
    short = brief(turn)
    assert short["safe"] == [-2.0, 2.0] and "runs" not in short
    first, last = (f"{turn['runs'][i]['amplitude']:+g}" for i in (0, -1))
    assert short["effects"][first] == {}  # 10 degrees are not noticed
    assert short["effects"][last] is None


def test_the_released_controller_raises_its_arm():
    (arm,) = survey(Runner(*released()), "carry", ["right_arm"])
    up = arm.effect(2.0)
    assert up and up.changes["right_shoulder_pitch"] < -0.4
    assert up.full_name == "right arm raise"


def test_only_the_options_of_an_experiment_can_be_changed():
    with pytest.raises(TypeError, match="no option 'larger'; it has bases, names"):
        catalogue.catalogue(Puppets(_rule), larger={})

"""Slopes, fits, falls and predictions of robots whose response is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from puppets import FALL_STEP, STEPS, Puppets
from released import released

from spectral_skills.control.batch import Runner
from spectral_skills.experiments import linearity
from spectral_skills.experiments.effects import beside, hold, predicted
from spectral_skills.experiments.findings import Draft
from spectral_skills.experiments.linearity import compare, correlation, through_origin
from spectral_skills.spectral.catalogue import MIDDLE_S


def test_a_line_through_the_origin():
    x = np.array([-2.0, -1.0, 1.0, 2.0])
    assert through_origin(x, 3 * x) == pytest.approx((3.0, 1.0))
    slope, fit = through_origin(x, np.abs(x))  # the same in both signs: no slope
    assert (slope, fit) == pytest.approx((0.0, 0.0))
    # By hand: 6 / 10 for the slope; 4 - 36 / 10 of 4 is left.
    slope, fit = through_origin(x, np.array([-1.0, -1.0, 1.0, 1.0]))
    assert (slope, fit) == pytest.approx((0.6, 0.9))
    assert all(math.isnan(value) for value in through_origin(x, 0 * x))


def test_correlation_does_not_hang_on_the_signs_of_directions():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])
    signs = np.array([1.0, -1.0, 1.0])
    assert correlation(x, 2 * x) == pytest.approx(1.0)
    assert correlation(x, y) == pytest.approx(correlation(signs * x, signs * y))
    assert math.isnan(correlation(x, 0 * x))


def test_a_predicted_turn_is_of_the_steps_that_are_measured():
    directions = released()[2]
    facing = directions.effect_mean[:, directions.attributes.index("facing")]
    rate = facing / MIDDLE_S
    found = predicted(directions, slice(65, 335))
    np.testing.assert_allclose(found["heading"], rate * 269 / 50 * 180 / np.pi, 1e-5)
    assert found["speed"][directions.index("speed")] > 0


def test_the_knob_of_a_leg_is_the_strongest_and_moves_its_own_foot():
    directions = released()[2]
    ((name, parts),) = linearity.leg_knob(directions).items()
    gains = {
        n.split(" ")[0]: g
        for n, g in zip(directions.names, directions.gains, strict=True)
        if "_leg_" in n or n.startswith("foot")
    }
    assert name == max(gains, key=lambda n: gains[n])
    assert parts == {f"{name.split('_')[0]}_apex": 1}


def _rule(direction: str, a: float) -> dict[str, float]:
    """An arm that makes the robot fall at 1.5 and 4, and a turn that bends."""
    if direction == "right_arm":
        return {"right_shoulder_pitch": -0.4 * a} | (
            {"fall": 1} if a in (1.5, 4) else {}
        )
    if direction == "turn":
        return {"heading": 20 * a + 10 * abs(a)}
    return {}


def test_doses_slopes_and_falls(tmp_path):
    lab = Puppets(_rule, records=tmp_path)
    arm, turn = linearity.turn_up(
        lab,
        "walk",
        {k: linearity.DOSE.knobs[k] for k in ("right_arm", "turn")},
        (1, 1.5, 2, 4),
    )
    assert arm.amplitudes.tolist() == [-4, -2, -1.5, -1, 1, 1.5, 2, 4]
    assert arm.stands.tolist() == [True] * 5 + [False, True, False]
    assert arm.line() == pytest.approx((0.4, 1.0, 5))
    # 20 a explains 4 parts of 5 of the squares of 20 a + 10 |a|.
    assert turn.line() == pytest.approx((20.0, 0.8, 6))
    # The robot that falls is measured until then, and its arm is where it should be.
    assert hold(lab.base("walk")).start + 50 < FALL_STEP
    assert arm.effects[-1] == pytest.approx(1.6)
    # Beside an unsteered robot that falls there is nothing to tell.
    low = replace(arm.runs[0].plain, rows=arm.runs[-1].executed.rows)
    runs = [replace(one, plain=low) for one in arm.runs]
    slope, fit, n = replace(arm, runs=runs).line()
    assert math.isnan(slope) and math.isnan(fit) and n == 0


def test_a_robot_that_falls_at_once_has_no_effect():
    lab = Puppets(_rule)
    base = lab.base("walk")
    run = lab.steered(base, lab.direction("right_arm", 4.0), "right_arm a=+4")
    fallen = beside(lab, base, {4.0: run}, "")[4.0]
    parts, late = linearity.DOSE.knobs["right_arm"], slice(FALL_STEP - 20, STEPS - 1)
    assert linearity.until_fall(fallen, late, parts) == 0.0
    assert linearity.until_fall(fallen, slice(65, STEPS - 1), parts) > 1.0


def test_predicted_and_executed():
    """Arms that do just half of what is predicted, and one direction that falls."""
    directions = released()[2]
    known = predicted(directions, slice(65, STEPS - 65))

    def rule(direction: str, a: float) -> dict[str, float]:
        if direction == "s03":
            return {"fall": 1}
        k = directions.index(direction)
        pitch = float(known["left_shoulder_pitch"][k])
        return {"left_shoulder_pitch": 0.5 * a * pitch}

    lab = Puppets(rule)
    report = Draft("dose", lab)
    compare(report, "walk", ("s01", "s02", "s03", "turn"))
    found = {(c.row, c.metric): c for c in report.results}
    row = "left shoulder pitch of directions on walk"
    ratio = found[row, "executed over predicted"]
    assert (ratio.value, ratio.n) == (pytest.approx(0.5, abs=1e-4), 3)
    close = found[row, "predicted and executed, correlation"]
    assert close.value == pytest.approx(1.0)
    assert all(len(series.x) == 3 for series in report.charts[0].series)


def test_findings_have_a_chart_a_base_and_mark_falls(tmp_path):
    lab = Puppets(_rule, records=tmp_path / "records")
    found = linearity.dose(
        lab, (1,), bases=("walk",), amplitudes=(1, 4), compared=("right_arm", "turn")
    )
    cells = {(r.row, r.metric): r for r in found.results}
    row = "right arm on walk: right shoulder pitch"
    assert cells[row, "slope"].value == pytest.approx(0.4)
    assert (cells[row, "falls"].value, cells[row, "falls"].n) == (1, 4)
    again = cells["right arm on walk, seed 1: right shoulder pitch", "slope"]
    assert again.seed == 1
    curve = found.charts[0].series[0]
    assert curve.x == (-4, -1, 0, 1, 4) and curve.y[2] == 0
    assert curve.marks == ("", "", "", "", "fall")
    assert found.films[0].title == "right arm a=+1 on walk"
    assert found.charts[1].kind == "scatter"


def test_the_released_controller_turns_more_with_more():
    lab = Runner(*released())
    (turn,) = linearity.turn_up(
        lab, "walk", {"turn": linearity.DOSE.knobs["turn"]}, (2.0,)
    )
    slope, fit, n = turn.line()
    assert n == 2 and 60 < slope < 160 and fit > 0.8


def test_the_level_that_foretells_a_robot_is_told():
    """Of two files with the same skills, one says what happens, the other the opposite;
    a file of another skill space is refused."""
    directions = released()[2]
    turned = replace(directions, effect_mean=-directions.effect_mean, level=2)
    known = predicted(directions, slice(65, STEPS - 65))["right_shoulder_pitch"]

    def rule(direction: str, a: float) -> dict[str, float]:
        k = directions.index(direction)
        return {"right_shoulder_pitch": a * float(known[k])}

    report = Draft("dose", Puppets(rule))
    compare(report, "walk", ("s01", "s02", "right_arm"), [turned])
    found = {(c.row, c.metric): c.value for c in report.results}
    row = "right shoulder pitch of directions on walk"
    metric = "predicted and executed, correlation"
    assert found[row, metric] == pytest.approx(1.0, abs=1e-4)
    assert found[f"{row}, level 2", metric] == pytest.approx(-1.0, abs=1e-4)
    with pytest.raises(ValueError, match="encoder another"):
        compare(report, "walk", ("s01",), [replace(turned, encoder="another")])


def test_predictions_are_linear_in_the_vector():
    """What the spectral directions are predicted to do tells what any vector does."""
    directions, steps = released()[2], slice(65, 335)
    own = predicted(directions, steps)
    found = predicted(directions, steps, directions.vectors)
    for measure, expected in own.items():
        np.testing.assert_allclose(found[measure], expected, atol=1e-4)

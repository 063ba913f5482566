"""What faders are said to do: chosen, predicted, measured, in words."""

import math
from dataclasses import replace

import numpy as np
import pytest

from spectral_skills.control.steering import full_amplitude
from spectral_skills.spectral.catalogue import (
    FELL,
    HELD_S,
    MIDDLE_S,
    TOPICS,
    UNTRIED,
    Catalogue,
    choose,
    in_words,
)
from spectral_skills.spectral.direction_file import Directions


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(Directions.load("base"))


def entry(direction: str, effects: dict, base: str = "walk", safe=(-2.0, 4.0)) -> dict:
    return {
        "direction": direction,
        "base": base,
        "names": ["this", "that"],
        "outcome": "both signs",
        "safe": list(safe),
        "effects": effects,
    }


def made_of(*entries) -> Catalogue:
    return Catalogue(replace(Directions.load("base"), measured=entries))


def test_there_is_a_fader_for_everything_people_want(catalogue):
    """One direction each, and the ends of its fader say what they do."""
    assert [label.title for label in catalogue.chosen] == [t.title for t in TOPICS]
    names = [label.direction for label in catalogue.chosen]
    assert len(set(names)) == len(names)
    for label, topic in zip(catalogue.chosen, TOPICS, strict=True):
        assert label.safe[0] < 0 < label.safe[1] < label.reach
        side = label.safe[1] if label.ends[1] == topic.more else label.safe[0]
        found = catalogue.measured(label.direction, side, "walk")
        assert not isinstance(found, str)
        assert all(sign * found[name] > 0 for name, sign in topic.parts.items())


def test_measured_effects_are_straight_between_what_was_tried():
    """Zero at zero; unknown beyond, and after a fall."""
    arm = {"right_shoulder_pitch": -0.6}
    found = made_of(
        entry("turn", {"+2": arm, "+4": {"heading": 54.0}, "-2": {}, "-4": None})
    )
    assert found.measured("turn", 1.0, "walk") == pytest.approx(
        {"right_shoulder_pitch": -0.3}
    )
    assert found.measured("turn", 3.0, "walk") == pytest.approx(
        {"right_shoulder_pitch": -0.3, "heading": 27.0}
    )
    assert found.measured("turn", 4.0, "walk") == {"heading": 54.0}
    assert found.measured("turn", -1.0, "walk") == {}
    assert found.measured("turn", -3.0, "walk") == FELL
    assert found.measured("turn", 4.1, "walk") == UNTRIED
    assert found.measured("speed", 1.0, "walk") == UNTRIED


def test_safe_is_what_all_bases_stand():
    found = made_of(
        entry("turn", {}, safe=(-2.0, 4.0)), entry("turn", {}, "jog", (-3.0, 1.0))
    )
    label = found.labels["turn"]
    assert label.safe == (-2.0, 1.0) and label.ends == ("that", "this")
    assert label.line == "turn: this / that" and label.reach == 2.5


def test_what_was_never_measured_has_faders_too():
    """The first of the file, named as they are there."""
    found = made_of()
    assert len(found.chosen) == len(TOPICS)
    assert found.chosen[0].title.startswith("s01") and found.chosen[0].reach == 3.0
    assert found.base("squat") == "walk"


def test_a_wish_has_its_knob():
    """Even beside a stronger direction, if it mainly does what is wished and the robot
    stands; directions by prediction alone are for comparison."""
    known = Directions.load("base")
    known = known.select(np.array([known.index(n) for n in ("s01", "s02", "speed")]))
    made = {"names": ("s01", "predicted_speed", "speed"), "families": ("spectral",) * 3}
    known = replace(known, **made)
    fast = {"+2": {"speed": 0.9}, "-2": {"speed": -0.9}}
    knob = {"+2": {"speed": 0.3, "left_apex": 0.05, "right_apex": 0.05}, "-2": None}
    tried = (entry("predicted_speed", fast), entry("s01", fast), entry("speed", knob))
    tried = replace(known, measured=tried)

    def name(directions: Directions, sign: int) -> str:
        found = choose(directions, "wish", {"speed": sign}, "walk")
        return found.direction if found else ""

    assert [name(tried, sign) for sign in (1, -1)] == ["s01", "s01"]
    tried = replace(tried, families=("spectral", "target", "robot"))
    assert [name(tried, sign) for sign in (1, -1)] == ["speed", "s01"]
    faders = [label.direction for label in Catalogue(tried).chosen]
    assert faders == ["s01", "speed"], "steps have the other one's effect on feet"
    slow = replace(tried, measured=tried.measured[::2])
    assert name(slow, -1) == ""


def test_predictions_are_proportional(catalogue):
    """And headings are over the time that measured ones are."""
    once, twice = (catalogue.predicted("turn", a) for a in (1.0, 2.0))
    assert twice == pytest.approx({name: 2 * v for name, v in once.items()})
    directions = Directions.load("base")
    known = dict(
        zip(
            directions.attributes,
            directions.effect_mean[directions.index("turn")].tolist(),
            strict=True,
        )
    )
    # Where a file knows no heading to come, the rate foretells it.
    rate = known["facing"] / MIDDLE_S if "facing" in known else known["yaw_rate"]
    assert once["heading"] == pytest.approx(math.degrees(rate) * HELD_S, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"right_shoulder_pitch": -0.75}, "right arm up 43°"),
        ({"heading": -10 * HELD_S, "speed": 0.2}, "turns right 10°/s, 0.20 m/s faster"),
        ({"left_shoulder_roll": 0.5, "right_shoulder_roll": -0.5}, "both arms out 29°"),
        ({"left_apex": 0.05, "right_apex": -0.05}, "left foot 5 cm higher"),
        ({"root_height": -0.06}, "6 cm lower"),
        ({"stride": 0.3}, "0.3 Hz quicker steps"),
        ({"right_shoulder_yaw": 0.4}, "right arm turned in 23°"),
        ({"speed": 0.01}, ""),
        ({"speed": math.nan}, ""),
    ],
)
def test_changes_in_words(changes, message):
    """The strongest first; what nobody notices is not told."""
    assert in_words(changes, most=2).startswith(message) and bool(message) == bool(
        in_words(changes)
    )


def test_headings_are_over_the_time_that_knobs_are_up():
    """In runs of 400 steps, as those of the catalogue are."""
    held = full_amplitude(400)
    assert HELD_S == (held.stop - held.start - 1) / 50


def test_what_a_fader_is_for_comes_first():
    changes = {"heading": 100.0, "right_shoulder_pitch": -0.1}
    assert in_words(changes, ("right_shoulder_pitch",)).startswith("right arm up")


def test_a_file_without_directions_has_no_faders():
    none = Directions.load("base").select(np.array([], int))
    assert Catalogue(none).chosen == []

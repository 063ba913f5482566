"""Knobs by words: a measured direction, its sign, and an amplitude that was stood."""

from dataclasses import replace
from functools import cache

import pytest
from spoken import encoder, needs_weights

from spectral_skills.planner.understand import choose_knob
from spectral_skills.spectral.direction_file import Directions

pytestmark = needs_weights


def entry(direction: str, effects: dict, safe=(-6.0, 6.0), base: str = "walk") -> dict:
    return {"direction": direction, "base": base, "safe": safe, "effects": effects}


MEASURED = (
    entry(
        "arm",
        {"+2": {"right_shoulder_pitch": -0.8}, "-2": {"right_shoulder_pitch": 0.4}},
        (-2.0, 2.5),
    ),
    # Raises the arm more, and turns the robot meanwhile.
    entry("messy", {"+2": {"right_shoulder_pitch": -0.9, "heading": 90.0}}),
    entry("left", {"+2": {"left_shoulder_pitch": -0.5}}),
    entry("turn", {"+2": {"heading": 50.0}, "-2": {"heading": -50.0}}),
    entry("steps", {"+2": {}, "+6": {"left_apex": 0.05, "right_apex": 0.06}}),
    # Falls where it would be strongest.
    entry("speed", {"+2": {}, "+4": {"speed": 0.2}, "+6": None}, (-2.0, 4.0)),
    entry("wide", {"+2": {"left_shoulder_roll": 0.4, "right_shoulder_roll": -0.4}}),
)


@cache
def directions() -> Directions:
    return replace(Directions.load("base"), measured=MEASURED)


@pytest.mark.parametrize(
    ("wish", "direction", "amplitude"),
    [
        ("raise the right arm", "arm", 2.0),
        ("lift your right hand", "arm", 2.0),
        ("lower your right arm", "arm", -2.0),
        ("raise the left arm", "left", 2.0),
        ("turn left", "turn", 2.0),
        ("veer to your right", "turn", -2.0),
        ("higher steps", "steps", 6.0),
        ("walk faster", "speed", 4.0),
        ("spread your arms", "wide", 2.0),
    ],
)
def test_wishes_find_their_direction(wish, direction, amplitude):
    """The usual amplitude where it is noticed, else the strongest that was stood."""
    chosen = choose_knob(wish, directions(), encoder())
    assert chosen is not None
    assert (chosen.direction, chosen.amplitude) == (direction, amplitude)
    assert direction in chosen.effect


@pytest.mark.parametrize(
    ("how", "amplitude"),
    [
        ("a little", 1.0),
        ("slightly", 1.0),
        ("", 2.0),
        ("a lot", 2.5),
        ("as much as possible", 2.5),
        ("all the way", 2.5),
    ],
)
def test_words_scale_the_amplitude_within_what_is_safe(how, amplitude):
    """Three would be a lot; 2.5 is the largest that was stood."""
    chosen = choose_knob(f"raise the right arm {how}", directions(), encoder())
    assert chosen is not None and chosen.amplitude == amplitude


@pytest.mark.parametrize(
    "wish",
    [
        *("buy some milk", "wave the right hand", "squat", "bow", "punch", "jump", ""),
        # Known wishes that nothing was measured to serve.
        *("slower", "lower your left arm", "lean forward", "crouch", "longer steps"),
    ],
)
def test_what_nothing_serves_is_no_knob(wish):
    """Neither other words, nor wishes without a direction."""
    assert choose_knob(wish, directions(), encoder()) is None


def test_what_was_seen_on_the_base_itself_has_a_say():
    """Where it fell at that amplitude, or did the opposite, it is not taken."""
    fell = entry("arm", {"+2": None, "-2": {}}, (-2.0, 1.0), base="jog")
    turned = entry("turn", {"+2": {"heading": -60.0}, "-2": {}}, base="jog")
    known = replace(directions(), measured=(*MEASURED, fell, turned))
    assert choose_knob("raise the right arm", known, encoder(), "jog") is None
    assert choose_knob("turn left", known, encoder(), "jog") is None
    for wish, base in (("turn right", "jog"), ("turn left", "walk")):
        chosen = choose_knob(wish, known, encoder(), base)
        assert chosen is not None and chosen.direction == "turn"


def test_what_was_safe_on_one_base_alone_is_not_safe():
    """The largest amplitude is that of both bases."""
    low = entry("arm", {"+2": {}}, (-2.0, 2.2), base="jog")
    known = replace(directions(), measured=(*MEASURED, low))
    chosen = choose_knob("raise the right arm all the way", known, encoder(), "jog")
    assert chosen is not None and chosen.amplitude == 2.2


def test_released_directions_are_within_what_was_measured():
    """Whatever is asked of the file that comes with the package."""
    released = Directions.load("base")
    by_name = {m["direction"]: m for m in released.measured if m["base"] == "walk"}
    found = 0
    for wish in ("raise the right arm a lot", "turn left", "turn right all the way"):
        if chosen := choose_knob(wish, released, encoder()):
            low, high = by_name[chosen.direction]["safe"]
            assert low <= chosen.amplitude <= high
            assert released.index(chosen.direction) >= 0
            found += 1
    assert found or not by_name

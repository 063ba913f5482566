"""Targets as they are typed."""

import re

import numpy as np
import pytest

from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.directions import TARGETS
from spectral_skills.spectral.response import NAMES
from spectral_skills.spectral.wishes import wished


@pytest.mark.parametrize("name", NAMES)
def test_every_attribute_can_be_asked_for(name):
    """Its own part of the body is free, and something is held."""
    (target,) = wished([f"{name}=0.5"])
    assert target.name == name and target.goals == {name: 0.5}
    assert target.free and len(target.free | {name}) < len(NAMES)
    side = name.split("_")[0]
    if side in ("left", "right"):
        assert not [n for n in target.free if not n.startswith(side)]


def test_the_right_parts_are_free():
    """An elbow frees its arm and hand; a speed frees legs and feet, but no arm."""
    elbow, speed = wished(["right_elbow=-0.5", "forward_speed=0.2"])
    assert {"right_shoulder_pitch", "right_wrist_yaw", "right_hand_z"} <= elbow.free
    assert {"left_knee", "right_knee", "left_foot_height"} <= speed.free
    assert not {n for n in speed.free if "shoulder" in n or "hand" in n}


def test_known_targets_take_a_size():
    """The signs are the target's own; several wishes make one direction."""
    clearance, spread, both = wished(
        ["foot_clearance=0.1", "spread=0.3", "turn=0.2,speed=-0.1"]
    )
    assert clearance.goals == {"left_foot_height": 0.1, "right_foot_height": 0.1}
    assert spread.goals == {"left_shoulder_roll": 0.3, "right_shoulder_roll": -0.3}
    assert both.name == "turn+speed"
    # A turn and a speed are asked for by where they lead.
    assert both.goals == {"facing": 0.2, "ahead": -0.1}
    assert (both.contexts, spread.contexts) == ("walking", "upright")
    (mixed,) = wished(["turn=0.2,spread=0.3"])
    assert mixed.contexts == "upright"
    assert spread.free == next(t.free for t in TARGETS if t.name == "spread")


@pytest.mark.parametrize(
    "words, reason",
    [
        (["right_elbw=1"], "no attribute or target 'right_elbw'"),
        (["right_elbow"], "write a name, = and how much"),
        (["right_elbow=up"], "right_elbow=up"),
        (["right_elbow=0"], "other than 0"),
        (["right_elbow=nan"], "other than 0"),
        (["turn=1,facing=1"], "asks twice for facing"),
        (["turn=1", "turn=2"], "two targets of the same name"),
    ],
)
def test_mistakes_are_named(words, reason):
    """With what to write instead."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        wished(words)


def test_an_unknown_name_is_answered_with_all():
    """Every attribute with its unit and what a change of it is."""
    with pytest.raises(ValueError) as error:
        wished(["arm=1"])
    for name in (*NAMES, *(target.name for target in TARGETS)):
        assert f"  {name} " in str(error.value)
    assert "right_elbow            rad   - is right elbow bend" in str(error.value)


def test_new_directions_are_added_to_those_there_are():
    """Those of the same name are replaced, and what was measured of them goes."""
    base = Directions.load("base")
    more = base.select(np.array([base.index("turn"), base.index("speed")]))
    found = base.extended(more)
    assert len(found) == len(base) and found.names[-2:] == ("turn", "speed")
    assert np.array_equal(found.vectors[-2:], more.vectors)
    gone = {m["direction"] for m in base.measured} - {"turn", "speed"}
    assert {m["direction"] for m in found.measured} == gone
    assert np.array_equal(found.hand_maps, base.hand_maps)
    from dataclasses import replace

    with pytest.raises(ValueError, match="belong to the encoder"):
        base.extended(replace(more, encoder="another"))

"""Orders are found inside of what people say around them."""

import pytest
from spoken import known, needs_weights

from spectral_skills.planner.asked import asked, shorter, tells, within
from spectral_skills.planner.understand import Interpreter


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        # Greetings, reasons, others and politeness are left out.
        ("good evening, my name is eve, shake hands", ["shake hands"]),
        ("the road is wet, so walk slowly", ["walk slowly"]),
        ("it is late and i would like you to turn around", ["turn around"]),
        ("grandpa is at the window: wave to him", ["wave to him"]),
        ("if you are not too busy, could you please bow", ["bow"]),
        ("i wonder if you could slowly walk back", ["slowly walk back"]),
        ("would you mind turning left", ["turn left"]),
        ("do you want to dance", ["dance"]),
        ("let's dance, everyone", ["dance"]),
        ("don't be afraid, jump", ["jump"]),
        ("how about a quick bow for the crowd", ["give a quick bow for the crowd"]),
        ("yay, our team has won, come on, wave", ["wave"]),
        ("to wave a little", ["wave a little"]),
        ("i'd be rubbing my hands if i were you", ["rub my hands if i were you"]),
        ("imagine a ball in front of you, kick it", ["kick it"]),
        ("can it salute", ["salute"]),
        # Descriptions are orders; what is said of one side only is of the act before.
        ("a person walks, turns left and waves", ["walk", "turn left and wave"]),
        ("the robot is walking, waving a hand", ["walk while waving a hand"]),
        ("step to the left, then right", ["step to the left", "step to the right"]),
        # What belongs to an order stays with it.
        ("walk forward, waving your hand", ["walk forward, waving your hand"]),
        ("wave, please, with the left hand", ["wave, with the left hand"]),
        ("raise an arm, i mean the left one", ["raise an arm, i mean the left one"]),
        ("raise an arm, not the left one", ["raise an arm, not the left one"]),
        # Several orders, of which one is not known.
        ("play us a tune, then bow", ["play us a tune", "bow"]),
        ("polish the spoons, then bow", ["polish the spoons", "bow"]),
        ("could you frobnicate the spoons, then bow", None),
        ("when the bell rings, jump", ["when the bell rings, jump"]),
        ("once you hear the bell, jump", ["once you hear the bell, jump"]),
        ("when you are ready, jump", ["jump"]),
    ],
)
def test_orders_are_found(text, orders):
    orders = orders or ["could you frobnicate the spoons", "bow"]
    assert asked(text) == orders


@pytest.mark.parametrize(
    "text",
    [
        "my sister is dancing in the hall",
        "he can jump, run and dance",
        "don't wave, jump or run",
        "i don't want you to wave",
        "how far can you jump",
        "careful you might slip and fall",
        "nobody wants you to dance",
    ],
)
def test_what_asks_for_nothing_is_not_cut(text):
    """So it is looked at as a whole, and refused."""
    assert asked(text) == [text]


def test_telling_is_no_order():
    assert tells("my sister is dancing") and tells("how far can you jump")
    assert tells("is your right arm tired") and tells("work is hard")
    assert not tells("walk like somebody who is sad") and not tells("wave")
    assert not tells("the robot is walking")


def test_reasons_and_listeners_are_left_out_of_orders():
    assert "wave" in shorter("wave to my little sister so she can see you")
    assert "walk" not in shorter("walk to the kitchen")
    assert "give a hug" in shorter("give him a big hug")
    assert shorter("walk as if you were late") == ["walk as if you were late"]


def test_a_side_is_never_lost_or_taken_from_a_reason():
    """Which limb moves depends on the order alone."""
    hurt = "hop on your left foot because your right foot hurts"
    assert shorter(hurt) == ["hop on your left foot"]
    tired = "wave because my left arm is tired"
    assert shorter(tired) == [tired]
    assert shorter("give me a left punch") == ["give me a left punch"]


@needs_weights
@pytest.mark.parametrize(
    ("text", "motions"),
    [
        ("Hello, what a day! Would you mind turning left?", ["turn left"]),
        ("The pavement is icy, so walk slowly.", ["slow walk"]),
        ("Your left arm looks dirty, so raise your right arm", ["raise right"]),
        ("We have guests tonight, bow to them and then turn right", None),
        ("don't run, walk forward", ["walk"]),
        ("keep walking, please", ["walk"]),
        ("don’t worry, dear, let’s squat", ["squat"]),
    ],
)
def test_orders_are_understood_in_talk(text, motions):
    found = Interpreter(known()).interpret(text)
    assert all(one.understood for one in found), found
    assert [one.motion for one in found] == (motions or ["bow", "turn right"])


@needs_weights
@pytest.mark.parametrize(
    "text",
    [
        "My uncle is walking forward",
        "Did you bow?",
        "How fast can you jog?",
        "They said we should never march",
        "The guard was raising his right arm",
        "I forbid you to wave",
        "No need to bow",
        "When you hear the bell, bow",
        "When I clap, wave your left hand",
        "if the bell rings, bow",
        "Welcome to our chapel, kneel down please",
        "You look tired, sit down on the sofa",
    ],
)
def test_talk_moves_nothing(text):
    found = Interpreter(known()).interpret(text)
    assert not any(one.understood for one in found), found


@needs_weights
def test_the_part_that_was_not_understood_is_named():
    first, second = Interpreter(known()).interpret("It's late: fry an egg, then bow")
    assert not first.understood and first.sentence == "fry an egg"
    assert second.motion == "bow"


@pytest.mark.parametrize(
    ("clause", "orders"),
    [
        ("bruv just dance", ["dance"]),
        ("dance and sing", []),
        ("nobody may dance", []),
    ],
)
def test_orders_within_a_clause_that_begins_with_none(clause, orders):
    assert [order for order, _ in within(clause)] == orders

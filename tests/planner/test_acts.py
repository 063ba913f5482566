"""What people say for known orders, amounts, short forms and what is left out."""

import pytest
from spoken import encoder, known, needs_weights

from spectral_skills.planner.acts import acts, amount, spelled, timed
from spectral_skills.planner.asked import without_tail
from spectral_skills.planner.lookup import KnownSentences, one_letter_off
from spectral_skills.planner.understand import Interpreter


def test_an_act_is_left_out_where_an_order_is_not_known():
    assert not dict(acts({"walk forward"})).keys() & dict(acts({"clap"})).keys()
    found = dict(acts({"turn in place to the left", "turn in place to the right"}))
    said = {s: one.orders for one in found.values() for s in one.sentences}
    assert said["make a quarter turn to the right"][0].startswith(
        "turn in place to the r"
    )
    assert len(said) == sum(len(one.sentences) for one in found.values())


@pytest.mark.parametrize(
    ("text", "order", "seconds"),
    [
        ("turn left 90 degrees", "turn left", 2.5),
        ("rotate by ninety degrees to the right", "turn to the right", 2.5),
        ("walk forward two metres", "walk forward", 2.7),
        ("take three steps backwards", "walk backwards", 2.1),
        ("raise your arm by 90 degrees", "raise your arm by 90 degrees", None),
        ("stand on two feet", "stand on two feet", None),
        ("walk at 2 metres per second", "walk at 2 metres per second", None),
    ],
)
def test_amounts_become_durations(text, order, seconds):
    left, lasts = amount(text)
    assert left == order and lasts == (seconds and pytest.approx(seconds, abs=0.4))


def test_times_and_short_forms_are_read():
    assert timed("clap for five counts") == ("clap", 5.0)
    assert spelled("can u go veeeery slowly") == "can you go very slowly"


def test_what_is_said_last_may_be_left_out_but_never_a_side():
    assert ("walk", "like a giraffe") in without_tail("walk like a giraffe")
    assert not list(without_tail("raise an arm, i mean the left one"))
    assert not list(without_tail("wave, not with the left hand"))
    assert "strecth" in one_letter_off("stretch")


@needs_weights
def test_acts_are_done_by_their_orders():
    pairs = [("quarter", "spin by a right angle"), ("quarter", "face the window")]
    some = [(m, s) for m, s in zip(known().motions, known().sentences, strict=True)]
    both = KnownSentences([*some, *pairs], encoder(), as_said=["quarter"])
    orders = {"quarter": ("turn to the left for 2.5 seconds", "bow")}
    found = Interpreter(both, acts=orders).interpret("face the window")
    assert [one.motion for one in found] == ["turn left", "bow"]
    assert found[0].seconds == 2.5
    (walks,) = Interpreter(both).interpret("wlak forward like a giant in a story book")
    assert walks.motion == "walk" and walks.understood


@needs_weights
def test_an_act_is_never_done_with_the_other_side():
    """Nor is a motion of which no sentence has the side that is asked for."""
    pairs = [("kneel", "go down on a knee"), ("kneel", "kneel down")]
    pairs += [("lift", "lift one knee"), ("lift", "lift the right knee")]
    some = [(m, s) for m, s in zip(known().motions, known().sentences, strict=True)]
    both = KnownSentences([*some, *pairs], encoder(), as_said=["kneel"])
    for side, orders in (("left", ("turn to the left",)), ("right", ("bow",))):
        hears = Interpreter(both, acts={"kneel": orders})
        (found,) = hears.interpret("go down on your right knee")
        assert found.understood == (side == "right")
        assert hears.interpret("go down on your left knee")[0].understood
        assert not hears.interpret("lift your left knee")[0].understood
        assert hears.interpret("lift your right knee")[0].motion == "lift"


@needs_weights
@pytest.mark.parametrize(
    "text", ["kneel down", "shake your head", "walk up the wall", "switch on the light"]
)
def test_what_cannot_be_done_is_refused(text):
    assert not Interpreter(known()).interpret(text)[0].understood


@needs_weights
def test_the_side_of_the_acting_limb_counts():
    """`your left arm, the right one hangs` is never done by the right one."""
    text = "raise your left arm and leave the right arm hanging"
    for one in Interpreter(known()).interpret(text):
        assert not one.understood or one.motion == "raise left"


@needs_weights
@pytest.mark.parametrize(
    "text",
    [
        "wave and hold your right arm still",
        "wave, but keep the left one down",
        "raise both arms except the left",
        "raise neither arm",
        "raise your left hand, sorry, your right hand",
        "raise your left or right arm",
        "walk -5 steps",
    ],
)
def test_what_must_not_move_does_not(text):
    """No limb is moved that the text keeps out of it, nor the first of two sides."""
    assert not any(one.understood for one in Interpreter(known()).interpret(text))


@needs_weights
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_limb_may_be_named_before_its_order(side):
    (found,) = Interpreter(known()).interpret(f"with your {side} hand, wave")
    assert found.understood and found.motion == f"wave {side}"


def test_only_the_limb_that_does_not_act_may_be_left_as_it_is():
    assert spelled("raise your left arm and leave the right one down").endswith("arm")
    for text in ("wave and keep your right arm down", "make a u-turn"):
        assert spelled(text) == text
    assert not list(without_tail("touch your left knee with your right hand"))


@needs_weights
@pytest.mark.parametrize("text", ["walk for 0 seconds", "walk 0 steps"])
def test_what_is_to_last_no_time_is_refused(text):
    (found,) = Interpreter(known()).interpret(text)
    assert found.why == "it is to last no time" and found.seconds is None


@needs_weights
def test_a_refusal_names_what_was_typed():
    """Not words that are spelled like it."""
    text = "frobnicate the stepz of zanzibar"
    assert known().spelled(text) != text
    (found,) = Interpreter(known()).interpret(text)
    assert not found.understood and found.sentence == text


@needs_weights
def test_the_language_model_reads_only_so_much(monkeypatch):
    """A text of a thousand characters takes it no longer than some orders do."""
    asked, true = [], KnownSentences.nearest

    def nearest(self, sentence, among=None):
        asked.append(sentence)
        return true(self, sentence, among)

    monkeypatch.setattr(KnownSentences, "nearest", nearest)
    for text in ("very, so " * 111, "- " * 500, "a like, " * 125):
        asked.clear()
        (found,) = Interpreter(known()).interpret(text)
        assert "longer than 200 characters" in found.why
        assert len(asked) == 1 and len(asked[0]) == 200
    asked.clear()
    Interpreter(known()).interpret("polish it " + "very, so " * 20)
    assert len(asked) < 20
    for text in (", then ".join(["walk"] * 17), "walk" + " while waving" * 16):
        with pytest.raises(ValueError, match="has 17 orders, and at most 16 are read"):
            Interpreter(known()).interpret(text)


def test_words_that_are_repeated_count_once():
    assert spelled("go go go, very very slowly fwd") == "go, very slowly forward"


def test_a_way_sideways_takes_longer_than_ahead():
    """Steps to a side are shorter."""
    ahead, aside, back = (
        amount(f"walk 2 m {way}")[1] or 0.0
        for way in ("ahead", "to the left", "backward")
    )
    assert ahead == pytest.approx(2.7)
    assert aside > back > ahead
    assert amount("take three or four steps")[1] == pytest.approx(2.8)


@needs_weights
def test_a_pose_is_held_and_a_walk_is_not():
    for text, last in (("bow and hold it", "bow"), ("walk and hold it", "stand")):
        found = Interpreter(known()).interpret(f"{text} for 5 seconds")
        assert found[-1].motion.startswith(last) and found[-1].seconds == 5


@needs_weights
def test_what_is_done_already_is_not_done_twice():
    found = Interpreter(known()).interpret("stand still! don't move")
    assert len(found) == 1 and found[0].understood


@needs_weights
def test_talk_that_is_no_order_is_left_out():
    """But not what begins with a verb, nor what cannot be done."""
    (walks,) = Interpreter(known()).interpret("walk forward. splendid weather")
    assert walks.understood and walks.motion == "walk"
    assert walks.left_out == "splendid weather"
    for rest in ("fetch the newspaper", "a backflip"):
        found = Interpreter(known()).interpret(f"walk forward, then {rest}")
        assert not all(one.understood for one in found)

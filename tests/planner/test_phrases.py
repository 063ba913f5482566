"""Other ways to say a motion: they mean the same, and held-out ones are new."""

import pytest
from spoken import MOTIONS

from spectral_skills.motion.synthetic.generate import compose
from spectral_skills.planner.lookup import traits
from spectral_skills.planner.phrases import (
    Orders,
    as_order,
    does,
    doing,
    held_out,
    inflected,
    is_held_out,
    parse,
    training,
)

CLIPS = [compose(0, number).text.splitlines() for number in range(0, 512, 9)]
GESTURES = ("wave", "waving", "rais", "spread", "reach", "punch", "carry")


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("walk forward", Orders(("walk forward",), ())),
        ("stand still with both arms raised", Orders((), ("raise both arms",))),
        (
            "the robot is standing in place, waving the right hand",
            Orders((), ("wave the right hand",)),
        ),
        (
            "carry a box with both hands while walking forward",
            Orders(("walk forward",), ("carry a box with both hands",)),
        ),
        (
            "the robot is turning to the left and then squatting down",
            Orders(("turn to the left", "squat down"), ()),
        ),
        (
            "walk ahead slowly with the left hand stretched forward a little",
            Orders(
                ("walk ahead slowly",), ("reach forward a little with the left hand",)
            ),
        ),
        ("a person walks ahead and bows", Orders(("walk ahead and bow",), ())),
        (
            "walk backward in a crouch, carrying a box, while stepping high",
            Orders(
                ("walk backward",),
                ("carry a box with both hands", "crouch", "step high"),
            ),
        ),
    ],
)
def test_sentences_are_taken_apart(sentence, said):
    """Whatever the frame, and whichever part comes first."""
    found = parse(sentence)
    assert found is not None
    assert (found.acts, sorted(found.gestures)) == (said.acts, sorted(said.gestures))


def test_every_sentence_of_generated_corpora_is_taken_apart():
    """Their grammar is known."""
    assert all(parse(s) for sentences in CLIPS for s in sentences)


def test_training_and_held_out_sentences_are_disjoint():
    """No training sentence has a new wording, every held-out one has."""
    trained = {s for own in CLIPS for s in training(own)}
    new = {s for own in CLIPS for s in held_out(own)}
    assert not trained & new
    assert not [s for s in trained if is_held_out(s)]
    assert not [s for s in new if not is_held_out(s)]


@pytest.mark.parametrize("sentences", [*CLIPS, *MOTIONS.values()])
def test_there_are_enough_and_all_begin_with_what_was_given(sentences):
    """And they are the same every time."""
    trained, new = training(sentences), held_out(sentences)
    assert 8 <= len(trained) <= 16 and 4 <= len(new) <= 8
    assert set(sentences) <= set(trained)
    assert (trained, new) == (training(sentences), held_out(sentences))


@pytest.mark.parametrize("sentences", [*CLIPS, *MOTIONS.values()])
def test_meaning_is_kept(sentences):
    """Sides, ways and paces stay; walking does not become jogging or marching."""
    given = " ".join(sentences)
    for sentence in (*training(sentences), *held_out(sentences)):
        for side in ("left", "right"):
            assert (side in sentence) <= (side in given), sentence
        assert traits(sentence)["pace"] <= traits(given)["pace"], sentence
        if "walk back" in given and "forward" not in given and "ahead" not in given:
            assert "ahead" not in sentence, sentence
        for verb in ("jog", "march", "run", "squat", "bow"):
            assert (verb in sentence) <= (verb in given), sentence
        assert "  " not in sentence and "and and" not in sentence, sentence
        assert any(w in sentence for w in GESTURES) <= any(
            w in given for w in (*GESTURES, "stretched")
        ), sentence


def test_fillers_are_dropped():
    """Who stands and waves is told to wave; who carries ahead, to carry it there."""
    assert {"wave the right hand", "wave with the right hand"} <= set(
        training(["wave the right hand while standing in place"])
    )
    carried = training(["carry a box with both hands while walking forward"])
    assert "carry a box forward" in carried


def test_robots_have_arms_of_their_own():
    """`your` is for those who are spoken to."""
    for sentence in training(MOTIONS["wave right"]) + held_out(MOTIONS["wave right"]):
        told_of = sentence.startswith(("the ", "a ", "i want the robot"))
        assert not (told_of and "your" in sentence), sentence


def test_other_corpora_are_reworded_where_rules_apply():
    """And framed where a sentence begins with a verb."""
    ways = training(["A person walks forward and picks up a box."])
    assert "walk ahead and pick up a box" in ways
    assert any("kick the ball" in s for s in held_out(["kick the ball"]))
    assert training(["A dog barks"]) == ("a dog barks",)
    assert held_out(["A dog barks"]) == ("show me how a dog barks",)


@pytest.mark.parametrize(
    ("verb", "ing", "s"),
    [
        ("walk", "walking", "walks"),
        ("jog", "jogging", "jogs"),
        ("raise", "raising", "raises"),
        ("carry", "carrying", "carries"),
        ("reach", "reaching", "reaches"),
        ("go", "going", "goes"),
        ("lie", "lying", "lies"),
        ("shrug", "shrugging", "shrugs"),
        ("squat", "squatting", "squats"),
        ("put", "putting", "puts"),
        ("row", "rowing", "rows"),
        ("lower", "lowering", "lowers"),
        ("signal", "signalling", "signals"),
        ("shoo", "shooing", "shoos"),
        ("tiptoe", "tiptoeing", "tiptoes"),
    ],
)
def test_verbs_are_inflected(verb, ing, s):
    """And found again."""
    assert (doing(verb), does(verb)) == (ing, s)
    assert as_order(f"{ing} now") == as_order(f"{s} now") == f"{verb} now"


def test_all_verbs_of_an_order_are_inflected():
    """Those after `and` and `then` too, and no other words."""
    message = "squat down and come back up, then wave the hand"
    assert inflected(message, doing) == (
        "squatting down and coming back up, then waving the hand"
    )
    assert inflected("just stand there", does) == "just stands there"
    assert inflected("walk there and back", doing) == "walking there and back"
    assert inflected("bow and back away", does) == "bows and backs away"

"""Texts become steps that a planner knows, or are refused."""

from dataclasses import replace
from functools import cache

import pytest
from spoken import MOTIONS, encoder, known, needs_weights
from test_knobs import MEASURED

from spectral_skills.planner import lookup
from spectral_skills.planner.lookup import KnownSentences, opposed, parts
from spectral_skills.planner.phrases import held_out
from spectral_skills.planner.understand import Instruction, Interpreter
from spectral_skills.spectral.direction_file import Directions

pytestmark = needs_weights
UNRELATED = """
buy some milk|the stock market fell|play chess with me|do a backflip|climb the stairs
what time is it|open the window|make me a coffee|swim across the lake|sing a song
jump over the fence|do a handstand|ride a bicycle|kick the ball|sit down on the chair
lie down on the floor|dance the tango|how are you|solve this equation|fly to the moon
my left shoe is dirty|turn off the tv|the right answer is four|raise the price
forward this email to bob|do a cartwheel|kneel down|hop on one leg|juggle three balls
""".strip().replace("\n", "|")
FOREIGN = (
    "marche en avant|gehe vorwärts|levanta el brazo derecho|иди вперёд|向前走"
    "|前に歩け|앞으로 걸어|\U0001f600|\U0001f44b\U0001f44b|asdf qwer zxcv|blorp fnarg"
    "|12345|???|...|lorem ipsum dolor sit amet|SELECT * FROM users"
)


@cache
def directions() -> Directions:
    return replace(Directions.load("base"), measured=MEASURED)


def interpret(text: str) -> list[Instruction]:
    return Interpreter(known(), directions()).interpret(text)


def steps(text: str) -> list[Instruction]:
    """Instructions, all of which must be understood."""
    found = interpret(text)
    assert all(one.understood for one in found), found
    return found


@pytest.mark.parametrize(
    ("text", "motions"),
    [
        ("walk forward", ["walk"]),
        ("Walk forward, then turn left!", ["walk", "turn left"]),
        ("walk ahead. then squat down; after that bow", ["walk", "squat", "bow"]),
        ("turn left, turn right and bow", ["turn left", "turn right", "bow"]),
        ("bow and then wave the left hand", ["bow", "wave left"]),
        ("turn to your left and wave with your left hand", ["turn left", "wave left"]),
        ("could you please turn to the right now?", ["turn right"]),
        ("robot, jog", ["jog"]),
        ("walk backwards", ["back"]),
        ("walk slowly", ["slow walk"]),
        ("walk fast", ["fast walk"]),
        # A motion of its own, in one order or the other.
        ("walk forward and wave your right hand", ["walk, wave right"]),
        ("wave the left hand while going forward", ["walk, wave left"]),
        ("walk forward, waving your right hand", ["walk, wave right"]),
        ("squat down and come back up", ["squat"]),
        ("stop", ["stand"]),
        ("walk forward, then stop and bow", ["walk", "stand", "bow"]),
        ("walk forward, then don't move", ["walk", "stand"]),
    ],
)
def test_texts_become_steps(text, motions):
    """In the order they are told, sides and ways as told."""
    assert [step.motion for step in steps(text)] == motions


@pytest.mark.parametrize("motion", ["wave left", "wave right"])
def test_sides_are_never_confused(motion):
    """Though the encoder hardly tells them apart."""
    side = motion.split()[1]
    for text in (f"wave your {side} hand", f"please wave with the {side} hand"):
        assert steps(text)[0].motion == motion


def test_an_arm_is_never_moved_for_a_leg():
    assert not interpret("lift your left knee up high")[0].understood
    assert "wave" not in interpret("wave with your left leg")[0].motion


def test_without_a_side_any_will_do():
    """`wave` is not refused for want of a side."""
    assert steps("wave")[0].motion in ("wave left", "wave right")
    assert steps("turn")[0].motion in ("turn left", "turn right")


def test_what_a_direction_does_becomes_a_knob():
    """On top of the motion that goes somewhere, scaled by how much is said."""
    (step,) = steps("walk forward and raise your right arm a little")
    (knob,) = step.knobs
    assert (step.motion, step.sentence) == ("walk", "walk forward")
    assert (knob.direction, knob.amplitude) == ("arm", 1.0)
    (turned,) = steps("raise the left arm while walking ahead")
    assert (turned.motion, turned.knobs[0].direction) == ("walk", "left")


def test_without_directions_a_knob_is_a_step():
    """What can be done one after the other is."""
    text = "walk forward and raise the right arm"
    found = Interpreter(known()).interpret(text)
    assert [step.motion for step in found] == ["walk", "raise right"]


@pytest.mark.parametrize("others", [2, 6, 56, 229])
def test_of_motions_with_the_same_sentence_the_first_is_meant(others):
    """Whatever the processor: equal sentences are equally near."""
    same = KnownSentences(
        [(str(i), "walk forward") for i in range(others + 1)], encoder()
    )
    for sentence in ("walk forward", "walk ahead", "go straight on", "walk"):
        assert same.nearest(sentence).motion == "0"


WHOLE = [
    ("stretch", "walk with a stretch"),
    ("stretch", "stretch your limbs on a walk"),
    ("walk", "walk"),
    ("walk", "go for a walk"),
    ("still", "stand still"),
    ("brake", "run and stop suddenly"),
    ("brake", "run fast and then stop dead"),
    ("brake", "brake suddenly on a run"),
    ("run", "run"),
    ("unsure", "shrug because you do not know"),
]


@pytest.mark.parametrize(
    ("text", "motions"),
    [
        # As they are known, whatever stands in them.
        ("run fast and then stop dead", ["brake"]),
        ("can you run and stop suddenly", ["brake"]),
        ("shrug because you do not know", ["unsure"]),
        ("the robot runs fast and then stops dead", ["brake"]),
        # A single sentence may have several parts, but not in place of one of them.
        ("stretch while walking", ["stretch"]),
        ("run and stop", ["run", "still"]),
    ],
)
def test_what_is_known_as_a_whole_is_not_cut(text, motions):
    found = Interpreter(KnownSentences(WHOLE, encoder())).interpret(text)
    assert all(one.understood for one in found), found
    assert [one.motion for one in found] == motions


def test_a_wish_alone_changes_what_was_done_before():
    """The same motion with a knob, where no motion is like the wish."""
    sentences = [("squat", "squat"), ("squat", "squat down"), ("walk", "walk")]
    few = Interpreter(KnownSentences(sentences, encoder()), directions())
    first, second = few.interpret("walk, then turn left")
    assert first.motion == second.motion == "walk"
    assert not first.knobs and [knob.direction for knob in second.knobs] == ["turn"]


@pytest.mark.parametrize(
    ("text", "sentence", "seconds"),
    [
        ("walk forward for 3 seconds", "walk forward", 3.0),
        ("for 2.5 s walk forward", "walk forward", 2.5),
        ("turn left for two seconds please", "turn left", 2.0),
        ("march in place for half a minute", "march in place", 30.0),
        ("walk forward", "walk forward", None),
    ],
)
def test_times_are_read(text, sentence, seconds):
    """And taken out of the sentence."""
    (step,) = steps(text)
    assert (step.sentence, step.seconds) == (sentence, seconds)


@pytest.mark.parametrize("text", f"{UNRELATED}|{FOREIGN}".split("|"))
def test_unrelated_texts_are_refused(text):
    """English, other languages and gibberish."""
    found = interpret(text)
    refused = [one for one in found if not one.understood]
    assert refused and refused[0].nearest in known().sentences
    assert refused[0].cosine < 0.85


def test_one_strange_part_is_enough():
    """The whole clause is refused."""
    (refused,) = interpret("walk forward and do a backflip")
    assert not refused.understood and "backflip" in refused.sentence


def test_to_stop_a_motion_is_not_to_make_it():
    for text in ("stop waving the left hand", "stop walking forward"):
        (found,) = interpret(text)
        assert found.motion == "stand" and found.understood


@pytest.mark.parametrize("text", ["don't wave", "never walk forward", "do not jog"])
def test_what_not_to_do_is_refused(text):
    """It must not be taken for its opposite."""
    assert "what not to do" in interpret(text)[0].why


@pytest.mark.parametrize(
    ("text", "message"), [("", "no text"), (" \n", "no text"), ("a" * 1001, "1001")]
)
def test_texts_without_words_or_too_long_are_refused(text, message):
    """In words that help."""
    with pytest.raises(ValueError, match=message):
        steps(text)


def test_most_held_out_sentences_are_understood():
    """Nine of ten, as one step of the right motion."""
    tried = [(name, s) for name, own in MOTIONS.items() for s in held_out(own)[::2]]
    right = 0
    for name, sentence in tried:
        (first, *others) = interpret(sentence)
        right += first.understood and first.motion == name and not others
    assert right >= 0.88 * len(tried)


@pytest.mark.parametrize(
    ("some", "other", "is_opposed"),
    [
        ("raise the left arm", "raise the right arm", True),
        ("raise the arm", "raise the right arm", False),
        ("raise both arms", "raise the right arm", False),
        ("walk forward", "walk backward", True),
        ("walk ahead", "walk sideways", True),
        ("raise the arm", "lower the arm", True),
        ("walk at a low speed", "walk fast", True),
        ("walk without any hurry", "walk slowly", False),
        ("squat and come back up", "squat down and stand up", False),
        ("get right down", "turn left", False),
        ("raise the left arm", "lift the left knee", True),
        ("stretch the arms and legs", "lift the left knee", False),
    ],
)
def test_opposites(some, other, is_opposed):
    """Found by their words, whatever the encoder thinks of them."""
    assert opposed(some, other) == opposed(other, some) == is_opposed


def test_clauses_are_split_where_a_verb_follows():
    """`nice and slow` is one thing."""
    assert parts("walk nice and slow") == ["walk nice and slow"]
    assert parts("walk while waving the hand") == ["walk", "wave the hand"]
    assert parts("walk with your right arm raised") == ["walk", "your right arm raised"]
    assert parts("wave with your right hand") == ["wave with your right hand"]


def test_of_many_sentences_a_verb_of_another_motion_needs_more(monkeypatch):
    """`make a coffee` is near to drinking it."""
    said = [("drink", "drink coffee"), ("make", "make dough"), ("watch", "watch tv")]
    some = KnownSentences(said, encoder())
    match = some.nearest("drink a coffee")._replace(cosine=0.7, nearness=0.5)
    assert match.motion == "drink"
    other, same = "make a coffee", "drink a coffee"
    assert some.is_near(other, match) and some.is_near(same, match)
    monkeypatch.setattr(lookup, "_MANY", 1)
    assert some.is_near(same, match) and not some.is_near(other, match)
    assert not some.is_near(same, match._replace(nearness=0.4))


def test_an_act_that_a_motion_has_not_is_not_taken_for_it():
    """`climb a tree` is near to planting one."""
    some = KnownSentences([("plant", "plant a tree"), ("hop", "climb up")], encoder())
    match = some.nearest("climb a tree")._replace(motion="plant", cosine=0.8)
    assert not some.is_near("climb a tree", match)
    assert some.is_near("plant two trees", match)


def test_what_is_refused_is_answered_with_what_can_be_done():
    (far,) = interpret("buy some milk")
    named = [f"'{s}'" in far.why for s in known().like("buy some milk")]
    assert not far.understood and named == [True] * 3
    assert not any(s.startswith(("the robot", "please")) for s in known().like("milk"))
    first = known().like("raise your left arm", 2)
    assert len({known().nearest(s).motion for s in first}) == 2


def test_waiting_for_something_may_be_a_motion():
    said = [("stand", "stand still"), ("bus", "wait for the bus")]
    some = Interpreter(KnownSentences(said, encoder()))
    assert some.interpret("wait for the bus")[0].motion == "bus"
    assert some.interpret("wait")[0].motion == "stand"

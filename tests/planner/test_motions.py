"""The motions that a planner learns: one for each thing to say, cut to their parts."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.motion.motion_sets import name_hash
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.synthetic.generate import compose
from spectral_skills.planner import motions, phrases
from spectral_skills.planner.data import Motion
from spectral_skills.planner.motions import Motions, candidates, described, learned
from spectral_skills.planner.sections import section
from spectral_skills.robot import g1

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
    words = dict(zip(found.names, (own[0] for own in found.sentences), strict=True))
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
        text = found.sentences[found.names.index(other)][0]
        swapped = {"left": "right", "right": "left"}
        assert own[0] == " ".join(swapped.get(word, word) for word in text.split())


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
    both = whole.with_mirror()
    parts = ((3, 2, 28, 1), (0, 0, 35, 4), (len(whole) + 5, 7, 38, 3))
    motions = [
        Motion(both.names[i], (f"do {i}",), (), frames, first, loop)
        for i, first, frames, loop in parts
    ]
    return learned(whole, motions)


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
    assert found.sentences[0][:2] == ("walk", "go ahead")


def test_a_planner_finds_its_motions_again(whole, cut):
    """As it has learned them; where that was not noted, by cutting them again."""
    assert learned(whole, cut.about()).about() == cut.about()
    own = section(whole.qpos(3))
    old = Motion(whole.names[3], ("walk",), frames=own.end - own.first)
    found = learned([whole], [old])
    assert (found.firsts, found.loops) == ((own.first,), (own.loop,))
    with pytest.raises(ValueError, match="which no corpus holds"):
        learned(whole, [replace(old, name="unknown")])


def test_held_out_clips_are_never_candidates(whole):
    share = 0.4
    found = {name for name in candidates(whole, share).names}
    names = {n.removesuffix("_mirror") for n in found}
    out = {name for name in whole.names if name_hash(name, 0) < share}
    assert out and names and not names & out


def test_of_the_candidates_the_best_that_is_followed_is_taken(generated):
    again = generated((("bow", "bow deeply"), *SAID, ("bow", "bow low"), *UNSAID))
    found = candidates(again)
    bows = [i for i, name in enumerate(found.names) if name.startswith("bow")]
    assert len({found.meanings[i] for i in bows}) == 1
    worths = [found.worths[i] for i in bows]
    assert len(bows) == 4 and worths == sorted(worths, reverse=True)
    follows = np.ones(len(found), bool)
    assert len(found.best(follows)) == 28
    follows[bows[0]] = False
    assert found.names[bows[1]] in found.best(follows).names
    follows[bows] = False
    assert len(found.best(follows)) == 27
    assert len(set(candidates(again, most=5).meanings)) == 5


def test_whole_clips_begin_at_their_beginning(whole):
    found, both = candidates(whole, whole=True), whole.with_mirror()
    for name, rows, first in zip(found.names, found.rows, found.firsts, strict=True):
        assert first == 0 and np.array_equal(rows, both.qpos(both.index(name))[:500])


def test_somebody_on_the_floor_is_no_candidate(make_clip, make_corpus, tmp_path):
    place = make_clip("lie", 60).root_position * (1.0, 1.0, 0.25)
    low = replace(make_clip("lie", 60, text="lie down"), root_position=place)
    high = make_clip("stand", 60, text="stand")
    found = candidates(make_corpus(tmp_path / "corpus", [low, high]))
    assert set(found.names) == {"stand"}


@pytest.fixture(scope="module")
def recorded(make_clip, make_corpus, tmp_path_factory):
    """A few recordings of CMU, and somebody else's clip with the same description."""
    texts = {
        "zombie walk": ("104_41",),
        "zombie": ("120_22",),
        "hop on left foot": ("132_23",),
        "soccer - kick ball": ("10_01",),
        "story": ("138_11",),
    }
    clips = [
        replace(make_clip(name, 60, number, text=text), source="mocap.cs.cmu.edu")
        for number, (text, names) in enumerate(texts.items())
        for name in names
    ]
    return make_corpus(tmp_path_factory.mktemp("recorded") / "corpus", clips)


def test_recordings_have_the_wordings_of_the_table(recorded):
    found = candidates(recorded)
    said = {
        name: (own, others)
        for name, own, others in zip(
            found.names, found.sentences, found.held_out, strict=True
        )
    }
    own, others = said["104_41"]
    assert own == said["120_22"][0], "both show the same motion"
    assert "stagger like a zombie" in own and not set(own) & set(others)
    assert "hop on your left foot" in said["132_23"][0]
    assert "hop on your right foot" in said["132_23_mirror"][0]
    kicks = {n: said[n][0][0].split()[5] for n in ("10_01", "10_01_mirror")}
    assert sorted(kicks.values()) == ["left", "right"]
    assert len(found) == 6, "nothing is said of a story"


def test_the_foot_that_rises_higher_kicks(make_clip):
    rows = make_clip("kick", 60).qpos()
    rows[30, 7 + g1.joint_index("right_knee")] = 2.0
    rows[30, 7 + g1.joint_index("right_hip_pitch")] = -1.2
    assert motions._raised(rows, "foot") == "right"


def test_others_describe_their_clips_themselves(make_clip, make_corpus, tmp_path):
    clip = make_clip("mine", 60, text="zombie walk")
    found = described(make_corpus(tmp_path / "corpus", [clip]))
    assert found.sentences[0][0] == "zombie walk"


def test_no_two_motions_of_the_table_share_a_sentence():
    """Or a description of CMU: they would be one motion."""
    seen: dict[str, int] = {}
    for number, one in enumerate(motions._NAMED):
        sides = ("left", "right") if "{side}" in one["say"][0] else ("",)
        for side in sides:
            for way in (*one["say"], *one["test"]):
                text = way.format(side=side).lower()
                assert seen.setdefault(text, number) == number, text
                assert text == phrases.plain(text), text
        for of in one["of"]:
            assert seen.setdefault(f"of {of}", number) == number, of
        assert len(one["say"]) >= 1 <= len(one["test"])
        assert all(way.split()[0] in phrases.PLAIN_VERBS for way in one["say"]), one


def test_learned_wordings_are_not_held_out_ones():
    for one in motions._NAMED:
        said = [way for way in one["say"] if phrases.is_held_out(way.lower())]
        assert not said, said


def test_no_motion_is_said_in_misspelt_words():
    """Nobody is `shruging`, `waveing`, `lieing` or `walkking`."""
    texts = {way for one in motions._NAMED for way in (*one["say"], *one["test"])}
    for number in range(0, 512, 9):
        own = compose(0, number).text.splitlines()
        texts |= {*phrases.training(own), *phrases.held_out(own)}
    short = re.compile("[^aeiou]*u?[aeiou][^aeiouwxy]")
    for text in texts:
        done = phrases.inflected(text, phrases.doing)
        for verb, form in zip(text.split(), done.split(), strict=True):
            stem = form.rstrip(",").removesuffix("ing")
            if verb == form:
                continue
            elif short.fullmatch(stem):
                assert f"{stem}e" == verb, form
            elif stem == verb + verb[-1]:
                assert short.search(verb), form
            assert form in ("being", "tiptoeing") or not stem.endswith("e"), form

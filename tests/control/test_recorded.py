"""Bases of recorded motions: skills without the motion, repeated or ending at rest."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open

from spectral_skills.control import recorded
from spectral_skills.control.looping import REST
from spectral_skills.control.recorded import Chosen
from spectral_skills.control.run import encode_clip
from spectral_skills.motion import motion_sets
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.robot import g1


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory) -> Corpus:
    """A clip that swings and turns, and ten that never return to a pose."""
    t = np.arange(200) / 50
    rows = np.tile(g1.DEFAULT_QPOS, (200, 1))
    rows[:, 0], rows[:, 3], rows[:, 6] = t, np.cos(t / 4), np.sin(t / 4)
    rows[:, 7] += 0.3 * np.sin(2 * np.pi * t / 0.8)
    about = {"name": "swing", "fps": 50.0, "source": "a studio", "licence": "CC BY"}
    clips = [Clip.from_qpos(rows, **about)]
    clips += [make_clip(f"walk{i}", 90, seed=i) for i in range(10)]
    return make_corpus(tmp_path_factory.mktemp("recorded") / "clips", clips)


def test_a_file_of_bases_has_skills_and_starts_but_no_motion(encoder, corpus, tmp_path):
    wanted = {"sway": Chosen("swing", "sway about", (10, 190))}
    made = recorded.make(encoder, corpus, wanted, held_out=0)
    path = tmp_path / "bases.safetensors"
    recorded.write(path, made, encoder.fingerprint())
    with safe_open(path, "pt") as file:
        shapes = {key: tuple(file.get_tensor(key).shape) for key in file.keys()}
    begin, end = made["sway"].loop
    assert shapes == {
        "sway.skills": (end, 5),
        "sway.rows": (2, 36),
        "sway.turn": (5,),
        "sway.headings": (end,),
    }
    found = recorded.read(path, encoder.fingerprint())["sway"]
    assert found.facts == made["sway"].facts and not found.has_motion
    assert found.origin == "a studio swing, frames 10 to 190 (CC BY)"
    np.testing.assert_allclose(found.skills, made["sway"].skills, rtol=2**-8)
    start = corpus.qpos(corpus.index("swing"))[10:12]
    assert np.array_equal(found.rows, start)
    assert found.headings is not None
    assert found.headings[100] == pytest.approx(1.0, abs=1e-3)  # half a radian a second
    with pytest.raises(ValueError, match="spectral skills bases"):
        recorded.read(path, "another")
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no file of bases"):
        recorded.read(path, encoder.fingerprint())


def test_a_base_that_is_played_once_ends_in_standing(encoder, corpus):
    wanted = {"act": Chosen("walk1", "act", (0, 80), once=True)}
    made = recorded.make(encoder, corpus, wanted, held_out=0)["act"]
    begin, end = made.loop
    assert (begin, end) == (len(made.skills) - REST, len(made.skills))
    rows = torch.from_numpy(bases.generate("stand", 100).rows)
    stand = encode_clip(encoder, rows)[40].numpy()
    np.testing.assert_allclose(made.skills[begin:] - stand, 0.0, atol=0.1)
    clip = torch.tensor(np.asarray(corpus.qpos(corpus.index("walk1"))[:80]))
    own = encode_clip(encoder, clip).numpy()
    np.testing.assert_allclose(made.skills[:50], own[:50], atol=1e-6)


def test_a_motion_is_repeated_or_played_from_a_slow_moment_to_another(encoder, corpus):
    """A robot that goes fastest after 3 s and is slow after 1 and 5 s, bending a knee
    further and further; and a swing, which returns to its poses."""
    t = np.arange(300) / 50
    rows = np.tile(g1.DEFAULT_QPOS, (300, 1))
    rows[:, 0] = np.cumsum(0.02 * (1 - np.cos(np.pi * (t - 1) / 2)))
    rows[:, 7 + g1.joint_index("left_knee")] += t
    entry = corpus.entry(0)
    once = recorded.of_motion(encoder, "go", entry, rows, slice(100, 200))
    assert once.origin == "a studio swing, frames 49 to 250 (CC BY)"
    np.testing.assert_allclose(once.rows[0], rows[49], atol=1e-6)
    assert once.loop[1] - once.loop[0] == REST
    swing = corpus.qpos(0)
    again = recorded.of_motion(encoder, "swing", entry, swing, slice(20, 190))
    assert again.origin == "a studio swing, frames 20 to 190 (CC BY)"
    assert 0 < again.loop[0] < again.loop[1] < 170


def test_a_base_of_any_length_repeats_its_loop(encoder, corpus):
    wanted = {"sway": Chosen("swing", "sway about", (0, 200))}
    made = recorded.make(encoder, corpus, wanted, held_out=0)["sway"]
    (begin, end), base = made.loop, recorded.as_base(made, 500)
    assert base.steps == 500 and base.skills is not None and len(base.skills) == 500
    assert np.array_equal(base.skills[end], made.skills[begin])
    assert np.array_equal(base.skills[:end], made.skills)
    assert np.array_equal(base.rows[:2], made.rows)


def test_a_straight_base_ends_with_the_heading_of_its_beginning(encoder, corpus):
    """It would turn a little further with every repetition otherwise."""
    for straight in (False, True):
        wanted = {"sway": Chosen("swing", "sway", (0, 200), straight=straight)}
        made = recorded.make(encoder, corpus, wanted, held_out=0)["sway"]
        (begin, end), own = made.loop, made.headings
        assert own is not None
        turned = float(own[end - 1] - own[begin - 1])
        assert turned == pytest.approx(0 if straight else (end - begin) / 100, abs=1e-3)
        assert own[begin - 1] == pytest.approx((begin - 1) / 100, abs=1e-3)


def test_what_cannot_be_a_base(encoder, corpus, tmp_path):
    held_out = corpus.names[motion_sets.split(corpus, 0.3)[1][0]]
    for one, message in (
        (Chosen("swing", "", (0, 300)), "frames 0 to 300 of swing, which has 200"),
        (Chosen("walk0", "", (0, 90)), "never returns to a pose"),
        (Chosen("wlak0", "", (0, 90)), "close to it: walk0"),
        (Chosen(held_out, "", (0, 90)), "is held out"),
    ):
        share = 0.3 if one.clip == held_out else 0.0
        with pytest.raises(ValueError, match=message):
            recorded.make(encoder, corpus, {"it": one}, share)
    with pytest.raises(ValueError, match="a generated base has this name"):
        wanted = {"walk": Chosen("swing", "", (0, 190))}
        recorded.make(encoder, corpus, wanted, held_out=0)
    path = tmp_path / "list.toml"
    path.write_text("[wave]\nclips = 3\n")
    with pytest.raises(ValueError, match=r"list.toml: wave"):
        recorded.chosen(path)


def test_the_packages_own_list_can_be_read():
    """Every base has a text of its own, and no name of a generated one."""
    wanted = recorded.chosen()
    assert len({one.text for one in wanted.values()}) == len(wanted) >= 12
    assert not set(wanted) & set(bases.NAMES)
    if recorded.RELEASED.is_file():
        with safe_open(recorded.RELEASED, "pt") as file:
            facts = json.loads(file.metadata()["bases"])
        assert [one["name"] for one in facts] == list(wanted)
        for one in facts:
            its = wanted[one["name"]]
            first, last = its.frames
            assert f"{its.clip}, frames {first} to {last}" in one["origin"]

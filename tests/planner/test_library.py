"""What a planner knows, as skills that are played if no robot falls."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spectral_skills import api
from spectral_skills.cli import skills
from spectral_skills.control import gestures, played
from spectral_skills.models import Models
from spectral_skills.motion.synthetic.generate import clip
from spectral_skills.planner import library
from spectral_skills.planner.data import Motion


@pytest.fixture(scope="module")
def models() -> Models:
    return Models.load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("played") / "corpus"


@pytest.fixture(scope="module")
def corpus(make_corpus, folder):
    return make_corpus(folder, [clip(number) for number in (383, 123)])


@pytest.fixture(scope="module")
def made(models, corpus):
    stand, raise_ = corpus.names
    known = (
        Motion(stand, ("stand there", "stay"), frames=150, first=0, loop=50),
        Motion(
            f"{raise_}_mirror", ("raise the left arm",), frames=120, first=5, loop=60
        ),
    )
    return list(islice(library.played(models.skill_encoder, [corpus], known), 2))


def test_a_motion_is_called_by_its_first_sentence_and_knows_its_clip(made, corpus):
    stand, arm = made
    assert (stand.name, arm.name) == ("stand there", "raise the left arm")
    assert corpus.names[0] in stand.clips and f"{corpus.names[1]}_mirror" in arm.clips
    assert "frames 5 to 125" in arm.origin
    mirror = corpus.with_mirror()
    rows = mirror.qpos(mirror.index(f"{corpus.names[1]}_mirror"))
    np.testing.assert_allclose(arm.rows[0], rows[5], atol=1e-6)
    for one in made:
        assert one.loop[1] == len(one.skills) and one.turn is not None


def test_gestures_follow_unless_a_motion_is_called_the_same(
    models, corpus, monkeypatch
):
    few = [one for one in gestures.gestures() if one.name in ("clap", "pray")]
    monkeypatch.setattr(gestures, "gestures", lambda: few)
    stand = Motion(corpus.names[0], ("clap the hands",), frames=150, first=0, loop=50)
    found = list(library.played(models.skill_encoder, [corpus], (stand,)))
    assert [one.name for one in found] == ["clap the hands", few[1].sentences[0]]
    assert not found[0].sentences and found[1].sentences == few[1].sentences
    assert "gesture_pray" in found[1].clips and "(Apache-2.0)" in found[1].origin


def test_a_motion_is_left_out_if_a_robot_falls(models, made):
    """Skills far from all others make it fall."""
    wild = replace(made[0], name="fall", skills=np.full_like(made[0].skills, 30.0))
    runner = api.runner(models, "cpu")
    kept = library.on_their_feet(runner, [*made, wild], robots=2)
    assert [one.name for one in kept] == [one.name for one in made]


def test_the_verb_writes_what_a_bundle_reads(
    models, corpus, folder, tmp_path, monkeypatch
):
    stand = Motion(corpus.names[0], ("stand there",), frames=150, first=0, loop=50)
    monkeypatch.setattr(skills.Models, "load", lambda *_, **__: _with(models, stand))
    clap = [one for one in gestures.gestures() if one.name == "clap"]
    monkeypatch.setattr(gestures, "gestures", lambda: clap)
    out = tmp_path / "motions.safetensors"
    skills.skills_motions(corpus=[folder], robots=0, out=out)
    found = played.read(out, models.skill_encoder.fingerprint())
    assert list(found) == ["stand there", "clap the hands"]
    assert not found["stand there"].sentences
    assert "clap" in found["clap the hands"].sentences
    monkeypatch.setattr(library, "on_their_feet", lambda *_: [])
    with pytest.raises(ValueError, match="robots fall on all 2 motions"):
        skills.skills_motions(corpus=[folder], robots=1, out=out)


def _with(models: Models, motion: Motion) -> Models:
    config = SimpleNamespace(about=SimpleNamespace(motions=(motion,)))
    planner: Any = SimpleNamespace(config=config)
    return replace(models, planner=planner)

"""The person beside the robot: kept with a clip, to the millimetre, come what may."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import contents

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.corpus_writer import CorpusWriter
from spectral_skills.motion.human.recording import POINTS, point
from spectral_skills.motion.human.rows import ROW, HumanRows
from spectral_skills.robot import g1

KEYS = ["a|1", "b|1", "c|1"]


def clip(number: int) -> Clip:
    rows = np.tile(g1.DEFAULT_QPOS, (20 + number, 1))
    rows[:, 0] = 0.01 * number
    return Clip.from_qpos(rows, name=f"clip{number}", fps=50.0)


def person(number: int, away: float = 0.0) -> HumanRows:
    """Somebody whose points are all over the place, `away` metres from the origin."""
    some, frames = np.random.default_rng(number), 20 + number
    points = some.normal(size=(frames, len(POINTS), 3)) + [away, 0, 0]
    return HumanRows(points, some.random((frames, 2)) < 0.5, "CMU")


def add(writer: CorpusWriter, key: str) -> None:
    number = KEYS.index(key)
    facts = {"quality": json.dumps({"number": number}), "person": f"hash {number}"}
    writer.add(key, key, [clip(number)], [], [person(number)], [facts])


def build(folder: Path) -> list[str]:
    """Build what is missing of the corpus; returns the inputs that were."""
    writer = CorpusWriter(folder, {}, KEYS, human=True)
    todo = [key for key in KEYS if key not in writer.done]
    for key in todo:
        add(writer, key)
    writer.finish()
    return todo


@pytest.mark.parametrize("away", [0.0, 900.0])
def test_precise_to_a_millimetre_wherever_the_person_is(away):
    before = person(3, away)
    packed = before.packed()
    after = HumanRows.unpacked(packed, "CMU")
    assert packed.dtype == ROW and ROW.itemsize < 130
    assert np.abs(after.points - before.points).max() < 1e-3
    assert after.points.dtype == np.float32
    assert np.array_equal(after.contacts, before.contacts)


def test_a_point_far_off_stays_at_the_edge():
    """Rather than appear on the other side."""
    points = np.zeros((2, len(POINTS), 3))
    points[:, point("left_hand"), 0] = 40.0
    rows = HumanRows(points, np.zeros((2, 2), bool), "").packed()
    seen = HumanRows.unpacked(rows, "").points
    assert seen[0, point("left_hand"), 0] == pytest.approx(16.38, abs=0.01)


def test_the_mirror_image_of_a_person():
    """Left is right and y is negated; twice is nothing."""
    one = person(0)
    image = one.mirrored()
    left, right = point("left_knee"), point("right_knee")
    assert np.allclose(image.points[:, left], one.points[:, right] * [1, -1, 1])
    assert np.allclose(image.points[:, 0], one.points[:, 0] * [1, -1, 1])
    assert np.array_equal(image.contacts[:, 0], one.contacts[:, 1])
    assert np.allclose(image.mirrored().points, one.points)


def test_a_corpus_keeps_persons_and_measures(tmp_path):
    build(tmp_path / "corpus")
    corpus = Corpus.open(tmp_path / "corpus")
    for view in (corpus, corpus.select([2, 1]), corpus.with_mirror()):
        for i, name in enumerate(view.names):
            number = int(name.removeprefix("clip").removesuffix("_mirror"))
            expected = person(number)
            expected = expected.mirrored() if view.mirrored[i] else expected
            seen = view.human(i)
            assert seen is not None and seen.skeleton == "CMU"
            assert np.abs(seen.points - expected.points).max() < 1e-3
            assert np.array_equal(seen.contacts, expected.contacts)
            assert json.loads(view.entry(i).quality) == {"number": number}


def test_another_person_makes_another_corpus(tmp_path):
    """Even if the robot moves as it did."""

    def made(stands: bool) -> Corpus:
        writer = CorpusWriter(tmp_path, {"stands": stands}, ["a"], human=True)
        human = replace(person(0), contacts=np.full((20, 2), stands))
        facts = {"quality": "", "person": ""}
        writer.add("a", "a", [clip(0)], [], [human], [facts])
        writer.finish()
        return Corpus.open(tmp_path)

    before, after = made(False).hash, made(True)
    human = after.human(0)
    assert human is not None and human.contacts.all()
    assert after.hash != before


def test_other_corpora_have_neither(tmp_path, make_corpus):
    corpus = make_corpus(tmp_path / "corpus", [clip(1)])
    assert corpus.human(0) is None and corpus.entry(0).quality == ""
    assert not list((tmp_path / "corpus").rglob("human.bin"))


@pytest.mark.parametrize("name", ["frames.f32", "human.bin"])
@pytest.mark.parametrize("change", [-1, -150, 1, 4000, None])
def test_killed_at_any_moment(tmp_path, name, change):
    """Rows that the journal does not know, or that are missing: the same bytes."""
    build(tmp_path / "undisturbed")
    folder = tmp_path / "corpus"
    writer = CorpusWriter(folder, {}, KEYS, human=True)
    for key in KEYS[:2]:
        add(writer, key)
    writer.close()
    file = folder / ".building" / name
    if change is None:
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size + change)
    todo = {None: KEYS, 1: KEYS[2:], 4000: KEYS[2:]}.get(change, KEYS[1:])
    assert build(folder) == todo
    assert contents(folder) == contents(tmp_path / "undisturbed")

"""A corpus gives back what was put in, by views, at once, whatever its size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spectral_skills.motion.clip import mirror_rows
from spectral_skills.motion.corpus import Corpus, Strings

TEXTS = ("walks to the left", "", "läuft\nrechts", "stands upright")


@pytest.fixture(scope="module")
def clips(make_clip):
    return [
        make_clip(f"walk_{i}", 40 + 7 * i, seed=i, text=text, licence="CC0")
        for i, text in enumerate(TEXTS)
    ]


@pytest.fixture
def corpus(make_corpus, clips, tmp_path):
    return make_corpus(tmp_path / "corpus", clips)


def test_round_trip(corpus, clips):
    """Rows bit for bit, and every word."""
    assert len(corpus) == 4
    assert corpus.names == [clip.name for clip in clips]
    assert corpus.lengths.tolist() == [clip.frames for clip in clips]
    assert corpus.frames == sum(clip.frames for clip in clips) == len(corpus.rows)
    assert corpus.hours == pytest.approx(corpus.frames / 50 / 3600)
    for index, clip in enumerate(clips):
        assert np.array_equal(corpus.qpos(index), clip.qpos())
        back = corpus.clip(index)
        assert (back.name, back.text, back.fps) == (clip.name, clip.text, 50.0)
        assert (back.source, back.licence, back.notes) == (
            *(clip.source, clip.licence, clip.notes),
        )
        np.testing.assert_allclose(back.joints, clip.joints, atol=1e-6)


def test_notes_survive(make_corpus, make_clip, tmp_path):
    """Several notes are several again; none are none."""
    notes = ("wrists padded", "knee reaches 90 rad/s, its motor 20")
    given = [make_clip("a", notes=notes), make_clip("b")]
    found = make_corpus(tmp_path / "corpus", given)
    assert found.clip(0).notes == notes and found.clip(1).notes == ()


def test_entry_and_index(corpus):
    """By name and by number; rows of the entry are rows of the clip."""
    for index, name in enumerate(corpus.names):
        entry = corpus.entry(index)
        assert corpus.index(name) == index and entry.name == name
        assert entry.file == f"{name}.csv"
        rows = corpus.rows[entry.start : entry.start + entry.length]
        assert np.array_equal(rows, corpus.qpos(index))
    assert corpus.entry(-1) == corpus.entry(3)
    with pytest.raises(IndexError):
        corpus.entry(4)


def test_unknown_name_suggests_close_ones(corpus):
    """A misspelling is answered with what there is."""
    with pytest.raises(ValueError, match="no clip named 'wolk_1' among 4.*walk_1"):
        corpus.index("wolk_1")


def test_select(corpus):
    """Any order, repetitions included, and selections of selections."""
    view = corpus.select([2, 0, 2])
    assert view.names == ["walk_2", "walk_0", "walk_2"]
    assert np.array_equal(view.qpos(1), corpus.qpos(0))
    assert view.select(np.array([1])).names == ["walk_0"]
    assert len(corpus.select([])) == 0
    assert view.hash == corpus.hash


def test_select_by_mask(corpus):
    """A mask selects where it is true; it is not read as numbers 0 and 1."""
    long = corpus.lengths > 50
    assert corpus.select(long).names == ["walk_2", "walk_3"]


def test_mirror_is_a_view(corpus):
    """Every clip twice, from the same rows in the same memory."""
    view = corpus.with_mirror()
    assert view.names == corpus.names + [f"{name}_mirror" for name in corpus.names]
    assert view.mirrored.tolist() == [False] * 4 + [True] * 4
    for index in range(4):
        assert np.array_equal(view.qpos(index), corpus.qpos(index))
        assert np.array_equal(view.qpos(4 + index), mirror_rows(corpus.qpos(index)))
    assert view.entry(4).text == "walks to the right"
    assert view.entry(7).text == "stands upright"
    assert view.index("walk_1_mirror") == 5
    assert np.shares_memory(view.rows, view.qpos(2))
    assert np.shares_memory(view.rows, corpus.rows)


def test_views_share_memory(corpus):
    """A selection maps nothing anew and copies nothing."""
    assert np.shares_memory(corpus.qpos(1), corpus.rows)
    assert np.shares_memory(corpus.select([1]).qpos(0), corpus.rows)


def test_names_of_a_mirrored_view_are_unique(make_corpus, make_clip, tmp_path):
    """Libraries ship `walk` and `walk_mirror`: the view's names must not clash."""
    given = [make_clip("walk", seed=0), make_clip("walk_mirror", seed=1)]
    names = make_corpus(tmp_path / "corpus", given).with_mirror().names
    assert len(set(names)) == 4


@pytest.mark.parametrize("limit", [1, 50, 87, 100, 150, 10**6])
def test_shards(corpus, limit):
    """They cover all clips in order, none over the limit unless alone."""
    shards = list(corpus.shards(limit))
    assert [name for shard in shards for name in shard.names] == corpus.names
    for shard in shards:
        assert shard.frames <= limit or len(shard) == 1
    for one, two in zip(shards, shards[1:], strict=False):
        assert one.frames + two.lengths[0] > limit


def test_shards_of_nothing(corpus):
    """No clip, no shard."""
    assert list(corpus.select([]).shards(10)) == []


def rows_of(motions, index: int) -> np.ndarray:
    start, length = int(motions.starts[index]), int(motions.lengths[index])
    rows = motions.rows[start : start + length].numpy()
    return mirror_rows(rows) if motions.mirrored[index] else rows


def test_device_holds_the_same_clips(corpus):
    """Whole, subset, mirrored subset and shards: the same rows, each stored once."""
    views = [corpus, corpus.select([3, 1]), corpus.with_mirror()]
    views += [corpus.select([2, 1, 2]).with_mirror(), *corpus.shards(100)]
    for view in views:
        motions = view.to("cpu")
        for index in range(len(view)):
            assert np.array_equal(rows_of(motions, index), view.qpos(index))
        stored = {name.removesuffix("_mirror") for name in view.names}
        frames = sum(int(corpus.lengths[corpus.index(name)]) for name in stored)
        assert len(motions.rows) == frames
        assert motions.has_mirrored == bool(view.mirrored.any())


def test_gather_counts_from_the_start_of_the_clip(corpus):
    """Rows (n, k) of chosen clips."""
    import torch

    motions = corpus.with_mirror().to("cpu")
    clips, frames = torch.tensor([1, 7]), torch.tensor([[0, 3], [5, 4]])
    found = motions.gather(clips, frames).numpy()
    assert np.array_equal(found[0], corpus.qpos(1)[[0, 3]])
    assert np.array_equal(found[1], mirror_rows(corpus.qpos(3)[[5, 4]]))


def test_names_are_unique(make_corpus, make_clip, tmp_path):
    """A name taken gets a number."""
    given = [make_clip(name) for name in ("walk", "walk", "walk~2", "walk", "run")]
    found = make_corpus(tmp_path / "corpus", given).names
    assert found[:2] == ["walk", "walk~2"] and found[4] == "run"
    assert len(set(found)) == 5


def test_hash(make_corpus, make_clip, tmp_path):
    """Same clips, same hash; another motion, text, name or order, another."""
    one, two = make_clip("a", text="x", seed=1), make_clip("b", seed=2)
    variants = {
        "plain": [one, two],
        "text": [make_clip("a", text="y", seed=1), two],
        "name": [make_clip("c", text="x", seed=1), two],
        "motion": [make_clip("a", text="x", seed=3), two],
        "order": [two, one],
        "fewer": [one],
    }
    hashes = {k: make_corpus(tmp_path / k, v).hash for k, v in variants.items()}
    assert len(set(hashes.values())) == len(variants)
    assert make_corpus(tmp_path / "again", [one, two]).hash == hashes["plain"]


def test_nothing_here(tmp_path):
    """An empty folder says how to make a corpus."""
    with pytest.raises(FileNotFoundError, match="spectral ingest"):
        Corpus.open(tmp_path)


def test_other_version_is_an_error(corpus, tmp_path):
    """Nothing is guessed about a format that is not this one."""
    path = tmp_path / "corpus" / "corpus.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(ValueError, match="corpus version 99"):
        Corpus.open(tmp_path / "corpus")


@pytest.mark.parametrize("values", [["a", "", "ünï", "b\nc"], [""], ["", ""], []])
def test_string_columns(tmp_path, values):
    """A column is the list it was written from."""
    Strings.write(tmp_path / "text", values)
    column = Strings(tmp_path / "text")
    assert [column[i] for i in range(len(values))] == values
    with pytest.raises(IndexError):
        column[len(values)]


def test_an_open_corpus_survives_being_replaced(
    corpus, make_corpus, make_clip, tmp_path
):
    """A training run keeps its corpus, views included, while a new one is made."""
    before = corpus.qpos(1).copy()
    make_corpus(tmp_path / "corpus", [make_clip("new", seed=9)])
    assert np.array_equal(corpus.qpos(1), before)
    assert corpus.entry(1).name == "walk_1"
    assert np.array_equal(corpus.select([1]).qpos(0), before)


CLIPS, FRAMES = 130_000, 47_000_000


@pytest.fixture(scope="module")
def huge(tmp_path_factory, make_clip) -> Path:
    """The paper's size: a true index over a sparse file with one true clip."""
    # Imported here: this file also runs as a script that must not import torch.
    from motion import write_large_index

    folder = tmp_path_factory.mktemp("huge")
    write_large_index(folder, CLIPS, FRAMES)
    generation = next(path for path in folder.iterdir() if path.is_dir())
    start, length = np.load(generation / "spans.npy")[77_777].tolist()
    with (generation / "frames.f32").open("r+b") as file:
        file.seek(start * 36 * 4)
        file.write(make_clip(frames=length).qpos().tobytes())
    return folder


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(folder: str) -> dict:
    """Time to open and memory to touch one clip of a corpus, in a fresh process."""
    import time

    before, seconds = resident_bytes(), []
    for _ in range(3):
        start = time.perf_counter()
        corpus = Corpus.open(folder)
        seconds.append(time.perf_counter() - start)
    clip = corpus.clip(77_777)
    return {
        "seconds": min(seconds),
        "growth": resident_bytes() - before,
        "clips": len(corpus),
        "name": clip.name,
        "frames": clip.frames,
        "torch": "torch" in sys.modules,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_opening_the_papers_corpus(huge):
    """130,000 clips and 47 million frames: 50 ms, and one clip is not 6.8 GB."""
    result = subprocess.run(
        [sys.executable, __file__, huge], capture_output=True, text=True, check=True
    )
    found = json.loads(result.stdout)
    assert (found["clips"], found["name"]) == (CLIPS, "name 077777")
    assert found["frames"] in (361, 362)
    assert found["seconds"] < 0.05
    assert found["growth"] < 50e6
    assert not found["torch"], "opening a corpus must not wait for torch"


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))

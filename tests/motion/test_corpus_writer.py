"""A corpus is built whole or not at all, whenever the builder dies."""

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from samples import contents

from spectral_skills.motion import corpus_writer as corpora
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.corpus_writer import CorpusWriter, Refusal
from spectral_skills.robot import g1

JOB = {"fps": None}
KEYS = [f"file{i}|{100 + i}" for i in range(6)]


class Killed(BaseException):
    """Stands for the end of the process."""


def small_clip(number: int, frames: int = 20) -> Clip:
    """A clip that is recognisable by its numbers."""
    rows = np.tile(g1.DEFAULT_QPOS, (frames, 1))
    rows[:, 0] = number
    rows[:, 1] = 0.01 * np.arange(frames)
    return Clip.from_qpos(rows, name=f"clip{number % 4}", fps=50.0, text=f"no {number}")


def add(writer: CorpusWriter, key: str) -> None:
    """Input i has i % 3 clips, and every third is refused in part."""
    number = KEYS.index(key)
    clips = [small_clip(10 * number + i, 20 + number) for i in range(number % 3)]
    refused = [] if number % 3 else [Refusal(key, "empty", "0 frames")]
    writer.add(key, key.split("|")[0], clips, refused)


def build(folder: Path, keys: list[str] = KEYS) -> list[str]:
    """Build the whole corpus; returns the inputs that had to be read."""
    writer = CorpusWriter(folder, JOB, keys)
    todo = [key for key in keys if key not in writer.done]
    for key in todo:
        add(writer, key)
    writer.finish()
    return todo


def interrupt(folder: Path, count: int, keys: list[str] = KEYS) -> None:
    """Add some inputs and vanish without a word."""
    writer = CorpusWriter(folder, JOB, keys)
    for key in keys[:count]:
        add(writer, key)
    del writer
    gc.collect()


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, bytes]:
    """The corpus of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "corpus"
    build(folder)
    return contents(folder)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "corpus"


def journal(folder: Path) -> Path:
    return folder / ".building" / "journal.jsonl"


def frames_file(folder: Path) -> Path:
    return folder / ".building" / "frames.f32"


def test_undisturbed(folder, expected):
    """Clips in order, refusals remembered, nothing left over but the lock."""
    build(folder)
    assert contents(folder) == expected
    corpus = Corpus.open(folder)
    assert [corpus.entry(i).text for i in range(6)] == [
        *("no 10", "no 20", "no 21", "no 40", "no 50", "no 51")
    ]
    assert corpus.qpos(3)[0, 0] == 40
    assert sorted(p.name for p in folder.iterdir() if p.name[0] == ".") == [".lock"]


@pytest.mark.parametrize("count", range(len(KEYS) + 1))
def test_killed_between_inputs(folder, expected, count):
    """The next run knows what is done and makes the same bytes."""
    interrupt(folder, count)
    writer = CorpusWriter(folder, JOB, KEYS)
    assert writer.done == set(KEYS[:count])
    kinds = [refusal.kind for refusal in writer.refused]
    assert kinds == ["empty"] * sum(i % 3 == 0 for i in range(count))
    assert len(writer.clips) == sum(i % 3 for i in range(count))
    writer.close()
    assert build(folder) == KEYS[count:]
    assert contents(folder) == expected


def test_killed_again_and_again(folder, expected):
    """One input per life."""
    for count in range(1, len(KEYS)):
        writer = CorpusWriter(folder, JOB, KEYS)
        assert len(writer.done) == count - 1
        add(writer, KEYS[count - 1])
        del writer
        gc.collect()
    assert build(folder) == KEYS[-1:]
    assert contents(folder) == expected


@pytest.mark.parametrize("cut", [1, 2, 30, 10**6])
def test_torn_journal_line(folder, expected, cut):
    """A line that was not finished counts for nothing; its frames are dropped."""
    interrupt(folder, 3)
    lines = journal(folder).read_bytes().splitlines(keepends=True)
    torn = lines[-1][: max(0, len(lines[-1]) - cut)]
    journal(folder).write_bytes(b"".join([*lines[:-1], torn]))
    assert build(folder) == KEYS[2:]
    assert contents(folder) == expected


def test_torn_first_line(folder, expected):
    """Nothing is known then, and nothing is kept."""
    interrupt(folder, 3)
    journal(folder).write_bytes(journal(folder).read_bytes()[:10])
    assert build(folder) == KEYS
    assert contents(folder) == expected


@pytest.mark.parametrize("size", [1, 143, 144, 5000])
def test_frames_beyond_the_journal(folder, expected, size):
    """A kill after frames were written but before the journal knew."""
    interrupt(folder, 3)
    with frames_file(folder).open("ab") as file:
        file.write(b"\xff" * size)
    assert build(folder) == KEYS[3:]
    assert contents(folder) == expected


@pytest.mark.parametrize("missing", [1, 144, 10**6])
def test_frames_missing(folder, expected, missing):
    """A journal that knows more than is on file is believed only so far."""
    interrupt(folder, 3)
    size = frames_file(folder).stat().st_size
    os.truncate(frames_file(folder), max(0, size - missing))
    todo = build(folder)
    assert KEYS[2] in todo and todo == KEYS[-len(todo) :]
    assert contents(folder) == expected


def test_frames_file_gone(folder, expected):
    """The journal alone is worth nothing; it is no reason to fail."""
    interrupt(folder, 3)
    frames_file(folder).unlink()
    build(folder)
    assert contents(folder) == expected


@pytest.mark.parametrize("changed", range(4))
def test_changed_input(folder, changed):
    """Work is kept up to the first input that is no longer the same."""
    interrupt(folder, 4)
    keys = [*KEYS[:changed], "other|1", *KEYS[changed + 1 :]]
    writer = CorpusWriter(folder, JOB, keys)
    assert writer.done == set(KEYS[:changed])
    rows = sum((i % 3) * (20 + i) for i in range(changed))
    writer.close()
    assert frames_file(folder).stat().st_size == rows * 144


def test_input_removed_at_the_end(folder):
    """Files that were read before the kill may be gone after it."""
    interrupt(folder, 4)
    writer = CorpusWriter(folder, JOB, KEYS[:3])
    assert writer.done == set(KEYS[:3])
    writer.finish()
    assert Corpus.open(folder).frames == sum((i % 3) * (20 + i) for i in range(3))


def test_other_job_starts_over(folder, expected):
    """Other options, other corpus."""
    interrupt(folder, 4)
    writer = CorpusWriter(folder, {"fps": 30}, KEYS)
    assert writer.done == set() and writer.clips == []
    writer.close()
    assert build(folder) == KEYS
    assert contents(folder) == expected


def test_old_corpus_stays_readable(folder):
    """Until the new one is whole, readers see the old one."""
    build(folder, KEYS[:2])
    old = contents(folder)
    opened = Corpus.open(folder)
    writer = CorpusWriter(folder, JOB, KEYS)
    for key in KEYS:
        add(writer, key)
        assert {k: v for k, v in contents(folder).items() if k in old} == old
        assert Corpus.open(folder).names == ["clip2"]
    before = opened.qpos(0).copy()
    writer.finish()
    assert len(Corpus.open(folder)) == 6
    assert np.array_equal(opened.qpos(0), before)


STAGES = {
    "spans": (np, "save", 1),
    "a column": (corpora.Strings, "write", 4),
    "sync": (corpora.os, "fsync", 1),
    "generation": (corpora.os, "replace", 1),
    "header": (corpora, "write_file", 1),
    "old generation": (corpora.shutil, "rmtree", 1),
}


def die_in_finish(folder: Path, monkeypatch, stage: str) -> None:
    """Kill the writer at one stage of `finish`."""
    writer = CorpusWriter(folder, JOB, KEYS)
    for key in KEYS:
        if key not in writer.done:
            add(writer, key)
    owner, name, number = STAGES[stage]
    original, calls = getattr(owner, name), []

    def killed(*arguments, **options):
        calls.append(arguments)
        if len(calls) == number:
            raise Killed
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        with pytest.raises(Killed):
            writer.finish()
    writer.close()


@pytest.mark.parametrize("stage", STAGES)
def test_killed_while_finishing(folder, expected, monkeypatch, stage):
    """At every stage the folder has a whole corpus, old or new."""
    build(folder, KEYS[:2])
    die_in_finish(folder, monkeypatch, stage)
    corpus = Corpus.open(folder)
    assert len(corpus) == (6 if stage == "old generation" else 1)
    assert [corpus.clip(i).frames for i in range(len(corpus))]
    build(folder)
    assert contents(folder) == expected


def test_half_removed_generation_is_not_trusted(folder, monkeypatch):
    """Killed while the old generation was removed, then the old inputs again."""
    build(folder, KEYS[:2])
    old = contents(folder)
    die_in_finish(folder, monkeypatch, "old generation")
    generations = [p for p in folder.iterdir() if p.is_dir()]
    current = json.loads((folder / "corpus.json").read_text())["generation"]
    half = next(p for p in generations if p.name != current)
    (half / "frames.f32").unlink()  # as far as the removal came
    build(folder, KEYS[:2])
    assert Corpus.open(folder).clip(0).text == "no 10"
    assert contents(folder) == old


def test_building_the_same_again_changes_nothing(folder, expected):
    """The same clips are the same generation."""
    build(folder)
    build(folder)
    assert contents(folder) == expected


def test_a_copied_generation_stays_readable_by_name(folder):
    """Only generations are cleaned up, nothing else that lies in the folder."""
    build(folder, KEYS[:2])
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("keep")
    build(folder)
    assert (folder / "notes" / "mine.txt").read_text() == "keep"


def test_nothing_to_finish(folder):
    """No clip, no corpus, and what was there stays."""
    build(folder)
    before = contents(folder)
    writer = CorpusWriter(folder, JOB, ["a"])
    writer.add("a", "a", [], [Refusal("a", "empty", "0 frames")])
    with pytest.raises(ValueError, match="no clip"):
        writer.finish()
    writer.close()
    shutil.rmtree(folder / ".building")
    assert contents(folder) == before


def test_discarding(folder, expected):
    """What was added is forgotten; the corpus stays as it was, and can be rebuilt."""
    build(folder)
    writer = CorpusWriter(folder, JOB, KEYS[:3])
    add(writer, KEYS[1])
    writer.discard()
    assert contents(folder) == expected
    assert build(folder, KEYS[:3]) == KEYS[:3]


def test_discarding_happens_under_the_lock(folder, monkeypatch):
    """Once the lock is free another writer may be building: hands off its work."""
    writer = CorpusWriter(folder, JOB, KEYS)
    remove, lock_was_held = shutil.rmtree, []

    def watched(path, *arguments, **options):
        try:
            CorpusWriter(folder, JOB, KEYS).close()
            lock_was_held.append(False)
        except ValueError:
            lock_was_held.append(True)
        remove(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(corpora.shutil, "rmtree", watched)
        writer.discard()
    assert lock_was_held == [True]


def test_wrong_rate_is_refused(folder):
    """A corpus has one rate; the clip is named."""
    writer = CorpusWriter(folder, JOB, ["a"])
    clip = Clip.from_qpos(small_clip(1).qpos(), name="slow", fps=30.0)
    with pytest.raises(ValueError, match="slow: 30.0 Hz"):
        writer.add("a", "a", [clip], [])
    writer.close()


def test_refused_input_leaves_no_frames_behind(folder):
    """An input that fails halfway must not shift the rows of all that follow."""
    writer = CorpusWriter(folder, JOB, ["a", "b"])
    bad = Clip.from_qpos(small_clip(2).qpos(), name="slow", fps=30.0)
    with pytest.raises(ValueError, match="slow"):
        writer.add("a", "a", [small_clip(1), bad], [])
    writer.add("b", "b", [small_clip(3)], [])
    writer.finish()
    corpus = Corpus.open(folder)
    assert corpus.entry(0).text == "no 3"
    assert corpus.qpos(0)[0, 0] == 3
    assert corpus.entry(0).name == "clip3"


def test_file_names_that_are_not_unicode(folder):
    """Linux allows any bytes in a name; Python shows them as lone surrogates."""
    name = os.fsdecode(b"gr\xfc\xdfen")
    writer = CorpusWriter(folder, JOB, ["a"])
    clip = Clip.from_qpos(small_clip(1).qpos(), name=name, fps=50.0)
    writer.add("a", f"{name}.csv", [clip], [])
    writer.finish()
    assert Corpus.open(folder).names[0].startswith("gr")


def test_second_writer_is_refused(folder):
    """Within a process and from another; a closed one lets the next in."""
    first = CorpusWriter(folder, JOB, KEYS)
    with pytest.raises(ValueError, match="another process is writing here"):
        CorpusWriter(folder, JOB, KEYS)
    other = subprocess.run(
        [sys.executable, __file__, folder, "0"], capture_output=True, text=True
    )
    assert other.returncode != 0
    assert f"{folder}: another process is writing here" in other.stderr
    add(first, KEYS[0])
    first.close()
    second = CorpusWriter(folder, JOB, KEYS)
    assert second.done == {KEYS[0]}
    second.close()


MANY = [f"input {i}" for i in range(600)]


def slow_build(folder: Path, pause_s: float) -> None:
    """Adds many inputs and says how many are done; the victim of the next test."""
    writer = CorpusWriter(folder, JOB, MANY)
    print(len(writer.done), flush=True)
    for number, key in enumerate(MANY):
        if key not in writer.done:
            writer.add(key, key, [small_clip(number, 100)], [])
            print(len(writer.done), flush=True)
            time.sleep(pause_s)
    writer.finish()


def test_real_kills(folder, tmp_path):
    """SIGKILL at random moments; what was said to be done is done."""
    moment = random.Random(0)
    said = 0
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, __file__, folder, "0.001"], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert int(child.stdout.readline()) >= said
        for _ in range(moment.randint(1, 60)):
            said = int(child.stdout.readline())
        time.sleep(moment.uniform(0, 0.005))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert not (folder / "corpus.json").exists()
    writer = CorpusWriter(folder, JOB, MANY)
    assert writer.done >= set(MANY[:said])
    writer.close()
    slow_build(folder, 0)
    slow_build(tmp_path / "undisturbed", 0)
    assert contents(folder) == contents(tmp_path / "undisturbed")


if __name__ == "__main__":
    slow_build(Path(sys.argv[1]), float(sys.argv[2]))

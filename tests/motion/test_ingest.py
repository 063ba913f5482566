"""Mixed folders in, one corpus out, whatever happens on the way."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from samples import contents

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.ingest import Summary, ingest


def save(folder: Path, name: str, rows: np.ndarray, **facts) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", qpos=rows, fps=facts.pop("fps", 50.0), **facts)


@pytest.fixture(scope="module")
def rows(make_clip) -> np.ndarray:
    return make_clip("squat", frames=300).qpos()


@pytest.fixture
def library(tmp_path, rows) -> Path:
    """Four good files, among them one at 30 Hz, and three bad ones."""
    folder = tmp_path / "library"
    save(folder / "a", "squat", rows, text="squat", licence="CC0")
    save(folder / "b", "squat", rows[:200], text=["go down", "come up"])
    save(folder / "b", "slowWalk2_subject1", rows, fps=30.0)
    save(folder, "described", rows)
    (folder / "described.txt").write_text("go down\nand come up\n")
    jump = rows.copy()
    jump[77:, 0] += 5
    save(folder, "teleport", jump)
    nan = rows.copy()
    nan[12, 20] = np.nan
    save(folder, "hole", nan)
    (folder / "empty.csv").write_bytes(b"")
    return folder


def kinds(summary: Summary) -> Counter[str]:
    return Counter(refusal.kind for refusal in summary.refusals)


def test_the_rest_loads(library, tmp_path, capsys):
    """Good files are taken, bad ones named with frame and reason, one line each."""
    summary = ingest([library], tmp_path / "corpus", workers=1)
    assert summary.clips == 4
    assert kinds(summary) == {"jump": 1, "not finite": 1, "empty": 1}
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 3
    assert any("teleport.npz: frame 77: pelvis moves" in line for line in lines)
    assert any("hole.npz: frame 12:" in line for line in lines)
    text = "\n".join(summary.lines())
    assert "4 clips" in text and "1 jump" in text


def test_texts_rates_and_licences(library, tmp_path):
    """Text from sidecar, file or name; everything at 50 Hz; licence kept."""
    ingest([library], tmp_path / "corpus", workers=1)
    corpus = Corpus.open(tmp_path / "corpus")
    names = ["described", "slowWalk2_subject1", "squat", "squat~2"]
    assert sorted(corpus.names) == names
    by_name = {name: corpus.entry(i) for i, name in enumerate(corpus.names)}
    assert by_name["squat"].text == "squat" and by_name["squat"].licence == "CC0"
    assert by_name["squat~2"].text == "go down\ncome up"
    assert by_name["described"].text == "go down\nand come up"
    assert by_name["slowWalk2_subject1"].text == "slow walk"
    assert by_name["slowWalk2_subject1"].length == 499  # 299 steps of 1/30 s


def test_workers_give_the_same_bytes(library, tmp_path):
    """The number of processes changes nothing."""
    ingest([library], tmp_path / "one", workers=1)
    ingest([library], tmp_path / "two", workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_strict_stops_and_keeps_the_old_corpus(library, tmp_path, rows):
    """The first refusal raises; what was there before is untouched."""
    save(tmp_path / "old", "only", rows)
    ingest([tmp_path / "old"], tmp_path / "corpus", workers=1)
    with pytest.raises(ClipError, match="empty"):
        ingest([library], tmp_path / "corpus", strict=True, workers=1)
    assert Corpus.open(tmp_path / "corpus").names == ["only"]


def test_nothing_usable_keeps_the_old_corpus(tmp_path, rows):
    """A run without a single good file does not replace a corpus."""
    save(tmp_path / "old", "only", rows)
    ingest([tmp_path / "old"], tmp_path / "corpus", workers=1)
    (tmp_path / "bad.npz").write_text("not a motion")
    summary = ingest([tmp_path / "bad.npz"], tmp_path / "corpus", workers=1)
    assert summary.clips == 0
    assert Corpus.open(tmp_path / "corpus").names == ["only"]


def test_killed_at_any_moment(tmp_path, rows):
    """SIGKILL leaves the old corpus whole; the next run finishes the job."""
    save(tmp_path / "old", "only", rows)
    out = tmp_path / "corpus"
    ingest([tmp_path / "old"], out, workers=1)
    for i in range(150):
        save(tmp_path / "new", f"clip{i:03d}", rows[: 100 + i])
    code = (
        "import sys; from pathlib import Path; "
        "from spectral_skills.motion.ingest import ingest; print('go', flush=True); "
        "ingest([Path(sys.argv[1])], Path(sys.argv[2]), workers=1)"
    )
    for delay in (0.02, 0.1, 0.2):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "new"), str(out)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert len(Corpus.open(out)) in (1, 150)
    ingest([tmp_path / "new"], out, workers=1)
    ingest([tmp_path / "new"], tmp_path / "fresh", workers=1)
    assert contents(out) == contents(tmp_path / "fresh")


def test_a_resumed_run_skips_what_is_done(library, tmp_path, monkeypatch):
    """After an interruption only the remaining files are read."""
    from spectral_skills.motion import ingest as module

    seen = []
    read = module.read

    def until_third(path, options):
        seen.append(path.name)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return read(path, options)

    monkeypatch.setattr(module, "read", until_third)
    with pytest.raises(KeyboardInterrupt):
        ingest([library], tmp_path / "corpus", workers=1)
    ingest([library], tmp_path / "corpus", workers=1)
    assert len(seen) == 3 + 5  # seven files, two of them done before


def test_a_killed_worker_is_explained(library, tmp_path, monkeypatch):
    """The message says how to go on; an older corpus would be untouched."""
    from spectral_skills.motion import ingest as module

    monkeypatch.setattr(module, "read_at_corpus_rate", die)
    with pytest.raises(ValueError, match="a worker process was killed"):
        ingest([library], tmp_path / "corpus", workers=2)


def die(*_, **__):
    """Runs in a worker: what the kernel does to one that eats all memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_cannot_be_looked_at_does_not_stop_the_rest(library, tmp_path, capsys):
    """Dangling and looping links, a broken table: named, and the rest loads."""
    (library / "gone.csv").symlink_to(tmp_path / "nowhere")
    (library / "loop.csv").symlink_to(library / "loop.csv")
    (library / "metadata.csv").write_text("")
    summary = ingest([library], tmp_path / "corpus", workers=1)
    assert summary.clips == 4
    assert kinds(summary)["unreadable"] == 2
    lines = capsys.readouterr().err.splitlines()
    assert sum("metadata.csv: not used" in line for line in lines) == 1


def test_webs_of_links_are_walked_once(tmp_path, rows):
    """Eight folders that all link to each other hold one file each."""
    web = tmp_path / "web"
    for i in range(8):
        save(web / f"d{i}", f"clip{i}", rows[:60])
    for i in range(8):
        for j in range(8):
            (web / f"d{i}" / f"to{j}").symlink_to(web / f"d{j}")
    assert ingest([web], tmp_path / "corpus", workers=1).clips == 8


def test_a_damaged_corpus_is_repaired(library, tmp_path):
    """The same ingest again makes it whole; until then the error names the folder."""
    out = tmp_path / "corpus"
    ingest([library], out, workers=1)
    whole = contents(out)
    frames = next(out.glob("*/frames.f32"))
    frames.write_bytes(b"")
    with pytest.raises(ValueError, match="corpus: damaged, ingest again"):
        Corpus.open(out)
    ingest([library], out, workers=1)
    assert contents(out) == whole
    shutil.rmtree(frames.parent)
    with pytest.raises(FileNotFoundError, match="corpus: damaged, ingest again"):
        Corpus.open(out)
    ingest([library], out, workers=1)
    assert contents(out) == whole
    (out / "corpus.json").write_text("{")
    with pytest.raises(ValueError, match="corpus.json: damaged"):
        Corpus.open(out)
    ingest([library], out, workers=1)
    assert contents(out) == whole


def test_a_resumed_run_sees_new_words(library, tmp_path, monkeypatch):
    """Text edited between the kill and the next run is read again."""
    from spectral_skills.motion.corpus_writer import CorpusWriter

    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CorpusWriter, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            ingest([library], tmp_path / "corpus", workers=1)
    (library / "described.txt").write_text("other words, longer than before\n")
    ingest([library], tmp_path / "corpus", workers=1)
    corpus = Corpus.open(tmp_path / "corpus")
    text = corpus.entry(corpus.index("described")).text
    assert text == "other words, longer than before"


def test_published_motions(motions_folder, tmp_path):
    """LAFAN1 gives 441,120 frames at 50 Hz; every other library loads whole."""
    summary = ingest([motions_folder / "lafan1"], tmp_path / "lafan1")
    assert summary.clips == 40
    assert abs(summary.frames - 441_120) <= 100
    assert not summary.refusals
    others = [p for p in motions_folder.iterdir() if p.is_dir() and p.name != "lafan1"]
    summary = ingest(sorted(others), tmp_path / "others", pad_wrists=True)
    assert not summary.refusals
    padded = [
        entry
        for entry in map(Corpus.open(tmp_path / "others").entry, range(summary.clips))
        if "wrists" in entry.notes
    ]
    assert len(padded) == 2

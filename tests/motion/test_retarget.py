"""Folders of human motion in, one corpus out, whatever happens on the way."""

import errno
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import persons
import pytest
from samples import contents

import spectral_skills as ss
from spectral_skills.cli.main import main
from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.corpus import FPS, PAGE, Corpus
from spectral_skills.motion.human import retarget as module
from spectral_skills.motion.human.fit import Fit
from spectral_skills.motion.human.quality import _RULES, Quality
from spectral_skills.motion.human.recording import Recording
from spectral_skills.motion.human.retarget import about_frames, measured, retarget
from spectral_skills.robot import g1


def stand_in(person: Recording, balance: bool = False) -> Fit:
    """A robot that only goes where the person does: the fit takes a second."""
    frames = max(4, int(person.duration_s * FPS))
    rows = np.tile(g1.DEFAULT_QPOS, (frames, 1))
    rows[:, 0] = np.linspace(0, 0.1, frames)
    points = np.repeat(person.points[:1], frames, axis=0)
    return Fit(rows, points, np.ones((frames, 2), bool), 0.75)


def middling(_: Fit | None) -> Quality:
    """Stands in for a measurement, too."""
    numbers: Any = dict.fromkeys(Quality.__annotations__, 0.25)
    return Quality(**numbers | {"frames": 100, "self_pair": "", "worst": {}})


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "fit", stand_in)
    monkeypatch.setattr(module, "measure", middling)
    monkeypatch.setattr(module, "judge", lambda _: None)


@pytest.fixture
def library(tmp_path) -> Path:
    """Three good files, of which one is a copy, and three bad ones."""
    folder = tmp_path / "library"
    (folder / "deep").mkdir(parents=True)
    np.save(folder / "squat.npy", persons.squats())
    np.save(folder / "deep" / "again.npy", persons.squats(3.0, depth_m=0.2))
    np.save(folder / "twin.npy", persons.squats())
    hole = persons.squats()
    hole[12, 5] = np.nan
    np.save(folder / "hole.npy", hole)
    (folder / "empty.bvh").write_bytes(b"")
    np.save(folder / "other.npy", np.zeros((9, 7)))
    (folder / "squat.txt").write_text("somebody squats\n")
    return folder


def test_the_rest_is_retargeted(library, tmp_path, quick, capsys):
    """Good files are taken, bad ones and copies named with a reason, a line each."""
    summary = retarget([library], tmp_path / "corpus", workers=1)
    assert summary.clips == 2 and summary.files == 6
    kinds = Counter(refusal.kind for refusal in summary.refusals)
    assert kinds["duplicate"] == kinds["not finite"] == 1 and kinds.total() == 4
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 4
    assert any("twin.npy: twin is a copy of squat" in line for line in lines)
    assert any("hole.npy: frame 12: " in line for line in lines)
    corpus = Corpus.open(tmp_path / "corpus")
    assert corpus.names == ["again", "squat"]
    assert corpus.entry(1).text == "somebody squats"
    assert "20 Hz, as in HumanML3D" in corpus.entry(1).notes
    human = corpus.human(1)
    assert human is not None and human.skeleton == "SMPL"
    assert human.points[:, :, 2].max() == pytest.approx(1.5, abs=0.1)
    assert Quality.from_json(corpus.entry(1).quality) == middling(None)
    assert measured(corpus)[0] == "25.00% of frames are over 1 cm under the floor"


def test_clips_that_come_out_bad_are_refused(library, tmp_path, quick, monkeypatch):
    """With what is wrong and the frame where one sees it."""
    bad = ClipError("floats", "nothing is near the floor", 17)
    monkeypatch.setattr(module, "judge", lambda _: bad)
    summary = retarget([library], tmp_path / "corpus", workers=1)
    assert summary.clips == 0 and not (tmp_path / "corpus" / "corpus.json").exists()
    said = [str(refusal) for refusal in summary.refusals if refusal.kind == "floats"]
    assert said[2] == f"{library}/twin.npy: frame 17: nothing is near the floor"


def test_the_verb_says_what_became_of_all(library, tmp_path, quick, capsys):
    """And what to do next."""
    out = str(tmp_path / "corpus")
    with pytest.raises(SystemExit) as stop:
        main(["retarget", str(library), "--out", out, "--jobs", "1", "--no-page"])
    said = capsys.readouterr().out
    assert stop.value.code == 0
    for line in (
        "accepted  2 clips, 244 frames at 50 Hz",
        "refused   4\n",
        "          1 duplicate\n",
        "measured  25.00% of frames are over 1 cm under the floor\n",
        f"look      spectral corpus show again {out}\n",
    ):
        assert line in said


def test_no_page_outlives_its_corpus(library, tmp_path, quick):
    """A page of clips that are gone lay beside a new corpus."""
    page = tmp_path / "corpus" / PAGE
    page.parent.mkdir()
    page.write_text("about another corpus")
    retarget([library / "hole.npy"], page.parent, workers=1)
    assert page.exists(), "nothing was usable: the old corpus stays, and so does this"
    retarget([library], page.parent, workers=1)
    assert not page.exists()


def test_the_page_is_announced(library, tmp_path, quick, monkeypatch, capsys):
    """Drawing it takes longer than a few motions do."""
    drawn = []

    def write_page(corpus, path, *rest):
        drawn.append(capsys.readouterr().err)
        return path

    monkeypatch.setattr("spectral_skills.plots.human_page.write_page", write_page)
    out = tmp_path / "corpus"
    with pytest.raises(SystemExit):
        main(["retarget", str(library), "--out", str(out), "--jobs", "1"])
    assert "the page is being drawn; --no-page leaves it out\n" in drawn[0]
    assert f"page      {out}/retarget.html, drawn in " in capsys.readouterr().out


def test_a_link_that_leads_nowhere_costs_one_motion(library, tmp_path, quick):
    """Given by name as within a folder; a path that is not there stops the command."""
    (library / "gone.npy").symlink_to(library / "nowhere.npy")
    paths = [library / "squat.npy", library / "gone.npy"]
    summary = retarget(paths, tmp_path / "corpus", workers=1)
    assert summary.clips == 1
    assert [r.kind for r in summary.refusals] == ["unreadable"]
    with pytest.raises(FileNotFoundError, match="nowhere.npy: no such file"):
        retarget([*paths, library / "nowhere.npy"], tmp_path / "corpus", workers=1)


def test_a_full_disk_is_named(library, tmp_path, quick, monkeypatch):
    """By the folder of the corpus: what the system says has no name in it."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("spectral_skills.motion.intake.CorpusWriter.add", full)
    with pytest.raises(OSError, match="No space left on device: '.*corpus'"):
        retarget([library], tmp_path / "corpus", workers=1)


def test_in_python(library, tmp_path, quick):
    """Folders and tables may be strings."""
    table = tmp_path / "words.csv"
    table.write_text("name,text\nsquat,goes down\n")
    out = str(tmp_path / "corpus")
    corpus = ss.retarget([str(library)], out, text=str(table), workers=1)
    assert corpus.entry(corpus.index("squat")).text == "goes down"
    with pytest.raises(ValueError, match="no usable motion in .*hole.npy"):
        ss.retarget([library / "hole.npy"], tmp_path / "other", workers=1)
    alone = ss.retarget(str(library / "squat.npy"), tmp_path / "one", workers=1)
    assert alone.names == ["squat"]
    for read in (ss.retarget, ss.ingest):
        with pytest.raises(ValueError, match="name files or folders"):
            read([], tmp_path / "none")


def test_words_of_a_table(library, tmp_path, quick, capsys):
    """A table goes before what lies beside the files; an unusable one is named."""
    table = tmp_path / "words.csv"
    table.write_text("name,text,source\nsquat,goes down,data/squat.bvh\n")
    retarget([library], tmp_path / "corpus", text=table, workers=1)
    corpus = Corpus.open(tmp_path / "corpus")
    assert [corpus.entry(i).text for i in range(2)] == ["again", "goes down"]
    assert "bvh" not in corpus.entry(1).source
    told = "words.csv: describes 1 of 6 motions; 'again' has no row of that name\n"
    assert told in capsys.readouterr().err
    table.write_text("name,text\nnobody,goes down\n")
    retarget([library], tmp_path / "corpus", text=table, workers=1)
    assert "describes 0 of 6 motions" in capsys.readouterr().err
    table.write_text("title\nnobody\n")
    with pytest.raises(ValueError, match=r"words.csv: it needs the columns name"):
        retarget([library], tmp_path / "corpus", text=table, workers=1)


def test_a_resumed_run_skips_what_is_done(library, tmp_path, quick, monkeypatch):
    """The remaining files are read, and copies of what was done are still found."""
    retarget([library], tmp_path / "undisturbed", workers=1)
    seen, read = [], module.sources.read

    def until_sixth(path, options):
        seen.append(path.name)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return read(path, options)

    monkeypatch.setattr(module.sources, "read", until_sixth)
    with pytest.raises(KeyboardInterrupt):
        retarget([library], tmp_path / "corpus", workers=1)
    summary = retarget([library], tmp_path / "corpus", workers=1)
    assert len(seen) == 6 + 1
    assert Counter(r.kind for r in summary.refusals)["duplicate"] == 1
    assert summary.frames_now == 0 and summary.done_before == 5
    assert "          5 of the motions were done before" in "\n".join(
        summary.lines("motions")
    )
    assert contents(tmp_path / "corpus") == contents(tmp_path / "undisturbed")


def test_other_code_starts_over(library, tmp_path, quick, monkeypatch):
    """Half of a corpus by one version and half by another would be neither."""

    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("spectral_skills.motion.intake.CorpusWriter.finish", killed)
        with pytest.raises(KeyboardInterrupt):
            retarget([library], tmp_path / "corpus", workers=1)
    monkeypatch.setattr(module, "code_hash", lambda: "another")
    assert retarget([library], tmp_path / "corpus", workers=1).frames_now > 0


def test_balance_is_passed_on(library, tmp_path, quick, monkeypatch):
    """To every fit."""
    asked = []

    def noted(person: Recording, balance: bool) -> Fit:
        asked.append(balance)
        return stand_in(person)

    monkeypatch.setattr(module, "fit", noted)
    retarget([library], tmp_path / "corpus", balance=True, workers=1)
    assert set(asked) == {True}


def test_what_a_fit_did_not_foresee_costs_one_motion(library, tmp_path, monkeypatch):
    def sometimes(person: Recording, balance: bool) -> Fit:
        if person.name == "squat":
            raise RuntimeError("singular")
        return stand_in(person)

    monkeypatch.setattr(module, "fit", sometimes)
    monkeypatch.setattr(module, "judge", lambda _: None)
    summary = retarget([library], tmp_path / "corpus", workers=1)
    assert Corpus.open(tmp_path / "corpus").names == ["again", "twin"]
    kinds = Counter(refusal.kind for refusal in summary.refusals)
    assert kinds["not fitted"] == 1 and kinds["duplicate"] == 0


def test_every_reason_is_explained():
    """The page about it has all kinds of refusals."""
    folder = Path(module.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    kinds = set(re.findall(r'ClipError\(\s*"([a-z -]+)"', code))
    kinds |= {rule.kind for rule in _RULES} | {"duplicate", "jump", "code in pickle"}
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    rows = re.findall(r"^\| ([a-z, -]+) \|", page, re.MULTILINE)
    assert len(kinds) > 20
    assert kinds <= {kind for row in rows for kind in row.split(", ")}


def test_a_tree_of_joints_is_printed_once(
    library, tmp_path, quick, monkeypatch, capsys
):
    """Not for every file that has it."""
    unknown = ClipError("skeleton", "no left leg. Name the joints:\n# Hips\n#   Head")
    monkeypatch.setattr(module.sources, "read", lambda path, options: [unknown])
    retarget([library], tmp_path / "corpus", workers=1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("again.npy: no left leg. Name the joints:")
    assert lines[1:3] == ["# Hips", "#   Head"]
    assert lines[3] == f"{library}/empty.bvh: no left leg. Name the joints: (as above)"
    assert len(lines) == 6 + 2


def test_frames_are_counted_before_they_are_read(tmp_path):
    """From a BVH's header, and from the size of other files."""
    bvh = tmp_path / "walk.bvh"
    bvh.write_text("HIERARCHY\nMOTION\nFrames: 1200\nFrame Time: 0.00833333\n1 2 3\n")
    assert about_frames(bvh) == 501
    for frames, seconds in (("9" * 999, "1"), ("9", "-1"), ("0", "1e999")):
        bvh.write_text(f"MOTION\nFrames: {frames}\nFrame Time: {seconds}\n")
        assert about_frames(bvh) == 1
    np.save(tmp_path / "joints.npy", persons.squats(10.0))
    assert 50 < about_frames(tmp_path / "joints.npy") < 2000
    assert about_frames(tmp_path / "gone.bvh") == 1


def test_workers_give_the_same_bytes(tmp_path):
    """The number of processes changes nothing."""
    library = tmp_path / "library"
    library.mkdir()
    for i in range(3):
        np.save(library / f"squat{i}.npy", persons.squats(0.6 + 0.1 * i))
    retarget([library], tmp_path / "one", workers=1)
    retarget([library], tmp_path / "two", workers=2)
    assert len(Corpus.open(tmp_path / "one")) == 3
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_pack_is_many_motions(tmp_path):
    """Wherever among the folders it lies; one of its motions can be named alone."""
    pack = tmp_path / "library" / "cmu"
    pack.mkdir(parents=True)
    (pack / "skeletons.json").write_text("{}")
    (pack / "index.csv").write_text(
        "name,subject,suitable,seconds\n01_01,1,no,3\n02_01,2,yes,4\n02_02,2,yes,5\n"
    )
    np.save(tmp_path / "library" / "squat.npy", persons.squats())
    names = [pack / "02_01", pack / "02_02", tmp_path / "library" / "squat.npy"]
    assert module.sources.find([tmp_path / "library"]) == names
    assert module.sources.find([pack, pack / "02_01"]) == names[:2]
    assert about_frames(pack / "02_02") == 251
    with pytest.raises(FileNotFoundError, match="02_03: no such file or folder"):
        module.sources.find([pack / "02_03"])

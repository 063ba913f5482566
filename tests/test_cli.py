"""The command line as a newcomer meets it."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from spectral_skills.cli.main import VERBS, main
from spectral_skills.motion.intake import Summary
from spectral_skills.motion.synthetic import generate


def spectral(*arguments: str) -> subprocess.CompletedProcess:
    code = "from spectral_skills.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def message(capsys):
    """Exit code of a command in this process, and what it wrote to stderr."""

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        return int(stop.value.code or 0), capsys.readouterr().err

    return run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, make_clip) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    for name in ("idle", "squat"):
        clip = make_clip(name, frames=300)
        np.savez(folder / f"{name}.npz", qpos=clip.qpos(), fps=clip.fps)
    done = spectral("ingest", str(folder), "--out", str(folder / "corpus"))
    assert done.returncode == 0, done.stderr
    assert "accepted  2 clips" in done.stdout
    return folder / "corpus"


def test_the_version_of_the_package_for_robots(monkeypatch, capsys):
    """Its distribution has another name: `spectral --version` failed there."""

    def version(name: str) -> str:
        if name == "spectral-skills":
            raise metadata.PackageNotFoundError(name)
        return f"{name} 0.1"

    monkeypatch.setattr(metadata, "version", version)
    main(["--version"])
    assert capsys.readouterr().out == "spectral-skills-robot 0.1\n"


@pytest.mark.parametrize("given", [["--up", "-y"], ["--up=-y"], ["--up", "y"]])
def test_an_axis_may_begin_with_a_minus(given, monkeypatch, tmp_path):
    """`--up -y`, as the help writes it, was an option without its value once."""
    asked = []

    def run(paths, out, **options):
        asked.append(options["up"])
        return Summary()

    monkeypatch.setattr("spectral_skills.motion.human.retarget.retarget", run)
    with pytest.raises(SystemExit):
        main(["retarget", "a.bvh", *given, "--out", str(tmp_path / "out")])
    assert asked == [given[-1].removeprefix("--up=")]


def test_where_there_is_no_corpus(message, tmp_path):
    """All verbs that make one are named."""
    code, words = message("corpus", "list", str(tmp_path))
    assert code == 1
    assert "`spectral ingest`, `spectral retarget` or `spectral synth`" in words


def test_help_is_instant():
    """`spectral --help` takes under 0.3 s of a processor and names every verb."""

    def used() -> float:
        """Seconds of all processes that were waited for, however busy others are."""
        spent = os.times()
        return spent.children_user + spent.children_system

    times = []
    for _ in range(5):
        start = used()
        done = spectral("--help")
        times.append(used() - start)
        assert done.returncode == 0
        assert all(verb in done.stdout for verb in VERBS)
    assert min(times) < 0.3


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    """`spectral VERB --help` explains each option."""
    with pytest.raises(SystemExit) as stop:
        main([*verb.split(), "--help"])
    assert stop.value.code == 0
    assert "usage: spectral" in capsys.readouterr().out


def test_help_is_readable(capsys):
    """Lines end where the box does, names are not types, and no default is None."""
    with pytest.raises(SystemExit):
        main(["steer", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "turn-left, turn-right; where the skill model has them" in shown
    assert "or the name of a clip. (default: walk)" in shown
    assert "--seed INT Seed of a robot" in shown
    assert "(default: )" not in shown
    with pytest.raises(SystemExit):
        main(["desk", "--help"])
    shown = capsys.readouterr().out
    assert "usage: spectral desk [-h] [BUNDLE] [--port INT]" in shown
    assert "desk, so only this machine can by default" in shown


@pytest.mark.parametrize(("processes", "ends"), [("1", []), ("2", [1])])
def test_one_of_several_processes_ends_at_once(processes, ends, tmp_path, monkeypatch):
    """Else a thread of torch's communication may abort it while Python ends."""
    found = []
    monkeypatch.setenv("WORLD_SIZE", processes)
    monkeypatch.setattr(os, "_exit", found.append)
    with pytest.raises(SystemExit) as ended:
        main(["corpus", "info", str(tmp_path)])
    assert found == ends and ended.value.code == 1


def test_unknown_verbs_are_named(capsys):
    """A typo gets the closest verb and exit code 1; half a verb gets its other half."""
    for typed, said in (
        ("ingset", "unknown verb 'ingset'; close to it: ingest\n"),
        ("xyz", "unknown verb 'xyz'\n`spectral --help` lists all verbs"),
        ("corpus", "corpus needs one of: info, list, show, check"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([typed])
        assert stop.value.code == 1 and said in capsys.readouterr().err


def test_a_missing_file_is_named_without_a_number(tmp_path, capsys):
    """No `[Errno 2]`: the file, and what is wrong with it."""
    with pytest.raises(SystemExit) as stop:
        main(["steer", "--take", "no.npz", "--out", str(tmp_path / "out")])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "error: no.npz: no such file or directory\n"


def test_a_run_of_no_length_is_refused(tmp_path, capsys):
    steer = ("steer", "--direction", "turn", "--amplitude", "2")
    for verb in (steer, ("drive",), ("robot-sim",)):
        with pytest.raises(SystemExit):
            main([*verb, "--out", str(tmp_path / "run.npz"), "--seconds", "-3"])
        assert capsys.readouterr().err == "error: --seconds is -3.0, must be above 0\n"


def test_ingest_exit_codes(tmp_path, message):
    """2 when nothing was usable, 1 when --strict stopped or a path is missing."""
    bad = tmp_path / "bad.npz"
    bad.write_text("a text file named npz")
    out = "--out", str(tmp_path / "c")
    code, text = message("ingest", str(bad), *out)
    assert code == 2
    assert len([x for x in text.splitlines() if str(bad) in x]) == 1
    code, text = message("ingest", str(bad), *out, "--strict")
    assert code == 1 and "stopped by --strict" in text
    code, text = message("ingest", str(tmp_path / "no"), *out)
    assert code == 1 and "no such file" in text
    (tmp_path / "empty").mkdir()
    code, text = message("ingest", str(tmp_path / "empty"), *out)
    assert code == 2 and "empty: no motion files" in text
    code, text = message("ingest", *out)
    assert code == 1 and "name files or folders" in text
    assert "Traceback" not in text


def test_retarget_exit_codes(tmp_path, message):
    """2 when nothing was usable, 1 when an option or a path is wrong."""
    bad = tmp_path / "bad.bvh"
    bad.write_text("a text file named bvh")
    out = "--out", str(tmp_path / "c")
    (tmp_path / "empty").mkdir()
    for arguments, code, said in (
        ([str(bad)], 2, str(bad)),
        ([str(tmp_path / "empty")], 2, "empty: no motion files, which end in .bvh"),
        ([str(tmp_path / "no")], 1, "no: no such file"),
        ([], 1, "name files or folders"),
        ([str(bad), "--jobs", "0"], 1, "--jobs 0: at least 1"),
        ([str(bad), "--fps", "0"], 1, "--fps 0"),
        ([str(bad), "--units", "feetish"], 1, "--units feetish"),
        ([str(bad), "--up", "w"], 1, "--up w"),
        ([str(bad), "--text", str(tmp_path / "no.csv")], 1, "no.csv: no such file"),
        ([str(bad), "--map", str(tmp_path / "no.toml")], 1, "no.toml: no such file"),
        ([str(bad), "--map", str(bad)], 1, "bad.bvh: not TOML"),
        ([str(bad), "--body-model", str(tmp_path / "no")], 1, "no: no such file"),
    ):
        found, text = message("retarget", *arguments, *out)
        assert found == code and said in text, arguments
        assert "Traceback" not in text
    assert not (tmp_path / "c" / "corpus.json").exists()


def test_mistakes_get_one_line(tmp_path, make_clip, message):
    """A file for a folder, a wrong number, an empty folder: no traceback."""
    good = tmp_path / "idle.npz"
    clip = make_clip()
    np.savez(good, qpos=clip.qpos(), fps=clip.fps)
    (tmp_path / "nothing").mkdir()
    out = str(tmp_path / "c")
    for arguments, code in (
        ([str(good), "--out", str(good)], 1),
        ([str(good), "--out", out, "--fps", "abc"], 1),
        ([str(good), "--out", out, "--fps", "nan"], 1),
        ([str(good), "--out", out, "--workers", "0"], 1),
        ([str(tmp_path / "nothing"), "--out", out], 2),
    ):
        found, text = message("ingest", *arguments)
        assert found == code, arguments
        assert text and "Traceback" not in text
    assert not Path(out).exists()


def test_corpus_info_and_list(corpus, capsys):
    """`info --json` counts clips, frames and hours; `list` finds by name."""
    with pytest.raises(SystemExit):
        main(["corpus", "info", str(corpus), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["clips"] == 2 and facts["frames"] == 600
    assert facts["hours"] == pytest.approx(600 / 50 / 3600, abs=1e-4)
    with pytest.raises(SystemExit):
        main(["corpus", "list", str(corpus), "--match", "squat"])
    out = capsys.readouterr().out
    assert "squat" in out and "idle" not in out


def test_corpus_show_names_close_matches(corpus, capsys):
    """A misspelt clip is answered with what there is."""
    with pytest.raises(SystemExit) as stop:
        main(["corpus", "show", "squatt", str(corpus)])
    assert stop.value.code == 1
    assert "close to it: squat" in capsys.readouterr().err


def test_no_other_file_is_overwritten(corpus, tmp_path, capsys):
    """A picture replaces no notes, and a file is no folder to train in."""
    notes = tmp_path / "notes.txt"
    notes.write_text("keep")
    show = ["corpus", "show", "squat", str(corpus), "--out", str(notes)]
    train = ["pretrain", "smoke", "--corpus", str(corpus), "--out", str(notes)]
    for arguments, said in (
        (show, "name a file that ends in .png"),
        (train, "notes.txt: a file; name a folder"),
        (["synth", "smoke", "--out", str(notes)], "notes.txt: a file; name a folder"),
        (["demo", "--out", str(notes)], "notes.txt: a file; name a folder"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 1 and said in capsys.readouterr().err
    assert notes.read_text() == "keep"


def test_the_embedded_corpus_is_the_default(tmp_path, monkeypatch, capsys):
    """Without a folder, verbs take the corpus that is made when first asked for."""
    folder = tmp_path / "made"
    generate.synthesise(folder, generate.SynthConfig(clips=1), workers=1)
    monkeypatch.setattr(generate, "embedded_corpus", lambda: folder)
    record = tmp_path / "results.jsonl"
    for arguments, expected in (
        (["info"], "made: 1 clips"),
        (["list"], "spectral-skills generator"),
        (["show", "no-such-clip"], "no clip named"),
        (["check", "--record", str(record)], "Embedded corpus: 1 clips"),
    ):
        with pytest.raises(SystemExit):
            main(["corpus", *arguments])
        message = capsys.readouterr()
        assert expected in message.out + message.err, arguments
    assert (
        "Embedded corpus: plausibility"
        in (tmp_path / "results" / "motions.md").read_text()
    )


def test_doctor_is_content_here():
    """The installation that runs the tests is in order."""
    done = spectral("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("torch", "mujoco", "mjlab", "rendering", "29 joints", "ready"):
        assert word in done.stdout


def test_doctor_says_what_is_missing(monkeypatch, capsys):
    """A missing required package gives exit code 1 and the command to install it."""
    from spectral_skills import doctor

    monkeypatch.setattr(doctor, "_REQUIRED", (*doctor._REQUIRED, "no-such-package"))
    assert doctor.examine() == 1
    assert "pip install -c constraints.txt no-such-package" in capsys.readouterr().err

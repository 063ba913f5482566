"""`spectral collect`, `plan` and `evaluate planning` as they are typed."""

import json
import re
import shutil
import signal
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from spoken import needs_weights

from spectral_skills import artifact, recipes
from spectral_skills.cli.main import main
from spectral_skills.motion.synthetic.generate import clip
from spectral_skills.planner.data import Rows
from spectral_skills.planner.model import Planner
from spectral_skills.planner.train import PlanConfig, PlanTrainer
from spectral_skills.results import Result
from spectral_skills.runs import read_log

pytestmark = needs_weights

STAND, WALK = 383, 472
"""Numbers of clips of the embedded corpus."""
CPU = ("--device", "cpu")


def _spectral(*arguments: object) -> int:
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    """Sentences of this module are kept nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def places(make_corpus, tmp_path_factory) -> dict[str, Path]:
    """A corpus of two motions, rows of it, a planner's run and a planner of poses."""
    folder = tmp_path_factory.mktemp("planning")
    found = {
        name: folder / name for name in ("corpus", "rows", "run", "released", "poses")
    }
    make_corpus(found["corpus"], [clip(number) for number in (STAND, WALK)])
    collect = ["collect", "--corpus", found["corpus"], "--out", found["rows"]]
    assert _spectral(*collect, "--robots", "2", "--steps", "45", *CPU) == 0
    run = _plan(found, found["run"], "--release", found["released"])
    assert _spectral(*run) == 0
    poses = _plan(found, found["poses"], "--output", "pose")
    assert _spectral(*poses, "--updates", "2") == 0
    return found


def _plan(places: dict[str, Path], out: Path, *more: object) -> list[object]:
    """A command; a later option of the same name wins."""
    words = ["plan", "smoke", "--rows", places["rows"], "--out", out, *CPU]
    words += ["--updates", "40", "--evaluate-every", "20", "--checkpoint-every", "10"]
    return [*words, "--evaluation-rows", "8", "--batch", "8", *more]


def test_rows_are_collected_with_the_released_controller(places):
    rows = Rows.open(places["rows"])
    assert rows.robots == 4 and rows.upright == 1.0
    assert [motion.name for motion in rows.about.motions] == [
        *("stand_0383", "forward_0472")
    ]
    assert rows.about.command == "skill" and len(rows) == 4 * 15
    base = Planner.load(places["run"]).config.about
    assert base == rows.about


def test_a_planner_is_trained_and_released(places):
    assert [row["update"] for row in read_log(places["run"])] == [20, 40]
    assert (places["run"] / "curves.png").is_file()
    message = artifact.load_provenance(places["run"] / "model")
    assert message.command.startswith("spectral plan smoke --rows rows --updates 40")
    whole, small = (Planner.load(places[name]) for name in ("run", "released"))
    assert small.config == whole.config
    for name, value in whole.state_dict().items():
        assert torch.allclose(value, small.state_dict()[name], rtol=1e-2, atol=1e-2)
    assert Planner.load(places["poses"]).config.head.action == 38


def test_a_finished_run_is_left_alone(places, capsys):
    before = (places["run"] / "model" / "weights.safetensors").read_bytes()
    assert _spectral(*_plan(places, places["run"])) == 0
    assert "nothing left to do" in capsys.readouterr().out
    assert (places["run"] / "model" / "weights.safetensors").read_bytes() == before
    assert _spectral(*_plan(places, places["run"], "--seed", "1")) == 1
    assert "another seed" in capsys.readouterr().err


def _same(one: Path, other: Path) -> None:
    """Logs and weights of two runs are the same to the bit."""
    for row, also in zip(read_log(one), read_log(other), strict=True):
        assert row | {"seconds": 0} == also | {"seconds": 0}
    found, wanted = (Planner.load(run).state_dict() for run in (one, other))
    for name, value in wanted.items():
        assert torch.equal(found[name], value), name


def test_a_killed_run_goes_on_with_the_same_command(places, tmp_path, kill_run):
    """Its numbers are those of a run that was never killed."""
    out = tmp_path / "run"
    arguments = [str(word) for word in _plan(places, out)]
    assert kill_run(arguments, out, signal.SIGKILL) == -signal.SIGKILL
    state = json.loads((out / "checkpoint" / "state.json").read_text())
    assert 10 <= state["update"] < 40
    assert _spectral(*arguments) == 0
    _same(out, places["run"])


def test_an_interrupted_run_keeps_what_it_has(places, tmp_path, monkeypatch, capsys):
    true, out = PlanTrainer.update, tmp_path / "run"

    def update(self, number):
        if number == 13:
            signal.raise_signal(signal.SIGINT)
        return true(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(PlanTrainer, "update", update)
        assert _spectral(*_plan(places, out)) == 130
    assert "the same command continues" in capsys.readouterr().err
    state = json.loads((out / "checkpoint" / "state.json").read_text())
    assert state["update"] == 13
    assert _spectral(*_plan(places, out)) == 0
    _same(out, places["run"])


def _evaluate(places: dict[str, Path], experiment: str, *more: object) -> list[object]:
    words = ["evaluate", "planning", experiment, "--corpus", places["corpus"]]
    return [*words, "--episodes", "1", "--steps", "8", *CPU, *more]


def test_interfaces_are_compared(places, tmp_path, capsys):
    """Skills at four intervals, poses that are encoded again at those they last."""
    models = ["--planner", places["released"], "--poses", places["poses"]]
    out, record = tmp_path / "found", tmp_path / "results.jsonl"
    words = [*models, "--out", out, "--record", record]
    assert _spectral(*_evaluate(places, "interfaces", *words)) == 0
    found = json.loads((out / "interfaces.json").read_text())
    rows = list(dict.fromkeys(cell["row"] for cell in found["results"]))
    assert rows == [
        "Skill tracker: oracle",
        *(f"Skills (z to z), N={n}" for n in (1, 10, 21, 30)),
        *(f"Re-encode (o to z), N={n}" for n in (1, 10, 21)),
        *(f"Re-encode (o to z), odometry, N={n}" for n in (10, 21)),
    ]
    names = {field.name for field in fields(Result)}
    assert all(set(cell) == names and cell["n"] == 2 for cell in found["results"])
    run = artifact.load_provenance(places["released"]).weights_hash
    assert {cell["run"] for cell in found["results"]} == {run[:8]}
    message = capsys.readouterr().out
    assert (
        "Skill tracker: oracle" in message and str(out / "interfaces.json") in message
    )
    assert (
        "Planning: interfaces"
        in (record.parent / "results" / "planning.md").read_text()
    )


def test_some_of_the_motions_are_enough_for_a_try(places, tmp_path):
    words = ["--planner", places["released"], "--most", "1", "--out", tmp_path / "some"]
    assert _spectral(*_evaluate(places, "interfaces", *words)) == 0
    found = json.loads((tmp_path / "some" / "interfaces.json").read_text())
    assert {cell["n"] for cell in found["results"]} == {1}


def _of_another_controller(places: dict[str, Path], folder: Path) -> Path:
    """The released planner, as if other robots had been collected from."""
    shutil.copytree(places["released"], folder)
    path = folder / "config.json"
    about = Rows.open(places["rows"]).about
    path.write_text(path.read_text().replace(about.controller, "another"))
    return folder


def test_mistakes_are_named(places, tmp_path, capsys):
    """Exit code 1, what was wrong, no trace, nothing written."""
    out = tmp_path / "out"
    other = _of_another_controller(places, tmp_path / "other")
    collect = ["collect", "--corpus", places["corpus"], *CPU, "--out"]
    plan = ["plan", "smoke", *CPU, "--out", out, "--rows"]
    ours, there = ["--planner", places["released"]], ["--out", out]
    explicit = ["--explicit", places["run"], places["run"]]
    for words, message in (
        ([*collect, places["rows"]], "there already"),
        ([*collect, out, "--robots", "1", "--steps", "30"], "a row needs 31"),
        ([*plan, places["corpus"]], "no rows here"),
        ([*plan, places["rows"], "--release", out], "choose another folder"),
        ([*plan, places["rows"], "--btach", "3"], "--btach"),
        ([*plan, places["rows"], "--batch", "0"], "must be at least 1"),
        (["plan", "smokey", "--rows", places["rows"], *there], "'smokey'; there are"),
        (_plan(places, places["rows"]), "choose another folder"),
        (
            _evaluate(places, "interfaces", "--planner", other, *there),
            "of the controller another",
        ),
        (_evaluate(places, "fsq", *ours, *there, *explicit), "is for interfaces"),
        (_evaluate(places, "fsq", *ours, *there), "--poses DIR"),
        (_evaluate(places, "language", *ours, *there), "8 steps are too few"),
        (_evaluate(places, "pairs", *ours, *there), "no pair has a base"),
        (_evaluate(places, "interfaces", *ours, *there, "--episodes", "0"), "nothing"),
    ):
        assert _spectral(*words) == 1, words
        found = capsys.readouterr()
        assert message in found.out + found.err, words
        assert "Traceback" not in found.err
    assert not out.exists()


def test_planners_of_poses_and_of_skills_are_told_apart(places, tmp_path, capsys):
    """Else their rows would bear each other's names."""
    out = ["--out", tmp_path / "out"]
    for planner, poses, message in (
        ("poses", "poses", "plans poses, not skills"),
        ("run", "run", "plans skills, not poses"),
    ):
        words = ["--planner", places[planner], "--poses", places[poses], *out]
        assert _spectral(*_evaluate(places, "interfaces", *words)) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_unknown_recipes_are_answered_with_all(capsys):
    assert _spectral("plan", "smokey") == 1
    message = capsys.readouterr().err
    assert all(name in message for name in recipes.PLAN)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("collect", "controller skill corpus out robots steps seed device"),
        ("plan", "rows out release device"),
        (
            "evaluate planning",
            "planner controller skill directions poses explicit corpus episodes steps "
            "seed device out record",
        ),
    ],
)
def test_help_names_every_option(verb, options, capsys):
    assert _spectral(*verb.split(), "--help") == 0
    message = capsys.readouterr().out
    assert all(f"--{option}" in message for option in options.split())


def test_settings_of_a_recipe_are_options(capsys):
    """With the recipe's own values."""
    assert _spectral("plan", "release", "--help") == 0
    message = capsys.readouterr().out
    for field in fields(PlanConfig):
        if field.name != "head":
            assert f"--{field.name.replace('_', '-')}" in message
    plain = " ".join(re.sub(r"[^\w.():-]+", " ", message).split())
    assert "--head.layers" in plain
    assert "in their standard deviations. (default: 0.4)" in plain
    assert _spectral("plan", "--help") == 0
    assert "--word-noise" not in capsys.readouterr().out

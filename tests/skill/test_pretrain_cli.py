"""`spectral pretrain` as it is typed: recipes, options, mistakes, a killed run."""

import json
import signal
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from spectral_skills import api, recipes
from spectral_skills import config as configs
from spectral_skills.cli.main import main
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import WindowSampler
from spectral_skills.runs import read_log
from spectral_skills.skill import pretrain as training
from spectral_skills.skill.bottleneck import Continuous
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.trainer import PretrainConfig
from spectral_skills.spectral.direction_file import Directions

OVERRIDES = {
    "--updates": "40",
    "--batch": "64",
    "--evaluate-every": "20",
    "--checkpoint-every": "10",
    "--evaluation-windows": "64",
    "--model.encoder.width": "8",
    "--learning-rate": "0.002",
}


def _arguments(folder: Path, out: Path) -> list[str]:
    options = OVERRIDES | {"--corpus": str(folder), "--out": str(out)}
    pairs = [word for pair in options.items() for word in pair]
    encoder = ["--model.encoder.hidden", "32", "16"]
    return ["pretrain", "smoke", *pairs, "--device", "cpu", *encoder]


def _spectral(*arguments: str) -> int:
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory) -> Path:
    """A run of the smoke recipe that nothing stopped, and what it released."""
    out = tmp_path_factory.mktemp("whole") / "run"
    release = ["--release", str(out.parent / "small")]
    assert _spectral(*_arguments(folder, out), *release) == 0
    return out


@pytest.fixture(autouse=True)
def quick(whole, monkeypatch):
    """Statistics of fewer windows, once the whole run has taken its own."""
    sample = WindowSampler.sample

    def fewer(self, count, generator=None):
        return sample(self, min(count, 2048), generator)

    monkeypatch.setattr(WindowSampler, "sample", fewer)


def test_settings_of_the_recipe_are_options(capsys):
    """Every leaf, with the recipe's own value as its default."""
    assert _spectral("pretrain", "smoke", "--help") == 0
    text = capsys.readouterr().out
    for field in fields(PretrainConfig):
        if field.name != "model":
            assert f"--{field.name.replace('_', '-')}" in text
    for name in ("encoder.width", "encoder.bottleneck.kind", "predictor.rank"):
        assert f"--model.{name}" in text
    assert "(default: 256 128)" in text and "--corpus" in text
    assert _spectral("pretrain", "--help") == 0
    assert "--batch" not in capsys.readouterr().out


def test_a_small_run_ends_well(whole):
    """Model, log, curves and checkpoint are there, and the released model fits."""
    names = {path.name for path in whole.iterdir()}
    files = {"config.json", "log.jsonl", "curves.png"}
    assert names == files | {"checkpoint", "model", "tensorboard"}
    assert [row["update"] for row in read_log(whole)] == [20, 40]
    model, small = SkillModel.load(whole), SkillModel.load(whole.parent / "small")
    assert small.encoder.fingerprint() == model.encoder.fingerprint()
    size = sum(path.stat().st_size for path in (whole / "model").iterdir())
    less = sum(path.stat().st_size for path in (whole.parent / "small").iterdir())
    assert less < size / 2


def test_a_released_model_finds_directions(whole, folder, tmp_path, capsys):
    """With targets of one's own, nearly those of the whole model."""
    typed = ["right_elbow=-0.5", "foot_clearance=0.1,turn=0.2"]
    skill, out = whole.parent / "small", tmp_path / "own.safetensors"
    options = ["--skill", str(skill), "--corpus", str(folder), "--contexts", "64"]
    options += ["--target", *typed, "--out", str(out)]
    assert _spectral("directions", *options) == 0
    assert f"file      {out}" in capsys.readouterr().out
    small = Directions.load(out)
    large = api.find_directions(whole, [folder], targets=typed, contexts=64)
    assert small.names[-2:] == ("right_elbow", "foot_clearance+turn")
    cosine = (small.vectors[-2:] * large.vectors[-2:]).sum(1)
    assert cosine.min() > 0.9
    small.check(SkillModel.load(whole).encoder.fingerprint())


def test_directions_leave_out_what_training_did(whole, folder, monkeypatch):
    """Windows are of the other clips only."""
    seen = []
    monkeypatch.setattr(
        "spectral_skills.spectral.directions.find",
        lambda model, sampler, *_, **__: seen.append(sampler.motions.lengths.tolist()),
    )
    for held_out in (0, 1):
        api.find_directions(whole, [folder], held_out=held_out)
    (rest,), _ = motion_sets.hold_out([Corpus.open(folder)], 1)
    assert len(seen[0]) == 6 and seen[1] == rest.lengths.tolist()


def test_overrides_land_in_the_config(whole):
    """Those given, on top of the recipe, and nothing else."""
    stored = json.loads((whole / "config.json").read_text())["config"]
    found = configs.from_dict(PretrainConfig, stored)
    recipe = recipes.pretrain("smoke")
    encoder = replace(recipe.model.encoder, width=8, hidden=(32, 16))
    assert found == replace(
        recipe,
        updates=40,
        batch=64,
        evaluate_every=20,
        checkpoint_every=10,
        evaluation_windows=64,
        learning_rate=0.002,
        model=replace(recipe.model, encoder=encoder),
    )


def test_the_same_command_again_changes_nothing(whole, folder):
    """A finished run is finished; another setting is refused, and named."""
    before = SkillModel.load(whole).encoder.fingerprint()
    assert _spectral(*_arguments(folder, whole)) == 0
    assert SkillModel.load(whole).encoder.fingerprint() == before
    assert len(read_log(whole)) == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["smokey", "--corpus", "{corpus}", "--out", "{out}"], "'smokey'; there are"),
        (["smoke", "--corpus", "{out}", "--out", "{out}"], "no corpus here"),
        (
            ["smoke", "--corpus", "{corpus}", "--out", "{out}", "--btach", "3"],
            "--btach",
        ),
        (
            ["smoke", "--corpus", "{corpus}", "--out", "{out}", "--batch", "x"],
            "--batch",
        ),
        (["smoke", "--corpus", "{corpus}"], "--out"),
        (["smoke", "--out", "{out}"], "--corpus"),
        (["smoke", "--corpus", "{corpus}", "--out", "{corpus}"], "not empty"),
        (
            ["smoke", "--corpus", "{corpus}", "--out", "{out}", "--held-out", "6"],
            "6 of 6",
        ),
        (["--corpus", "{corpus}", "--out", "{out}"], "RECIPE"),
    ],
)
def test_mistakes_are_named(arguments, words, folder, tmp_path, capsys):
    """Exit code 1, the word that was wrong, no trace."""
    places = {"corpus": folder, "out": tmp_path / "out"}
    code = _spectral("pretrain", *(word.format(**places) for word in arguments))
    message = capsys.readouterr()
    assert code == 1 and words.lower() in (message.out + message.err).lower()


def test_unknown_recipes_are_answered_with_all(capsys):
    """Every name there is."""
    assert _spectral("pretrain", "smokey") == 1
    message = capsys.readouterr().err
    assert all(name in message for name in recipes.PRETRAIN)


def test_a_mistake_does_not_take_the_folder(folder, tmp_path):
    """After a refused setting the right one may use the same folder."""
    arguments = _arguments(folder, tmp_path / "run")
    assert _spectral(*arguments, "--held-out", "6") == 1
    assert not (tmp_path / "run" / "config.json").exists()


def test_an_unknown_device_is_named(folder, tmp_path, capsys):
    """One line, no trace."""
    arguments = _arguments(folder, tmp_path / "run")
    assert _spectral(*arguments, "--device", "gpu") == 1
    assert "gpu" in capsys.readouterr().err


def test_a_killed_run_ends_as_if_it_had_not_been(whole, folder, tmp_path, kill_run):
    """The same command goes on; model and evaluations are the same to the bit."""
    out = tmp_path / "run"
    arguments = _arguments(folder, out)
    assert kill_run(arguments, out, signal.SIGKILL) == -signal.SIGKILL
    assert 10 <= _updates(out) < 40
    assert _spectral(*arguments) == 0
    known = ("update", "held_out", "held_out_levels", "shuffled", "skill_std")
    for row, same in zip(read_log(out), read_log(whole), strict=True):
        assert {k: row[k] for k in known} == {k: same[k] for k in known}
    found, wanted = (SkillModel.load(place).state_dict() for place in (out, whole))
    for key, value in wanted.items():
        assert torch.equal(found[key], value), key


def test_an_interrupted_run_keeps_what_it_has(folder, tmp_path, kill_run):
    """Exit code 130, and a checkpoint and a model of where it was."""
    out = tmp_path / "run"
    assert kill_run(_arguments(folder, out), out, signal.SIGINT) == 130
    assert 10 <= _updates(out) < 40
    assert all(p.isfinite().all() for p in SkillModel.load(out).parameters())


def _updates(run: Path) -> int:
    """Updates in the checkpoint of a run."""
    return json.loads((run / "checkpoint" / "state.json").read_text())["update"]


def test_an_interrupt_between_step_and_count(shrink, corpus, tmp_path, monkeypatch):
    """Wherever an interrupt falls, the run goes on as if it had not been."""
    config = shrink("smoke", updates=4, checkpoint_every=100)
    whole = training.pretrain(config, [corpus], tmp_path / "whole", "cpu")
    calls = []

    def interrupt(self, latent, generator):
        calls.append(1)
        if len(calls) == 3:  # after the optimizer's third step
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Continuous, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        training.pretrain(config, [corpus], tmp_path / "cut", "cpu")
    resumed = training.pretrain(config, [corpus], tmp_path / "cut", "cpu")
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


def test_checkpoints_between_evaluations_keep_the_log(
    shrink, corpus, tmp_path, monkeypatch
):
    """Means over updates since the last evaluation, also over a kill."""
    config = shrink("smoke", updates=6, evaluate_every=3, checkpoint_every=2)
    training.pretrain(config, [corpus], tmp_path / "whole", "cpu")
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(Continuous, "update", _fail_at(3))
        training.pretrain(config, [corpus], tmp_path / "cut", "cpu")
    assert _updates(tmp_path / "cut") == 2
    training.pretrain(config, [corpus], tmp_path / "cut", "cpu")
    rows = (read_log(tmp_path / name) for name in ("whole", "cut"))
    for row, same in zip(*rows, strict=True):
        assert row | {"seconds": 0} == same | {"seconds": 0}


def _fail_at(call: int):
    calls = []

    def update(self, latent, generator):
        calls.append(1)
        if len(calls) == call:
            raise MemoryError

    return update


def test_a_release_is_never_written_over_something_else(tmp_path, monkeypatch, capsys):
    """Not over the run, around it, or over a folder of other things; asked first."""
    from spectral_skills.cli.main import main

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    for release in (tmp_path / "run", tmp_path, tmp_path / "full"):
        with pytest.raises(SystemExit) as stop:
            main(
                ["pretrain", "smoke", "--corpus", str(tmp_path / "none")]
                + ["--out", str(tmp_path / "run"), "--release", str(release)]
            )
        assert stop.value.code == 1
        assert "choose another folder" in capsys.readouterr().err
    assert (tmp_path / "full" / "thesis.txt").read_text() == "precious"

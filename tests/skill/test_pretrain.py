"""Pretraining: every recipe runs, killed runs go on, bad runs lose nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills import recipes
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.motion.windows import WindowSampler
from spectral_skills.runs import RunFolder, read_about, read_log
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.pretrain import Evaluator, Pretraining, pretrain, split


@pytest.mark.parametrize("name", recipes.PRETRAIN)
def test_every_recipe_trains_saves_and_loads(name, shrink, corpus, tmp_path):
    """Two evaluations, finite errors, and the same encoder after every way round."""
    model = pretrain(shrink(name), [corpus], tmp_path / "run", "cpu")
    rows = read_log(tmp_path / "run")
    assert [row["update"] for row in rows] == [2, 4]
    assert all(0 < row["held_out"] < 1e3 for row in rows)
    assert model.head is not None
    assert len(rows[0]["held_out_levels"]) == model.head.levels
    again = SkillModel.load(tmp_path / "run")
    assert again.encoder.fingerprint() == model.encoder.fingerprint()
    model.release(tmp_path / "small", Provenance("skill"))
    small = SkillModel.load(tmp_path / "small")
    assert small.encoder.fingerprint() == model.encoder.fingerprint()
    assert small.head is None
    poses = torch.randn(3, model.encoder.poses, 38)
    assert torch.equal(again.encoder.encode(poses), model.encoder.encode(poses))


def test_nothing_need_be_held_out(shrink, corpus, tmp_path, capsys):
    """Then all clips are trained on, and errors are told of the same ones."""
    config = shrink("lafan1-authors", held_out=0)
    pretrain(config, [corpus], tmp_path / "run", "cpu")
    assert len(read_log(tmp_path / "run")) == 2
    assert "every clip is trained on" in capsys.readouterr().out
    trained_on, same = split([corpus], 0, mirror=True, device="cpu")
    assert trained_on is same and len(same.lengths) == 2 * len(corpus)
    with pytest.raises(ValueError, match="patience needs clips"):
        shrink("lafan1", held_out=0)


def test_training_predicts_better(corpus, tmp_path):
    """Errors fall on held-out clips too, and the skill is what they fall by."""
    config = recipes.pretrain("smoke")
    config = replace(config, updates=40, evaluate_every=10, batch=128)
    pretrain(config, [corpus], tmp_path / "run", "cpu")
    first, *_, last = read_log(tmp_path / "run")
    assert last["prediction"] < 0.9 * first["prediction"]
    assert last["held_out"] < 0.9 * first["held_out"]
    # Exchanged skills tell of other motions: worse than the own ones, and the more
    # so the more the predictor has learned to listen.
    worth = [row["shuffled"] / row["held_out"] for row in (first, last)]
    assert worth[1] > 1.2 and worth[1] > worth[0]
    # Noise is told from motion best where there is most of it.
    assert last["held_out_levels"][-1] < last["held_out_levels"][0]


class StopError(Exception):
    pass


def _stop_at(update: int):
    def watch(run):
        if read_log(run)[-1]["update"] == update:
            raise StopError

    return watch


@pytest.mark.parametrize(
    "name", ["ablation-ours", "ablation-next-skill", "ablation-vq", "authors"]
)
def test_a_killed_run_continues_the_same_numbers(name, shrink, corpus, tmp_path):
    """Log and weights equal those of a run that was never stopped."""
    config = shrink(name, updates=6)
    whole = pretrain(config, [corpus], tmp_path / "whole", "cpu")
    with pytest.raises(StopError):
        pretrain(config, [corpus], tmp_path / "cut", "cpu", watch=_stop_at(4))
    resumed = pretrain(config, [corpus], tmp_path / "cut", "cpu")
    for row, same in zip(
        read_log(tmp_path / "whole"), read_log(tmp_path / "cut"), strict=True
    ):
        assert row | {"seconds": 0} == same | {"seconds": 0}
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


def test_a_finished_run_can_be_made_longer(shrink, corpus, tmp_path):
    """More updates of the same run go on where it ended."""
    short = shrink("smoke", updates=2)
    pretrain(short, [corpus], tmp_path / "run", "cpu")
    longer = pretrain(replace(short, updates=4), [corpus], tmp_path / "run", "cpu")
    once = pretrain(replace(short, updates=4), [corpus], tmp_path / "once", "cpu")
    assert longer.encoder.fingerprint() == once.encoder.fingerprint()


def test_a_continued_run_names_all_of_its_commands(shrink, corpus, tmp_path):
    """A number of the whole run is not the work of its last command alone."""
    for updates, command in ((2, "one"), (4, "two"), (6, "two")):
        config = shrink("smoke", updates=updates)
        pretrain(config, [corpus], tmp_path, "cpu", command)
    assert read_about(tmp_path)["command"] == "one; two"
    assert load_provenance(tmp_path / "model").command == "one; two"
    for updates in (8, 10):
        config = shrink("smoke", updates=updates)
        pretrain(config, [corpus], tmp_path, "cpu", "three 'a; b'")
    assert read_about(tmp_path)["command"] == "one; two; three 'a; b'"


def test_another_run_in_the_same_folder_is_refused(shrink, corpus, tmp_path):
    """The message names what differs."""
    pretrain(shrink("smoke", updates=2), [corpus], tmp_path / "run", "cpu")
    with pytest.raises(ValueError, match="another batch, seed"):
        pretrain(shrink("smoke", batch=16, seed=3), [corpus], tmp_path / "run", "cpu")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty"):
        pretrain(shrink("smoke"), [corpus], tmp_path / "full", "cpu")


def test_a_loss_that_is_not_finite_stops_the_run(shrink, corpus, tmp_path, monkeypatch):
    """The update is named, the last good checkpoint stays."""
    from spectral_skills.skill.trainer import Trainer

    config = shrink("smoke", updates=20)
    true = Trainer.losses

    def losses(self, update):
        found = true(self, update)
        return replace(found, total=found.total * (float("nan") if update == 5 else 1))

    monkeypatch.setattr(Trainer, "losses", losses)
    with pytest.raises(ValueError, match="update 5 is not finite; its .* are finite"):
        pretrain(config, [corpus], tmp_path / "run", "cpu")
    state = json.loads((tmp_path / "run" / "checkpoint" / "state.json").read_text())
    assert state["update"] == 4
    model = SkillModel.load(tmp_path / "run")
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_damaged_corpus_is_not_blamed_on_the_rate(shrink, corpus, tmp_path):
    """Bytes on a disk rot: the message leads to the clip."""
    rotten = replace(corpus, rows=np.full_like(corpus.rows, np.nan))
    with pytest.raises(ValueError, match=r"clip \d+ is not finite near frame \d+"):
        pretrain(shrink("smoke", updates=2), [rotten], tmp_path / "run", "cpu")


def test_the_best_weights_are_kept_and_the_run_stops(shrink, corpus, tmp_path):
    """With patience the model is that of the best evaluation, not of the last."""
    config = shrink(
        "lafan1", updates=60, evaluate_every=2, patience=2, learning_rate=0.5
    )
    model = pretrain(config, [corpus], tmp_path / "run", "cpu")
    rows = read_log(tmp_path / "run")
    best = min(range(len(rows)), key=lambda i: rows[i]["held_out"])
    assert best == len(rows) - 3 and rows[-1]["update"] < 60
    kept = pretrain(
        replace(config, updates=rows[best]["update"], patience=None),
        [corpus],
        tmp_path / "to_best",
        "cpu",
    )
    assert kept.encoder.fingerprint() == model.encoder.fingerprint()


def test_a_corpus_too_short_for_one_window_is_explained(
    shrink, make_clip, make_corpus, tmp_path
):
    """How many frames are needed, and how many there are."""
    clips = [make_clip(f"blink{i}", 20, seed=i) for i in range(3)]
    short = make_corpus(tmp_path / "corpus", clips)
    with pytest.raises(ValueError, match="26 frames.*longest has 20"):
        pretrain(shrink("smoke"), [short], tmp_path / "run", "cpu")


def _typical_skills(model, corpora, config) -> tuple[torch.Tensor, float]:
    """Errors of windows trained on, and the mean deviation of their skills."""
    motions, _ = split(corpora, config.held_out, config.mirror, "cpu")
    sampler = WindowSampler(motions, config.model.windows)
    windows = sampler.at(*sampler.locate(torch.arange(sampler.total)))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(sampler.total, model.head.noise_width, generator=generator)
    level = torch.arange(sampler.total) % model.head.levels
    with torch.no_grad():
        skill = model.encoder.encode(model.seen(windows))
        errors = model.head(skill, model.batch(windows), level, noise)
    return errors, float(skill.std(0).mean())


@pytest.mark.parametrize("name", ["lafan1-all", "ablation-concat"])
def test_skills_get_the_deviation_that_is_asked_for(name, shrink, corpus, tmp_path):
    """By a factor, which the log tells; what they predict stays the same."""
    config = shrink(name, held_out=2, patience=None)
    plain = pretrain(config, [corpus], tmp_path / "plain", "cpu")
    wanted = replace(config, deviation=0.8)
    scaled = pretrain(wanted, [corpus], tmp_path / "scaled", "cpu")
    errors, before = _typical_skills(plain, [corpus], config)
    same_errors, after = _typical_skills(scaled, [corpus], config)
    assert abs(before - 0.8) > 0.1 and after == pytest.approx(0.8, rel=1e-5)
    assert torch.allclose(errors, same_errors, rtol=1e-5)
    rows = read_log(tmp_path / "scaled")
    assert rows[-1]["scale"] == pytest.approx(0.8 / before, rel=1e-5)
    plain_rows = read_log(tmp_path / "plain")
    assert [row["held_out"] for row in rows] == [row["held_out"] for row in plain_rows]
    saved = SkillModel.load(tmp_path / "scaled")
    assert _typical_skills(saved, [corpus], config)[1] == pytest.approx(0.8, rel=1e-5)


@pytest.mark.parametrize("patience", [None, 9])
def test_a_scaled_run_goes_on_with_what_it_learned(
    patience, shrink, corpus, tmp_path, monkeypatch
):
    """Only the model is scaled, once, whether the last weights are kept or the best."""
    config = shrink("release", updates=6, patience=patience)
    if patience is not None:  # the second evaluation of four is the best
        true, found = Evaluator.__call__, {2: 3.0, 4: 1.0, 6: 2.0}

        def evaluate(self, trainer):
            steps = trainer.optimizer.state_dict()["state"][0]["step"]
            return true(self, trainer) | {"held_out": found[int(steps)]}

        monkeypatch.setattr(Evaluator, "__call__", evaluate)
    whole = pretrain(config, [corpus], tmp_path / "whole", "cpu")
    with pytest.raises(StopError):
        pretrain(config, [corpus], tmp_path / "cut", "cpu", watch=_stop_at(4))
    resumed = pretrain(config, [corpus], tmp_path / "cut", "cpu")
    again = pretrain(config, [corpus], tmp_path / "cut", "cpu")  # nothing left to do
    saved = SkillModel.load(tmp_path / "cut")
    for model in (resumed, again, saved):
        for key, value in whole.state_dict().items():
            assert torch.equal(value, model.state_dict()[key]), key
    assert _typical_skills(saved, [corpus], config)[1] == pytest.approx(0.8, rel=1e-5)
    rows = read_log(tmp_path / "whole")
    assert [row["update"] for row in rows] == [2, 4, 6]
    assert rows[0]["scale"] != rows[1]["scale"] != rows[2]["scale"]


def test_only_continuous_skills_are_scaled(shrink):
    with pytest.raises(ValueError, match="only continuous skills .* not 'fsq'"):
        shrink("ablation-fsq", deviation=0.8)
    with pytest.raises(ValueError, match="not 'continuous' with the target 'recon"):
        shrink("ablation-recon", deviation=0.8)
    with pytest.raises(ValueError, match="deviation is 0.0, must be above 0"):
        shrink("lafan1", deviation=0.0)


def test_another_seed_holds_out_the_same_clips(shrink, corpus, tmp_path, capsys):
    """A controller of another seed must not be trained on what its skills never saw."""
    found = []
    for seed in (0, 1):
        config = shrink("smoke", seed=seed, held_out=0.3)
        job = Pretraining(
            *(config, [corpus], torch.device("cpu")),
            RunFolder(tmp_path / str(seed), config, "", "", "cpu"),
            Provenance("skill"),
        )
        found.append(job.trainer.motions.lengths.tolist())
    assert found[0] == found[1] and 0 < len(found[0]) < len(corpus)
    pretrain(config, [corpus], tmp_path / "run", "cpu")
    assert f"{6 - len(found[0])} of 6 clips are held out" in capsys.readouterr().out


def test_a_model_of_another_pose_layout_is_refused(shrink, corpus, tmp_path):
    """By its config, before any weight is looked at."""
    pretrain(shrink("smoke", updates=2), [corpus], tmp_path / "run", "cpu")
    path = tmp_path / "run" / "model" / "config.json"
    path.write_text(path.read_text().replace('"pose_size": 38', '"pose_size": 32'))
    with pytest.raises(ValueError, match="poses of 32 numbers"):
        SkillModel.load(tmp_path / "run")


def test_two_processes_never_train_in_one_folder(shrink, corpus, tmp_path):
    """The second is told so, and the first goes on."""
    message = []

    def watch(run):
        with pytest.raises(ValueError, match="another process trains here"):
            pretrain(shrink("smoke"), [corpus], tmp_path / "run", "cpu")
        message.append(run)

    pretrain(shrink("smoke"), [corpus], tmp_path / "run", "cpu", watch=watch)
    assert len(message) == 2


def test_patience_can_be_given_more(shrink, corpus, tmp_path, capsys):
    """A run that stopped says why, and goes on if it is allowed to."""
    config = shrink("lafan1", updates=40, patience=1, learning_rate=0.5)
    pretrain(config, [corpus], tmp_path / "run", "cpu")
    assert "no better for 1 evaluations" in capsys.readouterr().out
    stopped = read_log(tmp_path / "run")[-1]["update"]
    pretrain(replace(config, patience=3), [corpus], tmp_path / "run", "cpu")
    assert read_log(tmp_path / "run")[-1]["update"] > stopped


def test_a_damaged_checkpoint_is_named(shrink, corpus, tmp_path):
    """With what to do about it."""
    pretrain(shrink("smoke", updates=2), [corpus], tmp_path / "run", "cpu")
    path = tmp_path / "run" / "checkpoint" / "state.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="checkpoint: damaged"):
        pretrain(shrink("smoke", updates=4), [corpus], tmp_path / "run", "cpu")

"""Two processes train as one: the same losses, gradients and weights."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
import torch
from two_processes import in_two

from spectral_skills import distributed
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import WindowSampler
from spectral_skills.runs import RunFolder, read_log
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.pretrain import pretrain
from spectral_skills.skill.trainer import PretrainConfig, Trainer

RECIPES = ("ablation-ours", "ablation-vq", "authors", "ablation-categorical")
UPDATES = 3


@contextmanager
def _quick() -> Iterator[None]:
    """Statistics of fewer windows than usual: alike everywhere, and sooner there."""
    sample = WindowSampler.sample

    def fewer(self, count, generator=None):
        return sample(self, min(count, 2048), generator)

    with mock.patch.object(WindowSampler, "sample", fewer):
        yield


def _train(config: PretrainConfig, corpus: Path) -> dict:
    """Losses and gradients of the first update, and weights after a few."""
    with _quick():
        trainer = Trainer(config, Corpus.open(corpus).to("cpu"))
    losses = trainer.losses(1)
    losses.total.backward()
    distributed.average_gradients(trainer.parameters)
    gradients = {
        name: p.grad.clone()
        for name, p in trainer.model.named_parameters()
        if p.grad is not None
    }
    trainer.optimizer.zero_grad()
    values = torch.stack((losses.total, losses.prediction, losses.penalty)).detach()
    values = distributed.all_reduce_sum(values) / distributed.world_size()
    norms = [float(trainer.update(i)[1]) for i in range(1, UPDATES + 1)]
    return {
        "losses": torch.cat((values, losses.sigreg.detach()[None])),
        "norms": torch.tensor(norms),
        "gradients": gradients,
        "weights": trainer.model.state_dict(),
    }


def _run(config: PretrainConfig, corpus: Path, out: Path) -> dict:
    """A whole run: its weights, and how often its log was said to be new."""
    calls = []
    with _quick():
        model = pretrain(config, [Corpus.open(corpus)], out, "cpu", watch=calls.append)
    return {"weights": model.state_dict(), "calls": len(calls)}


def _all(corpus: Path, configs: dict, run: Path) -> dict:
    found = {name: _train(config, corpus) for name, config in configs.items()}
    found["run"] = _run(configs["ablation-vq"], corpus, run)
    return found


@pytest.fixture(scope="module")
def configs(shrink) -> dict[str, PretrainConfig]:
    return {name: shrink(name) for name in RECIPES}


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def two(configs, folder, out) -> list[dict]:
    """What each of two processes found."""
    return in_two(_all, out, folder, configs, out / "run")


@pytest.fixture(scope="module")
def one(configs, folder, out) -> dict:
    return _all(folder, configs, out / "alone")


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_have_the_losses_and_gradients_of_one(name, one, two):
    """Of the whole batch, on both."""
    for found in two:
        for key in ("losses", "norms"):
            torch.testing.assert_close(
                found[name][key], one[name][key], atol=1e-5, rtol=1e-4
            )
        assert found[name]["gradients"].keys() == one[name]["gradients"].keys()
        for key, wanted in one[name]["gradients"].items():
            scale = float(wanted.abs().max())
            apart = (found[name]["gradients"][key] - wanted).abs().max()
            assert apart <= 1e-5 * max(scale, 1.0), key


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_reach_the_weights_of_one(name, one, two, configs):
    """After three updates; a codebook and its averages too."""
    first, second = (found[name]["weights"] for found in two)
    for key, wanted in one[name]["weights"].items():
        assert torch.equal(first[key], second[key]), key
        apart = (first[key] - wanted).abs()
        # Adam's first steps have the size of the rate however small the gradient,
        # so a rounding error in one that is zero shows; it must be rare.
        assert apart.mean() < 0.02 * configs[name].learning_rate, key
        if "bottleneck" in key:
            assert apart.max() < 1e-3, key


def test_a_run_of_two_is_the_run_of_one(one, two, out):
    """The same evaluations in one log, and the same model at the end."""
    together, alone = read_log(out / "run"), read_log(out / "alone")
    assert [row["update"] for row in together] == [row["update"] for row in alone]
    for row, wanted in zip(together, alone, strict=True):
        for key in ("held_out", "shuffled", "skill_std", "sigreg", "gradient_norm"):
            assert row[key] == pytest.approx(wanted[key], rel=1e-3), key
    for found in two:
        for key, wanted in one["run"]["weights"].items():
            assert (found["run"]["weights"][key] - wanted).abs().mean() < 1e-4, key
    stored = SkillModel.load(out / "run").state_dict()
    for key, value in two[0]["run"]["weights"].items():
        assert torch.equal(stored[key], value), key


def test_the_log_is_of_the_whole_batch(one, two, out):
    """Errors of the trained-on windows of all processes, not of the first one's."""
    together, alone = read_log(out / "run"), read_log(out / "alone")
    for row, wanted in zip(together, alone, strict=True):
        assert row["prediction"] == pytest.approx(wanted["prediction"], rel=1e-4)


def test_only_the_first_process_draws(two):
    """Who is told of a new log would draw it, and two would write one file."""
    assert [found["run"]["calls"] for found in two] == [2, 0]


def _leave() -> dict:
    if distributed.rank() == 0:
        time.sleep(1.0)  # as long as the first process writes a model
    begins = time.monotonic()
    distributed.leave()
    return {"begins": begins, "left": time.monotonic()}


def test_processes_leave_together(tmp_path):
    """One that left alone broke off what another still said, which aborted at exit."""
    first, second = in_two(_leave, tmp_path)
    assert second["left"] >= first["begins"] > second["begins"]


def test_a_process_may_come_while_another_begins(shrink, tmp_path):
    """The first one's config.json is not yet there under its name."""
    (tmp_path / ".config.json-x1y2z3").write_text("{")
    RunFolder(tmp_path, shrink("smoke"), "hash", "", "cpu")


def test_processes_see_different_windows(corpus, shrink, monkeypatch):
    """The shares of a batch, put together, are the batch."""
    with _quick():
        trainer = Trainer(shrink("smoke", batch=12), corpus.to("cpu"))
    whole = torch.stack(trainer.window_numbers(5))
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    parts = []
    for rank in range(3):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        parts.append(torch.stack(trainer.window_numbers(5)))
    assert torch.equal(torch.cat(parts, dim=1), whole)


def test_a_batch_that_cannot_be_shared_is_refused(corpus, shrink, monkeypatch):
    """By name of both numbers."""
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    with _quick(), pytest.raises(ValueError, match="32 cannot be shared equally by 3"):
        Trainer(shrink("smoke"), corpus.to("cpu"))


@pytest.fixture(scope="module")
def launched(folder, tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path]:
    """`torchrun --nproc-per-node 2 $(which spectral) pretrain smoke ...`."""
    out = tmp_path_factory.mktemp("torchrun") / "run"
    script = out.parent / "spectral"
    script.write_text("from spectral_skills.cli.main import main\n\nmain()\n")
    settings = {
        "--corpus": folder,
        "--out": out,
        "--device": "cpu",
        "--updates": 4,
        "--batch": 32,
        "--evaluate-every": 2,
        "--checkpoint-every": 2,
        "--evaluation-windows": 32,
    }
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    options = [str(x) for pair in settings.items() for x in pair]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(script), "pretrain", "smoke", *options],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return done, out


def test_the_verb_runs_under_torchrun(launched):
    """As documented: one run folder, one model, nothing temporary left."""
    done, out = launched
    assert done.returncode == 0, done.stderr
    assert [row["update"] for row in read_log(out)] == [2, 4]
    files = {"config.json", "log.jsonl", "curves.png"}
    folders = {"tensorboard", "checkpoint", "model"}
    assert {path.name for path in out.iterdir()} == files | folders
    assert len(list((out / "tensorboard").iterdir())) == 1
    assert done.stdout.count("model     ") == 1
    model = SkillModel.load(out)
    assert all(p.isfinite().all() for p in model.parameters())


def test_only_the_first_process_talks(launched):
    """One line for every evaluation."""
    calls = [line for line in launched[0].stdout.splitlines() if "held-out" in line]
    assert len(calls) == 2

"""Planners: from noise to commands in four steps, and back from a folder."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_planner import ABOUT, HEAD, SKILL, Letters, make_planner, make_rows

from spectral_skills import artifact
from spectral_skills.artifact import Provenance
from spectral_skills.planner.model import (
    Planner,
    PlannerConfig,
    check_match,
    check_text,
)

TEXT = Letters().encode(["walk", "go forward now", "turn around"])


def _history(n: int = 3) -> torch.Tensor:
    return torch.randn(n, 10, 93)


def _save(planner: Planner, folder: Path, kind: str) -> None:
    artifact.save(folder, planner.config, planner.state_dict(), Provenance(kind))


def test_a_plan_is_four_euler_steps():
    """At times 0, 250, 500 and 750, of a quarter each, in the units of commands."""
    planner, history, noise = make_planner(), _history(), torch.randn(3, 30, SKILL)
    state = planner.normalize_history(history)
    chunk = noise
    for bucket in (0, 250, 500, 750):
        times = torch.full((3,), bucket)
        chunk = chunk + planner.head(chunk, times, state, *TEXT) / 4
    want = chunk * planner.chunk_std + planner.chunk_mean
    assert torch.allclose(planner.plan(history, TEXT, noise), want, atol=1e-5)


def test_one_sentence_is_for_all_robots():
    """As if it were said to each."""
    planner, history, noise = make_planner(), _history(), torch.randn(3, 30, SKILL)
    one = Letters().encode(["walk"])
    three = Letters().encode(["walk"] * 3)
    found = planner.plan(history, one, noise)
    assert torch.allclose(found, planner.plan(history, three, noise), atol=1e-5)
    assert planner.plan(history, one).shape == (3, 30, SKILL)


def test_statistics_are_those_of_the_rows():
    """One mean for all frames and one for all steps; a still coordinate is kept small,
    and a wild one is cut off."""
    planner = make_planner()
    batch = make_rows().batch(torch.arange(20), "skill")
    chunk = planner.normalize_chunk(batch.chunk).flatten(0, 1)
    assert torch.allclose(chunk.mean(0), torch.zeros(SKILL), atol=1e-5)
    assert torch.allclose(chunk.std(0), torch.ones(SKILL), atol=1e-5)
    still = batch._replace(chunk=torch.ones_like(batch.chunk))
    planner.fit(still)
    assert torch.allclose(planner.chunk_std, torch.full((SKILL,), 0.01))
    wild = planner.normalize_history(1e6 * batch.history)
    assert wild.shape == (20, 930) and wild.abs().max() == 10


def test_a_planner_holds_nothing_of_its_sentences():
    """Only its head and statistics; texts are encoded by what asks for a plan."""
    names = {"history_mean", "history_std", "chunk_mean", "chunk_std"}
    for planner in (make_planner(), Planner.load("base")):
        own = {n for n in planner.state_dict() if not n.startswith("head.")}
        assert own == names


def test_a_folder_gives_the_planner_back(tmp_path):
    """All of it, config and numbers; a run's folder will do."""
    planner, history, noise = make_planner(), _history(), torch.randn(3, 30, SKILL)
    _save(planner, tmp_path / "run" / "model", "planner")
    again = Planner.load(tmp_path / "run")
    assert again.config == planner.config
    for name, value in planner.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    found = again.plan(history, TEXT, noise)
    assert torch.allclose(found, planner.plan(history, TEXT, noise), atol=1e-6)


def test_a_released_planner_is_half_as_large(tmp_path, monkeypatch):
    """bf16 in shards, float32 once loaded; statistics are exact."""
    planner, history, noise = make_planner(), _history(), torch.randn(3, 30, SKILL)
    monkeypatch.setattr(artifact, "SHARD_BYTES", 20_000)
    monkeypatch.setattr("spectral_skills.artifact.PRETRAINED", tmp_path)
    planner.release(tmp_path / "planner", Provenance("planner"))
    shards = list((tmp_path / "planner").glob("weights-*"))
    assert len(shards) > 2
    _, weights = artifact.load(tmp_path / "planner", PlannerConfig)
    assert weights["head.last.weight"].dtype == torch.bfloat16
    small = Planner.load("base")
    assert all(value.dtype == torch.float32 for value in small.state_dict().values())
    for name, value in planner.named_buffers():
        assert torch.equal(small.state_dict()[name], value), name
    near = small.plan(history, TEXT, noise) - planner.plan(history, TEXT, noise)
    assert 0 < near.abs().max() < 0.05


def test_folders_of_other_models_are_refused(tmp_path):
    """By their kind, before their weights; weights that do not fit, by name."""
    planner = make_planner()
    _save(planner, tmp_path / "skill", "skill")
    with pytest.raises(ValueError, match="a skill model, not a planner"):
        Planner.load(tmp_path / "skill")
    config = replace(planner.config, head=replace(HEAD, layers=4))
    weights = planner.state_dict()
    artifact.save(tmp_path / "other", config, weights, Provenance("planner"))
    with pytest.raises(ValueError, match="do not fit config.json"):
        Planner.load(tmp_path / "other")
    with pytest.raises(ValueError, match="states of 93 numbers"):
        replace(planner.config, head=replace(HEAD, state=93))


def test_a_planner_knows_what_it_was_made_for():
    """Controller, skill model and language model; rows of poses need no skill model."""
    planner = make_planner()
    controller, other = (
        Provenance("controller", weights_hash=one) for one in ("the controller", "x")
    )
    rounded = replace(other, parents={"unrounded": "the controller"})
    check_match(planner, controller, "the encoder")
    check_match(planner, rounded, "the encoder")
    with pytest.raises(ValueError, match="controller the controller, this one is x"):
        check_match(planner, other, "the encoder")
    with pytest.raises(ValueError, match="encoder the encoder, .* model's is x"):
        check_match(planner, controller, "x")
    with pytest.raises(ValueError, match="is none"):
        check_match(planner, controller, "")
    about = replace(ABOUT, encoder="", command="pose")
    planner.config = replace(planner.config, about=about)
    check_match(planner, controller, "anything")
    check_text(planner, Letters())
    other = Letters()
    other.name = "numbers"
    with pytest.raises(ValueError, match="sentences of letters, not of numbers"):
        check_text(planner, other)

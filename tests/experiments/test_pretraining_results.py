"""What a run and its directions say of themselves, as results."""

import json

import numpy as np
import pytest

from spectral_skills.artifact import PRETRAINED
from spectral_skills.experiments.skills import direction_results, skill_space_results
from spectral_skills.spectral.direction_file import Directions


@pytest.fixture
def run(tmp_path):
    """A run of 3,000 updates, best at 2,000."""
    rows = [
        {
            "update": update,
            "prediction": 0.1,
            "held_out": 0.05 + abs(update - 2000) / 1e5,
            "held_out_levels": [0.2, 0.01],
            "shuffled": 0.4,
            "skill_std": update / 2500,
            "sigreg": 0.02,
            "seconds": 1.0,
        }
        for update in range(250, 3001, 250)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "log.jsonl").write_text(lines)
    about = {
        "config": {"seed": 3, "evaluation_windows": 64},
        "data": "abcdef012345",
        "command": "spectral pretrain lafan1 --corpus lafan1",
        "hardware": "a processor",
    }
    (tmp_path / "config.json").write_text(json.dumps(about))
    return tmp_path


def test_best_and_round_updates_are_told(run):
    """500, 1,000, 2,000 and the last, each once; the statements are of the best."""
    results = skill_space_results(run, None, "LAFAN1")
    rows = [r.row for r in results if r.metric == "held out"]
    assert rows == [f"update {n:,}" for n in (500, 1000, 2000, 3000)]
    cells = {(r.row, r.metric): r for r in results}
    assert cells["best held-out error", "update"].value == 2000
    assert cells["best held-out error", "update"].paper == "2,000 to 3,000"
    assert cells["corpus skills", "std of a dimension"].value == pytest.approx(0.8)


def test_results_are_traced_to_their_run(run):
    """Seed, data, command and hardware come from the run's own folder."""
    for result in skill_space_results(run, None, "mine"):
        assert (result.seed, result.run) == (3, "abcdef01")
        assert result.command.startswith("spectral pretrain lafan1")
        assert result.hardware == "a processor"


def test_a_folder_without_a_log_is_explained(tmp_path):
    """It is no run."""
    with pytest.raises(ValueError, match="no training run"):
        skill_space_results(tmp_path, None, "mine")


def test_spectrum_of_the_released_directions():
    """Gains fall with rank; counts are of the 64 spectral directions."""
    directions = Directions.load(PRETRAINED / "directions.safetensors")
    results = direction_results(directions, "the embedded corpus")
    gains = [r.value for r in results if "gain" in r.table]
    assert gains == sorted(gains, reverse=True) and len(gains) == 9
    values = {r.metric: r.value for r in results}
    agreed = values["directions that halves of the contexts agree on"]
    assert agreed == directions.determined[10:64].sum()


def test_ranks_that_a_small_space_has_not_are_left_out():
    """Eight directions: nothing is said of ranks from 11 on."""
    directions = Directions.load(PRETRAINED / "directions.safetensors")
    few = directions.select(directions.family("spectral")[:8])
    results = direction_results(few, "mine")
    assert all(np.isfinite(r.value) for r in results)
    rows = {r.row for r in results if "statements" in r.table}
    assert rows == {"ranks 1 to 10", "ranks 1 to 64"}

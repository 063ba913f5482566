"""Rows of a controller's training, from its log."""

import json

import pytest

from spectral_skills.experiments.skills import tracking_results


@pytest.fixture
def run(tmp_path):
    about = {
        "config": {"probe_clips": 256, "seed": 3},
        "data": "0123456789",
        "command": "spectral track release",
        "hardware": "a GPU",
    }
    (tmp_path / "config.json").write_text(json.dumps(about))
    plain = {"frames": 1e6, "seconds": 30.0, "failures_per_s": 1.0, "episode_s": 2.0}
    plain["frames_per_s"] = 4e5
    probe = {"success_rate": 0.5, "mpjpe_local_mm": 20.0, "mpjpe_global_mm": 90.0}
    rows = [plain, plain | {"success_rate": 0.0}, plain | probe | {"frames": 6e7}]
    rows.append(rows[-1] | {"frames": 8e7, "followed": 0.25, "probed": 4.0})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "log.jsonl").write_text(text)
    return tmp_path


def test_every_probe_that_tracked_something_is_a_row(run):
    results = tracking_results(run, "clips")
    assert {r.row for r in results} == {"60 M frames", "80 M frames"}
    first, values = (
        {r.metric: r.value for r in results if r.row == f"{millions} M frames"}
        for millions in (60, 80)
    )
    assert values == first | {"followed": 25}
    assert values["success"] == 50 and values["time"] == 0.5
    assert values["MPJPE-G"] == 90
    assert {(r.seed, r.run) for r in results} == {(3, "01234567")}
    # A run that did not write how many clips there were has as many as were asked for.
    assert {r.n for r in results if r.row == "60 M frames"} == {256}
    assert {r.n for r in results if r.row == "80 M frames"} == {4}


def test_a_run_without_probes_says_so(run):
    (run / "log.jsonl").write_text("")
    with pytest.raises(ValueError, match="no probe"):
        tracking_results(run, "clips")

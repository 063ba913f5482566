"""The paper's tables of LAFAN1: known failures give known counts and errors."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from followers import Followers

from spectral_skills import rotation
from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments import lafan1
from spectral_skills.experiments.tracking import Rows
from spectral_skills.models import Models
from spectral_skills.motion import motion_sets
from spectral_skills.plots import lafan1 as lafan1_page
from spectral_skills.robot import g1

KINDS = ("walk", "walk", "walk", "run", "fall", "fall")
ROWS = 61


def whole_and_first() -> tuple[Episodes, Episodes]:
    """Six clips and their first 31 frames.

    0 is on its reference; 1 is 10 mm beside it, 61 frames instead of 31; 2 is 0.3 m too
    low from frame 20 on, but for the last frame; 3 turns by 1.2 rad at frame 40; 4 lies
    down with its reference; 5 is broken at frame 10, and 30 mm away otherwise.
    """
    stands = torch.tensor(g1.DEFAULT_QPOS).float().expand(ROWS, 6, -1).clone()
    stands[20:, 4, 2] = 0.2
    robot = stands.clone()
    robot[1:, 1, 0] += 0.010
    robot[20:60, 2, 2] -= 0.30
    robot[40:, 3, 3:7] = rotation.from_yaw(torch.tensor(1.2))
    robot[1:, 5, 1] += 0.030
    robot[10, 5] = torch.nan
    record = Rollout(
        robot=robot,
        reference=stands,
        lengths=torch.tensor([31, 61, 61, 61, 61, 61]),
        actions=torch.zeros(ROWS - 1, 6, g1.NUM_JOINTS),
        names=tuple(f"clip{i}" for i in range(6)),
    )
    return metrics.episodes(record), metrics.episodes(record.first(31))


def values(rows: Rows) -> dict[str, dict[str, tuple[float, int]]]:
    return {row: {m.name: (m.value, m.n) for m in found} for row, found in rows.items()}


def test_known_failures_of_whole_clips_give_known_counts():
    clips, _ = whole_and_first()
    found = values(lafan1.whole_rows(clips, KINDS))
    ended = found["whole clips, terminating"]
    assert ended["success"] == (3, 6) and ended["get_ups"] == (1, 2)
    assert ended["failed_anchor_height"] == (1, 6)
    assert ended["failed_anchor_orientation"] == (1, 6)
    assert ended["failed_end_effector_height"] == (0, 6)
    assert ended["failed_broken"] == (1, 6)
    # 30, 60 and 60 frames to the end; 19, 39 and 9 before a failure.
    assert ended["survived_steps"][0] == pytest.approx((30 + 60 + 60 + 19 + 39 + 9) / 6)
    assert ended["mpjpe_global_mm"] == (pytest.approx(10 * 60 / 150, rel=1e-3), 3)
    assert ended["action_rate"] == (0, 3)

    free = found["whole clips, no termination"]
    assert free["fall_free_relative"] == (4, 6)
    assert free["fall_free_relative_without_get_ups"] == (3, 4)
    assert free["broken_frames"] == (1, 6)
    turned = clips.whole_global_mm[3]
    assert turned > 20
    each = [0, 10, 200, turned, 0, 30]
    assert free["mpjpe_global_mean_mm"] == (pytest.approx(np.mean(each), rel=1e-3), 6)
    assert free["mpjpe_global_median_mm"] == (
        pytest.approx(np.median(each), rel=1e-3),
        6,
    )
    weights = [30, 60, 60, 60, 60, 59]
    for row, chosen in (
        ("", [0, 1, 2, 3, 4, 5]),
        (": without a fall", [0, 1, 3, 4]),
        (": fall and get up", [4, 5]),
    ):
        mean = np.average(np.take(each, chosen), weights=np.take(weights, chosen))
        value, n = found["whole clips, no termination" + row]["mpjpe_global_mm"]
        assert (value, n) == (pytest.approx(mean, rel=1e-3), len(chosen)), row
    # 19 frames without error of clip 2, 9 of 30 mm of clip 5.
    before = np.average([0, 10, 0, turned, 0, 30], weights=[30, 60, 19, 60, 60, 9])
    value, n = found["whole clips, no termination: before a fall"]["mpjpe_global_mm"]
    assert (value, n) == (pytest.approx(before, rel=1e-3), 6)

    walk = found["whole clips, walk"]
    assert walk["success"] == (2, 3) and walk["failed_anchor_height"] == (1, 3)
    assert found["whole clips, fall"]["failed_broken"] == (1, 2)
    assert walk["progress"][0] == pytest.approx((1 + 1 + 19 / 60) / 3)


def test_known_failures_of_beginnings():
    """Clip 3 turns later; clip 4 is down with its reference, 5 was broken."""
    _, clips = whole_and_first()
    found = values(lafan1.first_rows(clips))
    ended = found["first 15 s, terminating"]
    assert ended["success"] == (4, 6)
    assert ended["mpjpe_global_mm"] == (pytest.approx(10 / 4, rel=1e-3), 4)
    sunk = 300 * 11 / 30
    every = found["first 15 s, no termination"]["mpjpe_global_mm"]
    mean = np.average([0, 10, sunk, 0, 0, 30], weights=[30] * 5 + [29])
    assert every == (pytest.approx(mean, rel=1e-3), 6)
    high = found["first 15 s, no termination: torso never below 0.4 m"]
    assert high["clips"] == (4, 6)
    assert high["mpjpe_global_mm"] == (pytest.approx((10 + sunk) / 4, rel=1e-3), 4)


def test_windows_by_kind_and_in_all():
    windows, _ = whole_and_first()
    found = values(lafan1.window_rows(windows, KINDS))
    assert found["windows"]["complete"] == (3, 6)
    # A pelvis 0.3 m too low leaves the torso above 0.4 m.
    assert found["windows"]["fall_free"] == (5, 6)
    assert found["windows"]["fall_free_relative"] == (4, 6)
    mean = np.mean([0, 10, 200, windows.whole_global_mm[3], 0, 30])
    assert found["windows"]["mpjpe_global_mean_mm"][0] == pytest.approx(mean, rel=1e-3)
    assert found["all"]["success_rate"] == (0.5, 6)
    assert found["all"]["mpjpe_global_mm"] == (pytest.approx(4, rel=1e-3), 3)
    assert found["windows, run"]["failed_anchor_orientation"] == (1, 1)
    kind_rows = [row for row in found if row.startswith("windows, ")]
    for metric in ("complete", "fall_free", "failed_anchor_height"):
        total = sum(found[row][metric][0] for row in kind_rows)
        assert total == found["windows"][metric][0]


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory):
    """The names of LAFAN1 in another order and one more, on clips of a second."""
    names = [*motion_sets.LAFAN1_CLIPS[::-1], "extra"]
    clips = [make_clip(name, 40 + i % 7, seed=i) for i, name in enumerate(names)]
    return make_corpus(tmp_path_factory.mktemp("lafan1") / "clips", clips)


@pytest.fixture
def evaluate(corpus, encoder, make_controller, monkeypatch):
    """Two windows of 20 frames a clip, and first frames of 30; by robots that follow,
    but for one that drops at frame 10 of a clip."""
    monkeypatch.setattr(lafan1, "STARTS", 2)
    monkeypatch.setattr(lafan1, "WINDOW_FRAMES", 20)
    monkeypatch.setattr(lafan1, "FIRST_FRAMES", 30)

    def make(drop: str = "", whole: bool = True):
        def physics(count: int) -> Any:
            return Followers(count, corpus, drop=drop)

        models = Models(make_controller(), encoder)
        return lafan1.evaluate(models, corpus, whole=whole, physics=physics)

    return make


def test_robots_on_their_references_complete_everything_without_error(evaluate):
    found = evaluate()
    cells = {(r.row, r.metric): r for r in found.results}
    for line in lafan1.LINES:
        if not line.paper or line.row.endswith("fall and get up"):
            continue
        result = cells[line.row, line.metric]
        assert result.paper == line.paper and result.seed == 0
        if result.unit == "mm":
            assert result.value == pytest.approx(0, abs=1e-3), line
        elif line.metric.startswith("failed"):
            assert result.value == 0
        elif line.metric != "survived_steps":
            assert result.value == result.n, line
    assert cells["windows", "complete"].n == 80
    assert cells["windows", "complete"].paper == "594 at 6 B, 639 at 27 B"
    assert cells["windows", "fall_free_relative"].paper == "688 at 27 B"
    assert cells["whole clips, terminating", "get_ups"].n == 6
    without = cells["whole clips, no termination", "fall_free_relative_without_get_ups"]
    assert without.n == 34
    settings = [o.setting for o in found.outcomes]
    assert [settings.count(s) for s in ("windows", "whole clips", "first 15 s")] == [
        *(80, 40, 40)
    ]
    # In the paper's order, whatever the corpus's.
    names = [o.name for o in found.outcomes if o.setting == "whole clips"]
    assert names == list(motion_sets.LAFAN1_CLIPS)
    assert "extra" not in {o.name for o in found.outcomes}


def test_a_failure_is_in_the_clip_and_in_the_windows_that_pass_it(evaluate):
    found = evaluate(drop="jumps1_subject1")
    bad = [o for o in found.outcomes if not o.success]
    assert {o.name for o in bad} == {"jumps1_subject1"}
    passing = [
        o
        for o in found.outcomes
        if o.name == "jumps1_subject1" and o.start < 10 < o.start + o.frames
    ]
    assert bad == passing and len(bad) >= 2
    assert all(o.start + o.failed_at == 10 for o in bad)
    cells = {(r.row, r.metric): r.value for r in found.results}
    assert cells["whole clips, jump", "success"] == 2
    assert cells["whole clips, jump", "failed_anchor_height"] == 1
    assert cells["first 15 s, terminating", "success"] == 39


def test_windows_alone(evaluate):
    found = evaluate(whole=False)
    assert {o.setting for o in found.outcomes} == {"windows"}
    rows = {r.row.split(",")[0] for r in found.results}
    assert rows == {"windows", "all"}


def test_six_clips_fall_and_get_up():
    names = [
        n for n in motion_sets.LAFAN1_CLIPS if motion_sets.kind(n) == lafan1.GET_UP
    ]
    assert len(names) == 6 and all(name.startswith("fallAndGetUp") for name in names)


@pytest.mark.parametrize("whole", [True, False])
def test_the_page_has_both_tables_and_two_pictures(evaluate, whole, tmp_path, capsys):
    found = evaluate(drop="dance1_subject1", whole=whole)
    out = tmp_path / "lafan1.jsonl"
    lafan1_page.write(found.results, found.outcomes, out)
    page = (tmp_path / "lafan1.md").read_text()
    assert re.search(r"\| complete \| \d+ \| 594 \| 639 \| - \| 80 \|", page)
    assert ("| complete | 39 | 10 | 17 | 0 | 40 |" in page) == whole
    assert ("| whole clips, dance | 8 | 7 | 7 | 7 | 0 | 0 | 1 | 0 |" in page) == whole
    assert "default_rng((0, i))" in page
    for picture in re.findall(r"\]\((.*?)\)", page):
        assert (tmp_path / picture).stat().st_size > 10_000
    assert page.count(".png") == 2
    lafan1_page.show(found.results)
    shown = capsys.readouterr().out
    assert "whole clips, no termination" in shown or not whole

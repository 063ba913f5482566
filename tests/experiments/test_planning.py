"""The tables of planners: which rows there are, and what they say."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from obliging import with_planner
from rehearsed import Broken, Rehearsed, motions

from spectral_skills.experiments.planning import fsq, interfaces
from spectral_skills.experiments.stage import EpisodeScores, sentences


class Asked:
    """A stage on which nothing runs: every question gets the same scores."""

    names, episodes, seed, device = ("stand_1", "walk_1"), 2, 3, torch.device("cpu")
    corpus = "corpus"

    def __init__(self):
        self.asked: list[tuple] = []
        self.score = EpisodeScores(
            success=np.array([True, True, True, False]),
            local_mm=np.array([10.0, 20.0, np.nan, 30.0]),
            global_mm=np.array([50.0, 60.0, 70.0, 80.0]),
            fell=np.array([False, False, False, True]),
        )

    def text(self, said) -> Any:
        return tuple(said)

    def oracle(self, who) -> EpisodeScores:
        self.asked.append(("oracle", who))
        return self.score

    def planned(
        self, who, text, every, ensemble=False, odometry=False
    ) -> EpisodeScores:
        known = who.skill_planner.config.about.motions
        assert text == tuple(m.sentences for m in known)
        self.asked.append((who, every, ensemble, odometry))
        return self.score


SEES_TEN: Any = SimpleNamespace(last=9)


def knows(stage: Any, encoder: Any = SEES_TEN) -> Any:
    """Models whose planner has learned the motions of a stage."""
    about = SimpleNamespace(motions=motions(stage))
    planner = SimpleNamespace(config=SimpleNamespace(about=about))
    return SimpleNamespace(
        encoder=encoder, skill_planner=planner, hashes={"planner": "abc"}
    )


@pytest.fixture
def asked() -> Any:
    return Asked()


def rows(findings) -> list[str]:
    return list(dict.fromkeys(result.row for result in findings.results))


def test_every_route_is_tried_at_every_interval_that_it_can_last(asked):
    """An encoder sees ten poses: plans of thirty poses last 21 steps. Poses are tried
    with odometry too, but not where they are planned anew at every step."""
    one, two, three = knows(asked), knows(asked), knows(asked, encoder=None)
    found = interfaces(asked, one, two, three)
    assert asked.asked == [
        ("oracle", one),
        *((one, every, False, False) for every in (1, 10, 21, 30)),
        *((two, every, False, False) for every in (1, 10, 21)),
        *((two, every, False, True) for every in (10, 21)),
        ("oracle", three),
        *((three, every, False, False) for every in (1, 10, 21, 30)),
        *((three, every, False, True) for every in (10, 21, 30)),
    ]
    assert len(rows(found)) == len(asked.asked)


def test_routes_that_are_not_given_are_left_out(asked):
    found = interfaces(asked, knows(asked), every=(10,))
    assert rows(found) == ["Skill tracker: oracle", "Skills (z to z), N=10"]


def test_rows_stand_beside_the_paper_s(asked):
    found = interfaces(asked, knows(asked), knows(asked), knows(asked, encoder=None))
    paper = {(r.row, r.metric): r.paper for r in found.results}
    for row, metric, value in (
        ("Skill tracker: oracle", "mpjpe_local_mm", "17.19"),
        ("Skills (z to z), N=1", "success_rate", "0.843"),
        ("Skills (z to z), N=30", "mpjpe_global_mm", "251.2"),
        ("Re-encode (o to z), N=21", "success_rate", "0.546"),
        ("Explicit tracker: oracle", "mpjpe_local_mm", "17.64"),
        ("Explicit (o to o), N=10", "mpjpe_local_mm", "116.46"),
        ("Skills (z to z), N=21", "success_rate", ""),
        ("Re-encode (o to z), odometry, N=10", "success_rate", ""),
        ("Skill tracker: oracle", "fall_free_share", ""),
    ):
        assert paper[row, metric] == value, (row, metric)


def test_cells_are_means_of_all_episodes(asked):
    """What is not a number, as of an episode that fell at once, is left out."""
    found = interfaces(asked, knows(asked), every=(1,))
    cells = [r for r in found.results if r.row == "Skill tracker: oracle"]
    assert {r.metric: (r.value, r.unit) for r in cells} == {
        "mpjpe_local_mm": (20.0, "mm"),
        "mpjpe_global_mm": (65.0, "mm"),
        "success_rate": (0.75, ""),
        "fall_free_share": (0.75, ""),
    }
    assert {(r.table, r.n, r.seed, r.run) for r in cells} == {
        ("Planning: interfaces", 4, 3, "abc")
    }
    assert {r.models for r in cells} == {"planner abc, corpus corpus"}


def test_where_all_fell_at_once_there_is_no_error(asked):
    asked.score = replace(asked.score, local_mm=np.full(4, np.nan))
    found = interfaces(asked, knows(asked), every=(1,))
    assert "mpjpe_local_mm" not in {r.metric for r in found.results}
    assert all(np.isfinite(r.value) for r in found.results)


def test_charts_show_success_over_intervals_and_motions(asked):
    found = interfaces(asked, knows(asked), knows(asked))
    lines, bars = found.charts
    assert [(s.name, s.x, s.y) for s in lines.series] == [
        ("Skills (z to z)", (1.0, 10.0, 21.0, 30.0), (0.75,) * 4),
        ("Re-encode (o to z)", (1.0, 10.0, 21.0), (0.75,) * 3),
        ("Re-encode (o to z), odometry", (10.0, 21.0), (0.75,) * 2),
    ]
    assert [s.name for s in bars.series] == [
        *("Skills (z to z), N=10", "Re-encode (o to z), N=10")
    ]
    assert all(s.y == (1.0, 0.5) and s.marks == asked.names for s in bars.series)


def test_of_an_fsq_tracker_plans_are_made_every_ten_steps(asked):
    latent, poses = knows(asked), knows(asked)
    found = fsq(asked, latent, poses)
    assert asked.asked == [
        ("oracle", latent),
        (latent, 10, True, False),
        (latent, 10, False, False),
        (poses, 10, False, False),
    ]
    paper = {r.row: r.paper for r in found.results if r.metric == "mpjpe_global_mm"}
    assert paper == {
        "FSQ tracker: oracle": "90.5",
        "FSQ latent, temporal ensembling": "220.5",
        "FSQ latent, no ensembling": "246.5",
        "FSQ re-encode": "252.0",
    }
    assert found.experiment == "fsq"
    assert [s.name for s in found.charts[0].series] == list(paper)[1:]


def test_sentences_are_those_that_a_planner_has_learned(asked):
    learned = sentences(knows(asked), asked)
    other = sentences(knows(asked), asked, held_out=True)
    assert learned[1] == ("do walk_1", "now walk_1 please")
    assert other[1] == ("perform walk_1 anew",)


def test_a_planner_of_other_motions_is_refused(asked):
    models = knows(asked)
    asked.names = (*asked.names, "bow_1")
    with pytest.raises(ValueError, match="has not learned bow_1"):
        sentences(models, asked)
    with pytest.raises(ValueError, match="has not learned bow_1"):
        interfaces(asked, models)


def test_a_real_table_counts_plans_that_were_refused(stage, tmp_path):
    """Four robots, six plans each; one robot gets five that are nonsense."""
    found = interfaces(stage, with_planner(Broken(stage, 10)), every=(10,))
    values = {(r.row, r.metric): r.value for r in found.results}
    assert values["Skills (z to z), N=10", "plans_refused"] == 5
    assert ("Skill tracker: oracle", "plans_refused") not in values
    assert values["Skill tracker: oracle", "success_rate"] == 1.0
    best = interfaces(stage, with_planner(Rehearsed(stage, 10)), every=(10,))
    assert all(r.value == 1.0 for r in best.results if r.metric == "success_rate")
    saved = json.loads(best.save(tmp_path).read_text())
    assert saved["experiment"] == "interfaces" and len(saved["results"]) == 8

"""Words that were not learned, words that change, and what robots then do."""

from types import SimpleNamespace

import pytest
import torch
from obliging import Letters, Obliging, actor, with_planner
from rehearsed import Rehearsed, motions

from spectral_skills.experiments import planning as module
from spectral_skills.experiments.planning import (
    PERIOD,
    Recogniser,
    add_changes,
    instructions,
    language,
)
from spectral_skills.experiments.stage import ScoreTable, Stage
from spectral_skills.results import Result

SETTLED = 20


@pytest.fixture
def quick(monkeypatch):
    """Words change every 40 steps."""
    monkeypatch.setattr(module, "PERIOD", 40)
    monkeypatch.setattr(module, "SETTLED", SETTLED)


@pytest.fixture(scope="module")
def recognise(stage) -> Recogniser:
    return Recogniser(actor(), stage)


def test_the_motions_themselves_are_recognised(stage, recognise):
    """Any part of them, wherever on the floor."""
    for first in (0, 60, 150):
        rows = [
            torch.tensor(stage.clips.rows[m][first : first + 60]) for m in (1, 0, 1)
        ]
        together = torch.stack(rows, dim=1)
        together[..., :2] += 3.0
        assert recognise(together).tolist() == [1, 0, 1]


def test_most_of_what_a_robot_does_decides(stage, recognise):
    stand, walk = (torch.tensor(stage.clips.rows[m][:100]) for m in (0, 1))
    for share, expected in ((0.3, 0), (0.7, 1)):
        frames = int(100 * share)
        rows = torch.cat((walk[:frames], stand[frames:]))
        assert recognise(rows[:, None], every=1).tolist() == [expected]


def test_robots_begin_with_their_own_motion_then_any_comes(stage):
    place = stage.of(stage.names, 20, 5 * PERIOD + 17)
    said = [m.sentences for m in motions(stage)]
    asked, texts = instructions(place, said)
    assert list(texts) == [0, 200, 400, 600, 800]
    assert len(asked) == 5 and torch.equal(asked[0], place.motion)
    for motion, text in zip(asked, texts.values(), strict=True):
        heard = set()
        for robot in range(40):
            own = Letters().encode(said[int(motion[robot])])
            states = text.states[robot]
            same = [torch.equal(s, states[: len(s)]) for s in own.states]
            fits = [
                s for s, ok in zip(said[int(motion[robot])], same, strict=True) if ok
            ]
            assert fits, "robots hear what they are asked for"
            heard.update(fits)
        assert len(heard) > 2, "in several words"
    assert set(asked[1].tolist()) == {0, 1}
    assert not torch.equal(asked[1], asked[2])
    again, _ = instructions(place, said)
    assert all(torch.equal(a, b) for a, b in zip(asked, again, strict=True))


def _values(findings) -> dict[tuple[str, str], float]:
    return {(r.row, r.metric): r.value for r in findings.results}


def test_learned_words_come_before_others(stage, quick):
    """First learned sentences, then only those that were not; then words change."""
    place = stage.of(stage.names, 1, 80)
    planner = Rehearsed(place, 30)
    found = language(place, with_planner(planner))
    heard, changing = planner.words[:9], planner.words[9:]
    learned, others, looked_up = heard[:3], heard[3:6], heard[6:]
    known = set(planner.config.about.sentences)
    assert all(set(plan) <= known for plan in (*learned, *looked_up, *changing))
    assert not any(set(plan) & known for plan in others)
    # Words that change are planned at once: at steps 0 and 30, then at 40 and 70.
    assert len(changing) == 4 and changing[0] == changing[1] != changing[2]
    values = _values(found)
    assert values["learned sentences", "success_rate"] == 1.0
    assert values["other words", "points lost"] == 0.0
    # They are far from what is known, and what is refused has failed.
    assert values["looked up", "refused"] == 2
    assert values["looked up", "points lost"] == 100.0
    assert values["instructions that change", "falls"] == 0
    assert values["instructions that change", "changes"] == 2
    assert values["instructions that change", "done as told"] == 1.0
    goals = {r.metric: r.paper for r in found.results if r.paper}
    assert goals == {"points lost": "within 5", "falls": "0"}
    (bars,) = found.charts
    assert [s.name for s in bars.series] == [
        "learned sentences",
        "other words",
        "looked up",
    ]
    assert bars.series[0].marks == stage.names


def changes(place: Stage) -> list[Result]:
    """Cells of changing words, by a planner that always lets robots stand."""
    models = with_planner(Obliging(motions(place)))
    table = ScoreTable("language", place, models)
    add_changes(table, models, 30)
    return table.results


def test_who_does_something_else_has_not_done_as_values(stage, quick):
    """A planner that always lets robots stand: half of them should."""
    place = stage.of(stage.names, 2, 80)
    results = changes(place)
    asked, _ = instructions(place, [m.sentences for m in motions(stage)])
    values = {r.metric: r for r in results}
    stand = torch.stack(asked) == 0
    # Robots that begin to walk do so for a moment, and are stopped.
    assert values["done as told"].value == pytest.approx(
        float(stand.float().mean()), 0.3
    )
    assert values["done as told"].value < 1 and values["done as told"].n == 8


def test_robots_have_time_to_change_and_those_that_fell_are_not_asked(
    stage, monkeypatch
):
    """For 28 of 40 steps all do the other motion; the last robot falls at step 50."""
    monkeypatch.setattr(module, "PERIOD", 40)
    monkeypatch.setattr(module, "SETTLED", 28)
    place = stage.of(stage.names, 2, 80)
    asked, _ = instructions(place, [m.sentences for m in motions(stage)])
    clips = torch.stack([torch.tensor(stage.clips.rows[m][:81]) for m in (0, 1)], 1)
    late = torch.arange(81) % 40 >= 28
    rows = torch.empty(81, 4, 36)
    for robot in range(4):
        for frame in range(81):
            motion = int(asked[min(1, frame // 40)][robot])
            rows[frame, robot] = clips[frame, motion if late[frame] else 1 - motion]
    rows[50:, 3, 2] = 0.1
    done = SimpleNamespace(robot=rows)
    monkeypatch.setattr(place, "execute", lambda *_: done)
    results = changes(place)
    values = {r.metric: (r.value, r.n) for r in results}
    assert values == {"changes": (4, 4), "falls": (1, 4), "done as told": (1.0, 7)}


def test_a_run_without_a_change_is_refused(stage):
    place = stage.of(stage.names, 1, 2 * PERIOD - 1)
    with pytest.raises(ValueError, match="399 steps .* at least 400"):
        language(place, with_planner(Rehearsed(place, 30)))

"""The ladder: stages, what is measured in them, the paper's table, a short corpus."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spectral_skills.control.batch import Executed, Run
from spectral_skills.control.steering import schedule
from spectral_skills.experiments import ladder
from spectral_skills.experiments.findings import Draft, paper
from spectral_skills.experiments.neighbours import Neighbours
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.robot import g1
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.support import ATTRIBUTES, describe_run

SHOULDER = 7 + g1.joint_index("right_shoulder_pitch")


@pytest.fixture(scope="module")
def near(tmp_path_factory, make_clip, make_corpus) -> Neighbours:
    folder = tmp_path_factory.mktemp("corpus") / "c"
    corpus = make_corpus(folder, [make_clip(f"walk{i}", 120, i) for i in range(3)])
    return Neighbours.build(SkillModel.load("base").encoder, corpus)


def _report() -> Draft:
    """A builder of findings of no models at all."""
    nothing: Any = SimpleNamespace(fingerprint="", models="", hardware="")
    return Draft("ladder", nothing)


def _executed(yaw_rate: float = 0.0, speed: float = 0.0) -> Executed:
    """A statue that slides ahead and turns, both from the second stage on."""
    steps, start = ladder.STEPS + 1, ladder.STAGES["+ right arm"].start
    rows = np.zeros((steps, 36))
    rows[:, 2], rows[:, 7:] = g1.DEFAULT_HEIGHT, g1.DEFAULT_JOINTS
    later = np.maximum(np.arange(steps) - start, 0) / FPS
    yaw = np.radians(yaw_rate) * later
    rows[:, 0] = speed * later
    rows[:, 3], rows[:, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
    rows[start:, SHOULDER] = -1.0
    base = Base("walk", np.repeat(rows[:1], steps, axis=0).astype(np.float32))
    return Executed(Run("ladder", base, np.zeros((steps - 1, 64), np.float32)), rows)


def test_stages_tell_what_was_done(near):
    found = ladder.stages(near, _executed(yaw_rate=30.0, speed=0.5))
    assert list(found) == list(ladder.STAGES)
    base, arm = found["base"], found["+ right arm"]
    assert base["speed"] == pytest.approx(0.0)
    assert base["yaw rate"] == pytest.approx(0.0)
    assert arm["speed"] == pytest.approx(0.5)
    assert arm["yaw rate"] == pytest.approx(30.0)
    assert arm["right shoulder pitch"] == pytest.approx(-1.0)
    assert "support" not in found["released"]
    # No clip of this corpus has an arm raised by a radian.
    assert found["+ right arm"]["support"] == 0


def test_stages_end_where_the_robot_falls(near):
    executed = _executed()
    executed.rows[ladder.STAGES["+ turn"].start + 5 :, 2] = 0.1
    assert list(ladder.stages(near, executed)) == ["base", "+ right arm"]


def test_distance_to_itself_is_nothing(near, make_clip):
    rows = make_clip("walk1", 120, 1).qpos()
    distances = near.distances(rows)
    assert distances[0] == pytest.approx(0.0, abs=1e-3)
    assert distances[1] > 0.01


def test_amplitudes_hold_through_the_stages():
    directions = Directions.load("base")
    knobs = ladder.knobs(directions)
    names = [str(knob.direction) for knob in knobs]
    assert names[:2] == ["right_arm", "turn"]
    lift = next(
        one["effects"][f"{math.copysign(2, knobs[2].amplitude):+g}"]
        for one in directions.measured
        if (one["direction"], one["base"]) == (names[2], "walk")
    )
    assert min(lift["left_apex"], lift["right_apex"]) > 0
    amplitudes = schedule(knobs, ladder.STEPS, names)
    full = [knob.amplitude for knob in knobs]
    assert [*full[:2], abs(full[2])] == [2.0, 1.2, 1.2]
    for count, steps in enumerate(ladder.STAGES.values()):
        wanted = [a if i < count < 4 else 0.0 for i, a in enumerate(full)]
        np.testing.assert_allclose(amplitudes[steps], [wanted] * len(amplitudes[steps]))


def test_paper_table_is_read():
    assert paper("ladder", "walk: + turn")["yaw rate, mean of seeds"] == "35"
    assert paper("ladder", "jog: + clearance")["right apex, SD of seeds"] == "1"
    assert paper("ladder", "backward: released")["distance"] == "2.65"
    assert paper("ladder", "jog: + clearance")["support, seed 0"] == "1"
    assert paper("ladder", "walk: base")["support"] == "90252"
    assert "support" not in paper("ladder", "walk: released")


def test_charts_mark_the_changes(near):
    one = _executed(yaw_rate=20.0, speed=0.5)
    report = _report()
    ladder.add_charts(report, "walk", one, one, near)
    charts = report.charts
    assert [chart.kind for chart in charts] == ["line"] * 5 + ["path", "line"]
    steered, unsteered = charts[1].series
    assert unsteered.marks == ()
    marked = [x for x, mark in zip(steered.x, steered.marks, strict=True) if mark]
    assert marked == pytest.approx([4.1, 8.1, 12.1, 17.1], abs=0.2)
    assert steered.y[-1] == pytest.approx(20.0, abs=1e-3)


def test_drift_is_from_the_motion_that_was_asked_for(near):
    """A robot that leaves a standing base: so far as it went, and as it turned."""
    one = _executed(yaw_rate=20.0, speed=0.5)
    seconds = (ladder.STEPS - ladder.STAGES["+ right arm"].start) / FPS
    report = _report()
    ladder.add_charts(report, "walk", one, one, near)
    *_, path, drift = report.charts
    assert drift.series[0].y[0] == 0.0
    assert drift.series[0].y[-1] == pytest.approx(0.5 * seconds)
    assert [series.role for series in path.series] == ["", "", "behind"]
    assert set(path.series[2].x) == {0.0}
    ladder.add_headings(report, {"walk": one})
    (turned,) = report.charts[-1].series
    assert turned.y[-1] == pytest.approx(20.0 * seconds)


def test_skills_of_windows_are_means(near):
    found = near.window_skills()
    assert found.shape == (len(near.windows.clips), 64)
    for i in (0, 3, len(found) - 1):
        clip, start = near.windows.clips[i], near.windows.starts[i]
        bank = near.bank
        inside = (bank.clips == clip) & (bank.times >= start)
        inside &= bank.times < start + FPS
        mean = bank.skills[inside].double().mean(dim=0)
        np.testing.assert_allclose(found[i], mean.numpy(), atol=1e-5)


def test_the_map_has_every_clip_and_the_trails(near):
    """A stage that is a clip's own skill lies near it; falls end a trail."""
    fallen = _executed()
    fallen.rows[ladder.STAGES["+ turn"].start :, 2] = 0.1
    trails = {
        "walk": ladder.trail(near, _executed()),
        "jog": ladder.trail(near, fallen),
        "backward": {},
    }
    report = _report()
    ladder.add_maps(report, near, trails)
    whole, corner = report.charts
    dots = [one for one in whole.series if one.role != "trail"]
    assert sum(len(one.x) for one in dots) == 6  # three clips and their mirror images
    assert {one.name for one in dots} == {"walk"}
    walk, jog = (one for one in whole.series if one.role == "trail")
    assert (len(walk.x), len(jog.x)) == (5, 2)
    assert walk.marks == ("walk", *("",) * 4)
    assert corner.series[-1].marks == tuple(ladder.STAGES)
    assert corner.series[-1].x == walk.x


def test_what_is_given_moves_along_arm_and_turn(near):
    """Windows are told apart by what they do; skills by their coordinates."""
    one, axes = _executed(), np.eye(64)[:2]
    assert one.run.skills is not None
    for stage, axis in zip(ladder.AMPLITUDES, axes, strict=False):
        steps = slice(ladder.BEGINS[stage], ladder.RELEASE)
        one.run.skills[steps] += ladder.AMPLITUDES[stage] * axis
    base = describe_run(one.run.base.rows)
    values = np.repeat(base[None], len(near.windows.values), axis=0)
    shoulder, turn = (ATTRIBUTES.index(n) for n in ("right_shoulder_pitch", "yaw_rate"))
    values[[0, 2], shoulder] -= 1.0
    values[[1, 2], turn] += 1.0
    values[3, shoulder] += 1.0  # the arm back is not raised
    values[4, ATTRIBUTES.index("forward_speed")] += 0.5
    near = replace(near, windows=replace(near.windows, values=values))
    report = _report()
    ladder.add_arm_and_turn(report, "walk", near, axes, one)
    (chart,) = report.charts
    like, raised, turns, both, given, done = chart.series
    assert [len(s.x) for s in (raised, turns, both)] == [1, 1, 1]
    assert len(like.x) == len(values) - 4 and like.role == "behind"
    np.testing.assert_allclose(given.x, (0, 2, 2, 2, 0), atol=1e-6)
    np.testing.assert_allclose(given.y, (0, 0, 1.2, 1.2, 0), atol=1e-6)
    assert given.marks == done.marks == tuple(ladder.STAGES)
    assert "both: 1." in chart.note


def test_seeds_that_stand_give_mean_and_deviation():
    def stage(value: float) -> dict[str, float]:
        return {"speed": value, "support": int(value)}

    report = _report()
    by_seed = {0: {"+ turn": stage(1.0)}, 1: {"+ turn": stage(3.0)}, 2: {}}
    ladder.add_seeds(report, "walk: + turn", "+ turn", by_seed)
    found = {r.metric: (r.value, r.unit, r.n, r.paper, r.seed) for r in report.results}
    assert found["speed, mean of seeds"] == (2.0, "m/s", 2, "1.06", 0)
    value, *others = found["speed, SD of seeds"]
    assert others == ["m/s", 2, "0.03", 0]
    assert value == pytest.approx(np.sqrt(2.0))
    assert found["support, seed 1"] == (3, "windows", 1, "102", 1)
    assert "support, seed 2" not in found


def test_the_note_names_the_bases_where_a_direction_fails():
    """A jog whose arm rises by less than 0.3 rad, a backward walk that turns right."""

    def run(arm: float, turn: float, *distances: float) -> dict:
        shoulder, yaw = (0.0, arm, arm, arm), (0.0, 0.0, turn, turn)
        columns = zip(ladder.STEERED, shoulder, yaw, distances, strict=True)
        return {
            stage: {"right shoulder pitch": s, "yaw rate": y, "distance": d}
            for stage, s, y, d in columns
        }

    found = ladder.failures(
        {
            "jog": run(-0.26, 9.0, 1, 2, 3, 4),
            "backward walk": run(-1.0, -3.0, 1, 2, 2, 3),
        }
    )
    assert found == (
        " The distance rises with every direction on: jog."
        " The arm rises by less than people notice on: jog."
        " The turn has the wrong sign on: backward walk."
    )

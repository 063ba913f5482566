"""Chained runs: where they switch, how rough they are, who is smoother, who falls."""

from dataclasses import replace

import numpy as np
import pytest
from untrained import explicit, tokens

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.experiments import chaining
from spectral_skills.experiments.chaining import DURING, OUTSIDE, PEAK, ChainRun, joined
from spectral_skills.experiments.findings import Draft
from spectral_skills.motion.synthetic.bases import SQUAT_FALL_M, Base
from spectral_skills.robot import g1


def standing(steps: int) -> np.ndarray:
    return np.tile(g1.DEFAULT_QPOS, (steps + 1, 1))


def test_one_kick_of_one_joint_is_felt_only_in_its_switch():
    rows = standing(200)
    rows[101:, 10] += 0.29  # step 100 moves one joint for good
    felt = chaining.accelerations(rows, [slice(100, 105)])
    # Second differences +0.29 and -0.29, over 29 joints and 5 + 25 steps.
    square = 2 * (0.29 * 50**2) ** 2 / 29 / 30
    assert felt[DURING] == pytest.approx(np.sqrt(square))
    assert felt[PEAK] == pytest.approx(0.29 * 50**2 / np.sqrt(29))
    assert felt[OUTSIDE] == pytest.approx(0.0, abs=1e-9)


def test_what_comes_before_a_switch_or_after_it_has_settled_is_outside():
    for step in (98, 100 + 5 + chaining.GRID.settling):
        rows = standing(200)
        rows[step + 1 :, 10] += 0.29
        felt = chaining.accelerations(rows, [slice(100, 105)])
        assert felt[OUTSIDE] > 1.0
        assert felt[DURING] == pytest.approx(0.0, abs=1e-9)


def test_after_a_fall_nothing_is_measured():
    rows = standing(200)
    rows[160:, 10] += 1.0
    felt = chaining.accelerations(rows, [slice(50, 60), slice(150, 160)], fell_at=120)
    assert felt[DURING] == pytest.approx(0.0, abs=1e-9)
    none = chaining.accelerations(rows, [slice(150, 160)], fell_at=120)
    assert np.isnan(none[DURING]) and np.isnan(none[PEAK])


def outcome(during: float, height: float = 0.7) -> ChainRun:
    rows = standing(4)
    rows[:, 2] = height
    run = Run("", Base("walk", rows), np.zeros((4, 3), np.float32))
    felt = {DURING: during, OUTSIDE: 1.0, PEAK: during}
    return ChainRun(("walk", "jog"), 5, Executed(run, rows), felt)


def test_smoother_counts_only_sequences_that_both_finish():
    ours = [outcome(1.0), outcome(3.0), outcome(1.0), outcome(1.0, height=0.1)]
    theirs = [outcome(2.0), outcome(2.0), outcome(2.0, height=0.1), outcome(2.0)]
    assert chaining.smoother(ours, theirs) == (1, 2)


def test_switches_that_nobody_reaches_have_no_acceleration(lab):
    """Neither a cell nor a point of a chart: 0 would be the smoothest of all."""
    fallen = [outcome(float("nan"), height=0.1)]
    report = Draft("chaining", lab)
    chaining.add_rows(report, "", fallen, fallen, lab)
    metrics = {r.metric for r in report.results}
    assert "acceleration in switches" not in metrics
    assert {"acceleration elsewhere", "falls"} <= metrics
    chaining.add_charts(report, {"": fallen})
    lines, _ = report.charts
    assert [one.name for one in lines.series] == ["acceleration elsewhere"]


def test_sequences_are_drawn_alike_every_time_and_never_repeat_a_skill():
    drawn = chaining.draw(chaining.GRID.pool, 42)
    assert drawn == chaining.draw(chaining.GRID.pool, 42)
    assert len(set(drawn)) == 42
    assert sorted({len(names) for names in drawn}) == [2, 3, 4]
    assert all(
        a != b for names in drawn for a, b in zip(names, names[1:], strict=False)
    )


def test_a_chain_blends_the_skills_of_its_bases(lab):
    run, switches = chaining.chained(lab, ["walk", "squat"], switch=10, steps=60)
    assert switches == [slice(50, 60)]
    assert run.skills is not None
    assert run.base.steps == len(run.skills) == 110
    assert run.base.fall_m == SQUAT_FALL_M
    walk, squat = (
        lab.skills(lab.base(name, 60 + lab.encoder.last)) for name in ("walk", "squat")
    )
    np.testing.assert_array_equal(run.skills[:50], walk[:50])
    np.testing.assert_array_equal(run.skills[60:], squat[10:60])
    halfway = run.skills[54]
    np.testing.assert_allclose(
        halfway, walk[54] + 5 / 11 * (squat[4] - walk[54]), atol=1e-5
    )
    # The robot starts as the first skill does.
    np.testing.assert_array_equal(
        run.base.rows[:2], lab.base("walk", 60 + lab.encoder.last).rows[:2]
    )


def test_motions_are_found_by_their_names(
    make_clip, make_corpus, tmp_path, monkeypatch
):
    """The first clip of a motion, however the corpus has numbered it."""
    names = ("bow+raise_0001", "bow_0007", "raise_0008", "bow_0009")
    clips = [make_clip(name, 30, i) for i, name in enumerate(names)]
    corpus = make_corpus(tmp_path / "few", clips)
    monkeypatch.setattr(chaining, "_corpus", lambda: corpus)
    parts = chaining.segments(Runner(explicit()), ["bow", "bow_0009", "stand"], 20)
    assert [part.name for part in parts] == ["bow_0007", "bow_0009", "stand"]
    with pytest.raises(ValueError, match="no clip named 'crouch'"):
        chaining.segments(Runner(explicit()), ["crouch"], 20)


def test_a_sequence_needs_a_skill(lab):
    with pytest.raises(ValueError, match="at least one"):
        chaining.chained(lab, [], switch=5)


def test_a_small_experiment_tells_of_every_switch_and_model(lab):
    found = chaining.chaining(
        lab,
        (1,),
        others={"twin": lab},
        pool=("walk", "stand"),
        sequences=2,
        switches=(0, 10),
        steps=30,
    )
    cells = {(r.row, r.metric): r for r in found.results}
    assert found.experiment == "chaining"
    assert cells["switch 10", "falls"].n == 2
    assert cells["switch 10, seed 1", "falls"].n == 2
    assert cells["switch 10, seed 1", "falls"].seed == 1
    assert cells["switch 10", "acceleration in switches"].value > 1.0
    # A model against itself is never smoother.
    assert cells["twin, switch 10", "smoother with ours"].value == 0
    same = cells["twin, switch 0", "peak acceleration"]
    assert replace(same, row="switch 0") == cells["switch 0", "peak acceleration"]
    assert cells["each skill alone", "falls"].n == 2
    assert "No explicit tracker was compared" in found.note


def test_other_kinds_of_trackers_run_the_same_sequences(lab):
    """Untrained ones may fall: only what both finish is compared."""
    poses = Runner(explicit())
    found = chaining.chaining(
        lab,
        others={"FSQ": Runner(*tokens())},
        explicit=poses,
        pool=("walk", "stand"),
        sequences=1,
        switches=(0, 10),
        steps=30,
    )
    cells = {(r.row, r.metric): r for r in found.results}
    for name in ("FSQ", "explicit"):
        for switch in (0, 10):
            row = f"{name}, switch {switch}"
            assert cells[row, "acceleration elsewhere"].value > 1.0
            assert cells[row, "falls"].n == 1
            both = 1 - int(cells[row, "falls"].value)
            assert cells[row, "smoother with ours"].n == both
        assert f"smoother than hard {name}" in {m for r, m in cells if r == "switch 10"}
    runs = {cells[row, "falls"].run for row in ("switch 0", "explicit, switch 0")}
    assert len(runs) == 2 and poses.fingerprint[:8] in runs
    assert "as one reference" in found.note
    names = [series.name for series in found.charts[0].series]
    assert "explicit: acceleration in switches" in names


def test_soft_switches_are_compared_with_hard_ones_of_others(lab, monkeypatch):
    """Ours: 3.0 hard, 1.0 soft; theirs: 2.0 hard, 0.5 soft."""

    def made(one, drawn, switches, steps, seed=None, plan=chaining.chained):
        assert (plan is joined) == (one is not lab)
        values = (2.0, 0.5) if one is not lab else (3.0, 1.0)
        found = [outcome(value) for value in values]
        return [replace(o, switch=s) for o, s in zip(found, switches, strict=True)]

    monkeypatch.setattr(chaining, "execute", made)
    small = {"pool": ("stand", "squat"), "sequences": 1, "steps": 20}
    poses = Runner(explicit())
    found = chaining.chaining(lab, explicit=poses, switches=(0, 10), **small)
    cells = {(r.row, r.metric): (r.value, r.n) for r in found.results}
    assert cells["switch 0", "smoother than hard explicit"] == (0, 1)
    assert cells["switch 10", "smoother than hard explicit"] == (1, 1)
    assert cells["explicit, switch 10", "smoother with ours"] == (0, 1)

"""Forcing poses and adding skills: triples, ratios, and which skills are added."""

import numpy as np
import pytest
from obedient import Obedient, follow
from released import released

from spectral_skills.control.batch import Runner
from spectral_skills.experiments import alternatives
from spectral_skills.experiments.alternatives import matched, offsets, reseeded, summary
from spectral_skills.experiments.findings import Draft
from spectral_skills.experiments.neighbours import DescribedSkills
from spectral_skills.robot import g1
from spectral_skills.spectral.response import NAMES


@pytest.fixture(scope="module")
def obedient() -> Obedient:
    rule = {"right_arm": ("right_shoulder_pitch", -0.4)}
    return Obedient(follow(released()[2], rule))


def test_an_offset_is_the_pose_in_the_schedule(obedient):
    base = obedient.base("stand", 200)
    pose = np.linspace(-1, 1, 29)
    action, servo = offsets(obedient.plain(base), pose, obedient.skills(base))
    assert action.servo is None and servo.action is None
    assert action.action is not None and servo.servo is not None
    np.testing.assert_allclose(servo.servo[100], pose, rtol=1e-6)
    np.testing.assert_allclose(action.action[100] * g1.ACTION_SCALE, pose, rtol=1e-5)
    assert not servo.servo[0].any() and not servo.servo[-1].any()


def test_a_robot_that_obeys_takes_the_forced_pose_exactly(obedient):
    triples = matched(obedient, ("walk",), ("right_arm", "turn"), (1.0, 2.0), 200)
    arms = [t for t in triples if t.direction == "right_arm"]
    assert [t.amplitude for t in arms] == [1.0, 2.0]
    for way in range(3):
        # The first measured row is still on the ramp, by one step.
        assert arms[1].pose_ratio(way) == pytest.approx(1.0, abs=1e-3)
        found = summary(arms, way)
        assert found["falls"] == (0, 2)
        assert found["speed"] == (pytest.approx(1.0), 2)
        assert "turn" not in found
    again = reseeded(obedient, arms, 5)
    assert {
        run.run.seed for t in again for one in t.runs for run in (one, one.plain)
    } == {5}


def test_runs_that_fall_make_no_triple_and_count_as_falls(obedient, monkeypatch):
    fallen = Obedient(obedient.follow)
    real = fallen._rows

    def rows(run):
        made = real(run)
        if run.servo is not None or run.name.startswith("right_arm a=+2"):
            made[150:, 2] = 0.2
        return made

    monkeypatch.setattr(fallen, "_rows", rows)
    triples = matched(fallen, ("walk",), ("right_arm",), (1.0, 2.0), 200)
    # The offset on the action of a=2 is never made: its steered run fell.
    assert [t.amplitude for t in triples] == [1.0]
    assert summary(triples, 1)["falls"] == (0, 1)
    assert summary(triples, 2) == {"falls": (1, 1)}


def test_a_robot_that_obeys_waves_all_three_ways(obedient):
    """Arm and swing as asked; copied to the joints, the same wave."""
    (wave,) = alternatives.wave(obedient, 200)
    joint = g1.joint_index("right_shoulder_pitch")
    for way, run in enumerate(wave.runs):
        mean, sine, cosine = alternatives.wave_parts(run)[:, joint]
        assert mean == pytest.approx(-0.4 * alternatives.GRID.wave["raised"], abs=0.01)
        assert sine == pytest.approx(-0.4 * alternatives.GRID.wave["swing"], abs=0.01)
        assert cosine == pytest.approx(0.0, abs=0.01)
        assert wave.pose_ratio(way) == pytest.approx(1.0, abs=1e-3)
    report = Draft("alternatives", obedient)
    alternatives.add_wave(report, [wave])
    cells = {(c.row, c.metric): c for c in report.results}
    speed = cells["wave on the walk, offset on action", "speed"]
    assert speed.value == pytest.approx(1.0) and speed.paper == "0.01"
    assert len(cells) == 3 * 4


def test_who_falls_while_waving_makes_no_triple(obedient, monkeypatch):
    fallen = Obedient(obedient.follow)
    real = fallen._rows

    def rows(run):
        made = real(run)
        made[150:, 2] = 0.2 if run.name == alternatives.WAVE else made[150:, 2]
        return made

    monkeypatch.setattr(fallen, "_rows", rows)
    assert alternatives.wave(fallen, 200) == []


NAMED = ("stand_0000", "raise_0001", "raise_0002", "forward+raise_0003", "jog_0004")


def _described() -> DescribedSkills:
    """Two windows of each clip, the second raised; the skill is its own number."""
    values = np.zeros((10, len(NAMES)))
    right, left = (NAMES.index(f"{s}_shoulder_pitch") for s in ("right", "left"))
    values[[3, 5, 7, 9], right] = -2.3
    values[5, left] = -2.3  # both arms
    values[6:, NAMES.index("forward_speed")] = 0.7
    return DescribedSkills(np.arange(10.0)[:, None], values, np.repeat(np.arange(5), 2))


def test_skills_are_gathered_by_the_arm_and_the_name():
    found = alternatives.gather(_described(), NAMED)
    arm = 3  # raise_0001: the right arm alone
    assert found == {
        alternatives.BLEND: arm,
        alternatives.PAIR: arm - 0.5,
        alternatives.STANDING: 4 - np.mean((0, 1, 2, 4)),
        alternatives.WALKING: 7 - 6,  # the jog is not asked
    }


def test_the_lines_are_blends_and_sums_for_the_whole_run(obedient):
    base, d = obedient.base("walk", 200), 64
    rng = np.random.default_rng(0)
    ways = [way for way in alternatives.GRID.sizes if way != alternatives.STEERING]
    added = dict(zip(ways, rng.normal(size=(4, d)), strict=True))
    made, own = alternatives.lines(obedient, base, added), obedient.skills(base)
    half = made[alternatives.BLEND, 0.5].skills
    assert half is not None
    np.testing.assert_allclose(
        half, 0.5 * own + 0.5 * added[alternatives.BLEND], atol=1e-5
    )
    pair = made[alternatives.PAIR, 0.75].skills
    assert pair is not None
    np.testing.assert_allclose(pair, own + 0.75 * added[alternatives.PAIR], atol=1e-5)
    listed = {(w, s) for w, sizes in alternatives.GRID.sizes.items() for s in sizes}
    assert set(made) == listed | {(alternatives.PLAIN, 0.0)}


def test_a_real_triple():
    """The released controller: the copied pose of a raised arm is an arm raised."""
    lab = Runner(*released())
    (triple,) = matched(lab, ("stand",), ("right_arm",), (2.0,), 200)
    assert triple.runs[0].effect.changes["right_shoulder_pitch"] < -0.1
    assert 0.25 < triple.pose_ratio(2) < 1.25

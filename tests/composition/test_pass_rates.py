"""Pass rates: the rule on motions made by hand, and the table of a lab that obeys."""

import numpy as np
import pytest
from obedient import Obedient, follow, turned
from released import released
from untrained import tokens

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.experiments.neighbours import describe_skills
from spectral_skills.experiments.pass_rates import TARGETS, judge, pass_rates
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.robot import g1

STEPS = 400
ARM, SPREAD, SPEED, TURN = TARGETS


def _run(speed=0.8, deg=0.0, height=0.76, **joints) -> Executed:
    """A motion at a speed, turning `deg` over the measured steps, joints moved."""
    rate = np.radians(deg) / (269 / g1.CONTROL_HZ)
    rows = turned(lambda t: rate * t, speed, STEPS)
    rows[200, 2] = height
    for name, rad in joints.items():
        rows[:, 7 + g1.joint_index(name)] += rad
    base = Base("walk", rows.astype(np.float32))
    return Executed(Run("made", base, np.zeros((STEPS, 64), np.float32)), rows)


@pytest.mark.parametrize(
    ("target", "made", "failure"),
    [
        (ARM, {"right_shoulder_pitch": -0.51}, ""),
        (ARM, {"right_shoulder_pitch": -0.49}, "too little"),
        (ARM, {"right_shoulder_pitch": 0.9}, "too little"),
        (ARM, {"right_shoulder_pitch": -0.9, "height": 0.39}, "fall"),
        (ARM, {"right_shoulder_pitch": -0.9, "speed": 0.8 * 1.29}, ""),
        (ARM, {"right_shoulder_pitch": -0.9, "speed": 0.8 * 0.69}, "speed"),
        (ARM, {"right_shoulder_pitch": -0.9, "deg": -26.0}, ""),
        (ARM, {"right_shoulder_pitch": -0.9, "deg": 28.0}, "heading"),
        (SPREAD, {"left_shoulder_roll": 0.31, "right_shoulder_roll": -0.31}, ""),
        (SPREAD, {"left_shoulder_roll": 0.9}, "too little"),
        (SPEED, {"speed": 0.8 + 0.16}, ""),
        (SPEED, {"speed": 0.8 + 0.14}, "too little"),
        (SPEED, {"speed": 0.8 + 1.0}, ""),
        (TURN, {"deg": 46.0}, ""),
        (TURN, {"deg": -90.0}, "too little"),
        (TURN, {"deg": 46.0, "speed": 0.5}, "speed"),
    ],
)
def test_the_rule(target, made, failure):
    """Each bound of the rule, from both sides."""
    assert judge(target, _run(**made), _run()).failure == failure


def test_the_share_of_the_goal():
    found = judge(TURN, _run(deg=45.0), _run())
    assert found.share == pytest.approx(0.5, abs=0.002)
    forced = _run(left_shoulder_roll=0.6, right_shoulder_roll=-0.3)
    assert judge(SPREAD, forced, _run()).share == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(("speed", "failure"), [(0.14, ""), (0.16, "speed")])
def test_a_base_that_hardly_moves_may_change_by_what_people_notice(speed, failure):
    still, run = _run(speed=0.0), _run(speed=speed, right_shoulder_pitch=-0.9)
    assert judge(ARM, run, still).failure == failure


def test_faster_means_forward():
    """A backward walk that slows down has gained forward speed."""
    back = _run(speed=-0.5)
    assert judge(SPEED, _run(speed=-0.3), back).passes
    assert not judge(SPEED, _run(speed=-0.7), back).passes


def test_the_table_of_robots_that_obey(make_clip, make_corpus, tmp_path):
    """The arm direction moves the arm by 0.3 rad a unit, and nothing else happens."""
    corpus = make_corpus(tmp_path / "few", [make_clip(f"w{i}", 90, i) for i in (0, 1)])
    rule = follow(released()[2], {"right_arm": ("right_shoulder_pitch", -0.3)})
    lab = Obedient(rule, records=tmp_path / "records")
    found = pass_rates(
        lab, (3,), bases=("stand", "walk"), larger=(1.0,), candidates=2, corpus=corpus
    )
    cells = {(r.row, r.metric): (r.value, r.n, r.seed) for r in found.results}
    # Two of the tests of the arm are on another robot, as are two of speed and a turn.
    assert cells["target-directed", "right arm"] == (6, 6, 0)
    assert cells["target-directed, seed 3", "right arm"] == (6, 6, 3)
    assert cells["target-directed, larger", "right arm"] == (0, 2, 0)
    assert cells["target-directed", "all"] == (6, 21, 0)
    others = {run.seed for run in lab.made} - {None, 3}
    assert others == {1000, 1004}
    # The copied pose of a robot that obeys is the pose itself.
    assert cells["joint offset (oracle)", "right arm"] == (4, 4, 0)
    assert cells["joint offset (oracle)", "turn"] == (0, 4, 0)
    papers = {(r.row, r.metric): r.paper for r in found.results}
    assert papers["ridge on skills", "turn"] == "4/5"
    assert "Of 21 target-directed runs 6 pass" in found.note
    assert "too little (15)" in found.note
    assert len(found.films) == 4
    assert found.films[0].base.startswith("stand-base")
    bars = {s.name: s.y for s in found.charts[0].series}
    assert bars["target-directed"] == (100.0, 0.0, 0.0, 0.0)


def test_the_best_candidate_is_chosen(make_clip, make_corpus, tmp_path):
    """Only the second of the candidates moves the arm, so all bases get it."""
    _, _, directions = released()
    predicted = ARM.predicted(directions)[directions.family("spectral")]
    second = int(np.argsort(-np.abs(predicted))[1])
    name, sign = f"s{second + 1:02d}", -np.sign(predicted[second])
    lab = Obedient(follow(directions, {name: ("right_shoulder_pitch", sign * 0.4)}))
    corpus = make_corpus(tmp_path / "few", [make_clip(f"w{i}", 90, i) for i in (0, 1)])
    found = pass_rates(
        lab, bases=("stand", "walk"), larger=(), candidates=2, corpus=corpus
    )
    cells = {(r.row, r.metric): (r.value, r.n) for r in found.results}
    assert cells["spectral directions only", "right arm"] == (2, 2)
    assert name in found.note


class ObedientTokens(Obedient):
    """As obedient robots, with tokens."""

    def __init__(self, follow: np.ndarray):
        Runner.__init__(self, *tokens())
        self.follow, self.made = follow, list[Run]()


def test_tokens_are_steered_in_their_own_deviations(make_clip, make_corpus, tmp_path):
    """The arm follows the first number of a token, ours follows nothing."""
    corpus = make_corpus(tmp_path / "few", [make_clip(f"w{i}", 90, i) for i in (0, 1)])
    rule = np.zeros((8, g1.NUM_JOINTS))
    rule[0, g1.joint_index("right_shoulder_pitch")] = -1e3
    lab, theirs = Obedient(np.zeros((64, g1.NUM_JOINTS))), ObedientTokens(rule)
    found = pass_rates(
        lab,
        bases=("stand", "walk"),
        larger=(1.0,),
        candidates=2,
        corpus=corpus,
        tokens=theirs,
    )
    cells = {(r.row, r.metric): r for r in found.results}
    assert cells["FSQ PCA", "right arm"].value == cells["FSQ PCA", "right arm"].n == 2
    assert cells["PCA of skills", "right arm"].value == 0
    assert cells["FSQ PCA", "right arm"].paper == "4/5"
    assert cells["FSQ ridge", "all"].n == 8
    assert cells["FSQ PCA", "all"].run != cells["PCA of skills", "all"].run
    ours, other = (describe_skills(one.encoder, corpus) for one in (lab, theirs))
    steered = [run for run in theirs.made if " a=+2" in run.name]
    lengths = [
        np.linalg.norm(run.skills - theirs.skills(run.base), axis=1).max()
        for run in steered
    ]
    unit = other.skills.std(axis=0).mean() / ours.skills.std(axis=0).mean()
    np.testing.assert_allclose(lengths, 2.0 * unit, rtol=1e-3)
    assert f"{unit:.2f} times as wide" in found.note
    assert "0 of 2 of its unsteered runs fall" in found.note
    assert "FSQ PCA" in {series.name for series in found.charts[0].series}


def test_a_real_run(lab):
    """The released controller lifts the right arm of a standing robot."""
    base = lab.base("stand", 200)
    runs = lab.plain(base), lab.steered(base, lab.direction("right_arm", 3.0), "arm")
    plain, run = lab.execute(runs)
    found = judge(ARM, run, plain)
    assert run.stands and found.share > 0.1

"""Robots on described motions: what the reference, plans and nonsense score."""

import numpy as np
import pytest
import torch
from obliging import Letters, actor, with_planner
from rehearsed import Broken, Rehearsed, Stuck, motions

from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.stage import FALLEN_M, EpisodeScores, Stage, fell
from spectral_skills.robot import g1

EVERY = 10


@pytest.fixture(scope="module")
def oracle(stage) -> EpisodeScores:
    return stage.oracle(actor())


def planned(stage: Stage, planner: Rehearsed) -> EpisodeScores:
    text = stage.text([m.sentences for m in motions(stage)])
    return stage.planned(with_planner(planner), text, EVERY)


def same(one: EpisodeScores, other: EpisodeScores) -> np.ndarray:
    """(n,) which robots did the same."""
    return (one.local_mm == other.local_mm) & (one.global_mm == other.global_mm)


def test_the_reference_itself_succeeds(stage, oracle):
    assert oracle.success.shape == (4,) and oracle.success.all()
    assert not oracle.fell.any() and oracle.refused == 0
    assert (oracle.local_mm > 1).all() and (oracle.local_mm < 40).all()
    assert same(oracle, stage.oracle(actor())).all(), "the same robots, the same noise"


def test_a_planner_that_knows_the_motions_scores_like_the_reference(stage, oracle):
    found = planned(stage, Rehearsed(stage, EVERY))
    assert found.success.all() and not found.fell.any() and found.refused == 0
    assert np.abs(found.local_mm - oracle.local_mm).max() < 8


def test_robots_obey_their_own_sentences(stage, oracle):
    """Each the motion of its own sentence: sentences exchanged, far off."""
    text = stage.text([m.sentences for m in motions(stage)[::-1]])
    found = stage.planned(with_planner(Rehearsed(stage, EVERY)), text, EVERY)
    assert (found.local_mm[2:] > 2 * oracle.local_mm[2:]).all()


def test_nonsense_is_not_followed_but_counted(stage):
    """The last skill goes on, of one robot; five plans of six were nonsense."""
    found = planned(stage, Broken(stage, EVERY))
    assert found.refused == 5
    stuck = planned(stage, Stuck(stage, EVERY))
    assert stuck.refused == 0 and same(found, stuck).all()
    whole = planned(stage, Rehearsed(stage, EVERY))
    assert same(found, whole).tolist() == [False, True, True, True]


def test_robots_get_the_sentences_of_their_motion_in_turn(stage):
    """Two robots for each motion; with one sentence both get the same."""
    letters = Letters()
    text = stage.text([("a", "b b", "c"), ("d",)])
    expected = letters.encode(["a", "b b", "d", "d"])
    assert torch.equal(text.states, expected.states)
    assert torch.equal(text.mask, expected.mask)


def test_robots_begin_on_the_first_frames_of_their_parts(stage):
    rows = stage.references.at(stage.motion, torch.zeros_like(stage.motion)).rows
    for robot, motion in enumerate((0, 0, 1, 1)):
        expected = torch.tensor(stage.clips.rows[motion][0])
        torch.testing.assert_close(rows[robot], expected)


def test_another_stage_has_motions_in_any_number(stage):
    stand, walk = stage.names
    other = stage.of([walk, stand, walk], 3, 7)
    assert other.names == (walk, stand, walk) and other.steps == 7
    assert other.motion.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert torch.equal(other.references.lengths[[1, 0]], stage.references.lengths)
    for episodes, steps in ((0, 60), (1, 1)):
        with pytest.raises(ValueError, match="nothing to run"):
            stage.of([walk], episodes, steps)


def test_a_fall_after_the_motion_is_over_counts_as_one_alone(stage):
    """Success is of the frames that the reference has; a broken robot has fallen."""
    place = stage.of([stage.names[0]], 3, 40)
    reference = torch.tensor(stage.clips.rows[0][:41])[:, None].repeat(1, 3, 1)
    robot = reference.clone()
    robot[30:, 1, 2] = FALLEN_M - 0.01
    robot[20:, 2] = torch.nan
    lengths = torch.tensor([41, 25, 41])
    rollout = Rollout(robot, ("a", "b", "c"), lengths, reference)
    found = place.score(rollout, refused=7)
    assert found.success.tolist() == [True, True, False]
    assert found.fell.tolist() == [False, True, True]
    assert found.local_mm == pytest.approx(0.0, abs=1e-3) and found.refused == 7


def test_robots_that_were_ever_down_fell():
    rows = torch.tensor(g1.DEFAULT_QPOS).float().repeat(5, 3, 1)
    rows[2, 1, 2] = FALLEN_M - 0.001
    rows[4, 2, 2] = torch.nan
    assert fell(rows).tolist() == [False, True, True]

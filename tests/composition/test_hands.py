"""Hand targets: where a hand is, maps and limits, and a short real reach."""

import numpy as np
import pytest
from obedient import turned
from released import released

from spectral_skills.control.batch import Runner
from spectral_skills.experiments.effects import hold
from spectral_skills.experiments.hands import (
    GRID,
    RIGHT,
    TARGETS,
    damped,
    hand,
    limited,
    linear_map,
    tour,
)
from spectral_skills.robot import g1


def test_a_hand_is_seen_from_the_pelvis_and_its_heading():
    """Walking and turning do not move it; lifting the arm moves it forward and up."""
    rows = turned(lambda t: 2.0 * t, 0.7, 60)
    still = hand(rows)
    np.testing.assert_allclose(still, np.broadcast_to(still[0], still.shape), atol=1e-9)
    assert still[0, 1] < 0  # the right hand
    rows[:, 7 + g1.joint_index("right_shoulder_pitch")] -= 0.5
    moved = hand(rows) - still
    assert (moved[:, [0, 2]] > 0.02).all()


def test_the_linear_map_is_found():
    linear = np.random.default_rng(0).normal(size=(3, 3))
    asked = TARGETS
    np.testing.assert_allclose(linear_map(asked, asked @ linear.T), linear, atol=1e-9)


def test_damping_leaves_alone_what_hardly_moves():
    found = damped(np.diag((2.0, 1.0, 1e-4)), 0.1)
    assert found[0, 0] == pytest.approx(0.5, rel=0.02)
    assert abs(found[2, 2]) < 0.01
    np.testing.assert_allclose(damped(np.diag((2.0, 1, 4)), 0), np.diag((0.5, 1, 0.25)))
    assert not damped(np.zeros((3, 3)), 0.1).any()  # a hand that does not move at all


def test_long_changes_are_cut_and_keep_their_direction():
    found = limited(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 2.5)
    np.testing.assert_allclose(found, [[1.5, 2.0], [0.3, 0.4], [0.0, 0.0]])


def test_the_tour_ends_with_one_level_circle():
    path, circle = tour()
    away = path[circle] - GRID.centre
    np.testing.assert_allclose(np.linalg.norm(away[:, :2], axis=1), GRID.radius)
    np.testing.assert_allclose(away[:, 2], 0.0, atol=1e-12)
    turn = np.unwrap(np.arctan2(away[:, 1], away[:, 0]))
    assert turn[-1] - turn[0] == pytest.approx(2 * np.pi, rel=0.01)
    assert not path[0].any() and not path[-1].any()


def test_a_real_reach_moves_the_hand_and_not_the_robot():
    lab = Runner(*released())
    base = lab.base("stand", 200)
    change = lab.directions.hand_maps[RIGHT] @ (0.0, -0.15, 0.0)
    change = limited(change[None], 5.0)[0]
    plain, run = lab.execute([lab.plain(base), lab.steered(base, change, "reach")])
    steps = hold(base)
    moved = (hand(run.rows) - hand(plain.rows))[steps].mean(axis=0)
    assert run.stands and moved[1] < -0.02
    assert np.linalg.norm((run.rows - plain.rows)[steps, :2], axis=1).max() < 0.15

"""A session in Python: play, move a fader, run, keep the record."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.control.loop import ControlLoop
from spectral_skills.control.rollout import Rollout, fell_at
from spectral_skills.control.safety import sendable
from spectral_skills.control.session import Session, replay
from spectral_skills.quaternion import heading
from spectral_skills.robot import g1
from spectral_skills.tracking.observations import Body

SHOULDER = 7 + g1.joint_index("right_shoulder_pitch")


def test_a_session_is_played_steered_run_and_kept(bundle, tmp_path):
    """The walk raises its arm when the fader goes up; the file runs again exactly."""
    session = Session(bundle)
    session.play("walk")
    before = session.run(2.0)
    session.move("right_arm", 2.0)
    after = session.run(2.0)
    assert before.steps == after.steps == 100 and fell_at(after.robot[:, 0]) is None
    pitch = [one.robot[50:, 0, SHOULDER].mean() for one in (before, after)]
    assert pitch[1] < pitch[0] - 0.3
    after.save(tmp_path / "walk.npz")
    assert np.array_equal(
        replay(bundle, Rollout.load(tmp_path / "walk.npz")), after.robot[:, 0]
    )


def test_two_sessions_with_the_same_calls_do_the_same(bundle):
    """To the last bit, a push included."""
    rows = []
    for _ in range(2):
        session = Session(bundle)
        session.run(0.2)
        session.push(left=0.3)
        rows.append(session.run(0.4).robot)
    assert np.array_equal(*rows)


def test_a_walk_goes_where_it_began_to_go(bundle):
    """The controller turns a little with every step; the base corrects it."""
    if bundle.base("walk").turn is None:
        pytest.skip("this bundle was exported before bases kept to their heading")
    session = Session(bundle)
    session.play("walk")
    rows = session.run(6.0).robot[:, 0]
    angles = np.unwrap([heading(row[3:7]) for row in rows])
    # Means of a second: a pelvis sways with every step.
    assert abs(np.degrees(angles[-50:].mean() - angles[50:100].mean())) < 8
    assert np.linalg.norm(rows[-1, :2] - rows[0, :2]) > 2


def test_a_robot_that_walks_backward_comes_to_a_run(bundle):
    """Straight into the run it fell."""
    session = Session(bundle)
    session.play("backward")
    assert fell_at(session.run(2.8).robot[:, 0]) is None
    session.play("run")
    rows = session.run(5.0).robot[:, 0]
    assert fell_at(rows) is None
    assert np.linalg.norm(rows[-1, :2] - rows[-51, :2]) > 1.2


@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_a_motor_pushes_a_joint_at_its_limit_with_quarters_of_its_effort(bundle, reach):
    """At most as many as the controller reaches; on the robot as in a session and in
    training."""
    robot = replace(bundle.manifest.robot, reach=reach)
    bundle = replace(bundle, manifest=replace(bundle.manifest, robot=robot))
    session, loop, share = Session(bundle), ControlLoop(bundle), 0.25 * reach
    low, high = g1.JOINT_LIMITS.T
    ankle = g1.joint_index("left_ankle_pitch")
    for side, limit in ((-1, low), (1, high)):
        action = np.full(29, 100.0 * side)
        targets = session.pilot.order(action).targets
        effort_nm = side * g1.STIFFNESS * (targets - limit)
        assert (effort_nm <= share * g1.EFFORT_LIMIT + 1e-9).all()
        assert effort_nm[ankle] == pytest.approx(share * g1.EFFORT_LIMIT[ankle])
        trained = Body("cpu", reach).targets(torch.from_numpy(action)[None])[0]
        np.testing.assert_allclose(targets, trained, atol=1e-6)
        order = loop.pilot.order(action)
        np.testing.assert_array_equal(order.targets, targets)
        assert sendable(order, loop.limits)
        more = replace(order, targets=order.targets + 1e-3 * side)
        assert not sendable(more, loop.limits)
        assert sendable(order) == (reach == 1.0), "unless a bundle says more"

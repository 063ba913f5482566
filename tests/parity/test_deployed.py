"""What runs on a robot does what was trained: the same actions, the same errors."""

import numpy as np
import torch

from spectral_skills.control.metrics import episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.run import ReferenceSource, Tracker, run
from spectral_skills.control.safety import Sensed
from spectral_skills.control.session import Pilot, follow
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.models import Models
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import References


def test_pilot_and_tracker_act_alike(bundle):
    """Same states, last actions and skills: actions within 1e-4 over two seconds of
    walking."""
    base = bundle.base("walk")
    physics, pilot = simulate("cpu", 1), Pilot(bundle)
    tracker = Tracker(Controller.load("base"))
    physics.qpos.copy_(torch.from_numpy(base.rows[:1]))
    tracker.reset(physics.qpos, physics.qvel)
    worst = 0.0
    for step in range(100):
        qpos, qvel = physics.qpos[0].double().numpy(), physics.qvel[0].double().numpy()
        sensed = Sensed(0.02 * step, step, qpos[3:7], qvel[3:6], qpos[7:], qvel[6:])
        pilot.sense(sensed)
        tracker.sense(physics.qpos, physics.qvel)
        skill = base.skills[step]
        ours = pilot.act(skill)
        theirs = tracker.act(torch.from_numpy(skill)[None])
        worst = max(worst, float(np.abs(ours - theirs[0].numpy()).max()))
        assert np.array_equal(pilot.last_action, ours)
        pilot.last_action = theirs[0].double().numpy()
        physics.targets.copy_(tracker.targets(theirs))
        physics.step()
    assert worst < 1e-4


def test_simulated_robot_is_the_training_environment(bundle):
    """The same orders lead through the same states."""
    base = bundle.base("walk")
    physics, robot, pilot = simulate("cpu", 1), SimulatedRobot(), Pilot(bundle)
    physics.qpos.copy_(torch.from_numpy(base.rows[:1]))
    robot.reset(base.rows[0].astype(np.float64))
    for step in range(25):
        pilot.sense(robot.sense())
        order = pilot.order(pilot.act(base.skills[step]))
        robot.apply(order)
        robot.step()
        physics.targets.copy_(torch.from_numpy(order.targets)[None])
        physics.step()
    # The training environment keeps its states in single precision.
    np.testing.assert_allclose(robot.qpos, physics.qpos[0].numpy(), atol=2e-3)


def test_bundle_tracks_as_the_batch_evaluation_says(bundle):
    """Errors of a base are those of the evaluation, which runs with torch."""
    models, rows = Models.load(), [torch.from_numpy(bundle.base("squat").rows)]
    references = References.build(MotionTensors.of_clips(rows))
    source = ReferenceSource(references, torch.tensor([0]), models.encoder)
    steps = len(rows[0]) - 1

    tracker = Tracker(models.controller)
    ran = run(simulate("cpu", 1), tracker, source, source.start, steps)
    followed = follow(bundle, "squat")
    for frames, within_local_mm, within_global_mm in (
        (300, 0.5, 3.0),
        (steps + 1, 1.0, 10.0),
    ):
        expected, found = (episodes(r.first(frames)) for r in (ran, followed))
        assert expected.success.all() and found.success.all()
        assert abs(found.local_mm - expected.local_mm) < within_local_mm
        assert abs(found.global_mm - expected.global_mm) < within_global_mm


def test_records_of_poses_alone_are_records():
    """A robot that is where it should be has no error."""
    rows = np.tile(np.r_[0, 0, 0.76, 1, np.zeros(32)], (5, 1))
    assert episodes(Rollout.of_rows("still", rows, rows)).local_mm[0] == 0.0

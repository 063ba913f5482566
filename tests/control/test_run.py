"""The loop: a state after step t pairs with frame t, on any physics."""

import numpy as np
import pytest
import torch

from spectral_skills.control import metrics
from spectral_skills.control.metrics import CAUSES, errors
from spectral_skills.control.run import ReferenceSource, ReplaySource, Tracker, run
from spectral_skills.physics.base import simulate
from spectral_skills.physics.native import NativePhysics
from spectral_skills.robot import g1

CLIPS = torch.tensor([0, 1, 2])


@pytest.fixture
def source(references, encoder) -> ReferenceSource:
    return ReferenceSource(references, CLIPS, encoder, names=("a", "b", "c"))


@pytest.fixture
def follow(source, teleport, make_controller):
    """Run robots that are wherever a script says."""

    def follow(script: torch.Tensor, **options):
        physics = teleport(script)
        start = script[0], torch.zeros(len(script[0]), 35)
        tracker = Tracker(make_controller())
        return run(physics, tracker, source, start, len(script) - 1, **options), physics

    return follow


def test_robots_that_are_where_their_reference_is_have_no_error(source, follow):
    """The frame pairing: the script is at frame t after t steps."""
    script = source.track(45).rows
    rollout, _ = follow(script)
    assert torch.equal(rollout.reference, script)
    assert torch.equal(rollout.robot, script)
    measured = errors(rollout)
    assert measured.global_mm.abs().max() == 0
    assert not measured.causes.any()


@pytest.mark.parametrize("shift", [-1, 1])
def test_robots_one_frame_off_are_caught(source, follow, shift):
    """Late or early by a frame costs what the reference moves in a frame."""
    rows = source.track(41).rows
    script = rows[1:41] if shift == 1 else torch.cat((rows[:1], rows[:39]))
    rollout, _ = follow(script)
    moved = (rows[1:42, :, :3] - rows[:41, :, :3]).norm(dim=-1) * 1000
    expected = moved[1:39] if shift == 1 else moved[:38]
    root = errors(rollout).root_mm[1:39]
    assert (root > 1).all()
    torch.testing.assert_close(root, expected, atol=1e-2, rtol=1e-4)


def test_a_source_is_asked_before_the_step_with_the_state_of_that_time(
    source, follow, encoder
):
    """On its reference, skill t of the record is that of frames t to t + 9."""
    rollout, _ = follow(source.track(30).rows)
    assert rollout.skills.shape == (30, 3, encoder.width)
    for step in (0, 29):
        expected = source.source(step, source.track(30).rows[step])
        torch.testing.assert_close(rollout.skills[step], expected)


def test_a_clip_that_is_over_stays_at_its_last_frame(source, follow, references):
    rollout, _ = follow(source.track(58).rows)
    assert rollout.lengths.tolist() == [40, 50, 59]
    last = references.rows_at(torch.tensor([0]), torch.tensor([[39]]))[0]
    assert rollout.reference is not None
    assert torch.equal(rollout.reference[39:, 0], last.expand(20, -1))
    assert rollout.names == ("a", "b", "c")


def test_pushes_add_velocity_before_their_step(source, follow):
    kick = torch.zeros(3, 6)
    kick[1] = torch.arange(6.0)
    _, physics = follow(source.track(4).rows, pushes={2: kick})
    assert [seen[1].sum().item() for seen in physics.seen] == [0, 0, 15, 15]
    assert all(seen[0].sum() == 0 for seen in physics.seen)


def test_a_broken_simulation_fails_the_episode(source, teleport, make_controller):
    """The robot is put back upright, but its record says what happened."""
    script = source.track(20).rows
    physics = teleport(script)
    step = physics.step

    def breaking():
        step()
        physics.broken[:] = torch.tensor([False, physics.steps == 7, False])

    physics.step = breaking
    start = script[0], torch.zeros(3, 35)
    rollout = run(physics, Tracker(make_controller()), source, start, 20)
    assert rollout.robot[7, 1].isnan().all() and rollout.robot[8, 1].isfinite().all()
    episodes = metrics.episodes(rollout)
    assert episodes.failed_at.tolist() == [0, 7, 0]
    assert CAUSES[episodes.cause[1]] == "broken"
    assert np.isfinite(episodes.local_mm).all()


def test_only_what_is_asked_for_is_kept(source, follow):
    whole, _ = follow(source.track(5).rows)
    less, _ = follow(source.track(5).rows, keep=())
    assert torch.equal(whole.robot, less.robot)
    assert whole.actions.shape == (5, 3, 29)
    assert less.actions is less.skills is less.robot_velocity is None
    some, _ = follow(source.track(5).rows, keep=["actions"])
    assert torch.equal(some.actions, whole.actions) and some.skills is None


def test_the_first_frames_of_a_record(source, follow):
    whole, _ = follow(source.track(5).rows)
    part = whole.first(4)
    assert part.steps == 3 and part.names == whole.names
    assert part.lengths.tolist() == whole.lengths.clamp_max(4).tolist()
    assert torch.equal(part.actions, whole.actions[:3])
    assert whole.first(100).steps == whole.steps
    with pytest.raises(ValueError, match="first 0 frames"):
        whole.first(0)


def test_without_a_reference_all_steps_count(teleport, make_controller, encoder):
    replay = ReplaySource([torch.zeros(3, encoder.width)])
    physics = teleport(torch.zeros(5, 1, 36))
    start = torch.zeros(1, 36), torch.zeros(1, 35)
    rollout = run(physics, Tracker(make_controller()), replay, start, 4)
    assert rollout.reference is None and rollout.lengths.tolist() == [5]
    with pytest.raises(ValueError, match="no reference"):
        errors(rollout)


def test_starts_must_be_as_many_as_robots(source, teleport, make_controller):
    physics = teleport(torch.zeros(3, 3, 36))
    tracker = Tracker(make_controller())
    with pytest.raises(ValueError, match="2 starts for 3 robots"):
        run(physics, tracker, source, (torch.zeros(2, 36), torch.zeros(2, 35)), 2)
    with pytest.raises(ValueError, match="0 steps"):
        run(physics, tracker, source, (torch.zeros(3, 36), torch.zeros(3, 35)), 0)


def test_on_mujoco_itself_a_run_is_the_same_twice(references, encoder, make_controller):
    """One robot on the CPU: it moves, stays finite, and repeats itself."""
    physics = simulate("cpu", 1)
    assert isinstance(physics, NativePhysics)
    source = ReferenceSource(references, torch.tensor([2]), encoder)
    begin = references.at(torch.tensor([2]), torch.tensor([0]))
    tracker = Tracker(make_controller())
    first, second = (
        run(physics, tracker, source, (begin.rows, begin.qvel), 10) for _ in range(2)
    )
    assert torch.equal(first.robot[0], begin.rows)
    assert first.robot.isfinite().all()
    assert (first.robot[1:] - first.robot[:-1]).abs().amax(dim=-1).min() > 0
    torch.testing.assert_close(first.robot, second.robot, atol=1e-4, rtol=0)


@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_joints_are_asked_for_as_much_as_the_controller_reaches(
    reach, source, teleport, make_controller
):
    """And the record says how much that is."""
    controller = make_controller({"reach": reach})
    with torch.no_grad():
        controller.network.project.bias.fill_(100.0)
    script = source.track(3).rows
    physics, start = teleport(script), (script[0], torch.zeros(3, 35))
    rollout = run(physics, Tracker(controller), source, start, 2)
    ankle = g1.joint_index("left_ankle_pitch")
    most = g1.JOINT_LIMITS[ankle, 1] + reach * g1.ACTION_SCALE[ankle]
    assert physics.targets[:, ankle].tolist() == pytest.approx([most] * 3)
    assert rollout.reach == rollout.select([1]).numpy().reach == reach

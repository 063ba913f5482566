"""Sources: what a robot on its reference sees, replay, chains, steering."""

import math

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.control.run import (
    ReferenceSource,
    ReplaySource,
    SteeredSource,
    encode_clip,
)
from spectral_skills.motion.windows import anchor_poses
from spectral_skills.skill.encoder import encode_rows
from spectral_skills.tracking.references import CommandConfig

ANYWHERE = torch.zeros(1, 36)


def test_on_its_reference_a_robot_sees_pretraining_windows(corpus, references, encoder):
    """Step t encodes frames t to t + 9, for each robot of its own clip and start."""
    source = ReferenceSource(
        references, torch.tensor([1, 2]), encoder, torch.tensor([0, 7])
    )
    first = encode_rows(encoder, corpus.qpos(1).copy())
    second = encode_rows(encoder, corpus.qpos(2).copy())
    for step in (0, 1, 30):
        rows = [corpus.qpos(1)[step], corpus.qpos(2)[step + 7]]
        found = source.source(step, torch.tensor(np.array(rows)))
        expected = torch.stack((first[step], second[step + 7]))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_replay_is_what_a_robot_on_its_reference_sees(corpus, references, encoder):
    """Also near the end, where a clip stands still."""
    clips = [torch.tensor(np.array(corpus.qpos(i))) for i in range(2)]
    replay = ReplaySource([encode_clip(encoder, clip) for clip in clips])
    live = ReferenceSource(references, torch.arange(2), encoder)
    last = torch.tensor([39, 49])
    for step in (0, 25, 38, 45, 70):
        now = references.rows_at(torch.arange(2), last.clamp_max(step)[:, None])[:, 0]
        torch.testing.assert_close(
            replay.source(step, ANYWHERE), live.source(step, now), atol=1e-5, rtol=1e-4
        )
    assert live.track(60).lengths.tolist() == [40, 50]


def test_the_pose_command_is_the_next_frame_seen_from_the_robot(references):
    """By hand: a robot at (1, 2), turned left by 90 degrees."""
    source = ReferenceSource(
        references, torch.tensor([0]), None, command=CommandConfig(kind="pose")
    )
    robot = torch.zeros(1, 36)
    robot[0, :2] = torch.tensor([1.0, 2.0])
    robot[:, 3:7] = rotation.from_yaw(torch.tensor([math.pi / 2]))
    row = references.rows_at(torch.tensor([0]), torch.tensor([[6]]))[0, 0]
    pose = source.source(5, robot)
    assert pose.shape == (1, 38)
    torch.testing.assert_close(pose[0, :29], row[7:])
    x, y, z = row[:3] - torch.tensor([1.0, 2.0, 0.0])
    # The robot's forward is the world's y, its left the world's -x.
    torch.testing.assert_close(pose[0, 29:32], torch.stack((y, -x, z)))


def test_the_joint_command_is_the_whole_window(references):
    command = CommandConfig(kind="joint", poses=10)
    source = ReferenceSource(references, torch.tensor([0]), None, command=command)
    rows = references.rows_at(torch.tensor([0]), torch.arange(5, 15)[None])
    robot = rows[:, 0]
    window = anchor_poses(rows, robot[:, :3], robot[:, 3:7], "heading").flatten(1)
    torch.testing.assert_close(source.source(5, robot), window)


def test_a_controller_of_skills_needs_an_encoder(references):
    with pytest.raises(ValueError, match="encoder"):
        ReferenceSource(references, torch.tensor([0]), None)


def test_the_track_begins_at_the_start_frame_and_ends_with_its_clip(references):
    source = ReferenceSource(
        references,
        torch.tensor([0, 2]),
        None,
        torch.tensor([30, 0]),
        CommandConfig(kind="pose"),
    )
    track = source.track(20)
    rows = references.rows_at(torch.tensor([0]), torch.arange(30, 40)[None])[0]
    torch.testing.assert_close(track.rows[:10, 0], rows)
    torch.testing.assert_close(track.rows[10:, 0], rows[-1].expand(11, -1))
    assert track.lengths.tolist() == [10, 21]


def test_replay_repeats_the_last_skill_of_each_stream():
    source = ReplaySource([torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[7.0]])])
    found = [source.source(t, ANYWHERE).flatten().tolist() for t in range(5)]
    assert found == [[1, 7], [2, 7], [3, 7], [3, 7], [3, 7]]
    assert source.track(4) is None
    with pytest.raises(ValueError, match="must be"):
        ReplaySource([torch.zeros(0, 4)])


@pytest.fixture
def base() -> ReplaySource:
    torch.manual_seed(2)
    return ReplaySource([torch.randn(20, 4), torch.randn(15, 4)])


@pytest.fixture
def directions() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 4))


def run(source, steps: int = 20) -> torch.Tensor:
    return torch.stack([source.source(t, ANYWHERE) for t in range(steps)])


def test_zero_amplitude_is_the_identity(base, directions):
    for nothing in (np.zeros((20, 3)), np.zeros((20, 2, 3))):
        assert torch.equal(run(SteeredSource(base, directions, nothing)), run(base))


def test_steering_adds_and_is_the_equation(base, directions):
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 20, 3))

    def change(amplitudes):
        return run(SteeredSource(base, directions, amplitudes)) - run(base)

    torch.testing.assert_close(change(a + b), change(a) + change(b))
    torch.testing.assert_close(change(2 * a), 2 * change(a))
    expected = base.skills[:, 0] + torch.from_numpy(a @ directions).float()
    steered = run(SteeredSource(base, directions, a))
    torch.testing.assert_close(steered[:, 0], expected)


def test_every_robot_can_be_steered_otherwise(base, directions):
    amplitudes = np.zeros((20, 2, 3))
    amplitudes[:, 1, 2] = 0.5
    change = run(SteeredSource(base, directions, amplitudes)) - run(base)
    assert torch.equal(change[:, 0], torch.zeros(20, 4))
    expected = torch.from_numpy(0.5 * directions[2]).float().expand(20, -1)
    torch.testing.assert_close(change[:, 1], expected)


def test_the_last_amplitudes_hold_on(base, directions):
    """From 0 to 1 in ten steps, and of five more at 1 the last holds."""
    amplitudes = np.zeros((15, 3))
    amplitudes[:, 1] = np.clip(np.arange(15) / 10, 0, 1)
    steered = SteeredSource(base, directions, amplitudes)
    wanted = np.clip(np.arange(20) / 10, 0, 1)[:, None] * directions[1]
    change = run(steered) - run(base)
    torch.testing.assert_close(change[:, 0], torch.from_numpy(wanted).float())


def test_steering_of_a_wrong_shape_or_by_no_number_is_refused(base, directions):
    with pytest.raises(ValueError, match=r"amplitudes have shape \(20, 2\), must be"):
        SteeredSource(base, directions, np.zeros((20, 2)))
    with pytest.raises(ValueError, match=r"amplitudes have shape \(3,\)"):
        SteeredSource(base, directions, np.zeros(3))
    amplitudes = np.zeros((20, 2, 3))
    amplitudes[4, 1, 2] = np.nan
    with pytest.raises(ValueError, match=r"amplitudes\[4, 1, 2\] is nan"):
        SteeredSource(base, directions, amplitudes)
    directions[1, 0] = np.inf
    with pytest.raises(ValueError, match=r"directions\[1, 0\] is inf"):
        SteeredSource(base, directions, np.zeros((20, 3)))


def test_steering_never_encodes_again(corpus, encoder, directions):
    """Where the robot is makes no difference."""
    skills = encode_clip(encoder, torch.tensor(np.array(corpus.qpos(0))))
    wide = np.random.default_rng(0).normal(size=(1, encoder.width))
    source = SteeredSource(ReplaySource([skills]), wide, np.ones((40, 1)))
    away = ANYWHERE + 3.0
    assert torch.equal(source.source(5, ANYWHERE), source.source(5, away))

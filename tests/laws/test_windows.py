"""Windows: what each of the three sees, from where, and of which clip."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spectral_skills import rotation
from spectral_skills.motion.windows import (
    POSE_SIZE,
    MotionTensors,
    WindowConfig,
    Windows,
    WindowSampler,
    anchor_poses,
)
from spectral_skills.robot import g1

CONFIG = WindowConfig()
POSITION, ROT6D = slice(29, 32), slice(32, 38)
LENGTHS = (60, 26, 20, 45)
"""With the paper's windows these have 35, 1, 0 and 20 valid times."""


def to_matrix(q: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3): their columns are the rotated axes."""
    return rotation.rotate(q[..., None, :], torch.eye(3).to(q)).mT


def motions_of(rows: torch.Tensor, lengths: tuple[int, ...]) -> MotionTensors:
    """Clips of the given lengths, one after another."""
    return MotionTensors.of_clips(rows.split(lengths))


@pytest.fixture(scope="module")
def motions(make_clip):
    clips = [make_clip(frames=n, seed=i) for i, n in enumerate(LENGTHS)]
    rows = torch.from_numpy(np.concatenate([clip.qpos() for clip in clips]))
    return motions_of(rows, LENGTHS)


def at(motions, clip: int, time: int, config=CONFIG) -> Windows:
    """The windows of one clip at one time."""
    return WindowSampler(motions, config).at(torch.tensor([clip]), torch.tensor([time]))


def everything(motions, config=CONFIG) -> Windows:
    """All windows of all clips."""
    sampler = WindowSampler(motions, config)
    return sampler.at(*sampler.locate(torch.arange(sampler.total)))


def moved(motions, turn: float, shift: tuple[float, float, float]) -> MotionTensors:
    """The same motions after turning the world about z and shifting it."""
    q = rotation.from_yaw(torch.tensor(turn))
    rows = motions.rows
    position = rotation.rotate(q, rows[:, :3]) + torch.tensor(shift)
    quaternion = rotation.multiply(q, rows[:, 3:7])
    rows = torch.cat((position, quaternion, rows[:, 7:]), dim=1)
    return dataclasses.replace(motions, rows=rows)


def test_shapes_of_the_paper(motions):
    """X, B, Y have 6, 10 and 11 poses of 38 numbers."""
    windows = everything(motions)
    assert POSE_SIZE == 38
    assert windows.context.shape == (56, 6, 38)
    assert windows.chunk.shape == (56, 10, 38)
    assert windows.future.shape == (56, 11, 38)


def test_context_and_chunk_share_the_present(motions):
    """The last pose of X is the first of B: x_t, at (0, 0, z) without yaw."""
    windows = everything(motions)
    now = windows.context[:, -1]
    assert torch.equal(now, windows.chunk[:, 0])
    assert now[:, POSITION][:, :2].abs().max() < 1e-6
    quaternion = rotation.from_rot6d(now[:, ROT6D])
    assert rotation.yaw(quaternion).abs().max() < 1e-5


@pytest.mark.parametrize("stride", [1, 2])
def test_encoder_never_sees_the_future(motions, stride):
    """B ends at x_{t+H-1}; Y begins at x_{t+H}: change that frame and see."""
    config = WindowConfig(context=4, chunk=5, future=6, stride=stride)
    t = 15
    before = at(motions, 0, t, config)
    for frame in range(60):
        rows = motions.rows.clone()
        rows[frame, 7:] += 1.0
        after = at(dataclasses.replace(motions, rows=rows), 0, t, config)
        step, rest = divmod(frame - t, stride)
        whole = rest == 0
        expected = {
            "context": {step + 3} if whole and -3 <= step <= 0 else set(),
            "chunk": {step} if whole and 0 <= step < 5 else set(),
            "future": {step - 5} if whole and 5 <= step < 11 else set(),
        }
        for name, poses in expected.items():
            changed = (getattr(after, name) != getattr(before, name))[0].any(-1)
            assert set(changed.nonzero().flatten().tolist()) == poses, (frame, name)


def test_poses_are_joints_position_rotation(motions):
    """38 numbers of x_{t+H}, computed by hand from the rows."""
    t = 20
    windows = at(motions, 0, t)
    now, then = motions.rows[t], motions.rows[t + CONFIG.chunk]
    pose = windows.future[0, 0]
    torch.testing.assert_close(pose[:29], then[7:])
    inverse = rotation.from_yaw(-rotation.yaw(now[3:7]))
    origin = torch.stack((now[0], now[1], torch.tensor(0.0)))
    position = rotation.rotate(inverse, then[:3] - origin)
    torch.testing.assert_close(pose[POSITION], position, atol=1e-6, rtol=0)
    matrix = to_matrix(rotation.multiply(inverse, then[3:7]))
    rot6d = matrix[:, :2].flatten()
    torch.testing.assert_close(pose[ROT6D], rot6d, atol=1e-6, rtol=0)


@given(
    turn=st.floats(-3, 3), x=st.floats(-10, 10), y=st.floats(-10, 10), z=st.floats(0, 1)
)
def test_invariance_to_yaw_and_horizontal_shift(motions, turn, x, y, z):
    """The world may be turned and shifted; only height shows, and exactly."""
    before = everything(motions)
    after = everything(moved(motions, turn, (x, y, z)))
    expected = torch.zeros(38)
    expected[31] = z
    for name, window in vars(before).items():
        change = getattr(after, name) - window
        assert (change - expected).abs().max() < 3e-5, name


def test_windows_ignore_the_double_cover(motions):
    """A motion stored with -q somewhere is the same motion."""
    rows = motions.rows.clone()
    rows[::3, 3:7] *= -1
    flipped = everything(dataclasses.replace(motions, rows=rows))
    for name, window in vars(everything(motions)).items():
        torch.testing.assert_close(getattr(flipped, name), window)


def test_never_across_the_end_of_a_clip(motions):
    """Joints carry the number of their clip: every window has one number only."""
    rows = motions.rows.clone()
    for clip, (start, length) in enumerate(
        zip(motions.starts.tolist(), LENGTHS, strict=True)
    ):
        rows[start : start + length, 7:] = clip
    marked = dataclasses.replace(motions, rows=rows)
    sampler = WindowSampler(marked, CONFIG)
    draws = sampler.sample(2000, torch.Generator().manual_seed(0))
    joints = torch.cat((draws.context, draws.chunk, draws.future), dim=1)[..., :29]
    assert torch.equal(joints.amin((1, 2)), joints.amax((1, 2)))
    assert set(joints[:, 0, 0].tolist()) == {0.0, 1.0, 3.0}


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    context=st.integers(1, 4),
    chunk=st.integers(1, 4),
    future=st.integers(1, 4),
    stride=st.integers(1, 3),
)
def test_locate_is_a_bijection_onto_the_valid_times(
    lengths, context, chunk, future, stride
):
    """Every time whose windows fit its clip is numbered once, and no other."""
    config = WindowConfig(context, chunk, future, stride)
    motions = motions_of(torch.zeros(sum(lengths), 36), tuple(lengths))
    expected = [
        (clip, t)
        for clip, length in enumerate(lengths)
        for t in range(length)
        if t - (context - 1) * stride >= 0
        and t + (chunk + future - 1) * stride <= length - 1
    ]
    if not expected:
        with pytest.raises(ValueError, match="no clip has"):
            WindowSampler(motions, config)
        return
    sampler = WindowSampler(motions, config)
    assert sampler.total == len(expected)
    clips, times = sampler.locate(torch.arange(sampler.total))
    found = list(zip(clips.tolist(), times.tolist(), strict=True))
    assert found == expected


def test_draws_are_uniform_over_times(motions):
    """Each of the 56 times of these clips is drawn about equally often."""
    sampler = WindowSampler(motions, CONFIG)
    sampled = sampler.sample(56 * 200, torch.Generator().manual_seed(1))
    known = everything(motions).future.flatten(1)
    number = torch.cdist(sampled.future.flatten(1), known).argmin(1)
    counts = torch.bincount(number, minlength=56)
    # Standard deviation of a count is 14: five of them.
    assert 130 < counts.min() and counts.max() < 270


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_stride_is_every_nth_frame(make_clip, stride):
    """Strided windows of a clip are plain windows of every n-th frame of it."""
    rows = torch.from_numpy(make_clip(frames=90, seed=5).qpos())
    config = WindowConfig(4, 5, 6, stride)
    t = 9 * stride
    thinned = motions_of(rows[::stride], (len(rows[::stride]),))
    strided = at(motions_of(rows, (90,)), 0, t, config)
    plain = at(thinned, 0, 9, WindowConfig(4, 5, 6))
    for name, window in vars(plain).items():
        torch.testing.assert_close(getattr(strided, name), window)


def test_pose_anchor_removes_height_and_tilt(motions):
    """x_t is the identity, and no rigid motion of the world shows."""
    config = WindowConfig(anchor="pose")
    windows = everything(motions, config)
    identity = torch.tensor([0.0, 0, 0, 1, 0, 0, 1, 0, 0])
    now = windows.chunk[:, 0, 29:]
    torch.testing.assert_close(now, identity.expand(56, 9), atol=1e-6, rtol=0)
    lifted = everything(moved(motions, 1.0, (1.0, 2.0, 3.0)), config)
    torch.testing.assert_close(lifted.future, windows.future, atol=3e-5, rtol=0)
    lean = rotation.exp(torch.tensor([0.5, -0.4, 0.0]))
    rows = motions.rows.clone()
    rows[:, :3] = rotation.rotate(lean, rows[:, :3])
    rows[:, 3:7] = rotation.multiply(lean, rows[:, 3:7])
    tilted = everything(dataclasses.replace(motions, rows=rows), config)
    torch.testing.assert_close(tilted.future, windows.future, atol=3e-5, rtol=0)


def test_heading_anchor_keeps_tilt(motions):
    """What is left of the pelvis orientation at x_t is its lean."""
    now = everything(motions).chunk[:, 0]
    lean = rotation.from_rot6d(now[:, ROT6D])
    sampler = WindowSampler(motions, CONFIG)
    clips, times = sampler.locate(torch.arange(sampler.total))
    rows = motions.gather(clips, times[:, None])[:, 0]
    up = torch.tensor([0.0, 0, 1]).expand(56, 3)
    before = rotation.rotate_inverse(rows[:, 3:7], up)
    after = rotation.rotate_inverse(lean, up)
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    torch.testing.assert_close(now[:, 31], rows[:, 2], atol=1e-6, rtol=0)


def test_anchors_at_run_time(motions):
    """`heading` and `pose` look from the robot, `reference` from the motion."""
    rows = motions.rows[:10][None]
    robots = [
        (torch.tensor([[1.0, 2, 0.7]]), rotation.from_yaw(torch.tensor([0.5]))),
        (torch.tensor([[-3.0, 0, 0.9]]), rotation.exp(torch.tensor([[0.2, 0.1, 2]]))),
    ]
    seen = {
        anchor: [anchor_poses(rows, *robot, anchor) for robot in robots]
        for anchor in ("heading", "pose", "reference")
    }
    assert torch.equal(*seen["reference"])
    for anchor in ("heading", "pose"):
        one, two = seen[anchor]
        assert (one - two).abs().max() > 0.1
    own = anchor_poses(rows, rows[:, 0, :3], rows[:, 0, 3:7], "heading")
    assert torch.equal(seen["reference"][0], own)
    # The robot's height and lean show in `pose` only.
    position, quaternion = robots[1]
    level = (position * torch.tensor([1.0, 1, 0]), rotation.heading(quaternion))
    same = anchor_poses(rows, *level, "heading")
    torch.testing.assert_close(seen["heading"][1], same)
    assert not torch.allclose(anchor_poses(rows, *level, "pose"), seen["pose"][1])


def test_robot_off_to_the_side_sees_the_reference_there(motions):
    """A robot 0.3 m left of the reference sees it 0.3 m to the right."""
    rows = motions.rows[:10][None].clone()
    quaternion = rotation.heading(rows[:, 0, 3:7])
    left = rotation.rotate(quaternion, torch.tensor([[0.0, 0.3, 0.0]]))
    poses = anchor_poses(rows, rows[:, 0, :3] + left, quaternion, "heading")
    expected = torch.tensor([[0.0, -0.3]])
    torch.testing.assert_close(poses[:, 0, 29:31], expected, atol=1e-5, rtol=0)


def test_reference_anchor_is_heading_in_pretraining(motions):
    """There the robot is the reference, at x_t, not at the first row."""
    heading = everything(motions)
    reference = everything(motions, WindowConfig(anchor="reference"))
    for name, window in vars(heading).items():
        assert torch.equal(getattr(reference, name), window)


def test_too_short_clips_are_named(motions):
    """The error says what is needed and what there is."""
    short = motions_of(motions.rows[:45], (20, 25))
    with pytest.raises(ValueError, match="26 frames.*longest has 25"):
        WindowSampler(short, CONFIG)
    none = torch.zeros(0, dtype=torch.long)
    empty = MotionTensors(torch.zeros(0, 36), none, none, none.bool(), False)
    with pytest.raises(ValueError, match="no clip has"):
        WindowSampler(empty, CONFIG)


@pytest.mark.parametrize("name", ["context", "chunk", "future", "stride"])
def test_lengths_must_be_positive(name):
    """The error names the field."""
    with pytest.raises(ValueError, match=name):
        dataclasses.replace(CONFIG, **{name: 0})


def test_sampling_is_determined_by_the_generator(motions):
    """Same seed, same windows; another seed, others."""
    sampler = WindowSampler(motions, CONFIG)
    first, again, other = (
        sampler.sample(32, torch.Generator().manual_seed(seed)) for seed in (7, 7, 8)
    )
    assert torch.equal(first.future, again.future)
    assert not torch.equal(first.future, other.future)


def test_joined_motions_give_the_windows_of_their_parts(motions):
    """Corpora side by side: first the clips of one, then those of the other."""
    both = MotionTensors.join([motions, motions])
    alone, twice = everything(motions), everything(both)
    for name, x in vars(alone).items():
        assert torch.equal(getattr(twice, name), torch.cat((x, x)))


def test_mirrored_windows_are_mirrors_of_windows(make_clip, make_corpus, tmp_path):
    """Left and right joints swapped, y negated, rot6d reflected."""
    clips = [make_clip(f"walk{i}", 50 + i, seed=i) for i in range(2)]
    view = make_corpus(tmp_path / "corpus", clips).with_mirror()
    windows = everything(view.to("cpu"))
    half = len(windows.context) // 2
    signs = torch.tensor([1.0, -1, 1] + [1, -1, -1, 1, 1, -1])
    for window in vars(windows).values():
        plain, mirrored = window[:half], window[half:]
        joints = plain[..., g1.MIRROR_JOINTS] * torch.from_numpy(g1.MIRROR_SIGNS)
        torch.testing.assert_close(mirrored[..., :29], joints.float())
        root = plain[..., 29:] * signs
        torch.testing.assert_close(mirrored[..., 29:], root, atol=2e-6, rtol=0)


def test_windows_of_a_clip_do_not_depend_on_its_corpus(
    make_clip, make_corpus, tmp_path
):
    """Alone, in company or in a selected view: the same windows."""
    clips = [make_clip(f"walk{i}", 40 + i, seed=i) for i in range(4)]
    corpus = make_corpus(tmp_path / "corpus", clips)
    whole = at(corpus.to("cpu"), 2, 10).future
    picked = at(corpus.select([3, 2]).to("cpu"), 1, 10).future
    assert torch.equal(whole, picked)
    alone = torch.from_numpy(clips[2].qpos())
    assert torch.equal(whole, at(motions_of(alone, (42,)), 0, 10).future)

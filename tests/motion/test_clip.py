"""A clip is checked when it is made, and says what is wrong and where."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from spectral_skills.motion.clip import (
    MAX_JOINT_SPEED_RAD_S,
    MAX_JOINT_STEP_RAD,
    Clip,
    ClipError,
)
from spectral_skills.robot import g1

KNEE = 7 + g1.joint_index("left_knee")


def standing(frames: int = 10) -> np.ndarray:
    """(T, 36) rows of the default pose."""
    return np.tile(g1.DEFAULT_QPOS, (frames, 1))


def clip_of(rows: np.ndarray, fps: float = 50.0, **fields) -> Clip:
    return Clip.from_qpos(rows, name="clip", fps=fps, **fields)


def spoiled(frame: int, column: int, value: float) -> np.ndarray:
    rows = standing()
    rows[frame, column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "kind", "frame", "words"),
    [
        (spoiled(3, KNEE, np.nan), "not finite", 3, "left_knee"),
        (spoiled(4, 2, np.inf), "not finite", 4, "z is not a number"),
        (spoiled(0, 5, np.nan), "not finite", 0, "qy"),
        (spoiled(5, 3, 1.02), "quaternion", 5, "length 1.02"),
        (spoiled(5, 3, 0.0), "quaternion", 5, "length 0"),
        (spoiled(6, 2, -0.01), "under floor", 6, "-0.010 m"),
        (spoiled(7, KNEE, 40.0), "units", 7, "left_knee is 40; are these degrees"),
        (spoiled(2, 0, 0.3), "jump", 2, "pelvis moves at 15 m/s"),
        (spoiled(8, KNEE, 3.3), "jump", 8, "left_knee moves 2.63 rad"),
    ],
)
def test_bad_values_are_refused_with_their_frame(rows, kind, frame, words):
    """The first bad frame, what it is, and a short kind for counting."""
    with pytest.raises(ClipError) as caught:
        clip_of(rows)
    assert (caught.value.kind, caught.value.frame) == (kind, frame)
    assert words in caught.value.reason
    assert str(caught.value).startswith(f"frame {frame}: ")


def test_turn_jump():
    """A pelvis that turns by a radian in one frame; -q is no turn at all."""
    rows = standing()
    rows[4:, 3:7] = [np.cos(0.5), 0, 0, np.sin(0.5)]
    with pytest.raises(ClipError, match="frame 4: pelvis turns at 50 rad/s"):
        clip_of(rows)
    rows = standing()
    rows[4:, 3:7] *= -1
    clip_of(rows)


def test_jump_names_the_joint_that_jumps():
    """Not the first joint, and not one that moves less."""
    rows = standing()
    rows[5:, 7 + g1.joint_index("right_elbow")] += 2.6
    rows[5:, 7 + g1.joint_index("left_hip_yaw")] += 1.0
    with pytest.raises(ClipError, match="frame 5: right_elbow moves 2.6 rad"):
        clip_of(rows)


@pytest.mark.parametrize("fps", [0.0, -50.0, 0.5, 1001.0, math.nan, math.inf])
def test_frame_rate_must_be_plausible(fps):
    """1 to 1000 Hz."""
    with pytest.raises(ClipError) as caught:
        clip_of(standing(), fps)
    assert caught.value.kind == "frame rate"


@pytest.mark.parametrize("shape", [(10, 35), (10, 37), (36,), (10, 29), (2, 5, 36)])
def test_wrong_columns(shape):
    """The error tells the shape that was found."""
    with pytest.raises(ClipError) as caught:
        clip_of(np.zeros(shape))
    assert caught.value.kind == "columns"
    assert str(shape) in str(caught.value)


def test_parts_must_have_equal_frames():
    """Root and joints of different length are refused."""
    rows = standing()
    with pytest.raises(ClipError, match=r"\(9, 3\)"):
        Clip("clip", 50.0, rows[:9, :3], rows[:, 3:7], rows[:, 7:])


@pytest.mark.parametrize("frames", [0, 1])
def test_too_few_frames(frames):
    """A motion has at least two."""
    with pytest.raises(ClipError) as caught:
        clip_of(standing(frames))
    assert caught.value.kind == "empty"
    assert clip_of(standing(2)).frames == 2


def test_quaternions_are_normalised():
    """Small errors of rounding are repaired."""
    rows = standing()
    rows[:, 3] = 1.004
    np.testing.assert_array_equal(clip_of(rows).root_quaternion[:, 0], 1.0)


def test_overspeed_is_noted_but_accepted():
    """Published motions have such spikes: kept, with a note that says where."""
    rows = standing()
    rows[6:, KNEE] += 1.0  # 50 rad/s with a motor of 20
    clip = clip_of(rows, notes=("padded",))
    assert clip.notes == (
        "padded",
        "left_knee reaches 50 rad/s at frame 6, its motor 20",
    )
    assert clip_of(clip.qpos(), notes=clip.notes).notes == clip.notes
    slow = standing()
    slow[6:, KNEE] += 0.5  # 25 rad/s: over the motor, but not by half
    assert clip_of(slow).notes == ()


def test_errors_cross_process_boundaries():
    """A worker's refusal arrives with all it knew."""
    error = pickle.loads(pickle.dumps(ClipError("jump", "too fast", 7)))
    assert (error.kind, error.reason, error.frame) == ("jump", "too fast", 7)
    assert str(error) == "frame 7: too fast"
    assert isinstance(error, ValueError)


def test_rows_round_trip(make_clip):
    """qpos and from_qpos are inverse to float precision; arrays are float64."""
    clip = make_clip(frames=30)
    rows = clip.qpos()
    assert rows.shape == (30, 36) and rows.dtype == np.float32
    back = clip_of(rows)
    np.testing.assert_allclose(back.joints, clip.joints, atol=1e-6)
    np.testing.assert_allclose(back.qpos(), rows, atol=1e-7)
    assert clip.duration_s == pytest.approx(29 / 50)


@given(frames=st.integers(3, 200), fps=st.sampled_from([24, 25, 29.97, 30, 60, 120]))
def test_resampled_counts(frames, fps):
    """Times from zero up to, not including, the last frame: ceil((T-1) 50/fps)."""
    # Times 1/50, 2/50.. below (T-1)/fps, with a hair's breadth for rounding.
    end = (frames - 1) * 50 / fps
    expected = math.ceil(end - 1e-6)
    clip = clip_of(standing(frames), fps)
    if expected < 2:
        with pytest.raises(ClipError):
            clip.resampled(50)
        return
    found = clip.resampled(50)
    assert found.frames == expected and found.fps == 50.0
    assert (found.frames - 1) / 50 < clip.duration_s


@pytest.mark.parametrize("frames", [2, 3, 4, 30, 31, 61, 100, 301])
def test_thirty_to_fifty(frames):
    """The rate most motions come in."""
    found = clip_of(standing(frames), 30.0).resampled(50)
    assert found.frames == math.ceil((frames - 1) * 50 / 30)


@pytest.mark.parametrize("fps", [30.0, 60.0, 120.0])
def test_linear_ramps_stay_linear(fps):
    """Root and joints, sampled at their own times."""
    t = np.arange(60) / fps
    rows = standing(60)
    rows[:, 0] += 0.8 * t
    rows[:, KNEE] += 0.5 * t
    found = clip_of(rows, fps).resampled(50)
    time = np.arange(found.frames) / 50
    np.testing.assert_allclose(found.root_position[:, 0], 0.8 * time, atol=1e-9)
    knee = g1.DEFAULT_QPOS[KNEE] + 0.5 * time
    np.testing.assert_allclose(found.joints[:, KNEE - 7], knee, atol=1e-9)


def test_constant_spin_stays_constant_across_the_double_cover():
    """Slerp takes the short way although the stored sign flips every frame."""
    t = np.arange(30) / 30
    rows = standing(30)
    rows[:, 3:7] = np.stack((np.cos(t), 0 * t, 0 * t, np.sin(t)), axis=1)
    rows[1::2, 3:7] *= -1
    found = clip_of(rows, 30.0).resampled(50)
    q = found.root_quaternion
    yaw = 2 * np.arctan(q[:, 3] / q[:, 0])
    expected = 2 * np.arange(found.frames) / 50
    np.testing.assert_allclose(yaw, expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1, atol=1e-12)


def test_resampling_agrees_with_scipy(make_clip):
    """Slerp of the root of a real walk."""
    clip = make_clip(frames=50, fps=30.0, seed=2)
    found = clip.resampled(50)
    xyzw = np.roll(clip.root_quaternion, -1, axis=1)
    slerp = Slerp(np.arange(50) / 30, Rotation.from_quat(xyzw))
    expected = slerp(np.arange(found.frames) / 50)
    ours = Rotation.from_quat(np.roll(found.root_quaternion, -1, axis=1))
    assert (ours.inv() * expected).magnitude().max() < 1e-7


def test_the_right_rate_is_kept_identical(make_clip):
    """50 Hz is not touched, nor is 50 Hz written with rounding."""
    clip = make_clip(frames=30)
    assert clip.resampled(50) is clip
    almost = dataclasses.replace(clip, fps=50.00001)
    assert np.array_equal(almost.resampled(50).qpos(), clip.qpos())


def test_a_rate_of_nearly_fifty_can_be_put_in_a_corpus(
    make_clip, make_corpus, tmp_path
):
    """1 / 0.02 in float32 gives 50.000001 Hz; after resampling it is 50."""
    clip = dataclasses.replace(make_clip(), fps=1 / float(np.float32(0.02)))
    assert clip.fps != 50
    assert len(make_corpus(tmp_path / "corpus", [clip.resampled(50)])) == 1


def test_resampling_keeps_words(make_clip):
    """Name, text, source, licence and notes travel along."""
    fields = {"text": "walks", "source": "here", "licence": "CC0", "notes": ("a",)}
    found = make_clip("w", fps=30.0, **fields).resampled(50)
    assert found.name == "w"
    assert all(getattr(found, name) == value for name, value in fields.items())


@pytest.mark.parametrize("fps", [30.0, 60.0, 120.0, 240.0])
def test_what_is_accepted_can_be_resampled(fps):
    """The limits are speeds: a motion that passes at its own rate passes at 50 Hz."""
    step = 0.99 * min(MAX_JOINT_STEP_RAD, MAX_JOINT_SPEED_RAD_S / fps)
    moving = math.ceil(fps / 50)
    rows = standing(40)
    rows[:, KNEE] = -0.9 + step * np.arange(40).clip(max=moving)
    clip_of(rows, fps).resampled(50)


def test_joints_past_their_limits_are_noted(make_clip):
    """Taken, but the note names joint, frame and by how much; once, resampled too."""
    clip = make_clip(frames=60, fps=30.0)
    rows = clip.qpos().astype(float)
    rows[:, 7 + 3] = 3.2
    noted = Clip.from_qpos(rows, name="knee", fps=30.0).resampled(50)
    (note,) = noted.notes
    assert note == "left_knee is 0.32 rad past its limit at frame 0"
    assert not clip.notes

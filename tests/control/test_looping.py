"""A clip is repeated where it comes back to a pose, and is not felt to be."""

import math

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.control.looping import (
    BLEND,
    blended,
    find_loop,
    headings,
    looped,
    speed_m_s,
    tilt_rad,
    turn_direction,
)
from spectral_skills.motion.windows import (
    MotionTensors,
    move_anchor,
    move_rows,
    reference_poses,
)
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import encode_rows


def circling(frames: int, period: int | None = 40) -> torch.Tensor:
    """A root on a circle; joints that swing, or that never come back."""
    t = torch.arange(frames) / 50
    rows = torch.from_numpy(g1.DEFAULT_QPOS).float().repeat(frames, 1)
    rows[:, 0], rows[:, 1] = t.sin(), 1 - t.cos()
    rows[:, 3:7] = rotation.from_yaw(t)
    swing = 0.02 * torch.arange(frames)
    if period is not None:
        swing = 1.5 * (2 * math.pi / period * torch.arange(frames)).sin()
    rows[:, 7] += swing
    return rows


def test_the_longest_loop_is_whole_periods():
    begin, end = find_loop(circling(200), cut=60) or (0, 0)
    assert end - begin == 160 and end >= 140


def test_a_loop_goes_on_as_if_there_were_no_end(encoder):
    """Skills of a clip without blemish are those of the clip that goes on."""
    clip = circling(200)
    rows, skills, (begin, end) = looped(encoder, clip, cut=60)
    assert len(rows) == len(skills) == end
    assert end - begin == 160
    torch.testing.assert_close(rows, clip[:end], atol=1e-5, rtol=0)
    whole = encode_rows(encoder, clip)[:end]
    torch.testing.assert_close(skills, whole, atol=1e-4, rtol=0)


def test_what_differs_is_blended():
    """The last frame before the jump is nearly the one before the loop's first."""
    clip = circling(200)
    clip[100:, 8] += 0.1
    begin, end = find_loop(clip, 60) or (0, 0)
    assert begin < 100 < end
    rows = blended(clip, begin, end)
    step = (rows[1:, 7:] - rows[:-1, 7:]).abs().amax(dim=1)
    assert float(rows[end - 1, 8] - clip[begin - 1, 8]) < 0.1 / BLEND
    assert step[end - BLEND - 1 :].max() < step.max() + 0.1 / BLEND
    aligned = move_rows(clip[begin : begin + 1], clip[begin], clip[end])
    np.testing.assert_allclose(aligned[0, :2], clip[end, :2], atol=1e-5)
    assert (rows[end - 1, :2] - aligned[0, :2]).norm() < 0.03


def test_a_clip_that_never_comes_back(encoder):
    """It is played again from its first frame; from its rest, if it ends in one."""
    clip = circling(120, period=None)
    assert looped(encoder, clip, 50)[2] == (0, 120)
    clip = torch.cat((clip, clip[-1:].expand(60, -1)))
    begin, end = looped(encoder, clip, 50)[2]
    assert begin >= 120 and end > 150
    longer = torch.cat((clip, clip[-1:].expand(5, -1)))
    assert looped(encoder, longer, 10)[2] == (135, 185)


def test_a_turned_robot_sees_skills_along_one_direction(encoder):
    """The mean change of what robots see that are turned by a little."""
    clip = circling(80)
    here = encode_rows(encoder, clip)
    turned, times = 0.02, torch.arange(len(here))
    poses = reference_poses(
        MotionTensors.of_clips([clip]), 0 * times, times, encoder.steps, "heading"
    )
    offset = torch.tensor([[0.0, 0.0, turned]]).expand(len(times), 3)
    seen = encoder.encode(move_anchor(poses, offset))
    expected = (seen - here).mean(dim=0) / turned
    found = turn_direction(encoder, clip)
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.05)
    assert found.norm() > 0.1


def test_tilt_is_that_of_the_most_tilted_row():
    """However it is turned."""
    angles = torch.tensor([0.2, -1.2, 0.4])
    lean = rotation.from_axis_angle(torch.tensor([0.0, 1.0, 0.0]).expand(3, 3), angles)
    rows = torch.zeros(3, 36)
    rows[:, 3:7] = rotation.multiply(rotation.from_yaw(3 * angles), lean)
    assert tilt_rad(rows) == pytest.approx(1.2, abs=1e-5)


def test_speed_is_that_of_the_fastest_half_second():
    rows = torch.zeros(200, 36)
    rows[:, 0] = torch.cumsum(torch.full((200,), 0.01), 0)  # 0.5 m/s
    rows[100:, 1] = torch.arange(100).clamp(max=50) * 0.04  # and 2 m/s aside
    assert speed_m_s(rows) == pytest.approx(math.hypot(0.5, 2.0), rel=1e-4)
    assert speed_m_s(rows[100:110]) == pytest.approx(math.hypot(0.5, 2.0), rel=1e-4)


def test_headings_have_no_jumps():
    """A root on a circle turns a radian a second, more than once around."""
    found = headings(circling(500))
    np.testing.assert_allclose(found, np.arange(500) / 50, atol=1e-4)

"""Clips that repeat for ever, as streams of skills, and how a turned robot sees them.

A clip is cut where it returns to an earlier pose, its last frames are blended into
those before that pose, and its skills are encoded as if it continued there.
"""

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.run import encode_clip
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.windows import (
    MotionTensors,
    move_anchor,
    move_rows,
    reference_poses,
)
from spectral_skills.skill.encoder import SkillEncoder

BLEND = 15
"""Number of frames that are blended; as many on either side of a jump are compared."""
SHORTEST = 25
"""Shortest loop, in steps."""
ALIKE, UNLIKE = 0.15, 0.35
"""Differences of poses (rad of a joint or of tilt, m of height) below which they count
as the same, and above which they cannot be blended."""
REST, STILL = 50, 0.05
"""A clip rests if neither a joint nor the root moves further in its last steps."""
_MOST = 3000
"""Number of steps before the end of a clip that are compared."""
_TURN = 0.1
"""Turn of the robot, rad, over which the change of skills is measured."""


def looped(
    encoder: SkillEncoder, rows: np.ndarray | Tensor, cut: int
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Return the rows (T, 36) and skills (T, d) of a clip with its longest loop, and
    the steps [begin, T) that are repeated; at most `cut` steps are cut off.

    A clip that never returns to a pose repeats its last second if it rests there, and
    otherwise starts again, which is a jump.
    """
    clip = torch.as_tensor(rows, dtype=torch.float32)
    if (found := find_loop(clip, cut)) is None:
        end = clip[-REST:, [0, 1, 2, *range(7, clip.shape[1])]]
        rests = bool((end.amax(dim=0) - end.amin(dim=0)).max() <= STILL)
        begin = max(0, len(clip) - REST) if rests else 0
        return clip, encode_clip(encoder, clip), (begin, len(clip))
    begin, end = found
    smooth = blended(clip, begin, end)
    # After its end the clip continues as it does from `begin`.
    onward = (begin + torch.arange(encoder.last)).clamp_max(len(clip) - 1)
    after = move_rows(clip[onward], clip[begin], clip[end])
    return smooth, encode_clip(encoder, smooth, after), found


def find_loop(clip: Tensor, cut: int) -> tuple[int, int] | None:
    """Find two similar frames of a clip (T, 36), the second among the last `cut`.

    The clip can jump from the second to the first. Of all pairs that count as the same
    the most distant is chosen, otherwise the most similar; None if none can be blended.
    """
    first = max(0, len(clip) - _MOST)
    clip = clip[first:]
    steps, down = len(clip), torch.tensor([0.0, 0.0, -1.0])
    tilt = rotation.rotate_inverse(clip[:, 3:7], down.expand(steps, 3))
    # Height, tilt and joints do not depend on the place.
    poses = torch.cat((clip[:, 2:3], tilt, clip[:, 7:]), dim=1)
    earliest, latest = max(steps - cut, BLEND + SHORTEST), steps - BLEND
    if earliest >= latest:
        return None
    begins, ends = torch.arange(BLEND, latest), torch.arange(earliest, latest)
    unlike = torch.zeros(len(begins), len(ends))
    for shift in range(-BLEND, BLEND + 1):
        was, now = poses[begins + shift], poses[ends + shift]
        unlike = unlike.maximum(torch.cdist(was, now, p=torch.inf))
    distance = ends - begins[:, None]
    unlike[distance < SHORTEST] = torch.inf
    if unlike.min() > UNLIKE:
        return None
    good = unlike <= max(ALIKE, float(unlike.min()))
    best = int(torch.where(good, distance, 0).argmax())
    begin, end = begins[best // len(ends)], ends[best % len(ends)]
    return first + int(begin), first + int(end)


def blended(clip: Tensor, begin: int, end: int) -> Tensor:
    """Return the clip up to `end`, its last frames faded into those before `begin`."""
    other = move_rows(clip[begin - BLEND : begin], clip[begin], clip[end])
    own = clip[end - BLEND : end]
    # A rotation has two quaternions; average the two that are close.
    side = torch.sign((own[:, 3:7] * other[:, 3:7]).sum(dim=1, keepdim=True))
    other = torch.cat((other[:, :3], side * other[:, 3:7], other[:, 7:]), dim=1)
    weight = torch.arange(1, BLEND + 1)[:, None] / (BLEND + 1)
    mean = torch.lerp(own, other, weight)
    mean[:, 3:7] = rotation.normalize(mean[:, 3:7])
    return torch.cat((clip[: end - BLEND], mean))


def turn_direction(encoder: SkillEncoder, rows: Tensor) -> Tensor:
    """Return the mean change (d,) of a clip's skills for each radian that a robot is
    turned to the left of the clip; zero where the encoder does not see the robot."""
    motions = MotionTensors.of_clips([rows])
    times = torch.arange(-encoder.first, len(rows) - encoder.last)
    anchor, none = encoder.windows.anchor, torch.zeros_like(times)
    if anchor != "heading":
        return torch.zeros(encoder.width)
    poses = reference_poses(motions, none, times, encoder.steps, anchor)
    turned = torch.tensor([[0.0, 0.0, _TURN]]).expand(len(times), 3)
    left, right = (encoder.encode(move_anchor(poses, t)) for t in (turned, -turned))
    return (left - right).mean(dim=0) / (2 * _TURN)


def tilt_rad(rows: Tensor) -> float:
    """Largest tilt of the root from upright."""
    up = torch.tensor([0.0, 0.0, 1.0]).expand(len(rows), 3)
    return float(rotation.rotate(rows[:, 3:7], up)[:, 2].clamp(-1.0, 1.0).min().acos())


def speed_m_s(rows: Tensor) -> float:
    """Largest speed over the ground, mean of half a second."""
    steps = min(FPS // 2, len(rows) - 1)
    moved = (rows[steps:, :2] - rows[:-steps, :2]).norm(dim=1)
    return float(moved.max()) * FPS / steps


def headings(rows: Tensor) -> np.ndarray:
    """(T,) the heading of every row, without jumps, from that of the first."""
    found = np.unwrap(rotation.yaw(rows[:, 3:7]).numpy().astype(np.float64))
    return (found - found[0]).astype(np.float32)

"""How far a skill moves when the robot is not where its reference is.

At run time the encoder sees the reference from where the robot stands. A robot that is
10 cm or 0.1 rad off should get nearly the same skill, from which it can still be read
how far off it is. Lengths are told beside those between skills of other times.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.experiments.readout import Windows, explained
from spectral_skills.motion.windows import anchor_poses
from spectral_skills.skill.encoder import SkillEncoder

METRES, RADIANS = 0.1, 0.1
"""How far a robot is off that tracks as it should."""
_AT_ONCE = 8192


@dataclass(frozen=True)
class Drift:
    """Mean lengths in skill space, over windows, and what tells the offset."""

    length: float
    """Of a skill on the reference."""
    moved: float
    """Way of a skill when the robot is 10 cm off, in any horizontal direction."""
    turned: float
    """0.1 rad to the left or right of the reference's heading."""
    both: float
    moved_share: float
    """The same three as parts of the length."""
    turned_share: float
    both_share: float
    one_step_later: float
    """Between skills 0.02 s apart, on the reference; not a number where no window has
    room for it."""
    ten_steps_later: float
    """0.2 s apart."""
    another_window: float
    """Between skills of windows drawn at random."""
    offset_read: float
    """R^2 of a linear map from the skill to the offset, held out; offsets are normal,
    with deviations of 10 cm each way and 0.1 rad."""


def skills_off(encoder: SkillEncoder, windows: Windows, offset: Tensor) -> Tensor:
    """Skills (n, width) of robots that are off by (n, 3): metres ahead and to the left
    of the reference, as it is heading, and a turn to the left."""
    parts = []
    for clips, times, off in zip(
        *(x.split(_AT_ONCE) for x in (windows.clips, windows.times, offset)),
        strict=True,
    ):
        now = windows.motions.gather(clips, times[:, None])[:, 0]
        rows = windows.motions.gather(clips, times[:, None] + encoder.steps)
        shift = torch.nn.functional.pad(off[:, :2], (0, 1))
        position = now[:, :3] + rotation.rotate(rotation.heading(now[:, 3:7]), shift)
        turned = rotation.multiply(rotation.from_yaw(off[:, 2]), now[:, 3:7])
        poses = anchor_poses(rows, position, turned, encoder.windows.anchor)
        parts.append(encoder.encode(poses))
    return torch.cat(parts)


def drift(encoder: SkillEncoder, fit: Windows, score: Windows, seed: int) -> Drift:
    """Measure an encoder on the windows `score`; the linear map is fitted on `fit`."""
    device = score.motions.device
    generator = torch.Generator(device).manual_seed(seed)

    def normal(windows: Windows) -> Tensor:
        scale = torch.tensor((METRES, METRES, RADIANS), device=device)
        size = (len(windows.clips), 3)
        return scale * torch.randn(size, generator=generator, device=device)

    count = len(score.clips)
    angle = 2 * math.pi * torch.rand(count, generator=generator, device=device)
    side = torch.rand(count, generator=generator, device=device).sub(0.5).sign()
    off = torch.stack(
        (METRES * angle.cos(), METRES * angle.sin(), RADIANS * side), dim=1
    )
    other = torch.randperm(count, generator=generator, device=device)
    pairs = [
        (skills_off(encoder, w, o), o)
        for w, o in ((fit, normal(fit)), (score, normal(score)))
    ]

    skill = score.skills(encoder)

    def way(to: Tensor) -> float:
        return float((to - skill).norm(dim=1).mean())

    def later(steps: int) -> float:
        """Over the windows that have so much room after them."""
        last = score.times + encoder.steps[-1] + steps
        room = last < score.motions.lengths[score.clips]
        times = torch.where(room, score.times + steps, score.times)
        apart = encoder.encode_at(score.motions, score.clips, times) - skill
        return float(apart.norm(dim=1).sum() / room.sum())

    def only(*columns: int) -> Tensor:
        kept = torch.zeros_like(off)
        for column in columns:
            kept[:, column] = off[:, column]
        return kept

    length = float(skill.norm(dim=1).mean())
    ways = [
        way(skills_off(encoder, score, only(*columns)))
        for columns in ((0, 1), (2,), (0, 1, 2))
    ]
    shares = [w / max(length, 1e-9) for w in ways]
    return Drift(
        length,
        *ways,
        *shares,
        one_step_later=later(1),
        ten_steps_later=later(10),
        another_window=way(skill[other]),
        offset_read=explained(*pairs),
    )

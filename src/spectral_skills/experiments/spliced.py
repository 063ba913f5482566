"""Several motions as one reference, for trackers that follow poses.

An explicit tracker has no skills to chain. It is given the motions of a sequence one
after the other, each where the one before ends, with the same weights over a switch
as chained skills have.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.source import chain
from spectral_skills.experiments.chained import SEGMENT, Chained, segments
from spectral_skills.experiments.composition.batch import following
from spectral_skills.experiments.composition.runner import Runner
from spectral_skills.motion.synthetic.bases import Base


class Explicit(Runner):
    """A controller of poses, on a device."""

    commands = "pose"


def splice(motions: Sequence[Tensor], switch: int) -> tuple[Tensor, list[slice]]:
    """One motion (T + 1, 36) of several, and the steps at which it switches.

    Step t leads to row t + 1, so a motion of n + 1 rows has n steps. Each is moved over
    the ground and turned about the vertical: where it begins, it is at the place and
    heading that the one before has at that step.
    """
    placed = list(motions[:1])
    for rows in motions[1:]:
        placed.append(put(rows, placed[-1][-1 - switch]))
    total, switches = chain([rows[1:] for rows in placed], switch)
    weight = torch.arange(1, switch + 1).to(total) / (switch + 1)
    for before, after, steps in zip(placed, placed[1:], switches, strict=False):
        leaving = before[len(before) - switch :, 3:7]
        total[steps, 3:7] = rotation.slerp(leaving, after[1 : switch + 1, 3:7], weight)
    return torch.cat((motions[0][:1], total)), switches


def put(rows: Tensor, where: Tensor) -> Tensor:
    """A motion (T, 36) that begins at the ground place and heading of a row (36,)."""
    first = rotation.heading(rows[0, 3:7])
    turn = rotation.multiply(rotation.heading(where[3:7]), rotation.conjugate(first))
    turn = turn.expand(len(rows), -1)
    start = torch.cat((rows[0, :2], rows.new_zeros(1)))
    place = torch.cat((where[:2], rows.new_zeros(1)))
    position = rotation.rotate(turn, rows[:, :3] - start) + place
    quaternion = rotation.multiply(turn, rows[:, 3:7])
    return torch.cat((position, quaternion, rows[:, 7:]), dim=1)


def spliced(
    tracker: Explicit,
    names: Sequence[str],
    switch: int,
    steps: int = SEGMENT,
    seed: int | None = None,
) -> Chained:
    """A sequence as one reference, and where it switches; as `chained` otherwise."""
    parts = segments(tracker, names, steps)
    rows, switches = splice([torch.from_numpy(part.rows) for part in parts], switch)
    fall_m = min(part.fall_m for part in parts)
    base = Base("-".join(names), rows.numpy(), fall_m)
    run = following(f"explicit, switch {switch}", base, seed)
    return Chained(tuple(names), switch, run, tuple(switches))

"""What can be read from a skill by a linear map: the pose now, later, the way there.

Ridge regression from skills to poses, fitted on clips that the model was trained on
and scored on clips that were held out, for any skill model: all see the same windows.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.windows import (
    MotionTensors,
    WindowConfig,
    WindowSampler,
    reference_poses,
)
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder

CHUNK, LAST = 10, 20
"""The paper's windows: a chunk is frames 0 to 9, the future 10 to 20."""
_STILL = 0.01
"""m or rad; what deviates less hardly moves."""
_JOINTS, _ROOT = slice(0, g1.NUM_JOINTS), slice(g1.NUM_JOINTS, None)
# Clips must have the frames that any encoder of the ablations looks at.
_ROOM = WindowConfig(context=26, chunk=50, future=1)


@dataclass(frozen=True)
class Readout:
    """Share of the variance on held-out windows that a linear map explains."""

    joints_now: float
    """Joints of the first pose of the chunk."""
    joints_chunk_end: float
    """Joints of its last pose."""
    joints_future: float
    """Joints of the poses after it."""
    root_future: float
    """Root position and orientation after it, in the frame of the chunk."""
    travel: float
    """Path along and across, and turn, from the first pose to the last future one."""


def quantities(poses: Tensor) -> dict[str, Tensor]:
    """What is read, from poses (n, 21, 38) at frames 0 to 20."""
    end = poses[:, LAST, _ROOT]
    turn = rotation.yaw(rotation.from_rot6d(end[:, 3:]))
    return {
        "joints_now": poses[:, 0, _JOINTS],
        "joints_chunk_end": poses[:, CHUNK - 1, _JOINTS],
        "joints_future": poses[:, CHUNK:, _JOINTS].flatten(1),
        "root_future": poses[:, CHUNK:, _ROOT].flatten(1),
        "travel": torch.cat((end[:, :2], turn[:, None]), dim=1),
    }


@dataclass(frozen=True)
class Windows:
    """Where in the motions to read, and what is there."""

    motions: MotionTensors
    clips: Tensor
    times: Tensor
    values: dict[str, Tensor]

    @classmethod
    def draw(cls, motions: MotionTensors, count: int, seed: int) -> "Windows":
        """Random windows with room for every encoder."""
        sampler = WindowSampler(motions, _ROOM)
        generator = torch.Generator(motions.device).manual_seed(seed)
        numbers = torch.randint(
            sampler.total, (count,), generator=generator, device=motions.device
        )
        clips, times = sampler.locate(numbers)
        steps = torch.arange(LAST + 1, device=motions.device)
        poses = reference_poses(motions, clips, times, steps, "heading")
        return cls(motions, clips, times, quantities(poses))

    def skills(self, encoder: SkillEncoder) -> Tensor:
        """Skills of all windows."""
        return encoder.encode_at(self.motions, self.clips, self.times)


def explained(fit: tuple[Tensor, Tensor], score: tuple[Tensor, Tensor]) -> float:
    """R^2 on `score` of the ridge regression fitted on `fit`; pairs (inputs, values).

    Values are scaled to unit variance, so that each coordinate counts alike; one
    that hardly moves (under 1 cm or 0.01 rad) does not count. Not a number where none
    of `score` moves: there is no variance to explain.
    """
    (x, y), (x_new, y_new) = fit, score
    mean, deviation = y.double().mean(0), y.double().std(0)
    moves = deviation > _STILL
    if not (y_new.double().std(0, correction=0) > _STILL)[moves].any():
        return math.nan
    y = ((y.double() - mean) / deviation)[:, moves]
    y_new = ((y_new.double() - mean) / deviation)[:, moves]
    centre = x.double().mean(0)
    x, x_new = x.double() - centre, x_new.double() - centre
    gram = x.T @ x
    # All skills may be the same: then nothing is explained, and nothing breaks.
    gram.diagonal().add_(1e-6 * gram.diagonal().mean().clamp_min(1e-9))
    weights = torch.linalg.solve(gram, x.T @ y)
    rest = (y_new - x_new @ weights).square().mean(0)
    spread = y_new.var(0, correction=0)
    return float(1 - rest.sum() / spread.sum())


def readout(encoder: SkillEncoder, fit: Windows, score: Windows) -> Readout:
    """Score an encoder."""
    x, x_new = fit.skills(encoder), score.skills(encoder)
    return Readout(
        **{
            name: explained((x, y), (x_new, score.values[name]))
            for name, y in fit.values.items()
        }
    )

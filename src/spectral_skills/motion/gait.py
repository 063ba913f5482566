"""Gait of a walking or running clip: what its strides measure.

Touchdowns are found from height and speed of the soles, with room for feet that
slide and sink as retargeted ones do. Only strides that go straight ahead count.
"""

from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics, LinkPoses
from spectral_skills.robot import g1

# A foot stands while its lowest point is near the usual height of standing feet and
# slow for the speed of the body: a swinging foot is about twice as fast as the body.
_STANDING_HEIGHT_M = 0.035
_STANDING_SPEED = 0.2
_STANDING_SPEED_OF_BODY = 0.3
_LONGEST_GAP_S, _SHORTEST_STANCE_S = 0.04, 0.08

_PATH_WINDOW_S = 1.2  # about one stride, so that sway averages out
_SLOWEST = 0.25
_STRAIGHT_RATE, _STRAIGHT_HEADING = 0.5, 0.5
_STRIDE_S = (0.4, 2.4)
_STEADY_SHARE = 0.2


@dataclass(frozen=True)
class Stride:
    """From a touchdown to the next of the same foot; lengths in m, angles in rad.

    A range goes from the 5th to the 95th percentile over the stride.
    """

    speed: float
    """m/s."""
    cadence: float
    """Steps a second."""
    step_length: float
    step_width: float
    stance_share: float
    """Share of the stride that a foot stands."""
    double_support_share: float
    flight_share: float
    hip_pitch_range: float
    knee_range: float
    ankle_pitch_range: float
    shoulder_pitch_range: float
    pelvis_height: float
    pelvis_bob: float
    """Range of the pelvis' height."""
    pelvis_sway: float
    """Range of the pelvis across the path."""
    pelvis_yaw_range: float
    pelvis_roll_range: float
    clearance: float
    """Highest that the sole's lowest point gets in the swing."""


@dataclass(frozen=True)
class Gait:
    """Medians over the strides of a clip."""

    strides: int
    median: Stride


def gait(qpos: np.ndarray, fps: float = FPS) -> Gait | None:
    """Gait of (T, 36) rows; None where no stride goes straight ahead."""
    found = strides(qpos, fps)
    if not found:
        return None
    names = [field.name for field in fields(Stride)]
    values = {n: float(np.median([getattr(s, n) for s in found])) for n in names}
    return Gait(len(found), Stride(**values))


def strides(qpos: np.ndarray, fps: float = FPS) -> list[Stride]:
    """All steady strides straight ahead, of both feet, in order of their feet."""
    walk = _Walk.observe(np.asarray(qpos, dtype=np.float64), fps)
    touchdowns = [_runs(walk.standing[:, foot])[0] for foot in (0, 1)]
    found = []
    for foot in (0, 1):
        mine, others = touchdowns[foot], touchdowns[1 - foot]
        for start, end in zip(mine[:-1], mine[1:], strict=True):
            between = others[(others > start) & (others < end)]
            if len(between) == 1 and walk.is_steady(start, end, fps):
                found.append(walk.stride(foot, start, int(between[0]), end, fps))
    return found


@dataclass(frozen=True)
class _Walk:
    """Curves of a clip of T frames."""

    qpos: np.ndarray
    feet: np.ndarray
    """(T, 2, 3) ankle roll links."""
    heights: np.ndarray
    """(T, 2) lowest points of the soles, from where they stand."""
    standing: np.ndarray
    """(T, 2)"""
    velocity: np.ndarray
    """(T, 2) of the pelvis along its path, averaged over about a stride."""
    straight: np.ndarray
    """(T,) moving, not turning, and facing where it goes."""
    yaw: np.ndarray
    roll: np.ndarray

    @classmethod
    def observe(cls, qpos: np.ndarray, fps: float) -> "_Walk":
        pelvis = torch.from_numpy(qpos[:, 3:7])
        up = rotation.rotate_inverse(pelvis, torch.tensor([0.0, 0.0, 1.0]).to(pelvis))
        poses = _feet()(torch.from_numpy(qpos))
        soles = _sole_points(poses)
        heights = soles[..., 2].min(axis=2)
        heights = heights - np.percentile(heights, 10)
        window = round(_PATH_WINDOW_S * fps)
        velocity = average(rate(qpos[:, :2], fps), window)
        speed = np.linalg.norm(velocity, axis=1)
        path = np.unwrap(np.arctan2(velocity[:, 1], velocity[:, 0]))
        yaw = np.unwrap(rotation.yaw(pelvis).numpy())
        facing = average(yaw, window) - path
        facing = np.abs((facing + np.pi) % (2 * np.pi) - np.pi)
        straight = (speed > _SLOWEST) & (facing < _STRAIGHT_HEADING)
        straight &= np.abs(rate(path, fps)) < _STRAIGHT_RATE
        lowest = soles[..., 2].argmin(axis=2)[..., None, None]
        motion = np.take_along_axis(rate(soles, fps), lowest, axis=2)[:, :, 0]
        slow = _STANDING_SPEED + _STANDING_SPEED_OF_BODY * speed[:, None]
        standing = (heights < _STANDING_HEIGHT_M) & (
            np.linalg.norm(motion, axis=-1) < slow
        )
        return cls(
            qpos=qpos,
            feet=poses.position.numpy(),
            heights=heights,
            standing=np.stack([_settled(s, fps) for s in standing.T], axis=1),
            velocity=velocity,
            straight=straight,
            yaw=yaw,
            roll=np.arctan2(up[:, 1].numpy(), up[:, 2].numpy()),
        )

    def is_steady(self, start: int, end: int, fps: float) -> bool:
        """Whether a stride goes straight ahead at one speed."""
        if not _STRIDE_S[0] < (end - start) / fps < _STRIDE_S[1]:
            return False
        speed = np.linalg.norm(self.velocity[start:end], axis=1)
        even = speed.std() < _STEADY_SHARE * speed.mean()
        return bool(self.straight[start:end].all() and even)

    def stride(self, foot: int, start: int, middle: int, end: int, fps: float):
        """The stride of a foot whose other foot touches down at `middle`."""
        frames, side = slice(start, end), ("left", "right")[foot]
        duration = (end - start) / fps
        ahead = self.velocity[frames].mean(axis=0)
        ahead = ahead / np.linalg.norm(ahead)
        # From the foot of the stride to the other one.
        aside = np.array((-ahead[1], ahead[0])) * (1 if foot else -1)
        settled = round(0.06 * fps)  # a foot has come to rest a little later
        places = [
            self.feet[min(at + settled, len(self.feet) - 1), which, :2]
            for at, which in ((start, foot), (middle, 1 - foot), (end, foot))
        ]
        first, second = places[1] - places[0], places[2] - places[1]
        standing = self.standing[frames]

        def spread(name: str) -> float:
            return _spread(self.qpos[frames, 7 + g1.joint_index(f"{side}_{name}")])

        return Stride(
            speed=float((self.qpos[end, :2] - self.qpos[start, :2]) @ ahead) / duration,
            cadence=2.0 / duration,
            step_length=float(0.5 * (first + second) @ ahead),
            step_width=float(0.5 * (first - second) @ aside),
            stance_share=float(standing.mean()),
            double_support_share=float(standing.all(axis=1).mean()),
            flight_share=float((~standing.any(axis=1)).mean()),
            hip_pitch_range=spread("hip_pitch"),
            knee_range=spread("knee"),
            ankle_pitch_range=spread("ankle_pitch"),
            shoulder_pitch_range=spread("shoulder_pitch"),
            pelvis_height=float(self.qpos[frames, 2].mean()),
            pelvis_bob=_spread(self.qpos[frames, 2]),
            pelvis_sway=_spread(self.qpos[frames, :2] @ aside),
            pelvis_yaw_range=_spread(self.yaw[frames]),
            pelvis_roll_range=_spread(self.roll[frames]),
            clearance=float(self.heights[frames, foot].max()),
        )


@cache
def _feet() -> Kinematics:
    return Kinematics(g1.FEET, dtype=torch.float64)


def _sole_points(feet: LinkPoses) -> np.ndarray:
    """(T, 2, 14, 3) lowest points of the soles' spheres."""
    points = torch.as_tensor(g1.SOLE_POINTS)
    spread = rotation.rotate(feet.quaternion[..., None, :], points)
    down = torch.tensor([0.0, 0.0, g1.SOLE_RADIUS])
    return (feet.position[..., None, :] + spread - down).numpy()


def _spread(values: np.ndarray) -> float:
    return float(np.subtract(*np.percentile(values, (95, 5))))


def rate(values: np.ndarray, fps: float) -> np.ndarray:
    """Central differences over time; zero for a single frame."""
    if len(values) < 2:
        return np.zeros_like(values)
    return np.gradient(values, 1.0 / fps, axis=0)


def average(values: np.ndarray, window: int) -> np.ndarray:
    """Moving average over time, the first axis; the ends repeat."""
    half = window // 2
    ends = ((half + 1, half), *((0, 0),) * (values.ndim - 1))
    total = np.cumsum(np.pad(values, ends, mode="edge"), axis=0)
    return (total[2 * half + 1 :] - total[: -2 * half - 1]) / (2 * half + 1)


def _runs(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First frames of the stretches that are true, and the frames after their last."""
    change = np.diff(np.concatenate(([0], mask.astype(int), [0])))
    return np.flatnonzero(change > 0), np.flatnonzero(change < 0)


def _settled(standing: np.ndarray, fps: float) -> np.ndarray:
    """Without short gaps, then without short stances."""
    standing = standing.copy()
    for start, end in zip(*_runs(~standing), strict=True):
        inside = start > 0 and end < len(standing)
        if inside and end - start <= _LONGEST_GAP_S * fps:
            standing[start:end] = True
    for start, end in zip(*_runs(standing), strict=True):
        if end - start < _SHORTEST_STANCE_S * fps:
            standing[start:end] = False
    return standing

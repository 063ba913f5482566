"""Strides of a walker: of the robot, or of anything else with two feet and a path."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

# A foot stands while its lowest point is near the usual height of standing feet and
# slow for the speed of the body: a swinging foot is about twice as fast as the body.
_STANDING_HEIGHT_M = 0.035
_STANDING_SPEED = 0.2
_STANDING_SPEED_OF_BODY = 0.3
_LONGEST_GAP_S, _SHORTEST_STANCE_S = 0.04, 0.08
_USUAL_PERCENT = 10

_PATH_WINDOW_S = 1.2  # about one stride, so that sway averages out
_SLOWEST = 0.25
_STRAIGHT_RATE, _STRAIGHT_HEADING = 0.5, 0.5
_STRIDE_S = (0.4, 2.4)
_STEADY_SHARE = 0.2


@dataclass(frozen=True)
class Pace:
    """From a touchdown to the next of the same foot; lengths in m."""

    speed: float  # m/s
    cadence: float  # steps a second
    step_length: float
    step_width: float
    stance_share: float  # share of the stride that a foot stands
    double_support_share: float
    flight_share: float


@dataclass(frozen=True)
class Stride(Pace):
    """A stride of the robot; angles in rad.

    A range goes from the 5th to the 95th percentile over the stride.
    """

    hip_pitch_range: float
    knee_range: float
    ankle_pitch_range: float
    shoulder_pitch_range: float
    pelvis_height: float
    pelvis_bob: float  # range of the pelvis' height
    clearance: float  # highest that the sole's lowest point gets in the swing


def strides(qpos: np.ndarray, fps: float = FPS) -> list[Stride]:
    """All steady strides straight ahead, of both feet, in order of their feet.

    Touchdowns are found from height and speed of the soles, with room for feet that
    slide and sink as retargeted ones do.
    """
    qpos = np.asarray(qpos, dtype=np.float64)
    pelvis = torch.from_numpy(qpos[:, 3:7])
    yaw = np.unwrap(rotation.yaw(pelvis).numpy())
    poses = _feet()(torch.from_numpy(qpos))
    points = torch.as_tensor(g1.SOLE_POINTS)
    spread = rotation.rotate(poses.quaternion[..., None, :], points)
    down = torch.tensor([0.0, 0.0, g1.SOLE_RADIUS])
    soles = (poses.position[..., None, :] + spread - down).numpy()
    walk = Walk(qpos[:, :2], yaw, poses.position.numpy(), soles, fps)

    def stride(foot: int, start: int, middle: int, end: int) -> Stride:
        rows = qpos[start:end]

        def joint(name: str) -> float:
            side = ("left", "right")[foot]
            return _spread(rows[:, 7 + g1.joint_index(f"{side}_{name}")])

        return Stride(
            **vars(walk.pace(foot, start, middle, end)),
            hip_pitch_range=joint("hip_pitch"),
            knee_range=joint("knee"),
            ankle_pitch_range=joint("ankle_pitch"),
            shoulder_pitch_range=joint("shoulder_pitch"),
            pelvis_height=float(rows[:, 2].mean()),
            pelvis_bob=_spread(rows[:, 2]),
            clearance=float(walk.heights[start:end, foot].max()),
        )

    return [stride(*found) for found in walk.steady()]


class Walk:
    """Curves of a clip of T frames."""

    def __init__(
        self,
        path: np.ndarray,  # (T, 2) of the body along the floor, m
        yaw: np.ndarray,  # (T,) where the body faces, rad, without jumps
        feet: np.ndarray,  # (T, 2, 3) a place of the left and of the right foot, m
        soles: np.ndarray,  # (T, 2, k, 3) points of each foot that can touch, m
        fps: float,
    ):
        self.path, self.feet, self.fps = path, feet, fps
        window = round(_PATH_WINDOW_S * fps)
        self.velocity = average(rate(path, fps), window)
        speed = np.linalg.norm(self.velocity, axis=1)
        course = np.unwrap(np.arctan2(self.velocity[:, 1], self.velocity[:, 0]))
        facing = average(yaw, window) - course
        facing = np.abs((facing + np.pi) % (2 * np.pi) - np.pi)
        # Moving, not turning, and facing where it goes.
        self.straight = (speed > _SLOWEST) & (facing < _STRAIGHT_HEADING)
        self.straight &= np.abs(rate(course, fps)) < _STRAIGHT_RATE

        heights = soles[..., 2].min(axis=2)
        self.heights = heights - np.percentile(heights, _USUAL_PERCENT)
        lowest = soles[..., 2].argmin(axis=2)[..., None, None]
        motion = np.take_along_axis(rate(soles, fps), lowest, axis=2)[:, :, 0]
        standing = np.linalg.norm(motion, axis=-1) < slow(speed)[:, None]
        standing &= self.heights < _STANDING_HEIGHT_M
        self.standing = np.stack([_settled(s, fps) for s in standing.T], axis=1)

    def steady(self) -> Iterator[tuple[int, int, int, int]]:
        """Foot, touchdown, touchdown of the other and next touchdown of each stride
        that goes straight ahead at one speed."""
        touchdowns = [[start for start, _ in runs(s)] for s in self.standing.T]
        for foot in (0, 1):
            mine, others = touchdowns[foot], touchdowns[1 - foot]
            for start, end in zip(mine[:-1], mine[1:], strict=True):
                between = [at for at in others if start < at < end]
                if len(between) == 1 and self._is_steady(start, end):
                    yield foot, start, between[0], end

    def _is_steady(self, start: int, end: int) -> bool:
        if not _STRIDE_S[0] < (end - start) / self.fps < _STRIDE_S[1]:
            return False
        speed = np.linalg.norm(self.velocity[start:end], axis=1)
        even = speed.std() < _STEADY_SHARE * speed.mean()
        return bool(self.straight[start:end].all() and even)

    def pace(self, foot: int, start: int, middle: int, end: int) -> Pace:
        """The stride of a foot whose other foot touches down at `middle`."""
        duration = (end - start) / self.fps
        ahead = self.velocity[start:end].mean(axis=0)
        ahead = ahead / np.linalg.norm(ahead)
        aside = np.array((-ahead[1], ahead[0])) * (1 if foot else -1)
        settled = round(0.06 * self.fps)  # a foot has come to rest a little later
        places = [
            self.feet[min(at + settled, len(self.feet) - 1), which, :2]
            for at, which in ((start, foot), (middle, 1 - foot), (end, foot))
        ]
        first, second = places[1] - places[0], places[2] - places[1]
        standing = self.standing[start:end]
        return Pace(
            speed=float((self.path[end] - self.path[start]) @ ahead) / duration,
            cadence=2.0 / duration,
            step_length=float(0.5 * (first + second) @ ahead),
            step_width=float(0.5 * (first - second) @ aside),
            stance_share=float(standing.mean()),
            double_support_share=float(standing.all(axis=1).mean()),
            flight_share=float((~standing.any(axis=1)).mean()),
        )


def slow(body_speed: np.ndarray) -> np.ndarray:
    """Speed below which a foot may be standing, by the speed of the body; m/s."""
    return _STANDING_SPEED + _STANDING_SPEED_OF_BODY * body_speed


@cache
def _feet() -> Kinematics:
    return Kinematics(g1.FEET, dtype=torch.float64)


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


def runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """First frame of every stretch of a mask (T,) that is true, and the frame after."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return [(start, end) for start, end in edges.reshape(-1, 2).tolist()]


def _settled(standing: np.ndarray, fps: float) -> np.ndarray:
    """Without short gaps, then without short stances."""
    standing = standing.copy()
    for start, end in runs(~standing):
        inside = start > 0 and end < len(standing)
        if inside and end - start <= _LONGEST_GAP_S * fps:
            standing[start:end] = True
    for start, end in runs(standing):
        if end - start < _SHORTEST_STANCE_S * fps:
            standing[start:end] = False
    return standing

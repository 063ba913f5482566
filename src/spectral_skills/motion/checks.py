"""How far a motion is from what a robot could do on a floor, and how it walks.

Links, soles and forces behind `Plausibility` come from MuJoCo, not from this
package's own kinematics, so that a generator built on the latter is measured by
something independent.
"""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.inverse_dynamics import (
    CONTACT_HEIGHT_M,
    Dynamics,
    body_weight,
    inverse_dynamics,
)
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1
from spectral_skills.workers import few_or_all, in_order

SLIDE_HEIGHT_M = 0.003  # a sphere of the sole below this must not move along
LOADED_SHARE = 0.2  # of the weight; below, the zero-moment point means little
_DIRECTIONS = 64

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
class Plausibility:
    """Measurements of one clip; a perfect one has zeros, and shares of one."""

    frames: int
    sole_depth_mm: float  # depth of a sole's deepest point under the floor
    sole_gap_mm: float  # 95th percentile of the lowest sole's height
    slide_max: float  # fastest motion of a touching sole along the floor, m/s
    slide_50: float  # median of that speed over touching feet and frames, m/s
    slide_99: float  # 99th percentile of that speed, m/s
    limit_excess: float  # farthest that a joint goes beyond its soft limits, rad
    speed_ratio: float  # speed of the fastest joint, as a fraction of its motor's limit
    pelvis_acceleration: float  # greatest acceleration of the pelvis, m/s^2
    foot_acceleration: float  # greatest acceleration of either foot, m/s^2
    balance_95: float  # zero-moment point outside the soles, m, 95th percentile
    balance_max: float  # maximum of that distance, m
    balanced_share: float  # share of loaded frames with less than a centimetre
    airborne_share: float  # share of frames with both feet off the floor
    torque_share: float  # share of frames with all motors within their limits
    torque_ratio_95: float  # worst motor's torque over its limit, 95th percentile
    residual_force_50: float  # force that no contact explains, weights, median
    residual_force_95: float
    residual_moment_50: float  # median of the moment that no floor contact explains, Nm
    residual_moment_95: float


def measure(
    qpos: np.ndarray, fps: float = FPS, contact_height_m: float = CONTACT_HEIGHT_M
) -> Plausibility:
    """Measure (T, 36) rows; soles below the contact height may carry."""

    def percentile(values: np.ndarray, percent: float) -> float:
        return float(np.percentile(values, percent)) if len(values) else 0.0

    def acceleration(positions: np.ndarray) -> float:
        second = np.diff(positions, n=2, axis=0) * fps * fps
        return float(np.linalg.norm(second, axis=-1).max(initial=0.0))

    qpos = np.asarray(qpos, dtype=np.float64)
    dynamics = inverse_dynamics(qpos, fps, contact_height_m)
    soles, joints = dynamics.soles, qpos[:, 7:]
    low, high = g1.SOFT_LIMITS.T
    lowest = soles[..., 2].min(axis=(1, 2))
    slide = slide_speeds(dynamics, fps)
    outside = balance(dynamics)
    ratio = (np.abs(dynamics.torque) / g1.EFFORT_LIMIT).max(axis=1)
    force = np.linalg.norm(dynamics.residual_force, axis=1) / body_weight()
    moment = np.linalg.norm(dynamics.residual_moment, axis=1)
    speed = np.abs(np.diff(joints, axis=0)) * fps / g1.VELOCITY_LIMIT
    return Plausibility(
        frames=len(qpos),
        sole_depth_mm=1e3 * max(0.0, -float(lowest.min())),
        sole_gap_mm=1e3 * percentile(lowest, 95),
        slide_max=float(slide.max(initial=0.0)),
        slide_50=percentile(slide, 50),
        slide_99=percentile(slide, 99),
        limit_excess=float(np.maximum(low - joints, joints - high).max().clip(0.0)),
        speed_ratio=float(speed.max(initial=0.0)),
        pelvis_acceleration=acceleration(qpos[:, None, :3]),
        foot_acceleration=acceleration(dynamics.feet),
        balance_95=percentile(outside, 95),
        balance_max=float(outside.max(initial=0.0)),
        balanced_share=float((outside < 0.01).mean()) if len(outside) else 1.0,
        airborne_share=float((lowest > contact_height_m).mean()),
        torque_share=float((ratio <= 1.0).mean()),
        torque_ratio_95=percentile(ratio, 95),
        residual_force_50=percentile(force, 50),
        residual_force_95=percentile(force, 95),
        residual_moment_50=percentile(moment, 50),
        residual_moment_95=percentile(moment, 95),
    )


def slide_speeds(dynamics: Dynamics, fps: float) -> np.ndarray:
    """Speed along the floor of each foot that touches in two frames running, m/s.

    It is the speed of the foot as a rigid body where the floor is, straight under each
    sphere that is within `SLIDE_HEIGHT_M` in both frames; the fastest counts. A foot
    that rolls over heel or toe turns about a line in the floor: it has no speed there.
    """
    rotation, soles = dynamics.feet_rotation, dynamics.soles
    turn = np.einsum("tfij,tfkj->tfik", rotation[1:], rotation[:-1])
    spin = fps * _rotation_vector(turn)[:, :, None]
    velocity = fps * np.diff(soles, axis=0)  # of spheres' centres, as they only shift
    height = 0.5 * (soles[1:, ..., 2] + soles[:-1, ..., 2]) + g1.SOLE_RADIUS
    x = velocity[..., 0] - spin[..., 1] * height
    y = velocity[..., 1] + spin[..., 0] * height
    near = soles[..., 2] < SLIDE_HEIGHT_M
    near = near[1:] & near[:-1]
    speed = np.where(near, np.hypot(x, y), -1.0).max(axis=-1)
    return speed[speed >= 0]


def _rotation_vector(matrix: np.ndarray) -> np.ndarray:
    """Rotation vectors of matrices that turn by less than half a circle."""
    skew = matrix - np.swapaxes(matrix, -1, -2)
    axis = 0.5 * np.stack((skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]), axis=-1)
    sine = np.linalg.norm(axis, axis=-1)
    angle = np.arctan2(sine, 0.5 * (np.trace(matrix, axis1=-2, axis2=-1) - 1.0))
    return axis * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 1.0)[..., None]


def balance(dynamics: Dynamics) -> np.ndarray:
    """Distance of the zero-moment point outside the soles' polygon, m.

    Only of frames in which a sole touches and the floor must carry more than
    `LOADED_SHARE` of the weight.
    """
    touching = dynamics.touching.reshape(len(dynamics.force), -1)
    loaded = dynamics.force[:, 2] > LOADED_SHARE * body_weight()
    frames = loaded & touching.any(axis=1)
    frames[[0, -1]] = False  # where a clip is cut decides their accelerations
    points = dynamics.soles[..., :2].reshape(len(frames), -1, 2)
    place = dynamics.zero_moment_point[frames]
    return distance_outside(place, points[frames], touching[frames])


def distance_outside(
    place: np.ndarray, points: np.ndarray, valid: np.ndarray
) -> np.ndarray:
    """(n,) distance of places (n, 2) outside the convex hull of points (n, k, 2).

    The greatest distance by which any of 64 fixed directions separates the place
    from all `valid` points (n, k): zero inside, and at most 0.2 % too small outside.
    """
    angle = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    # From the place itself, so that being far from the origin costs no digits.
    offsets = np.where(valid[..., None], points - place[:, None], np.nan)
    x, y = np.ascontiguousarray(offsets.transpose(2, 1, 0))
    separation = np.zeros(len(place))
    for cosine, sine in zip(np.cos(angle), np.sin(angle), strict=True):
        reach = np.fmax.reduce(x * cosine + y * sine, axis=0)
        np.maximum(separation, -reach, out=separation)
    return separation


def measure_corpus(
    corpus: Corpus,
    workers: int | None = None,
    contact_height_m: float = CONTACT_HEIGHT_M,
) -> list[Plausibility]:
    job = partial(measure, contact_height_m=contact_height_m)
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = in_order(job, clips, workers or few_or_all(len(corpus)))
    return list(tqdm(found, total=len(corpus), unit="clip", desc="check", disable=None))


@dataclass(frozen=True)
class Stride:
    """From a touchdown to the next of the same foot; lengths in m, angles in rad.

    A range goes from the 5th to the 95th percentile over the stride.
    """

    speed: float  # m/s
    cadence: float  # steps a second
    step_length: float
    step_width: float
    stance_share: float  # share of the stride that a foot stands
    double_support_share: float
    flight_share: float
    hip_pitch_range: float
    knee_range: float
    ankle_pitch_range: float
    shoulder_pitch_range: float
    pelvis_height: float
    pelvis_bob: float  # range of the pelvis' height
    pelvis_sway: float  # range of the pelvis across the path
    pelvis_yaw_range: float
    pelvis_roll_range: float
    clearance: float  # highest that the sole's lowest point gets in the swing


def strides(qpos: np.ndarray, fps: float = FPS) -> list[Stride]:
    """All steady strides straight ahead, of both feet, in order of their feet.

    Touchdowns are found from height and speed of the soles, with room for feet that
    slide and sink as retargeted ones do.
    """
    walk = _Walk(np.asarray(qpos, dtype=np.float64), fps)
    touchdowns = [_runs(walk.standing[:, foot])[0] for foot in (0, 1)]
    found = []
    for foot in (0, 1):
        mine, others = touchdowns[foot], touchdowns[1 - foot]
        for start, end in zip(mine[:-1], mine[1:], strict=True):
            between = others[(others > start) & (others < end)]
            if len(between) == 1 and walk.is_steady(start, end):
                found.append(walk.stride(foot, start, int(between[0]), end))
    return found


class _Walk:
    """Curves of a clip of T frames."""

    def __init__(self, qpos: np.ndarray, fps: float):
        self.qpos, self.fps = qpos, fps
        pelvis = torch.from_numpy(qpos[:, 3:7])
        up = rotation.rotate_inverse(pelvis, torch.tensor([0.0, 0.0, 1.0]).to(pelvis))
        self.roll = np.arctan2(up[:, 1].numpy(), up[:, 2].numpy())
        self.yaw = np.unwrap(rotation.yaw(pelvis).numpy())
        window = round(_PATH_WINDOW_S * fps)
        self.velocity = average(rate(qpos[:, :2], fps), window)
        speed = np.linalg.norm(self.velocity, axis=1)
        path = np.unwrap(np.arctan2(self.velocity[:, 1], self.velocity[:, 0]))
        facing = average(self.yaw, window) - path
        facing = np.abs((facing + np.pi) % (2 * np.pi) - np.pi)
        # Moving, not turning, and facing where it goes.
        self.straight = (speed > _SLOWEST) & (facing < _STRAIGHT_HEADING)
        self.straight &= np.abs(rate(path, fps)) < _STRAIGHT_RATE

        poses = _feet()(torch.from_numpy(qpos))
        self.feet = poses.position.numpy()
        points = torch.as_tensor(g1.SOLE_POINTS)
        spread = rotation.rotate(poses.quaternion[..., None, :], points)
        down = torch.tensor([0.0, 0.0, g1.SOLE_RADIUS])
        soles = (poses.position[..., None, :] + spread - down).numpy()
        heights = soles[..., 2].min(axis=2)
        self.heights = heights - np.percentile(heights, 10)
        lowest = soles[..., 2].argmin(axis=2)[..., None, None]
        motion = np.take_along_axis(rate(soles, fps), lowest, axis=2)[:, :, 0]
        slow = _STANDING_SPEED + _STANDING_SPEED_OF_BODY * speed[:, None]
        standing = np.linalg.norm(motion, axis=-1) < slow
        standing &= self.heights < _STANDING_HEIGHT_M
        self.standing = np.stack([_settled(s, fps) for s in standing.T], axis=1)

    def is_steady(self, start: int, end: int) -> bool:
        """Whether a stride goes straight ahead at one speed."""
        if not _STRIDE_S[0] < (end - start) / self.fps < _STRIDE_S[1]:
            return False
        speed = np.linalg.norm(self.velocity[start:end], axis=1)
        even = speed.std() < _STEADY_SHARE * speed.mean()
        return bool(self.straight[start:end].all() and even)

    def stride(self, foot: int, start: int, middle: int, end: int) -> Stride:
        """The stride of a foot whose other foot touches down at `middle`."""
        frames, duration = slice(start, end), (end - start) / self.fps
        ahead = self.velocity[frames].mean(axis=0)
        ahead = ahead / np.linalg.norm(ahead)
        # From the foot of the stride to the other one.
        aside = np.array((-ahead[1], ahead[0])) * (1 if foot else -1)
        settled = round(0.06 * self.fps)  # a foot has come to rest a little later
        places = [
            self.feet[min(at + settled, len(self.feet) - 1), which, :2]
            for at, which in ((start, foot), (middle, 1 - foot), (end, foot))
        ]
        first, second = places[1] - places[0], places[2] - places[1]
        standing, rows = self.standing[frames], self.qpos[frames]

        def spread(values: np.ndarray) -> float:
            return float(np.subtract(*np.percentile(values, (95, 5))))

        def joint(name: str) -> float:
            side = ("left", "right")[foot]
            return spread(rows[:, 7 + g1.joint_index(f"{side}_{name}")])

        return Stride(
            speed=float((self.qpos[end, :2] - self.qpos[start, :2]) @ ahead) / duration,
            cadence=2.0 / duration,
            step_length=float(0.5 * (first + second) @ ahead),
            step_width=float(0.5 * (first - second) @ aside),
            stance_share=float(standing.mean()),
            double_support_share=float(standing.all(axis=1).mean()),
            flight_share=float((~standing.any(axis=1)).mean()),
            hip_pitch_range=joint("hip_pitch"),
            knee_range=joint("knee"),
            ankle_pitch_range=joint("ankle_pitch"),
            shoulder_pitch_range=joint("shoulder_pitch"),
            pelvis_height=float(rows[:, 2].mean()),
            pelvis_bob=spread(rows[:, 2]),
            pelvis_sway=spread(rows[:, :2] @ aside),
            pelvis_yaw_range=spread(self.yaw[frames]),
            pelvis_roll_range=spread(self.roll[frames]),
            clearance=float(self.heights[frames, foot].max()),
        )


@cache
def _feet() -> Kinematics:
    return Kinematics(g1.FEET, dtype=torch.float64)


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

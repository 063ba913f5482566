"""How far a motion is from what a robot could do on a floor, in plain numbers.

Links, soles and forces come from MuJoCo, not from this package's own kinematics, so
that a generator built on the latter is measured by something independent.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from tqdm import tqdm

from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.inverse_dynamics import (
    CONTACT_HEIGHT_M,
    Dynamics,
    body_weight,
    inverse_dynamics,
)
from spectral_skills.motion.workers import in_order
from spectral_skills.robot import g1

SLIDE_HEIGHT_M = 0.003
"""A sphere of the sole this near to the floor must not move along it."""
LOADED_SHARE = 0.2
"""Share of the body's weight below which the zero-moment point means little."""
_DIRECTIONS = 64


@dataclass(frozen=True)
class Plausibility:
    """Measurements of one clip; a perfect one has zeros, and shares of one."""

    frames: int
    sole_depth_mm: float
    """Deepest point of a sole under the floor."""
    sole_gap_mm: float
    """95th percentile of the lowest sole's height: who hovers is not seen to slide."""
    slide_max: float
    """Fastest motion of a touching sole along the floor, m/s."""
    slide_50: float
    """Its median over touching feet and frames, m/s."""
    slide_99: float
    """Its 99th percentile, m/s."""
    limit_excess: float
    """Farthest a joint goes beyond its soft limits, rad."""
    speed_ratio: float
    """Fastest joint, as a fraction of its motor's speed limit."""
    pelvis_acceleration: float
    """Greatest, m/s^2."""
    foot_acceleration: float
    """Greatest of either foot, m/s^2."""
    balance_95: float
    """Zero-moment point outside the soles' polygon, m: 95th percentile."""
    balance_max: float
    """Its maximum, m."""
    balanced_share: float
    """Share of loaded frames that have it less than a centimetre outside."""
    airborne_share: float
    """Share of frames with both feet off the floor."""
    torque_share: float
    """Share of frames with all motors within their limits."""
    torque_ratio_95: float
    """Worst motor's torque over its limit: 95th percentile over frames."""
    residual_force_50: float
    """Force that no floor contact explains, in body weights: median."""
    residual_force_95: float
    residual_moment_50: float
    """Moment that no floor contact explains, Nm: median."""
    residual_moment_95: float


def measure(
    qpos: np.ndarray, fps: float = FPS, contact_height_m: float = CONTACT_HEIGHT_M
) -> Plausibility:
    """Measure (T, 36) rows; soles below the contact height may carry."""
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
        sole_gap_mm=1e3 * _percentile(lowest, 95),
        slide_max=float(slide.max(initial=0.0)),
        slide_50=_percentile(slide, 50),
        slide_99=_percentile(slide, 99),
        limit_excess=float(np.maximum(low - joints, joints - high).max().clip(0.0)),
        speed_ratio=float(speed.max(initial=0.0)),
        pelvis_acceleration=_acceleration(qpos[:, None, :3], fps),
        foot_acceleration=_acceleration(dynamics.feet, fps),
        balance_95=_percentile(outside, 95),
        balance_max=float(outside.max(initial=0.0)),
        balanced_share=float((outside < 0.01).mean()) if len(outside) else 1.0,
        airborne_share=float((lowest > contact_height_m).mean()),
        torque_share=float((ratio <= 1.0).mean()),
        torque_ratio_95=_percentile(ratio, 95),
        residual_force_50=_percentile(force, 50),
        residual_force_95=_percentile(force, 95),
        residual_moment_50=_percentile(moment, 50),
        residual_moment_95=_percentile(moment, 95),
    )


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _acceleration(positions: np.ndarray, fps: float) -> float:
    second = np.diff(positions, n=2, axis=0) * fps * fps
    return float(np.linalg.norm(second, axis=-1).max(initial=0.0))


def slide_speeds(dynamics: Dynamics, fps: float) -> np.ndarray:
    """Speed along the floor of each foot that touches in two frames running, m/s.

    A foot is a rigid body that moves from one frame to the next; its speed is taken
    where the floor is, straight under each sphere that is within `SLIDE_HEIGHT_M` in
    both frames, and the fastest of these counts. For a sphere on the floor that is
    its lowest material point. A foot that rolls over heel or toe turns about a line
    in the floor, so it has no speed there however fast it rolls; a flat foot that
    slides has all of it, and one that twists has that of its far end.
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

    Of the frames that have one: a sole touches and the floor must carry more than
    `LOADED_SHARE` of the weight.
    """
    touching = dynamics.touching.reshape(len(dynamics.force), -1)
    loaded = dynamics.force[:, 2] > LOADED_SHARE * body_weight()
    frames = loaded & touching.any(axis=1)
    frames[[0, -1]] = False  # what a clip is cut from decides their accelerations
    points = dynamics.soles[..., :2].reshape(len(frames), -1, 2)
    return distance_outside(
        dynamics.zero_moment_point[frames], points[frames], touching[frames]
    )


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
    """Measure every clip of a corpus, in several processes."""
    job = partial(measure, contact_height_m=contact_height_m)
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = in_order(job, clips, workers)
    bar = tqdm(found, total=len(corpus), unit="clip", desc="check", disable=None)
    return list(bar)

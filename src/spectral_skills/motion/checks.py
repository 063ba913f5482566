"""How far a motion is from what a robot could do on a floor.

Links, soles and forces behind `Plausibility` come from MuJoCo, not from this
package's own kinematics, so that a generator built on the latter is measured by
something independent. Shapes are the capsules and spheres that the simulated robot
collides with, and pairs are those that MuJoCo itself tests: links that follow each
other are allowed to touch.
"""

from dataclasses import dataclass
from functools import cache, partial

import mujoco
import numpy as np
from scipy.ndimage import minimum_filter1d
from tqdm import tqdm

from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.gait import average, rate, slow
from spectral_skills.motion.inverse_dynamics import (
    CONTACT_HEIGHT_M,
    Dynamics,
    body_weight,
    inverse_dynamics,
)
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model
from spectral_skills.workers import few_or_all, in_order

SLIDE_HEIGHT_M = 0.003  # a sphere of the sole below this must not move along
LOADED_SHARE = 0.2  # of the weight; below, the zero-moment point means little
_DIRECTIONS = 64

DEEP_M = 0.01  # from here on one sees it
FAST_M_S = 0.02  # a planted foot that is faster slides

# A foot is planted at this height above that of the clip's standing feet, and after
# this time of landing and before that of lifting off.
_PLANTED_HEIGHT_M = 0.01
_LANDING_S = 0.04
_FARTHEST_USUAL_M = 0.15
_BODY_WINDOW_S = 1.2


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
    floor_share: float  # share of frames with any shape over a centimetre under floor
    floor_depth_mm: float  # depth of the deepest point of any shape under the floor
    planted_share: float  # share of feet and frames that are planted
    planted_fast_share: float  # share of those that are faster than 2 cm/s
    self_share: float  # share of frames with links over a centimetre inside others
    self_depth_mm: float  # greatest depth of a link inside another
    self_pair: str  # the two links; empty where none overlap
    joint_acceleration_95: float  # 95th percentile over joints and frames, rad/s^2


def share(mask: np.ndarray) -> float:
    """Share that is true; zero of nothing."""
    return float(mask.mean()) if mask.size else 0.0


@dataclass(frozen=True)
class Overlap:
    """Overlaps of a clip of T frames; what does not overlap has depth zero."""

    own_depth: np.ndarray  # (T,) of the deepest pair of the robot's own links, m
    own_links: np.ndarray  # (T, 2) MuJoCo's bodies of that pair; 0 for none
    lowest: np.ndarray  # (T,) height of the lowest point of any shape, m
    links: np.ndarray  # (T, 30, 3) places of the links in the order of g1.LINKS, m

    def pair(self, frame: int) -> str:
        """Names of the links of a frame's deepest pair; empty where there is none."""
        names = [_model().body(i).name for i in self.own_links[frame] if i]
        return " and ".join(sorted(names))


@cache
def _model() -> mujoco.MjModel:
    return build_model(meshes=False, floor=False)


def overlap(qpos: np.ndarray) -> Overlap:
    """Overlaps of (T, 36) rows."""
    model, frames = _model(), len(qpos)
    data = mujoco.MjData(model)
    depth, pair = np.zeros(frames), np.zeros((frames, 2), np.int32)
    height, upright = np.empty((frames, model.ngeom)), np.empty((frames, model.ngeom))
    links = np.empty((frames, model.nbody - 1, 3))
    for i, row in enumerate(np.asarray(qpos, dtype=np.float64)):
        data.qpos = row
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        if data.ncon:
            contact = data.contact
            deepest = contact.dist.argmin()
            depth[i] = max(0.0, -contact.dist[deepest])
            pair[i] = model.geom_bodyid[contact.geom[deepest]] * (depth[i] > 0)
        links[i] = data.xpos[1:]  # the first one is the world
        height[i], upright[i] = data.geom_xpos[:, 2], data.geom_xmat[:, 8]
    # A capsule's axis is its z, from end to end; a sphere has none.
    radius, half = model.geom_size[:, 0], model.geom_size[:, 1]
    half = half * (model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)
    bottom = height - np.abs(upright) * half - radius
    return Overlap(depth, pair, bottom.min(axis=1), links)


@dataclass(frozen=True)
class Evidence:
    """What is measured at every frame of a clip."""

    qpos: np.ndarray  # (T, 36)
    fps: float
    dynamics: Dynamics
    shapes: Overlap
    planted: np.ndarray  # (T - 1, 2) from `planted_speeds`

    @classmethod
    def of(
        cls,
        qpos: np.ndarray,
        fps: float = FPS,
        contact_height_m: float = CONTACT_HEIGHT_M,
    ) -> "Evidence":
        """Measure (T, 36) rows; soles below the contact height may carry."""
        qpos = np.asarray(qpos, dtype=np.float64)
        dynamics = inverse_dynamics(qpos, fps, contact_height_m)
        return cls(qpos, fps, dynamics, overlap(qpos), planted_speeds(dynamics, fps))


def measure(
    qpos: np.ndarray, fps: float = FPS, contact_height_m: float = CONTACT_HEIGHT_M
) -> Plausibility:
    """Measure (T, 36) rows; soles below the contact height may carry."""
    return summary(Evidence.of(qpos, fps, contact_height_m))


def summary(found: Evidence) -> Plausibility:
    """Numbers of a clip from those of its frames."""

    def percentile(values: np.ndarray, percent: float) -> float:
        return float(np.percentile(values, percent)) if len(values) else 0.0

    def acceleration(positions: np.ndarray) -> float:
        second = np.diff(positions, n=2, axis=0) * fps * fps
        return float(np.linalg.norm(second, axis=-1).max(initial=0.0))

    qpos, fps, dynamics, shapes = found.qpos, found.fps, found.dynamics, found.shapes
    soles, joints = dynamics.soles, qpos[:, 7:]
    low, high = g1.SOFT_LIMITS.T
    lowest = soles[..., 2].min(axis=(1, 2))
    slide = slide_speeds(dynamics, fps)
    outside = balance(dynamics)
    ratio = (np.abs(dynamics.torque) / g1.EFFORT_LIMIT).max(axis=1)
    force = np.linalg.norm(dynamics.residual_force, axis=1) / body_weight()
    moment = np.linalg.norm(dynamics.residual_moment, axis=1)
    speed = np.abs(np.diff(joints, axis=0)) * fps / g1.VELOCITY_LIMIT
    planted = found.planted[~np.isnan(found.planted)]
    deepest = int(shapes.own_depth.argmax())
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
        airborne_share=float((lowest > dynamics.contact_height_m).mean()),
        torque_share=float((ratio <= 1.0).mean()),
        torque_ratio_95=percentile(ratio, 95),
        residual_force_50=percentile(force, 50),
        residual_force_95=percentile(force, 95),
        residual_moment_50=percentile(moment, 50),
        residual_moment_95=percentile(moment, 95),
        floor_share=share(shapes.lowest < -DEEP_M),
        floor_depth_mm=1e3 * max(0.0, -float(shapes.lowest.min())),
        planted_share=len(planted) / max(1, found.planted.size),
        planted_fast_share=share(planted > FAST_M_S),
        self_share=share(shapes.own_depth > DEEP_M),
        self_depth_mm=1e3 * float(shapes.own_depth[deepest]),
        self_pair=shapes.pair(deepest),
        joint_acceleration_95=percentile(joint_accelerations(joints, fps), 95),
    )


def slide_speeds(dynamics: Dynamics, fps: float) -> np.ndarray:
    """Speed along the floor of each foot that touches in two frames running, m/s.

    It is the speed of the foot as a rigid body where the floor is, straight under each
    sphere that is within `SLIDE_HEIGHT_M` in both frames; the fastest counts. A foot
    that rolls over heel or toe turns about a line in the floor: it has no speed there.
    """
    velocity, _ = _floor_velocity(dynamics, fps)
    near = dynamics.soles[..., 2] < SLIDE_HEIGHT_M
    near = near[1:] & near[:-1]
    speed = np.where(near, np.hypot(*velocity), -1.0).max(axis=-1)
    return speed[speed >= 0]


def planted_speeds(dynamics: Dynamics, fps: float) -> np.ndarray:
    """(T - 1, 2) speed along the floor of feet that are planted in two frames running,
    m/s; NaN of others.

    A foot is near the floor while its lowest point is less than a centimetre above the
    usual height of standing feet, the median over the clip of the lower foot's: so a
    motion that floats or sinks as a whole is measured like any other. It is planted
    while it is near, except

    - for 40 ms after it came near and before it leaves: it lands, or lifts off, and
    - while it is fast for the speed of the body, as in `strides`, and the other foot is
      near and slow: it swings low. Where neither is slow, both are planted, and slide.

    Its speed is the least that any point of the patch that touches has, the hull of the
    points straight under spheres within `SLIDE_HEIGHT_M` of the lowest one, when the
    foot moves as a rigid body: one that rolls over heel or toe, or turns on a point of
    its sole, does not slide.
    """
    lowest = dynamics.soles[..., 2].min(axis=2)
    usual = float(np.median(lowest.min(axis=1)))
    usual = min(max(usual, -_FARTHEST_USUAL_M), _FARTHEST_USUAL_M)
    near = lowest < usual + _PLANTED_HEIGHT_M
    (x, y), turning = _floor_velocity(dynamics, fps, usual)
    if not len(turning):
        return np.empty((0, 2))
    middle = 0.5 * (dynamics.soles[1:] + dynamics.soles[:-1])
    first = middle[..., 2].argmin(axis=-1)[..., None]
    x, y = (np.take_along_axis(v, first, axis=-1)[..., 0] for v in (x, y))

    window = 2 * round(_LANDING_S * fps) + 1
    settled = minimum_filter1d(near, window, axis=0).astype(bool)
    window = round(_BODY_WINDOW_S * fps)
    body = average(rate(dynamics.mass_centre[:, :2], fps), window)
    body = np.linalg.norm(0.5 * (body[1:] + body[:-1]), axis=1)
    stands = near[1:] & near[:-1] & (np.hypot(x, y) < slow(body)[:, None])
    planted = settled[1:] & settled[:-1] & (stands | ~stands[:, ::-1])

    # The foot turns about a point of the floor; the nearest of the patch is slowest.
    turning = np.where(np.abs(turning) < 1e-6, 1e-6, turning)[planted]
    middle, first = middle[planted], first[planted]
    patch = (
        middle[..., 2] < np.take_along_axis(middle[..., 2], first, -1) + SLIDE_HEIGHT_M
    )
    away = np.stack((-y[planted], x[planted]), axis=-1) / turning[:, None]
    lowest_point = np.take_along_axis(middle[..., :2], first[..., None], axis=1)[:, 0]
    distance = distance_outside(lowest_point + away, middle[..., :2], patch)
    speed = np.full(planted.shape, np.nan)
    speed[planted] = np.abs(turning) * distance
    return speed


def _floor_velocity(
    dynamics: Dynamics, fps: float, floor: float = 0.0
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Velocity of the feet as rigid bodies at the floor, straight under each sphere, x
    and y (T - 1, 2, 14) in m/s, and how fast they turn about the vertical, rad/s."""
    rotation, soles = dynamics.feet_rotation, dynamics.soles
    turn = np.einsum("tfij,tfkj->tfik", rotation[1:], rotation[:-1])
    spin = fps * _rotation_vector(turn)[:, :, None]
    velocity = fps * np.diff(soles, axis=0)  # of spheres' centres, as they only shift
    height = 0.5 * (soles[1:, ..., 2] + soles[:-1, ..., 2]) + g1.SOLE_RADIUS - floor
    x = velocity[..., 0] - spin[..., 1] * height
    y = velocity[..., 1] + spin[..., 0] * height
    return (x, y), spin[:, :, 0, 2]


def joint_accelerations(joints: np.ndarray, fps: float) -> np.ndarray:
    """(T - 2, 29) sizes of second differences of the joints, rad/s^2.

    Motions of a low rate that were interpolated in straight lines have them at a few
    frames and none between: compare motions at the rate that they were made at.
    """
    return np.abs(np.diff(joints, n=2, axis=0)) * fps * fps


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
    """(n,) distance of places (n, 2) outside the convex hull of points (n, k, 2), of
    which those are `valid` (n, k); zero inside, at most 0.2 % too small outside."""
    return separation(place, points, valid)[0].clip(0.0)


def separation(
    place: np.ndarray, points: np.ndarray, valid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the greatest distance by which any of 64 fixed directions separates places
    from all valid points, negative inside their hull, and (n, 2) that direction."""
    angle = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    # From the place itself, so that being far from the origin costs no digits.
    offsets = np.where(valid[..., None], points - place[:, None], np.nan)
    x, y = np.ascontiguousarray(offsets.transpose(2, 1, 0))
    distance = np.full(len(place), -np.inf)
    direction = np.zeros((len(place), 2))
    for cosine, sine in zip(np.cos(angle), np.sin(angle), strict=True):
        reach = np.fmax.reduce(x * cosine + y * sine, axis=0)
        farther = -reach > distance
        distance[farther] = -reach[farther]
        direction[farther] = cosine, sine
    return distance, direction


def measure_corpus(
    corpus: Corpus,
    workers: int | None = None,
    contact_height_m: float = CONTACT_HEIGHT_M,
) -> list[Plausibility]:
    job = partial(measure, contact_height_m=contact_height_m)
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = in_order(job, clips, workers or few_or_all(len(corpus)))
    return list(tqdm(found, total=len(corpus), unit="clip", desc="check", disable=None))

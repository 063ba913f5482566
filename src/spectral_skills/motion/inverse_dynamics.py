"""What a motion asks of the floor and of the motors, by MuJoCo's inverse dynamics.

Positions are differentiated over the frames and handed to `mj_inverse` on a robot
without contacts, limits, friction or damping; the motors' reflected inertia counts.
What it finds at the root is the wrench that the floor must supply. Non-negative
forces inside the friction cones of the touching soles then explain as much of that
wrench as they can: the rest is what no floor could do, and the motors' torques follow.
Only soles are contacts: a motion that leans on hands or knees has a large rest.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property

import mujoco
import numpy as np

from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

CONTACT_HEIGHT_M = 0.01
"""Height below which a sole may carry. Feet of retargeted motions stand up to this
high above the floor, and a swinging foot passes higher."""
FRICTION = 0.8
MOMENT_LENGTH_M = 0.3  # arm at which a moment counts as a force: radius of gyration
REGULARISER = 1e-3
"""Weight of the squared forces, in body weights, against the squared rest: small
enough to cost under 0.1 N, and it spreads forces evenly over what touches."""

# Ten of the fourteen spheres: their hull has all of the sole to within 4 mm, also of
# one that stands on its ball.
_CARRYING = np.array([0, 1, 6, 7, 8, 9, 10, 11, 12, 13])
_CHUNK = 1024  # frames whose matrices fit the cache
_ITERATIONS = 40
_TOLERANCE = 1e-7  # body weights


@dataclass(frozen=True)
class Dynamics:
    """Forces of a clip of T frames; forces in N, moments in Nm, world axes."""

    feet: np.ndarray  # (T, 2, 3) positions of the ankle roll links, m
    feet_rotation: np.ndarray  # (T, 2, 3, 3) orientations of the ankle roll links
    mass_centre: np.ndarray  # (T, 3) centre of mass, m
    force: np.ndarray  # (T, 3) force that the floor must supply
    moment: np.ndarray  # (T, 3) moment of that force about the world's origin
    contact_force: np.ndarray  # (T, 2, 10, 3) forces at the soles that explain it best
    residual_force: np.ndarray  # (T, 3) force that stays unexplained
    residual_moment: np.ndarray  # (T, 3) unexplained, about the centre of mass
    torque: np.ndarray  # (T, 29) torques of the motors, given the contact forces
    contact_height_m: float

    @cached_property
    def soles(self) -> np.ndarray:
        """(T, 2, 14, 3) lowest point of each sphere of the soles, m."""
        return _soles(self.feet, self.feet_rotation, g1.SOLE_POINTS)

    @cached_property
    def touching(self) -> np.ndarray:
        """(T, 2, 14) spheres near enough to the floor to carry."""
        return self.soles[..., 2] < self.contact_height_m

    @property
    def zero_moment_point(self) -> np.ndarray:
        """(T, 2) where the floor's force acts, m; NaN where it does not push up."""
        up = self.force[:, 2]
        up = np.where(up > 0.01 * body_weight(), up, np.nan)
        return np.stack((-self.moment[:, 1] / up, self.moment[:, 0] / up), axis=1)


@cache
def _model() -> mujoco.MjModel:
    model = build_model(meshes=False, floor=False)
    for what in ("CONSTRAINT", "SPRING", "DAMPER", "ACTUATION", "SENSOR"):
        model.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{what}")
    return model


@cache
def body_weight() -> float:
    """Weight of the robot, N."""
    return float(-_model().opt.gravity[2] * _model().body_mass.sum())


def derivatives(qpos: np.ndarray, fps: float) -> tuple[np.ndarray, np.ndarray]:
    """(T, 35) velocity and acceleration by central differences in tangent space.

    Angular parts are in body axes as MuJoCo wants them. The ends take one-sided
    velocities and the accelerations of their neighbours.
    """
    model, frames = _model(), len(qpos)
    steps = np.zeros((max(frames - 1, 1), model.nv))
    for step, before, after in zip(steps, qpos[:-1], qpos[1:], strict=False):
        mujoco.mj_differentiatePos(model, step, 1.0 / fps, before, after)
    padded = np.concatenate((steps[:1], steps, steps[-1:]))[: frames + 1]
    velocity = 0.5 * (padded[:-1] + padded[1:])
    acceleration = np.zeros_like(velocity)
    if frames > 2:
        acceleration[1:-1] = np.diff(steps, axis=0) * fps
        acceleration[0], acceleration[-1] = acceleration[1], acceleration[-2]
    return velocity, acceleration


def inverse_dynamics(
    qpos: np.ndarray,
    fps: float = g1.CONTROL_HZ,
    contact_height_m: float = CONTACT_HEIGHT_M,
) -> Dynamics:
    qpos = np.array(qpos, dtype=np.float64)
    qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
    velocity, acceleration = derivatives(qpos, fps)
    chunks = [slice(i, i + _CHUNK) for i in range(0, len(qpos), _CHUNK)]
    parts = [
        _forces(qpos[c], velocity[c], acceleration[c], contact_height_m) for c in chunks
    ]
    fields = map(np.concatenate, zip(*parts, strict=True))
    return Dynamics(*fields, contact_height_m=contact_height_m)


def _forces(
    qpos: np.ndarray, qvel: np.ndarray, qacc: np.ndarray, contact_height_m: float
) -> tuple[np.ndarray, ...]:
    model, frames = _model(), len(qpos)
    data = mujoco.MjData(model)
    bodies = [model.body(name).id for name in g1.FEET]
    feet, turn = np.empty((frames, 2, 3)), np.empty((frames, 2, 9))
    root_turn, centre = np.empty((frames, 9)), np.empty((frames, 3))
    # The first joint is the root's; the next twelve are the legs', left then right.
    axis, anchor = np.empty((frames, 12, 3)), np.empty((frames, 12, 3))
    needed = np.empty((frames, model.nv))
    for i in range(frames):
        data.qpos, data.qvel, data.qacc = qpos[i], qvel[i], qacc[i]
        mujoco.mj_inverse(model, data)
        feet[i], turn[i] = data.xpos[bodies], data.xmat[bodies]
        root_turn[i], centre[i] = data.xmat[1], data.subtree_com[0]
        axis[i], anchor[i] = data.xaxis[1:13], data.xanchor[1:13]
        needed[i] = data.qfrc_inverse
    turn = turn.reshape(frames, 2, 3, 3)
    # The root's moment is in body axes, about the pelvis.
    force = needed[:, :3]
    spin = np.einsum("tij,tj->ti", root_turn.reshape(-1, 3, 3), needed[:, 3:6])
    moment = spin + np.cross(qpos[:, :3], force)

    points = _soles(feet, turn, g1.SOLE_POINTS[_CARRYING])
    touching = points[..., 2] < contact_height_m
    contact = _contact_forces(points, touching, turn, centre, force, moment)
    foot_force = contact.sum(axis=2)
    foot_moment = np.cross(points, contact).sum(axis=2)
    residual = force - foot_force.sum(axis=1)
    rest = moment - foot_moment.sum(axis=1) - np.cross(centre, residual)

    torque = needed[:, 6:].copy()
    leg_force, leg_moment = (np.repeat(x, 6, axis=1) for x in (foot_force, foot_moment))
    at_joint = leg_moment - np.cross(anchor, leg_force)
    torque[:, :12] -= (axis * at_joint).sum(axis=-1)
    # In the order of the fields of `Dynamics`.
    return feet, turn, centre, force, moment, contact, residual, rest, torque


def _soles(feet: np.ndarray, turn: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(T, 2, points, 3) lowest points of spheres fixed to the feet."""
    spheres = feet[:, :, None] + np.einsum("tfij,pj->tfpi", turn, points)
    spheres[..., 2] -= g1.SOLE_RADIUS
    return spheres


def _contact_forces(points, touching, turn, centre, force, moment) -> np.ndarray:
    """(T, 2, points, 3) forces in the cones of touching points nearest to a wrench."""
    frames, _, count, _ = points.shape
    # Four edges of each cone, along and across the foot.
    ahead = turn[..., :2, 0]
    ahead = ahead / np.maximum(np.linalg.norm(ahead, axis=-1, keepdims=True), 1e-9)
    aside = np.stack((-ahead[..., 1], ahead[..., 0]), axis=-1)
    flat = FRICTION * np.stack((ahead, -ahead, aside, -aside), axis=2)
    edges = np.concatenate((flat, np.ones((frames, 2, 4, 1))), axis=-1)
    edges = np.broadcast_to(edges[:, :, None], (frames, 2, count, 4, 3))
    edges = edges * touching[..., None, None]
    arms = points - centre[:, None, None]
    twists = np.cross(arms[..., None, :], edges) / MOMENT_LENGTH_M
    matrix = np.concatenate((edges, twists), axis=-1).reshape(frames, -1, 6)

    weight = body_weight()
    about_centre = moment - np.cross(centre, force)
    target = np.concatenate((force, about_centre / MOMENT_LENGTH_M), axis=1) / weight
    amounts = non_negative_least_squares(matrix, target, REGULARISER)
    amounts = amounts.reshape(frames, 2, count, 4, 1)
    return weight * (amounts * edges).sum(axis=3)


def non_negative_least_squares(
    matrix: np.ndarray, target: np.ndarray, regulariser: float
) -> np.ndarray:
    """x >= 0 least in |A x - b|^2 + regulariser |x|^2, for a batch of A and b.

    `matrix` has the transposed A (n, columns, rows), `target` has b (n, rows). With
    y the rest b - A x, the optimum is x = max(0, A^T y) / regulariser, which leaves
    few unknowns: y minimises |y|^2 / 2 + |max(0, A^T y)|^2 / (2 regulariser) - b y, a
    convex function of pieces that are quadratic. Newton's method finds the piece,
    halving the steps that descend too little.
    """
    transposed = matrix / math.sqrt(regulariser)
    identity = np.eye(target.shape[1])
    rests = np.empty_like(target)
    todo = np.arange(len(target))
    a, b = transposed, target
    y = np.linalg.solve(identity + a.swapaxes(1, 2) @ a, b[..., None])[..., 0]
    for _ in range(_ITERATIONS):
        loads = np.maximum(0.0, (a @ y[..., None])[..., 0])
        gradient = y - b + (loads[:, None] @ a)[:, 0]
        rests[todo] = y
        left = np.abs(gradient).max(axis=1) > _TOLERANCE
        if not left.any():
            break
        if not left.all():
            todo, a, b, y = todo[left], a[left], b[left], y[left]
            loads, gradient = loads[left], gradient[left]
        active = a * (loads > 0)[..., None]
        curvature = identity + active.swapaxes(1, 2) @ a
        step = np.linalg.solve(curvature, -gradient[..., None])[..., 0]
        y = y + _step_length(a, b, y, step, gradient)[:, None] * step
    loads = np.maximum(0.0, (transposed @ rests[..., None])[..., 0])
    return loads / math.sqrt(regulariser)


def _step_length(a, b, y, step, gradient) -> np.ndarray:
    """One, halved until the step descends enough."""
    at, along = (a @ np.stack((y, step), axis=-1)).transpose(2, 0, 1)
    slope = (gradient * step).sum(axis=1)
    straight = ((y - b) * step).sum(axis=1)
    bend = 0.5 * (step * step).sum(axis=1)
    start = 0.5 * (np.maximum(0.0, at) ** 2).sum(axis=1)
    length = np.ones(len(y))
    todo = np.arange(len(y))
    for _ in range(30):
        t = length[todo]
        loads = np.maximum(0.0, at[todo] + t[:, None] * along[todo])
        change = t * straight[todo] + t * t * bend[todo] - start[todo]
        change += 0.5 * (loads * loads).sum(axis=1)
        todo = todo[change > 1e-3 * t * slope[todo] + 1e-15]
        if not len(todo):
            break
        length[todo] *= 0.5
    return length

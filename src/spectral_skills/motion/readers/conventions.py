"""Tell conventions apart by what the robot would look like.

Two things no file states: the order of the joints and where a quaternion keeps
its real part. Both are decided by forward kinematics on a few frames.
"""

from functools import cache

import mujoco
import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

ORDER_FRAMES = 8
ORDER_TOLERANCE_M = 0.02
"""The right joint order is under 2 mm off, a wrong one 5 to 30 cm."""
MAX_BODIES = 64

CONTACT_FRAMES = 48
FOOT_HEIGHT_M = 0.012
"""Centre of the lowest collision capsule of a robot that stands on the floor."""
SLIP_WEIGHT_S = 0.1
MAX_SLIP_M_S = 1.0
TILT_WEIGHT_M = 0.1
WXYZ_MARGIN_M = 0.005
"""How much better wxyz must be: files with the real part last are the rule."""


@cache
def _model() -> mujoco.MjModel:
    return build_model(meshes=False, floor=False)


def _kinematics(qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Link positions (N, 30, 3) and collision shape centres (N, G, 3)."""
    model = _model()
    data = mujoco.MjData(model)
    ids = [model.body(name).id for name in g1.LINKS]
    links = np.empty((len(qpos), len(ids), 3))
    shapes = np.empty((len(qpos), model.ngeom, 3))
    for frame, row in enumerate(qpos):
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        links[frame], shapes[frame] = data.xpos[ids], data.geom_xpos
    return links, shapes


def _spread(frames: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, frames - 1, count).astype(int))


def joint_order(
    candidates: dict[str, np.ndarray], body_pos: np.ndarray, body_quat: np.ndarray
) -> str:
    """Name of the candidate (T, 29) joints that put the bodies where they are.

    The file's bodies (T, B, ...) may be any of the robot's links in any order,
    the root first: each is compared with the link that fits it best.
    """
    count = body_pos.shape[1]
    if not 2 <= count <= MAX_BODIES:
        raise ClipError(
            "joints",
            f"{count} bodies stored: too few to tell the joint order"
            if count < 2
            else f"{count} bodies stored; the G1 has {len(g1.LINKS)}",
        )
    frames = _spread(len(body_pos), ORDER_FRAMES)
    bodies = body_pos[frames].astype(np.float64)
    root = np.concatenate([bodies[:, 0], body_quat[frames, 0]], axis=1)
    errors = {}
    for name, joints in candidates.items():
        links, _ = _kinematics(np.concatenate([root, joints[frames]], axis=1))
        distance = np.linalg.norm(bodies[:, :, None] - links[:, None], axis=-1)
        errors[name] = float(distance.mean(axis=0).min(axis=1).max())
    best = min(errors, key=lambda name: errors[name])
    # Written so that a NaN is refused too.
    if not errors[best] < ORDER_TOLERANCE_M:
        found = ", ".join(f"{100 * e:.1f} cm as {n}" for n, e in errors.items())
        raise ClipError(
            "joints", f"no joint order puts the links at body_pos_w: off by {found}"
        )
    return best


def quaternion_is_wxyz(
    position: np.ndarray, columns: np.ndarray, joints: np.ndarray, fps: float
) -> bool:
    """Whether four unnamed quaternion columns are w x y z rather than x y z w.

    Uprightness alone is not enough: a robot that faces along x is upright under
    both readings, 180 degrees apart. But only under the right one does the
    lowest point of the body lie on the floor and stay there.
    """
    unit = np.abs(np.linalg.norm(columns, axis=1) - 1.0) < 0.01
    rows = np.concatenate([position, joints], axis=1)
    if len(rows) < 2 or not (unit.all() and np.isfinite(rows).all()):
        return False  # Refused later, with the frame.
    first = _spread(len(rows) - 1, CONTACT_FRAMES)
    pairs = np.concatenate([first, first + 1])

    def implausibility(order: list[int]) -> float:
        quaternion = columns[pairs][:, order]
        qpos = np.concatenate([position[pairs], quaternion, joints[pairs]], axis=1)
        _, shapes = _kinematics(qpos)
        now, after = np.split(shapes, 2)
        lowest = (np.arange(len(first)), now[:, :, 2].argmin(axis=1))
        height = np.abs(now[lowest][:, 2] - FOOT_HEIGHT_M)
        slip = np.linalg.norm(after[lowest] - now[lowest], axis=1) * fps
        # 1 - cos of the tilt, from the x and y parts.
        tilt = 2 * (quaternion[:, 1:3] ** 2).sum(axis=1)
        cost = height.mean() + TILT_WEIGHT_M * tilt.mean()
        return float(cost + SLIP_WEIGHT_S * np.minimum(slip, MAX_SLIP_M_S).mean())

    xyzw, wxyz = implausibility([3, 0, 1, 2]), implausibility([0, 1, 2, 3])
    return wxyz + WXYZ_MARGIN_M < xyzw

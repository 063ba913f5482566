# type: ignore
"""Kernels around those of MuJoCo Warp in a control step.

Warp compiles this to C++: arrays and indices are not Python's, hence no type check.
"""

import warp as wp

from spectral_skills.physics import settings

LARGEST = wp.constant(settings.LARGEST)

wp.set_module_options({"enable_backward": False})


@wp.kernel
def choose_targets(
    substep: int,
    delay: wp.array[wp.int32],
    held: wp.array2d[float],
    targets: wp.array2d[float],
    ctrl: wp.array2d[float],
):
    robot, joint = wp.tid()
    if substep < delay[robot]:
        ctrl[robot, joint] = held[robot, joint]
    else:
        ctrl[robot, joint] = targets[robot, joint]


@wp.kernel
def largest_normal_force(
    contacts: wp.array[int],
    robots: wp.array[int],
    geoms: wp.array[wp.vec2i],
    rows: wp.array2d[int],
    row_force: wp.array2d[float],
    links: wp.array[wp.int32],
    force: wp.array2d[float],
):
    """The forces of a pyramid's edges add up to the normal force."""
    contact = wp.tid()
    if contact >= contacts[0] or rows[contact, 0] < 0:
        return
    robot = robots[contact]
    normal = float(0.0)  # noqa: UP018 (a literal would be a constant in Warp)
    for edge in range(rows.shape[1]):
        if rows[contact, edge] >= 0:
            normal += row_force[robot, rows[contact, edge]]
    for side in range(2):
        link = links[geoms[contact][side]]
        if link >= 0:
            wp.atomic_max(force, robot, link, normal)


@wp.kernel
def put_broken_upright(
    upright: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    qacc: wp.array2d[float],
    warm_start: wp.array2d[float],
    torque: wp.array2d[float],
    held: wp.array2d[float],
    force: wp.array2d[float],
    broken: wp.array[wp.bool],
    broken_steps: wp.array[wp.int32],
):
    robot = wp.tid()
    finite = bool(True)  # noqa: UP018
    for i in range(qpos.shape[1]):
        finite = finite and wp.abs(qpos[robot, i]) < LARGEST
    for i in range(qvel.shape[1]):
        finite = finite and wp.abs(qvel[robot, i]) < LARGEST
        finite = finite and wp.isfinite(qacc[robot, i])
    for i in range(held.shape[1]):  # a motor's limits would hide a target of NaN
        finite = finite and wp.isfinite(held[robot, i])
    broken[robot] = not finite
    if finite:
        return
    wp.atomic_add(broken_steps, 0, 1)
    for i in range(qpos.shape[1]):
        qpos[robot, i] = upright[i]
    for i in range(qvel.shape[1]):
        qvel[robot, i] = 0.0
        qacc[robot, i] = 0.0
        warm_start[robot, i] = 0.0
    for i in range(torque.shape[1]):
        torque[robot, i] = 0.0
        held[robot, i] = upright[7 + i]
    for i in range(force.shape[1]):
        force[robot, i] = 0.0

"""The robot's numbers are those of the fact sheet, and the model carries them."""

import subprocess
import sys

import mujoco
import numpy as np
import pytest

from spectral_skills.robot import g1, model

# The table of facts/sonic_env.md section 1, in MuJoCo order: armature kg m^2, kp,
# kd, effort Nm, velocity rad/s, action scale rad.
M7520_22 = (0.025101925, 99.098, 6.3088, 139, 20, 0.350661)
M7520_14 = (0.010177520, 40.179, 2.5579, 88, 32, 0.547546)
M5020_X2 = (0.00721945, 28.501, 1.8144, 50, 37, 0.438577)
M5020 = (0.003609725, 14.251, 0.9072, 25, 37, 0.438577)
M4010 = (0.00425, 16.778, 1.0681, 5, 22, 0.074501)
# joint, motor, lower limit, upper limit, default
TABLE = [
    ("left_hip_pitch", M7520_22, -2.5307, 2.8798, -0.312),
    ("left_hip_roll", M7520_22, -0.5236, 2.9671, 0.0),
    ("left_hip_yaw", M7520_14, -2.7576, 2.7576, 0.0),
    ("left_knee", M7520_22, -0.0873, 2.8798, 0.669),
    ("left_ankle_pitch", M5020_X2, -0.8727, 0.5236, -0.363),
    ("left_ankle_roll", M5020_X2, -0.2618, 0.2618, 0.0),
    ("right_hip_pitch", M7520_22, -2.5307, 2.8798, -0.312),
    ("right_hip_roll", M7520_22, -2.9671, 0.5236, 0.0),
    ("right_hip_yaw", M7520_14, -2.7576, 2.7576, 0.0),
    ("right_knee", M7520_22, -0.0873, 2.8798, 0.669),
    ("right_ankle_pitch", M5020_X2, -0.8727, 0.5236, -0.363),
    ("right_ankle_roll", M5020_X2, -0.2618, 0.2618, 0.0),
    ("waist_yaw", M7520_14, -2.618, 2.618, 0.0),
    ("waist_roll", M5020_X2, -0.52, 0.52, 0.0),
    ("waist_pitch", M5020_X2, -0.52, 0.52, 0.0),
    ("left_shoulder_pitch", M5020, -3.0892, 2.6704, 0.2),
    ("left_shoulder_roll", M5020, -1.5882, 2.2515, 0.2),
    ("left_shoulder_yaw", M5020, -2.618, 2.618, 0.0),
    ("left_elbow", M5020, -1.0472, 2.0944, 0.6),
    ("left_wrist_roll", M5020, -1.9722, 1.9722, 0.0),
    ("left_wrist_pitch", M4010, -1.6144, 1.6144, 0.0),
    ("left_wrist_yaw", M4010, -1.6144, 1.6144, 0.0),
    ("right_shoulder_pitch", M5020, -3.0892, 2.6704, 0.2),
    ("right_shoulder_roll", M5020, -2.2515, 1.5882, -0.2),
    ("right_shoulder_yaw", M5020, -2.618, 2.618, 0.0),
    ("right_elbow", M5020, -1.0472, 2.0944, 0.6),
    ("right_wrist_roll", M5020, -1.9722, 1.9722, 0.0),
    ("right_wrist_pitch", M4010, -1.6144, 1.6144, 0.0),
    ("right_wrist_yaw", M4010, -1.6144, 1.6144, 0.0),
]
ISAACLAB = [
    *("left_hip_pitch", "right_hip_pitch", "waist_yaw"),
    *("left_hip_roll", "right_hip_roll", "waist_roll"),
    *("left_hip_yaw", "right_hip_yaw", "waist_pitch"),
    *("left_knee", "right_knee", "left_shoulder_pitch", "right_shoulder_pitch"),
    *("left_ankle_pitch", "right_ankle_pitch"),
    *("left_shoulder_roll", "right_shoulder_roll"),
    *("left_ankle_roll", "right_ankle_roll"),
    *("left_shoulder_yaw", "right_shoulder_yaw", "left_elbow", "right_elbow"),
    *("left_wrist_roll", "right_wrist_roll", "left_wrist_pitch", "right_wrist_pitch"),
    *("left_wrist_yaw", "right_wrist_yaw"),
]
TO_MUJOCO = [
    *(0, 3, 6, 9, 13, 17, 1, 4, 7, 10, 14, 18, 2, 5, 8),
    *(11, 15, 19, 21, 23, 25, 27, 12, 16, 20, 22, 24, 26, 28),
]
TO_ISAACLAB = [
    *(0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 22, 4, 10, 16),
    *(23, 5, 11, 17, 24, 18, 25, 19, 26, 20, 27, 21, 28),
]
TRACKED = [
    "pelvis",
    *("left_hip_roll_link", "left_knee_link", "left_ankle_roll_link"),
    *("right_hip_roll_link", "right_knee_link", "right_ankle_roll_link"),
    "torso_link",
    *("left_shoulder_roll_link", "left_elbow_link", "left_wrist_yaw_link"),
    *("right_shoulder_roll_link", "right_elbow_link", "right_wrist_yaw_link"),
]


@pytest.fixture(scope="module")
def plain():
    return model.build_model(meshes=False)


@pytest.fixture(scope="module")
def pretty():
    return model.build_model(meshes=True)


def names(built: mujoco.MjModel, kind: mujoco.mjtObj, count: int) -> list[str]:
    return [mujoco.mj_id2name(built, kind, i) for i in range(count)]


def test_joint_orders_and_both_maps():
    """MuJoCo order, IsaacLab order, and the published index maps between them."""
    assert list(g1.JOINTS) == [row[0] for row in TABLE]
    assert list(g1.ISAACLAB_JOINTS) == ISAACLAB
    assert g1.ISAACLAB_TO_MUJOCO.tolist() == TO_MUJOCO
    assert g1.MUJOCO_TO_ISAACLAB.tolist() == TO_ISAACLAB
    joints = np.array(g1.JOINTS)
    isaaclab = joints[g1.MUJOCO_TO_ISAACLAB]
    assert isaaclab.tolist() == ISAACLAB
    assert isaaclab[g1.ISAACLAB_TO_MUJOCO].tolist() == list(g1.JOINTS)
    assert g1.joint_index("waist_yaw") == 12


def test_tracked_links():
    """The fourteen links of every metric, in their order."""
    assert list(g1.TRACKED_LINKS) == TRACKED
    assert set(TRACKED) <= set(g1.LINKS)
    assert set(g1.END_EFFECTORS) <= set(TRACKED)


@pytest.mark.parametrize(
    ("array", "column", "precision"),
    [
        (g1.ARMATURE, 0, 5e-10),
        (g1.STIFFNESS, 1, 5e-4),
        (g1.DAMPING, 2, 5e-5),
        (g1.EFFORT_LIMIT, 3, 0),
        (g1.VELOCITY_LIMIT, 4, 0),
        (g1.ACTION_SCALE, 5, 5e-7),
    ],
    ids=["armature", "stiffness", "damping", "effort", "velocity", "action scale"],
)
def test_motors(array, column, precision):
    """Every motor number of every joint, to the printed precision."""
    expected = np.array([row[1][column] for row in TABLE])
    np.testing.assert_allclose(array, expected, atol=precision * 1.001, rtol=0)


def test_gains_follow_from_armature():
    """kp = J w^2, kd = 2 zeta J w, scale = effort / (4 kp), 10 Hz and zeta 2."""
    w = 2 * np.pi * 10
    np.testing.assert_allclose(g1.STIFFNESS, g1.ARMATURE * w**2)
    np.testing.assert_allclose(g1.DAMPING, 2 * 2 * g1.ARMATURE * w)
    np.testing.assert_allclose(g1.ACTION_SCALE, 0.25 * g1.EFFORT_LIMIT / g1.STIFFNESS)


def test_hip_pitch_has_the_larger_motor():
    """mjlab 1.6.0 puts the 7520-14 there; SONIC and the robot have the 7520-22."""
    for side in ("left", "right"):
        pitch = g1.joint_index(f"{side}_hip_pitch")
        knee, yaw = (g1.joint_index(f"{side}_{part}") for part in ("knee", "hip_yaw"))
        assert g1.EFFORT_LIMIT[pitch] == g1.EFFORT_LIMIT[knee] == 139
        assert g1.ARMATURE[pitch] == g1.ARMATURE[knee] != g1.ARMATURE[yaw]


def test_limits_and_default_pose():
    """Limits to four decimals, soft limits at 0.9, the bent-knee default pose."""
    limits = np.array([row[2:4] for row in TABLE])
    np.testing.assert_allclose(g1.JOINT_LIMITS, limits, atol=5.01e-5, rtol=0)
    width, soft = np.ptp(g1.JOINT_LIMITS, axis=1), np.ptp(g1.SOFT_LIMITS, axis=1)
    np.testing.assert_allclose(soft, 0.9 * width)
    np.testing.assert_allclose(g1.SOFT_LIMITS.mean(1), g1.JOINT_LIMITS.mean(1))
    assert g1.DEFAULT_JOINTS.tolist() == [row[4] for row in TABLE]
    expected = [0, 0, 0.76, 1, 0, 0, 0, *(row[4] for row in TABLE)]
    assert g1.DEFAULT_QPOS.tolist() == expected
    low, high = g1.SOFT_LIMITS.T
    assert ((low < g1.DEFAULT_JOINTS) & (g1.DEFAULT_JOINTS < high)).all()


def test_targets_reach_beyond_limits_by_quarters_of_effort():
    """With four, a motor pushes a joint at its limit with all of its effort."""
    for reach in (0.0, 1.0, 4.0):
        beyond = g1.target_limits(reach) - g1.JOINT_LIMITS
        effort_nm = g1.STIFFNESS[:, None] * beyond
        right = 0.25 * reach * np.outer(g1.EFFORT_LIMIT, (-1, 1))
        np.testing.assert_allclose(effort_nm, right, atol=1e-9)


def test_timing():
    """200 Hz physics, 50 Hz control."""
    assert (g1.PHYSICS_DT_S, g1.DECIMATION, g1.CONTROL_HZ) == (0.005, 4, 50)
    assert g1.PHYSICS_DT_S * g1.DECIMATION * g1.CONTROL_HZ == pytest.approx(1.0)


def test_wristless_joints():
    """The 23 joints of the G1 without wrists."""
    assert len(g1.WITHOUT_WRISTS) == 23
    assert not any("wrist" in g1.JOINTS[i] for i in g1.WITHOUT_WRISTS)


def test_model_orders(plain):
    """Joints, bodies and actuators of the model are in the orders of g1."""
    joints = names(plain, mujoco.mjtObj.mjOBJ_JOINT, plain.njnt)
    assert joints[1:] == [f"{name}_joint" for name in g1.JOINTS]
    assert plain.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    bodies = names(plain, mujoco.mjtObj.mjOBJ_BODY, plain.nbody)
    assert bodies == ["world", *g1.LINKS]
    assert names(plain, mujoco.mjtObj.mjOBJ_ACTUATOR, plain.nu) == list(g1.JOINTS)
    assert plain.actuator_trnid[:, 0].tolist() == list(range(1, 30))
    # Link i + 1 is moved by joint i.
    assert plain.jnt_bodyid[1:].tolist() == list(range(2, 31))
    assert (plain.nq, plain.nv) == (g1.QPOS_SIZE, 35)


def test_model_motors_and_limits(plain):
    """Position actuators with SONIC's gains, clamps and armature; MJCF limits."""
    kp, kd, effort = g1.STIFFNESS, g1.DAMPING, g1.EFFORT_LIMIT
    np.testing.assert_allclose(plain.actuator_gainprm[:, 0], kp)
    bias = np.stack((0 * kp, -kp, -kd), axis=1)
    np.testing.assert_allclose(plain.actuator_biasprm[:, :3], bias)
    clamp = np.stack((-effort, effort), axis=1)
    np.testing.assert_array_equal(plain.actuator_forcerange, clamp)
    assert plain.actuator_forcelimited.all()
    np.testing.assert_array_equal(plain.jnt_actfrcrange[1:], clamp)
    np.testing.assert_allclose(plain.dof_armature[6:], g1.ARMATURE)
    np.testing.assert_array_equal(plain.dof_armature[:6], 0)
    np.testing.assert_allclose(plain.jnt_range[1:], g1.JOINT_LIMITS, atol=1e-9)
    assert plain.jnt_limited[1:].all()
    assert plain.opt.timestep == 0.005


def test_actuators_are_a_clamped_pd(plain):
    """Force = clamp(kp (target - q) - kd qdot), straight from MuJoCo."""
    data = mujoco.MjData(plain)
    random = np.random.default_rng(0)
    data.qpos[:] = g1.DEFAULT_QPOS
    data.qvel[6:] = random.normal(size=29)
    data.ctrl[:] = g1.DEFAULT_JOINTS + random.normal(scale=0.5, size=29)
    mujoco.mj_forward(plain, data)
    force = g1.STIFFNESS * (data.ctrl - data.qpos[7:]) - g1.DAMPING * data.qvel[6:]
    expected = force.clip(-g1.EFFORT_LIMIT, g1.EFFORT_LIMIT)
    np.testing.assert_allclose(data.actuator_force, expected, rtol=1e-9)
    assert (expected != force).any()


def test_model_mass_and_key(plain):
    """33.341 kg, and a key frame at the default pose."""
    assert plain.body_mass.sum() == pytest.approx(33.341, abs=5e-4)
    np.testing.assert_allclose(plain.key("default").qpos, g1.DEFAULT_QPOS)
    np.testing.assert_allclose(plain.key("default").ctrl, g1.DEFAULT_JOINTS)


def test_meshes_are_only_looks(plain, pretty):
    """Without meshes the model has the same bodies, inertias and kinematics."""
    assert plain.nmesh == 0 and pretty.nmesh > 0
    assert not (plain.geom_type == mujoco.mjtGeom.mjGEOM_MESH).any()
    for field in (
        *("body_mass", "body_inertia", "body_ipos", "body_iquat"),
        *("body_pos", "body_quat", "body_parentid", "jnt_axis", "jnt_pos"),
    ):
        np.testing.assert_array_equal(getattr(plain, field), getattr(pretty, field))
    # What can collide is the same too.
    collides = [
        int(((m.geom_contype | m.geom_conaffinity) > 0).sum()) for m in (plain, pretty)
    ]
    assert collides[0] == collides[1]


def test_floor_is_optional():
    """One plane, or none."""
    for floor in (True, False):
        built = model.build_model(floor=floor)
        planes = (built.geom_type == mujoco.mjtGeom.mjGEOM_PLANE).sum()
        assert planes == int(floor)


def test_sole_points_are_the_ends_of_the_foot_capsules(plain):
    """As a set and for both feet; with their radius they give the sole's height."""
    for foot in g1.FEET:
        body = plain.body(foot).id
        ends = []
        for geom in np.flatnonzero(plain.geom_bodyid == body):
            if not plain.geom_contype[geom]:
                continue
            assert plain.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE
            radius, half = plain.geom_size[geom, :2]
            assert radius == pytest.approx(g1.SOLE_RADIUS)
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, plain.geom_quat[geom])
            axis = half * matrix.reshape(3, 3)[:, 2]
            ends += [plain.geom_pos[geom] + axis, plain.geom_pos[geom] - axis]
        gap = np.linalg.norm(np.array(ends)[:, None] - g1.SOLE_POINTS, axis=2)
        # One end of the left foot's capsules is 1 mm wider than the others.
        assert gap.min(axis=0).max() < 1.1e-3, "a sole point is no capsule end"
        lowest = g1.SOLE_POINTS[:, 2].min()
        assert lowest == pytest.approx(min(end[2] for end in ends), abs=1e-4)
        for extent in (np.min, np.max):
            np.testing.assert_allclose(
                extent(g1.SOLE_POINTS, axis=0), extent(ends, axis=0), atol=1.1e-3
            )


def test_building_never_imports_mjlab():
    """Its import takes seconds and configures the process."""
    code = (
        "import sys; from spectral_skills.robot.model import build_model; "
        "build_model(); sys.exit('mjlab' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

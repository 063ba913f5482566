"""Plausibility: physics by hand, and a simulated motion that must be plausible."""

import json
from typing import Any

import mujoco
import numpy as np
import pytest

from spectral_skills.cli.main import main
from spectral_skills.experiments.corpus_check import summarise
from spectral_skills.motion.checks import (
    balance,
    distance_outside,
    measure,
    measure_corpus,
    planted_speeds,
)
from spectral_skills.motion.inverse_dynamics import (
    _CARRYING,
    Dynamics,
    _model,
    body_weight,
    inverse_dynamics,
    non_negative_least_squares,
)
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

FPS = 50
GRAVITY = 9.81


def sole_height(row: np.ndarray) -> float:
    return float(inverse_dynamics(row[None]).soles[..., 2].min())


def standing(frames: int = 50) -> np.ndarray:
    """The default pose, soles level and on the floor, its weight over them."""
    row = g1.DEFAULT_QPOS.copy()
    for side in ("left", "right"):
        for name, angle in (("hip_pitch", -0.4), ("knee", 0.8), ("ankle_pitch", -0.4)):
            row[7 + g1.joint_index(f"{side}_{name}")] = angle
    row[2] -= sole_height(row)
    return np.tile(row, (frames, 1))


def seconds(frames: int) -> np.ndarray:
    return np.arange(frames) / FPS


def test_standing_is_plausible():
    dynamics = inverse_dynamics(standing())
    place, centre = dynamics.zero_moment_point, dynamics.mass_centre[:, :2]
    np.testing.assert_allclose(place, centre, atol=1e-9)
    np.testing.assert_allclose(dynamics.force[:, 2], body_weight())
    measured = measure(standing())
    assert measured.residual_force_95 < 1e-3
    assert measured.residual_moment_95 < 0.01
    assert measured.slide_max == pytest.approx(0, abs=1e-9)
    assert measured.sole_depth_mm == pytest.approx(0, abs=1e-9)
    assert measured.balance_max == 0
    assert measured.balanced_share == measured.torque_share == 1
    assert measured.airborne_share == measured.limit_excess == 0


def test_torques_are_those_of_contact_jacobians():
    rows = standing(3)
    dynamics = inverse_dynamics(rows)
    model = _model()
    data = mujoco.MjData(model)
    data.qpos = rows[0]
    mujoco.mj_inverse(model, data)
    expected = data.qfrc_inverse.copy()
    for side, name in enumerate(g1.FEET):
        carrying = _CARRYING
        for point, force in zip(
            dynamics.soles[0, side, carrying],
            dynamics.contact_force[0, side],
            strict=True,
        ):
            jacobian = np.zeros((3, model.nv))
            mujoco.mj_jac(model, data, jacobian, None, point, model.body(name).id)
            expected -= jacobian.T @ force
    np.testing.assert_allclose(dynamics.torque[0], expected[6:], atol=1e-9)
    np.testing.assert_allclose(dynamics.residual_force[0], expected[:3], atol=1e-9)


def test_free_fall_needs_no_floor():
    rows = standing()
    t = seconds(len(rows))
    rows[:, 2] += 10 - 0.5 * GRAVITY * t**2
    rows[:, 0] += 1.5 * t
    dynamics = inverse_dynamics(rows)
    np.testing.assert_allclose(dynamics.force, 0, atol=1e-4)
    about_centre = dynamics.moment - np.cross(dynamics.mass_centre, dynamics.force)
    np.testing.assert_allclose(about_centre, 0, atol=1e-4)
    measured = measure(rows)
    assert measured.airborne_share == 1
    assert measured.torque_ratio_95 < 1e-4
    assert measured.residual_force_95 < 1e-4


def test_hovering_is_not_explained():
    rows = standing()
    rows[:, 2] += 0.05
    measured = measure(rows)
    assert measured.residual_force_50 == pytest.approx(1.0)
    assert measured.sole_gap_mm == pytest.approx(50)
    assert measured.airborne_share == 1


def test_acceleration_shifts_the_zero_moment_point():
    rows = standing()
    acceleration = np.array([0.3, -0.2])
    rows[:, :2] += 0.5 * acceleration * seconds(len(rows))[:, None] ** 2
    dynamics = inverse_dynamics(rows)
    height = dynamics.mass_centre[:, 2:]
    expected = dynamics.mass_centre[:, :2] - height * acceleration / GRAVITY
    np.testing.assert_allclose(dynamics.zero_moment_point, expected, atol=1e-6)


def test_spin_about_the_vertical_needs_no_force():
    """The angular velocity is in body axes: a tilted body would show it in world's."""
    rows = standing()
    centre = inverse_dynamics(rows).mass_centre[0, :2]
    angle = 0.5 * seconds(len(rows))
    offset = rows[0, :2] - centre
    cosine, sine = np.cos(angle), np.sin(angle)
    rows[:, 0] = centre[0] + cosine * offset[0] - sine * offset[1]
    rows[:, 1] = centre[1] + sine * offset[0] + cosine * offset[1]
    tilt = np.array([np.cos(0.2), 0, np.sin(0.2), 0])
    for row, half in zip(rows, angle / 2, strict=True):
        turn = np.array([np.cos(half), 0, 0, np.sin(half)])
        mujoco.mju_mulQuat(row[3:7], turn, tilt)
    dynamics = inverse_dynamics(rows)
    spread = np.ptp(np.linalg.norm(dynamics.mass_centre - rows[:, :3], axis=1))
    assert spread < 1e-9
    # Tilted, the centre of mass runs on a circle: the same pull inwards all along.
    pull = np.linalg.norm(dynamics.force[2:-2, :2], axis=1)
    np.testing.assert_allclose(pull, pull[0], rtol=1e-4)
    about = dynamics.moment - np.cross(dynamics.mass_centre, dynamics.force)
    np.testing.assert_allclose(about[2:-2, 2], 0, atol=1e-3)


def simulated_squat() -> tuple[np.ndarray, np.ndarray]:
    """Rows and motor torques of a robot that goes down and up on a floor."""
    model = build_model(meshes=False, floor=True)
    data = mujoco.MjData(model)
    pose = standing(1)[0]
    data.qpos, data.ctrl = pose, pose[7:]
    rows, torques = [], []
    for step in range(260):
        depth = 0.4 + 0.05 * (1 - np.cos(2 * np.pi * 0.8 * step * g1.PHYSICS_DT_S))
        for side in ("left", "right"):
            for name, share in (("hip_pitch", -1), ("knee", 2), ("ankle_pitch", -1)):
                data.ctrl[g1.joint_index(f"{side}_{name}")] = share * depth
        # The first moments are the fall onto the floor's springs.
        if step >= 40 and step % g1.DECIMATION == 0:
            mujoco.mj_forward(model, data)
            rows.append(data.qpos.copy())
            torques.append(data.qfrc_actuator[6:].copy())
        mujoco.mj_step(model, data)
    return np.array(rows), np.array(torques)


def test_a_simulated_squat_is_plausible():
    """Physics with a floor makes what physics without one must explain."""
    rows, torques = simulated_squat()
    assert np.ptp(rows[:, 2]) > 0.03
    measured = measure(rows)
    assert measured.residual_force_95 < 1e-3
    assert measured.residual_moment_95 < 0.05
    assert measured.balanced_share == measured.torque_share == 1
    assert measured.slide_max < 0.01
    # The ends of a clip have no acceleration of their own.
    error = np.abs(inverse_dynamics(rows).torque - torques)[2:-2]
    assert error.max() < 1.0


def test_sliding_foot_is_caught():
    rows = standing()
    rows[:, 0] += 0.08 * seconds(len(rows))
    rows[:, 1] += 0.06 * seconds(len(rows))
    measured = measure(rows)
    for speed in (measured.slide_50, measured.slide_99, measured.slide_max):
        assert speed == pytest.approx(0.1, rel=1e-6)


def test_rolling_over_the_toe_is_no_slide():
    """The whole robot pitches about the toe sphere, which rolls on the floor."""
    rows = standing()
    row, toe_x = rows[0].copy(), inverse_dynamics(rows[:1]).soles[0, 0, 1, 0]
    angle = 0.8 * seconds(len(rows))
    centre = np.array([toe_x, g1.SOLE_RADIUS])
    offset = row[[0, 2]] - centre
    cosine, sine = np.cos(angle), np.sin(angle)
    rows[:, 0] = centre[0] + g1.SOLE_RADIUS * angle + cosine * offset[0]
    rows[:, 0] += sine * offset[1]
    rows[:, 2] = centre[1] - sine * offset[0] + cosine * offset[1]
    rows[:, 3], rows[:, 5] = np.cos(angle / 2), np.sin(angle / 2)
    measured = measure(rows)
    assert measured.sole_depth_mm < 1e-6
    assert measured.sole_gap_mm == pytest.approx(0, abs=1e-6)
    assert measured.slide_max < 1e-4
    rows[:, 0] += 0.1 * seconds(len(rows))
    assert measure(rows).slide_50 == pytest.approx(0.1, rel=1e-3)


def test_sunk_foot_is_caught():
    rows = standing()
    rows[20, 2] -= 0.012
    measured = measure(rows)
    assert measured.sole_depth_mm == pytest.approx(12)
    assert measured.floor_depth_mm == pytest.approx(12)
    assert measured.floor_share == pytest.approx(1 / len(rows))


def planted(feet: np.ndarray, body: np.ndarray | None = None) -> np.ndarray:
    """Speeds of feet (T, 2, 3) with level soles, whose places are on the floor at 0."""
    frames, level = len(feet), np.broadcast_to(np.eye(3), (len(feet), 2, 3, 3))
    ankles = feet + (0, 0, g1.SOLE_RADIUS - g1.SOLE_POINTS[0, 2])
    centre = np.zeros((frames, 3)) if body is None else body
    nothing: Any = dict.fromkeys(
        ("force", "moment", "contact_force", "residual_force", "residual_moment"),
        np.zeros(0),
    )
    dynamics = Dynamics(
        feet=ankles,
        feet_rotation=level,
        mass_centre=centre,
        torque=np.zeros(0),
        contact_height_m=0.01,
        **nothing,
    )
    return planted_speeds(dynamics, FPS)


def feet_at_rest(frames: int) -> np.ndarray:
    return np.tile(((0.0, 0.1, 0.0), (0.0, -0.1, 0.0)), (frames, 1, 1))


@pytest.mark.parametrize("height", [0.0, 0.03, -0.02])
def test_gliding_feet_are_planted_at_any_height(height):
    """Neither foot stands, so neither swings: both slide, as fast as the body."""
    feet, ahead = feet_at_rest(40), 0.8 * seconds(40)
    feet[:, :, 0] += ahead[:, None]
    feet[:, :, 2] += height
    body = np.stack((ahead, 0 * ahead, 0 * ahead), axis=1)
    np.testing.assert_allclose(planted(feet, body), 0.8, rtol=2e-3)


def test_a_foot_that_swings_low_is_not_planted():
    feet = feet_at_rest(60)
    feet[20:40, 1, 0] = np.linspace(0, 0.6, 20)
    feet[40:, 1, 0] = 0.6
    speed = planted(feet)
    np.testing.assert_allclose(speed[:, 0], 0, atol=1e-12)
    assert np.isnan(speed[20:39, 1]).all()
    assert not np.isnan(speed[[5, 50], 1]).any()
    feet[20:40, 1, 0] *= 0.1  # that slow it drags
    feet[40:, 1, 0] = 0.06
    np.testing.assert_allclose(planted(feet)[22:38, 1], 0.06 / 19 * FPS, rtol=2e-3)


def test_landing_and_lifting_off_are_not_planted():
    """The foot comes down and goes up while it moves ahead, and stands in between."""
    t = np.arange(-30, 31) / FPS
    feet = feet_at_rest(len(t))
    feet[:, 1, 2] = np.maximum(0.0, np.abs(t) - 0.2) * 0.5
    feet[:, 1, 0] = np.sign(t) * np.maximum(0.0, np.abs(t) - 0.2)
    near = (feet[1:, 1, 2] < 0.01) & (feet[:-1, 1, 2] < 0.01)
    speed = planted(feet)[:, 1]
    assert near.sum() == 20 + 2  # the last step of each way is within a centimetre
    assert (~np.isnan(speed)).sum() == near.sum() - 4
    np.testing.assert_allclose(speed[~np.isnan(speed)], 0, atol=1e-12)


def test_turning_on_a_point_of_the_sole_is_no_slide():
    """The robot turns on its left heel, and the right foot goes round."""
    rows = standing()
    heel = inverse_dynamics(rows[:1]).soles[0, 0, 0, :2]
    angle = 0.6 * seconds(len(rows))
    x, y = rows[0, :2] - heel
    rows[:, 0] = heel[0] + np.cos(angle) * x - np.sin(angle) * y
    rows[:, 1] = heel[1] + np.sin(angle) * x + np.cos(angle) * y
    rows[:, 3], rows[:, 6] = np.cos(angle / 2), np.sin(angle / 2)
    left, right = planted_speeds(inverse_dynamics(rows), FPS).T
    np.testing.assert_allclose(left, 0, atol=1e-3)
    assert right.min() > 0.05
    measured = measure(rows)
    assert measured.planted_share == 1
    assert measured.planted_fast_share == 0.5
    assert measured.slide_50 > 0.05


def test_hands_in_the_hips_are_caught():
    rows = standing()
    rows[10:25, 7 + g1.joint_index("left_shoulder_roll")] = -0.5
    rows[10:25, 7 + g1.joint_index("left_elbow")] = 1.3
    measured = measure(rows)
    assert measured.self_share == pytest.approx(15 / 50)
    assert measured.self_depth_mm > 10
    assert "left_" in measured.self_pair


def test_joint_acceleration_is_a_percentile_over_joints_and_frames():
    rows = standing(53)
    t = seconds(53)
    moved = [7 + g1.joint_index(name) for name in ("left_elbow", "waist_yaw")]
    rows[:, moved] += 0.5 * 4.0 * t[:, None] ** 2
    assert measure(rows).joint_acceleration_95 == pytest.approx(4.0)  # 2 of 29
    rows[:, moved[0]] = rows[0, moved[0]]
    assert measure(rows).joint_acceleration_95 == pytest.approx(0, abs=1e-6)


def test_joint_jump_is_caught():
    rows = standing()
    elbow = g1.joint_index("left_elbow")
    rows[25:, 7 + elbow] += 0.5
    measured = measure(rows)
    expected = 0.5 * FPS / g1.VELOCITY_LIMIT[elbow]
    assert measured.speed_ratio == pytest.approx(expected)
    assert measured.torque_share < 1


def test_soft_limits_are_measured():
    rows = standing()
    elbow = g1.joint_index("left_elbow")
    rows[:, 7 + elbow] = g1.SOFT_LIMITS[elbow, 1] + 0.02
    assert measure(rows).limit_excess == pytest.approx(0.02)


def test_leaning_out_of_the_soles_is_caught():
    rows = standing()
    rows[:, 7 + g1.joint_index("waist_pitch")] = 0.5
    rows[:, 7 + g1.joint_index("left_shoulder_pitch")] = -1.5
    rows[:, 7 + g1.joint_index("right_shoulder_pitch")] = -1.5
    for joint in ("left_ankle_pitch", "right_ankle_pitch"):
        rows[:, 7 + g1.joint_index(joint)] -= 0.3
    # Soles level again: the whole robot leans ahead about its ankles.
    rows[:, 3], rows[:, 5] = np.cos(0.15), np.sin(0.15)
    rows[:, 2] -= sole_height(rows[0])
    dynamics = inverse_dynamics(rows)
    toes = dynamics.soles[0, ..., 0].max()
    ahead = dynamics.mass_centre[0, 0] - toes
    assert ahead > 0.05
    np.testing.assert_allclose(balance(dynamics), ahead, rtol=2e-3)
    assert measure(rows).residual_moment_50 > 1


def test_distance_outside_a_polygon():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [50, 50]], dtype=float)
    places = np.array([[0.5, 0.5], [2, 0.5], [0.5, -3], [4, 5], [1, 1], [1e4, 0]])
    valid = np.tile([True, True, True, True, False], (len(places), 1))
    found = distance_outside(places, np.tile(square, (len(places), 1, 1)), valid)
    np.testing.assert_allclose(found, [0, 1, 3, 5, 0, 9999], rtol=2e-3)


def test_distance_outside_one_point():
    point = np.zeros((8, 1, 2))
    angle = np.linspace(0, 6, 8)
    places = 0.3 * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    found = distance_outside(places, point, np.ones((8, 1), bool))
    np.testing.assert_allclose(found, 0.3, rtol=2e-3)


def test_non_negative_least_squares_against_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    random = np.random.default_rng(0)
    matrix, target = random.normal(size=(40, 24, 6)), random.normal(size=(40, 6))
    matrix[:, :, 2] = np.abs(matrix[:, :, 2])
    matrix[:10, 4:] = 0
    found = non_negative_least_squares(matrix, target, 1e-3)
    assert found.min() >= 0
    for a, b, x in zip(matrix, target, found, strict=True):
        stacked = np.concatenate((a.T, np.sqrt(1e-3) * np.eye(24)))
        expected, _ = optimize.nnls(stacked, np.concatenate((b, np.zeros(24))))
        np.testing.assert_allclose(x, expected, atol=1e-5)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_short_clips(frames):
    assert measure(standing(frames)).frames == frames


def test_corpus_check(make_clip, make_corpus, tmp_path, capsys):
    clips = [
        make_clip(name, 60, seed) for seed, name in enumerate(("walk", "run", "x"))
    ]
    corpus = make_corpus(tmp_path / "corpus", clips)
    alone = [measure(corpus.qpos(i)) for i in range(len(corpus))]
    assert measure_corpus(corpus, workers=2) == alone
    summary = summarise(alone, ["a", "b", "b"])
    assert summary["b"]["clips"] == 2
    depths = [m.sole_depth_mm for m in alone]
    assert summary["all"]["sole_depth_mm"] == pytest.approx(max(depths), abs=1e-5)
    for arguments in ([], ["--json"]):
        with pytest.raises(SystemExit) as stop:
            main(["corpus", "check", str(tmp_path / "corpus"), *arguments])
        assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "zero-moment point" in out
    found = json.loads(out[out.index("\n{") :])
    assert set(found["groups"]) == {"walk", "run", "other", "all"}
    assert set(found["clips"]) == {c.name for c in clips}

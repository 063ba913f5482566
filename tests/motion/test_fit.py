"""A person made of the robot's own motion, larger, must give that motion back."""

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.motion import checks
from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import quality
from spectral_skills.motion.human.arms import slowed, unturned
from spectral_skills.motion.human.feet import (
    eased,
    find_contacts,
    hysteresis,
    plan,
    smoothed,
    stepped,
)
from spectral_skills.motion.human.fit import Fit, fit
from spectral_skills.motion.human.recording import POINTS, Recording
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic.generate import clip
from spectral_skills.robot import g1

LARGER = 1.35
PLACES = {
    "pelvis": ("pelvis", (0.0, 0.0, 0.0)),
    "chest": ("torso_link", (0.0, 0.0, 0.2)),
    "neck": ("torso_link", (0.0, 0.0, 0.3)),
    "head": ("torso_link", (0.0, 0.0, 0.45)),
}
for side, out in (("left", 1), ("right", -1)):
    PLACES |= {
        f"{side}_hip": ("pelvis", (0.0, 0.08 * out, -0.1027)),
        f"{side}_knee": (f"{side}_knee_link", (0.0, 0.0, 0.0)),
        f"{side}_ankle": (f"{side}_ankle_roll_link", (0.0, 0.0, 0.0)),
        f"{side}_toe": (f"{side}_ankle_roll_link", (0.12, 0.0, -0.02)),
        f"{side}_shoulder": (f"{side}_shoulder_roll_link", (0.0, 0.0, 0.0)),
        f"{side}_elbow": (f"{side}_elbow_link", (0.0, 0.0, 0.0)),
        f"{side}_wrist": (f"{side}_wrist_pitch_link", (0.0, 0.0, 0.0)),
        f"{side}_hand": (f"{side}_wrist_yaw_link", (0.1, 0.0, 0.0)),
    }


def person_of(rows: np.ndarray, turned: bool = True) -> Recording:
    """Somebody who is as the robot is, and larger."""
    poses = Kinematics(dtype=torch.float64)(torch.as_tensor(rows, dtype=torch.float64))
    points = []
    for name in POINTS:
        link, offset = PLACES[name]
        at = g1.LINKS.index(link)
        arm = rotation.rotate(
            poses.quaternion[:, at], torch.tensor(offset).double().expand(len(rows), 3)
        )
        points.append((poses.position[:, at] + arm).numpy())
    turn = poses.quaternion[:, 0].numpy() if turned else None
    return Recording("larger", 50.0, LARGER * np.stack(points, axis=1), turn)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Somebody walks."""
    return np.asarray(clip(4).qpos()[:200], dtype=np.float64)


@pytest.fixture(scope="module")
def found(rows) -> Fit:
    return fit(person_of(rows))


def test_the_robots_own_motion_comes_back(rows, found):
    """Limbs within 3 degrees on average, most joints of legs and trunk in 0.2 rad."""
    measured = quality.measure(found)
    assert measured.bone_error_deg < 3.0
    body = slice(7, 7 + g1.joint_index("left_shoulder_pitch"))
    away = np.abs(found.qpos[:, body] - rows[: len(found.qpos), body])
    assert np.median(away) < 0.06 and np.quantile(away, 0.9) < 0.2


def test_hard_limits_hold(found):
    joints = found.qpos[:, 7:]
    low, high = g1.SOFT_LIMITS.T
    assert (joints >= low - 1e-9).all() and (joints <= high + 1e-9).all()
    speed = np.abs(np.diff(joints, axis=0)) * 50.0
    assert (speed <= g1.VELOCITY_LIMIT).all()


def test_feet_stand_still_on_the_floor(found):
    measured = checks.measure(found.qpos)
    assert found.contacts.any(axis=0).all()
    assert measured.planted_fast_share < 0.01
    assert measured.floor_depth_mm < 3.0


def test_heading_and_place_do_not_matter(rows, found):
    """A turned and moved person gives the turned and moved robot."""
    person = person_of(rows, turned=False)
    straight = fit(person).qpos
    turn = np.array(((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    moved = person.points @ turn.T + (3.0, -2.0, 0.0)
    again = fit(Recording("moved", 50.0, moved)).qpos
    assert np.allclose(again[:, 7:], straight[:, 7:], atol=1e-6)
    scale = found.scale * np.array((3.0, -2.0, 0.0))
    assert np.allclose(again[:, :3], straight[:, :3] @ turn.T + scale, atol=1e-6)


def test_the_first_frame_decides_nothing(rows, found):
    """A clip that starts a second later is the same from a little later on."""
    later = fit(person_of(rows[50:])).qpos
    away = np.abs(later[30:, 7:] - found.qpos[80 : 80 + len(later) - 30, 7:])
    assert away.max() < 0.05


def test_clearance_keeps_hands_out_of_the_body(rows):
    """Hands of a person in the pockets are beside the robot's hips."""
    person = person_of(rows)
    points = person.points.copy()
    for side in ("left", "right"):
        hip = POINTS.index(f"{side}_hip")
        out = points[:, hip] - points[:, POINTS.index("pelvis")]
        out[:, 2] = 0.0
        for name, part in (("wrist", 0.3), ("hand", 0.2)):
            points[:, POINTS.index(f"{side}_{name}")] = points[:, hip] + part * out
    inside = fit(Recording("inside", 50.0, points, person.pelvis_turn))
    assert checks.measure(inside.qpos).self_share < 0.01
    reached = quality.measure(inside)
    assert reached.bone_error_deg > 1.0  # they would have gone through it


def test_long_clips_are_fitted_a_part_at_a_time(rows, found, monkeypatch):
    """Every frame is fitted by itself, so that parts change nothing."""
    monkeypatch.setattr("spectral_skills.motion.human.fit._AT_ONCE", 64)
    assert np.abs(fit(person_of(rows)).qpos - found.qpos).max() < 1e-8


@pytest.mark.parametrize("frames", [4, 5, 7, 11])
def test_very_short_clips_are_fitted_and_measured(rows, frames):
    """Down to four frames, the fewest that a motion has."""
    short = fit(person_of(rows[:frames]))
    assert short.qpos.shape == (frames, 36) and np.isfinite(short.qpos).all()
    assert quality.measure(short).bone_error_deg < 10.0
    with pytest.raises(ClipError, match="lasts"):
        fit(person_of(rows[:3]))


@pytest.mark.parametrize("feet", [("left",), ("left", "right")])
def test_feet_that_never_stand(rows, feet):
    """One foot that is always up, or both, as of somebody who is carried."""
    person = person_of(rows)
    points = person.points.copy()
    for foot in feet:
        for name in ("ankle", "toe"):
            path = points[:, POINTS.index(f"{foot}_{name}")]
            path += 0.2 * np.sin(np.arange(len(path)) * 1.3)[:, None]
    lifted = Recording("lifted", 50.0, points, person.pelvis_turn)
    result = fit(lifted)
    assert np.isfinite(result.qpos).all()
    for number, foot in enumerate(("left", "right")):
        assert result.contacts[:, number].any() == (foot not in feet)
    assert np.isfinite(quality.measure(result).planted_fast_share)


def test_stance_is_found():
    """A person who stands has both feet on the floor, at their joints' height."""
    still = np.tile(g1.DEFAULT_QPOS, (60, 1))
    stance = find_contacts(person_of(still))
    assert stance.standing.all()
    assert stance.ankle_m == pytest.approx([LARGER * 0.035] * 2, abs=0.02)


def test_a_foot_that_is_always_on_its_toes_stands_with_its_heel_up():
    """Not flat, and higher than the other, for want of a frame in which it is."""
    person = person_of(np.tile(g1.DEFAULT_QPOS, (60, 1)))
    person.points[:, POINTS.index("right_ankle"), 2] += 0.08
    stance = find_contacts(person)
    assert stance.standing.all()
    assert stance.ankle_m[1] == stance.ankle_m[0]
    heel = fit(person).qpos[30, 7 + g1.joint_index("right_ankle_pitch")]
    assert heel > g1.DEFAULT_JOINTS[g1.joint_index("right_ankle_pitch")] + 0.1


def test_toes_under_the_floor_do_not_lift_the_foot():
    person = person_of(np.tile(g1.DEFAULT_QPOS, (120, 1)))
    person.points[110:, POINTS.index("left_toe"), 2] -= 0.12
    stance = find_contacts(person)
    pelvis = np.tile(np.eye(3), (120, 1, 1))
    left, _ = plan(person, stance, 1 / LARGER, pelvis).feet
    assert left.position[:, 2].max() < left.position[0, 2] + 0.01


def test_arms_do_not_turn_over_and_back():
    """What lies between is left out, and a turn without return is kept."""
    frames = np.arange(0, 160, 4)
    rows = np.zeros((40, 36))
    elbow = 7 + g1.joint_index("left_elbow")
    rows[:, elbow] = 0.01 * frames
    steady = rows.copy()
    rows[5:9, elbow] += 2.0
    rows[30:, elbow + 7] = 2.0
    steady[30:, elbow + 7] = 2.0
    assert np.allclose(unturned(rows, frames), steady)


def test_hysteresis_needs_one_good_frame():
    stay = np.array([1, 1, 1, 0, 1, 1, 0], bool)
    on = np.array([0, 1, 0, 0, 0, 0, 0], bool)
    assert hysteresis(on, stay).tolist() == [True] * 3 + [False] * 4


def test_eased_paths_reach_goals_without_a_jolt():
    time = np.arange(60) / 50
    path = np.stack((np.sin(3 * time), time), axis=1)
    fixed = (time < 0.3) | (time > 0.8)
    goal = np.where(time[:, None] < 0.5, path[0], path[-1])
    found = eased(path, fixed, goal)
    assert np.array_equal(found[fixed], goal[fixed])
    jolt = np.abs(np.diff(found, n=2, axis=0)).max()
    assert jolt < 0.5 * np.abs(np.diff(goal, axis=0)).max()


def test_a_pivot_becomes_a_step_while_the_other_foot_stands():
    standing, path = np.ones(100, bool), np.zeros((100, 2))
    yaw = np.linspace(0, 1.0, 100)
    found = stepped(standing, path, yaw, other=np.ones(100, bool))
    assert 0 < (~found).sum() < 30
    assert stepped(standing, path, yaw, other=np.zeros(100, bool)).all()
    assert stepped(standing, path, 0.1 * yaw, other=np.ones(100, bool)).all()


def test_slowed_curves_keep_the_limit_and_slow_curves():
    values = np.array([[0.0], [0.1], [2.0], [0.3], [0.2]])
    limit = np.full((4, 1), 0.5)
    found = slowed(values, limit)
    assert (np.abs(np.diff(found, axis=0)) <= limit + 1e-12).all()
    gentle = np.linspace(0, 1, 5)[:, None]
    assert np.allclose(slowed(gentle, limit), gentle)


def test_smoothing_keeps_straight_lines():
    line = np.linspace(0, 1, 30)[:, None]
    assert np.allclose(smoothed(line, 10.0), line)
    rough = line + 0.1 * (-1.0) ** np.arange(30)[:, None]
    assert np.abs(np.diff(smoothed(rough, 10.0), n=2, axis=0)).max() < 0.05

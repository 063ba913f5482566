"""Quality of retargeted clips: known faults are found, at their frame, and refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.motion.human.fit import Fit
from spectral_skills.motion.human.quality import (
    BONES,
    LINK_OF_POINT,
    Quality,
    judge,
    measure,
)
from spectral_skills.motion.human.recording import POINTS, SIDES, point
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

FPS, FRAMES, LARGER = 50, 100, 1.25


def standing(frames: int = FRAMES) -> np.ndarray:
    """Soles level and on the floor; arms a little aside, swinging ahead and back."""
    rows = np.tile(g1.DEFAULT_QPOS, (frames, 1))
    for side, sign in zip(SIDES, (1, -1), strict=True):
        for name, angle in (("hip_pitch", -0.4), ("knee", 0.8), ("ankle_pitch", -0.4)):
            rows[:, 7 + g1.joint_index(f"{side}_{name}")] = angle
        rows[:, 7 + g1.joint_index(f"{side}_shoulder_roll")] = 0.4 * sign
        swing = 0.3 * sign * np.sin(np.arange(frames) / 10)
        rows[:, 7 + g1.joint_index(f"{side}_shoulder_pitch")] = swing
    feet = Kinematics(g1.FEET, dtype=torch.float64)(torch.from_numpy(rows[:1]))
    sole = -g1.SOLE_POINTS[0, 2] + g1.SOLE_RADIUS
    rows[:, 2] -= float(feet.position[0, 0, 2]) - sole
    return rows


def person_of(rows: np.ndarray) -> np.ndarray:
    """(T, 20, 3) a person of the robot's own shape, but larger."""
    names = (*LINK_OF_POINT.values(), *(f"{s}_hip_pitch_link" for s in SIDES))
    places = Kinematics(names, dtype=torch.float64)(torch.from_numpy(rows))
    position = LARGER * places.position.numpy()
    points = np.zeros((len(rows), len(POINTS), 3))
    for i, name in enumerate(LINK_OF_POINT):
        points[:, point(name)] = position[:, i]
    # A person's hips are as high as the axes that the robot's legs begin at.
    middle = position[:, -2:].mean(axis=1)
    hips = [point(f"{side}_hip") for side in SIDES]
    points[:, hips] += (middle - points[:, hips].mean(axis=1))[:, None]
    return points


def fitted(rows: np.ndarray, person: np.ndarray | None = None) -> Fit:
    points = person_of(rows) if person is None else person
    contacts = np.ones((len(rows), 2), bool)
    return Fit(rows, points, contacts, 1 / LARGER)


def test_a_robot_like_the_person_is_faultless():
    quality = measure(fitted(standing()))
    assert quality.point_error_mm == pytest.approx(0, abs=1e-9)
    assert quality.bone_error_deg < 4  # hips of the person are higher than the links
    for name in ("floor", "sunk", "floating", "planted_fast", "self", "jump"):
        assert getattr(quality, f"{name}_share") == 0, name
    assert quality.planted_share == 1 and quality.limit_excess == 0
    assert judge(quality) is None
    assert Quality.from_json(quality.to_json()) == quality


def test_errors_do_not_depend_on_where_the_robot_is():
    rows = standing()
    person = person_of(rows)
    rows[:, :2] += (3.0, -2.0)
    quality = measure(fitted(rows, person))
    assert quality.point_error_mm == pytest.approx(0, abs=1e-9)


def test_a_wrist_elsewhere_is_measured():
    rows = standing()
    person = person_of(rows)
    person[:, point("left_wrist")] += LARGER * np.array((0.0, 0.0, 0.1))
    quality = measure(fitted(rows, person))
    assert quality.point_error_mm == pytest.approx(100 / 10)  # one of ten points
    assert quality.point_error_95_mm == pytest.approx(100)


def test_turned_limbs_are_measured():
    """The person's forearms point the other way: two of eight bones are 180 off."""
    rows = standing()
    person = person_of(rows)
    exact = measure(fitted(rows, person)).bone_error_deg
    for side in SIDES:
        elbow, wrist = point(f"{side}_elbow"), point(f"{side}_wrist")
        person[40:60, wrist] = 2 * person[40:60, elbow] - person[40:60, wrist]
    quality = measure(fitted(rows, person))
    turned = 180 * 2 / len(BONES) * 20 / FRAMES
    assert quality.bone_error_deg - exact == pytest.approx(turned, abs=0.3)
    assert 40 <= quality.worst["bones"] < 60
    assert quality.limb_off_share == pytest.approx(20 / FRAMES)
    error = judge(quality)
    assert error is not None and error.kind == "unlike person" and "20%" in str(error)


def sunk(rows):
    rows[30:40, 2] -= 0.025
    return 30


def floating(rows):
    rows[:, 2] += 0.05
    rows[70, 2] += 0.01
    return 70


def skating(rows):
    rows[50:, 0] += np.linspace(0, 0.2, 50)
    return 50


def inside(rows):
    rows[20:60, 7 + g1.joint_index("left_shoulder_roll")] = -0.4
    rows[20:60, 7 + g1.joint_index("left_elbow")] = 1.3
    return 20


def beyond(rows):
    elbow = g1.joint_index("right_elbow")
    rows[42, 7 + elbow] = g1.JOINT_LIMITS[elbow, 1] + 0.1
    return 42


def jumping(rows):
    """A wrist that turns back and forth, which moves no limb."""
    rows[[33, 66], 7 + g1.joint_index("left_wrist_roll")] += 0.6
    return 32


def hop(rows):
    """The whole robot is elsewhere from one frame to the next."""
    rows[60:, 0] += 0.15
    return 59


@pytest.mark.parametrize(
    "spoil, kind, window",
    [
        (sunk, "under floor", 10),
        (floating, "floats", 1),
        (skating, "feet skate", 50),
        (inside, "self-contact", 40),
        (beyond, "joint limits", 1),
        (jumping, "joints jump", 40),
        (hop, "hips jump", 1),
    ],
)
def test_faults_are_refused_with_their_frame(spoil, kind, window):
    rows = standing()
    person = person_of(rows)
    first = spoil(rows)
    error = judge(measure(fitted(rows, person)))
    assert error is not None and error.kind == kind
    assert error.frame is not None and first <= error.frame < first + window
    assert "nan" not in error.reason and "{" not in error.reason


def test_a_fault_of_one_frame_is_kept():
    rows = standing()
    person = person_of(rows)
    rows[30, 2] -= 0.025
    quality = measure(fitted(rows, person))
    assert quality.floor_share == pytest.approx(1 / FRAMES)
    assert judge(quality) is None


def test_what_is_not_a_number_is_refused():
    quality = measure(fitted(standing()))
    error = judge(replace(quality, bone_error_deg=float("nan")))
    assert error is not None and error.kind == "unlike person"

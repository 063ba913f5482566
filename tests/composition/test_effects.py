"""Measures of motions whose speed, heading, apex and stride are known."""

from dataclasses import replace

import numpy as np
import pytest

from spectral_skills.control.batch import Executed, Run
from spectral_skills.experiments.effects import (
    Effect,
    effect,
    groups,
    headings,
    measure,
    stride_hz,
)
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import NOTICED, UNITS, named

RUN = Run("", Base("stand", np.zeros((2, 36), np.float32)), None)


def _rows(seconds: float = 4.0, speed: float = 0.0, yaw_rate: float = 0.0):
    """(T, 36) a stiff robot that is moved along a straight line or an arc."""
    t = np.arange(round(seconds * FPS) + 1) / FPS
    rows = np.zeros((len(t), 36))
    yaw = yaw_rate * t
    ahead = speed / FPS * np.stack((np.cos(yaw), np.sin(yaw)), axis=1)
    rows[:, :2] = np.cumsum(ahead, axis=0)
    rows[:, 2] = 0.76
    rows[:, 3], rows[:, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
    return rows


def _turned(rows: np.ndarray, joint: str, angle: float | np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows[:, 7 + g1.joint_index(joint)] += angle
    return rows


def _changes(**noticed: float) -> dict[str, float]:
    """Changes given as multiples of what one notices."""
    return {name: noticed.get(name, 0.0) * NOTICED[name] for name in UNITS}


def _effect(**noticed: float) -> Effect:
    return Effect(_changes(**noticed), np.zeros(29))


def test_speed_is_that_along_the_path_and_heading_is_how_far_it_turned():
    """A backward walk is as fast as a forward one."""
    straight, back = measure(_rows(speed=0.8)), measure(_rows(speed=-0.8))
    assert straight["speed"] == pytest.approx(0.8) == pytest.approx(back["speed"])
    assert straight["heading"] == pytest.approx(0.0)
    arc = measure(_rows(speed=0.8, yaw_rate=0.5))
    assert arc["heading"] == pytest.approx(np.degrees(0.5 * 4.0))
    # Half a second of an arc of a quarter of a radian is hardly shorter than it.
    assert arc["speed"] == pytest.approx(0.8, rel=0.01)


def test_heading_of_more_than_a_turn_does_not_jump():
    yaw = headings(_rows(seconds=8.0, yaw_rate=-2.0))
    assert yaw[-1] - yaw[0] == pytest.approx(-16.0)
    assert np.abs(np.diff(yaw)).max() < 0.1


def test_stride_is_found_in_the_thighs_and_is_zero_without_any():
    rows = _rows(seconds=6.0)
    swing = 0.3 * np.sin(2 * np.pi * 0.9 * np.arange(len(rows)) / FPS)
    walk = _turned(_turned(rows, "left_hip_pitch", swing), "right_hip_pitch", -swing)
    assert stride_hz(walk) == pytest.approx(0.9, abs=0.03)
    assert stride_hz(rows) == 0.0


def test_apex_is_how_far_one_ankle_rises():
    """A straight leg of length l swung by an angle lifts its ankle by l (1 - cos)."""
    rows = _rows()
    swing = 0.6 * np.sin(2 * np.pi * np.arange(len(rows)) / FPS)
    found = measure(_turned(rows, "left_hip_pitch", swing))
    assert found["right_apex"] == pytest.approx(0.0, abs=1e-5)
    assert 0.05 < found["left_apex"] < 0.25
    half = measure(_turned(rows, "left_hip_pitch", swing / 2))
    assert half["left_apex"] < found["left_apex"]
    lifted = rows.copy()
    lifted[:, 2] += 0.05 * np.sin(2 * np.pi * np.arange(len(rows)) / FPS)
    for side in ("left", "right"):
        assert measure(lifted)[f"{side}_apex"] == pytest.approx(0.1, abs=1e-3)


def test_an_effect_is_the_difference_over_the_given_steps_alone():
    base, steps = _rows(), slice(50, 150)
    run = base.copy()
    shoulder = 7 + g1.joint_index("right_shoulder_pitch")
    run[steps, shoulder] -= 0.9
    run[:50, shoulder] += 3.0  # before: not measured
    run[steps, 2] -= 0.1
    found = effect(Executed(RUN, run), Executed(RUN, base), steps)
    assert found.changes["right_shoulder_pitch"] == pytest.approx(-0.9)
    assert found.changes["root_height"] == pytest.approx(-0.1)
    assert found.changes["left_shoulder_pitch"] == pytest.approx(0.0)
    assert found.arm_rms == pytest.approx(0.9 / np.sqrt(14))
    scaled = dict(zip(UNITS, found.in_scales(), strict=True))
    assert scaled["right_shoulder_pitch"] == pytest.approx(-3.0)
    assert found.name == "right arm raise"
    parts = {"right_shoulder_pitch": -1, "left_shoulder_pitch": -1}
    assert found.along(parts) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("noticed", "name"),
    [
        ({"heading": 0.9, "speed": -0.5}, ""),
        ({"heading": 2.0, "speed": -1.5}, "turn left"),
        ({"heading": -2.0}, "turn right"),
        ({"speed": 1.2}, "faster"),
        ({"root_height": -1.2}, "crouch"),
        ({"left_shoulder_pitch": -2.0}, "left arm raise"),
        (
            {"left_shoulder_pitch": -2.0, "right_shoulder_pitch": -1.5},
            "both arms raise",
        ),
        (
            {"left_shoulder_pitch": -2.0, "right_shoulder_pitch": 1.5},
            "opposed arms raise",
        ),
        ({"left_shoulder_roll": 2.0, "right_shoulder_roll": -2.0}, "both arms out"),
        ({"right_shoulder_roll": -2.0}, "right arm out"),
        ({"right_shoulder_yaw": 2.0}, "right forearm in"),
        ({"left_apex": 2.0, "right_apex": 1.5}, "high steps"),
        ({"left_apex": 2.0}, "left high steps"),
        ({"left_apex": 2.0, "right_apex": -1.5}, "left high steps"),
        ({"left_apex": -2.0, "right_apex": -1.9}, "low steps"),
    ],
)
def test_the_strongest_change_gives_the_name(noticed, name):
    assert named(_changes(**noticed)) == name


def test_a_fall_is_the_first_low_or_lost_row():
    rows = _rows()
    low = replace(RUN, base=replace(RUN.base, fall_m=0.22))
    assert Executed(RUN, rows).fell_at is None
    rows[70:, 2] = 0.3
    assert Executed(RUN, rows).fell_at == 70
    assert Executed(low, rows).fell_at is None
    rows[30, 2] = np.nan
    assert Executed(RUN, rows).fell_at == 30


def test_groups_hold_what_correlates_in_either_sign():
    turn, arm = np.array([1.0, 0.1, 0.0]), np.array([0.0, 0.0, 2.0])
    mixed = np.array([1.0, 0.0, 1.0])  # as near to both: 0.707
    found = groups(np.stack((turn, -3 * turn, arm, -0.1 * arm)))
    assert found[0] == found[1] != found[2] == found[3]
    assert len(set(groups(np.stack((turn, arm, mixed)), alike=0.72))) == 3
    assert len(set(groups(np.stack((turn, arm, mixed))))) == 2

"""Gestures: what the robot can do, and hands where they should be."""

import re

import numpy as np
import pytest
import torch

from spectral_skills.control.gestures import _joined as joined
from spectral_skills.control.gestures import gestures
from spectral_skills.motion.collisions import Clearance
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.targets import Jacobians
from spectral_skills.robot import g1

ALL = {one.name: one for one in gestures()}
BODY = Kinematics()
FASTEST_RAD_S = 8.0
OTHER = {"left": "right", "right": "left"}


def places(name: str, link: str) -> np.ndarray:
    """(T, 3) a link as the torso sees it; the torso of a standing robot is upright."""
    found = BODY(torch.from_numpy(ALL[name].rows)).position.numpy()
    where = found[:, g1.LINKS.index(link)]
    return where - found[:, g1.LINKS.index("torso_link")]


def wrists(name: str) -> np.ndarray:
    """(T, 2, 3) the wrists, left and right."""
    return np.stack([places(name, wrist) for wrist in g1.WRISTS], axis=1)


@pytest.mark.parametrize("name", ALL)
def test_a_gesture_is_within_limits_and_slow_enough(name):
    joints = ALL[name].rows[:, 7:]
    assert (joints >= g1.JOINT_LIMITS[:, 0]).all()
    assert (joints <= g1.JOINT_LIMITS[:, 1]).all()
    assert np.abs(np.diff(joints, axis=0)).max() * FPS < FASTEST_RAD_S


STANCES = [
    *("one_leg", "knee_up", "stamp", "front_kick", "back_kick", "leg_aside", "star"),
    *("wide_stance", "goalkeeper", "lunge", "crouch_low", "sit_in_air", "touch_toes"),
    *("lean_ahead", "lean_back", "forward_lunge", "kneel", "plie", "chop", "toes"),
]


def in_stances(name: str) -> bool:
    return name.removesuffix("_left").removesuffix("_right") in STANCES


@pytest.mark.parametrize("name", [n for n in ALL if not in_stances(n)])
def test_only_arms_and_waist_move(name):
    still = bases.generate("stand", 1).rows[0, : 7 + g1.joint_index("waist_yaw")]
    rows = ALL[name].rows[:, : len(still)]
    np.testing.assert_array_equal(rows, np.broadcast_to(still, rows.shape))


def test_no_part_is_inside_another():
    clearance = Clearance(Jacobians().carried, margin=0.0, floor=-1.0)
    for name, one in ALL.items():
        gaps = clearance.measure(BODY(torch.from_numpy(one.rows[::3])))
        assert not len(gaps.gap) or float(gaps.gap.min()) > -0.01, name


def test_left_and_right_mirror_each_other():
    pairs = [(n, n.replace("_right", "_left")) for n in ALL if n.endswith("_right")]
    assert len(pairs) >= 10
    first = g1.joint_index("waist_yaw")
    for name, other in pairs:
        mirror = ALL[name].rows[:, 7:][:, g1.MIRROR_JOINTS] * g1.MIRROR_SIGNS
        own = ALL[other].rows[:, 7:]
        np.testing.assert_allclose(own[:, first:], mirror[:, first:], atol=1e-6)
        # What stands on its right leg lifts the left one.
        own, others = ALL[name].sentences, ALL[other].sentences
        swapped = {re.sub("left|right", lambda m: OTHER[m[0]], s) for s in own}
        assert set(others) <= swapped


def test_no_sentence_asks_for_two_gestures():
    said = [sentence for one in ALL.values() for sentence in one.sentences]
    assert len(set(said)) == len(said) and not any("{" in one for one in said)
    assert all(len(one.sentences) >= 3 for one in ALL.values())


def test_clapping_hands_meet_and_part():
    apart = np.linalg.norm(np.diff(wrists("clap"), axis=1)[:, 0], axis=1)
    near = apart < 0.25
    assert np.count_nonzero(np.diff(near.astype(int)) == 1) >= 4
    assert apart[near].min() + 0.1 < apart[50:].max()


def test_hands_are_at_the_head():
    head = np.array([0.05, 0.0, 0.42])
    for name in ("salute_right", "phone_right", "scratch_head_right"):
        at = places(name, g1.WRISTS[1])
        assert np.linalg.norm(at[-1] - head) < 0.3, name
        assert np.linalg.norm(at[0] - head) > 0.4
    ends = wrists("cover_face")[-1]
    assert (np.linalg.norm(ends - head, axis=1) < 0.3).all() and ends[:, 0].min() > 0.1


def test_arms_are_stretched_where_they_should_be():
    shoulder = places("arms_ahead", "left_shoulder_roll_link")[-1]
    ahead, aside = wrists("arms_ahead")[-1], wrists("arms_aside")[-1]
    assert (ahead[:, 0] > 0.3).all() and (np.abs(ahead - shoulder)[:, 2] < 0.2).all()
    assert aside[0, 1] > 0.4 and aside[1, 1] < -0.4
    assert (np.abs(aside - shoulder)[:, 2] < 0.2).all()
    assert places("point_up_left", g1.WRISTS[0])[-1, 2] > shoulder[2] + 0.3


def test_hips_and_circles():
    hips = wrists("hands_on_hips")[-1]
    assert (np.abs(hips[:, 2]) < 0.15).all() and (np.abs(hips[:, 1]) < 0.3).all()
    circling = wrists("arm_circles")[FPS * 2 :, 0]
    assert np.ptp(circling[:, 0]) > 0.15 and np.ptp(circling[:, 2]) > 0.15


def ankles(name: str) -> np.ndarray:
    """(T, 2, 3) the left and the right one."""
    found = BODY(torch.from_numpy(ALL[name].rows)).position.numpy()
    return found[:, [g1.LINKS.index(foot) for foot in g1.FEET]]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("name", "raised_m"), [("one_leg", 0.1), ("knee_up", 0.18), ("front_kick", 0.18)]
)
def test_the_named_leg_is_lifted_and_the_other_stands(name, side, raised_m):
    own = ["left", "right"].index(side)
    heights = ankles(f"{name}_{side}")[..., 2]
    lowest = heights.min()
    assert heights[:, own].max() > lowest + raised_m
    assert heights[:, 1 - own].max() < lowest + 0.02
    other = "left" if side == "right" else "right"
    if name == "one_leg":
        assert f"stand on the {other} leg" in ALL[f"{name}_{side}"].sentences


def test_feet_are_apart_and_the_body_is_low_where_they_should_be():
    apart = np.abs(np.diff(ankles("wide_stance")[..., 1], axis=1)).max()
    assert apart > 0.4
    heights = {n: ALL[n].rows[:, 2] for n in ("crouch_low", "sit_in_air")}
    assert heights["crouch_low"].min() < 0.45 and heights["sit_in_air"].min() < 0.55
    assert all(abs(h[-1] - h[0]) < 0.02 for h in heights.values())
    assert wrists("touch_toes")[100:180, :, 0].min() > 0.2


def test_a_name_in_two_tables_is_refused():
    """A pose of one would silently change the gestures of the other."""
    with pytest.raises(ValueError, match="'rest' is in several of them"):
        joined([{"rest": [0.0]}, {"up": [1.0]}, {"rest": [0.2]}])

"""Everyday requests, and what must be seen for them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.config import read_table
from spectral_skills.control.bundle import Bundle
from spectral_skills.experiments import everyday
from spectral_skills.experiments.everyday import LISTS, REQUESTS, judge, measure
from spectral_skills.planner import motions
from spectral_skills.robot import g1

SECONDS = 6


def standing() -> np.ndarray:
    return np.tile(np.asarray(g1.DEFAULT_QPOS, np.float64), (SECONDS * 50, 1))


def request(text: str) -> everyday.EverydayRequest:
    return next(one for own in LISTS.values() for one in own if one.text == text)


def missed(text: str, rows: np.ndarray) -> set[str]:
    return set(everyday.misses(request(text), rows))


def with_joint(rows: np.ndarray, name: str, angles: np.ndarray | float) -> np.ndarray:
    rows = rows.copy()
    rows[:, 7 + g1.joint_index(name)] = angles
    return rows


def walking(metres: float) -> np.ndarray:
    rows = standing()
    rows[:, 0] = np.linspace(0.0, metres, len(rows))
    return rows


def turning(degrees: float) -> np.ndarray:
    rows = standing()
    yaw = torch.linspace(0.0, float(np.radians(degrees)), len(rows))
    rows[:, 3:7] = rotation.from_yaw(yaw).numpy()
    return rows


@pytest.mark.parametrize("requests", LISTS.values(), ids=LISTS)
def test_there_are_sixty_and_all_measures_exist(requests):
    known = measure(standing())
    assert len({one.text for one in requests}) == 60
    assert sum(not one.must for one in requests) == 12
    for one in requests:
        assert set(one.must) <= set(known), one.text
        assert all(least < most for least, most in one.must.values()), one.text


def test_standing_does_nothing_but_what_asks_for_it():
    possible = [one.text for own in LISTS.values() for one in own if one.must]
    done = [text for text in possible if not missed(text, standing())]
    asked = (
        "stand still",
        "freeze and don't move a muscle",
        "freeze, do not move a muscle",
        "freeze! don't move a muscle",
        # As its author wrote it, who did not know how high hands hang.
        "put your hands on your hips and look cross",
        "No motion. Quiet standing for a force plate baseline.",
    )
    assert done == list(asked)


def test_walks_are_told_apart_by_their_way_and_speed():
    assert not missed("walk forward", walking(3.0))
    assert missed("walk forward", walking(-3.0)) == {"forward_m"}
    assert not missed("go back a few steps", walking(-1.0))
    assert not missed("walk forward slowly", walking(2.0))
    assert missed("walk forward slowly", walking(9.0)) >= {"speed_mps"}
    assert missed("run", walking(3.0)) == {"speed_mps"}


def test_turns_have_a_side():
    assert not missed("turn left", turning(90.0))
    assert missed("turn left", turning(-90.0)) == {"turn_deg"}
    assert not missed("turn around", turning(-170.0))


def test_a_raised_hand_waves_only_if_it_moves():
    up = with_joint(standing(), "left_shoulder_pitch", -2.6)
    assert missed("wave with your left hand", up) == {"left_swings"}
    time = np.arange(len(up)) / 50
    waving = with_joint(up, "left_shoulder_roll", 0.3 + 0.4 * np.sin(6 * time))
    assert not missed("wave with your left hand", waving)
    assert "hand_m" not in missed("wave hello to everybody", waving)
    assert missed("raise your right hand", waving) == {"right_hand_m", "left_hand_m"}


def test_hops_leave_the_floor_and_squats_do_not():
    low = standing()
    low[:, 2] += 0.1 * np.sin(np.linspace(0, 20, len(low))).clip(0)
    assert not missed("jump", low)
    assert missed("stand on one leg", low) >= {"air_m"}


def spoken(rows: np.ndarray, understood: bool = True, fell: bool = False) -> Any:
    step = SimpleNamespace(understood=understood, nearest="walk forward")
    record = SimpleNamespace(robot=rows[:, None])
    return SimpleNamespace(
        steps=[step], fell_at_s=1.0 if fell else None, rollout=record
    )


@pytest.mark.parametrize(
    ("text", "run", "answer", "right"),
    [
        ("walk forward", spoken(walking(3.0)), "done", True),
        ("walk forward", spoken(walking(3.0), fell=True), "not done", False),
        ("walk forward", spoken(standing()), "not done", False),
        ("walk forward", spoken(standing(), understood=False), "refused", False),
        ("fly to the moon", spoken(walking(3.0)), "not done", False),
        ("fly to the moon", spoken(standing(), understood=False), "refused", True),
    ],
)
def test_what_cannot_be_done_must_be_refused(text, run, answer, right):
    verdict = judge(request(text), run)
    assert (verdict.answer, verdict.right) == (answer, right)


def test_counts_of_turns_and_dips():
    wave = np.sin(np.linspace(0, 6 * np.pi, 300))
    assert everyday._turns(wave, 0.5) == 6
    assert everyday._turns(wave, 3.0) == 0
    assert everyday._dips(wave, 0.0, 0.5) == 3
    assert everyday._longest(np.array([1, 1, 0, 1, 1, 1], bool)) == 3


def test_the_table_counts_what_was_done_and_refused(monkeypatch):
    """Of three requests one is done, one is not, and one is refused as it should."""
    runs = [
        ("walk forward", spoken(walking(3.0))),
        ("run", spoken(walking(3.0))),
        ("fly to the moon", spoken(standing(), understood=False)),
    ]
    judged = [judge(request(text), run) for text, run in runs]
    asked = []
    monkeypatch.setattr(everyday, "ask", lambda *a: asked.append(a) or judged)
    about = SimpleNamespace(corpus="c0ffee")
    planner = SimpleNamespace(config=SimpleNamespace(about=about))
    models: Any = SimpleNamespace(skill_planner=planner, hashes={"planner": "abc"})
    bundle = Bundle(Path(), *[None] * 4, {"bow": None})  # type: ignore[arg-type]
    found = everyday.everyday(models, bundle).results
    values = {(one.row, one.metric): one.value for one in found}
    assert values["can be done", "done"] == values["can be done", "not done"] == 1
    assert values["cannot be done", "refused"] == 1
    assert values["all requests", "right"] == pytest.approx(200 / 3)
    assert values["run", "speed_mps"] == pytest.approx(0.5, abs=0.05)
    assert values["second list: all requests", "right"] == pytest.approx(200 / 3)
    assert [one[2] for one in asked] == list(LISTS.values())
    assert asked[0][0].motions
    found = everyday.everyday(models, bundle, planned=True).results
    assert {one.table for one in found} == {"Planning: everyday, planned"}
    assert not asked[-1][0].motions


def test_requests_are_not_what_recorded_motions_are_called():
    """Planners learn other words, but for four that have no other name."""
    learned = {
        way.format(side=side)
        for source in read_table(motions.__file__).values()
        for one in source
        for way in one["say"]
        for side in ("left", "right")
    }
    assert learned & {one.text for one in REQUESTS} == {
        *("run", "jump", "jump forward", "dance")
    }

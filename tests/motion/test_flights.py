"""A robot whose legs are shorter falls as things fall, not as slowly as it is small."""

import numpy as np
import pytest

from spectral_skills.motion.human.feet import find_contacts
from spectral_skills.motion.human.fit import resampled
from spectral_skills.motion.human.flights import find_flights, shown_at
from spectral_skills.motion.human.recording import POINTS, Recording

FPS = 50.0
GRAVITY = 9.81
SCALE = 0.75


def standing_person(height_m: np.ndarray) -> Recording:
    """Somebody who stands, with all points `height_m` (T,) above where they were."""
    points = np.zeros((len(height_m), len(POINTS), 3))
    ups = {"pelvis": 0.95, "chest": 1.3, "neck": 1.5, "head": 1.6}
    for side, left in (("left", 0.09), ("right", -0.09)):
        legs = {"hip": 0.9, "knee": 0.48, "ankle": 0.08, "toe": 0.02}
        arms = {"shoulder": 1.4, "elbow": 1.1, "wrist": 0.9, "hand": 0.8}
        for name, up in (legs | arms).items():
            ups[f"{side}_{name}"] = up
            points[:, POINTS.index(f"{side}_{name}"), 1] = left
        points[:, POINTS.index(f"{side}_toe"), 0] = 0.13
    for name, up in ups.items():
        points[:, POINTS.index(name), 2] = up
    points[..., 2] += height_m[:, None]
    return Recording("somebody", FPS, points)


def jumped(seconds: float, gravity: float = GRAVITY) -> np.ndarray:
    """Heights of somebody who is in the air for so long, in the middle of 4 s."""
    time = np.arange(round(4 * FPS)) / FPS - 2.0
    height = 0.5 * gravity * ((seconds / 2) ** 2 - time**2)
    return np.maximum(height, 0.0)


def flights_of(person: Recording) -> list[tuple[int, int]]:
    return find_flights(person, find_contacts(person).standing)


def test_a_robot_falls_as_fast_as_things_fall():
    person = standing_person(jumped(0.5))
    (flight,) = flights_of(person)
    assert flight[1] - flight[0] == pytest.approx(0.5 * FPS, abs=4)
    shown = resampled(person, shown_at(person, [flight], SCALE))
    height = SCALE * shown.at("pelvis")[:, 2]
    top = int(height.argmax())
    inside = slice(top - 6, top + 7)
    falls = -2 * np.polyfit(np.arange(13) / FPS, height[inside], 2)[0]
    assert falls == pytest.approx(GRAVITY, rel=0.03)
    # As recorded, so small a robot would fall with three quarters of gravity.
    slow = SCALE * person.at("pelvis")[:, 2]
    at = int(slow.argmax())
    falls = -2 * np.polyfit(np.arange(13) / FPS, slow[at - 6 : at + 7], 2)[0]
    assert falls == pytest.approx(SCALE * GRAVITY, rel=0.03)


def test_far_from_a_flight_the_clock_runs_as_it_did():
    person = standing_person(jumped(0.5))
    shown = shown_at(person, flights_of(person), SCALE)
    steps = np.diff(shown) * FPS
    assert steps[:60] == pytest.approx(1.0) and steps[-60:] == pytest.approx(1.0)
    assert steps.max() == pytest.approx(SCALE**-0.5, rel=1e-3)
    assert (steps >= 1.0 - 1e-9).all()
    assert shown[-1] <= (person.frames - 1) / FPS


@pytest.mark.parametrize(
    "height",
    [
        pytest.param(jumped(0.16), id="a runner's flight"),
        pytest.param(jumped(1.0, 0.3 * GRAVITY), id="somebody on a rope"),
        pytest.param(np.full(200, 0.5), id="somebody who hangs"),
        pytest.param(np.maximum(jumped(2.5) - 5, 0.0)[:110], id="no landing"),
    ],
)
def test_what_is_no_flight_is_left_as_it_was(height):
    assert flights_of(standing_person(height)) == []

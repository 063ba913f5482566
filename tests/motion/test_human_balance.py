"""Weight over the feet."""

import numpy as np
import persons
import pytest

from spectral_skills.motion.checks import distance_outside, separation
from spectral_skills.motion.human import sources
from spectral_skills.motion.human.conditions import HumanOptions
from spectral_skills.motion.human.fit import fit
from spectral_skills.motion.human.quality import measure
from spectral_skills.motion.human.recording import Recording

SQUARE = np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (9.0, 9.0)])


@pytest.mark.parametrize(
    ("place", "distance", "direction"),
    [
        ((1.3, 0.5), 0.3, (1, 0)),
        ((0.5, -2.0), 2.0, (0, -1)),
        ((0.5, 0.9), -0.1, (0, 1)),
        ((1.3, 1.4), 0.5, (0.6, 0.8)),
    ],
)
def test_how_far_and_where_a_point_is_off_a_hull(place, distance, direction):
    """Points that are not valid are no part of it."""
    valid = np.array([[True] * 4 + [False]])
    found = separation(np.array([place]), SQUARE[None], valid)
    assert found[0][0] == pytest.approx(distance, rel=0.002)
    assert found[1][0] == pytest.approx(direction, abs=0.05)
    outside = distance_outside(np.array([place]), SQUARE[None], valid)
    assert outside[0] == max(found[0][0], 0.0)


def test_who_leans_puts_the_hips_back(tmp_path):
    """A trunk ahead of the toes is balanced by hips behind the heels."""
    np.save(tmp_path / "lean.npy", persons.squats(3.0, lean=1.2))
    (person,) = sources.read(tmp_path / "lean.npy", HumanOptions())
    assert isinstance(person, Recording)
    plain, balanced = fit(person), fit(person, balance=True)
    assert measure(plain).balanced_share < 0.5
    assert measure(balanced).balanced_share > 0.9
    assert (balanced.qpos[20:-20, 0] < plain.qpos[20:-20, 0] - 0.02).all()
    assert measure(balanced).planted_fast_share < 0.02

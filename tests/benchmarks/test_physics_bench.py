"""The benchmark measures what it says."""

from physics import compare, measure

from spectral_skills.physics.base import simulate
from spectral_skills.physics.settings import PhysicsConfig

EXACT = PhysicsConfig(iterations=100, line_search=50)


def test_a_setting_equals_itself():
    """But for the solver's first guess, of which a converged solver keeps little."""
    joints, root = compare(simulate("cpu", 2, EXACT), simulate("cpu", 2, EXACT))
    assert joints < 1e-4 and root < 1e-4


def test_too_few_iterations_show():
    few = PhysicsConfig(iterations=3, line_search=6)
    joints, root = compare(simulate("cpu", 2, EXACT), simulate("cpu", 2, few))
    assert joints > 1e-3 and root > 1e-3


def test_speed_of_robots_that_stand():
    speed = measure(simulate("cpu", 2))
    assert 0 < speed.seconds < 10
    assert speed.counters == {"broken": 0, "contacts": 0, "constraints": 0}

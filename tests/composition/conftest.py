"""The released models, read once, and robots that they drive."""

import pytest
from released import released

from spectral_skills.control.batch import Runner


@pytest.fixture(scope="session")
def models() -> tuple:
    """Controller, encoder and directions."""
    return released()


@pytest.fixture
def lab(models) -> Runner:
    """A runner that keeps no records."""
    return Runner(*models)

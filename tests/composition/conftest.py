"""The released models, read once, and robots that they drive."""

import pytest
from released import released

from spectral_skills.experiments.composition.lab import Lab


@pytest.fixture(scope="session")
def models() -> tuple:
    """Controller, encoder and directions."""
    return released()


@pytest.fixture
def lab(models) -> Lab:
    """A lab that keeps no records."""
    return Lab(*models)

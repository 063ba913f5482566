"""The bundle of the released models."""

import pytest

from spectral_skills.control.bundle import Bundle
from spectral_skills.runtime.released import base_bundle


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    return Bundle.open(base_bundle())

"""Small models to export."""

import pytest

from spectral_skills.models import Models


@pytest.fixture(scope="session")
def clips(make_clip, make_corpus, tmp_path_factory):
    """A small corpus."""
    made = [make_clip(f"walk{i}", 80 + 10 * i, seed=i) for i in range(3)]
    return make_corpus(tmp_path_factory.mktemp("deploy") / "walks", made)


@pytest.fixture(scope="session")
def small_models(encoder, make_controller) -> Models:
    """A controller that holds commands for two steps, and an encoder; untrained."""
    return Models(
        make_controller(hold=2), encoder, hashes={"controller": "the controller"}
    )

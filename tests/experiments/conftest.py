"""A stage of two motions."""

import pytest
from obliging import Letters

from spectral_skills.experiments.stage import Stage
from spectral_skills.motion.synthetic.generate import clip
from spectral_skills.planner.motions import described

STAND, WALK = 383, 472
"""Numbers of clips of the embedded corpus."""


@pytest.fixture(scope="session")
def two_motions(make_corpus, tmp_path_factory):
    """A corpus of a robot that stands and of one that walks."""
    clips = [clip(number) for number in (STAND, WALK)]
    return make_corpus(tmp_path_factory.mktemp("stage") / "corpus", clips)


@pytest.fixture(scope="session")
def stage(two_motions) -> Stage:
    """Two robots for each motion, 60 steps."""
    return Stage(described(two_motions), "a corpus", Letters(), episodes=2, steps=60)

"""Golden numbers of twenty smoke updates: they change only if the method does.

If they change on purpose, run this file, look at what it found, and write the new
numbers here together with the reason in the change that made them so.
"""

from dataclasses import replace

import pytest

from spectral_skills import recipes
from spectral_skills.runs import read_log
from spectral_skills.skill.pretrain import pretrain

GOLDEN = {
    "prediction": 0.93589,
    "sigreg_batch": 0.11505,
    "penalty": 27.944,
    "held_out": 0.85095,
    "shuffled": 0.98007,
    "skill_std": 0.80548,
}


def test_twenty_smoke_updates(corpus, tmp_path):
    """The whole way from windows to evaluation, in float32 on a CPU."""
    config = replace(recipes.pretrain("smoke"), updates=20)
    pretrain(config, [corpus], tmp_path / "run", "cpu")
    row = read_log(tmp_path / "run")[-1]
    found = {name: row[name] for name in GOLDEN}
    assert found == pytest.approx(GOLDEN, rel=2e-3), found

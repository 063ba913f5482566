"""Lines of a training run's log, as they are printed."""

import pytest

from spectral_skills.tracking.train import line

ROW = {"frames": 131_072.0, "frames_per_s": 428_000.0, "reward": 3.25, "std": 0.15}


def test_figures_that_a_learner_lacks_are_omitted():
    ppo = line(ROW | {"kl": 0.02, "critic_lr": 1e-3})
    assert "KL 0.020" in ppo and "value" not in ppo and "temperature" not in ppo
    sac = line(ROW | {"value": 2.5, "temperature": 1e-3})
    assert "value 2.50" in sac and "temperature 1e-03" in sac and "KL" not in sac
    assert "std 0.15" in sac and sac.endswith("428 k/s")


@pytest.mark.parametrize(("share", "reported"), [(0.009, False), (0.03, True)])
def test_values_that_are_cut_off_are_reported(share, reported):
    """From one in a hundred on."""
    found = line(ROW | {"value": 2.5, "end_atoms": share})
    assert ("values beyond the atoms 3 %" in found) == reported

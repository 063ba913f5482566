"""The mean of two controllers."""

from dataclasses import replace

import pytest
import torch

from spectral_skills.artifact import Provenance
from spectral_skills.tracking.adapt import average
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.references import CommandConfig

SMALL = ControllerConfig(hidden=(16,), command=CommandConfig(adapter=(8,)))


def _controller(seed: int, config: ControllerConfig = SMALL) -> Controller:
    torch.manual_seed(seed)
    controller = Controller(config)
    controller.proprio.update(torch.randn(50, 93) + seed)
    return controller.eval()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_every_weight_and_statistic_is_between(share: float):
    first, second = _controller(1), _controller(2)
    mean, ends = average(first, second, share), (first, second)
    a, b = (one.state_dict() for one in ends)
    for name, value in mean.state_dict().items():
        torch.testing.assert_close(value, (1 - share) * a[name] + share * b[name])
    assert not torch.equal(a["network.project.weight"], b["network.project.weight"])


def test_a_released_one_makes_a_released_mean(tmp_path):
    first, second = _controller(1), _controller(2)
    second.release(tmp_path / "small", Provenance("controller"))
    mean = average(first, Controller.load(tmp_path / "small"), 0.5)
    assert mean.config.released


def test_controllers_of_two_kinds_have_no_mean():
    other = replace(SMALL, command=CommandConfig(adapter=(8,), encoder="abc"))
    with pytest.raises(ValueError, match=r"the first controller's command\.encoder"):
        average(_controller(1), _controller(1, other), 0.5)
    with pytest.raises(ValueError, match=r"a share of 1\.5"):
        average(_controller(1), _controller(2), 1.5)

"""Controllers: what they see, what they give, and how they are kept."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from spectral_skills.artifact import PRETRAINED, Provenance
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.model import SkillModel
from spectral_skills.tracking.critics import Critic, critic_weights
from spectral_skills.tracking.policy import (
    Controller,
    ControllerConfig,
    Network,
    Normalizer,
)
from spectral_skills.tracking.references import CommandConfig

KINDS = ("skill", "pose", "joint")


def _config(kind: Any = "skill", **changes) -> ControllerConfig:
    bottleneck = BottleneckConfig(kind="vq", codes=16)
    command = CommandConfig(kind=kind, hidden=(24, 20), bottleneck=bottleneck)
    return ControllerConfig(
        hidden=(32, 24), critic_hidden=(24,), command=command, **changes
    )


def _observed(config: ControllerConfig, count: int = 5):
    torch.manual_seed(1)
    width = config.command.source_width
    return torch.randn(count, 10, 93), torch.randn(count, width), torch.rand(count, 2)


def _controller(kind="skill", **changes) -> Controller:
    """One whose statistics are not those it began with."""
    torch.manual_seed(0)
    controller = Controller(_config(kind, **changes))
    history, source, _ = _observed(controller.config, 40)
    controller.proprio.update(0.5 + 2 * history[:, -1])
    if controller.source is not None:
        controller.source.update(3 * source - 1)
    return controller


def test_normalizer_is_the_mean_and_deviation_of_all_it_saw():
    """Whatever the order and size of batches; far from zero too."""
    random = np.random.default_rng(0)
    values = random.normal([1000.0, -3.0, 0.0], [0.5, 4.0, 1.0], (500, 3))
    normalizer = Normalizer(3)
    for part in np.split(values, [7, 120, 121, 400]):
        normalizer.update(torch.tensor(part, dtype=torch.float32))
    np.testing.assert_allclose(normalizer.mean, values.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(normalizer.variance, values.var(0), rtol=1e-4)
    assert float(normalizer.count) == 500
    row = torch.tensor([[1000.5, 1.0, 100.0]])
    wanted = (row[0, 1] - values.mean(0)[1]) / values.std(0)[1]
    assert float(normalizer(row)[0, 1]) == pytest.approx(float(wanted), rel=1e-5)
    assert float(normalizer(row)[0, 2]) == 10.0, "held within ten deviations"


def test_normalizer_does_not_blow_up_what_hardly_varies():
    """A constant input stays small when it moves a little."""
    normalizer = Normalizer(1)
    normalizer.update(torch.full((50, 1), 2.0))
    assert float(normalizer(torch.tensor([[2.005]]))) == pytest.approx(0.5, rel=1e-3)


def test_skill_and_phase_reach_the_network_untouched():
    """Only proprioception is normalised; newest frame last, before the skill."""
    controller = _controller()
    history, skill, phase = _observed(controller.config)
    inputs = controller.inputs(history, 100 * skill, phase)
    assert inputs.shape == (5, 996)
    assert torch.equal(inputs[:, 930:994], 100 * skill)
    assert torch.equal(inputs[:, 994:], phase)
    newest = controller.proprio(history[:, -1])
    assert torch.equal(inputs[:, 837:930], newest)
    assert not torch.allclose(newest, history[:, -1])


@pytest.mark.parametrize(("kind", "width"), [("pose", 970), ("joint", 1312)])
def test_poses_are_normalised(kind, width):
    """They have units; a skill has not."""
    controller = _controller(kind)
    history, source, phase = _observed(controller.config)
    inputs = controller.inputs(history, source, phase)
    assert inputs.shape == (5, width)
    assert controller.source is not None
    assert torch.equal(inputs[:, 930:-2], controller.source(source))
    assert not torch.allclose(inputs[:, 930:-2], source)


@pytest.mark.parametrize(("kind", "width"), [("skill", 64), ("pose", 38)])
def test_an_adapter_gives_the_network_a_skill(kind, width):
    """Of a normalised pose or of a skill; without it the network takes them itself."""
    plain = _controller(kind)
    assert plain.network.first.in_features == 930 + width + 2
    assert not any("adapter" in name for name in plain.state_dict())
    command = replace(plain.config.command, adapter=(12,))
    controller = Controller(replace(plain.config, command=command))
    assert controller.network.first.in_features == 930 + 64 + 2
    assert controller.adapter is not None
    inputs = controller.inputs(*_observed(controller.config))
    skill = controller.adapter(inputs[:, 930:-2])
    seen = torch.cat((inputs[:, :930], skill, inputs[:, -2:]), dim=1)
    assert torch.equal(controller(inputs), controller.network(seen))


def test_a_short_history_is_its_newest_frames():
    """The paper's ablations see one frame: 159 inputs."""
    controller = _controller(history=1)
    history, skill, phase = _observed(controller.config)
    inputs = controller.inputs(history, skill, phase)
    assert inputs.shape == (5, 159)
    assert torch.equal(inputs[:, :93], controller.proprio(history[:, -1]))


def test_smoothing_keeps_a_share_of_the_last_action(tmp_path):
    """Of the newest frame; the network, and so training, is as it was."""
    plain = _controller()
    plain.save(tmp_path, Provenance("controller"), {})
    smooth = Controller.load(tmp_path, smoothing=0.4)
    history, skill, phase = _observed(plain.config)
    inputs = smooth.inputs(history, skill, phase)
    torch.testing.assert_close(smooth(inputs), plain(inputs))
    wanted = 0.6 * plain.act(history, skill, phase) + 0.4 * history[:, -1, 64:]
    torch.testing.assert_close(smooth.act(history, skill, phase), wanted)


def test_columns_of_zeros_change_nothing():
    """Neither outputs nor gradients: memory is aligned, that is all."""
    torch.manual_seed(0)
    network = Network(10, (8, 6), 3, 1.0)
    rows = torch.randn(4, 10)
    network(rows).square().sum().backward()
    wanted = [p.grad for p in network.parameters()]
    network.zero_grad()
    wide = torch.nn.functional.pad(rows, (0, 6))
    network(wide).square().sum().backward()
    assert torch.allclose(network(wide), network(rows))
    for parameter, gradient in zip(network.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_first_actions_are_small_and_as_uncertain_as_told():
    """The default pose, whatever is observed."""
    torch.manual_seed(0)
    config = _config()
    controller = Controller(config)
    action = controller.act(*_observed(config))
    assert action.shape == (5, 29) and not action.requires_grad
    assert 0 < float(action.abs().max()) < 0.1
    torch.testing.assert_close(controller.std, torch.full((29,), config.init_std))


def test_deviations_keep_their_limits_and_can_come_back():
    """Beyond a limit the gradient would be zero for ever."""
    controller = Controller(_config(min_std=0.1, max_std=1.0))
    controller.log_std.data[:2] = torch.tensor([-9.0, 9.0])
    assert controller.std[:2].tolist() == pytest.approx([0.1, 1.0])
    controller.limit_std()
    controller.std.sum().backward()
    assert controller.log_std.grad is not None
    assert bool((controller.log_std.grad > 0).all())
    assert float(controller.log_std[0].detach()) == pytest.approx(math.log(0.1))


def test_deviations_may_be_free():
    """Whatever they come to, they learn on."""
    controller = Controller(_config(init_std=1.0, min_std=None, max_std=None))
    controller.log_std.data[:2] = torch.tensor([-9.0, 9.0])
    controller.limit_std()
    expected = [math.exp(-9), math.exp(9)]
    assert controller.std[:2].tolist() == pytest.approx(expected, rel=1e-5)
    controller.std.log().sum().backward()
    torch.testing.assert_close(controller.log_std.grad, torch.ones(29))
    free = _config(init_std=3.0, max_std=None)
    assert free.std_limits == (0.02, math.inf)


@pytest.mark.parametrize(("kind", "width"), [("skill", 352), ("pose", 326)])
def test_a_critic_may_see_the_command_as_the_controller_does(kind, width):
    """286 numbers, the command and its phase; 352 of the paper's skills."""
    config = replace(_config(kind), critic_command=True)
    controller, critic = Controller(config), Critic(config)
    inputs = controller.inputs(*_observed(config))
    seen = critic.inputs(torch.randn(5, 286), controller.command_of(inputs))
    assert seen.shape == (5, width)
    assert torch.equal(seen[:, 286:], inputs[:, 930:])
    assert critic(seen).shape == (5,)
    with pytest.raises(ValueError, match="the controller.s command"):
        critic.inputs(torch.randn(5, 286))


def test_senseless_settings_are_refused():
    """By their names."""
    with pytest.raises(ValueError, match="init_std 2.0 is not between min_std"):
        _config(init_std=2.0)
    with pytest.raises(ValueError, match="min_std 0.0"):
        _config(min_std=0.0)
    with pytest.raises(ValueError, match="init_std 0.0 is not"):
        _config(init_std=0.0, min_std=None)
    with pytest.raises(ValueError, match="history is 11"):
        _config(history=11)
    with pytest.raises(ValueError, match="smoothing is 1.0, must be at least 0"):
        _config(smoothing=1.0)
    for wrong in (4.5, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"reach is {wrong}, must be 0 to 4"):
            _config(reach=wrong)
    with pytest.raises(ValueError, match="hold is 0"):
        CommandConfig(hold=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_controller_acts_the_same(kind, tmp_path):
    """And its critic judges the same."""
    controller, critic = _controller(kind), Critic(_config(kind))
    critic.normalizer.update(torch.randn(30, 286) + 1)
    folders = (tmp_path / "run", tmp_path / "run" / "model")
    controller.save(folders[1], Provenance("controller"), critic.state_dict())
    for folder in folders:
        stored, judge = Controller.load(folder), Critic(_config(kind))
        judge.load_state_dict(critic_weights(folder))
        assert stored.config == controller.config and not stored.training
        observed, seen = _observed(controller.config), torch.randn(3, 286)
        assert torch.equal(stored.act(*observed), controller.act(*observed))
        assert torch.equal(judge(judge.inputs(seen)), critic(critic.inputs(seen)))
        assert float(stored.proprio.count) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_released_controller_acts_nearly_the_same(kind, tmp_path):
    """Weights in bf16, statistics exact, nothing that only training needs."""
    controller = _controller(kind)
    controller.release(tmp_path / "small", Provenance("controller"))
    stored = Controller.load(tmp_path / "small")
    assert stored.config == replace(controller.config, released=True)
    state = controller.state_dict()
    for name, value in stored.state_dict().items():
        assert value.dtype == state[name].dtype, name
        torch.testing.assert_close(value, state[name], rtol=1e-2, atol=0.0)
    assert torch.equal(stored.proprio.mean, controller.proprio.mean)
    assert torch.equal(stored.std, controller.std)
    dropped = state.keys() - stored.state_dict().keys()
    assert all(name.startswith("joint.decoder.") for name in dropped)
    assert bool(dropped) == (kind == "joint")
    observed = _observed(controller.config)
    if kind != "joint":  # there a code may be another one
        torch.testing.assert_close(
            stored.act(*observed), controller.act(*observed), rtol=0.1, atol=1e-3
        )
    assert not critic_weights(tmp_path / "small")


def test_the_released_controller_has_a_name():
    """`Controller.load("base")`, wherever the package lies; so are its skills."""
    controller, skill = Controller.load("base"), SkillModel.load("base")
    assert controller.config.released
    assert controller.config.command.encoder == skill.encoder.fingerprint()
    files = (PRETRAINED / "controller").iterdir()
    assert sum(path.stat().st_size for path in files) < 25e6


@pytest.fixture
def folder(tmp_path):
    """A saved controller."""
    critic = Critic(_config()).state_dict()
    _controller().save(tmp_path / "c", Provenance("controller"), critic)
    return tmp_path / "c"


def _change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("provenance.json", {"kind": "skill"}, "c: a skill model, not a controller"),
        ("provenance.json", {"weights_hash": "0"}, "c: the weights are not those"),
        ("config.json", {"proprio": 96}, "c: a controller with proprio of 96"),
        ("config.json", {"actions": 23}, "c: a controller with actions of 23"),
        ("config.json", {"hidden": [32, 25]}, "c: weights do not fit"),
        ("config.json", {"layers": 3}, "c/config.json: unknown key 'layers'"),
    ],
)
def test_a_folder_that_does_not_fit_says_why(folder, file, values, message):
    """And which folder it is."""
    _change(folder / file, **values)
    with pytest.raises(ValueError, match=message):
        Controller.load(folder)

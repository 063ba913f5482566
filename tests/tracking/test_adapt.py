"""A controller in another skill space: it does what it did."""

from dataclasses import replace

import pytest
import torch

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.adapt import AdaptConfig, adapt
from spectral_skills.tracking.joint import CommandConfig
from spectral_skills.tracking.policy import Controller, ControllerConfig, Critic
from spectral_skills.tracking.ppo import Learner, PPOConfig

QUICK = AdaptConfig(hidden=(64,), updates=300, batch=128, every=1, held_out=0.3)


def _encoder(seed: int, width: int = 8) -> SkillEncoder:
    torch.manual_seed(seed)
    return SkillEncoder(EncoderConfig(width=width, hidden=(32,)), WindowConfig()).eval()


def _controller(encoder: SkillEncoder) -> Controller:
    torch.manual_seed(0)
    command = CommandConfig(width=encoder.width, encoder=encoder.fingerprint())
    controller = Controller(ControllerConfig(hidden=(32,), command=command))
    with torch.no_grad():
        controller.network.project.weight.mul_(100.0)
    return controller.eval()


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory) -> Corpus:
    folder = tmp_path_factory.mktemp("adapt") / "corpus"
    make_corpus(folder, [make_clip(f"walk{i}", 90, seed=i % 2) for i in range(6)])
    return Corpus.open(folder)


@pytest.fixture(scope="module")
def moved(corpus):
    old, new = _encoder(1), _encoder(2)
    controller = _controller(old)
    return controller, old, new, adapt(controller, old, new, corpus, QUICK)


def _skills(encoder: SkillEncoder, corpus: Corpus) -> torch.Tensor:
    times = torch.arange(10, 60)
    with torch.no_grad():
        return encoder.encode_at(corpus.to("cpu"), torch.zeros_like(times), times)


def test_it_acts_on_new_skills_as_on_the_old_ones(corpus, moved):
    controller, old, new, found = moved
    before, after = _skills(old, corpus), _skills(new, corpus)
    torch.manual_seed(3)
    history, phase = torch.randn(50, 10, 93), torch.zeros(50, 2)
    wanted = controller.act(history, before, phase)
    change = (found.controller.act(history, after, phase) - wanted).square().mean()
    without = (controller.act(history, after, phase) - wanted).square().mean()
    assert change < 0.2 * without
    assert 0.2 < found.explained <= 1.0


def test_it_is_of_the_new_encoder(moved):
    _, _, new, found = moved
    assert found.controller.config.command.encoder == new.fingerprint()
    assert found.controller.config.command.adapter == QUICK.hidden


def test_it_can_move_again(corpus, moved):
    """To a third space: the network is replaced, not put before another."""
    controller, old, new, found = moved
    third = _encoder(4)
    again = adapt(found.controller, new, third, corpus, QUICK).controller
    assert again.config.command.encoder == third.fingerprint()
    assert len(again.state_dict()) == len(found.controller.state_dict())
    history, phase = torch.randn(50, 10, 93), torch.zeros(50, 2)
    wanted = controller.act(history, _skills(old, corpus), phase)
    got = again.act(history, _skills(third, corpus), phase)
    assert (got - wanted).square().mean() < wanted.square().mean()


def test_training_goes_on_with_the_adapter(moved):
    """Its weights are among those that the optimizer changes."""
    controller = moved[3].controller
    learner = Learner(PPOConfig(), controller, Critic(controller.config), "cpu")
    learned = {id(p) for g in learner.actor_optimizer.param_groups for p in g["params"]}
    assert {id(p) for p in controller.adapter.parameters()} <= learned
    assert id(controller.log_std) in learned


def test_spaces_of_other_sizes_are_refused(corpus, moved):
    controller, old, _, _ = moved
    with pytest.raises(ValueError, match="new skills have 6 numbers"):
        adapt(controller, old, _encoder(5, width=6), corpus, QUICK)


def test_one_clip_is_not_enough(corpus, moved):
    controller, old, new, _ = moved
    with pytest.raises(ValueError, match="too few clips"):
        adapt(controller, old, new, corpus.select([0]), QUICK)


def test_only_skills_are_adapted():
    with pytest.raises(ValueError, match="these commands are pose"):
        replace(CommandConfig(), kind="pose", adapter=(4,))

"""A controller in another skill space, or of poses: it does what it did."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import WindowConfig, anchor_poses
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.adapt import AdaptConfig, adapt
from spectral_skills.tracking.critics import Critic
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.ppo import PPOConfig, PPOLearner
from spectral_skills.tracking.references import CommandConfig

QUICK = AdaptConfig(
    hidden=(64,), updates=300, batch=128, every=1, held_out=0.3, off=0.0
)


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


@pytest.fixture(scope="module")
def explicit(corpus, moved):
    """The same controller, moved to poses, and the one it was."""
    controller, old, _, _ = moved
    return controller, old, adapt(controller, old, None, corpus, QUICK)


def _poses(corpus: Corpus, clip: int, times: torch.Tensor) -> torch.Tensor:
    """(n, 38) frame t + 1 seen from the heading of t; the last frame stays."""
    motions, clips = corpus.to("cpu"), torch.full_like(times, clip)
    later = (times + 1).clamp_max(int(corpus.lengths[clip]) - 1)
    now, then = (motions.gather(clips, t[:, None]) for t in (times, later))
    return anchor_poses(then, now[:, 0, :3], now[:, 0, 3:7], "heading")[:, 0]


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
    learner = PPOLearner(PPOConfig(), controller, Critic(controller.config), "cpu")
    groups = learner._optimizers["actor"].param_groups
    learned = {id(p) for group in groups for p in group["params"]}
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


def test_clips_that_stand_still_tell_nothing(make_corpus, moved, tmp_path):
    """Their skills differ by rounding alone: no share of that is measured."""
    controller, old, new, _ = moved
    rows = np.tile(g1.DEFAULT_QPOS, (90, 1))
    clips = [Clip.from_qpos(rows, name=f"stand{i}", fps=50.0) for i in range(4)]
    corpus = make_corpus(tmp_path / "still", clips)
    found = adapt(controller, old, new, corpus, replace(QUICK, updates=5))
    assert np.isnan(found.explained)


def test_windows_have_an_encoder_and_no_adapter():
    with pytest.raises(ValueError, match="these commands are joint"):
        replace(CommandConfig(), kind="joint", adapter=(4,))


def test_it_acts_on_poses_as_on_skills(corpus, explicit):
    """Where it stands on its reference; other poses would not do."""
    controller, old, found = explicit
    torch.manual_seed(3)
    history, phase = torch.randn(50, 10, 93), torch.zeros(50, 2)
    wanted = controller.act(history, _skills(old, corpus), phase)
    poses = _poses(corpus, 0, torch.arange(10, 60))
    right, wrong = (
        (found.controller.act(history, source, phase) - wanted).square().mean()
        for source in (poses, poses.flip(0))
    )
    assert right < 0.2 * wrong
    assert 0.2 < found.explained <= 1.0


def test_a_controller_of_poses_names_no_encoder(explicit):
    """Its adapter takes a pose and gives what the network took before."""
    controller, old, found = explicit
    command = found.controller.config.command
    assert (command.kind, command.encoder, command.width) == ("pose", "", old.width)
    assert found.controller.adapter[0].in_features == 38
    assert found.controller.adapter[-1].out_features == old.width
    weight = found.controller.network.first.weight
    assert torch.equal(weight, controller.network.first.weight)


def test_poses_are_normalised_by_those_of_the_corpus(corpus, explicit):
    """Held out or not, to the last frame of each clip, after which it stands still."""
    source = explicit[2].controller.source
    every = [
        _poses(corpus, clip, torch.arange(int(frames)))
        for clip, frames in enumerate(corpus.lengths)
    ]
    every = torch.cat(every).double()
    wanted = every.mean(0).float(), every.var(0, correction=0).float()
    torch.testing.assert_close(source.mean, wanted[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(source.variance, wanted[1], rtol=1e-3, atol=1e-8)
    assert float(source.count) == len(every)


def test_robots_off_their_references_are_among_those_learned_from(corpus, explicit):
    """0.1 m is no longer ten deviations of how far a reference moves in a frame."""
    controller, old, found = explicit
    off = adapt(controller, old, None, corpus, replace(QUICK, off=0.1)).controller
    on, off = (c.source.variance.sqrt() for c in (found.controller, off))
    assert on[30] < 0.02 and 0.08 < off[30] < 0.16
    torch.testing.assert_close(on[:29], off[:29], rtol=1e-3, atol=1e-5)


def test_training_does_not_forget_the_statistics_of_poses(corpus, moved):
    """They weigh as much as those that the controller has of itself."""
    controller, old = _controller(moved[1]), moved[1]
    controller.proprio.count.fill_(1e8)
    source = adapt(controller, old, None, corpus, QUICK).controller.source
    assert source is not None and float(source.count) == 1e8
    before = source.mean.clone()
    source.update(torch.full((100_000, 38), 5.0))
    torch.testing.assert_close(source.mean, before, rtol=0, atol=0.01)

"""What is minimised, by hand: our balance of the three losses and the authors'."""

import math
from dataclasses import replace

import pytest
import torch

from spectral_skills.motion.windows import move_anchor
from spectral_skills.skill.trainer import PretrainConfig, Trainer, draw_slices


@pytest.fixture(scope="module")
def trained(shrink, corpus):
    """Losses of a first batch, and all that they are made of."""

    def trained(recipe: str, **changes):
        config = replace(shrink(recipe), batch=6, **changes)
        trainer = Trainer(config, corpus.to("cpu"))
        losses = trainer.losses(1)
        clips, times = trainer.window_numbers(1)
        level = trainer._integers(8)
        noise = torch.randn((6, 418), generator=trainer.generator)
        slices = draw_slices(6, config.slices, trainer.generator)
        windows = trainer.sampler.at(clips, times)
        skill = trainer.model.encoder(trainer.model.seen(windows)).skill
        return trainer, losses, windows, level, noise, slices, skill

    return trained


def _sigreg(skill, slices, points, scale: float) -> float:
    """The statistic with loops, at points t that each stand for the same step."""
    step, found = float(points[1] - points[0]), 0.0
    for a in slices.T:
        s = skill.detach() @ a
        for i, t in enumerate(points.tolist()):
            real = float((t * s).cos().mean()) - math.exp(-t * t / 2)
            imaginary = float((t * s).sin().mean())
            edge = 0.5 if i in (0, len(points) - 1) else 1.0
            weight = edge * step * scale * math.exp(-t * t / 2)
            found += weight * (real**2 + imaginary**2)
    return found / slices.shape[1]


def test_the_authors_loss_by_hand(trained):
    """Sum over the 418 errors, SIGReg with a normal density on 17 points of [-5, 5]
    and no factor N, a thousandth of the mean of z^2 (of six numbers here, of 64 in the
    recipe); targets scaled by the batch."""
    trainer, losses, windows, level, noise, slices, skill = trained(
        "authors", regularizer=1e-3 / 6
    )
    future = windows.future.flatten(1)
    target = (future - future.mean(0)) / (future.var(0, correction=0) + 1e-6).sqrt()
    schedule = trainer.head.predictor.schedule
    alpha, sigma = schedule.alpha[level, None], schedule.sigma[level, None]
    noisy = alpha * target + sigma * noise
    context = windows.context.flatten(1)
    predicted = trainer.head.predictor(context, skill, noisy, level)
    errors = (predicted - noise).square().sum(1).mean()
    points = torch.linspace(-5, 5, 17)
    uneven = _sigreg(skill, slices, points, 1 / math.sqrt(2 * math.pi))
    penalty = 1e-3 * float(skill.detach().square().mean())
    wanted = float(errors.detach()) + uneven + penalty
    assert float(losses.total.detach()) == pytest.approx(wanted, rel=1e-5)
    for weightless in (wanted - uneven, wanted - 1e3 * penalty):
        assert float(losses.total.detach()) != pytest.approx(weightless, rel=1e-5)


def test_our_loss_by_hand(trained):
    """Mean over the errors, SIGReg as it is, a thousandth of the sum of z^2."""
    _, losses, *_, slices, skill = trained("ablation-ours", regularizer=1e-3)
    uneven = _sigreg(skill, slices, torch.linspace(-3, 3, 33), 1.0)
    assert float(losses.sigreg.detach()) == pytest.approx(uneven, rel=1e-4)
    penalty = 1e-3 * float(skill.detach().square().sum()) / 6
    total = float(losses.prediction.detach()) + uneven + penalty
    assert float(losses.total.detach()) == pytest.approx(total, rel=1e-5)


def test_weights_put_the_factor_n_back(trained):
    """The sum with SIGReg times N is ours times 418, but for the two weights."""
    _, losses, *_ = trained("ablation-sum", sigreg=6.0)
    terms = 418 * losses.prediction + 6 * losses.sigreg + 1e-3 / 64 * losses.penalty
    assert float(losses.total.detach()) == pytest.approx(
        float(terms.detach()), rel=1e-6
    )


def test_raw_inputs_are_raw(trained):
    """Encoder and context see radians and metres; ours see deviations."""
    trainer, _, windows, *_ = trained("authors")
    model = trainer.model
    assert torch.equal(model.encoder.normalize(windows.chunk), windows.chunk.flatten(1))
    context = windows.context.flatten(1)
    assert torch.equal(model.normalize_context(context), context)
    other = trained("ablation-ours")[0].model
    assert not torch.equal(other.normalize_context(context), context)
    assert not torch.equal(other.encoder.normalize(windows.chunk), context)


def test_statistics_of_the_last_batch_stay(trained):
    """They standardise that batch exactly, and are what a saved model has."""
    trainer, _, windows, *_ = trained("authors")
    future = trainer.model.normalize_future(windows.future)
    torch.testing.assert_close(future.mean(0), torch.zeros(418), atol=1e-4, rtol=0)
    variance = windows.future.flatten(1).var(0, correction=0)
    expected = variance / (variance + 1e-6)
    torch.testing.assert_close(
        future.var(0, correction=0), expected, atol=1e-3, rtol=1e-3
    )
    before = trainer.model.future_mean.clone()
    trainer.losses(2)
    assert not torch.equal(trainer.model.future_mean, before)
    fixed = trained("ablation-ours")[0]
    before = fixed.model.future_mean.clone()
    fixed.losses(2)
    assert torch.equal(fixed.model.future_mean, before)


def test_all_three_balances_are_recipes(shrink):
    """As full configurations, with the weights that the loss is written with."""
    ours, authors = PretrainConfig(), shrink("authors")
    assert (ours.reduction, ours.sigreg, ours.regularizer) == ("mean", 1.0, 1e-3)
    assert (authors.reduction, authors.regularizer) == ("sum", 1e-3 / 64)
    assert authors.patience is None and authors.model.windows.context == 6
    assert shrink("hub").model.windows.context == 1
    assert shrink("hub").model.predictor.kind == "concat"


def test_anchor_noise_moves_what_is_ahead(trained):
    """Chunk and future, alike, and not the context; each update anew."""
    trainer, losses, windows, *_ = trained("ablation-ours", anchor_noise=(0.1, 0.2))
    trainer._seed(1)
    clips, times = trainer.window_numbers(1)
    offset = trainer._offsets()
    moved = trainer._windows(clips, times, offset)
    assert torch.equal(moved.context, windows.context)
    torch.testing.assert_close(moved.chunk, move_anchor(windows.chunk, offset))
    torch.testing.assert_close(moved.future, move_anchor(windows.future, offset))
    many = torch.cat([trainer._offsets() for _ in range(500)])
    wanted = torch.tensor((0.1, 0.1, 0.2))
    torch.testing.assert_close(many.std(0), wanted, atol=0.01, rtol=0)
    still = trained("ablation-ours")[1]
    assert float(losses.total.detach()) != float(still.total.detach())


def test_anchor_noise_needs_an_encoder_that_can_be_off(shrink):
    for recipe in ("ablation-full-window", "ablation-robot-frame"):
        with pytest.raises(ValueError, match="needs the anchor `heading`"):
            shrink(recipe, anchor_noise=(0.1, 0.1))

"""Bottlenecks: five ways from features to a skill, behind one interface."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from spectral_skills.skill.bottleneck import VQ, BottleneckConfig, Categorical, build

KINDS = ["continuous", "fsq", "gumbel", "categorical", "vq"]
WIDTH = 5


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _bottleneck(kind: Any, **settings):
    torch.manual_seed(0)
    return build(BottleneckConfig(kind, **({"codes": 12} | settings)), WIDTH)


def _features(bottleneck, count: int = 64, scale: float = 1.0) -> Tensor:
    values = torch.randn(count, bottleneck.features, generator=_generator(1))
    return (scale * values).requires_grad_()


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_gradients(kind):
    """Skill and penalty have the same shapes everywhere; gradients come through."""
    bottleneck = _bottleneck(kind)
    features = _features(bottleneck)
    code = bottleneck(features, bottleneck.draw(64, _generator()))
    assert code.skill.shape == (64, WIDTH) and code.penalty.shape == (64,)
    if code.latent is not None:
        assert code.latent.shape == (64, WIDTH)
    assert (code.penalty >= -1e-6).all()
    for value in (code.skill, code.penalty):
        (found,) = torch.autograd.grad(value.sum(), features, retain_graph=True)
        assert found.isfinite().all() and found.abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_deterministic_without_draws(kind):
    """As at run time: the same skill twice, and the same alone as in a batch."""
    bottleneck = _bottleneck(kind)
    features = _features(bottleneck)
    skill = bottleneck(features).skill
    assert torch.equal(skill, bottleneck(features).skill)
    torch.testing.assert_close(bottleneck(features[7:8]).skill, skill[7:8])


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_generator(kind):
    """The same seed gives the same draws, made for the whole batch."""
    bottleneck = _bottleneck(kind)
    first, second = (bottleneck.draw(9, _generator(3)) for _ in range(2))
    if kind in ("gumbel", "categorical"):
        assert first is not None and second is not None
        assert torch.equal(first, second)
        assert first.shape == (9, WIDTH, 32) and first.isfinite().all()
        features = _features(bottleneck, 9)
        drawn = bottleneck(features, first).skill
        assert not torch.equal(drawn, bottleneck(features).skill)
    else:
        assert first is None and second is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_skill_that_a_bottleneck_gave_is_snapped_to_itself(kind):
    bottleneck = _bottleneck(kind)
    skill = bottleneck(_features(bottleneck, 300, 2.0)).skill.detach()
    torch.testing.assert_close(bottleneck.snapped(skill), skill, atol=1e-6, rtol=0)


@pytest.mark.parametrize("levels", [2, 5, 32])
@pytest.mark.parametrize("kind", ["fsq", "gumbel", "categorical"])
def test_other_skills_are_snapped_to_the_nearest_on_the_grid(kind, levels):
    """Also those beyond its ends."""
    bottleneck = _bottleneck(kind, levels=levels)
    skill = torch.linspace(-1.7, 1.9, 1000).reshape(-1, WIDTH)
    grid = torch.linspace(-1, 1, levels)
    nearest = grid[(skill[..., None] - grid).abs().argmin(-1)]
    snapped = bottleneck.snapped(skill)
    torch.testing.assert_close(snapped, nearest, atol=1e-6, rtol=0)
    assert not torch.allclose(snapped, skill, atol=1e-3)


def test_other_skills_are_snapped_to_the_nearest_code():
    vq = _bottleneck("vq", codes=40)
    assert isinstance(vq, VQ)
    skill = 2 * torch.randn(300, WIDTH, generator=_generator(2))
    nearest = vq.codebook[torch.cdist(skill, vq.codebook).argmin(1)]
    assert torch.equal(vq.snapped(skill), nearest)
    assert torch.equal(vq.snapped(nearest), nearest)


def test_every_continuous_skill_is_there():
    skill = 5 * torch.randn(20, WIDTH, generator=_generator(2))
    assert torch.equal(_bottleneck("continuous").snapped(skill), skill)


def test_continuous_is_the_identity():
    """Skill and latent are the features, the penalty their squared norm."""
    features = _features(_bottleneck("continuous"))
    code = _bottleneck("continuous")(features)
    assert torch.equal(code.skill, features) and torch.equal(code.latent, features)
    torch.testing.assert_close(code.penalty, features.norm(dim=1) ** 2)


@pytest.mark.parametrize("levels", [2, 5, 32])
def test_fsq_rounds_to_even_levels(levels):
    """As many values as levels, from -1 to 1: the one nearest to tanh."""
    bottleneck = _bottleneck("fsq", levels=levels)
    features = torch.linspace(-6, 6, 4000).reshape(-1, WIDTH)
    skill = bottleneck(features).skill
    grid = torch.linspace(-1, 1, levels)
    torch.testing.assert_close(skill.unique(), grid, atol=1e-6, rtol=0)
    nearest = grid[(torch.tanh(features)[..., None] - grid).abs().argmin(-1)]
    torch.testing.assert_close(skill, nearest, atol=1e-6, rtol=0)
    half_step = 1 / (levels - 1)
    assert (skill - torch.tanh(features)).abs().max() <= half_step + 1e-6


def test_fsq_is_symmetric():
    """q(-f) = -q(f): a step one way and its opposite exist alike."""
    bottleneck = _bottleneck("fsq")
    features = _features(bottleneck, 500, 2.0)
    torch.testing.assert_close(
        bottleneck(-features).skill, -bottleneck(features).skill, atol=1e-6, rtol=0
    )


def test_fsq_gradient_is_that_of_tanh():
    """Rounding is as if it were not there."""
    bottleneck = _bottleneck("fsq")
    features = _features(bottleneck)
    (found,) = torch.autograd.grad(bottleneck(features).skill.sum(), features)
    torch.testing.assert_close(found, 1 - torch.tanh(features).square())


@pytest.mark.parametrize("kind", ["gumbel", "categorical"])
def test_classes_are_values_of_the_grid(kind):
    """One number per group; without draws that of the most likely class."""
    bottleneck = _bottleneck(kind)
    features = _features(bottleneck)
    grid = torch.linspace(-1, 1, 32)
    for draws in (None, bottleneck.draw(64, _generator())):
        skill = bottleneck(features, draws).skill
        apart = (skill[..., None] - grid).abs().amin(-1)
        assert apart.max() < 1e-6
    best = features.view(64, WIDTH, 32).argmax(-1)
    torch.testing.assert_close(bottleneck(features).skill, grid[best])


@pytest.mark.parametrize("kind", ["gumbel", "categorical"])
@pytest.mark.parametrize("drawn", [False, True])
def test_straight_through_gradient_is_the_soft_one(kind, drawn):
    """That of the expected value (categorical) or of the softened sample (gumbel)."""
    bottleneck = _bottleneck(kind)
    features = _features(bottleneck)
    draws = bottleneck.draw(64, _generator()) if drawn else None
    logits = features.view(64, WIDTH, 32)
    if kind == "categorical":
        soft = 0.99 * torch.softmax(logits, -1) + 0.01 / 32
    else:
        soft = torch.softmax(logits if draws is None else logits + draws, -1)
    weight = torch.randn(64, WIDTH, generator=_generator(5))
    expected = soft @ torch.linspace(-1, 1, 32)
    (wanted,) = torch.autograd.grad((weight * expected).sum(), features)
    skill = bottleneck(features, draws).skill
    (found,) = torch.autograd.grad((weight * skill).sum(), features)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gumbel", "categorical"])
def test_classes_are_drawn_as_often_as_they_are_likely(kind):
    """Frequencies of 20,000 samples, within four deviations."""
    levels, count = 6, 20_000
    bottleneck = _bottleneck(kind, levels=levels)
    assert isinstance(bottleneck, Categorical)
    features = _features(bottleneck, 1, 1.5).detach()
    skill = bottleneck(
        features.expand(count, -1), bottleneck.draw(count, _generator(2))
    ).skill
    number = ((skill + 1) / 2 * (levels - 1)).round().long()
    often = functional.one_hot(number, levels).double().mean(0)
    p = torch.softmax(features.view(WIDTH, levels).double(), -1)
    p = (1 - bottleneck.uniform_share) * p + bottleneck.uniform_share / levels
    error = (p * (1 - p) / count).sqrt()
    assert ((often - p).abs() < 4 * error).all()


@pytest.mark.parametrize("kind", ["gumbel", "categorical"])
def test_penalty_is_the_distance_from_uniform(kind):
    """Zero where all classes are alike, log(classes) a group where one is certain."""
    bottleneck = _bottleneck(kind)
    even = bottleneck(torch.full((3, bottleneck.features), 0.7)).penalty
    torch.testing.assert_close(even, torch.zeros(3), atol=1e-5, rtol=0)
    features = torch.zeros(3, WIDTH, 32)
    features[..., 4] = 30.0
    sure = bottleneck(features.flatten(1)).penalty
    most = WIDTH * math.log(32)
    assert (sure > 0.9 * most).all() and (sure <= most + 1e-4).all()


@pytest.mark.parametrize("kind", ["categorical", "gumbel"])
def test_classes_of_no_probability_do_no_harm(kind):
    """Penalty and gradients are finite where a softmax is zero."""
    bottleneck = _bottleneck(kind)
    values = torch.zeros(3, WIDTH, 32)
    values[..., 4] = 300.0
    features = values.flatten(1).requires_grad_()
    code = bottleneck(features, bottleneck.draw(3, _generator()))
    (found,) = torch.autograd.grad((code.penalty + code.skill.sum(1)).sum(), features)
    assert code.penalty.isfinite().all() and found.isfinite().all()


def _vq(codebook, counts=None) -> VQ:
    """A codebook in use, its sums as if it had always been like this."""
    values = torch.as_tensor(codebook, dtype=torch.float32)
    vq = VQ(BottleneckConfig("vq", codes=len(values)), values.shape[1])
    vq.codebook.copy_(values)
    if counts is not None:
        vq.counts.copy_(torch.as_tensor(counts))
        vq.sums.copy_(values * vq.counts[:, None])
    return vq


def test_vq_takes_the_nearest_code():
    """Index, skill and penalty against all distances; the gradient passes through."""
    vq = _bottleneck("vq", codes=40)
    assert isinstance(vq, VQ)
    features = _features(vq, 300)
    apart = torch.cdist(features, vq.codebook)
    assert torch.equal(vq.nearest(features), apart.argmin(1))
    code = vq(features)
    torch.testing.assert_close(code.skill, vq.codebook[apart.argmin(1)])
    torch.testing.assert_close(code.penalty, apart.amin(1) ** 2)
    (found,) = torch.autograd.grad(code.skill.sum(), features)
    assert torch.equal(found, torch.ones_like(found))


def test_vq_moving_averages_by_hand():
    """Two codes, three features, every number computed here."""
    vq = _vq([[0.0], [10.0]], counts=[5.0, 3.0])
    vq.update(torch.tensor([[1.0], [2.0], [9.0]]), _generator())
    counts = (0.99 * 5 + 0.01 * 2, 0.99 * 3 + 0.01 * 1)
    sums = (0.99 * 0 + 0.01 * 3, 0.99 * 30 + 0.01 * 9)
    assert vq.counts.tolist() == pytest.approx(counts, rel=1e-6)
    assert vq.sums[:, 0].tolist() == pytest.approx(sums, rel=1e-6)
    whole = sum(counts)
    smooth = [(n + 1e-5) / (whole + 2e-5) * whole for n in counts]
    codes = [s / n for s, n in zip(sums, smooth, strict=True)]
    assert vq.codebook[:, 0].tolist() == pytest.approx(codes, rel=1e-6)


def test_vq_revives_codes_that_nothing_chooses():
    """A code far from everything becomes a feature; those in use stay."""
    vq = _vq([[0.0, 0.0], [1e3, 1e3]], counts=[8.0, 2.0])
    latent = torch.randn(32, 2, generator=_generator())
    vq.update(latent, _generator(1))
    assert (latent == vq.codebook[1]).all(1).any()
    assert vq.codebook[0].norm() < 0.5
    torch.testing.assert_close(vq.sums[1], vq.counts[1] * vq.codebook[1])


def test_vq_starts_from_the_first_batch():
    """Wherever the features are, all codes are among them; the skills too."""
    vq = _bottleneck("vq", codes=8)
    assert isinstance(vq, VQ)
    latent = 100 + torch.randn(256, WIDTH, generator=_generator())
    vq.update(latent, _generator(1))
    assert (vq.codebook > latent.amin(0) - 0.01).all()
    assert (vq.codebook < latent.amax(0) + 0.01).all()
    assert len(vq.nearest(latent).unique()) > 4
    assert vq.counts.sum() == pytest.approx(256, abs=2 * 8)

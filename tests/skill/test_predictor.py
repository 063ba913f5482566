"""The predictor: the paper's sizes, its noise, and what it may look at."""

import copy

import pytest
import torch
from pretrain import _FormedWhole
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills.motion.windows import WindowConfig
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import (
    AffineFeatures,
    LevelEmbedding,
    NoiseHead,
    NoiseSchedule,
    PredictionBatch,
    Predictor,
    PredictorConfig,
    ResidualBlock,
    ResidualTrunk,
)

SMALL = PredictorConfig(
    embed=12, rank=7, context_hidden=(16, 10), target_hidden=(14, 9), concat_hidden=(8,)
)


def parameter_count(modules) -> int:
    """Numbers that training changes."""
    return sum(p.numel() for module in modules for p in module.parameters())


def test_parameter_counts_of_the_paper():
    """Encoder 3.71 M, predictor 196.8 M, nearly all of it in two output layers."""
    with torch.device("meta"):
        model = SkillModel(SkillConfig())
    assert parameter_count([model.encoder]) == pytest.approx(3.71e6, rel=2e-3)
    predictor = model.predictor
    assert parameter_count([predictor]) == pytest.approx(196.8e6, rel=5e-4)
    features = predictor.features
    skill_map = parameter_count([features.skill_map])
    assert skill_map == 64 * 1024 + 1024
    context_net = parameter_count([features]) - skill_map
    assert context_net == pytest.approx(135.6e6, rel=5e-4)
    assert parameter_count([predictor.target_net]) == pytest.approx(61.0e6, rel=2e-3)


def test_noise_levels_of_the_paper():
    """Deviations kept and added at eight levels, and the shortest products of them."""
    schedule = NoiseSchedule(8)
    kept = (0.95607, 0.84604, 0.69295, 0.52532, 0.36860, 0.23938, 0.14389, 0.08006)
    added = (0.29313, 0.53312, 0.72099, 0.85091, 0.92959, 0.97093, 0.98959, 0.99679)
    assert len(schedule) == 8
    assert schedule.alpha.tolist() == pytest.approx(kept, abs=6e-6)
    assert schedule.sigma.tolist() == pytest.approx(added, abs=6e-6)


@pytest.mark.parametrize("levels", [1, 8, 50])
def test_noise_preserves_the_variance(levels):
    """As the running product of steps says, down to the same last level."""
    schedule = NoiseSchedule(levels)
    product = 1.0
    for t in range(1, levels + 1):
        step = -0.1 / levels - 0.5 * 9.9 * (2 * t - 1) / levels**2
        product *= float(torch.tensor(step, dtype=torch.float64).exp())
        assert float(schedule.alpha[t - 1]) ** 2 == pytest.approx(product, rel=1e-5)
    total = schedule.alpha**2 + schedule.sigma**2
    torch.testing.assert_close(total, torch.ones(levels))
    assert float(schedule.alpha[-1]) == pytest.approx(0.08006, abs=1e-5)
    target, noise = torch.randn(levels, 3), torch.randn(levels, 3)
    noisy = schedule.add_noise(target, torch.arange(levels), noise)
    for level in range(levels):
        wanted = schedule.alpha[level] * target[level] + (
            schedule.sigma[level] * noise[level]
        )
        torch.testing.assert_close(noisy[level], wanted)


def _gradients(module: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    output = module(*inputs)
    torch.manual_seed(3)
    total = (output * torch.randn_like(output)).sum()
    return [output, *torch.autograd.grad(total, [*inputs, *module.parameters()])]


def test_contraction_equals_the_matrix_formed_whole():
    """F(X)^T (A z + b) / sqrt(e): the same value and gradients, either way round."""
    torch.manual_seed(0)
    features = AffineFeatures(SMALL, 20, 6).double()
    whole = copy.deepcopy(features)
    whole.__class__ = _FormedWhole
    inputs = torch.randn(9, 20).double(), torch.randn(9, 6).double()
    found, wanted = _gradients(features, inputs), _gradients(whole, inputs)
    assert len(found) == 3 + len(list(features.parameters()))
    for one, other in zip(found, wanted, strict=True):
        assert one.abs().sum() > 0
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-9)


def test_prediction_by_hand():
    """M^T F^T (A z + b) / sqrt(e) with every matrix formed, in loops over samples."""
    torch.manual_seed(0)
    predictor = Predictor(SMALL, 20, 6, 11).double()
    features = predictor.features
    context, skill, noisy = (torch.randn(4, k).double() for k in (20, 6, 11))
    level = torch.tensor([0, 3, 3, 7])
    found = predictor(context, skill, noisy, level)
    M = predictor.target_matrix(noisy, level)  # noqa: N806
    assert M.shape == (4, 7, 11)
    for i in range(4):
        h = features.trunk(context[i : i + 1])[0]
        F = features.weight @ h + features.bias  # noqa: N806
        phi = F.T @ features.skill_map(skill[i]) / 12**0.5
        torch.testing.assert_close(found[i], M[i].T @ phi, atol=1e-12, rtol=1e-9)


def test_initial_error_is_that_of_predicting_nothing():
    """Small outputs at the start: the error of a coordinate is about one."""
    torch.manual_seed(0)
    head = NoiseHead(SMALL, WindowConfig(), 6, "chunk")
    batch = _batch(64)
    noise = torch.randn(64, head.noise_width)
    level = torch.randint(8, (64,))
    error = head(torch.randn(64, 6), batch, level, noise)
    assert error.shape == (64,)
    assert float(error.detach().mean()) == pytest.approx(1.0, abs=0.1)


def _batch(count: int) -> PredictionBatch:
    windows = WindowConfig()
    return PredictionBatch(
        context=torch.randn(count, windows.context * 38),
        future=torch.randn(count, windows.future * 38),
        seen=torch.randn(count, windows.chunk * 38),
    )


@pytest.mark.parametrize("kind, poses", [("concat", 1), ("affine", 6)])
def test_how_much_of_the_context_is_seen(kind, poses):
    """The concat kind sees the current pose only, the affine kind all six."""
    torch.manual_seed(0)
    config = PredictorConfig(**(vars(SMALL) | {"kind": kind}))
    head = NoiseHead(config, WindowConfig(), 6, "chunk")
    batch = _batch(3)
    batch.context.requires_grad_()
    level, noise = torch.tensor([0, 4, 7]), torch.randn(3, head.noise_width)
    error = head(torch.randn(3, 6), batch, level, noise)
    (found,) = torch.autograd.grad(error.sum(), batch.context)
    seen = found.view(3, 6, 38).abs().sum((0, 2)) > 0
    assert seen.tolist() == [False] * (6 - poses) + [True] * poses


@pytest.mark.parametrize("target, poses", [("chunk", 11), ("endpoint", 1)])
def test_what_noise_heads_predict(target, poses):
    """All that follows, or its first pose; nothing else of the future is used."""
    torch.manual_seed(0)
    head = NoiseHead(SMALL, WindowConfig(), 6, target)
    assert head.outputs == head.noise_width == poses * 38
    batch = _batch(3)
    batch.future.requires_grad_()
    level, noise = torch.tensor([0, 4, 7]), torch.randn(3, head.noise_width)
    error = head(torch.randn(3, 6), batch, level, noise)
    (found,) = torch.autograd.grad(error.sum(), batch.future)
    assert (found[:, : poses * 38] != 0).any(0).all()
    assert not found[:, poses * 38 :].any()


def test_residual_block_by_hand():
    """W2 Mish(W1 LN(h)) + P(h), LN as wide as what comes in."""
    torch.manual_seed(0)
    block = ResidualBlock(6, 10)
    assert block.norm.normalized_shape == (6,)
    h = torch.randn(5, 6)
    centred = h - h.mean(-1, keepdim=True)
    normal = centred / (h.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    inner = functional.mish(normal @ block.inner.weight.T + block.inner.bias)
    assert isinstance(block.skip, nn.Linear)
    wanted = inner @ block.outer.weight.T + block.outer.bias + h @ block.skip.weight.T
    torch.testing.assert_close(block(h), wanted, atol=1e-5, rtol=1e-5)
    assert isinstance(ResidualBlock(6, 6).skip, nn.Identity)


@pytest.mark.parametrize("hidden", [(8,), (8, 6, 4), (4, 8)])
def test_unequal_widths_work(hidden):
    """One block per width, whatever the widths."""
    trunk = ResidualTrunk(5, hidden)
    assert len(trunk.blocks) == len(hidden)
    assert trunk(torch.randn(3, 5)).shape == (3, hidden[-1])


def test_levels_are_told_apart():
    """Cosines first, then sines, of frequencies from 1 downwards."""
    embedding = LevelEmbedding(8)
    frequencies = 1e4 ** (-torch.arange(4) / 4)
    seen = []
    embedding.layers.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    embedding(torch.tensor([0, 3]))
    angle = 3 * frequencies
    torch.testing.assert_close(seen[0][1], torch.cat((angle.cos(), angle.sin())))
    torch.testing.assert_close(seen[0][0], torch.tensor([1.0] * 4 + [0.0] * 4))
    eight = LevelEmbedding()(torch.arange(8))
    assert torch.pdist(eight).min() > 1e-3

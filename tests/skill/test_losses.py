"""SIGReg: small for a standard normal batch, and by how much for others."""

import cmath
import math

import pytest
import torch
from torch import Tensor

from spectral_skills.skill.trainer import draw_slices, quadrature, sigreg


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _normal(count: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(count, width, generator=_generator(seed))


def _expected(std: float, count: int) -> float:
    """Mean of the statistic over samples of N(0, std^2), from their distribution."""
    t, weight = (x.double() for x in quadrature())
    own, wanted = torch.exp(-0.5 * (std * t) ** 2), torch.exp(-0.5 * t**2)
    noise = (1 - own**2) / count
    return float(weight @ ((own - wanted) ** 2 + noise))


def test_quadrature_is_the_published_one():
    """17 points of [0, 3], trapezoid, doubled, with a Gaussian weight."""
    t, weight = quadrature()
    torch.testing.assert_close(t, torch.arange(17) * 0.1875)
    assert float(weight.sum()) == pytest.approx(2.4997, abs=5e-5)
    assert float(weight[0]) == pytest.approx(0.1875)
    assert float(weight[8]) == pytest.approx(0.375 * math.exp(-0.5 * 1.5**2))
    # What the rule stands for: twice the integral of the weight up to 3.
    whole = math.sqrt(2 * math.pi) * math.erf(3 / math.sqrt(2))
    assert float(weight.sum()) == pytest.approx(whole, abs=1e-3)


def test_slices_are_unit_vectors_in_every_direction():
    """Unit length, and a second moment of identity / width."""
    slices = draw_slices(8, 20_000, _generator())
    torch.testing.assert_close(slices.norm(dim=0), torch.ones(20_000))
    moment = slices @ slices.T / 20_000
    torch.testing.assert_close(moment, torch.eye(8) / 8, atol=5e-3, rtol=0)


def test_one_sample_by_hand():
    """A single skill along two slices, with complex numbers and loops."""
    skill = torch.tensor([[0.7, -1.2]])
    slices = torch.tensor([[1.0, 0.6], [0.0, 0.8]])
    wanted = 0.0
    for s in (0.7, 0.6 * 0.7 - 0.8 * 1.2):
        for i in range(17):
            t = 3 * i / 16
            step = 0.1875 if i in (0, 16) else 0.375
            apart = abs(cmath.exp(1j * t * s) - math.exp(-t * t / 2)) ** 2
            wanted += step * math.exp(-t * t / 2) * apart / 2
    assert float(sigreg(skill, slices)) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("count", [256, 2048])
def test_floor_of_a_standard_normal_batch(count):
    """1.0525 / N in expectation, whatever N."""
    expected = _expected(1.0, count)
    assert expected * count == pytest.approx(1.0525, abs=1e-3)
    found = [
        float(sigreg(_normal(count, 16, seed), draw_slices(16, 64, _generator(seed))))
        for seed in range(10)
    ]
    assert sum(found) / len(found) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize(
    "std, published",
    [(0.5, 0.151), (0.8, 0.022), (0.9, 5.6e-3), (1.1, 4.6e-3), (1.25, 2.5e-2)],
)
def test_gaussians_of_another_deviation(std, published):
    """The closed form, which is also what was measured at the paper's sizes."""
    count = 4096
    skill = std * _normal(count, 64, 3)
    found = float(sigreg(skill, draw_slices(64, 64, _generator(4))))
    assert found == pytest.approx(_expected(std, count), rel=0.08)
    assert _expected(std, 8192) == pytest.approx(published, rel=0.12)


def test_other_distributions():
    """Collapsed is 0.402; low rank is seen; independent uniform numbers are not."""
    slices = draw_slices(64, 64, _generator())
    assert float(sigreg(torch.zeros(64, 64), slices)) == pytest.approx(0.4020, abs=1e-4)
    floor = _expected(1.0, 4096)
    frame = torch.linalg.qr(_normal(64, 8)).Q * math.sqrt(8)
    assert float(sigreg(_normal(4096, 8) @ frame.T, slices)) > 50 * floor
    uniform = torch.rand(4096, 64, generator=_generator()) * math.sqrt(12)
    uniform -= math.sqrt(3)
    assert float(sigreg(uniform, slices)) < 1.5 * floor
    two_points = torch.ones(64, 64) * torch.tensor([1.0, -1.0]).repeat(32)[:, None]
    assert float(sigreg(two_points, slices)) > 0.05


def _with_density(skill: Tensor, slices: Tensor) -> Tensor:
    """The authors' form: a normal density as weight, 17 points of [-5, 5]."""
    t = torch.linspace(-5, 5, 17)
    angle = (skill @ slices)[..., None] * t
    error = angle.cos().mean(0) - torch.exp(-0.5 * t**2)
    error = error.square() + angle.sin().mean(0).square()
    density = torch.exp(-0.5 * t**2) / math.sqrt(2 * math.pi)
    return torch.trapezoid(error * density, t).mean()


@pytest.mark.parametrize("std", [0.05, 0.3, 0.8, 1.2, 1.5])
def test_the_authors_form_is_this_one_times_a_constant(std):
    """Value within 2 %, gradient within 5 %, of skills far narrower and wider too."""
    skill = (std * _normal(2048, 16)).requires_grad_()
    slices = draw_slices(16, 32, _generator(1))
    ours = sigreg(skill, slices) / math.sqrt(2 * math.pi)
    theirs = _with_density(skill, slices)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=0.02)
    grads = [torch.autograd.grad(x, skill)[0] for x in (ours, theirs)]
    assert (grads[0] - grads[1]).norm() < 0.05 * grads[1].norm()


def test_rotation_changes_nothing_in_expectation():
    """An uneven batch and its rotations have the same mean over slices."""
    skill = _normal(128, 6) * torch.tensor([0.2, 0.5, 1.0, 1.0, 2.0, 3.0])
    turn = torch.linalg.qr(_normal(6, 6, 1)).Q
    found = [
        float(sigreg(batch, draw_slices(6, 8192, _generator(seed))))
        for seed, batch in enumerate((skill, skill @ turn))
    ]
    assert found[0] == pytest.approx(found[1], rel=0.02)
    slices = draw_slices(6, 16, _generator())
    turned = float(sigreg(skill @ turn, turn.T @ slices))
    assert turned == pytest.approx(float(sigreg(skill, slices)), rel=1e-5)


@pytest.mark.parametrize("std, pulls", [(0.05, "apart"), (1.5, "together")])
def test_gradient_leads_to_deviation_one(std, pulls):
    """Batches that are too narrow grow, those that are too wide shrink."""
    skill = (std * _normal(256, 4)).requires_grad_()
    sigreg(skill, draw_slices(4, 32, _generator())).backward()
    assert skill.grad is not None
    growth = -(skill.grad * skill).sum()
    assert growth > 0 if pulls == "apart" else growth < 0
    optimizer, generator = torch.optim.Adam([skill], lr=0.05), _generator()
    for _ in range(120):
        optimizer.zero_grad()
        sigreg(skill, draw_slices(4, 16, generator)).backward()
        optimizer.step()
    torch.testing.assert_close(skill.std(0), torch.ones(4), atol=0.15, rtol=0)


def test_no_gradient_where_all_skills_are_zero():
    """By symmetry: a run must never start there."""
    skill = torch.zeros(16, 4, requires_grad=True)
    sigreg(skill, draw_slices(4, 8, _generator())).backward()
    assert skill.grad is not None and not skill.grad.any()


def test_half_precision_skills_are_measured_in_float32():
    """The angles reach 12: bf16 cosines would be coarse."""
    skill = _normal(512, 8).bfloat16()
    slices = draw_slices(8, 16, _generator())
    assert sigreg(skill, slices).dtype == torch.float32
    assert torch.equal(sigreg(skill, slices), sigreg(skill.float(), slices))

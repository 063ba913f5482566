"""SIGReg: how far a batch of skills is from a standard normal distribution.

Along a random direction the characteristic function of the skills is compared with
that of a standard normal (Epps and Pulley's statistic):

    integral over t of |mean_n exp(i t s_n) - exp(-t^2/2)|^2 exp(-t^2/2) dt

by the trapezoid rule on 17 points of [0, 3], doubled since the integrand is even.
In the literature the statistic also carries a factor N, the number of samples.
"""

import torch
from torch import Tensor

from spectral_skills.distributed import mean_over_ranks

POINTS, T_MAX = 17, 3.0


def quadrature(device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Points t and their weights, the Gaussian weight included."""
    t = torch.linspace(0, T_MAX, POINTS, device=device)
    weight = torch.full_like(t, 2 * T_MAX / (POINTS - 1))
    weight[0] = weight[-1] = T_MAX / (POINTS - 1)
    return t, weight * torch.exp(-0.5 * t**2)


def draw_slices(width: int, count: int, generator: torch.Generator) -> Tensor:
    """(width, count) unit vectors, uniform over directions."""
    slices = torch.randn((width, count), generator=generator, device=generator.device)
    return slices / slices.norm(dim=0)


def sigreg(skill: Tensor, slices: Tensor) -> Tensor:
    """Mean of the statistic over slices, without the factor N.

    Zero in the limit of many samples of N(0, I); 0.402 if all skills are zero.
    """
    t, weight = quadrature(skill.device)
    angle = (skill.float() @ slices)[..., None] * t  # (n, slices, points)
    cosine = mean_over_ranks(angle.cos().mean(0))
    sine = mean_over_ranks(angle.sin().mean(0))
    error = (cosine - torch.exp(-0.5 * t**2)).square() + sine.square()
    return (error @ weight).mean()

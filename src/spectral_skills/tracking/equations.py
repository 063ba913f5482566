"""Equations of the learners: of proximal policy optimization, and squashed actions."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from spectral_skills.distributed import mean_over_ranks


def divergence(mean: Tensor, std: Tensor, new_mean: Tensor, new_std: Tensor) -> Tensor:
    """KL(old || new) of diagonal Gaussians, (n,)."""
    # log(s'/s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2
    spread = std.square() + (mean - new_mean).square()
    return ((new_std / std).log() + spread / (2 * new_std.square()) - 0.5).sum(-1)


def gae(
    rewards: Tensor,
    values: Tensor,
    last_values: Tensor,
    dones: Tensor,
    timeouts: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Generalised advantage estimates (T, n)."""
    # An episode that only ran out of time would have gone on: r += gamma V(s_t).
    rewards = rewards + gamma * values * timeouts
    going = 1.0 - (dones | timeouts).float()
    following = torch.cat((values[1:], last_values[None]))
    # delta_t = r_t + gamma V(s_t+1) - V(s_t), without V(s_t+1) at the end of an episode
    delta = rewards + gamma * following * going - values
    # A_t = delta_t + gamma lambda A_t+1, without A_t+1 at the end of an episode
    advantages, decay = torch.empty_like(delta), gamma * lam * going
    later = torch.zeros_like(last_values)
    for t in reversed(range(len(delta))):
        later = torch.addcmul(delta[t], decay[t], later)
        advantages[t] = later
    return advantages


def clipped_objective(log_ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """min(rho A, clip(rho, 1 - eps, 1 + eps) A) with rho = pi_new(a) / pi_old(a)."""
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    return torch.minimum(ratio * advantages, bounded * advantages)


def next_rate(
    rate: Tensor, kl: Tensor, target: float, limits: tuple[float, float]
) -> Tensor:
    """Learn slower if the policy changed too much, faster if too little."""
    slower = torch.where(kl > 2 * target, rate / 1.5, rate)
    return torch.where(kl < target / 2, rate * 1.5, slower).clamp(*limits)


def standardized(values: Tensor) -> Tensor:
    """Values with mean 0 and deviation 1 over all of them, on all processes."""
    mean = mean_over_ranks(values.mean())
    away = values - mean
    return away / (mean_over_ranks(away.square().mean()).sqrt() + 1e-8)


def squash(
    mean: Tensor, std: Tensor, noise: Tensor, bounds: Tensor
) -> tuple[Tensor, Tensor]:
    """Actions within their bounds (n, 29), and their log-probabilities (n,).

    a = b tanh(u / b) with u = m + s e, so log p(a) = log N(u; m, s) - log |da/du|.
    """
    scaled = (mean + std * noise) / bounds
    gaussian = -(noise.square() / 2 + std.log() + 0.5 * math.log(2 * math.pi))
    # da/du = 1 - tanh^2(x) = 4 / (e^x + e^-x)^2, in a form that does not overflow.
    slope = 2 * (math.log(2) - scaled - functional.softplus(-2 * scaled))
    return bounds * scaled.tanh(), (gaussian - slope).sum(-1)

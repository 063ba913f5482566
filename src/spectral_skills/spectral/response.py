"""How a change of the skill changes what is predicted to follow, exactly.

One denoising step at a fixed query xi = (X, y_tau, tau) estimates the future

    Yhat(z) = m_Y + S / alpha_tau (y_tau - sigma_tau D(xi, z))

in motion coordinates. D is affine in z, so

    J = dYhat / dz = -(sigma_tau / alpha_tau) S M(y_tau, tau)^T F(X)^T A / sqrt(e)

is the same for every z. This is a statement about one step at a fixed query, not
about the sampler or the robot.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills.motion.windows import Windows
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.predictor import AffineFeatures, Predictor


@dataclass(frozen=True)
class Query:
    """Where responses are asked for: xi = (X, y_tau, tau), normalised and flat."""

    context: Tensor
    """(n, context * 38)"""
    noisy: Tensor
    """(n, m)"""
    level: Tensor
    """(n,) numbers of noise levels, 0 the lowest."""


def query(
    model: SkillModel, windows: Windows, level: int = 0, noise: Tensor | None = None
) -> Query:
    """The query of recorded windows; without noise y_tau = alpha_tau y."""
    _features(model)
    context = windows.context.to(model.context_mean)
    target = model.normalize_future(windows.future.to(model.future_mean))
    levels = torch.full((len(target),), level, device=target.device)
    noise = torch.zeros_like(target) if noise is None else noise
    noisy = model.predictor.schedule.add_noise(target, levels, noise)
    return Query(model.normalize_context(context), noisy, levels)


def estimate(model: SkillModel, query: Query, skill: Tensor) -> Tensor:
    """The future (n, m) that one denoising step predicts for skills (n, d)."""
    D = model.predictor(query.context, skill, query.noisy, query.level)
    alpha, sigma = _alpha_sigma(model.predictor, query)
    return model.future_mean + model.future_std / alpha * (query.noisy - sigma * D)


def response(model: SkillModel, query: Query) -> Tensor:
    """J (n, m, d): change of the predicted future per unit of each skill number."""
    F_A, _ = _features(model).response(query.context)  # (n, d, r), has 1 / sqrt(e)
    M = model.predictor.target_matrix(query.noisy, query.level)  # (n, r, m)
    alpha, sigma = _alpha_sigma(model.predictor, query)
    G = torch.bmm(F_A, M)  # (n, d, m)
    return (-(sigma / alpha * model.future_std)[:, None] * G).transpose(1, 2)


def _alpha_sigma(predictor: Predictor, query: Query) -> tuple[Tensor, Tensor]:
    """Both (n, 1)."""
    schedule = predictor.schedule
    return schedule.alpha[query.level, None], schedule.sigma[query.level, None]


def _features(model: SkillModel) -> AffineFeatures:
    """The affine part of a model's predictor; says so if it has none."""
    predictor = model.predictor
    if not isinstance(predictor.features, AffineFeatures):
        raise ValueError(
            f"this predictor is of the kind {predictor.config.kind!r}, which is not "
            "affine in the skill: its response depends on the skill, and there are "
            "no directions"
        )
    if predictor.target != len(model.future_mean):
        raise ValueError(
            f"this predictor predicts {predictor.target} of the "
            f"{len(model.future_mean)} numbers of the future; responses need all"
        )
    return predictor.features

"""How a change of the skill changes the predicted future, exactly, and the sums over
many contexts from which directions are computed.

One denoising step at a fixed query xi = (X, y_tau, tau) estimates the future

    Yhat(z) = m_Y + S / alpha_tau (y_tau - sigma_tau D(xi, z))

in motion coordinates. D is affine in z, so

    J = dYhat / dz = -(sigma_tau / alpha_tau) S M(y_tau, tau)^T F(X)^T A / sqrt(e)

is the same for every z. This is a statement about one step at a fixed query, not
about the sampler or the robot. Over contexts,

    C = 1/N sum_i J_i^T J_i          by part of the body; the parts add up
    E_i = rows_i J_i                 effect on each attribute, (a, d)

Responses are summed in float64, batch by batch. For effects the first and second
moments are kept, which means, spreads and least squares need. At the lowest noise level
y_tau nearly shows the future and leaves the skill little to change; responses grow with
the level. Their sizes compare directions, but do not say how far the robot will move.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.motion.windows import Windows, WindowSampler
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.predictor import AffineFeatures, Predictor
from spectral_skills.spectral.attributes import (
    GROUPS,
    NAMES,
    Attributes,
    standing,
    upright,
)


@dataclass(frozen=True)
class Query:
    """The point xi = (X, y_tau, tau) of a response, normalised and flat."""

    context: Tensor
    """(n, context * 38)"""
    noisy: Tensor
    """(n, m)"""
    level: Tensor
    """(n,) noise levels, 0 the lowest."""


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
    """The affine part of a model's predictor; refuses a model without one."""
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


@dataclass(frozen=True)
class Effects:
    """Sums over contexts of effects E_i and of their squares."""

    contexts: int
    total: Tensor
    """(a, d) float64: sum of E_i."""
    square: Tensor
    """(a, d, d) float64: for each attribute the sum of its rows' e e^T."""

    @classmethod
    def of(cls, effects: Tensor) -> "Effects":
        """Sums over a batch (n, a, d)."""
        by_attribute = effects.double().transpose(0, 1)  # (a, n, d)
        square = by_attribute.transpose(1, 2) @ by_attribute
        return cls(len(effects), by_attribute.sum(1), square)

    def __add__(self, other: "Effects") -> "Effects":
        return Effects(
            self.contexts + other.contexts,
            self.total + other.total,
            self.square + other.square,
        )

    @property
    def mean(self) -> Tensor:
        """(a, d) mean effect."""
        return self.total / max(1, self.contexts)

    @property
    def mean_square(self) -> Tensor:
        """(a, d, d) mean of e e^T."""
        return self.square / max(1, self.contexts)

    def along(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation over contexts (k, a) of the effects of vectors (k, d)."""
        mean = vectors @ self.mean.T
        square = torch.einsum("kd,ade,ke->ka", vectors, self.mean_square, vectors)
        return mean, (square - mean.square()).clamp_min(0).sqrt()


@dataclass(frozen=True)
class Responses:
    """Sums over contexts of their responses."""

    contexts: int
    groups: Tensor
    """(groups, d, d) float64: sums of J^T J over the rows of each group."""
    total: Tensor
    """(m, d) float64: sum of J."""
    effects: Effects
    """Effects of upright contexts."""
    standing: Effects
    """Effects of upright contexts that also stand still."""

    def __add__(self, other: "Responses") -> "Responses":
        return Responses(
            self.contexts + other.contexts,
            self.groups + other.groups,
            self.total + other.total,
            self.effects + other.effects,
            self.standing + other.standing,
        )

    @property
    def group_grams(self) -> Tensor:
        """(groups, d, d) response Gram of each group, in the order of GROUPS."""
        return self.groups / self.contexts

    @property
    def response_gram(self) -> Tensor:
        """C, (d, d)."""
        return self.group_grams.sum(0)

    @property
    def mean_response(self) -> Tensor:
        """(m, d) mean of J."""
        return self.total / self.contexts


@torch.no_grad()
def accumulate(
    model: SkillModel, attributes: Attributes, windows: Windows
) -> Responses:
    """Sums of one batch, at the lowest noise level without added noise."""
    J = response(model, query(model, windows))
    by_pose = J.unflatten(1, (attributes.poses, -1)).double()
    grams = []
    for columns in GROUPS.values():
        J_g = by_pose[:, :, list(columns)].flatten(0, 2)
        grams.append(J_g.T @ J_g)
    future = windows.future.to(J)
    E = attributes.rows(future) @ J
    is_upright = upright(future)
    stands = is_upright & standing(future, model.config.windows)
    return Responses(
        contexts=len(J),
        groups=torch.stack(grams),
        total=by_pose.sum(0).flatten(0, 1),
        effects=Effects.of(E[is_upright]),
        standing=Effects.of(E[stands]),
    )


def measure(
    model: SkillModel,
    sampler: WindowSampler,
    contexts: int,
    seed: int = 0,
    batch: int = 256,
) -> tuple[Responses, Responses]:
    """Sums of two independent halves of random contexts."""
    if contexts < 2:
        raise ValueError(f"{contexts} contexts; two halves need at least 2")
    device, dtype = model.future_mean.device, model.future_mean.dtype
    attributes = Attributes(model.config.windows, device, dtype)
    # Drawn on the CPU and all at once, so that device and batch size do not matter.
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(sampler.total, (contexts,), generator=generator)
    draws = draws.to(sampler.motions.device)
    middle = (contexts + 1) // 2
    halves = []
    with tqdm(total=contexts, desc="responses", unit="context", disable=None) as bar:
        for half in (draws[:middle], draws[middle:]):
            sums = _nothing(model)
            for numbers in half.split(batch):
                windows = sampler.at(*sampler.locate(numbers))
                sums = sums + accumulate(model, attributes, windows)
                bar.update(len(numbers))
            halves.append(sums)
    return halves[0], halves[1]


def _nothing(model: SkillModel) -> Responses:
    """Sums over no contexts."""
    d, m = model.encoder.width, len(model.future_mean)

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=model.future_mean.device)

    none = Effects(0, zeros(len(NAMES), d), zeros(len(NAMES), d, d))
    return Responses(0, zeros(len(GROUPS), d, d), zeros(m, d), none, none)

"""The predictor as it is released: the same function of the skill, in few numbers.

    J = -(sigma / alpha) S M^T F^T A / sqrt(e)

Three quarters of a predictor are the weights of F(X), which are needed only multiplied
by [A b], and most of the rest is the output layer of M. F^T [A b] and M meet in r
features; any invertible map of these leaves D as it is. In the map for which both have
the same diagonal second moments over recorded windows, only the strongest features are
kept (balanced truncation). The output layer of M is then split in two through the few
combinations of its inputs that it depends on most. What is left is affine in the skill
as before, so that Proposition 1 holds for it exactly; `response_error` says how far its
responses are from those of the whole predictor. It is made for queries without added
noise, by which directions are found. To estimate noise, M needs all its inputs.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from spectral_skills.skill.predictor import (
    AffineFeatures,
    Predictor,
    PredictorConfig,
    ResidualTrunk,
)

FEATURES, INPUTS = 120, 240
"""Largest number of features, and of combined inputs of M's output layer, that are
kept."""
WINDOWS, UNSEEN = 4096, 128
"""Numbers of windows over which second moments are taken, and on which the result is
compared with the whole predictor."""
_AT_ONCE = 256
_FEATURES_LAYER, _INPUTS_LAYER = "features.layer.weight", "target_net.1.weight"


class ContractedFeatures(AffineFeatures):
    """F(X)^T [A b] / sqrt(e) as one network of (d + 1) r outputs."""

    def __init__(self, trunk: ResidualTrunk, skill: int, rank: int):
        nn.Module.__init__(self)
        self.trunk, self.rank = trunk, rank
        self.layer = nn.Linear(trunk.width, (skill + 1) * rank)

    def response(self, context: Tensor) -> tuple[Tensor, Tensor]:
        F_A_b = self.layer(self.trunk(context)).view(len(context), -1, self.rank)
        return F_A_b[:, :-1], F_A_b[:, -1]


def build(
    config: PredictorConfig, sizes: tuple[int, int, int], rank: int, inputs: int
) -> Predictor:
    """A contracted predictor with new weights; sizes are those of context, skill and
    target."""
    context, skill, target = sizes
    small = Predictor(replace(config, embed=1, rank=1), context, skill, target)
    small.config = replace(config, rank=rank)
    assert isinstance(small.features, AffineFeatures)
    small.features = ContractedFeatures(small.features.trunk, skill, rank)
    trunk, last = small.target_net
    assert isinstance(last, nn.Linear)
    small.target_net = nn.Sequential(
        trunk,
        nn.Linear(last.in_features, inputs, bias=False),
        nn.Linear(inputs, rank * target),
    )
    return small


def read(
    config: PredictorConfig, sizes: tuple[int, int, int], weights: dict[str, Tensor]
) -> Predictor:
    """The predictor of stored weights, which also tell its size."""
    rank = len(weights[_FEATURES_LAYER]) // (sizes[1] + 1)
    found = build(config, sizes, rank, len(weights[_INPUTS_LAYER]))
    found.load_state_dict({name: value.float() for name, value in weights.items()})
    return found.eval()


@torch.no_grad()
def contract(
    predictor: Predictor,
    context: Tensor,
    future: Tensor,
    scale: Tensor,
    features: int = FEATURES,
    inputs: int = INPUTS,
) -> Predictor:
    """The released form of a predictor, made for normalised contexts and futures (n, k)
    of recorded windows; `scale` (m,) are the units of the future."""
    whole, r = predictor.features, predictor.config.rank
    assert isinstance(whole, AffineFeatures)
    trunk, last = predictor.target_net
    assert isinstance(last, nn.Linear)
    F_A_b = _with_bias(*whole.contracted(), r)  # (d + 1, r, w + 1)
    M = _with_bias(last.weight, last.bias, r)  # (m, r, v + 1)
    h_F = _moments(whole.trunk(part) for part in context.split(_AT_ONCE))
    h_M = _moments(trunk(seen) for seen in _seen(predictor, future))

    # F^T [A b] = L U (U^T L^-1 F^T [A b]), of which the strongest rows are kept.
    L = _root(_gram(F_A_b, h_F))
    energy, U = torch.linalg.eigh(L.T @ _gram(M, h_M, scale) @ L)
    rank = min(features, r)
    to_features, to_target = U.T[-rank:] @ torch.linalg.pinv(L), U.T[-rank:] @ L.T
    F_A_b, M = to_features @ F_A_b, to_target @ M

    # The same for the inputs of M's output layer, by how much the response needs them.
    share = scale.double()[:, None] * energy[-rank:].clamp_min(0) ** 0.25
    mean, W = h_M[:-1, -1], M[..., :-1].flatten(0, 1)
    H = _root(h_M[:-1, :-1] - mean.outer(mean))
    needed = share.flatten()[:, None] * W
    V = torch.linalg.eigh(H @ (needed.T @ needed) @ H)[1][:, -min(inputs, len(H)) :]
    to_inputs, narrow = V.T @ torch.linalg.pinv(H), W @ (H @ V)
    rest = W @ mean - narrow @ (to_inputs @ mean)

    sizes = context.shape[1], len(F_A_b) - 1, predictor.target
    found = build(predictor.config, sizes, rank, len(to_inputs)).to(context)
    new = {
        _FEATURES_LAYER: F_A_b[..., :-1].flatten(0, 1),
        "features.layer.bias": F_A_b[..., -1].flatten(),
        _INPUTS_LAYER: to_inputs,
        "target_net.2.weight": narrow,
        "target_net.2.bias": M[..., -1].flatten() + rest,
    }
    old = {k: v for k, v in predictor.state_dict().items() if k in found.state_dict()}
    found.load_state_dict(old | new)
    return found.eval()


def _with_bias(weight: Tensor, bias: Tensor, rank: int) -> Tensor:
    """A layer's weight (k r, w) and bias as (k, r, w + 1), in float64."""
    return torch.cat((weight, bias[:, None]), 1).double().unflatten(0, (-1, rank))


def _gram(layer: Tensor, moments: Tensor, scale: Tensor | None = None) -> Tensor:
    """(r, r) sum over k of the second moments of a layer's outputs (k, r), times the
    squares of `scale` (k,)."""
    weights = layer.new_ones(len(layer)) if scale is None else scale.double()
    total = layer.new_zeros(layer.shape[1], layer.shape[1])
    for weight, one in zip(weights, layer, strict=True):  # one by one: less memory
        total += weight**2 * one @ moments @ one.T
    return total


def _moments(parts: Iterable[Tensor]) -> Tensor:
    """(w + 1, w + 1) second moments of rows (n, w), each with a one at its end."""
    total, count = torch.zeros(()), 0
    for rows in parts:
        rows = nn.functional.pad(rows.double(), (0, 1), value=1.0)
        total, count = total.to(rows) + rows.T @ rows, count + len(rows)
    return total / count


def _seen(predictor: Predictor, future: Tensor) -> Iterator[Tensor]:
    """What M sees of futures without added noise, at every level."""
    for level in range(len(predictor.schedule)):
        for y in future.split(_AT_ONCE):
            levels = torch.full((len(y),), level, device=y.device)
            noisy = predictor.schedule.add_noise(y, levels, torch.zeros_like(y))
            yield torch.cat((noisy, predictor.level(levels).to(y)), dim=-1)


def _root(moments: Tensor) -> Tensor:
    """A symmetric square root, of what is not negligible."""
    size, V = torch.linalg.eigh(moments)
    size = size.clamp_min(0)
    size = size.where(size > 1e-12 * size.max(), 0.0)
    return (V * size.sqrt()) @ V.T


@torch.no_grad()
def response_error(
    first: Predictor, second: Predictor, context: Tensor, future: Tensor, scale: Tensor
) -> list[float]:
    """Distance of two predictors' responses without noise, as a share of the first's
    size, at each noise level."""
    errors = []
    for level in range(len(first.schedule)):
        off = size = 0.0
        for part, y in zip(
            context.split(_AT_ONCE), future.split(_AT_ONCE), strict=True
        ):
            levels = torch.full((len(y),), level, device=y.device)
            noisy = first.schedule.add_noise(y, levels, torch.zeros_like(y))
            ours, theirs = (
                _response(one, part, noisy, levels) * scale for one in (first, second)
            )
            off += float((ours - theirs).norm() ** 2)
            size += float(ours.norm() ** 2)
        errors.append(math.sqrt(off / max(size, 1e-300)))
    return errors


def _response(
    predictor: Predictor, context: Tensor, noisy: Tensor, level: Tensor
) -> Tensor:
    """(n, d, m)"""
    assert isinstance(predictor.features, AffineFeatures)
    F_A, _ = predictor.features.response(context)
    return torch.bmm(F_A, predictor.target_matrix(noisy, level))

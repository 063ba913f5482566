"""Two ways to see points of many dimensions in the plane: PCA and exact t-SNE.

t-SNE (van der Maaten and Hinton, 2008) places points y so that the neighbourhoods
Q of the plane are like the neighbourhoods P of the data:

    p_j|i ~ exp(-beta_i |x_i - x_j|^2)    beta_i such that exp(entropy) = perplexity
    p_ij  = (p_j|i + p_i|j) / 2n
    q_ij  = w_ij / Z,   w_ij = 1 / (1 + |y_i - y_j|^2),   Z = sum of all w
    dKL/dy_i = 4 sum_j (p_ij - q_ij) w_ij (y_i - y_j)
"""

import math

import torch
from torch import Tensor

from spectral_skills.motion.workers import one_torch_thread

MOST_POINTS = 4000
"""Every pair of points is looked at in every step: more than this takes minutes."""
_BLOCK = 256
"""Rows at once; the intermediate results of so few stay in the cache."""
_EXAGGERATION, _EARLY_STEPS, _STEPS = 12.0, 250, 750
"""At first all p_ij are this much larger, so that clusters find their place."""


def pca(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Coordinates (n, k) of points (n, d) and the share (k,) of the variance of each.

    The largest component of every axis is positive: the sign is no accident.
    """
    if k > min(x.shape):
        count, size = x.shape
        raise ValueError(f"{k} components of {count} points in {size} dimensions")
    centred = x.double() - x.double().mean(dim=0)
    variance, axes = torch.linalg.eigh(centred.T @ centred)
    # Ascending in eigh.
    variance, axes = variance.flip(0).clamp_min(0), axes.flip(1)[:, :k]
    largest = axes.gather(0, axes.abs().argmax(dim=0, keepdim=True))
    axes = axes * torch.where(largest < 0, -1.0, 1.0)
    share = variance[:k] / variance.sum().clamp_min(torch.finfo(torch.double).tiny)
    return (centred @ axes).to(x.dtype), share.to(x.dtype)


def tsne(x: Tensor, perplexity: float = 30.0, seed: int = 0) -> Tensor:
    """Places (n, 2) in the plane of points (n, d), from 4 to MOST_POINTS of them."""
    if not 4 <= len(x) <= MOST_POINTS:
        raise ValueError(f"t-SNE of {len(x)} points; 4 to {MOST_POINTS:,} are possible")
    if not x.isfinite().all():
        raise ValueError("t-SNE of points that are not finite")
    # Many small operations: several threads would mostly wait for each other, and
    # the map would depend on their number.
    with one_torch_thread():
        return _descend(x, perplexity, seed).to(x.dtype)


def place(x: Tensor, y: Tensor, more: Tensor, perplexity: float = 10.0) -> Tensor:
    """Places (m, 2) of further points (m, d) in a finished map y (n, 2) of points x.

    Each lies at the mean of its neighbours' places, weighted by p_j|i: so further
    points neither move the map nor each other.
    """
    distance = torch.cdist(more.double(), x.double()).square()
    none = torch.full((len(more),), -1, device=x.device)
    entropy = math.log(min(perplexity, len(x) / 3))
    return (_conditional(distance, none, entropy) @ y.double()).to(y.dtype)


def _descend(x: Tensor, perplexity: float, seed: int) -> Tensor:
    """Gradient descent with momentum, as in the paper of t-SNE."""
    count = len(x)
    # A perplexity is a number of neighbours: few points have few.
    affinity = _affinities(x.double(), min(perplexity, (count - 1) / 3)).float()
    y = _start(x, seed)
    rate = max(count / _EXAGGERATION / 4, 50.0)
    gains, change = torch.ones_like(y), torch.zeros_like(y)
    for step in range(_STEPS):
        early = step < _EARLY_STEPS
        slope = _gradient(y, affinity, _EXAGGERATION if early else 1.0)
        # Larger steps along coordinates that keep going one way.
        onward = slope * change < 0
        gains = torch.where(onward, gains + 0.2, gains * 0.8).clamp_min(0.01)
        change = (0.5 if early else 0.8) * change - rate * gains * slope
        y = y + change
        y = y - y.mean(dim=0)
    return y


def _start(x: Tensor, seed: int) -> Tensor:
    """The two largest components, very small, and a trace of noise.

    Without the noise, points on a line would stay on a line for ever.
    """
    y, _ = pca(x.double(), 2)
    y = y / y[:, 0].std().clamp_min(torch.finfo(torch.double).tiny)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(y.shape, generator=generator, dtype=torch.double)
    return (1e-4 * (y + 0.01 * noise.to(y.device))).float()


def _affinities(x: Tensor, perplexity: float) -> Tensor:
    """p_ij (n, n), symmetric, of sum one."""
    p = x.new_empty((len(x), len(x)))
    for rows in torch.arange(len(x), device=x.device).split(_BLOCK):
        distance = torch.cdist(x[rows], x).square()
        p[rows] = _conditional(distance, rows, math.log(perplexity))
    p = p + p.T
    return p / p.sum()


def _conditional(distance: Tensor, rows: Tensor, entropy: float) -> Tensor:
    """p_j|i (k, n) of squared distances (k, n), by bisection of log beta_i."""
    itself = rows[:, None] == torch.arange(distance.shape[1], device=rows.device)
    scale = distance.mean(dim=1, keepdim=True)
    distance = distance / torch.where(scale > 0, scale, 1.0)
    low = torch.full_like(scale, -30.0)
    high = torch.full_like(scale, 30.0)
    p = torch.zeros_like(distance)
    for _ in range(30):
        middle = 0.5 * (low + high)
        logits = (-middle.exp() * distance).masked_fill_(itself, -torch.inf)
        p = logits.softmax(dim=1)
        mean = (p * distance).sum(dim=1, keepdim=True)
        found = logits.logsumexp(dim=1, keepdim=True) + middle.exp() * mean
        # A larger beta sees fewer neighbours.
        low = torch.where(found > entropy, middle, low)
        high = torch.where(found > entropy, high, middle)
    return p


def _gradient(y: Tensor, affinity: Tensor, exaggeration: float) -> Tensor:
    """dKL/dy (n, 2); sums over j are products with [y, 1], block by block."""
    one = torch.ones_like(y[:, :1])
    square = y.square().sum(dim=1, keepdim=True)
    # 1 + |y_i - y_j|^2 = (|y_i|^2 + 1) 1 + 1 |y_j|^2 - 2 y_i y_j
    left = torch.cat((square + 1, one, -2 * y), dim=1)
    right = torch.cat((one, square, y), dim=1)
    y1 = torch.cat((y, one), dim=1)
    attract, repel, sums = [], [], []
    for some, p in zip(left.split(_BLOCK), affinity.split(_BLOCK), strict=True):
        w = (some @ right.T).reciprocal_()
        sums.append(w.sum())
        attract.append((p * w) @ y1)
        repel.append(w.square_() @ y1)
    pairs = torch.stack(sums).sum() - len(y)  # Z; w_ii = 1 is no pair
    force = exaggeration * torch.cat(attract) - torch.cat(repel) / pairs
    return 4 * (force[:, 2:] * y - force[:, :2])

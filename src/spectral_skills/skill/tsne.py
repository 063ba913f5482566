"""Two ways to see points of many dimensions in the plane: PCA and t-SNE."""

import torch
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits
from torch import Tensor

MOST_POINTS = 4000
"""These take half a minute; more are also more dots than can be told apart."""
_EXAGGERATION = 12.0
"""How much more like points attract each other at first."""


def pca(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Coordinates (n, k) of points (n, d) and the share (k,) of the variance of each.

    The largest component of every axis is positive: the sign is no accident.
    """
    if k > min(x.shape):
        count, size = x.shape
        raise ValueError(f"{k} components of {count} points in {size} dimensions")
    if (x == x[0]).all():  # no variance to have a share of
        return x.new_zeros((len(x), k)), x.new_zeros(k)
    fit = PCA(k, svd_solver="full")
    places = torch.as_tensor(fit.fit_transform(x.double().numpy()))
    share = torch.as_tensor(fit.explained_variance_ratio_)
    return places.to(x.dtype), share.to(x.dtype)


def tsne(x: Tensor, perplexity: float = 30.0) -> Tensor:
    """Places (n, 2) in the plane of points (n, d), from 4 to MOST_POINTS of them."""
    count = len(x)
    if not 4 <= count <= MOST_POINTS:
        raise ValueError(f"t-SNE of {count} points; 4 to {MOST_POINTS:,} are possible")
    if not x.isfinite().all():
        raise ValueError("t-SNE of points that are not finite")
    # Only relative distances count. From the first point, not the mean: equal points
    # have no spread at all then, instead of one of rounding.
    away = (x - x[0]).double()
    spread = away.abs().max()
    if spread == 0:
        return x.new_zeros((count, 2))
    method = TSNE(
        # A perplexity is a number of neighbours: few points have few.
        perplexity=min(perplexity, (count - 1) / 3),
        early_exaggeration=_EXAGGERATION,
        # The usual rule, without the usual least of 50: that flings few points apart.
        learning_rate=count / _EXAGGERATION,  # type: ignore[arg-type]
        random_state=0,
    )
    # Sums of floats depend on how many threads share them.
    with threadpool_limits(1):
        return torch.as_tensor(method.fit_transform((away / spread).numpy())).to(x)


def place(x: Tensor, y: Tensor, more: Tensor) -> Tensor:
    """Places (m, 2) of further points (m, d) in a finished map y (n, 2) of points x.

    Each lies at the mean of its ten nearest neighbours' places, the nearer the heavier:
    so further points neither move the map nor each other.
    """
    nearest = KNeighborsRegressor(min(10, len(x)), weights="distance")
    places = nearest.fit(x.numpy(), y.numpy()).predict(more.numpy())
    return torch.as_tensor(places).to(y)

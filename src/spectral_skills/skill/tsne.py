"""Maps of points of many dimensions in the plane, by scikit-learn's PCA and t-SNE."""

import torch
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits
from torch import Tensor

MOST_POINTS = 4000
"""Largest number of points for t-SNE, which takes half a minute for them."""
_EXAGGERATION = 12.0
"""Factor of attraction between similar points at first."""


def pca(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Coordinates (n, k) of points (n, d) and the share (k,) of the variance of each.

    The largest component of every axis is positive, so that signs are reproducible.
    """
    if k > min(x.shape):
        count, size = x.shape
        raise ValueError(f"{k} components of {count} points in {size} dimensions")
    if (x == x[0]).all():  # there is no variance
        return x.new_zeros((len(x), k)), x.new_zeros(k)
    fit = PCA(k, svd_solver="full")
    places = torch.as_tensor(fit.fit_transform(x.double().numpy()))
    share = torch.as_tensor(fit.explained_variance_ratio_)
    return places.to(x.dtype), share.to(x.dtype)


def tsne(x: Tensor, perplexity: float = 30.0) -> Tensor:
    """Places (n, 2) in the plane of 4 to MOST_POINTS points (n, d)."""
    count = len(x)
    if not 4 <= count <= MOST_POINTS:
        raise ValueError(f"t-SNE of {count} points; 4 to {MOST_POINTS:,} are possible")
    if not x.isfinite().all():
        raise ValueError("t-SNE of points that are not finite")
    # Only relative distances count. They are taken from the first point, not the mean,
    # so that equal points have no spread at all instead of one from rounding.
    away = (x - x[0]).double()
    spread = away.abs().max()
    if spread == 0:
        return x.new_zeros((count, 2))
    method = TSNE(
        # A perplexity is a number of neighbours: few points have few.
        perplexity=min(perplexity, (count - 1) / 3),
        early_exaggeration=_EXAGGERATION,
        # The usual rule without its minimum of 50, which scatters few points.
        learning_rate=count / _EXAGGERATION,  # type: ignore[arg-type]
        random_state=0,
    )
    # Sums of floats depend on the number of threads.
    with threadpool_limits(1):
        return torch.as_tensor(method.fit_transform((away / spread).numpy())).to(x)


def place(x: Tensor, y: Tensor, more: Tensor) -> Tensor:
    """Places (m, 2) of further points (m, d) in a finished map y (n, 2) of points x.

    Each lies at the mean of the places of its ten nearest neighbours, weighted by their
    distance, so that further points move neither the map nor each other.
    """
    nearest = KNeighborsRegressor(min(10, len(x)), weights="distance")
    places = nearest.fit(x.numpy(), y.numpy()).predict(more.numpy())
    return torch.as_tensor(places).to(y)

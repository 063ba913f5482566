"""How far a skill is from the corpus: the distance to its nearest skill."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_QUERIES, _TILE = 1024, 16_384
"""Queries and skills of the bank in one matrix product."""


def nearest(
    bank: Tensor,
    queries: Tensor,
    bank_clips: Tensor | None = None,
    query_clips: Tensor | None = None,
) -> Tensor:
    """(q,) float64 distance of each query (q, d) to the nearest of the bank (n, d).

    With clips (n,) and (q,), to the nearest skill of another clip. Products in float32
    find the nearest skill, or one as near but for rounding; its distance is exact.
    """
    for name, skills in (("bank", bank), ("queries", queries)):
        if not len(skills) or skills.shape[1:] != bank.shape[1:]:
            raise ValueError(
                f"{name} of shape {tuple(skills.shape)}, bank {tuple(bank.shape)}: "
                "both must hold skills of one size"
            )
        if not skills.isfinite().all():
            raise ValueError(f"{name}: not all skills are finite")
    # Centred, norms are smaller and so is the rounding.
    centre = bank.double().mean(dim=0)
    b = (bank.double() - centre).float()
    norms = b.square().sum(dim=1)
    found = []
    for i in range(0, len(queries), _QUERIES):
        query = queries[i : i + _QUERIES].double()
        q = (query - centre).float()
        best = torch.full((len(q),), torch.inf, device=q.device)
        where = torch.zeros(len(q), dtype=torch.long, device=q.device)
        for start in range(0, len(b), _TILE):
            tile = slice(start, start + _TILE)
            square = torch.addmm(norms[tile], q, b[tile].T, alpha=-2)
            if bank_clips is not None and query_clips is not None:
                own = query_clips[i : i + _QUERIES, None] == bank_clips[tile]
                square = square.masked_fill(own, torch.inf)
            low, index = square.min(dim=1)
            where = torch.where(low < best, index + start, where)
            best = torch.minimum(low, best)
        if best.isinf().any():
            raise ValueError("all skills of the bank are of one clip; add another clip")
        found.append((query - bank[where].double()).norm(dim=1))
    return torch.cat(found)


@dataclass(frozen=True)
class Spread:
    """Distances from corpus skills to the nearest skill of another clip."""

    median: float
    p90: float
    p99: float
    n: int
    """Skills measured."""


def leave_one_clip_out(
    bank: Tensor, bank_clips: Tensor, count: int = 20_000, seed: int = 0
) -> Spread:
    """How far apart clips are: measured on `count` random skills against all others."""
    random = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(bank), generator=random)[:count].to(bank.device)
    distances = nearest(bank, bank[chosen], bank_clips, bank_clips[chosen])
    quantiles = np.quantile(distances.cpu().numpy(), (0.5, 0.9, 0.99))
    return Spread(*quantiles.tolist(), n=len(chosen))

"""Nearest skills, against brute force in double precision."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spectral_skills.spectral.support import leave_one_clip_out, nearest


def brute_force(bank, queries, bank_clips=None, query_clips=None) -> torch.Tensor:
    exactly = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(queries.double(), bank.double(), compute_mode=exactly)
    if bank_clips is not None and query_clips is not None:
        distance[query_clips[:, None] == bank_clips] = torch.inf
    return distance.amin(dim=1)


@given(
    n=st.integers(1, 300),
    q=st.integers(1, 20),
    shift=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 1000),
)
def test_nearest_is_brute_force(n, q, shift, seed):
    """Whatever the sizes and however far from zero the skills are."""
    random = torch.Generator().manual_seed(seed)
    bank = shift + torch.randn((n, 8), generator=random)
    queries = shift + torch.randn((q, 8), generator=random)
    # A query that is in the bank, and one next to it: where float32 cancels.
    queries[0] = bank[-1]
    queries[-1] = bank[0] + 1e-5
    expected = brute_force(bank, queries)
    torch.testing.assert_close(nearest(bank, queries), expected, rtol=1e-4, atol=2e-3)


def test_nearest_in_many_tiles_is_brute_force():
    """At the size of a skill, with more queries and skills than one product takes."""
    random = torch.Generator().manual_seed(0)
    bank = 0.8 * torch.randn((20_000, 64), generator=random)
    queries = 0.8 * torch.randn((1100, 64), generator=random)
    expected = brute_force(bank, queries)
    torch.testing.assert_close(nearest(bank, queries), expected, rtol=1e-6, atol=0)


@given(clips=st.integers(2, 40), n=st.integers(2, 150), seed=st.integers(0, 1000))
def test_leaving_a_clip_out_never_matches_itself(clips, n, seed):
    """However skills of the clips are mixed, none is its own neighbour."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(clips, (n,), generator=random)
    labels[:2] = torch.tensor([0, 1])
    bank = torch.randn((n, 4), generator=random)
    queries = bank[:20], labels[:20]
    found = nearest(bank, queries[0], labels, queries[1])
    expected = brute_force(bank, queries[0], labels, queries[1])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
    assert (found > 0).all()


def test_the_spread_of_a_bank_with_known_distances():
    """Clips at 0, 1, 3, 6, ... on a line: each is nearest to its smaller gap."""
    places = torch.cumsum(torch.arange(101.0), 0)
    bank = places.repeat_interleave(3)[:, None] * torch.tensor([[0.6, 0.8]])
    labels = torch.arange(101).repeat_interleave(3)
    spread = leave_one_clip_out(bank, labels)
    gaps = np.repeat([1, *range(1, 101)], 3)
    expected = np.quantile(gaps, (0.5, 0.9, 0.99))
    found = (spread.median, spread.p90, spread.p99)
    assert found == pytest.approx(expected, rel=1e-5)
    assert spread.n == 303
    few = leave_one_clip_out(bank, labels, count=50)
    assert few.n == 50 and few == leave_one_clip_out(bank, labels, count=50)
    assert few != leave_one_clip_out(bank, labels, count=50, seed=1)


def test_impossible_banks_say_why():
    """One clip alone, other sizes, and what is not a number."""
    bank, one = torch.randn(10, 4), torch.zeros(10)
    with pytest.raises(ValueError, match="of one clip"):
        leave_one_clip_out(bank, one)
    with pytest.raises(ValueError, match=r"queries of shape \(10, 3\)"):
        nearest(bank, bank[:, :3])
    with pytest.raises(ValueError, match="bank of shape"):
        nearest(bank[:0], bank)
    with pytest.raises(ValueError, match="queries: not all skills are finite"):
        nearest(bank, bank * torch.nan)

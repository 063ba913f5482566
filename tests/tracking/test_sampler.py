"""Probabilities by hand, draws that follow them, counts where things happened."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills.tracking import sampler as module
from spectral_skills.tracking.sampler import AdaptiveSampler, SamplerConfig

PLAIN = SamplerConfig(bin=10, uniform=((0, 0.5),), lead=0, rate_cap=None, clip_cap=None)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(lengths: list[int], config: SamplerConfig = PLAIN) -> AdaptiveSampler:
    return AdaptiveSampler(config, torch.tensor(lengths), "cpu")


def book(sampler: AdaptiveSampler, clip: int, frame: int, steps: int, failed: int):
    """Robots at one frame, some of which fail there."""
    for i in range(steps):
        sampler.book(
            torch.tensor([clip]), torch.tensor([frame]), torch.tensor([i < failed])
        )


def close(found: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.double))


def test_uniform_over_clips_or_over_frames():
    """Clips of 30, 10 and 5 frames: bins of 10, 10, 10 | 10 | 5."""
    w = [10 / 3, 10 / 3, 10 / 3, 10, 5]
    close(make([30, 10, 5]).probabilities, [x / 25 for x in w])
    frames = make([30, 10, 5], replace(PLAIN, per_clip=False))
    close(frames.probabilities, [10 / 45] * 4 + [5 / 45])


def test_probabilities_by_hand():
    """Clips of 20 and 15 frames: bins of 10, 10 | 10, 5.

    In bin 1 ten steps (one pass) with both failures of a robot pair: F = 1 + 2, N = 2,
    r = 1.5. In bin 3 five steps are one pass: N = 2, F = 1, r = 0.5. The others are 1.
    With u = 1/2: share = r / 8 + 1/8 = [2, 2.5, 2, 1.5] / 8, and w = 5, 5, 5, 2.5.
    """
    sampler = make([20, 15])
    book(sampler, clip=0, frame=12, steps=10, failed=2)
    book(sampler, clip=1, frame=14, steps=5, failed=0)
    sampler.refresh(0)
    p = [2 * 5, 2.5 * 5, 2 * 5, 1.5 * 2.5]
    close(sampler.probabilities, [x / sum(p) for x in p])


def test_failures_are_booked_where_they_happened():
    """The first and the last frame of every bin belong to it, and to nobody else."""
    for clip, frame, expected in (
        *((0, 0, 0), (0, 9, 0), (0, 10, 1), (0, 24, 2)),
        *((1, 0, 3), (1, 9, 3), (2, 0, 4), (2, 1, 4)),
    ):
        sampler = make([25, 10, 2])
        book(sampler, clip, frame, steps=1, failed=1)
        sampler.refresh(0)
        failures = sampler.tensors()["failures"] - 1
        assert failures.nonzero().flatten().tolist() == [expected]
        assert failures[expected] == 1
        length = (10, 10, 5, 10, 2)[expected]
        assert sampler.tensors()["visits"][expected] == pytest.approx(1 + 1 / length)


def test_many_robots_in_one_bin_all_count():
    sampler = make([40])
    clips = torch.zeros(1000, dtype=torch.long)
    frames = torch.arange(1000) % 40
    sampler.book(clips, frames, frames < 5)
    sampler.refresh(0)
    close(sampler.tensors()["failures"], [1 + 5 * 25, 1, 1, 1])
    close(sampler.tensors()["visits"], [26.0] * 4)


def test_draws_follow_the_probabilities():
    """Chi-square over frames: uniform inside a bin, bins by their probabilities."""
    sampler = make([25, 10, 2, 1], replace(PLAIN, uniform=((0, 0.1),)))
    book(sampler, clip=0, frame=3, steps=3, failed=3)
    sampler.refresh(0)
    n = 200_000
    clips, frames = sampler.draw(n)
    assert clips.dtype == frames.dtype == torch.long
    counts = torch.bincount(clips * 25 + frames, minlength=100).double()
    expected = torch.zeros(100, dtype=torch.double)
    sizes = [(0, 0, 10), (0, 10, 10), (0, 20, 5), (1, 0, 10), (2, 0, 2)]
    for (clip, start, size), p in zip(sizes, sampler.probabilities, strict=False):
        here = clip * 25 + start
        expected[here : here + size] = n * p / size
    # No start at a last frame: those draws go to the frame before.
    for clip, last in ((0, 24), (1, 9), (2, 1)):
        expected[clip * 25 + last - 1] += expected[clip * 25 + last]
        expected[clip * 25 + last] = 0
    possible = expected > 0
    assert counts[~possible].sum() == 0
    chi = ((counts - expected).square() / expected)[possible].sum()
    # 34 frames are possible: mean 33, deviation 8.1.
    assert chi < 33 + 5 * math.sqrt(2 * 33)


def test_a_clip_of_one_frame_is_never_drawn():
    """First, last and in the middle; even when all it has is failures."""
    sampler = make([1, 30, 1, 2, 1])
    book(sampler, clip=2, frame=0, steps=5, failed=5)
    sampler.refresh(0)
    clips, frames = sampler.draw(20_000)
    assert set(clips.tolist()) == {1, 3}
    assert frames[clips == 3].max() == 0
    assert sampler.probabilities.sum().item() == pytest.approx(1.0)
    assert all(math.isfinite(value) for value in sampler.refresh(0).values())


def test_a_draw_of_zero_is_a_draw(monkeypatch):
    """Zero is below every sum but those of bins that have no probability."""
    sampler = make([1, 30])
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.zeros(shape))
    clips, frames = sampler.draw(2)
    assert clips.tolist() == [1, 1] and frames.tolist() == [0, 0]


@pytest.mark.parametrize("lengths", [[], [1], [0, 1, 1]])
def test_nothing_to_track_is_refused(lengths):
    with pytest.raises(ValueError, match="two frames"):
        make(lengths)


def test_the_lead_goes_back_from_the_drawn_frame():
    """One bin draws frames 100..149; 0 to 40 earlier is 60..149, and a triangle."""
    config = replace(PLAIN, bin=50, lead=40, uniform=((0, 0.0),))
    sampler = make([200], config)
    state = sampler.tensors()
    state["failures"] = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.double)
    sampler.load(state)
    _, frames = sampler.draw(50_000)
    assert frames.min() == 60 and frames.max() == 149
    assert frames.double().mean().item() == pytest.approx(124.5 - 20, abs=0.3)


def test_the_lead_stops_at_the_start():
    _, frames = make([50], replace(PLAIN, bin=50, lead=200)).draw(10_000)
    assert frames.min() == 0
    # 201 leads and 50 frames: a draw stays above 0 with 49 x 50 / 2 of 201 x 50.
    positive = (frames > 0).double().mean().item()
    assert positive == pytest.approx(49 * 50 / 2 / (201 * 50), abs=0.015)


def test_the_rate_cap_is_in_means():
    """Rates 9 (bin 0), 1, 1, 1: mean 3; a cap of 2 makes the first 6."""
    config = replace(PLAIN, uniform=((0, 0.0),), rate_cap=2.0)
    sampler = make([40], config)
    state = sampler.tensors()
    state["failures"][0] = 9.0
    sampler.load(state)
    close(sampler.probabilities, [6 / 9, 1 / 9, 1 / 9, 1 / 9])


def test_the_clip_cap_is_in_uniform_shares():
    """Four clips with rates 5, 1, 1, 1: 5/8 is cut to 1.5 x 1/4, then once to sum 1."""
    config = replace(PLAIN, uniform=((0, 0.0),), clip_cap=1.5)
    sampler = make([10, 10, 10, 10], config)
    state = sampler.tensors()
    state["failures"][0] = 5.0
    sampler.load(state)
    close(sampler.probabilities, [3 / 6, 1 / 6, 1 / 6, 1 / 6])
    assert sampler.refresh(0)["sampler_largest"] == pytest.approx(2.0)


def test_caps_keep_draws_from_collapsing():
    """A bin that always fails among 10,000 that never do, late in training."""
    lengths = torch.full((1000,), 500)
    shares = {}
    for name, caps in (("sonic", (200.0, None)), ("ours", (10.0, 5.0))):
        ramp = (0, 0.8), (1, 0.2)
        config = SamplerConfig(rate_cap=caps[0], clip_cap=caps[1], uniform=ramp)
        sampler = AdaptiveSampler(config, lengths, "cpu")
        state = sampler.tensors()
        state["visits"] += 1000
        state["failures"][4321] += 1000
        sampler.load(state)
        shares[name] = sampler.refresh(10)["sampler_largest"]
    assert shares["sonic"] > 10 and shares["ours"] < 2
    assert SamplerConfig().rate_cap == 10.0 and SamplerConfig().clip_cap == 5.0


def test_entropy_is_one_when_uniform_and_zero_when_collapsed():
    """Also for bins and clips of different sizes."""
    config = replace(PLAIN, uniform=((0, 1.0), (100, 0.0)))
    sampler = make([35, 20, 7, 1], config)
    figures = sampler.refresh(0)
    assert figures["sampler_entropy"] == pytest.approx(1.0)
    sampler = make([40], config)
    state = sampler.tensors()
    state["failures"] = torch.tensor([1.0, 0, 0, 0], dtype=torch.double)
    sampler.load(state)
    assert sampler.refresh(100)["sampler_entropy"] == pytest.approx(0.0)
    # Half in one of four bins, half spread: H = 5/8 log 8/5 + 3/8 log 8.
    entropy = 5 / 8 * math.log(8 / 5) + 3 / 8 * math.log(8)
    figures = sampler.refresh(50)
    assert figures["sampler_entropy"] == pytest.approx(entropy / math.log(4))
    assert figures["sampler_largest"] == pytest.approx(1.0)


def test_the_uniform_share_goes_down_a_ramp():
    """Or down two with a landing between them; before and after them it stays."""
    one, two = (0, 0.8), (1000, 0.2)
    stairs = (100, 0.8), (200, 0.5), (600, 0.5), (800, 0.2)
    for points, shares in (
        ((one, two), ((0, 0.8), (500, 0.5), (1000, 0.2), (5000, 0.2))),
        (stairs, ((0, 0.8), (150, 0.65), (400, 0.5), (700, 0.35), (900, 0.2))),
    ):
        sampler = make([100], SamplerConfig(uniform=points))
        for frames, share in shares:
            sampler.refresh(frames)
            assert sampler.uniform_share() == pytest.approx(share)


def test_starts_can_be_uniform_whatever_fails():
    """Over clips, and over the frames of each; all but the last can be a start."""
    sampler = make([300, 100], SamplerConfig(uniform=((0, 1.0),), lead=0))
    book(sampler, 0, 170, steps=50, failed=50)
    sampler.refresh(10**9)
    clips, frames = sampler.draw(40_000)
    assert (clips == 0).float().mean().item() == pytest.approx(0.5, abs=0.01)
    for clip, length in ((0, 300), (1, 100)):
        seen = torch.bincount(frames[clips == clip], minlength=length)
        assert len(seen) == length and seen[-1] == 0
        per_frame = int((clips == clip).sum()) / length
        assert (seen[:-2] - per_frame).abs().max() < 6 * math.sqrt(per_frame)


def test_counts_can_fade():
    """After one half life what was counted weighs half; the first one stays."""
    sampler = make([10], replace(PLAIN, half_life=100))
    book(sampler, 0, 0, steps=40, failed=8)
    sampler.refresh(0)
    sampler.refresh(100)
    close(sampler.tensors()["failures"], [1 + 4])
    close(sampler.tensors()["visits"], [1 + 2])


def test_two_ranks_make_one(monkeypatch):
    """Each books half of the robots; both end with the counts of all."""
    lengths = [35, 20, 7]
    ranks = [make(lengths), make(lengths)]
    alone = make(lengths)
    for frames_done in (5, 7):  # what was merged must not be merged again
        booked = torch.zeros(2, 7, dtype=torch.double)
        for sampler in ranks:
            clips = torch.randint(0, 3, (50,))
            frames = (torch.rand(50) * torch.tensor(lengths)[clips]).long()
            failed = torch.rand(50) < 0.3
            sampler.book(clips, frames, failed)
            alone.book(clips, frames, failed)
            bins = torch.tensor([0, 4, 6])[clips] + frames // 10
            booked[0] += torch.bincount(bins[failed], minlength=7)
            booked[1] += torch.bincount(bins, minlength=7)
        expected = alone.refresh(frames_done)
        with monkeypatch.context() as patch:
            patch.setattr(module, "all_reduce_sum", lambda mine, all=booked: all)
            assert [sampler.refresh(frames_done) for sampler in ranks] == [expected] * 2
    for sampler in ranks:
        for name, values in alone.tensors().items():
            assert torch.equal(sampler.tensors()[name], values), name
        assert torch.equal(sampler.probabilities, alone.probabilities)


def test_save_and_load():
    config = SamplerConfig(bin=10, uniform=((0, 0.8), (100, 0.2)))
    sampler = make([35, 20, 7], config)
    book(sampler, 1, 12, steps=4, failed=3)
    sampler.refresh(30)
    state = sampler.tensors()
    other = make([35, 20, 7], config)
    book(other, 0, 0, steps=1, failed=1)  # forgotten
    other.load(state)
    assert torch.equal(other.probabilities, sampler.probabilities)
    assert other.refresh(60) == sampler.refresh(60)
    # A saved state is no window on a living one.
    assert state["frames_done"] == 30
    for lengths, size in (([35, 20, 8], 10), ([35, 20, 7], 5)):
        with pytest.raises(ValueError, match="other clips or bins"):
            make(lengths, SamplerConfig(bin=size)).load(state)


def test_a_million_bins():
    """float32 would leave gaps of 16 bins at the end of the cumulative sum."""
    lengths = torch.full((20_000,), 2500)
    sampler = AdaptiveSampler(replace(PLAIN, bin=50), lengths, "cpu")
    assert len(sampler.probabilities) == 1_000_000
    clips, frames = sampler.draw(1_000_000)
    bins = (clips * 50 + frames // 50)[clips >= 19_000]
    # Of 50,000 bins, drawn once each on average, 1/e stay empty.
    empty = 1 - len(bins.unique()) / 50_000
    assert empty == pytest.approx(math.exp(-1), abs=0.01)


def test_config_round_trip_and_bad_values():
    config = SamplerConfig(rate_cap=None, half_life=5)
    assert configs.loads(SamplerConfig, configs.dumps(config)) == config
    with pytest.raises(ValueError, match="rate_cap"):
        SamplerConfig(rate_cap=0.5)
    with pytest.raises(ValueError, match="a share is not within 0 and 1"):
        SamplerConfig(uniform=((0, 1.5),))
    for points in ((), ((5, 0.5), (5, 0.2)), ((-1, 0.5),)):
        with pytest.raises(ValueError, match="with frames that grow"):
            SamplerConfig(uniform=points)


def test_compiles_to_one_graph_and_sees_new_probabilities():
    """Draws and counts of a compiled step, before and after a refresh."""
    sampler = make([10, 10], replace(PLAIN, uniform=((0, 0.0),)))

    def step(failed: Tensor):
        clips, frames = sampler.draw(len(failed))
        sampler.book(clips, frames, failed & (clips == 1))
        return clips, frames

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    clips, _ = compiled(torch.ones(4000, dtype=torch.bool))
    assert clips.float().mean().item() == pytest.approx(0.5, abs=0.05)
    sampler.refresh(0)
    failures, visits = (sampler.tensors()[name] for name in ("failures", "visits"))
    close(failures, [1.0, 1.0 + (clips == 1).sum().item()])
    close(visits, [1 + (clips == i).sum().item() / 10 for i in (0, 1)])
    clips, _ = compiled(torch.ones(4000, dtype=torch.bool))
    assert clips.float().mean().item() > 0.99

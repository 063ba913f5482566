"""The map of a skill space: PCA, t-SNE, and labels that can be read."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from threadpoolctl import threadpool_limits

from spectral_skills.experiments.neighbours import place_on_map, tsne
from spectral_skills.motion.motion_sets import KINDS
from spectral_skills.plots import charts, skills
from spectral_skills.plots.skills import _by_kind, draw_map, pca
from spectral_skills.skill.encoder import SkillBank


def blobs(count: int, distance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Three Gaussian blobs (count, 16), and which one each point is of."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 3
    noise = torch.randn((count, 16), generator=generator)
    return noise + distance * torch.eye(16)[labels], labels


def test_pca_is_the_svd():
    x = torch.randn((50, 8), generator=torch.Generator().manual_seed(1)) * torch.arange(
        8
    )
    places, share = pca(x, 3)
    u, s, _ = torch.linalg.svd(x - x.mean(dim=0), full_matrices=False)
    torch.testing.assert_close(places.abs(), (u * s)[:, :3].abs(), atol=1e-4, rtol=0)
    torch.testing.assert_close(share, (s.square() / s.square().sum())[:3])
    assert torch.equal(places, pca(x, 3)[0])
    with pytest.raises(ValueError, match="3 components of 2 points"):
        pca(x[:2], 3)


def test_tsne_keeps_blobs_apart():
    """The nearest dot is of the same blob, for every dot."""
    x, labels = blobs(150, distance=20)
    y = tsne(x)
    distance = torch.cdist(y, y).fill_diagonal_(torch.inf)
    assert y.shape == (150, 2)
    assert torch.equal(labels[distance.argmin(dim=1)], labels)


def test_tsne_does_the_same_again():
    """However many threads there are, and whatever the random numbers before."""
    x, _ = blobs(60, distance=5)
    y = tsne(x)
    torch.manual_seed(1)
    np.random.seed(1)
    with threadpool_limits(2):
        assert torch.equal(tsne(x), y)


def test_further_points_lie_among_their_neighbours():
    """In their own blob, wherever the others are; the map itself does not move."""
    x, labels = blobs(150, distance=20)
    y, more = tsne(x), x[:9] + 0.1
    places = place_on_map(x, y, more)
    assert torch.equal(labels[torch.cdist(places, y).argmin(dim=1)], labels[:9])
    torch.testing.assert_close(place_on_map(x, y, more[4:5]), places[4:5])


@pytest.mark.parametrize(
    "points",
    [
        torch.full((6, 4), 0.1),  # its mean is not 0.1 in floats
        torch.eye(4),
        torch.eye(4)[:, :2],
        1e-30 * torch.eye(4),
        torch.arange(5.0)[:, None].expand(5, 3),
    ],
)
def test_maps_of_hardly_anything(points):
    """As few points as there can be, equal ones and those on a line give numbers, and
    none flies far from the others."""
    y = tsne(points)
    assert y.isfinite().all() and y.abs().max() < 300
    places, share = pca(points, 2)
    assert places.isfinite().all() and share.isfinite().all()
    assert place_on_map(points, y, points + 0.5).isfinite().all()


def test_equal_points_stay_together():
    """And apart from the others; a further point that is one of them lies on it."""
    x = torch.eye(6)[[0, 0, 0, 0, 0, 3, 4, 4]]
    y = tsne(x)
    distance = torch.cdist(y.double(), y.double())
    same = (x[:, None] == x).all(dim=-1)
    assert distance[same].max() < 0.01 * distance[~same].min()
    torch.testing.assert_close(place_on_map(x, y, x[5:6]), y[5:6])


def test_tsne_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="t-SNE of 3 points; 4 to 4,000"):
        tsne(torch.zeros((3, 5)))
    with pytest.raises(ValueError, match="not finite"):
        tsne(torch.full((9, 5), torch.nan))


def test_rare_kinds_share_the_grey():
    """Nine kinds have colours, the most common first; each names its densest place."""
    kinds = [name for i, name in enumerate(KINDS) for _ in range(i + 1)]
    places = np.random.default_rng(0).normal(size=(len(kinds), 2))
    other, *common = _by_kind(places, kinds)
    assert other.role == "behind" and not any(other.marks) and len(common) == 9
    assert common[0].name.startswith(KINDS[-2]) and len(common[0].x) == len(KINDS) - 1
    for series in common:
        (name,) = filter(None, series.marks)
        assert series.name.startswith(name)
    assert sum(len(one.x) for one in (other, *common)) == len(kinds)


def fake_corpus(kinds: list[str]):
    """Only what a map asks a corpus for."""
    entries = [SimpleNamespace(name=name, text="") for name in kinds]
    return SimpleNamespace(entry=entries.__getitem__, hours=0.5)


@pytest.mark.parametrize("count", [4, 90])
def test_the_map_is_written(count, tmp_path):
    x, labels = blobs(count, distance=9)
    corpus = fake_corpus([("walk", "jump", "tidy")[i] for i in labels])
    # Two skills a clip.
    clips = torch.arange(count).repeat_interleave(2)
    bank = SkillBank(x.repeat_interleave(2, dim=0), clips, torch.zeros_like(clips))
    draw_map(corpus, bank, tmp_path / "map.png")  # type: ignore[arg-type]
    with Image.open(tmp_path / "map.png") as image:
        image.load()
        assert image.size == (1600, 940)
        assert len(np.unique(np.asarray(image.convert("L")))) > 50


def test_of_too_many_clips_some_are_drawn(tmp_path, monkeypatch):
    """And the picture says so."""
    said = []
    monkeypatch.setattr(skills, "MOST_POINTS", 12)
    plain = charts.sheet

    def sheet(height_px, title, subtitle):
        said.append(subtitle)
        return plain(height_px, title, subtitle)

    monkeypatch.setattr(charts, "sheet", sheet)
    x, labels = blobs(30, distance=9)
    corpus = fake_corpus([("walk", "jump", "run")[i] for i in labels])
    bank = SkillBank(x, torch.arange(30), torch.zeros(30))
    draw_map(corpus, bank, tmp_path / "map.png")  # type: ignore[arg-type]
    assert "12 of 30 clips, 30 skills, 0.50 h" in said[0]
    assert "(paper 0.80)" in said[0]

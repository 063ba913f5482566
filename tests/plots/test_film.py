"""Films of rollouts: as long as they should be, small, and of what happened."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_skills.control.rollout import Rollout
from spectral_skills.plots import film
from spectral_skills.plots.film import (
    Still,
    gif_bytes,
    paired_rows,
    webp_bytes,
    write_film,
    write_strip,
)
from spectral_skills.robot import g1

pytestmark = pytest.mark.usefixtures("coarse_pictures")


def _record(frames: int, broken_from: int | None = None) -> Rollout:
    """A robot that stands 0.1 m beside its reference."""
    reference = torch.tensor(g1.DEFAULT_QPOS).float().repeat(frames + 5, 1, 1)
    robot = reference.clone()
    robot[..., 1] += 0.1
    if broken_from is not None:
        robot[broken_from:] = torch.nan
    return Rollout(
        robot=robot,
        reference=reference,
        lengths=torch.tensor([frames]),
        names=("stand",),
    )


def test_what_counts_is_drawn():
    """As many rows as the clip has, and a broken robot stays where it was."""
    robot, reference = paired_rows(_record(20, broken_from=7), 0)
    assert reference is not None
    assert len(robot) == len(reference) == 20
    assert np.isfinite(robot).all()
    assert (robot[7:] == robot[6]).all()
    assert robot[:, 1] - reference[:, 1] == pytest.approx(0.1)


def test_a_film_lasts_as_long_as_the_rollout(tmp_path, monkeypatch):
    """20 frames at 50 Hz are 7 pictures of 60 ms; 0.2 s are 4."""
    monkeypatch.setattr(film, "SIZE", (64, 48))
    for most_s, count in ((None, 7), (0.2, 4)):
        gif = write_film(_record(20), tmp_path / "stand", most_s=most_s)[0]
        assert gif == tmp_path / "stand.gif"
        with Image.open(gif) as image:
            # Pictures that do not differ are one that lasts longer.
            total = 0
            for number in range(getattr(image, "n_frames", 1)):
                image.seek(number)
                total += image.info["duration"]
            assert image.size == (64, 48) and total == 60 * count
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_pictures_show_time_and_error(monkeypatch, tmp_path):
    """Captions are drawn, and say how far the robot is from its reference."""
    captions = []
    plain = film.captioned

    def captioned(picture: np.ndarray, title: str, text: str) -> np.ndarray:
        captions.append((title, text))
        drawn = plain(picture, title, text)
        assert (drawn != picture).any()
        return drawn

    monkeypatch.setattr(film, "SIZE", (160, 112))
    monkeypatch.setattr(film, "captioned", captioned)
    write_film(_record(8, broken_from=6), tmp_path / "stand")
    assert captions == [
        ("stand  0.00 s", "blue: reference   link error 0 mm   drift 100 mm"),
        ("stand  0.06 s", "blue: reference   link error 0 mm   drift 100 mm"),
        ("stand  0.12 s", "blue: reference   link error -   drift -"),
    ]


def test_a_large_film_is_made_smaller(monkeypatch):
    """Noise cannot be packed, so scale and colours go down."""
    noise = np.random.default_rng(0).integers(0, 255, (6, 90, 120, 3), np.uint8)
    large = gif_bytes(list(noise), 20.0)
    monkeypatch.setattr(film, "LARGEST_GIF", len(large) // 3)
    small = gif_bytes(list(noise), 20.0)
    assert len(small) < len(large) // 3
    with Image.open(io.BytesIO(small)) as image:
        assert image.size < (120, 90)


def test_a_webp_fits_its_size():
    """By its quality alone: the size of the picture stays."""
    noise = np.random.default_rng(0).integers(0, 255, (6, 90, 120, 3), np.uint8)
    large = webp_bytes(list(noise), 0.1, 10**9)
    small = webp_bytes(list(noise), 0.1, len(large) * 2 // 3)
    assert len(small) <= len(large) * 2 // 3
    with Image.open(io.BytesIO(small)) as image:
        assert image.size == (120, 90)


def test_a_strip_shows_robot_and_ghost(tmp_path, monkeypatch):
    """Blue of the ghost is in every panel."""
    monkeypatch.setattr(film, "PANELS", 2)
    write_strip(_record(20), tmp_path / "stand.png")
    with Image.open(tmp_path / "stand.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    blue = (pixels[..., 2] - pixels[..., 0]) > 25
    half = pixels.shape[1] // 2
    assert blue[:, :half].sum() > 50 and blue[:, half:].sum() > 50


def test_a_rollout_without_reference_shows_the_robot_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "SIZE", (64, 48))
    monkeypatch.setattr(film, "PANELS", 1)
    alone = replace(_record(5), reference=None)
    assert paired_rows(alone, 0)[1] is None
    assert write_film(alone, tmp_path / "stand")[0].is_file()
    write_strip(alone, tmp_path / "stand.png")
    with Image.open(tmp_path / "stand.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert ((pixels[..., 2] - pixels[..., 0]) > 25).sum() < 20  # no blue ghost


def test_the_camera_is_as_near_as_a_robot_allows():
    """A robot that stands fills a narrow panel; one that lies down is not cut off."""
    rows = np.tile(g1.DEFAULT_QPOS, (3, 1))
    rolls = [n for n, joint in enumerate(g1.JOINTS) if "shoulder_roll" in joint]
    rows[1, 7 + np.array(rolls)] = 1.5, -1.5
    rows[2, 2:7] = 0.15, 0.5, -0.5, 0.5, 0.5
    standing_m, spread_m, lying_m = film.width_m(rows, film.sight_deg(rows[:1]))
    assert standing_m < 1.1
    assert spread_m > standing_m + 0.2
    assert lying_m > 1.4


def test_a_strip_has_a_row_per_motion(tmp_path):
    """Two motions make a picture about twice as tall as one."""
    rows, heights = np.tile(g1.DEFAULT_QPOS, (9, 1)), []
    for count in (1, 2):
        motions = [Still.spread(rows, 2, f"clip_{i}") for i in range(count)]
        film.strip(tmp_path / "grid.png", motions)
        with Image.open(tmp_path / "grid.png") as image:
            heights.append(image.height)
            assert image.width == 1600
    assert 1.6 < heights[1] / heights[0] < 2.0
    with pytest.raises(ValueError, match="no motions"):
        film.strip(tmp_path / "x.png", [])

"""Films of rollouts: as long as they should be, small, and of what happened."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_skills.control.rollout import Rollout
from spectral_skills.plots import rollout_film
from spectral_skills.plots.rollout_film import film, gif_bytes, motions, strip
from spectral_skills.robot import g1


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
    robot, reference = motions(_record(20, broken_from=7), 0)
    assert len(robot) == len(reference) == 20
    assert np.isfinite(robot).all()
    assert (robot[7:] == robot[6]).all()
    assert robot[:, 1] - reference[:, 1] == pytest.approx(0.1)


def test_a_film_lasts_as_long_as_the_rollout(tmp_path, monkeypatch):
    """20 frames at 50 Hz are 7 pictures of 60 ms; 0.2 s are 4."""
    monkeypatch.setattr(rollout_film, "SIZE", (64, 48))
    for most_s, count in ((None, 7), (0.2, 4)):
        gif = film(_record(20), tmp_path / "stand", most_s=most_s)[0]
        assert gif == tmp_path / "stand.gif"
        with Image.open(gif) as image:
            # Pictures that do not differ are one that lasts longer.
            total = 0
            for number in range(getattr(image, "n_frames", 1)):
                image.seek(number)
                total += image.info["duration"]
            assert image.size == (64, 48) and total == 60 * count
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_pictures_tell_time_and_error(monkeypatch):
    """Captions are drawn, and say how far the robot is from its reference."""
    told = []
    plain = rollout_film.captioned

    def captioned(picture: np.ndarray, title: str, text: str) -> np.ndarray:
        told.append((title, text))
        drawn = plain(picture, title, text)
        assert (drawn != picture).any()
        return drawn

    monkeypatch.setattr(rollout_film, "SIZE", (160, 112))
    monkeypatch.setattr(rollout_film, "captioned", captioned)
    rollout_film.pictures(_record(8, broken_from=6))
    assert told == [
        ("stand  0.00 s", "blue: reference   link error 0 mm   drift 100 mm"),
        ("stand  0.06 s", "blue: reference   link error 0 mm   drift 100 mm"),
        ("stand  0.12 s", "blue: reference   link error -   drift -"),
    ]


def test_a_large_film_is_made_smaller(monkeypatch):
    """Noise cannot be packed, so scale and colours go down."""
    noise = np.random.default_rng(0).integers(0, 255, (6, 90, 120, 3), np.uint8)
    large = gif_bytes(list(noise), 20.0)
    monkeypatch.setattr(rollout_film, "LARGEST_GIF", len(large) // 3)
    small = gif_bytes(list(noise), 20.0)
    assert len(small) < len(large) // 3
    with Image.open(io.BytesIO(small)) as image:
        assert image.size < (120, 90)


def test_a_strip_shows_robot_and_ghost(tmp_path):
    """Blue of the ghost is in every panel."""
    strip(_record(20), tmp_path / "stand.png", panels=2)
    with Image.open(tmp_path / "stand.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    blue = (pixels[..., 2] - pixels[..., 0]) > 50
    half = pixels.shape[1] // 2
    assert blue[:, :half].sum() > 50 and blue[:, half:].sum() > 50


def test_a_rollout_without_reference_is_refused():
    """By the name of its clip."""
    alone = replace(_record(5), reference=None)
    with pytest.raises(ValueError, match="stand: no reference"):
        motions(alone, 0)

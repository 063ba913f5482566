"""A steered run beside its base: a looping clip, and a strip of stills for paper."""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.findings import RECORDS, Film
from spectral_skills.motion.corpus import FPS
from spectral_skills.plots import ink
from spectral_skills.plots.film import sight_deg, unbroken
from spectral_skills.robot.render import Camera, RobotRenderer

SIZE = (320, 288)
"""Of the picture of one robot, px."""
LONGEST_S = 6.0
"""Longer runs are played faster."""
PICTURE_S = 0.1
STILLS = 6
_QUALITIES = (65, 45, 30, 15)


class Studio:
    """Draws films; what was drawn of a base is kept for its other films."""

    def __init__(self, largest: int):
        """`largest` is how many bytes a film may have."""
        self.largest = largest
        self._bases: dict[tuple, list[Image.Image]] = {}

    def film(self, film: Film, folder: Path) -> tuple[bytes, bytes, float]:
        """A clip and a strip, both WebP, and how much faster the clip is played."""
        run, base = (_read(folder / RECORDS / name) for name in (film.run, film.base))
        seconds = (min(len(run), len(base)) - 1) / FPS
        faster = max(1.0, seconds / LONGEST_S)
        count = max(1, round(seconds / faster / PICTURE_S))
        frames = np.linspace(0, round(seconds * FPS), count).round().astype(int)
        sight = sight_deg(base)
        key = (folder, film.base, int(frames[-1]))
        if key not in self._bases:
            self._bases[key] = _pictures(base, frames, sight, "base")
        pairs = self._bases[key], _pictures(run, frames, sight, "steered")
        shown = [_side_by_side(pair) for pair in zip(*pairs, strict=True)]
        return self._clip(shown), _strip(pairs), faster

    def _clip(self, shown: list[Image.Image]) -> bytes:
        """As good as its size allows."""
        data = b""
        for quality in _QUALITIES:
            out = io.BytesIO()
            shown[0].save(
                out,
                format="WEBP",
                save_all=True,
                append_images=shown[1:],
                duration=round(1000 * PICTURE_S),
                loop=0,
                quality=quality,
            )
            data = out.getvalue()
            if len(data) <= self.largest:
                break
        return data


def _read(path: Path) -> np.ndarray:
    """(T + 1, 36) of a record; where the simulation broke the robot stays."""
    if not path.is_file():
        raise ValueError(f"the record {path.name} is missing")
    try:
        rows = Rollout.load(path).robot[:, 0].astype(float)
    except (OSError, ValueError) as error:
        raise ValueError(f"the record {path.name} is damaged ({error})") from error
    if not np.isfinite(rows[0]).all():
        raise ValueError(f"the record {path.name} is broken from its first row on")
    return unbroken(rows)


def _pictures(
    rows: np.ndarray, frames: np.ndarray, sight: float, name: str
) -> list[Image.Image]:
    """Pictures that follow a robot without turning with it."""
    # The camera does not sway with every step.
    half = FPS // 2
    padded = np.pad(rows[:, :2], ((half, half), (0, 0)), mode="edge")
    window = np.ones(2 * half + 1) / (2 * half + 1)
    middle = np.stack([np.convolve(c, window, "valid") for c in padded.T], axis=1)
    font = ImageFont.load_default(SIZE[1] / 21)
    drawn = []
    with RobotRenderer(*SIZE, film=True) as renderer:
        for frame in frames.tolist():
            x, y = middle[frame].tolist()
            camera = Camera((x, y, 0.76), 4.3, sight, fovy_deg=24.0)
            image = Image.fromarray(renderer.draw(rows[frame], camera))
            told = f"{name}  {frame / FPS:.1f} s"
            ImageDraw.Draw(image).text((10, 8), told, ink.INK, font)
            drawn.append(image)
    return drawn


def _side_by_side(images: tuple[Image.Image, ...]) -> Image.Image:
    width, height = images[0].size
    sheet = Image.new("RGB", (width * len(images), height))
    for column, image in enumerate(images):
        sheet.paste(image, (column * width, 0))
    return sheet


def _strip(pairs: tuple[list[Image.Image], ...]) -> bytes:
    """The base above, the steered run below, at times spread over them."""
    count = len(pairs[0])
    chosen = np.linspace(0, count - 1, min(STILLS, count)).round().astype(int).tolist()
    rows = [_side_by_side(tuple(images[i] for i in chosen)) for images in pairs]
    width, height = rows[0].size
    sheet = Image.new("RGB", (width, 2 * height))
    for row, image in enumerate(rows):
        sheet.paste(image, (0, row * height))
    out = io.BytesIO()
    sheet.resize((width // 2, height)).save(out, format="WEBP", quality=60)
    return out.getvalue()

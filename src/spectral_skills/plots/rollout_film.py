"""A rollout to look at: a film of the robot beside its reference, a strip of poses.

The reference is a ghost. In the film it stands to the robot's side, by the same
distance in every picture, so that what differs is the robot's error; how much that is
stands above. In the strip both stand where they are.
"""

import importlib.util
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.control.metrics import errors
from spectral_skills.control.rollout import Rollout
from spectral_skills.plots import ink
from spectral_skills.robot.render import Camera, RobotRenderer
from spectral_skills.rotation import yaw

STRIDE = 3
"""Control steps from one picture to the next: 60 ms, which a GIF can tell."""
SIZE = (480, 336)
"""Width and height of a film, px; encoders of films want multiples of 16."""
LARGEST_GIF = 3_000_000
GHOST = (0.35, 0.62, 1.0, 0.45)
ROBOT = (1.0, 1.0, 1.0, 1.0)
_APART_M = 0.95
_VIEW_DEG = 145.0
"""From the direction a clip mostly faces to the direction of sight."""
_FOVY_DEG = 26.0
_NEAR_M = 1.0
"""A reference farther off may leave the picture: the robot stays in it."""
_BEHIND_M = 0.25
_ATTEMPTS = ((1.0, 64), (1.0, 40), (0.8, 40), (0.65, 40), (0.5, 32), (0.4, 24))
"""Scales and numbers of colours of a GIF, until one is small enough."""


def pictures(
    record: Rollout,
    index: int = 0,
    most_s: float | None = None,
    stride: int = STRIDE,
    told: str = "",
) -> list[np.ndarray]:
    """Pictures (h, w, 3) of a robot beside the ghost of its reference.

    Captioned with what is `told`, or with the robot's errors.
    """
    robot, reference = motions(record, index)
    stop = len(robot) if most_s is None else min(len(robot), round(most_s * record.fps))
    frames = np.arange(0, max(stop, 1), stride)
    azimuth_deg = sight_deg(reference[frames])
    shift = np.zeros(36)
    shift[:2] = _APART_M * Camera(azimuth_deg=azimuth_deg).axes_w[0, :2]
    # The camera does not shake when the robot does.
    middle, off_m = _between(robot[frames], reference[frames])
    middle = smooth(middle + shift[:2] / 2, 0.3 * record.fps / stride)
    distance_m = 4.4 + 1.2 * float(off_m.max())
    wrong = errors(record.select([index]))
    drawn = []
    with RobotRenderer(*SIZE, film=True) as renderer:
        steps = zip(frames.tolist(), middle.tolist(), strict=True)
        bar = tqdm(steps, total=len(frames), desc="film", unit="picture", disable=None)
        for frame, (x, y) in bar:
            camera = Camera((x, y, 0.78), distance_m, azimuth_deg, fovy_deg=_FOVY_DEG)
            poses = np.stack((robot[frame], reference[frame] + shift))
            picture = renderer.draw(poses, camera, np.array((ROBOT, GHOST)))
            drawn.append(
                captioned(
                    picture,
                    f"{record.names[index]}  {frame / record.fps:.2f} s",
                    told
                    or f"blue: reference   link error {_mm(wrong.local_mm[frame, 0])}"
                    f"   drift {_mm(wrong.root_mm[frame, 0])}",
                )
            )
    return drawn


def _mm(value: Tensor) -> str:
    return f"{float(value):.0f} mm" if value.isfinite() else "-"


def captioned(picture: np.ndarray, title: str, told: str) -> np.ndarray:
    """A picture with two lines in its upper left corner."""
    image = Image.fromarray(picture)
    draw, size = ImageDraw.Draw(image), max(6, round(0.031 * image.width))
    for line, (text, weight) in enumerate(((title, "bold"), (told, "normal"))):
        face = findfont(FontProperties(family="DejaVu Sans", weight=weight))
        place = 0.8 * size, size * (0.7 + 1.45 * line)
        draw.text(place, text, ink.INK, ImageFont.truetype(face, size))
    return np.asarray(image)


def film(
    record: Rollout,
    path: Path,
    index: int = 0,
    most_s: float | None = None,
    told: str = "",
) -> list[Path]:
    """Write a GIF, and an mp4 beside it where imageio-ffmpeg is; gives what was."""
    drawn = pictures(record, index, most_s, told=told)
    return write(drawn, path, record.fps / STRIDE)


def write(drawn: Sequence[np.ndarray], path: Path, fps: float) -> list[Path]:
    """Write pictures as `film` does."""
    gif = path.with_suffix(".gif")
    write_file(gif, gif_bytes(drawn, fps))
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        return [gif]
    _write_mp4(drawn, path.with_suffix(".mp4"), fps)
    return [gif, path.with_suffix(".mp4")]


def gif_bytes(drawn: Sequence[np.ndarray], fps: float) -> bytes:
    """A GIF below LARGEST_GIF: smaller and with fewer colours until it is."""
    data = b""
    for scale, colours in _ATTEMPTS:
        data = _encode_gif(drawn, scale, colours, fps)
        if len(data) < LARGEST_GIF:
            break
    return data


def _encode_gif(
    drawn: Sequence[np.ndarray], scale: float, colours: int, fps: float
) -> bytes:
    height, width = (round(scale * side) for side in drawn[0].shape[:2])
    images = [Image.fromarray(picture) for picture in drawn]
    if scale != 1.0:
        images = [i.resize((width, height), Image.Resampling.LANCZOS) for i in images]
    # One palette for the whole film, else flat parts flicker.
    sample = images[:: max(1, len(images) // 8)]
    sheet = Image.new("RGB", (width, height * len(sample)))
    for row, image in enumerate(sample):
        sheet.paste(image, (0, row * height))
    palette = sheet.quantize(colours, method=Image.Quantize.MEDIANCUT)
    plain = [i.quantize(palette=palette, dither=Image.Dither.NONE) for i in images]
    out = io.BytesIO()
    plain[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=plain[1:],
        duration=round(1000 / fps),
        loop=0,
        optimize=False,
    )
    return out.getvalue()


def _write_mp4(drawn: Sequence[np.ndarray], path: Path, fps: float) -> None:
    import imageio_ffmpeg

    height, width = drawn[0].shape[:2]
    temporary = path.with_name(f".{path.stem}-part.mp4")
    rate: Any = fps  # ffmpeg takes fractions
    writer = imageio_ffmpeg.write_frames(str(temporary), (width, height), fps=rate)
    try:
        writer.send(None)
        for picture in drawn:
            writer.send(np.ascontiguousarray(picture))
        writer.close()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def strip(
    record: Rollout, path: Path, index: int = 0, panels: int = 8, subtitle: str = ""
) -> None:
    """Write a PNG: the robot at times spread over a rollout, its reference a ghost."""
    robot, reference = motions(record, index)
    away_m = np.linalg.norm(robot[:, :2] - reference[:, :2], axis=1)
    # What comes after the robot has lost its reference is of no interest.
    last = int(np.argmax(np.append(away_m, np.inf) > 1.5 * _NEAR_M)) - 1
    frames = np.linspace(0, max(last, 0), panels).round().astype(int)
    azimuth_deg = sight_deg(reference[: last + 1])
    figure = ink.sheet(420)
    ink.headline(figure, record.names[index], subtitle)
    left, right, gap = 0.03, 0.985, 0.004
    width = (right - left - gap * (panels - 1)) / panels
    tall_px = 300
    size = (round(width * ink.WIDTH_PX), tall_px)
    # A little farther from us than the robot, of which it would hide all otherwise.
    behind = np.zeros(36)
    behind[:2] = -_BEHIND_M * Camera(azimuth_deg=azimuth_deg).axes_w[2, :2]
    middle, off_m = _between(robot[frames], reference[frames])
    with RobotRenderer(*size) as renderer:
        for number, frame in enumerate(frames.tolist()):
            x, y = middle[number].tolist()
            distance_m = 5.0 + 1.5 * float(off_m[number])
            camera = Camera((x, y, 0.74), distance_m, azimuth_deg, fovy_deg=22.0)
            poses = np.stack((robot[frame], reference[frame] + behind))
            picture = renderer.draw(poses, camera, np.array((ROBOT, GHOST)))
            place = (left + number * (width + gap), 0.045, width, tall_px / 420)
            ink.panel(figure, place, picture, f"{frame / record.fps:.2f} s")
    ink.save(figure, path)


def motions(record: Rollout, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (frames, 36) of a robot and of its reference, as far as it was run.

    Where the simulation broke the robot stays as it was last.
    """
    if record.reference is None:
        raise ValueError(f"{record.names[index]}: no reference to draw beside it")
    stop, record = int(record.lengths[index]), record.numpy()
    robot, reference = (
        np.asarray(rows[:stop, index], np.float64)
        for rows in (record.robot, record.reference)
    )
    return unbroken(robot), reference


def unbroken(rows: np.ndarray) -> np.ndarray:
    """Rows (frames, 36); where the simulation broke the robot stays as it was last."""
    sound = np.asarray(np.isfinite(rows).all(axis=1))
    return rows[np.maximum.accumulate(np.where(sound, np.arange(len(rows)), 0))]


def _between(robot: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 2) to look at, and how far apart (n,) what should be seen is."""
    away = reference[:, :2] - robot[:, :2]
    off_m = np.linalg.norm(away, axis=1)
    near_m = off_m.clip(max=_NEAR_M)
    return robot[:, :2] + away * (near_m / off_m.clip(1e-9) / 2)[:, None], near_m


def sight_deg(reference: np.ndarray) -> float:
    """Direction of sight, from the side of what a motion mostly faces."""
    headings = yaw(torch.from_numpy(reference[:, 3:7])).numpy()
    facing = np.arctan2(np.sin(headings).mean(), np.cos(headings).mean())
    return float(np.degrees(facing)) + _VIEW_DEG


def smooth(values: np.ndarray, sigma: float) -> np.ndarray:
    """Columns without what changes within `sigma` rows; ends are held."""
    reach = int(np.ceil(3 * sigma))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    columns = [np.convolve(c, kernel / kernel.sum(), mode="valid") for c in padded.T]
    return np.stack(columns, axis=1)

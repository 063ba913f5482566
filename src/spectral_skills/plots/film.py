"""Films and strips of stills, drawn from rows (T, 36) of robots.

All pictures share one camera rule: from the side of the direction that a motion mostly
faces, at a distance at which a robot fits, following it without turning with it.
"""

import importlib.util
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter1d
from torch import Tensor
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.control.metrics import errors
from spectral_skills.control.rollout import Rollout
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.plots import charts
from spectral_skills.robot import g1
from spectral_skills.robot.render import Camera, RobotRenderer, backend
from spectral_skills.rotation import rotate, yaw

STRIDE = 3
"""Control steps between pictures of a film: 60 ms, which GIF can represent."""
SIZE = (480, 336)
"""Width and height of a film, px; encoders want multiples of 16."""
LARGEST_GIF = 3_000_000
PANELS = 8
GHOST = (0.35, 0.62, 1.0, 0.45)
ROBOT = (1.0, 1.0, 1.0, 1.0)
_VIEW_DEG, _FOVY_DEG, _LOOKAT_M = 145.0, 24.0, 0.76
_TALL_M, _WIDE_M = 2.02, 1.0
"""What a picture shows at least: a raised arm or a jump, a robot that walks."""
_HEAD_M, _AROUND_M = 0.5, 0.2
"""Top of the head above the torso; room around links for hands and perspective."""
_BESIDE_M, _BEHIND_M = 0.95, 0.25
_NEAR_M = 1.0
"""Largest distance of robot and ghost at which both stay in the picture."""
_GIF_ATTEMPTS = ((1.0, 64), (1.0, 40), (0.8, 40), (0.65, 40), (0.5, 32), (0.4, 24))
_WEBP_QUALITIES = (65, 45, 30, 15)


def unbroken(rows: np.ndarray) -> np.ndarray:
    """Rows (T, 36) in which a robot stays as it was when its simulation broke."""
    sound = np.asarray(np.isfinite(rows).all(axis=1))
    last = np.maximum.accumulate(np.where(sound, np.arange(len(rows)), 0))
    return np.asarray(rows, dtype=float)[last]


def sight_deg(rows: np.ndarray) -> float:
    """Azimuth of the camera, from the side of the direction that rows mostly face."""
    headings = yaw(torch.from_numpy(np.array(rows[:, 3:7], dtype=float))).numpy()
    facing = np.arctan2(np.sin(headings).mean(), np.cos(headings).mean())
    return float(np.degrees(facing)) + _VIEW_DEG


def shots(
    rows: np.ndarray,
    frames: np.ndarray,
    size: tuple[int, int],
    ghost: np.ndarray | None = None,
    *,
    beside: bool = False,
    film: bool = False,
    azimuth_deg: float | None = None,
) -> list[np.ndarray]:
    """Pictures (h, w, 3) of a robot at some frames.

    A ghost stands a little behind the robot, or `beside` it by the same distance in
    every picture, so that what differs is the robot's error. In a `film` the camera
    does not shake when the robot does.
    """
    if azimuth_deg is None:
        azimuth_deg = sight_deg(rows if ghost is None else ghost)
    middle, gap_m = rows[frames, :2], np.zeros(len(frames))
    shift, looks = np.zeros(g1.QPOS_SIZE), np.array((ROBOT, GHOST))
    if ghost is not None:
        right, _, back = Camera(azimuth_deg=azimuth_deg).axes_w[:, :2]
        shift[:2] = _BESIDE_M * right if beside else -_BEHIND_M * back
        away = ghost[frames, :2] - middle
        off_m = np.linalg.norm(away, axis=1)
        gap_m = off_m.clip(max=_NEAR_M)
        middle = middle + away * (gap_m / off_m.clip(1e-9) / 2)[:, None]
        middle = middle + shift[:2] / 2 if beside else middle
    if film:
        gap_m[:] = gap_m.max(initial=0.0)
    shown = [rows[frames]] if ghost is None else [rows[frames], ghost[frames]]
    wide_m = np.max([width_m(each, azimuth_deg) for each in shown], axis=0)
    step = int(frames[1] - frames[0]) if film and len(frames) > 1 else 0
    views = cameras(middle, wide_m, size, azimuth_deg, step, gap_m)
    renderer = _renderer(*size, backend(), film)
    silent = None if film else True  # None: a bar on terminals
    bar = tqdm(frames.tolist(), "film", unit="picture", disable=silent)
    drawn = []
    for i, frame in enumerate(bar):
        poses = [rows[frame]] if ghost is None else [rows[frame], ghost[frame] + shift]
        drawn.append(renderer.draw(np.stack(poses), views[i], looks[: len(poses)]))
    return drawn


def cameras(
    middle: np.ndarray,
    wide_m: np.ndarray,
    size: tuple[int, int],
    azimuth_deg: float,
    step: int = 0,
    gap_m: np.ndarray | float = 0.0,
) -> list[Camera]:
    """Views of places (n, 2) of the floor that show as much as (n,) metres across.

    With a `step`, the frames from a picture of a film to the next, all show as much
    and the camera does not shake.
    """
    if step:
        sigma = 0.3 * g1.CONTROL_HZ / step
        middle = gaussian_filter1d(middle, sigma, axis=0, mode="nearest", truncate=3)
        wide_m = np.full(len(wide_m), wide_m.max(initial=_WIDE_M))
    tall_m = np.maximum(_TALL_M, wide_m * size[1] / size[0]) + 0.55 * gap_m
    distance_m = 0.5 * tall_m / np.tan(np.radians(_FOVY_DEG) / 2)
    return [
        Camera((x, y, _LOOKAT_M), distance, azimuth_deg, fovy_deg=_FOVY_DEG)
        for (x, y), distance in zip(middle.tolist(), distance_m.tolist(), strict=True)
    ]


def width_m(rows: np.ndarray, azimuth_deg: float) -> np.ndarray:
    """Widths (T,) of pictures that show all of a robot, its pelvis in the middle."""
    poses = _kinematics()(torch.from_numpy(np.array(rows, dtype=np.float32)))
    torso, up = g1.LINKS.index("torso_link"), torch.tensor([0.0, 0.0, _HEAD_M])
    head = poses.position[:, torso] + rotate(poses.quaternion[:, torso], up)
    return spread_m(
        torch.cat((poses.position, head[:, None]), dim=1).numpy(), azimuth_deg
    )


def spread_m(points: np.ndarray, azimuth_deg: float) -> np.ndarray:
    """The same for points (T, n, 3) of a body, the first of which is its pelvis."""
    right = Camera(azimuth_deg=azimuth_deg).axes_w[0]
    away_m = np.abs((points - points[:, :1]) @ right).max(axis=1)
    return np.maximum(_WIDE_M, 2 * (away_m + _AROUND_M))


@lru_cache(maxsize=1)
def _kinematics() -> Kinematics:
    return Kinematics()


@lru_cache(maxsize=2)
def _renderer(width: int, height: int, backend: str, film: bool) -> RobotRenderer:
    """Kept between calls: a GL context takes longer to make than a picture."""
    return RobotRenderer(width, height, backend, film)


def captioned(picture: np.ndarray, title: str, caption: str) -> np.ndarray:
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    size = max(6, round(0.031 * image.width), min(13, image.width // 24))
    for line, (text, weight) in enumerate(((title, "bold"), (caption, "normal"))):
        face = findfont(FontProperties(family="DejaVu Sans", weight=weight))
        place = 0.8 * size, size * (0.7 + 1.45 * line)
        draw.text(place, text, charts.INK, ImageFont.truetype(face, size))
    return np.array(image)


def save(pictures: Sequence[np.ndarray], path: Path, fps: float) -> list[Path]:
    """Write a GIF, and an mp4 where imageio-ffmpeg is installed; gives their paths."""
    gif, mp4 = path.with_suffix(".gif"), path.with_suffix(".mp4")
    write_file(gif, gif_bytes(pictures, fps))
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        return [gif]
    _write_mp4(pictures, mp4, fps)
    return [gif, mp4]


def gif_bytes(pictures: Sequence[np.ndarray], fps: float) -> bytes:
    """A GIF, made smaller and with fewer colours until it is below LARGEST_GIF."""
    data = b""
    for scale, colours in _GIF_ATTEMPTS:
        height, width = (round(scale * side) for side in pictures[0].shape[:2])
        images = [Image.fromarray(p).resize((width, height)) for p in pictures]
        # One palette for the whole film, or flat parts would flicker; an octree's has
        # the colours of small parts too.
        sample = [np.asarray(i) for i in images[:: max(1, len(images) // 8)]]
        sheet = Image.fromarray(np.concatenate(sample))
        palette = sheet.quantize(colours, method=Image.Quantize.FASTOCTREE)
        plain = [i.quantize(palette=palette, dither=Image.Dither.NONE) for i in images]
        data = _animation(plain, "GIF", 1 / fps, optimize=False)
        if len(data) < LARGEST_GIF:
            break
    return data


def webp_bytes(pictures: Sequence[np.ndarray], picture_s: float, largest: int) -> bytes:
    """A WebP animation of the best quality that fits a size."""
    images, data = [Image.fromarray(p) for p in pictures], b""
    for quality in _WEBP_QUALITIES:
        data = _animation(images, "WEBP", picture_s, quality=quality)
        if len(data) <= largest:
            break
    return data


def _animation(images: list, form: str, picture_s: float, **options: Any) -> bytes:
    out, duration = io.BytesIO(), round(1000 * picture_s)
    more = {"save_all": True, "append_images": images[1:], "loop": 0, **options}
    images[0].save(out, format=form, duration=duration, **more)
    return out.getvalue()


def _write_mp4(pictures: Sequence[np.ndarray], path: Path, fps: float) -> None:
    import imageio_ffmpeg

    height, width = pictures[0].shape[:2]
    temporary = path.with_name(f".{path.stem}-part.mp4")
    rate: Any = fps  # ffmpeg takes fractions
    writer = imageio_ffmpeg.write_frames(str(temporary), (width, height), fps=rate)
    try:
        writer.send(None)
        for picture in pictures:
            writer.send(np.ascontiguousarray(picture))
        writer.close()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class Still:
    """Rows to show at some frames, and a ghost to show with them."""

    rows: np.ndarray
    frames: np.ndarray
    ghost: np.ndarray | None = None
    label: str = ""

    @classmethod
    def spread(cls, rows: np.ndarray, panels: int, label: str = "") -> "Still":
        """A motion at times spread evenly from its first row to its last."""
        frames = np.linspace(0, len(rows) - 1, panels).round().astype(int)
        return cls(unbroken(rows), frames, label=label)


@charts.styled
def strip(
    path: str | Path,
    motions: Sequence[Still],
    title: str = "",
    subtitle: str = "",
    *,
    azimuth_deg: float | None = None,
    band: Callable[[Axes], None] | None = None,
) -> None:
    """Write a PNG with a row of stills per motion; `band` draws below the last.

    Motions with labels are many: their rows are less tall, without times.
    """
    if not motions:
        raise ValueError("no motions to draw")
    labelled = any(motion.label for motion in motions)
    tall_px, left_px = (238, 214) if labelled else (300, 48)
    top_px, band_px = 84 if title else 24, 100 if band else 24
    height_px = top_px + len(motions) * (tall_px + 8) + band_px
    figure = charts.sheet(height_px, title, subtitle)
    figure.set_layout_engine("none")
    for number, motion in enumerate(motions):
        down_px = top_px + number * (tall_px + 8)
        row(figure, motion, left_px, down_px, tall_px, not labelled, azimuth_deg)
        middle, label = 1 - (down_px + tall_px / 2) / height_px, fill(motion.label, 16)
        figure.text(0.015, middle, label, size=12, weight="bold", va="center")
    if band is not None:
        wide = 1 - (left_px + 24) / charts.WIDTH_PX
        place = left_px / charts.WIDTH_PX, 30 / height_px, wide, 62 / height_px
        band(figure.add_axes(place))
    charts.save(figure, path)


def row(
    figure: Figure,
    motion: Still,
    left_px: int,
    down_px: int,
    tall_px: int,
    times: bool = True,
    azimuth_deg: float | None = None,
) -> None:
    """Draw stills side by side up to the right end of a figure, with their times."""
    size = panel(figure, len(motion.frames), left_px, tall_px)
    drawn = shots(
        motion.rows, motion.frames, size, motion.ghost, azimuth_deg=azimuth_deg
    )
    lay(figure, drawn, motion.frames if times else None, left_px, down_px)


def panel(figure: Figure, count: int, left_px: int, tall_px: int) -> tuple[int, int]:
    """Size of each of some pictures that lie side by side in a figure."""
    width_px = figure.get_size_inches()[0] * figure.dpi
    return round((width_px - 24 - left_px) / count - 5), tall_px


def lay(
    figure: Figure,
    drawn: Sequence[np.ndarray],
    frames: np.ndarray | None,
    left_px: int,
    down_px: int,
) -> None:
    """Lay pictures side by side up to the right end of a figure, with their times."""
    width_px, height_px = figure.get_size_inches() * figure.dpi
    for i, picture in enumerate(drawn):
        x_px = left_px + round(i * (width_px - 24 - left_px) / len(drawn))
        figure.figimage(picture, x_px, height_px - down_px - len(picture))
        if frames is not None:
            place = (x_px + 9) / width_px, 1 - (down_px + 10) / height_px
            time = f"{frames[i] / g1.CONTROL_HZ:.2f} s"
            figure.text(*place, time, size=11, va="top")


def paired_rows(record: Rollout, index: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows (T, 36) of a robot and of its reference, as far as the clip goes."""
    stop, record = int(record.lengths[index]), record.numpy()
    robot = unbroken(np.asarray(record.robot[:stop, index]))
    if record.reference is None:
        return robot, None
    return robot, np.asarray(record.reference[:stop, index], np.float64)


def write_film(
    record: Rollout,
    path: Path,
    index: int = 0,
    most_s: float | None = None,
    caption: str = "",
) -> list[Path]:
    """Film a robot beside its reference; captioned with its errors by default."""
    robot, reference = paired_rows(record, index)
    stop = len(robot) if most_s is None else min(len(robot), round(most_s * record.fps))
    frames = np.arange(0, max(stop, 1), STRIDE)
    drawn = shots(robot, frames, SIZE, reference, beside=True, film=True)
    captions = [caption] * len(frames)
    if reference is not None and not caption:
        found = errors(record.select([index]))
        captions = [
            f"blue: reference   link error {_mm(found.local_mm[frame, 0])}   "
            f"drift {_mm(found.root_mm[frame, 0])}"
            for frame in frames.tolist()
        ]
    for i, frame in enumerate(frames.tolist()):
        title = f"{record.names[index]}  {frame / record.fps:.2f} s"
        drawn[i] = captioned(drawn[i], title, captions[i])
    return save(drawn, path, record.fps / STRIDE)


def _mm(value: Tensor) -> str:
    return f"{float(value):.0f} mm" if value.isfinite() else "-"


def write_strip(record: Rollout, path: Path, index: int = 0, subtitle: str = ""):
    """Draw a robot at times spread over a rollout, with its reference as a ghost."""
    robot, reference = paired_rows(record, index)
    last = len(robot) - 1
    if reference is not None:
        away_m = np.linalg.norm(robot[:, :2] - reference[:, :2], axis=1)
        # What follows after the robot has lost its reference is of no interest.
        lost = np.append(away_m, np.inf) > 1.5 * _NEAR_M
        last = max(int(np.argmax(lost)) - 1, 0)
    frames = np.linspace(0, last, PANELS).round().astype(int)
    strip(path, [Still(robot, frames, reference)], record.names[index], subtitle)

"""Pictures for reports: one sheet per clip, one row per clip for an overview."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectral_skills.plots import ink
from spectral_skills.robot import g1
from spectral_skills.robot.render import Camera, RobotRenderer, backend
from spectral_skills.rotation import yaw

_GROUPS = {
    "legs": ("hip", "knee", "ankle"),
    "waist": ("waist",),
    "left arm": ("left_shoulder", "left_elbow", "left_wrist"),
    "right arm": ("right_shoulder", "right_elbow", "right_wrist"),
}
_NAMED = 4
"""Joints of a group that get a colour and a name; the others stay grey."""
_WIDEST_M = 1.55
"""Width of a panel at the robot: a G1 lying on its side fits."""


def clip_sheet(
    qpos: np.ndarray,
    path: str | Path,
    *,
    title: str,
    subtitle: str,
    foot_heights_m: np.ndarray,
    fps: float = 50,
    panels: int = 8,
) -> None:
    """Write the sheet of one clip: pictures, feet, root and joint curves."""
    qpos = _checked(qpos)
    foot_heights_m = np.asarray(foot_heights_m, dtype=float)
    if (shape := foot_heights_m.shape) != (len(qpos), 2):
        raise ValueError(f"foot heights of shape {shape}, expected ({len(qpos)}, 2)")
    if panels < 1 or fps <= 0:
        raise ValueError(f"{panels} panels at {fps} frames per second")
    time_s = np.arange(len(qpos)) / fps
    figure = ink.sheet(1120)
    ink.headline(figure, title, subtitle)

    frames = np.linspace(0, len(qpos) - 1, panels).round().astype(int)
    pictures = _pictures(qpos, frames, width=200, height=256)
    labels = [f"{t:.2f} s" for t in time_s[frames]]
    _strip(figure, pictures, labels, left=0.03, right=0.985, top=0.925, gap=0.004)

    grid = figure.add_gridspec(
        3, 4, left=0.055, right=0.985, top=0.665, bottom=0.095, hspace=0.45, wspace=0.2
    )
    marks_s = time_s[frames]
    feet = _axes(figure, grid[0, :2], "foot height (m)", marks_s)
    _feet(feet, time_s, foot_heights_m)
    _path(_axes(figure, grid[0, 2:], "root position (m)", marks_s), time_s, qpos)
    _heading(_axes(figure, grid[1, :2], "heading (deg)", marks_s), time_s, qpos)
    _speed(_axes(figure, grid[1, 2:], "root speed (m/s)", marks_s), time_s, qpos, fps)
    for i, (name, parts) in enumerate(_GROUPS.items()):
        axes = _axes(figure, grid[2, i], f"{name} (rad)", marks_s)
        _joints(axes, time_s, qpos[:, 7:], parts)
        axes.set_xlabel("time (s)", color=ink.MUTED, size=10)
    ink.save(figure, path)


def motion_grid(
    rows: Sequence[tuple[str, np.ndarray]], path: str | Path, *, panels: int = 6
) -> None:
    """Write one row of pictures per (label, qpos)."""
    if not rows:
        raise ValueError("no clips to draw")
    width_px, height_px, margin_px, label_px = ink.WIDTH_PX, 246, 24, 190
    total_px = len(rows) * height_px + 2 * margin_px
    figure = ink.sheet(total_px)
    left, right = (margin_px + label_px) / width_px, 1 - margin_px / width_px
    panel_px = int((right - left) * width_px / panels)
    for i, (label, motion) in enumerate(rows):
        qpos = _checked(motion)
        frames = np.linspace(0, len(qpos) - 1, panels).round().astype(int)
        pictures = _pictures(qpos, frames, panel_px, height_px - 8)
        top = 1 - (margin_px + i * height_px) / total_px
        _strip(figure, pictures, [""] * panels, left, right, top, gap=0.003)
        figure.text(
            margin_px / width_px,
            top - 0.5 * (height_px - 8) / total_px,
            _wrapped(label),
            size=12,
            weight="bold",
            color=ink.INK,
            va="center",
        )
    ink.save(figure, path)


def _checked(qpos: np.ndarray) -> np.ndarray:
    qpos = np.asarray(qpos, dtype=float)
    if qpos.ndim != 2 or qpos.shape[1] != g1.QPOS_SIZE or not len(qpos):
        raise ValueError(f"qpos of shape {qpos.shape}, expected (T, {g1.QPOS_SIZE})")
    return qpos


def _wrapped(label: str, columns: int = 16) -> str:
    """Break a clip's name where it has joints, so that long ones fit."""
    lines = [""]
    for word in label.replace("_", "_ ").replace("/", "/ ").split():
        if len(lines[-1]) + len(word) > columns and lines[-1]:
            lines.append("")
        glue = "" if not lines[-1] or lines[-1][-1] in "_/" else " "
        lines[-1] += glue + word
    return "\n".join(lines)


def _yaw_rad(qpos: np.ndarray) -> np.ndarray:
    return np.unwrap(yaw(torch.from_numpy(qpos[:, 3:7])).numpy())


def _pictures(qpos, frames, width: int, height: int) -> list[np.ndarray]:
    """Pictures that follow the pelvis from one side of the clip's usual heading."""
    heading_deg = float(np.degrees(np.median(_yaw_rad(qpos[frames]))))
    fovy_deg = 24.0
    tall_m = _WIDEST_M * height / width
    # Wide panels are bounded by the robot's height, jumps and raised arms included.
    distance_m = 0.5 * max(tall_m, 2.02) / np.tan(np.radians(fovy_deg) / 2)
    renderer = _renderer(width, height, backend())
    return [
        renderer.draw(
            qpos[i],
            Camera(
                (float(qpos[i, 0]), float(qpos[i, 1]), 0.79),
                distance_m,
                heading_deg + 145.0,
                fovy_deg=fovy_deg,
            ),
        )
        for i in frames
    ]


@lru_cache(maxsize=2)
def _renderer(width: int, height: int, backend: str) -> RobotRenderer:
    """Kept from sheet to sheet: a GL context takes longer to make than a picture."""
    return RobotRenderer(width, height, backend)


def _strip(figure: Figure, pictures, labels, left, right, top, gap) -> None:
    """Place pictures side by side below `top`, each with its label inside."""
    width = (right - left - gap * (len(pictures) - 1)) / len(pictures)
    tall, wide = pictures[0].shape[:2]
    inches = figure.get_size_inches()
    height = width * inches[0] / inches[1] * tall / wide
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        axes = figure.add_axes((left + i * (width + gap), top - height, width, height))
        axes.imshow(picture, aspect="auto", interpolation="lanczos")
        axes.set_axis_off()
        axes.text(
            0.05,
            0.955,
            label,
            transform=axes.transAxes,
            size=11,
            color=ink.INK,
            va="top",
        )


def _axes(figure: Figure, cell, title: str, marks_s) -> Axes:
    """A quiet plot with faint marks where the pictures are."""
    axes = ink.quiet(figure.add_subplot(cell), title)
    for mark_s in marks_s:
        axes.axvline(mark_s, color=ink.RULE, linewidth=0.8, zorder=0)
    axes.margins(x=0.0, y=0.12)
    return axes


def _widen(axes: Axes, least: float) -> None:
    """Show at least this much of the y axis, so that rounding looks like nothing."""
    low, high = axes.get_ylim()
    missing = max(0.0, least - (high - low))
    axes.set_ylim(low - missing / 2, high + missing / 2)


def _legend(axes: Axes, columns: int = 4) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 0.985),
        ncols=columns,
        frameon=False,
        fontsize=9.5,
        labelcolor=ink.INK,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _feet(axes: Axes, time_s, heights_m) -> None:
    axes.axhline(0.0, color=ink.INK, linewidth=1.0)
    axes.text(time_s[-1], 0.0, "floor ", size=9, color=ink.INK, ha="right", va="top")
    for column, name, colour in ((0, "left", ink.LEFT), (1, "right", ink.RIGHT)):
        axes.plot(time_s, heights_m[:, column], color=colour, linewidth=1.5, label=name)
    _widen(axes, 0.1)
    _legend(axes)


def _path(axes: Axes, time_s, qpos) -> None:
    for column, name in enumerate("xyz"):
        axes.plot(
            time_s,
            qpos[:, column],
            color=ink.COLOURS[column],
            linewidth=1.5,
            label=name,
        )
    _widen(axes, 0.2)
    _legend(axes)


def _heading(axes: Axes, time_s, qpos) -> None:
    axes.plot(time_s, np.degrees(_yaw_rad(qpos)), color=ink.COLOURS[3], linewidth=1.5)
    _widen(axes, 20.0)


def _speed(axes: Axes, time_s, qpos, fps: float) -> None:
    if len(qpos) > 1:
        velocity = np.gradient(qpos[:, :3], 1.0 / fps, axis=0)
        ground, rise = np.linalg.norm(velocity[:, :2], axis=1), velocity[:, 2]
        axes.fill_between(time_s, ground, color=ink.LEFT, alpha=0.12, linewidth=0)
        axes.plot(
            time_s, ground, color=ink.LEFT, linewidth=1.5, label="along the floor"
        )
        axes.plot(time_s, rise, color=ink.COLOURS[2], linewidth=1.0, label="upward")
        _widen(axes, 0.2)
        _legend(axes)


def _joints(axes: Axes, time_s, joints, parts: tuple[str, ...]) -> None:
    """Curves of one group; the joints that move most stand out and are named."""
    members = [i for i, n in enumerate(g1.JOINTS) if any(part in n for part in parts)]
    members.sort(key=lambda i: -float(joints[:, i].std()))
    for i in members[_NAMED:]:
        axes.plot(time_s, joints[:, i], color="#b4bdc7", linewidth=0.8)
    for i, colour in zip(members[:_NAMED], ink.COLOURS, strict=False):
        name = g1.JOINTS[i].replace("_", " ")
        axes.plot(time_s, joints[:, i], color=colour, linewidth=1.3, label=name)
    _widen(axes, 0.2)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.22),
        ncols=2,
        frameon=False,
        fontsize=8.5,
        labelcolor=ink.INK,
        handlelength=1.0,
        columnspacing=1.0,
    )

"""Pictures for reports: one sheet per clip, one row per clip for an overview."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectral_skills.plots import film, ink
from spectral_skills.robot import g1
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
    labels = [f"{t:.2f} s" for t in time_s[frames]]
    film.row(figure, film.Motion(qpos, frames), labels, (48, 84, 256))

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


def _checked(qpos: np.ndarray) -> np.ndarray:
    qpos = np.asarray(qpos, dtype=float)
    if qpos.ndim != 2 or qpos.shape[1] != g1.QPOS_SIZE or not len(qpos):
        raise ValueError(f"qpos of shape {qpos.shape}, expected (T, {g1.QPOS_SIZE})")
    return qpos


def _yaw_rad(qpos: np.ndarray) -> np.ndarray:
    return np.unwrap(yaw(torch.from_numpy(qpos[:, 3:7])).numpy())


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

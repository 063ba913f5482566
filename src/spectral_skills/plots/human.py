"""A person beside the robot: stills and films.

A person is drawn in the robot's world and at its size, scaled by the ratio of leg
lengths about the floor, by the rasteriser that also draws robots. What then differs
between the two is the retargeting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from matplotlib.figure import Figure

from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.human import fit
from spectral_skills.motion.human.quality import LINK_OF_POINT
from spectral_skills.motion.human.recording import POINTS, SIDES, leg_length, point
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.plots import film
from spectral_skills.robot import g1, software
from spectral_skills.robot.model import Camera, Capsules, unit

LEG_M = fit.STRAIGHT_M
"""What a person's straight leg becomes."""
SIDE_RGB = (0.27, 0.52, 0.74), (0.86, 0.50, 0.27)
BODY_RGB = (0.66, 0.68, 0.71)
FILM_SIZE = (560, 336)
_LIMBS = {
    ("hip", "knee"): (0.100, 0.068),
    ("knee", "ankle"): (0.070, 0.046),
    ("shoulder", "elbow"): (0.062, 0.048),
    ("elbow", "wrist"): (0.051, 0.036),
    ("wrist", "hand"): (0.041, 0.036),
}
"""Radii of both ends, in lengths of the leg."""
_BESIDE_M = 0.9
_PLACES = [point(name) for name in LINK_OF_POINT]


@dataclass(frozen=True)
class Pair:
    """A person and the robots made from it, in one world and frame by frame."""

    person: np.ndarray  # (T, 20, 3), as large as the robot
    robots: tuple[np.ndarray, ...]  # (T, 36) each
    contacts: np.ndarray | None = None  # (T, 2) when the person's feet stand

    @classmethod
    def of(cls, points: np.ndarray, rows: np.ndarray, contacts=None) -> "Pair":
        """Points (T, 20, 3) in metres, brought to a robot's size and world."""
        rows = film.unbroken(np.asarray(rows, dtype=float))
        person = np.array(points, dtype=float) * (LEG_M / leg_length(points))
        links = _kinematics()(torch.from_numpy(rows).float()).position.double()
        yaw, shift, _ = laid(
            links[..., :2].reshape(-1, 2).numpy(), person[:, _PLACES, :2].reshape(-1, 2)
        )
        person[..., :2] = person[..., :2] @ turn(yaw).T + shift
        return cls(person, (rows,), contacts)

    @classmethod
    def of_clip(cls, corpus: Corpus, index: int) -> "Pair | None":
        """A clip with the person it was made from, where the corpus has one."""
        human = corpus.human(index)
        if human is None:
            return None
        return cls.of(human.points, corpus.qpos(index), human.contacts)

    @property
    def frames(self) -> int:
        return len(self.person)

    def part(self, start: int, end: int) -> "Pair":
        contacts = None if self.contacts is None else self.contacts[start:end]
        robots = tuple(one[start:end] for one in self.robots)
        return Pair(self.person[start:end], robots, contacts)

    def spread(self, panels: int) -> np.ndarray:
        """Frames spread evenly from the first to the last."""
        return np.linspace(0, self.frames - 1, panels).round().astype(int)


def laid(
    goal: np.ndarray, found: np.ndarray
) -> tuple[float, tuple[float, float], float]:
    """Turn, shift after it, and the scale it would need, that lay places (n, 2) of the
    floor onto others."""
    centres = goal.mean(axis=0), found.mean(axis=0)
    goal, found = goal - centres[0], found - centres[1]
    dot = (goal * found).sum()
    cross = (found[:, 0] * goal[:, 1] - found[:, 1] * goal[:, 0]).sum()
    yaw = float(np.arctan2(cross, dot))
    x, y = (centres[0] - turn(yaw) @ centres[1]).tolist()
    scale = float(np.hypot(dot, cross) / max((found**2).sum(), 1e-12))
    return yaw, (x, y), scale


def turn(yaw: float) -> np.ndarray:
    """(2, 2) matrix of a turn on the floor."""
    return np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])


@lru_cache(maxsize=1)
def _kinematics() -> Kinematics:
    return Kinematics(tuple(LINK_OF_POINT.values()))


def figure(points: np.ndarray) -> Capsules:
    """A body around the points (20, 3) of a person with legs of `LEG_M`."""
    at = dict(zip(POINTS, points / LEG_M, strict=True))
    across = unit(at["left_hip"] - at["right_hip"])
    up = unit(at["neck"] - at["pelvis"])
    back = unit(np.cross(up, across))
    rods: list[tuple] = []
    for side, rgb, out in zip(SIDES, SIDE_RGB, (across, -across), strict=True):
        own = {n.partition("_")[2]: at[n] for n in POINTS if n.startswith(side)}
        rods += [(own[a], own[b], radii, rgb) for (a, b), radii in _LIMBS.items()]
        # The heel is below the ankle, and at rest as high as the ball of the foot.
        ankle, toe = own["ankle"], own["toe"]
        ahead, down = unit(toe - ankle), unit(ankle - own["knee"]) + 0.5 * back
        heel = ankle + 0.07 * unit(down - (down @ ahead) * ahead)
        tip = toe + 0.05 * unit(toe - heel)
        rods.append((ankle, heel, (0.046, 0.042), rgb))
        rods.append((heel, tip, (0.042, 0.034), rgb))
        rods.append((ankle, toe, (0.042, 0.034), rgb))
        # Half of the trunk, from the hip to below the shoulder.
        low = at["pelvis"] + 0.045 * out + 0.08 * up
        high = 0.38 * own["shoulder"] + 0.62 * at["chest"]
        rods.append((low, high, (0.105, 0.12), BODY_RGB))
        rods.append((own["hip"], low, (0.096, 0.105), BODY_RGB))
        rods.append((at["chest"] + 0.06 * up, own["shoulder"], (0.08, 0.058), BODY_RGB))
    head, skull = at["head"], unit(at["head"] - at["neck"])
    rods.append((at["pelvis"] + 0.08 * up, at["chest"], (0.108, 0.124), BODY_RGB))
    rods.append((at["chest"], at["neck"], (0.1, 0.062), BODY_RGB))
    rods.append((at["neck"], head, (0.06, 0.055), BODY_RGB))
    rods.append((head + 0.06 * skull, head + 0.13 * skull, (0.09, 0.112), BODY_RGB))
    start, end, radii, rgb = map(np.array, zip(*rods, strict=True))
    return Capsules(LEG_M * np.stack([start, end], axis=1), LEG_M * radii, rgb)


def shots(
    pair: Pair,
    frames: np.ndarray,
    size: tuple[int, int],
    *,
    who: Literal["both", "person", "robots"] = "both",
    film_step: int = 0,
) -> list[np.ndarray]:
    """Pictures (h, w, 3) of the person at the left and the robots beside it.

    In a film, whose pictures are `film_step` frames apart, the camera does not shake.
    """
    azimuth_deg = film.sight_deg(pair.robots[0])
    right = Camera(azimuth_deg=azimuth_deg).axes_w[0]
    person, robots = pair.person[frames], [one[frames] for one in pair.robots]
    places = [] if who == "robots" else [person[:, 0]]
    places += [] if who == "person" else [one[:, :3] for one in robots]
    widths = [film.spread_m(person, azimuth_deg)]
    widths += [film.width_m(rows, azimuth_deg) for rows in robots]
    wide_m = np.max(widths, axis=0)
    if film_step:
        wide_m[:] = wide_m.max()
    apart_m = np.maximum(_BESIDE_M, 0.82 * wide_m)
    # All stand where they are but for steps aside, which are equal in a film.
    aside = np.arange(len(places)) - (len(places) - 1) / 2
    shifts = (apart_m[:, None] * aside)[..., None] * right  # (frames, places, 3)
    middle = np.mean(places, axis=0)[:, :2]
    wide_m = wide_m + apart_m * (len(places) - 1)
    views = film.cameras(middle, wide_m, size, azimuth_deg, film_step)
    tints, drawn = np.ones((len(robots), 4)), []
    for i, view in enumerate(views):
        rows, body = np.empty((0, g1.QPOS_SIZE)), None
        if who != "robots":
            body = figure(person[i] + shifts[i, 0])
        if who != "person":
            rows = np.stack([one[i] for one in robots])
            rows[:, :3] += shifts[i, -len(rows) :]
        look = tints[: len(rows)], bool(film_step), body
        drawn.append(software.draw(rows, view, *size, *look))
    return drawn


def write_film(
    pair: Pair,
    path: Path,
    title: str,
    labels: Sequence[str] = ("robot",),
    most_s: float | None = None,
) -> list[Path]:
    """Film a person beside the robots with these labels; gives the files."""
    stop = pair.frames if most_s is None else min(pair.frames, round(most_s * FPS))
    frames, count = np.arange(0, max(stop, 1), film.STRIDE), len(pair.robots)
    size = FILM_SIZE[0] + (count - 1) * FILM_SIZE[0] // 3 // 16 * 16, FILM_SIZE[1]
    drawn = shots(pair, frames, size, film_step=film.STRIDE)
    caption = f"person (scaled to the robot's legs), {', '.join(labels)}"
    pictures = [
        film.captioned(picture, f"{title}  {frame / FPS:.2f} s", caption)
        for picture, frame in zip(drawn, frames.tolist(), strict=True)
    ]
    return film.save(pictures, path, FPS / film.STRIDE)


def row(
    sheet: Figure,
    pair: Pair,
    frames: np.ndarray,
    left_px: int,
    down_px: int,
    tall_px: int,
    *,
    times: bool = True,
    who: Literal["both", "person", "robots"] = "both",
) -> None:
    """Draw stills side by side up to the right end of a figure, with their times."""
    size = film.panel(sheet, len(frames), left_px, tall_px)
    drawn = shots(pair, frames, size, who=who)
    film.lay(sheet, drawn, frames if times else None, left_px, down_px)

"""A person's motion: points of the body over time. Raw as a file has it, in its own
units and axes; as a recording in metres, z up, the floor at zero."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np

from spectral_skills.motion.clip import ClipError

SIDES = ("left", "right")
POINTS: tuple[str, ...] = (
    "pelvis",
    *(f"{s}_{p}" for s in SIDES for p in ("hip", "knee", "ankle", "toe")),
    *("chest", "neck", "head"),
    *(f"{s}_{p}" for s in SIDES for p in ("shoulder", "elbow", "wrist", "hand")),
)
"""Joint centres. A toe is the ball of the foot, a shoulder the upper arm's joint, a
hand where the fingers begin; the chest is the spine's last joint below the neck."""


def point(name: str) -> int:
    return POINTS.index(name)


def leg_length(points: np.ndarray, sides: Sequence[str] = SIDES) -> float:
    """Thigh and shank of points (T, 20, 3), the median over frames and the mean of
    sides."""
    total = 0.0
    for side in sides:
        chain = [points[:, point(f"{side}_{p}")] for p in ("hip", "knee", "ankle")]
        for bone, (a, b) in zip(("thigh", "shank"), pairwise(chain), strict=True):
            length = float(np.median(np.linalg.norm(b - a, axis=1)))
            if not length > 1e-9:
                raise ClipError("skeleton", f"the {side} {bone} has no length")
            total += length
    return total / len(sides)


@dataclass(frozen=True)
class Raw:
    """A person as a file has them, in its own units and axes."""

    name: str
    fps: float
    points: np.ndarray
    """(T, 20, 3) in the order of POINTS; one that the file lacks is nan throughout."""
    pelvis_turn: np.ndarray | None = None
    """(T, 4) orientation, wxyz, of the bone that carries the hips; its axes at rest may
    be any. None: the source has points only."""
    rest_up: str | None = None
    """The axis along which the rest pose of the file stands, where it does."""
    skeleton: str = ""  # whose: CMU, LAFAN1, SMPL and so on
    text: str = ""
    source: str = ""
    licence: str = "unknown"
    notes: tuple[str, ...] = field(default=())
    """What was found out about the file and done to it, a sentence each."""

    def at(self, name: str) -> np.ndarray:
        """(T, 3) path of a point."""
        return self.points[:, point(name)]

    def noted(self, *notes: str, **changes) -> Self:
        return replace(self, notes=(*self.notes, *filter(None, notes)), **changes)

    def part(self, frames: slice) -> Self:
        bone = self.pelvis_turn
        bone = None if bone is None else bone[frames]
        return replace(self, points=self.points[frames], pelvis_turn=bone)


@dataclass(frozen=True)
class Recording(Raw):
    """A person in metres, z up, the floor at zero.

    Checked when it is made: finite, of equal lengths, at least two frames.
    """

    def __post_init__(self):
        frames = len(self.points)
        if self.points.shape != (frames, len(POINTS), 3):
            raise ClipError("columns", f"points have shape {self.points.shape}")
        if frames < 2:
            raise ClipError("empty", f"{frames} frames; a motion needs 2")
        if not (math.isfinite(self.fps) and 1.0 <= self.fps <= 1000.0):
            raise ClipError("frame rate", f"frame rate {self.fps:g} is not 1..1000 Hz")
        bad = ~np.isfinite(self.points).all(axis=(1, 2))
        if self.pelvis_turn is not None:
            if self.pelvis_turn.shape != (frames, 4):
                shape = self.pelvis_turn.shape
                raise ClipError("columns", f"turns of the pelvis have shape {shape}")
            bad |= ~np.isfinite(self.pelvis_turn).all(axis=1)
        if bad.any():
            raise ClipError("not finite", "a joint is not a number", int(bad.argmax()))

    @property
    def frames(self) -> int:
        return len(self.points)

    @property
    def duration_s(self) -> float:
        return (self.frames - 1) / self.fps

    def leg_m(self) -> float:
        """Length of thigh and shank, m."""
        return leg_length(self.points)

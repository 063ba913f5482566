"""A person's motion as every source is read: points of the body over time, in metres,
z up, the floor at zero."""

import math
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True)
class Recording:
    """Checked when it is made: finite, of equal lengths, at least two frames."""

    name: str
    fps: float
    points: np.ndarray  # (T, 20, 3) in the order of POINTS, m
    pelvis_turn: np.ndarray | None = None
    """(T, 4) orientation, wxyz, of the bone that carries the hips; its axes at rest may
    be any. None: the source has points only."""
    chest_turn: np.ndarray | None = None  # the same of the bone that carries the arms
    skeleton: str = ""  # whose: CMU, LAFAN1, SMPL and so on
    text: str = ""
    source: str = ""
    licence: str = "unknown"
    notes: tuple[str, ...] = field(default=())
    """What was found out about the file and done to it, a sentence each."""

    def __post_init__(self):
        frames = len(self.points)
        if self.points.shape != (frames, len(POINTS), 3):
            raise ClipError("columns", f"points have shape {self.points.shape}")
        if frames < 2:
            raise ClipError("empty", f"{frames} frames; a motion needs 2")
        if not (math.isfinite(self.fps) and 1.0 <= self.fps <= 1000.0):
            raise ClipError("frame rate", f"frame rate {self.fps:g} is not 1..1000 Hz")
        bad = ~np.isfinite(self.points).all(axis=(1, 2))
        for turn in (self.pelvis_turn, self.chest_turn):
            if turn is not None:
                bad |= ~np.isfinite(turn).all(axis=1)
        if bad.any():
            raise ClipError("not finite", "a joint is not a number", int(bad.argmax()))

    @property
    def frames(self) -> int:
        return len(self.points)

    @property
    def duration_s(self) -> float:
        return (self.frames - 1) / self.fps

    def at(self, name: str) -> np.ndarray:
        """(T, 3) path of a point."""
        return self.points[:, point(name)]

    def leg_m(self) -> float:
        """Length of thigh and shank, the median over frames and the mean of sides."""
        bones = [
            np.linalg.norm(self.at(f"{s}_{a}") - self.at(f"{s}_{b}"), axis=1)
            for s in SIDES
            for a, b in (("hip", "knee"), ("knee", "ankle"))
        ]
        return float(np.median(bones, axis=1).sum()) / 2

    def part(self, frames: slice) -> "Recording":
        """Some frames of it."""

        def cut(turn: np.ndarray | None) -> np.ndarray | None:
            return None if turn is None else turn[frames]

        return replace(
            self,
            points=self.points[frames],
            pelvis_turn=cut(self.pelvis_turn),
            chest_turn=cut(self.chest_turn),
        )

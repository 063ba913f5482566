"""A person as a file has them, before units, axes and frame rate are known."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.spatial.transform import Rotation

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human.recording import SIDES, point
from spectral_skills.quaternion import multiply_planes


@dataclass(frozen=True)
class Raw:
    """A person as a file has them, in its own units and axes."""

    name: str
    points: np.ndarray  # (T, 20, 3); a point that the file lacks is nan throughout
    fps: float
    pelvis_turn: np.ndarray | None = None  # (T, 4) wxyz
    chest_turn: np.ndarray | None = None
    skeleton: str = ""
    fps_known: bool = False  # the rate is beyond doubt
    text: str = ""
    source: str = ""
    licence: str = "unknown"
    notes: tuple[str, ...] = field(default=())

    def at(self, name: str) -> np.ndarray:
        return self.points[:, point(name)]

    def noted(self, *notes: str, **changes) -> "Raw":
        return replace(self, notes=(*self.notes, *filter(None, notes)), **changes)

    def turned(self, turn: np.ndarray) -> "Raw":
        """Turned by a proper rotation matrix."""
        q = np.roll(Rotation.from_matrix(turn).as_quat(), 1)

        def of(turns: np.ndarray | None) -> np.ndarray | None:
            return None if turns is None else np.stack(multiply_planes(q, turns.T), 1)

        return replace(
            self,
            points=self.points @ turn.T,
            pelvis_turn=of(self.pelvis_turn),
            chest_turn=of(self.chest_turn),
        )

    def mirrored(self) -> "Raw":
        """Left and right exchanged by a mirror across y."""

        def of(turns: np.ndarray | None) -> np.ndarray | None:
            return None if turns is None else turns * [1.0, -1.0, 1.0, -1.0]

        return replace(
            self,
            points=self.points * [1.0, -1.0, 1.0],
            pelvis_turn=of(self.pelvis_turn),
            chest_turn=of(self.chest_turn),
        )

    def part(self, frames: slice) -> "Raw":
        """Some frames of it."""

        def of(turns: np.ndarray | None) -> np.ndarray | None:
            return None if turns is None else turns[frames]

        return replace(
            self,
            points=self.points[frames],
            pelvis_turn=of(self.pelvis_turn),
            chest_turn=of(self.chest_turn),
        )


def leg_length(points: np.ndarray) -> float:
    """Thigh and shank, the median over frames and the mean of sides."""
    total = 0.0
    for side in SIDES:
        chain = [points[:, point(f"{side}_{p}")] for p in ("hip", "knee", "ankle")]
        for bone, (a, b) in zip(("thigh", "shank"), pairwise(chain), strict=True):
            length = float(np.median(np.linalg.norm(b - a, axis=1)))
            if not length > 1e-9:
                raise ClipError("skeleton", f"the {side} {bone} has no length")
            total += length
    return total / 2

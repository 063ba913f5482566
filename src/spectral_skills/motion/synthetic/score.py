"""A score: the factors of one clip as curves over time, before any physics.

Every factor is a curve of its own, so any of them can be held still, moved or left
out without touching the others.
"""

from dataclasses import dataclass, field

import numpy as np

from spectral_skills.motion.synthetic.arms import Stroke


@dataclass(frozen=True)
class Score:
    """Curves at 50 Hz, one value a frame; strokes are what the arms do."""

    forward: np.ndarray
    """Speed along the heading, m/s."""
    sideways: np.ndarray
    """Speed to the left, m/s."""
    turning: np.ndarray
    """Yaw rate, rad/s."""
    stepping: np.ndarray
    """Whether the feet should step."""
    quickness: np.ndarray
    """Cadence as a multiple of what the speed suggests."""
    lift: np.ndarray
    """Height of the sole in mid-swing, m."""
    flight: np.ndarray
    """0 walks with double support, 1 jogs with both feet off the floor."""
    drop: np.ndarray
    """How much lower than usual the pelvis is, m."""
    lean: np.ndarray
    """Pitch of the trunk, rad."""
    twist: np.ndarray
    """Yaw of the shoulders, rad."""
    sway: np.ndarray
    """(T, 2) shift of the weight while standing, ahead and left, m."""
    width: np.ndarray
    """Distance between the ankles, m."""
    toe_out: float
    """Yaw of each foot outwards, rad."""
    strokes: tuple[Stroke, ...] = ()
    style: "Style" = field(default_factory=lambda: Style())

    @property
    def frames(self) -> int:
        return len(self.forward)


@dataclass(frozen=True)
class Style:
    """How this clip's person moves; drawn anew for every clip."""

    arm_swing: float = 1.0
    elbow: float = 0.8
    """Elbow angle at rest, rad; 1.57 is a straight arm."""
    shoulder_roll: float = 0.15
    hang: tuple[float, float] = (0.0, 0.0)
    """Added to the pitch of the left and right shoulder, rad."""
    pelvis_turn: float = 1.0
    pelvis_tilt: float = 1.0
    torso_turn: float = 1.0
    height: float = 0.0
    """Added to the pelvis height, m."""
    seed: int = 0
    """Of the small variation that nothing else decides."""

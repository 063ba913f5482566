"""What the arms do: swing with the legs, unless a stroke owns them.

Angles are those of the left arm; the right arm mirrors them.
"""

from dataclasses import dataclass, field

import numpy as np

from spectral_skills.motion.synthetic.curves import FPS, bump, ease
from spectral_skills.robot import g1

LEFT, RIGHT = 0, 1
SIDES = ("left", "right")
PARTS = (
    "shoulder_pitch",
    "shoulder_roll",
    "shoulder_yaw",
    "elbow",
    "wrist_roll",
    "wrist_pitch",
    "wrist_yaw",
)
COLUMNS = tuple(
    np.array([g1.joint_index(f"{side}_{part}") for part in PARTS]) for side in SIDES
)
"""Joint columns of the left and right arm."""
_MARGIN = 0.01
_MIRROR = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


def _angles(**parts: float) -> np.ndarray:
    return np.array([parts.get(part, 0.0) for part in PARTS])


POSES: dict[str, np.ndarray] = {
    "raise": _angles(
        shoulder_pitch=-2.4, shoulder_roll=0.62, shoulder_yaw=0.15, elbow=1.1
    ),
    "spread": _angles(shoulder_pitch=0.0, shoulder_roll=1.45, elbow=1.4),
    "reach_forward": _angles(
        shoulder_pitch=-1.4, shoulder_roll=0.28, shoulder_yaw=-0.05, elbow=1.35
    ),
    "reach_up": _angles(
        shoulder_pitch=-2.7, shoulder_roll=0.62, shoulder_yaw=0.05, elbow=1.5
    ),
    "wave": _angles(
        shoulder_pitch=-1.0, shoulder_roll=1.4, shoulder_yaw=0.6, elbow=0.57
    ),
    "guard": _angles(
        shoulder_pitch=-0.43, shoulder_roll=0.38, shoulder_yaw=-0.15, elbow=-0.6
    ),
    "punch": _angles(
        shoulder_pitch=-1.4, shoulder_roll=0.22, shoulder_yaw=-0.1, elbow=1.4
    ),
    "carry": _angles(
        shoulder_pitch=-0.3, shoulder_roll=0.3, shoulder_yaw=-0.25, elbow=0.35
    ),
    "balance": _angles(shoulder_pitch=-1.2, shoulder_roll=0.32, elbow=1.0),
}


@dataclass(frozen=True)
class Stroke:
    """One arm takes a pose from `start_s` to `end_s`, eased within `ramp_s`."""

    side: int
    pose: str
    start_s: float
    end_s: float
    ramp_s: float = 0.8
    offset: np.ndarray = field(default_factory=lambda: np.zeros(len(PARTS)))
    """What this one has different from the pose, rad."""
    beats: float = 0.0
    """Swings (wave) or blows (guard) a second while the pose is held."""
    delay_s: float = 0.0
    """How long the first blow waits."""
    heights: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """From when on the arm goes which share of the way to the pose."""

    def height(self, t: np.ndarray) -> np.ndarray:
        """Share of the way to the pose, over time."""
        share, before = np.zeros_like(t), 0.0
        for start, now in self.heights:
            share += (now - before) * (ease((t - start) / self.ramp_s) if before else 1)
            before = now
        return share


def perform(arms: list[np.ndarray], strokes: tuple[Stroke, ...]) -> None:
    """Blend strokes into (T, 7) arms, in place."""
    t = np.arange(len(arms[0])) / FPS
    for stroke in strokes:
        arm = arms[stroke.side]
        # The elbow follows the shoulder a little later, as people's do.
        late = np.array([0.0, 0.0, 0.05, 0.12, 0.15, 0.15, 0.15]) * stroke.ramp_s
        weight = np.stack(
            [
                bump(t, stroke.start_s + x, stroke.end_s + x, stroke.ramp_s)
                * stroke.height(t - x)
                for x in late
            ],
            axis=1,
        )
        target = POSES[stroke.pose] + stroke.offset + _beat(t, stroke)
        arm += weight * (target - arm)


def _beat(t: np.ndarray, stroke: Stroke) -> np.ndarray:
    """(T, 7) what moves while the pose is held."""
    moved = np.zeros((len(t), len(PARTS)))
    if stroke.pose == "wave":
        since = t - stroke.start_s - 0.6 * stroke.ramp_s
        sideways = np.sin(2 * np.pi * stroke.beats * since) * ease(since / 0.4)
        moved[:, :4] = sideways[:, None] * (0.17, 0.06, 0.2, 0.23)
    elif stroke.pose == "guard":
        moved = blows(t, stroke)[:, None] * (POSES["punch"] - POSES["guard"])
    return moved


def blows(t: np.ndarray, stroke: Stroke) -> np.ndarray:
    """How far a punching arm is out: fast there, slower back, then a rest."""
    if not stroke.beats:
        return np.zeros_like(t)
    since = t - stroke.start_s - stroke.ramp_s - stroke.delay_s
    phase = since * stroke.beats
    part = np.mod(phase, 1.0)
    # Only whole blows, and none before the guard is up.
    held = stroke.end_s - stroke.start_s - 2 * stroke.ramp_s - stroke.delay_s
    last = np.floor(held * stroke.beats)
    on = (phase > 0) & (phase < last)
    return on * ease(part / 0.22) * ease((0.85 - part) / 0.4)


def as_joints(joints: np.ndarray, arms: list[np.ndarray]) -> np.ndarray:
    """Write (T, 7) arms into (T, 29) joints."""
    joints = joints.copy()
    joints[:, COLUMNS[LEFT]] = arms[LEFT]
    joints[:, COLUMNS[RIGHT]] = arms[RIGHT] * _MIRROR
    low, high = g1.SOFT_LIMITS.T
    return joints.clip(low + _MARGIN, high - _MARGIN)

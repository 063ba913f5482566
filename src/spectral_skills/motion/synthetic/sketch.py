"""Smooth curves over time: ramps, levels, wandering, and a soft filter."""

from dataclasses import dataclass, field

import numpy as np

from spectral_skills.motion.synthetic import factors
from spectral_skills.robot import g1

FPS = 50


def ease(x: np.ndarray) -> np.ndarray:
    """From 0 at x <= 0 to 1 at x >= 1 with least jerk."""
    x = np.clip(x, 0.0, 1.0)
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


def bump(t: np.ndarray, rise: float, fall: float, ramp_s: float) -> np.ndarray:
    """Up to one from `rise` on, back to zero at `fall`, each within `ramp_s`."""
    return ease((t - rise) / ramp_s) * ease((fall - t) / ramp_s)


def wander(
    rng: np.random.Generator, t: np.ndarray, slowest_s: float = 6.0, fastest_s=1.2
) -> np.ndarray:
    """Smooth random variation of about unit size that never repeats."""
    periods = np.geomspace(slowest_s, fastest_s, 5) * rng.uniform(0.85, 1.15, 5)
    phases = rng.uniform(0, 2 * np.pi, 5)
    weights = rng.normal(size=5) * np.sqrt(periods)
    weights /= np.linalg.norm(weights) / np.sqrt(2)
    return (weights * np.sin(2 * np.pi * t[:, None] / periods + phases)).sum(axis=1)


def soften(values: np.ndarray, sigma_frames: float) -> np.ndarray:
    """Gaussian filter along time; the ends repeat."""
    radius = int(np.ceil(4 * sigma_frames))
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma_frames) ** 2)
    kernel /= kernel.sum()
    flat = values.reshape(len(values), -1)
    padded = np.pad(flat, ((radius, radius), (0, 0)), mode="edge")
    columns = [np.convolve(column, kernel, mode="valid") for column in padded.T]
    return np.stack(columns, axis=1).reshape(values.shape)


# What the arms do: swing with the legs, unless a stroke owns them.
#
# Angles are those of the left arm; the right arm mirrors them.

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


# A score: the factors of one clip as curves over time, before any physics.
#
# Every factor is a curve of its own, so any of them can be held still, moved or left
# out without touching the others.


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


# Draws a score: acts add their curves, the sketch keeps the time and the words.

_SETTLE_S = 1.7
"""From the end of a walk until both feet stand and the weight is between them."""


@dataclass(frozen=True)
class Phrase:
    """One thing a clip does, as an order and as something going on."""

    order: str
    """`walk forward slowly`"""
    doing: str
    """`walking forward slowly`"""
    holding: str = ""
    """`with the right arm raised`, where it is a state."""


@dataclass
class Sketch:
    """A clip while it is drawn."""

    rng: np.random.Generator
    factors: set[str] = field(default_factory=set)
    now_s: float = 0.0
    """Where the next act begins."""
    width: float = 0.19
    lift: float = 0.045
    hurry: float = 1.0
    """Cadence as a multiple of the usual one."""
    patience: float = 1.0
    """Scales how long a walk lasts: less where one act follows another."""
    acts: list[Phrase] = field(default_factory=list)
    """One after the other."""
    overlays: list[Phrase] = field(default_factory=list)
    """At the same time as the acts."""
    strokes: list[Stroke] = field(default_factory=list)
    walks: list[tuple[float, float]] = field(default_factory=list)
    jogs: list[tuple[float, float]] = field(default_factory=list)
    """Those walks that become a jog when they are fast enough."""
    _moves: list[tuple[str, float, float, float]] = field(default_factory=list)

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def choose(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def add(self, factor: str) -> None:
        """Note a factor; pairs that the table leaves out are refused."""
        factors.check(self.factors | {factor})
        self.factors.add(factor)

    def change(self, curve: str, amount: float, start_s: float, ramp_s: float) -> None:
        """Move a curve of the score by an amount, smoothly from a time on."""
        self._moves.append((curve, amount, start_s, ramp_s))

    def hold(self, curve: str, amount: float, span: tuple[float, float], ramp_s: float):
        """Move a curve within a span and back at its end."""
        self.change(curve, amount, span[0], ramp_s)
        self.change(curve, -amount, span[1] - ramp_s, ramp_s)

    def wait(self, low_s: float, high_s: float) -> None:
        self.now_s += self.uniform(low_s, high_s)

    def walk(self, seconds: float, ramp_s: float, **speeds: float) -> None:
        """Travel at the given speeds between two ramps, then settle."""
        span = (self.now_s, self.now_s + self.patience * seconds + 2 * ramp_s)
        for curve, speed in speeds.items():
            self.hold(curve, speed, span, ramp_s)
        self.walks.append(span)
        self.now_s = span[1] + _SETTLE_S

    def score(self) -> Score:
        """The curves, with the small differences that make every clip its own."""
        frames = int(round(self.now_s * FPS))
        t = np.arange(frames) / FPS
        rng = self.rng
        curves = {
            name: np.zeros(frames)
            for name in ("forward", "sideways", "turning", "drop", "lean", "twist")
        }
        curves["lift"] = np.full(frames, self.lift)
        curves["width"] = np.full(frames, self.width * self.uniform(0.95, 1.08))
        for curve, amount, start, ramp in self._moves:
            curves[curve] += amount * ease((t - start) / ramp)
        for stroke in self.strokes:
            if stroke.pose == "guard":
                # The shoulder goes with the fist.
                sign = 1.0 if stroke.side == RIGHT else -1.0
                curves["twist"] += 0.16 * sign * blows(t, stroke)
        stepping, jogging = _within(t, self.walks), _within(t, self.jogs)
        for speed in ("forward", "sideways"):
            curves[speed] *= 1 + 0.04 * wander(rng, t)
        curves["drop"] += 0.004 * wander(rng, t)
        curves["lean"] += self.uniform(-0.03, 0.05)
        flight = jogging * ease((curves["forward"] - 0.9) / 0.5)
        sway = np.stack((0.006 * wander(rng, t), 0.014 * wander(rng, t)), axis=1)
        return Score(
            **curves,
            stepping=stepping,
            quickness=self.hurry
            * self.uniform(0.96, 1.06)
            * (1 + 0.02 * wander(rng, t)),
            flight=flight,
            sway=sway,
            toe_out=self.uniform(0.0, 0.12),
            strokes=tuple(self.strokes),
            style=_style(rng),
        )


def _within(t: np.ndarray, spans: list[tuple[float, float]]) -> np.ndarray:
    inside = np.zeros(len(t), dtype=bool)
    for start, end in spans:
        inside |= (t >= start) & (t < end)
    return inside


def _style(rng: np.random.Generator) -> Style:
    return Style(
        arm_swing=rng.uniform(0.6, 1.35),
        elbow=rng.uniform(0.65, 1.15),
        shoulder_roll=rng.uniform(0.22, 0.34),
        hang=(rng.uniform(-0.3, 0.15), rng.uniform(-0.3, 0.15)),
        pelvis_turn=rng.uniform(0.7, 1.2),
        pelvis_tilt=rng.uniform(0.7, 1.4),
        torso_turn=rng.uniform(0.6, 1.3),
        height=rng.uniform(-0.02, 0.0),
        seed=int(rng.integers(2**31)),
    )

"""A clip before any physics: curves of its factors over time, and words for them.

Acts draw on a `Sketch`, which keeps the time and the words; it becomes a `Score`.
Every factor is a curve of its own, so any of them can be held still, moved or omitted
without touching the others.
"""

from dataclasses import dataclass, field

import numpy as np

FPS = 50
LEFT, RIGHT = 0, 1
SIDES = ("left", "right")
PARTS = (
    *("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow"),
    *("wrist_roll", "wrist_pitch", "wrist_yaw"),
)
_SETTLE_S = 1.7  # from the end of a walk until the weight is between both feet
_DOUBLED = ("step", "sidestep", "jog", "run", "squat")  # their last letter in -ing


def ease(x: np.ndarray) -> np.ndarray:
    """From 0 at x <= 0 to 1 at x >= 1 with least jerk."""
    x = np.clip(x, 0.0, 1.0)
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


def wander(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    """Smooth random variation of about unit size that never repeats."""
    periods = np.geomspace(6.0, 1.2, 5) * rng.uniform(0.85, 1.15, 5)
    phases = rng.uniform(0, 2 * np.pi, 5)
    weights = rng.normal(size=5) * np.sqrt(periods)
    weights /= np.linalg.norm(weights) / np.sqrt(2)
    return (weights * np.sin(2 * np.pi * t[:, None] / periods + phases)).sum(axis=1)


@dataclass(frozen=True)
class Stroke:
    """One arm takes a pose from `start_s` to `end_s`, eased within `ramp_s`."""

    side: int
    pose: str
    start_s: float
    end_s: float
    ramp_s: float
    offset: np.ndarray  # difference from the pose, rad
    beats: float = 0.0  # swings (wave) or blows (guard) a second while the pose is held
    delay_s: float = 0.0  # time before the first blow
    heights: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """Times, and the share of the way to the pose that the arm takes from then on."""

    def height(self, t: np.ndarray) -> np.ndarray:
        """Share of the way to the pose, over time."""
        share, before = np.zeros_like(t), 0.0
        for start, now in self.heights:
            share += (now - before) * (ease((t - start) / self.ramp_s) if before else 1)
            before = now
        return share

    def blows(self, t: np.ndarray) -> np.ndarray:
        """How far a punching arm is out: fast there, slower back, then a rest."""
        if not self.beats:
            return np.zeros_like(t)
        since = t - self.start_s - self.ramp_s - self.delay_s
        phase = since * self.beats
        part = np.mod(phase, 1.0)
        # Only whole blows, and none before the guard is up.
        held = self.end_s - self.start_s - 2 * self.ramp_s - self.delay_s
        last = np.floor(held * self.beats)
        on = (phase > 0) & (phase < last)
        return on * ease(part / 0.22) * ease((0.85 - part) / 0.4)


@dataclass(frozen=True)
class Score:
    """Curves at 50 Hz, one value a frame, what the arms do, and a manner of moving."""

    forward: np.ndarray  # speed along the heading, m/s
    sideways: np.ndarray  # speed to the left, m/s
    turning: np.ndarray  # yaw rate, rad/s
    stepping: np.ndarray  # whether the feet should step
    quickness: np.ndarray  # cadence as a multiple of what the speed suggests
    lift: np.ndarray  # height of the sole in mid-swing, m
    flight: np.ndarray  # 0 walks with double support, 1 jogs with time in the air
    drop: np.ndarray  # how much lower than usual the pelvis is, m
    lean: np.ndarray  # pitch of the trunk, rad
    twist: np.ndarray  # yaw of the shoulders, rad
    sway: np.ndarray  # (T, 2) shift of the weight while standing, ahead and left, m
    width: np.ndarray  # distance between the ankles, m
    strokes: tuple[Stroke, ...]
    # How the person of the clip moves.
    toe_out: float  # yaw of each foot outwards, rad
    arm_swing: float
    elbow: float  # elbow angle at rest, rad; 1.57 is a straight arm
    shoulder_roll: float
    hang: tuple[float, float]  # offsets of the shoulders' pitch, rad
    pelvis_turn: float
    pelvis_tilt: float
    torso_turn: float
    height: float  # offset of the pelvis height, m
    seed: int  # seed of the small variation that nothing else decides

    @property
    def frames(self) -> int:
        return len(self.forward)


@dataclass(frozen=True)
class Phrase:
    """One thing a clip does, in words."""

    order: str  # `walk forward slowly`
    doing: str  # `walking forward slowly`
    holding: str = ""  # `with the right arm raised`, where it is a state


def _doing(order: str) -> str:
    """The first verb of an order as something going on."""
    verb, space, rest = order.partition(" ")
    stem = verb + verb[-1] if verb in _DOUBLED else verb.removesuffix("e")
    return f"{stem}ing{space}{rest}"


@dataclass
class Sketch:
    """A clip while it is drawn."""

    rng: np.random.Generator
    factors: frozenset[str] = frozenset()
    now_s: float = 0.0  # time at which the next act begins
    width: float = 0.19
    lift: float = 0.045
    hurry: float = 1.0  # cadence as a multiple of the usual one
    patience: float = 1.0  # scale of how long a walk lasts
    acts: list[Phrase] = field(default_factory=list)  # acts one after the other
    overlays: list[Phrase] = field(default_factory=list)  # at the same time
    strokes: list[Stroke] = field(default_factory=list)
    walks: list[tuple[float, float]] = field(default_factory=list)
    jogs: list[tuple[float, float]] = field(default_factory=list)  # walks to jog
    _moves: list[tuple[str, float, float, float]] = field(default_factory=list)

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def choose(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def act(self, order: str, doing: str = "") -> None:
        """Note what the clip does next."""
        self.acts.append(Phrase(order, doing or _doing(order)))

    def overlay(self, order: str, holding: str = "") -> None:
        """Note what the clip does at the same time."""
        self.overlays.append(Phrase(order, _doing(order), holding))

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
        t, rng = np.arange(frames) / FPS, self.rng
        still = ("forward", "sideways", "turning", "drop", "lean", "twist")
        curves = {name: np.zeros(frames) for name in still}
        curves["lift"] = np.full(frames, self.lift)
        curves["width"] = np.full(frames, self.width * self.uniform(0.95, 1.08))
        for curve, amount, start, ramp in self._moves:
            curves[curve] += amount * ease((t - start) / ramp)
        for stroke in self.strokes:
            if stroke.pose == "guard":
                # The shoulder goes with the fist.
                sign = 1.0 if stroke.side == RIGHT else -1.0
                curves["twist"] += 0.16 * sign * stroke.blows(t)
        for speed in ("forward", "sideways"):
            curves[speed] *= 1 + 0.04 * wander(rng, t)
        curves["drop"] += 0.004 * wander(rng, t)
        curves["lean"] += self.uniform(-0.03, 0.05)
        flight = _within(t, self.jogs) * ease((curves["forward"] - 0.9) / 0.5)
        sway = np.stack((0.006 * wander(rng, t), 0.014 * wander(rng, t)), axis=1)
        quickness = self.hurry * self.uniform(0.96, 1.06) * (1 + 0.02 * wander(rng, t))
        # Arguments are evaluated in this order, so each has its place in the draws.
        return Score(
            **curves,
            stepping=_within(t, self.walks),
            quickness=quickness,
            flight=flight,
            sway=sway,
            strokes=tuple(self.strokes),
            toe_out=self.uniform(0.0, 0.12),
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


def _within(t: np.ndarray, spans: list[tuple[float, float]]) -> np.ndarray:
    inside = np.zeros(len(t), dtype=bool)
    for start, end in spans:
        inside |= (t >= start) & (t < end)
    return inside

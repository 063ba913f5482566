"""Draws a score: acts add their curves, the sketch keeps the time and the words."""

from dataclasses import dataclass, field

import numpy as np

from spectral_skills.motion.synthetic import arms, factors
from spectral_skills.motion.synthetic.curves import FPS, ease, wander
from spectral_skills.motion.synthetic.score import Score, Style

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
    strokes: list[arms.Stroke] = field(default_factory=list)
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
                sign = 1.0 if stroke.side == arms.RIGHT else -1.0
                curves["twist"] += 0.16 * sign * arms.blows(t, stroke)
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

"""The motions that are steered: the paper's five bases and a stance, of any length.

They are generated, as the embedded corpus is, but belong to no corpus: nothing was
trained on them. Any clip of a corpus serves as well.
"""

from dataclasses import dataclass

import numpy as np

from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import acts
from spectral_skills.motion.synthetic.acts import stroke
from spectral_skills.motion.synthetic.generate import Piece, perform
from spectral_skills.motion.synthetic.sketch import LEFT, RIGHT, Sketch

BASES = ("walk", "jog", "squat", "carry", "backward")
"""As in the paper; its carry also turns once around, ours goes straight."""
NAMES = (*BASES, "stand", "turn-left", "turn-right")
STEPS = 400
"""Of a run that effects are measured in."""
FALL_M = 0.40
SQUAT_FALL_M = 0.22
"""A root lower than this has fallen."""
_SPEEDS = {"walk": 0.75, "carry": 0.6, "backward": -0.5, "jog": 1.6}
_RAMP_S = {"walk": 1.4, "carry": 1.4, "backward": 1.3, "jog": 2.8}
_TURNS = {"turn-left": 0.6, "turn-right": -0.6}
"""On the spot, rad/s."""


@dataclass(frozen=True)
class Base:
    """A motion to steer."""

    name: str
    rows: np.ndarray
    """(T + 1, 36) float32"""
    fall_m: float = FALL_M

    @property
    def steps(self) -> int:
        """Control steps from its first row to its last."""
        return len(self.rows) - 1


def generate(name: str, steps: int = STEPS, seed: int = 0) -> Base:
    """A base by its name, under way from the first frame on."""
    if name not in NAMES:
        raise ValueError(f"no base {name!r}; there are {', '.join(NAMES)}")
    sketch, seconds = Sketch(np.random.default_rng(seed)), steps / FPS + 1.0
    first_s = 0.5
    if name in _SPEEDS:
        first_s = _travel(sketch, name, seconds)
    elif name in _TURNS:
        sketch.now_s = 0.2
        sketch.walk(seconds, 0.9, turning=_TURNS[name], width=0.04)
        first_s = 1.1
    elif name == "squat":
        while sketch.now_s < seconds + 1.0:
            acts.squat(sketch)
    else:
        sketch.width, sketch.now_s = 0.22, seconds + 1.0
    score, first = sketch.score(), round(first_s * FPS)
    rows = perform(Piece(name, "", score, (first, first + steps + 1))).qpos()
    return _base(name, np.asarray(rows, np.float32))


def of_factor(factor: str, steps: int = STEPS) -> Base:
    """A base that is one factor of the corpus, under way from the first frame on."""
    sketch, seconds, first_s = Sketch(np.random.default_rng(0)), steps / FPS + 1.0, 1.6
    if factor == "turn":
        sketch.walk(seconds, 0.9, turning=0.6, width=0.04)
    elif factor == "arc":
        sketch.walk(seconds, 1.4, forward=0.6, turning=0.35)
    elif factor == "sideways":
        sketch.walk(seconds, 0.9, sideways=0.36, width=0.1)
    elif factor == "bow":
        first_s = 0.0
        while sketch.now_s < seconds:
            acts.bow(sketch)
    else:
        acts.MANNER[factor](sketch)
        sketch.walk(seconds, 1.1, forward=0.45)
    first = round(first_s * FPS)
    piece = Piece(factor, "", sketch.score(), (first, first + steps + 1))
    return Base(factor, np.asarray(perform(piece).qpos(), np.float32))


def _travel(sketch: Sketch, name: str, seconds: float) -> float:
    """Draw a walk or a jog; gives the time from which it has its speed."""
    ramp, speed = _RAMP_S[name], _SPEEDS[name]
    sketch.now_s = 0.2
    more = {}
    if name == "jog":
        more = {"width": 0.13 - sketch.width, "lift": 0.06}
    sketch.walk(seconds, ramp, forward=speed, **more)
    if name == "jog":
        sketch.jogs.append(sketch.walks[-1])
    if name == "carry":
        span = (-2.0, sketch.now_s + 2.0)
        stroke(sketch, (LEFT, RIGHT), "carry", span, 1.0)
    return 0.2 + ramp


def of_clip(corpus: Corpus, name: str, steps: int | None = None) -> Base:
    """A clip of a corpus, whole or its beginning; past its end it stands still."""
    rows = np.asarray(corpus.qpos(corpus.index(name)), np.float32)
    if steps is not None:
        at = np.arange(steps + 1).clip(max=len(rows) - 1)
        rows = rows[at]
    if len(rows) < 2:
        raise ValueError(f"{name}: one frame; there is nothing to steer")
    return _base(name, rows)


def _base(name: str, rows: np.ndarray) -> Base:
    # What is low anyway has fallen only when it is lower still.
    low = bool(rows[:, 2].min() < FALL_M + 0.2)
    return Base(name, rows, SQUAT_FALL_M if low else FALL_M)

"""The motions that are steered: the paper's five bases, a stance and two turns.

They are generated, as the embedded corpus is, but belong to no corpus: nothing was
trained on them. Any clip of a corpus serves as well.
"""

from dataclasses import dataclass

import numpy as np

from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import factors
from spectral_skills.motion.synthetic.generate import Piece, perform
from spectral_skills.motion.synthetic.sketch import LEFT, RIGHT, Sketch

BASES = ("walk", "jog", "squat", "carry", "backward")
"""Names as in the paper, whose carry also turns once around; ours goes straight."""
NAMES = (*BASES, "stand", "turn-left", "turn-right")
STEPS = 400  # control steps of a run that effects are measured in
FALL_M = 0.40  # a root lower than this has fallen
SQUAT_FALL_M = 0.22  # the same for motions that are low anyway
_WALKS, _OF_FACTORS = factors.TABLES["bases"], factors.TABLES["bases_of_factors"]


@dataclass(frozen=True)
class Base:
    name: str
    rows: np.ndarray  # (T + 1, 36) float32
    fall_m: float = FALL_M
    skills: np.ndarray | None = None
    """(T, d) where only these are kept; of the rows, then only the first two count."""

    @property
    def steps(self) -> int:
        """Number of control steps from its first row to its last."""
        return len(self.rows) - 1


def generate(name: str, steps: int = STEPS) -> Base:
    """A base by its name, under way from the first frame on."""
    if name not in NAMES:
        raise ValueError(f"no base {name!r}; there are {', '.join(NAMES)}")
    sketch, seconds = Sketch(np.random.default_rng(0)), steps / FPS + 1.0
    first_s = 0.5
    if name in _WALKS:
        sketch.now_s, first_s = 0.2, 0.2 + _WALKS[name]["ramp_s"]
        sketch.walk(seconds, **_WALKS[name])
        if name == "jog":
            sketch.jogs.append(sketch.walks[-1])
        if name == "carry":
            span = (-2.0, sketch.now_s + 2.0)
            factors.stroke(sketch, (LEFT, RIGHT), name, span, 1.0)
    elif name == "squat":
        while sketch.now_s < seconds + 1.0:
            factors.squat(sketch)
    else:
        sketch.width, sketch.now_s = 0.22, seconds + 1.0
    return _base(name, _performed(sketch, first_s, steps))


def of_factor(factor: str, steps: int = STEPS) -> Base:
    """A base that is one factor of the corpus, under way from the first frame on."""
    sketch, seconds = Sketch(np.random.default_rng(0)), steps / FPS + 1.0
    if factor == "bow":
        while sketch.now_s < seconds:
            factors.bow(sketch)
        return Base(factor, _performed(sketch, 0.0, steps))
    if factor in factors.MANNER:
        factors.MANNER[factor](sketch)
    sketch.walk(seconds, **_OF_FACTORS[factor])
    return Base(factor, _performed(sketch, 1.6, steps))


def _performed(sketch: Sketch, first_s: float, steps: int) -> np.ndarray:
    first = round(first_s * FPS)
    piece = Piece("", "", sketch.score(), (first, first + steps + 1))
    return np.asarray(perform(piece).qpos(), np.float32)


def of_clip(corpus: Corpus, name: str, steps: int | None = None) -> Base:
    """A clip of a corpus, whole or its beginning; past its end it stands still."""
    try:
        index = corpus.index(name)
    except ValueError as error:
        raise ValueError(f"{error}; bases are {', '.join(NAMES)}") from None
    rows = np.asarray(corpus.qpos(index), np.float32)
    if steps is not None:
        rows = rows[np.arange(steps + 1).clip(max=len(rows) - 1)]
    if len(rows) < 2:
        raise ValueError(f"{name}: one frame; there is nothing to steer")
    return _base(name, rows)


def _base(name: str, rows: np.ndarray) -> Base:
    return Base(name, rows, fall_m(rows))


def fall_m(rows: np.ndarray) -> float:
    """Return the height of the root below which a robot that does this has fallen."""
    # What is low anyway has fallen only when it is lower still.
    low = bool(rows[:, 2].min() < FALL_M + 0.2)
    return SQUAT_FALL_M if low else FALL_M

"""One composed run: knobs on a base, what they did and what was predicted of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.schedules import MARGIN_STEPS, Knob, schedule
from spectral_skills.experiments.composition.foretold import ALIKE, foretold
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.neighbours import Neighbours
from spectral_skills.experiments.effects import (
    NOTICED,
    UNITS,
    Effect,
    effect,
    measure,
)
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.spectral.support import WINDOW


@dataclass(frozen=True)
class Composed:
    """A steered run beside the unsteered one."""

    title: str
    steered: Executed
    plain: Executed
    steps: slice
    """Rows over which effects are measured: all knobs at full amplitude."""
    measures: dict[str, tuple[float, float]]
    """Of the unsteered and of the steered run."""
    effect: Effect
    predicted: dict[str, float]
    """What the skill model says of some measures."""
    distance: tuple[float, float]
    """Median distance of the unsteered and of the steered motion's skills to the
    nearest of the corpus."""

    @property
    def side_effects(self) -> dict[str, float]:
        """Noticed changes that nobody asked for: where the prediction is no third of
        what one notices."""
        return {
            name: change
            for name, change in self.effect.changes.items()
            if abs(change) >= NOTICED[name]
            and abs(self.predicted.get(name, 0.0)) < NOTICED[name] / 3
        }


def knobs(
    names: Sequence[str],
    amplitudes: Sequence[float],
    at: Sequence[float] | None,
    until: Sequence[float] | None,
    seconds: float,
) -> list[Knob]:
    """Knobs from lists with one value for each direction; times in s."""
    steps = round(seconds * FPS)
    starts = [MARGIN_STEPS] * len(names) if at is None else [round(t * FPS) for t in at]
    ends = [steps - MARGIN_STEPS] * len(names)
    if until is not None:
        ends = [round(t * FPS) for t in until]
    for what, given in (
        ("--amplitude", amplitudes),
        ("--at", starts),
        ("--until", ends),
    ):
        if len(given) != len(names):
            raise ValueError(
                f"{what} has {len(given)} values for {len(names)} directions; give one "
                "for each"
            )
    turned = zip(names, amplitudes, starts, ends, strict=True)
    return [Knob(n.replace(" ", "_"), a, start, end) for n, a, start, end in turned]


def find_base(lab: Lab, corpus: Corpus, name: str, steps: int | None = None) -> Base:
    """A generated base, or a clip of a corpus."""
    if name in bases.NAMES:
        return lab.base(name, steps or bases.STEPS)
    if name not in corpus.names:
        known = ", ".join(bases.NAMES)
        raise ValueError(f"no base and no clip {name!r}; bases are {known}")
    return bases.of_clip(corpus, name, steps)


def steer(
    lab: Lab,
    corpus: Corpus,
    name: str,
    turned: Sequence[Knob],
    seconds: float,
    seed: int | None = None,
) -> Composed:
    """Run a base with knobs and without."""
    base = find_base(lab, corpus, name, round(seconds * FPS))
    names = lab.directions.names
    amplitudes = schedule(turned, base.steps, names)
    change = (amplitudes @ lab.directions.vectors).astype(np.float32)
    labels = [f"{knob.direction} {knob.amplitude:+g}" for knob in turned]
    steered, plain = lab.execute(
        [
            lab.steered(base, change, " ".join(labels), seed=seed),
            lab.plain(base, seed),
        ]
    )
    steps = _full(turned, base.steps)
    weights = amplitudes[steps].mean(axis=0)
    known = foretold(lab.directions, steps).items()
    pair = [measure(run.rows, steps) for run in (plain, steered)]
    near = Neighbours.build(lab.encoder, corpus)
    distances = [
        float(np.median(near.distances(run.rows[steps]))) for run in (plain, steered)
    ]
    return Composed(
        title=f"{name} with {', '.join(labels)}",
        steered=steered,
        plain=plain,
        steps=steps,
        measures={key: (pair[0][key], pair[1][key]) for key in UNITS},
        effect=effect(steered.rows, plain.rows, steps),
        predicted={k: float(weights @ v) for k, v in known if k not in ALIKE},
        distance=(distances[0], distances[1]),
    )


def _full(turned: Sequence[Knob], steps: int) -> slice:
    """Where all knobs are up, if that lasts a second; else where any is."""
    ups = [k.start + k.ramp for k in turned]
    downs = [steps if k.end is None else k.end - k.ramp for k in turned]
    for start, stop in ((max(ups), min(downs)), (min(ups), max(downs))):
        if min(stop, steps) - start >= WINDOW:
            return slice(start, min(stop, steps))
    raise ValueError(
        f"the knobs are up for less than {WINDOW / FPS:g} s of {steps / FPS:g} s; "
        "release them later, or make the run longer with --seconds"
    )

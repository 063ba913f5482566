"""One composed run: knobs on a base, their effects, and what was predicted of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.control.steering import MARGIN_STEPS, Knob, schedule
from spectral_skills.experiments.effects import Effect, effect, measure, predicted
from spectral_skills.experiments.neighbours import Neighbours
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.spectral.catalogue import LOOSELY_PREDICTED, NOTICED, UNITS
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
    effect: Effect
    predicted: dict[str, float]
    """Changes of some measures that the skill model predicts."""
    distance: tuple[float, float]
    """Median distance of the unsteered and of the steered motion's skills to the
    nearest of the corpus."""

    @property
    def side_effects(self) -> dict[str, float]:
        """Noticeable changes that nobody asked for: those whose prediction is less than
        a third of what people notice."""
        return {
            name: change
            for name, change in self.effect.changes.items()
            if abs(change) >= NOTICED[name]
            and abs(self.predicted.get(name, 0.0)) < NOTICED[name] / 3
        }


def knobs(
    names: Sequence[str],
    amplitudes: Sequence[float],
    seconds: float,
    at: Sequence[float] = (),
    until: Sequence[float] = (),
) -> list[Knob]:
    """Return knobs from lists with one value for each direction, times in s.

    Without times, knobs are turned up over the whole run but for a margin.
    """
    starts = [round(t * FPS) for t in at] or [MARGIN_STEPS] * len(names)
    last = round(seconds * FPS) - MARGIN_STEPS
    ends = [round(t * FPS) for t in until] or [last] * len(names)
    options = {"--amplitude": amplitudes, "--at": starts, "--until": ends}
    for option, given in options.items():
        if len(given) != len(names):
            raise ValueError(
                f"{option} has {len(given)} values for {len(names)} directions; give "
                "one for each"
            )
    values = zip(names, amplitudes, starts, ends, strict=True)
    return [Knob(n.replace(" ", "_"), a, start, end) for n, a, start, end in values]


def steer(
    runner: Runner,
    corpus: Corpus,
    name: str,
    turned: Sequence[Knob],
    seconds: float,
    seed: int | None = None,
) -> Composed:
    """Run a generated base, or a clip of a corpus, with knobs and without."""
    count, directions = round(seconds * FPS), runner.directions
    clip = name not in runner.known
    base = bases.of_clip(corpus, name, count) if clip else runner.base(name, count)
    amplitudes = schedule(turned, base.steps, directions.names)
    change = (amplitudes @ directions.vectors).astype(np.float32)
    labels = [f"{knob.direction} {knob.amplitude:+g}" for knob in turned]
    run = runner.steered(base, change, " ".join(labels), seed=seed)
    steered, plain = runner.execute([run, runner.plain(base, seed)])
    steps = full_steps(turned, base.steps)
    weights = amplitudes[steps].mean(axis=0)
    known = predicted(directions, steps).items()
    before, after = (measure(one.rows, steps) for one in (plain, steered))
    near = Neighbours.build(runner.encoder, corpus)
    distances = (near.distances(one.rows[steps]) for one in (plain, steered))
    unsteered, ours = (float(np.median(one)) for one in distances)
    return Composed(
        title=f"{name} with {', '.join(labels)}",
        steered=steered,
        plain=plain,
        steps=steps,
        measures={key: (before[key], after[key]) for key in UNITS},
        effect=effect(steered, plain, steps),
        predicted={
            k: float(weights @ v) for k, v in known if k not in LOOSELY_PREDICTED
        },
        distance=(unsteered, ours),
    )


def full_steps(turned: Sequence[Knob], steps: int) -> slice:
    """Steps at which all knobs are up, if that lasts a second; else any knob."""
    ups = [k.start + k.ramp for k in turned]
    downs = [steps if k.end is None else k.end - k.ramp for k in turned]
    for start, stop in ((max(ups), min(downs)), (min(ups), max(downs))):
        if min(stop, steps) - start >= WINDOW:
            return slice(start, min(stop, steps))
    raise ValueError(
        f"the knobs are up for less than {WINDOW / FPS:g} s of {steps / FPS:g} s; "
        "release them later, or make the run longer with --seconds"
    )

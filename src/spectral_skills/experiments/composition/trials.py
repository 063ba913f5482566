"""Runs that are asked for something, beside the unsteered runs of their bases."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from spectral_skills.control.batch import Run
from spectral_skills.control.schedules import standard
from spectral_skills.experiments.composition.candidates import Options, Vectors
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.pass_rule import Target, Verdict, judge
from spectral_skills.motion.synthetic.bases import Base

Chosen = dict[Target, tuple[str, np.ndarray]]
"""A named direction for each target."""


@dataclass(frozen=True)
class Trial:
    """A run that is asked for something."""

    target: Target
    executed: Executed
    verdict: Verdict
    amplitude: float


class Bench:
    """Runs trials beside the unsteered runs of their bases."""

    def __init__(self, lab: Lab, bases: Sequence[str], steps: int, seed: int | None):
        self.lab, self.seed = lab, seed
        self.bases = [lab.base(name, steps) for name in bases]
        plain = lab.execute([lab.plain(base, seed) for base in self.bases], "bases")
        self.plain = {one.run.base.name: one for one in plain}

    def judge(self, target: Target, executed: Executed) -> Verdict:
        return judge(target, executed, self.plain[executed.run.base.name], self.lab)

    def trials(self, asked: list[tuple[Target, Run, float]], told: str) -> list[Trial]:
        executed = self.lab.execute([run for _, run, _ in asked], told)
        return [
            Trial(target, one, self.judge(target, one), amplitude)
            for (target, _, amplitude), one in zip(asked, executed, strict=True)
        ]

    def run(self, base: Base, name: str, vector: np.ndarray, amplitude: float) -> Run:
        told = f"{name} a={amplitude:+g}"
        return self.lab.steered(base, amplitude * vector, told, seed=self.seed)

    def steered(self, chosen: Chosen, amplitudes: Sequence[float]) -> list[Trial]:
        """A direction for each target, on all bases."""
        every = product(chosen.items(), self.bases, amplitudes)
        asked = [(t, self.run(b, *named, a), a) for (t, named), b, a in every]
        return self.trials(asked, "steered")

    def forced(self, trials: list[Trial]) -> list[Trial]:
        """The mean pose change of steered runs, added to the joint targets instead."""
        asked = []
        for trial in trials:
            if not trial.executed.stands:
                continue  # what lies has no pose to copy
            base = trial.executed.run.base
            pose = self.lab.effect(trial.executed, self.plain[base.name]).pose
            servo = (standard(1.0, base.steps) * pose).astype(np.float32)
            name = f"{trial.executed.run.name} forced"
            run = Run(name, base, self.lab.skills(base), self.seed, servo=servo)
            asked.append((trial.target, run, trial.amplitude))
        return self.trials(asked, "forced")

    def choose(self, options: Options, amplitude: float) -> Chosen:
        """The best of each target's directions on the first base."""
        every: Vectors = {n: v for some in options.values() for n, v in some.items()}
        runs = [self.run(self.bases[0], *named, amplitude) for named in every.items()]
        executed = dict(zip(every, self.lab.execute(runs, "candidates"), strict=True))
        best = {}
        for target, vectors in options.items():
            tried = {name: self.judge(target, executed[name]) for name in vectors}
            ranks = {
                n: (v.passes, v.failure != "fall", v.share) for n, v in tried.items()
            }
            name = max(ranks, key=lambda name: ranks[name])
            best[target] = name, vectors[name]
        return best

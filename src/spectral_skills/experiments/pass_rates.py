"""How often a goal is reached and the rest left alone, by the paper's rule.

The ways compared: directions for a goal, by prediction as in the paper and by what
robots do as well; spectral directions; the steered run's pose forced on the servos;
and directions found from skills without a predictor, which are principal components,
which know no goal, and ridge regression to an attribute of the motion. The last two are
also tried on a tracker of tokens (FSQ), where there is one. There, an amplitude of 1 is
as many of that space's own deviations as it is of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.steering import full_amplitude, standard
from spectral_skills.experiments.effects import Steered, effect, falls, hold, predicted
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.experiments.neighbours import (
    DescribedSkills,
    describe_skills,
    principal,
    ridge,
)
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.spectral.catalogue import NOTICED
from spectral_skills.spectral.direction_file import BY_PREDICTION, Directions
from spectral_skills.spectral.support import ATTRIBUTES, describe_run

NAME = "pass_rates"
GRID = grid(NAME)
DIRECTED, MORE = "target-directed", "target-directed, larger"
KNOBS = "target-directed, by robots too"
SPECTRAL, PCA, RIDGE = "spectral directions only", "PCA of skills", "ridge on skills"


@dataclass(frozen=True, eq=False)
class Goal:
    """A change that a run is asked for."""

    name: str
    direction: str
    moves: dict[str, float]
    """Measures and their changes; `speed` is forward, so less of a backward walk."""

    def predicted(self, directions: Directions) -> np.ndarray:
        """(k,) share of the goal that is predicted for a unit of each direction."""
        known = predicted(directions, full_amplitude(GRID.steps))
        return np.mean(
            [known[name] / goal for name, goal in self.moves.items()], axis=0
        )


TARGETS = tuple(Goal(name, **how) for name, how in GRID.targets.items())
Options = dict[Goal, dict[str, np.ndarray]]
"""Directions by name, as long as an amplitude of 1, that a way of steering chooses from
for each target."""


@dataclass(frozen=True)
class Verdict:
    """Whether a run passes, and why not."""

    share: float
    """Share of the goal that was reached; of two joints, by the one that moved less."""
    failure: str
    """Reason: `fall`, `too little`, `speed`, `heading`, or empty."""

    @property
    def passes(self) -> bool:
        return not self.failure


def judge(target: Goal, run: Executed, plain: Executed) -> Verdict:
    """Judge a run by the paper's rule: it does not fall, makes at least half of the
    change, and keeps speed and heading near the base unless they are the target."""
    changes = dict(effect(run, plain).changes)
    steps, forward = hold(run.run.base), ATTRIBUTES.index("forward_speed")
    speed, usual = (describe_run(one.rows, steps)[forward] for one in (run, plain))
    changes["speed"] = float(speed - usual)
    share = min(changes[name] / goal for name, goal in target.moves.items())
    fast = abs(usual) >= GRID.slow
    near = GRID.speed_share * abs(usual) if fast else NOTICED["speed"]
    failure = ""
    if not run.stands:
        failure = "fall"
    elif not share >= GRID.enough:  # What is not a number is not enough.
        failure = "too little"
    elif "speed" not in target.moves and abs(changes["speed"]) > near:
        failure = "speed"
    elif "heading" not in target.moves and abs(changes["heading"]) > GRID.heading_deg:
        failure = "heading"
    return Verdict(share, failure)


def spectral_options(directions: Directions, count: int) -> Options:
    """The spectral directions that are predicted to do most for a target."""
    places = directions.family("spectral")
    vectors, found = directions.vectors[places], {}
    for target in TARGETS:
        predicted = target.predicted(directions)[places]
        best = np.argsort(-np.abs(predicted))[:count].tolist()
        signs = {i: -1.0 if predicted[i] < 0 else 1.0 for i in best}
        found[target] = {
            f"{'-+'[sign > 0]}s{i + 1:02d}": sign * vectors[i]
            for i, sign in signs.items()
        }
    return found


def blind_options(
    found: DescribedSkills, count: int, unit: float = 1.0
) -> tuple[Options, Options]:
    """Principal components of skills, both signs of each, the same for all targets; and
    the one direction that ridge regression finds for each target."""
    components = {
        f"{'-+'[sign > 0]}pc{i + 1}": sign * unit * vector
        for i, vector in enumerate(principal(found.skills, count))
        for sign in (1.0, -1.0)
    }
    rolls = [found.attribute(f"{side}_shoulder_roll") for side in ("left", "right")]
    attributes = {
        "right arm": -found.attribute("right_shoulder_pitch"),
        "spread": rolls[0] - rolls[1],
        "speed": found.attribute("forward_speed"),
        "turn": found.attribute("yaw_rate"),
    }
    fitted = {
        t: {f"{t.name} ridge": unit * ridge(found.skills, attributes[t.name])}
        for t in TARGETS
    }
    return dict.fromkeys(TARGETS, components), fitted


@dataclass(frozen=True)
class Trial:
    """A run that is asked for something."""

    target: Goal
    steered: Steered
    amplitude: float

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.target, self.steered.executed, self.steered.plain)


Chosen = dict[Goal, tuple[str, np.ndarray]]
"""A named direction for each target."""


class Trials:
    """Runs trials beside the unsteered runs of their bases."""

    def __init__(
        self, runner: Runner, bases: Sequence[str], steps: int, seed: int | None = None
    ):
        self.runner, self.seed = runner, seed
        self.bases = [runner.base(name, steps) for name in bases]
        runs = [runner.plain(base, seed) for base in self.bases]
        self.plain = {o.run.base.name: o for o in runner.execute(runs, "bases")}
        self.chosen: dict[str, str] = {}
        """Names of the directions that were chosen, by way of steering."""

    def _trials(self, asked: list[tuple[Goal, Run, float]], label: str) -> list[Trial]:
        executed = self.runner.execute([run for _, run, _ in asked], label)
        return [
            Trial(target, Steered(one, self.plain[run.base.name]), amplitude)
            for (target, run, amplitude), one in zip(asked, executed, strict=True)
        ]

    def _run(self, base: Base, name: str, vector: np.ndarray, amplitude: float) -> Run:
        label = f"{name} a={amplitude:+g}"
        return self.runner.steered(base, amplitude * vector, label, seed=self.seed)

    def steered(self, chosen: Chosen, amplitudes: Sequence[float]) -> list[Trial]:
        """Every target's direction on all bases."""
        every = product(chosen.items(), self.bases, amplitudes)
        asked = [(t, self._run(b, *named, a), a) for (t, named), b, a in every]
        return self._trials(asked, "steered")

    def forced(self, trials: list[Trial]) -> list[Trial]:
        """The mean pose change of steered runs, added to the joint targets instead."""
        asked = []
        for trial in trials:
            one, base = trial.steered, trial.steered.run.base
            if one.stands:  # A fallen robot has no pose to copy.
                servo = (standard(1.0, base.steps) * one.effect.pose).astype(np.float32)
                about = f"{one.run.name} forced", base, self.runner.skills(base)
                run = Run(*about, self.seed, servo=servo)
                asked.append((trial.target, run, trial.amplitude))
        return self._trials(asked, "forced")

    def best(self, way: str, options: Options, amplitude: float) -> list[Trial]:
        """The best of each target's directions on the first base, on all bases."""
        every = {n: v for some in options.values() for n, v in some.items()}
        base = self.bases[0]
        runs = [self._run(base, *named, amplitude) for named in every.items()]
        executed = self.runner.execute(runs, "candidates")
        by_name = dict(zip(every, executed, strict=True))

        def rank(target: Goal, name: str) -> tuple:
            verdict = judge(target, by_name[name], self.plain[base.name])
            return verdict.passes, verdict.failure != "fall", verdict.share

        found = {}
        for target, vectors in options.items():
            name = max(vectors, key=partial(rank, target))
            found[target] = name, vectors[name]
        self.chosen[way] = ", ".join(
            f"{t.name} {name}" for t, (name, _) in found.items()
        )
        return self.steered(found, [amplitude])


def solved_ways(runner: Runner) -> dict[str, Chosen]:
    """The direction solved for each target: by prediction, and where the file has it,
    by what robots do as well."""
    names = [name.split(" ")[0] for name in runner.directions.names]
    ways = {DIRECTED: ""}
    if BY_PREDICTION + TARGETS[0].direction in names:
        ways = {DIRECTED: BY_PREDICTION, KNOBS: ""}
    return {
        way: {t: (t.name, runner.direction(beginning + t.direction)) for t in TARGETS}
        for way, beginning in ways.items()
    }


def elsewhere(runner: Runner, chosen: Chosen, steps: int, seed: int) -> list[Trial]:
    """The paper's tests on the walk in another simulator: here, on another robot."""
    trials, found = Trials(runner, ["walk"], steps, seed), []
    for target, amplitudes in GRID.elsewhere["amplitudes"].items():
        one = {t: named for t, named in chosen.items() if t.name == target}
        found += trials.steered(one, amplitudes)
    return found


def pass_rates(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    corpus: Corpus | None = None,
    tokens: Runner | None = None,
    **changes: Any,
) -> Findings:
    """Pass rates of every way, on every base; directions are chosen on the first.

    `tokens` is a tracker of FSQ tokens, judged against its own unsteered runs.
    """
    run, corpus = grid(NAME, **changes), corpus or Corpus.open(embedded_corpus())
    report, first = Draft(NAME, runner, corpus.hash), run.amplitudes[0]
    trials = Trials(runner, run.bases, run.steps)
    by_seed = {seed: Trials(runner, run.bases, run.steps, seed) for seed in seeds}
    rows, solved = {}, solved_ways(runner)
    for way, chosen in solved.items():
        for seed, some in {None: trials, **by_seed}.items():
            row = way if seed is None else f"{way}, seed {seed}"
            robot = run.elsewhere["seed"] + (0 if seed is None else 1 + seed)
            other = elsewhere(runner, chosen, run.steps, robot)
            rows[row] = some.steered(chosen, run.amplitudes) + other
    rows[MORE] = trials.steered(solved[DIRECTED], run.larger)
    skills = describe_skills(runner.encoder, corpus)
    components, fitted = blind_options(skills, run.candidates)
    spectral = spectral_options(runner.directions, run.candidates)
    for way, options in ((SPECTRAL, spectral), (PCA, components), (RIDGE, fitted)):
        rows[way] = trials.best(way, options, first)
    same = [trial for trial in rows[DIRECTED] if trial.steered.run.seed is None]
    rows["joint offset (oracle)"] = trials.forced(same)
    _add_rows(report, rows, runner)
    about = ""
    if tokens is not None:
        theirs = Trials(tokens, run.bases, run.steps)
        found = describe_skills(tokens.encoder, corpus)
        unit = found.spread / skills.spread
        both = blind_options(found, run.candidates, unit)
        pairs = zip(("FSQ PCA", "FSQ ridge"), both, strict=True)
        more = {way: theirs.best(way, options, first) for way, options in pairs}
        _add_rows(report, more, tokens)
        counts = {"falls": falls(theirs.plain.values()), "bases": len(theirs.plain)}
        chosen = theirs.chosen["FSQ PCA"]
        about = report.text("tokens", **counts, unit=unit, chosen=chosen)
        rows |= more
    _add_charts(report, rows)
    # A film of the largest amplitude of each target on the first base.
    base = trials.bases[0]
    shown = [t for t in rows[DIRECTED] if t.steered.run.base is base]
    for one in {t.target: t.steered for t in shown}.values():
        report.film(f"{base.name}, {one.run.name}", one.run, one.plain.run)
    of, more = rows[DIRECTED], rows[MORE]
    failures = [t.verdict.failure for t in of if t.verdict.failure]
    counts = [f"{one} ({failures.count(one)})" for one in sorted(set(failures))]
    return report.findings(
        **{"runs": len(of), "passed": _passed(of), "slow": run.slow, "tokens": about},
        **{"more": len(more), "more_passed": _passed(more), "base": base.name},
        **{"noticed": NOTICED["speed"], "kind": runner.encoder.config.bottleneck.kind},
        failures=", ".join(counts) or "none",
        amplitudes=" and ".join(f"{a:g}" for a in sorted({t.amplitude for t in more})),
        chosen=", ".join(trials.chosen[way] for way in (SPECTRAL, PCA)),
    )


def _add_rows(report: Draft, rows: dict[str, list[Trial]], runner: Runner) -> None:
    for row, trials in rows.items():
        for metric in [*(t.name for t in TARGETS), "all"]:
            if of := [t for t in trials if metric in ("all", t.target.name)]:
                seed, passed = of[0].steered.run.seed, {metric: _passed(of)}
                report.add(row, passed, len(of), seed=seed, runner=runner)


def _passed(trials: list[Trial]) -> int:
    return sum(t.verdict.passes for t in trials)


def _add_charts(report: Draft, rows: dict[str, list[Trial]]) -> None:
    names, bars, points = [t.name for t in TARGETS], [], []
    for row, trials in rows.items():
        parts = [[t for t in trials if t.target is target] for target in TARGETS]
        if all(parts):
            shares = [100.0 * _passed(part) / len(part) for part in parts]
            bars.append(Series.of(row, range(len(names)), shares, names))
    for target in TARGETS:
        of = [t for t in rows[DIRECTED] + rows[MORE] if t.target is target]
        runs = [t.steered for t in of]
        marks = [one.run.base.name if one.stands else "fall" for one in runs]
        x, y = [t.amplitude for t in of], [100.0 * t.verdict.share for t in of]
        points.append(Series.of(target.name, x, y, marks))
    report.chart("passing", bars)
    report.chart("reached", points, enough=100 * GRID.enough)

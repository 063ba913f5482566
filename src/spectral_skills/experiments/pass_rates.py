"""How often a goal is reached and the rest left alone, by the paper's rule.

The ways compared: directions for a goal, spectral directions, the pose of the steered
run forced on the servos, and directions found from skills without a predictor:
principal components, which know no goal, and ridge regression to an attribute of the
motion. Those are also tried on a tracker of tokens (FSQ), where there is one. There, an
amplitude of 1 is as many of that space's own deviations as it is of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.schedules import standard
from spectral_skills.experiments.effects import effect, hold
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.experiments.token_directions import (
    Described,
    describe,
    principal,
    ridge,
)
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.bases import BASES, STEPS, Base
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.spectral.catalogue import NOTICED
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.support import ATTRIBUTES, describe_run

NAME = "pass_rates"
ENOUGH = 0.5
"""Share of the goal that a passing run has reached."""
SPEED_SHARE = 0.3
HEADING_DEG = 27.0
"""How far speed and heading may be from those of the base."""
SLOW = 0.1
"""Speed, in m/s, below which a share of it has no meaning; there the speed may change
by what people notice."""
LARGER = (4.0, 6.0)
"""Amplitudes that the paper does not have: what more would give."""
DIRECTED, MORE = "target-directed", "target-directed, larger"
SPECTRAL, FORCED = "spectral directions only", "joint offset (oracle)"
PCA, RIDGE = "PCA of skills", "ridge on skills"
FSQ_PCA, FSQ_RIDGE = "FSQ PCA", "FSQ ridge"


@dataclass(frozen=True, eq=False)
class Goal:
    """A change that a run is asked for."""

    name: str
    direction: str
    moves: dict[str, float]
    """Measures and their changes; `speed` is forward, so less of a backward walk."""

    def predicted(self, directions: Directions) -> np.ndarray:
        """(k,) share of the goal that is predicted for a unit of each direction."""
        known = {"heading": "yaw_rate", "speed": "forward_speed"}
        shares = []
        for name, goal in self.moves.items():
            column = directions.attributes.index(known.get(name, name))
            shares.append(directions.effect_mean[:, column] / goal)
        return np.mean(shares, axis=0)


TARGETS = tuple(Goal(name, **how) for name, how in grid(NAME)["targets"].items())
Vectors = dict[str, np.ndarray]
"""Directions by name, as long as an amplitude of 1."""
Options = dict[Goal, Vectors]
"""Directions that a way of steering chooses from, for each target."""
Chosen = dict[Goal, tuple[str, np.ndarray]]
"""A named direction for each target."""


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
    near = SPEED_SHARE * abs(usual) if abs(usual) >= SLOW else NOTICED["speed"]
    failure = ""
    if not run.stands:
        failure = "fall"
    elif not share >= ENOUGH:  # What is not a number is not enough.
        failure = "too little"
    elif "speed" not in target.moves and abs(changes["speed"]) > near:
        failure = "speed"
    elif "heading" not in target.moves and abs(changes["heading"]) > HEADING_DEG:
        failure = "heading"
    return Verdict(share, failure)


def spectral_options(directions: Directions, count: int) -> Options:
    """The spectral directions that are predicted to do most for a target."""
    places = directions.family("spectral")
    vectors = directions.vectors[places]
    found: Options = {}
    for target in TARGETS:
        predicted = target.predicted(directions)[places]
        found[target] = {}
        for i in np.argsort(-np.abs(predicted))[:count].tolist():
            sign = -1.0 if predicted[i] < 0 else 1.0
            found[target][f"{'-+'[sign > 0]}s{i + 1:02d}"] = sign * vectors[i]
    return found


def component_options(described: Described, count: int, unit: float = 1.0) -> Options:
    """Principal components of skills, both signs of each, the same for all targets."""
    vectors = {
        f"{'-+'[sign > 0]}pc{i + 1}": sign * unit * vector
        for i, vector in enumerate(principal(described.skills, count))
        for sign in (1.0, -1.0)
    }
    return dict.fromkeys(TARGETS, vectors)


def ridge_options(described: Described, unit: float = 1.0) -> Options:
    """The one direction that ridge regression finds for each target."""
    rolls = [described.attribute(f"{side}_shoulder_roll") for side in ("left", "right")]
    attributes = {
        "right arm": -described.attribute("right_shoulder_pitch"),
        "spread": rolls[0] - rolls[1],
        "speed": described.attribute("forward_speed"),
        "turn": described.attribute("yaw_rate"),
    }
    return {
        t: {f"{t.name} ridge": unit * ridge(described.skills, attributes[t.name])}
        for t in TARGETS
    }


@dataclass(frozen=True)
class Trial:
    """A run that is asked for something."""

    target: Goal
    executed: Executed
    verdict: Verdict
    amplitude: float


class Trials:
    """Runs trials beside the unsteered runs of their bases."""

    def __init__(
        self, runner: Runner, bases: Sequence[str], steps: int, seed: int | None = None
    ):
        self.runner, self.seed = runner, seed
        self.bases = [runner.base(name, steps) for name in bases]
        runs = [runner.plain(base, seed) for base in self.bases]
        self.plain = {o.run.base.name: o for o in runner.execute(runs, "bases")}

    def judge(self, target: Goal, executed: Executed) -> Verdict:
        return judge(target, executed, self.plain[executed.run.base.name])

    def _trials(self, asked: list[tuple[Goal, Run, float]], label: str) -> list[Trial]:
        executed = self.runner.execute([run for _, run, _ in asked], label)
        return [
            Trial(target, one, self.judge(target, one), amplitude)
            for (target, _, amplitude), one in zip(asked, executed, strict=True)
        ]

    def run(self, base: Base, name: str, vector: np.ndarray, amplitude: float) -> Run:
        label = f"{name} a={amplitude:+g}"
        return self.runner.steered(base, amplitude * vector, label, seed=self.seed)

    def steered(self, chosen: Chosen, amplitudes: Sequence[float]) -> list[Trial]:
        """A direction for each target, on all bases."""
        every = product(chosen.items(), self.bases, amplitudes)
        asked = [(t, self.run(b, *named, a), a) for (t, named), b, a in every]
        return self._trials(asked, "steered")

    def forced(self, trials: list[Trial]) -> list[Trial]:
        """The mean pose change of steered runs, added to the joint targets instead."""
        asked = []
        for trial in trials:
            one, base = trial.executed, trial.executed.run.base
            if one.stands:  # A fallen robot has no pose to copy.
                pose = effect(one, self.plain[base.name]).pose
                servo = (standard(1.0, base.steps) * pose).astype(np.float32)
                about = f"{one.run.name} forced", base, self.runner.skills(base)
                run = Run(*about, self.seed, servo=servo)
                asked.append((trial.target, run, trial.amplitude))
        return self._trials(asked, "forced")

    def choose(self, options: Options, amplitude: float) -> Chosen:
        """The best of each target's directions on the first base."""
        every: Vectors = {n: v for some in options.values() for n, v in some.items()}
        runs = [self.run(self.bases[0], *named, amplitude) for named in every.items()]
        executed = self.runner.execute(runs, "candidates")
        by_name = dict(zip(every, executed, strict=True))

        def rank(target: Goal, name: str) -> tuple:
            verdict = self.judge(target, by_name[name])
            return verdict.passes, verdict.failure != "fall", verdict.share

        best = {}
        for target, vectors in options.items():
            ranks = {name: rank(target, name) for name in vectors}
            name = max(ranks, key=ranks.__getitem__)
            best[target] = name, vectors[name]
        return best


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    bases: Sequence[str] = BASES,
    amplitudes: Sequence[float] = (2.0, 3.0),
    larger: Sequence[float] = LARGER,
    candidates: int = 6,
    steps: int = STEPS,
    corpus: Corpus | None = None,
    tokens: Runner | None = None,
) -> Findings:
    """Pass rates of every way, on every base; directions are chosen on the first.

    `tokens` is a tracker of FSQ tokens, judged against its own unsteered runs.
    """
    corpus, first = corpus or Corpus.open(embedded_corpus()), amplitudes[0]
    report = Draft.begin(NAME, runner, corpus.hash)
    trials = Trials(runner, bases, steps)
    directed = {t: (t.name, runner.direction(t.direction)) for t in TARGETS}
    rows = {DIRECTED: trials.steered(directed, amplitudes)}
    for seed in seeds:
        again = Trials(runner, bases, steps, seed)
        rows[f"{DIRECTED}, seed {seed}"] = again.steered(directed, amplitudes)
    rows[MORE] = trials.steered(directed, larger)
    arm = {TARGETS[0]: ("right arm part", runner.direction("right_arm_1"))}
    rows["part direction"] = trials.steered(arm, amplitudes)
    skills = describe(runner.encoder, corpus)
    options = {
        SPECTRAL: spectral_options(runner.directions, candidates),
        PCA: component_options(skills, candidates),
        RIDGE: ridge_options(skills),
    }
    chosen = {way: trials.choose(some, first) for way, some in options.items()}
    rows |= {way: trials.steered(one, [first]) for way, one in chosen.items()}
    rows[FORCED] = trials.forced(rows[DIRECTED])
    _add_rows(report, rows, runner)
    best, about = [_names(chosen[way]) for way in (SPECTRAL, PCA)], ""
    if tokens is not None:
        theirs, found = Trials(tokens, bases, steps), describe(tokens.encoder, corpus)
        unit = found.spread / skills.spread
        options = {
            FSQ_PCA: component_options(found, candidates, unit),
            FSQ_RIDGE: ridge_options(found, unit),
        }
        chosen = {way: theirs.choose(some, first) for way, some in options.items()}
        more = {way: theirs.steered(one, [first]) for way, one in chosen.items()}
        _add_rows(report, more, tokens)
        falls = sum(not one.stands for one in theirs.plain.values())
        about = report.text(
            "tokens",
            **{"falls": falls, "bases": len(theirs.plain), "unit": unit},
            chosen=_names(chosen[FSQ_PCA]),
        )
        rows |= more
    _add_charts(report, rows)
    # A film of the largest amplitude of each target on the first base.
    base = trials.bases[0]
    runs = [(t.target, t.executed.run) for t in rows[DIRECTED]]
    for run in {t: run for t, run in runs if run.base is base}.values():
        report.film(f"{base.name}, {run.name}", run, trials.plain[base.name].run)
    of, more = rows[DIRECTED], rows[MORE]
    failures = [t.verdict.failure for t in of if t.verdict.failure]
    counts = [f"{one} ({failures.count(one)})" for one in sorted(set(failures))]
    return report.findings(
        **{"runs": len(of), "passed": _passed(of), "slow": SLOW, "tokens": about},
        **{"more": len(more), "more_passed": _passed(more), "base": base.name},
        **{"noticed": NOTICED["speed"], "kind": runner.encoder.config.bottleneck.kind},
        failures=", ".join(counts) or "none",
        amplitudes=" and ".join(f"{a:g}" for a in sorted({t.amplitude for t in more})),
        chosen=", ".join(best),
    )


def _add_rows(report: Draft, rows: dict[str, list[Trial]], runner: Runner) -> None:
    for row, trials in rows.items():
        for metric in [*(t.name for t in TARGETS), "all"]:
            of = [t for t in trials if metric in ("all", t.target.name)]
            if n := len(of):
                seed, unit = of[0].executed.run.seed, f"of {n}"
                report.add(row, metric, _passed(of), unit, n, seed, runner=runner)


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
        marks = [t.executed.run.base.name if t.executed.stands else "fall" for t in of]
        x, y = [t.amplitude for t in of], [100.0 * t.verdict.share for t in of]
        points.append(Series.of(target.name, x, y, marks))
    report.chart("passing", bars)
    report.chart("reached", points, enough=100 * ENOUGH)


def _names(chosen: Chosen) -> str:
    return ", ".join(f"{target.name} {name}" for target, (name, _) in chosen.items())

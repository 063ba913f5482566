"""Do directions add? Pairs and triples held together against the sum of each alone,
and four directions one after the other, at most three at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.schedules import Knob
from spectral_skills.experiments.effects import Effect, effect, headings
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.corpus import FPS

NAME = "additivity"
GOAL = 0.97
"""Smallest cosine that we call adding; the paper's worst is 0.976."""
Combination = tuple[str, ...]
ADDED_KNOBS: dict[str, tuple[str, float]] = grid(NAME)["knobs"]
PAIRS: tuple[Combination, ...] = tuple(map(tuple, grid(NAME)["pairs"]))
TRIPLES: tuple[Combination, ...] = tuple(map(tuple, grid(NAME)["triples"]))
OVERLAP: dict[str, tuple[float, float]] = grid(NAME)["overlap"]
OVERLAP_STEPS = 500


@dataclass(frozen=True)
class Sum:
    """A combination that stands, and the sum of its parts."""

    base: str
    names: Combination
    together: Effect
    alone: tuple[Effect, ...]

    @property
    def label(self) -> str:
        return f"{self.base}: {' + '.join(self.names)}"

    @property
    def pose(self) -> np.ndarray:
        """(29,) sum of the changes of the mean joint angles, rad."""
        return np.sum([one.pose for one in self.alone], axis=0)

    @property
    def cosine(self) -> float:
        """Cosine between what was done and the sum."""
        return cosine(self.together.pose, self.pose)

    @property
    def size(self) -> float:
        """Size of what was done, as a share of the sum."""
        return float(np.linalg.norm(self.together.pose) / np.linalg.norm(self.pose))

    @property
    def headings(self) -> tuple[float, float]:
        """Heading of what was done, and of the sum, degrees."""
        summed = sum(one.changes["heading"] for one in self.alone)
        return self.together.changes["heading"], summed


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two patterns; 0 where one of them is zero."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else 0.0


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    bases: Sequence[str] = ("walk", "carry"),
    combinations: Sequence[Combination] = (*PAIRS, *TRIPLES),
    steps: int = 400,
    overlap_steps: int = OVERLAP_STEPS,
) -> Findings:
    """Every combination on every base, once without randomness and once per seed."""
    report = Draft.begin(NAME, runner)
    sums: list[Sum] = []
    for base in bases:
        for seed in (None, *seeds):
            executed = _execute(runner, base, seed, combinations, steps)
            found = compare(base, executed, combinations)
            _add_summary(report, base, seed, found, [*executed.values()])
            if seed is None:
                for one in found:
                    _add_sum(report, one)
                sums += found
                if found and len(report.films) < 2:
                    most = max(found, key=lambda one: len(one.names))
                    together, plain = executed[most.names], executed[()]
                    report.film(most.label, together.run, plain.run)
    _add_charts(report, bases, sums)
    overlap(report, overlap_steps)
    # Where no combination stands together with all its parts there is no farthest.
    far = max(sums, key=lambda one: abs(np.log(one.size)), default=None)
    reached = sum(one.cosine >= GOAL for one in sums)
    label = f"{far.label} with {far.size:.2f} of it" if far else "none"
    return report.findings(reached=reached, count=len(sums), goal=GOAL, far=label)


def _execute(
    runner: Runner,
    base_name: str,
    seed: int | None,
    combinations: Sequence[Combination],
    steps: int,
) -> dict[Combination, Executed]:
    """The unsteered run, under (), each knob alone, and all combinations."""
    base = runner.base(base_name, steps)
    alone = dict.fromkeys((name,) for names in combinations for name in names)
    runs: dict[Combination, Run] = {(): runner.plain(base, seed)}
    for names in (*alone, *combinations):
        change = np.sum(
            [runner.direction(*ADDED_KNOBS[name]) for name in names], axis=0
        )
        runs[names] = runner.steered(base, change, " + ".join(names), seed=seed)
    executed = runner.execute(list(runs.values()), f"{NAME}, {base_name}")
    return dict(zip(runs, executed, strict=True))


def compare(
    base: str,
    executed: dict[Combination, Executed],
    combinations: Sequence[Combination],
) -> list[Sum]:
    """Combinations that stand, and whose parts stand alone."""
    plain = executed[()]
    found = []
    for names in combinations:
        alone = [executed[(name,)] for name in names]
        if all(run.stands for run in (plain, executed[names], *alone)):
            effects = tuple(effect(run, plain) for run in alone)
            found.append(Sum(base, names, effect(executed[names], plain), effects))
    return found


def _add_sum(report: Draft, one: Sum) -> None:
    heading, summed = one.headings
    report.add(one.label, "cosine", one.cosine)
    report.add(one.label, "size", one.size, "of the sum")
    report.add(one.label, "heading", heading, "deg")
    report.add(one.label, "heading of the sum", summed, "deg")


def _add_summary(
    report: Draft,
    base: str,
    seed: int | None,
    sums: list[Sum],
    runs: Sequence[Executed],
) -> None:
    row = f"{base}: all" if seed is None else f"{base}: all, seed {seed}"
    fallen = sum(not one.stands for one in runs)
    report.add(row, "runs that fell", fallen, n=len(runs), seed=seed)
    for count, kind in ((2, "pairs"), (3, "triples")):
        cosines = [one.cosine for one in sums if len(one.names) == count]
        for how, of in (("lowest", np.min), ("median", np.median)) if cosines else ():
            metric, printed = f"{kind}: {how} cosine", paper(NAME, "all", kind)
            goal = f"{printed}; goal {GOAL}"
            report.add(row, metric, of(cosines), "", len(cosines), seed, goal)


def _add_charts(report: Draft, bases: Sequence[str], sums: list[Sum]) -> None:
    for base in bases:
        joints = [
            Series.of(" + ".join(one.names), one.pose, one.together.pose)
            for one in sums
            if one.base == base
        ]
        report.chart("joints", joints, base=base)
    places, labels = range(len(sums)), [one.label for one in sums]
    bars = [
        Series.of(name, places, (one.headings[i] for one in sums), labels)
        for i, name in enumerate(("together", "sum"))
    ]
    report.chart("headings", bars)


def overlap_curves(steps: int) -> dict[str, np.ndarray]:
    """(steps,) share of full amplitude of each knob of the overlap."""
    return {
        name: Knob(0, 1.0, round(begin * steps), round(end * steps)).curve(steps)
        for name, (begin, end) in OVERLAP.items()
    }


def overlap(report: Draft, steps: int) -> None:
    """Four directions in turn on the walk, and each alone in its own time: does the
    turn arrive?"""
    row, runner = "walk: four directions in turn", report.runner
    base = runner.base("walk", steps)
    changes = {
        name: curve[:, None] * runner.direction(*ADDED_KNOBS[name])
        for name, curve in overlap_curves(steps).items()
    }
    whole = np.sum(list(changes.values()), axis=0)
    runs = [runner.plain(base), runner.steered(base, whole, "four directions")]
    runs += [runner.steered(base, change, name) for name, change in changes.items()]
    executed = runner.execute(runs, f"{NAME}, overlap")
    turned = [np.degrees(headings(one.rows)) for one in executed]
    turned = [one - one[0] - (turned[0] - turned[0][0]) for one in turned]
    at = 2 + list(changes).index("turn left")
    curves = {
        "all four": turned[1],
        "turn alone": turned[at],
        "sum of the four alone": np.sum(turned[2:], axis=0),
    }
    fallen = sum(not one.stands for one in executed)
    report.add(row, "runs that fell", fallen, n=len(executed))
    if not fallen:  # The heading of a robot on the ground means nothing.
        begin, end = (round(share * steps) for share in OVERLAP["turn left"])
        metrics = "while turning", "of the turn alone", "of the sum"
        for metric, curve in zip(metrics, curves.values(), strict=True):
            report.add(row, f"heading {metric}", curve[end] - curve[begin], "deg")
    time_s = (np.arange(steps + 1) / FPS)[::10]
    series = [Series.of(name, time_s, curve[::10]) for name, curve in curves.items()]
    report.chart("overlap", series)
    shown = {"all four": executed[1], "turn alone": executed[at]}
    paths = [
        Series.of(name, *one.rows[: one.fell_at : 10, :2].T)
        for name, one in {**shown, "unsteered": executed[0]}.items()
    ]
    report.chart("path", paths)
    report.film(row, runs[1], runs[0])

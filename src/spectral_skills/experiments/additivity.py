"""Do directions add? Pairs and triples held together against the sum of each alone,
and four directions one after the other, at most three at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectral_skills.control.batch import Runner
from spectral_skills.control.steering import Knob
from spectral_skills.experiments.effects import (
    Effect,
    Steered,
    beside,
    falls,
    headings,
)
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.corpus import FPS

NAME = "additivity"
GRID = grid(NAME)
Combination = tuple[str, ...]


@dataclass(frozen=True)
class Sum:
    """A combination that stands, and its parts alone."""

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
    def values(self) -> dict[str, float]:
        """Cosine between what was done and the sum, size as a share of the sum's, and
        both headings."""
        done, pose = self.together.pose, self.pose
        return {
            "cosine": cosine(done, pose),
            "size": float(np.linalg.norm(done) / np.linalg.norm(pose)),
            "heading": self.together.changes["heading"],
            "heading of the sum": sum(one.changes["heading"] for one in self.alone),
        }


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two patterns; 0 where one of them is zero."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else 0.0


def experiment(runner: Runner, seeds: tuple[int, ...] = (), **changes: Any) -> Findings:
    """Every combination on every base, once without randomness and once per seed."""
    run, report = grid(NAME, **changes), Draft(NAME, runner)
    combinations = [tuple(names) for names in run.combinations]
    alone = dict.fromkeys((name,) for names in combinations for name in names)
    sums: list[Sum] = []
    for name in run.bases:
        base = runner.base(name, run.steps)
        for seed in (None, *seeds):
            runs = {}
            for names in (*alone, *combinations):
                parts = [runner.direction(*GRID.knobs[one]) for one in names]
                change = np.sum(parts, axis=0)
                runs[names] = runner.steered(base, change, " + ".join(names), seed=seed)
            steered = beside(runner, base, runs, f"{NAME}, {name}", seed)
            found = compare(name, steered, combinations)
            _add_summary(report, name, seed, found, steered)
            if seed is not None:
                continue
            sums += found
            for one in found:
                report.add(one.label, one.values)
            if found and len(report.films) < 2:
                most = max(found, key=lambda one: len(one.names))
                shown = steered[most.names]
                report.film(most.label, shown.run, shown.plain.run)
    _add_charts(report, run.bases, sums)
    overlap(report, run.overlap_steps)
    reached = sum(one.values["cosine"] >= run.goal for one in sums)
    sizes = {one.label: one.values["size"] for one in sums}
    # Where no combination stands together with all its parts there is no farthest.
    far = max(sizes, key=lambda label: abs(np.log(sizes[label])), default=None)
    label = f"{far} with {sizes[far]:.2f} of it" if far else "none"
    return report.findings(reached=reached, count=len(sums), goal=run.goal, far=label)


def compare(
    base: str,
    steered: Mapping[Combination, Steered],
    combinations: Sequence[Combination],
) -> list[Sum]:
    """Combinations that stand, and whose parts and unsteered robot stand too."""
    found = []
    for names in combinations:
        together, alone = steered[names], [steered[(name,)] for name in names]
        if not falls((together, together.plain, *alone)):
            effects = tuple(one.effect for one in alone)
            found.append(Sum(base, names, together.effect, effects))
    return found


def _add_summary(
    report: Draft,
    base: str,
    seed: int | None,
    sums: list[Sum],
    steered: Mapping[Combination, Steered],
) -> None:
    row = f"{base}: all" if seed is None else f"{base}: all, seed {seed}"
    runs = [next(iter(steered.values())).plain, *steered.values()]
    report.add(row, {"runs that fell": falls(runs)}, len(runs), seed=seed)
    for count, kind in ((2, "pairs"), (3, "triples")):
        cosines = [one.values["cosine"] for one in sums if len(one.names) == count]
        if cosines:
            values = {
                f"{kind}: lowest cosine": np.min(cosines),
                f"{kind}: median cosine": np.median(cosines),
            }
            known = {"seed": seed, "papers": paper(NAME, "all")}
            report.add(row, values, len(cosines), **known)


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
        Series.of(name, places, (one.values[metric] for one in sums), labels)
        for name, metric in (("together", "heading"), ("sum", "heading of the sum"))
    ]
    report.chart("headings", bars)


def overlap_curves(steps: int) -> dict[str, np.ndarray]:
    """(steps,) share of full amplitude of each knob of the overlap."""
    return {
        name: Knob(0, 1.0, round(begin * steps), round(end * steps)).curve(steps)
        for name, (begin, end) in GRID.overlap.items()
    }


def overlap(report: Draft, steps: int) -> None:
    """Four directions in turn on the walk, and each alone in its own time: does the
    turn arrive?"""
    row, runner = "walk: four directions in turn", report.runner
    base = runner.base("walk", steps)
    changes = {
        name: curve[:, None] * runner.direction(*GRID.knobs[name])
        for name, curve in overlap_curves(steps).items()
    }
    changes = {"four directions": np.sum([*changes.values()], axis=0)} | changes
    runs = {name: runner.steered(base, c, name) for name, c in changes.items()}
    done = beside(runner, base, runs, f"{NAME}, overlap")
    four, turn = done["four directions"], done["turn left"]
    executed = [four.plain, *(one.executed for one in done.values())]
    usual, *turned = (np.degrees(headings(one.rows)) for one in executed)
    turned = [one - one[0] - (usual - usual[0]) for one in turned]
    curves = {
        "all four": turned[0],
        "turn alone": turned[list(changes).index("turn left")],
        "sum of the four alone": np.sum(turned[1:], axis=0),
    }
    report.add(row, {"runs that fell": falls(executed)}, len(executed))
    if not falls(executed):  # The heading of a robot on the ground means nothing.
        begin, end = (round(share * steps) for share in GRID.overlap["turn left"])
        whiles = "while turning", "of the turn alone", "of the sum"
        ways = zip(whiles, curves.values(), strict=True)
        report.add(row, {f"heading {m}": way[end] - way[begin] for m, way in ways})
    time_s = (np.arange(steps + 1) / FPS)[::10]
    series = [Series.of(name, time_s, curve[::10]) for name, curve in curves.items()]
    report.chart("overlap", series)
    shown = {"all four": four.executed, "turn alone": turn.executed}
    paths = [
        Series.of(name, *one.rows[: one.fell_at : 10, :2].T)
        for name, one in {**shown, "unsteered": four.plain}.items()
    ]
    report.chart("path", paths)
    report.film(row, four.run, four.plain.run)

"""Do directions add? Pairs and triples held together against the sum of each alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.batch import Run
from spectral_skills.experiments.composition import overlap
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import Effect
from spectral_skills.experiments.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.results import Result

NAME = "additivity"
GOAL = 0.97
"""Smallest cosine that we call adding; the paper's worst is 0.976."""
KNOBS: dict[str, tuple[str, float]] = {
    "left arm": ("left_arm_1", 2.0),
    "right arm": ("right_arm_1", 2.0),
    "turn left": ("turn", 2.0),
    "turn right": ("turn", -2.0),
    "lowered stance": ("stance_height", 2.0),
    "faster": ("speed", 2.0),
}
"""Direction and amplitude of what is combined."""
Combination = tuple[str, ...]
PAIRS: tuple[Combination, ...] = (
    ("right arm", "turn left"),
    ("right arm", "turn right"),
    ("right arm", "lowered stance"),
    ("right arm", "faster"),
    ("left arm", "turn left"),
    ("left arm", "turn right"),
    ("left arm", "right arm"),
)
TRIPLES: tuple[Combination, ...] = (
    ("right arm", "turn left", "lowered stance"),
    ("left arm", "right arm", "turn left"),
    ("left arm", "right arm", "faster"),
)
_PAIR = "0.992 to 0.996"
PAPER: dict[tuple[Combination, str], str] = {
    (PAIRS[0], "cosine"): _PAIR,
    (PAIRS[1], "cosine"): _PAIR,
    (PAIRS[2], "cosine"): _PAIR,
    (TRIPLES[0], "cosine"): "0.976",
    (PAIRS[0], "heading"): "144",
    (PAIRS[0], "heading of the sum"): "143",
    (TRIPLES[0], "heading"): "152",
    (TRIPLES[0], "heading of the sum"): "141",
}
"""On the walk."""


@dataclass(frozen=True)
class Sum:
    """A combination that stands, and what adding its parts foretells."""

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
        """Between what was done and the sum."""
        return cosine(self.together.pose, self.pose)

    @property
    def size(self) -> float:
        """Of what was done, as a share of the sum."""
        return float(np.linalg.norm(self.together.pose) / np.linalg.norm(self.pose))

    @property
    def headings(self) -> tuple[float, float]:
        """Of what was done, and of the sum, degrees."""
        summed = sum(one.changes["heading"] for one in self.alone)
        return self.together.changes["heading"], summed


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of the angle between two patterns; 0 where one of them is nothing."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else 0.0


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (),
    *,
    bases: Sequence[str] = ("walk", "carry"),
    combinations: Sequence[Combination] = (*PAIRS, *TRIPLES),
    steps: int = 400,
    overlap_steps: int = overlap.STEPS,
) -> Findings:
    """Every combination on every base, once without chance and once a seed."""
    results, sums, films = [], [], []
    for base in bases:
        for seed in (None, *seeds):
            executed = _execute(lab, base, seed, combinations, steps)
            found = compare(lab, base, executed, combinations)
            fallen = sum(not one.stands for one in executed.values())
            row = f"{base}: all" if seed is None else f"{base}: all, seed {seed}"
            results += _summary(lab, row, found, fallen, len(executed), seed or 0)
            if seed is None:
                results += [cell for one in found for cell in _cells(lab, one)]
                sums += found
                films += _films(lab, base, executed, found)
    four = overlap.four_directions(lab, KNOBS, NAME, overlap_steps)
    charts = (*_charts(bases, sums), *four.charts)
    return Findings(
        *(NAME, "Directions add", (*results, *four.results), charts),
        films=tuple(films[:2] + four.films),
        note=_note(sums),
    )


def _execute(
    lab: Lab,
    base_name: str,
    seed: int | None,
    combinations: Sequence[Combination],
    steps: int,
) -> dict[Combination, Executed]:
    """The unsteered run, under (), each knob alone, and all combinations."""
    base = lab.base(base_name, steps)
    alone = dict.fromkeys((name,) for names in combinations for name in names)
    runs: dict[Combination, Run] = {(): lab.plain(base, seed)}
    for names in (*alone, *combinations):
        change = np.sum([lab.direction(*KNOBS[name]) for name in names], axis=0)
        runs[names] = lab.steered(base, change, " + ".join(names), seed=seed)
    executed = lab.execute(list(runs.values()), f"{NAME}, {base_name}")
    return dict(zip(runs, executed, strict=True))


def compare(
    lab: Lab,
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
            together = lab.effect(executed[names], plain)
            effects = tuple(lab.effect(run, plain) for run in alone)
            found.append(Sum(base, names, together, effects))
    return found


def _cells(lab: Lab, one: Sum) -> list[Result]:
    heading, summed = one.headings
    values = {
        "cosine": (one.cosine, ""),
        "size": (one.size, "of the sum"),
        "heading": (heading, "deg"),
        "heading of the sum": (summed, "deg"),
    }
    told = PAPER if one.base == "walk" else {}
    return [
        lab.cell(
            *(NAME, one.label, name, value, unit), paper=told.get((one.names, name), "")
        )
        for name, (value, unit) in values.items()
    ]


def _summary(
    lab: Lab, row: str, sums: list[Sum], fallen: int, runs: int, seed: int
) -> list[Result]:
    cells = [lab.cell(NAME, row, "runs that fell", fallen, n=runs, seed=seed)]
    for count, kind, paper in ((2, "pairs", _PAIR), (3, "triples", "0.976")):
        cosines = [one.cosine for one in sums if len(one.names) == count]
        for how, of in (("lowest", np.min), ("median", np.median)):
            if cosines:
                metric, told = f"{kind}: {how} cosine", f"{paper}; goal {GOAL}"
                value, n = float(of(cosines)), len(cosines)
                cells.append(lab.cell(NAME, row, metric, value, "", n, told, seed))
    return cells


def _charts(bases: Sequence[str], sums: list[Sum]) -> list[Chart]:
    scatters = [
        Chart(
            f"Change of each joint on the {base}: done together against summed",
            *("scatter", "sum of single changes (rad)", "change together (rad)"),
            tuple(
                Series(
                    " + ".join(one.names),
                    tuple(one.pose.tolist()),
                    tuple(one.together.pose.tolist()),
                )
                for one in sums
                if one.base == base
            ),
            "One point a joint; on the diagonal, directions add.",
        )
        for base in bases
    ]
    at = tuple(float(i) for i in range(len(sums)))
    labels = tuple(one.label for one in sums)
    bars = (
        Series("together", at, tuple(one.headings[0] for one in sums), labels),
        Series("sum", at, tuple(one.headings[1] for one in sums), labels),
    )
    return [*scatters, Chart("Headings add", "bar", "", "heading (deg)", bars)]


def _films(
    lab: Lab, base: str, executed: dict[Combination, Executed], sums: list[Sum]
) -> list[Film]:
    if lab.records is None or not sums:
        return []
    most = max(sums, key=lambda one: len(one.names))
    run, plain = (lab.record(executed[key].run) for key in (most.names, ()))
    return [Film(most.label, run.name, plain.name)] if run and plain else []


def _note(sums: list[Sum]) -> str:
    if not sums:
        return "No combination stood together with all its parts."
    reached = sum(one.cosine >= GOAL for one in sums)
    far = max(sums, key=lambda one: abs(np.log(one.size)))
    return (
        f"{reached} of {len(sums)} combinations reach a cosine of {GOAL}. The cosine "
        "tells the pattern and not its size: farthest from the sum in size is "
        f"{far.label} with {far.size:.2f} of it. Bases, directions and amplitudes are "
        "ours; the paper's numbers are of the walk and of its own directions."
    )

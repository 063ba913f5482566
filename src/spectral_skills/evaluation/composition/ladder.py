"""One direction after the other on a moving robot, and all released together.

Each stage is measured over its steady steps: what the robot does, how far its motion,
encoded again, is from the corpus, and how many windows of the corpus move like it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spectral_skills.evaluation.composition import ladder_charts
from spectral_skills.evaluation.composition.effects import measure
from spectral_skills.evaluation.composition.findings import Film, Findings
from spectral_skills.evaluation.composition.lab import Executed, Lab
from spectral_skills.evaluation.composition.neighbours import Neighbours
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.results import Result
from spectral_skills.spectral.nearest import leave_one_clip_out
from spectral_skills.spectral.steering import RAMP_STEPS, Knob, schedule
from spectral_skills.spectral.support import ATTRIBUTES, describe_run, support

NAME = "ladder"
STEPS = 1000
RELEASE = 850
KNOBS = (
    Knob("right_arm_1", 2.0, 200, RELEASE + RAMP_STEPS),
    Knob("turn", 1.2, 400, RELEASE + RAMP_STEPS),
    Knob("s04", 1.2, 600, RELEASE + RAMP_STEPS),
)
"""The paper's times and amplitudes."""
STEADY = 2 * RAMP_STEPS
"""Steps after a change that belong to no stage."""
STAGES: dict[str, slice] = {
    "base": slice(STEADY, 200),
    "+ right arm": slice(200 + STEADY, 400),
    "+ turn": slice(400 + STEADY, 600),
    "+ clearance": slice(600 + STEADY, RELEASE),
    "released": slice(RELEASE + STEADY, STEPS),
}
STEERED: dict[str, tuple[str, ...]] = {
    "base": (),
    "+ right arm": ("right_shoulder_pitch",),
    "+ turn": ("right_shoulder_pitch", "yaw_rate"),
    "+ clearance": ("right_shoulder_pitch", "yaw_rate", "left_apex", "right_apex"),
}
"""What has been moved so far, by the names of the support's attributes."""
MEASURES: dict[str, str] = {
    "speed": "m/s",
    "yaw rate": "deg/s",
    "right shoulder pitch": "rad",
    "left apex": "cm",
    "right apex": "cm",
    "distance": "",
}
SUPPORT = "support"
_MARKS = {
    **{k.start: n for k, n in zip(KNOBS, [*STAGES][1:], strict=False)},
    RELEASE: "released",
}
"""Steps at which something changes."""
_SPREAD = 5000
"""Skills of the corpus measured against those of other clips."""

# Of the seeds, mean and SD: speed, yaw rate, shoulder, left and right apex, distance;
# distance of the run without chance; support of three seeds and of that run.
_TABLE = """
walk     | base        | 0.98 0.03  -8 2   0.05 0.01  15 0 16 0  2.73 0.09 | 2.76 | 90009 92259 93794 90252
walk     | + right arm | 1.07 0.01   3 1  -0.76 0.02  15 0 16 0  3.32 0.04 | 3.37 | 2334 1988 2124 2180
walk     | + turn      | 1.06 0.03  35 2  -0.77 0.03  14 1 15 0  3.63 0.08 | 3.60 | 112 102 100 119
walk     | + clearance | 1.11 0.06  36 3  -0.80 0.04  19 2 24 1  3.93 0.03 | 3.96 | 19 35 95 21
walk     | released    | 1.02 0.01  -1 2   0.01 0.02  16 0 15 1  2.87 0.15 | 2.69 |
jog      | base        | 1.21 0.03   2 1  -0.10 0.01  17 0 16 0  2.95 0.03 | 2.93 | 68531 68818 71607 71050
jog      | + right arm | 1.45 0.04   3 1  -1.10 0.04  17 0 19 0  3.66 0.03 | 3.65 | 245 210 276 228
jog      | + turn      | 1.32 0.03  42 3  -1.09 0.04  16 1 17 1  4.26 0.05 | 4.22 | 23 13 20 21
jog      | + clearance | 1.49 0.14  38 5  -1.17 0.07  27 1 32 1  4.39 0.11 | 4.32 | 1 0 0 1
jog      | released    | 1.35 0.11  -4 3  -0.13 0.03  18 1 17 1  3.32 0.25 | 3.09 |
backward | base        | 0.84 0.00   1 1  -0.15 0.00  11 0 10 0  2.67 0.02 | 2.66 | 27865 27582 27902 27626
backward | + right arm | 0.76 0.02   6 1  -1.38 0.02  11 1 13 0  3.69 0.03 | 3.67 | 206 193 189 192
backward | + turn      | 0.58 0.01  45 2  -1.36 0.01  11 1 11 0  4.13 0.03 | 4.10 | 0 0 0 0
backward | + clearance | 0.38 0.04  51 7  -1.47 0.06  19 2 24 0  4.17 0.02 | 4.15 | 0 0 0 0
backward | released    | 0.73 0.05  -5 3  -0.29 0.00  12 0 10 1  2.70 0.11 | 2.65 |
"""  # noqa: E501


def _read(table: str) -> dict[tuple[str, str, str], str]:
    """The paper's cells by base, stage and metric."""
    found = {}
    for line in table.strip().splitlines():
        base, stage, seeds, alone, counts = (part.strip() for part in line.split("|"))
        values = seeds.split()
        for i, name in enumerate(MEASURES):
            found[base, stage, f"{name}, mean of seeds"] = values[2 * i]
            found[base, stage, f"{name}, SD of seeds"] = values[2 * i + 1]
        found[base, stage, "distance"] = alone
        for who, count in zip((0, 1, 2, None), counts.split(), strict=False):
            found[base, stage, _support_of(who)] = count
    return found


def _support_of(seed: int | None) -> str:
    return SUPPORT if seed is None else f"{SUPPORT}, seed {seed}"


PAPER = _read(_TABLE)


@dataclass(frozen=True)
class Stage:
    """What one run does in one stage."""

    values: dict[str, float]
    """Of every measure of `MEASURES`."""
    support: int | None
    """None once released."""


def stages(near: Neighbours, executed: Executed) -> dict[str, Stage]:
    """The stages that a run has stood through."""
    rows, fell_at = executed.rows, executed.fell_at
    found = {}
    for name, steps in STAGES.items():
        if fell_at is not None and fell_at < steps.stop:
            break
        seen = measure(rows, steps)
        seconds = (steps.stop - steps.start - 1) / FPS
        values = (
            seen["speed"],
            seen["heading"] / seconds,
            seen["right_shoulder_pitch"],
            100 * seen["left_apex"],
            100 * seen["right_apex"],
            float(np.median(near.distances(rows[steps]))),
        )
        count = None
        if name in STEERED:
            base, now = (describe_run(rows, STAGES[n]) for n in ("base", name))
            count = support(near.windows, base, now, STEERED[name], ATTRIBUTES)
        found[name] = Stage(dict(zip(MEASURES, values, strict=True)), count)
    return found


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (0, 1, 2),
    *,
    bases: Sequence[str] = ("walk", "jog", "backward"),
    corpus: Corpus | None = None,
) -> Findings:
    """The ladder on every base: once without chance, and once a seed."""
    near = Neighbours.build(lab.encoder, corpus)
    change = schedule(KNOBS, STEPS, lab.directions.names) @ lab.directions.vectors
    results, charts, films = _corpus(lab, near), [], []
    both: list[tuple[dict[str, Stage], dict[str, Stage]]] = []
    for name in bases:
        base = lab.base(name, STEPS)
        runs = [lab.plain(base)]
        runs += [lab.steered(base, change, NAME, seed=s) for s in (None, *seeds)]
        runs += [lab.plain(base, seed) for seed in seeds]
        plain, alone, *random = lab.execute(runs, f"{NAME}, {name}")
        random, unsteered_random = random[: len(seeds)], random[len(seeds) :]
        found, unsteered = stages(near, alone), stages(near, plain)
        pairs = zip(seeds, random, strict=True)
        by_seed = {seed: stages(near, one) for seed, one in pairs}
        results += _falls(lab, name, (alone, *random), (plain, *unsteered_random))
        for stage in STAGES:
            results += _alone(lab, name, stage, found, unsteered)
            results += _seeds(lab, name, stage, by_seed)
        charts += ladder_charts.charts(name, plain, alone, near, _MARKS)
        both.append((found, unsteered))
        if (run := lab.record(alone.run)) and (other := lab.record(plain.run)):
            films.append(Film(f"The ladder on the {name}", run.name, other.name))
    return Findings(
        *(NAME, "One direction after the other", tuple(results), tuple(charts)),
        films=tuple(films),
        note=_note(both, len(near.windows.values)),
    )


def _corpus(lab: Lab, near: Neighbours) -> list[Result]:
    """How far apart clips of the corpus are themselves."""
    spread = leave_one_clip_out(near.skills, near.clips, _SPREAD)
    told = (("median", spread.median, "2.80"), ("90th percentile", spread.p90, "4.01"))
    return [
        lab.cell(*(NAME, "corpus", f"distance, {name}", value), n=spread.n, paper=paper)
        for name, value, paper in told
    ]


def _falls(
    lab: Lab, base: str, steered: Sequence[Executed], plain: Sequence[Executed]
) -> list[Result]:
    """Of the same robots with and without steering: a base may fall by itself."""
    row, metric = f"{base}: all stages", "runs that fell"
    fallen, alone = (sum(not one.stands for one in some) for some in (steered, plain))
    return [
        lab.cell(NAME, row, metric, fallen, n=len(steered), paper="0"),
        lab.cell(NAME, row, f"{metric}, unsteered", alone, n=len(plain)),
    ]


def _alone(
    lab: Lab,
    base: str,
    stage: str,
    found: dict[str, Stage],
    unsteered: dict[str, Stage],
) -> list[Result]:
    """Cells of the run without chance; headings drift unsteered, so that is told."""
    if stage not in found:
        return []
    one = found[stage]
    values = {name: (one.values[name], unit) for name, unit in MEASURES.items()}
    if stage in unsteered:
        for name in ("yaw rate", "distance"):
            value = unsteered[stage].values[name]
            values[f"{name}, unsteered"] = value, MEASURES[name]
    if one.support is not None:
        values[SUPPORT] = one.support, "windows"
    row = f"{base}: {stage}"
    return [
        lab.cell(NAME, row, name, value, unit, paper=PAPER.get((base, stage, name), ""))
        for name, (value, unit) in values.items()
    ]


def _seeds(
    lab: Lab, base: str, stage: str, by_seed: dict[int, dict[str, Stage]]
) -> list[Result]:
    """Mean and sample SD over the seeds that stand, and the support of each."""
    standing = {seed: one[stage] for seed, one in by_seed.items() if stage in one}
    cells = []

    def add(name: str, value: float, unit: str, n: int, seed: int = 0) -> None:
        paper = PAPER.get((base, stage, name), "")
        row = f"{base}: {stage}"
        cells.append(lab.cell(NAME, row, name, value, unit, n, paper, seed))

    for name, unit in MEASURES.items():
        values = [one.values[name] for one in standing.values()]
        if values:
            add(f"{name}, mean of seeds", np.mean(values).item(), unit, len(values))
        if len(values) > 1:
            sd = np.std(values, ddof=1).item()
            add(f"{name}, SD of seeds", sd, unit, len(values))
    for seed, one in standing.items():
        if one.support is not None:
            add(_support_of(seed), one.support, "windows", 1, seed)
    return cells


def _note(
    both: Sequence[tuple[dict[str, Stage], dict[str, Stage]]], windows: int
) -> str:
    names = [*STEERED]

    def distance(one: dict[str, Stage], stage: str) -> float:
        return one[stage].values["distance"]

    rises = [
        distance(found, after) > distance(found, before)
        for found, _ in both
        for before, after in pairwise(names)
        if after in found
    ]
    above = [
        distance(found, stage) > distance(unsteered, stage)
        for found, unsteered in both
        for stage in names[1:]
        if stage in found and stage in unsteered
    ]
    return (
        f"Without chance, the distance to the corpus rises with {sum(rises)} of "
        f"{len(rises)} added directions, but that of the unsteered run wanders too: "
        f"steered is above it in {sum(above)} of {len(above)} stages. "
        f"Support counts {windows:,} windows, the paper's 1,697,723; its "
        "tolerances are ours. High steps are the fourth spectral direction, chosen for "
        "what it does on these very bases. A run counts in a stage only if it stands "
        "through it. Unsteered robots drift in heading and, with a seed, may fall by "
        "themselves, so both are told beside."
    )

"""One direction after the other on a moving robot, and all released together.

Each stage is measured over its steady steps: what the robot does, how far its motion,
encoded again, is from the corpus, and how many windows of the corpus move like it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spectral_skills.control.schedules import RAMP_STEPS, Knob, schedule
from spectral_skills.experiments.composition import ladder_charts, ladder_map
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.ladder_paper import (
    MEASURES,
    PAPER,
    SUPPORT,
    support_of,
)
from spectral_skills.experiments.composition.neighbours import Neighbours
from spectral_skills.experiments.effects import measure
from spectral_skills.experiments.findings import Film, Findings
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.results import Result
from spectral_skills.spectral.support import (
    ATTRIBUTES,
    describe_run,
    leave_one_clip_out,
    support,
)

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
_MARKS = {
    **{k.start: n for k, n in zip(KNOBS, [*STAGES][1:], strict=False)},
    RELEASE: "released",
}
"""Steps at which something changes."""
_CALLED = {"backward": "backward walk"}
"""Bases whose names are no nouns."""
_SPREAD = 5000
"""Skills of the corpus measured against those of other clips."""


@dataclass(frozen=True)
class Stage:
    """What one run does in one stage."""

    values: dict[str, float]
    """Of every measure of `MEASURES`."""
    support: int | None
    """None once released."""


def stages(near: Neighbours, executed: Executed) -> dict[str, Stage]:
    """The stages that a run has stood through."""
    rows, found = executed.rows, {}
    for name, steps in ladder_map.stood(executed, STAGES).items():
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
    axes = np.stack([lab.direction(str(knob.direction)) for knob in KNOBS[:2]])
    results, charts, films = _corpus(lab, near), [], []
    spaces, trails, unsteered_runs = [], {}, {}
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
        called = _CALLED.get(name, name)
        charts += ladder_charts.charts(called, plain, alone, near, _MARKS)
        spaces.append(ladder_map.arm_and_turn(called, near, axes, alone, STAGES))
        trails[name] = ladder_map.done(near, alone, STAGES)
        unsteered_runs[name] = plain
        both.append((found, unsteered))
        if (run := lab.record(alone.run)) and (other := lab.record(plain.run)):
            films.append(Film(f"The ladder on the {called}", run.name, other.name))
    drift = ladder_charts.turned_away(unsteered_runs)
    charts = [*ladder_map.maps(near, trails), *spaces, drift, *charts]
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
            add(support_of(seed), one.support, "windows", 1, seed)
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

"""Steering against forcing a pose on the joints, and against adding skills.

Matched triples: a steered run that stays up, its mean joint deviation added to the
action, and the same added to the servo target, in the same schedule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean, stdev

import numpy as np

from spectral_skills.baselines.token_directions import describe
from spectral_skills.evaluation.composition import skill_arithmetic
from spectral_skills.evaluation.composition.bases import BASES, STEPS
from spectral_skills.evaluation.composition.batch import Run
from spectral_skills.evaluation.composition.effects import Effect, measure
from spectral_skills.evaluation.composition.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.evaluation.composition.lab import Executed, Lab
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.results import Result
from spectral_skills.robot import g1
from spectral_skills.spectral.steering import standard

NAME = "alternatives"
ARMS = ("right_arm_1", "left_arm_1", "spread")
DIRECTIONS = (*ARMS, "turn", "foot_clearance")
AMPLITUDES = (1.0, 2.0, 3.0)
REPEATED = 2.0
"""The amplitude that is repeated with seeds."""
TRAVELS = ("walk", "jog", "backward")
WAYS = ("steering", "offset on action", "offset on servo target")
METRICS = {"falls": "", "pose": "", "speed": "of base", "drift": "deg", "turn": "deg"}
PAPER = {
    "": (
        ("0/66", "1.00", "0.95", "", "279"),
        ("17/66", "1.30", "0.78", "", "162"),
        ("5/66", "0.76", "0.91", "", "68"),
    ),
    "a=2": (
        ("0/22", "1.00", "0.90", "20", "279"),
        ("5/22", "1.38", "0.89", "29", "177"),
        ("1/22", "0.76", "0.91", "19", "80"),
    ),
    "seeds": (
        ("0, 0, 0", "1.00", "0.95+-0.02", "16+-3", "295+-10"),
        ("4, 5, 5", "1.37+-0.03", "0.98+-0.10", "36+-8", "192+-4"),
        ("1, 1, 2", "0.73+-0.00", "0.92+-0.01", "23+-3", "92+-13"),
    ),
}
"""All amplitudes; one without, and with seeds. Columns as in `METRICS`."""


@dataclass(frozen=True)
class Triple:
    """A steered run, and its pose on the action and on the servos."""

    direction: str
    amplitude: float
    plain: Executed
    runs: tuple[Executed, Executed, Executed]
    """As in `WAYS`."""
    effects: tuple[Effect, Effect, Effect]

    def pose_ratio(self, way: int) -> float:
        """How much of the steered pose a run has: 1 all of it, 0 nothing."""
        steered, ours = self.effects[0].pose, self.effects[way].pose
        return float(ours @ steered / (steered @ steered))


def offsets(run: Run, pose: np.ndarray, skills: np.ndarray) -> tuple[Run, Run]:
    """Runs of a base's own skills, a pose (29,) added to actions or joint targets."""
    servo = (standard(1.0, run.base.steps) * pose).astype(np.float32)
    action = (servo / g1.ACTION_SCALE).astype(np.float32)
    return (
        Run(f"{run.name} on action", run.base, skills, run.seed, action=action),
        Run(f"{run.name} on servo", run.base, skills, run.seed, servo=servo),
    )


def matched(
    lab: Lab,
    bases: Sequence[str],
    directions: Sequence[str],
    amplitudes: Sequence[float],
    steps: int,
) -> list[Triple]:
    """Triples of all steered runs that do not fall."""
    grounds = [lab.base(name, steps) for name in bases]
    plain = lab.execute([lab.plain(base) for base in grounds], "bases")
    keys = list(product(plain, directions, amplitudes))
    steered = lab.execute(
        [
            lab.steered(p.run.base, lab.direction(name, a), f"{name} a={a:+g}")
            for p, name, a in keys
        ],
        "steered",
    )
    up = [(*k, one) for k, one in zip(keys, steered, strict=True) if one.stands]
    forced = []
    for p, _, _, one in up:
        pose = lab.effect(one, p).pose
        forced += offsets(one.run, pose, lab.skills(one.run.base))
    made = iter(lab.execute(forced, "offsets"))
    return [
        _triple(lab, name, a, p, (one, next(made), next(made)))
        for p, name, a, one in up
    ]


def reseeded(lab: Lab, triples: list[Triple], seed: int) -> list[Triple]:
    """The same commands and offsets for another robot."""
    grounds = {t.plain.run.base.name: t.plain.run.base for t in triples}
    plain = lab.execute([lab.plain(base, seed) for base in grounds.values()], "bases")
    of = dict(zip(grounds, plain, strict=True))
    again = [
        Run(r.name, r.base, r.skills, seed, r.action, r.servo)
        for t in triples
        for r in (one.run for one in t.runs)
    ]
    made = iter(lab.execute(again, f"seed {seed}"))
    return [
        _triple(
            lab,
            t.direction,
            t.amplitude,
            of[t.plain.run.base.name],
            (next(made), next(made), next(made)),
        )
        for t in triples
    ]


def _triple(
    lab: Lab,
    direction: str,
    amplitude: float,
    plain: Executed,
    runs: tuple[Executed, Executed, Executed],
) -> Triple:
    first, second, third = (lab.effect(one, plain) for one in runs)
    return Triple(direction, amplitude, plain, runs, (first, second, third))


def summary(lab: Lab, triples: list[Triple], way: int) -> dict[str, tuple[float, int]]:
    """A row of the table: each metric and its runs; only falls count all of them."""
    up = [t for t in triples if t.runs[way].stands]
    speeds = []
    for t in up:
        base = t.plain.run.base
        if t.direction in ARMS and base.name in TRAVELS:
            both = (measure(one.rows, lab.hold(base)) for one in (t.runs[way], t.plain))
            ours, usual = (found["speed"] for found in both)
            speeds.append(ours / usual)
    headings = [(t.direction, t.effects[way].changes["heading"]) for t in up]
    columns = {
        "pose": [t.pose_ratio(way) for t in up if t.runs[0].stands],
        "speed": speeds,
        "drift": [abs(heading) for name, heading in headings if name != "turn"],
        "turn": [heading for name, heading in headings if name == "turn"],
    }
    falls = {"falls": (float(len(triples) - len(up)), len(triples))}
    medians = {k: (float(np.median(v)), len(v)) for k, v in columns.items() if v}
    return falls | medians


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (),
    *,
    bases: Sequence[str] = BASES,
    directions: Sequence[str] = DIRECTIONS,
    amplitudes: Sequence[float] = AMPLITUDES,
    steps: int = STEPS,
    corpus: Corpus | None = None,
) -> Findings:
    """Triples on all bases; skills added on the first."""
    triples = matched(lab, bases, directions, amplitudes, steps)
    some = [t for t in triples if t.amplitude == REPEATED]
    results = [*_cells(lab, triples, ""), *_cells(lab, some, "a=2")]
    results += _seeded(lab, {seed: reseeded(lab, some, seed) for seed in seeds})
    corpus = corpus or Corpus.open(embedded_corpus())
    skills = skill_arithmetic.gather(describe(lab.encoder, corpus), corpus)
    lines = skill_arithmetic.runs(lab, lab.base(bases[0], steps), skills)
    executed = dict(zip(lines, lab.execute(list(lines.values()), "lines"), strict=True))
    results += skill_arithmetic.cells(lab, NAME, executed)
    return Findings(
        NAME,
        "Steering, forcing and adding skills",
        tuple(results),
        (_poses(triples), *skill_arithmetic.charts(lab, executed)),
        _films(lab, triples, executed),
        _note(lab, triples, len(bases) * len(directions) * len(amplitudes)),
    )


def _cells(lab: Lab, triples: list[Triple], told: str) -> Iterator[Result]:
    for way, name in enumerate(WAYS if triples else ()):
        row, found = ", ".join(filter(None, (name, told))), summary(lab, triples, way)
        for (metric, unit), paper in zip(
            METRICS.items(), PAPER[told][way], strict=True
        ):
            if metric in found:
                value, n = found[metric]
                unit = unit or (f"of {n}" if metric == "falls" else "of steered")
                yield lab.cell(NAME, row, metric, value, unit, n, paper)


def _seeded(lab: Lab, by_seed: dict[int, list[Triple]]) -> Iterator[Result]:
    """Mean and deviation over seeds."""
    for way, name in enumerate(WAYS):
        found = [summary(lab, triples, way) for triples in by_seed.values()]
        for (metric, unit), paper in zip(
            METRICS.items(), PAPER["seeds"][way], strict=True
        ):
            values = [one[metric][0] for one in found if metric in one]
            if not values:
                continue
            row, n = f"{name}, a=2, seeds", len(values)
            unit = unit or (
                "of " + str(found[0]["falls"][1]) if metric == "falls" else "of steered"
            )
            yield lab.cell(NAME, row, metric, mean(values), unit, n, paper)
            if n > 1:
                yield lab.cell(NAME, row, f"{metric}, SD", stdev(values), unit, n)


def _poses(triples: list[Triple]) -> Chart:
    series = []
    for way in (1, 2):
        x = tuple(t.amplitude for t in triples)
        y = tuple(t.pose_ratio(way) for t in triples)
        marks = tuple(
            f"{t.direction} on {t.plain.run.base.name}"
            if t.runs[way].stands
            else "fall"
            for t in triples
        )
        series.append(Series(WAYS[way], x, y, marks))
    note = "1: the pose of the steered run. Above, the offset overshoots it."
    axes = ("amplitude", "pose, of the steered run's")
    return Chart("Poses that are forced", "scatter", *axes, tuple(series), note)


def _films(
    lab: Lab, triples: list[Triple], lines: dict[tuple[str, float], Executed]
) -> tuple[Film, ...]:
    """A turn that is steered and one that is forced, a blend, and skills added."""
    turns = [t for t in triples if t.direction == "turn"][-1:]
    pairs = [(one.run, t.plain.run) for t in turns for one in t.runs[:2]]
    plain = lines[skill_arithmetic.PLAIN, 0.0].run
    for key in ((skill_arithmetic.BLEND, 0.5), (skill_arithmetic.STANDING, 1.0)):
        pairs.append((lines[key].run, plain))
    films = []
    for run, base in pairs:
        record, beside = lab.record(run), lab.record(base)
        if record is not None and beside is not None:
            title = f"{run.base.name}, {run.name}"
            films.append(Film(title, record.name, beside.name))
    return tuple(films)


def _note(lab: Lab, triples: list[Triple], asked: int) -> str:
    action, servo = (summary(lab, triples, way) for way in (1, 2))

    def told(found: dict[str, tuple[float, int]]) -> str:
        falls, n = found["falls"]
        pose = f", reach {found['pose'][0]:.2f} of the pose" if "pose" in found else ""
        return f"fall in {falls:.0f} of {n}{pose}"

    return (
        f"{len(triples)} of {asked} steered runs stay up and make a triple; the paper "
        "has one wave gesture more. Offsets on the action "
        f"{told(action)}; on the servo target they {told(servo)}. Medians are over "
        "runs that stay up. Skills to add come from the corpus by the measured right "
        "shoulder pitch; a clip stands for its mean skill, where the paper may have "
        "played it."
    )

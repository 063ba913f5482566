"""Steering against forcing a pose on the joints, and against adding skills."""

from collections.abc import Iterator, Sequence
from statistics import mean, stdev

from spectral_skills.experiments.composition import skill_arithmetic, waving
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.triples import (
    ARMS,
    WAYS,
    Triple,
    matched,
    reseeded,
    summary,
)
from spectral_skills.experiments.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.experiments.token_directions import describe
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.bases import BASES, STEPS
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.results import Result

NAME = "alternatives"
DIRECTIONS = (*ARMS, "turn", "foot_clearance")
AMPLITUDES = (1.0, 2.0, 3.0)
REPEATED = 2.0
"""The amplitude that is repeated with seeds."""
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
    """Triples on all bases and a wave; skills added on the first base."""
    triples = matched(lab, bases, directions, amplitudes, steps)
    steered = len(triples)
    wave = waving.triple(lab, steps)
    triples += wave
    some = [t for t in triples if t.amplitude == REPEATED]
    results = [*_cells(lab, triples, ""), *_cells(lab, some, "a=2")]
    results += _seeded(lab, {seed: reseeded(lab, some, seed) for seed in seeds})
    corpus = corpus or Corpus.open(embedded_corpus())
    skills = skill_arithmetic.gather(describe(lab.encoder, corpus), corpus)
    lines = skill_arithmetic.runs(lab, lab.base(bases[0], steps), skills)
    executed = dict(zip(lines, lab.execute(list(lines.values()), "lines"), strict=True))
    results += waving.cells(lab, NAME, wave)
    results += skill_arithmetic.cells(lab, NAME, executed)
    return Findings(
        NAME,
        "Steering, forcing and adding skills",
        tuple(results),
        (_poses(triples), *skill_arithmetic.charts(lab, executed)),
        _films(lab, triples, executed),
        _note(lab, triples, steered, len(bases) * len(directions) * len(amplitudes)),
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
    """A turn and a wave, steered and forced, a blend, and skills added."""
    shown = [t for t in triples if t.direction == "turn"][-1:]
    shown += [t for t in triples if t.direction == waving.NAME]
    pairs = [(one.run, t.plain.run) for t in shown for one in t.runs[:2]]
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


def _note(lab: Lab, triples: list[Triple], steered: int, asked: int) -> str:
    action, servo = (summary(lab, triples, way) for way in (1, 2))

    def told(found: dict[str, tuple[float, int]]) -> str:
        falls, n = found["falls"]
        pose = f", reach {found['pose'][0]:.2f} of the pose" if "pose" in found else ""
        return f"fall in {falls:.0f} of {n}{pose}"

    return (
        f"{steered} of {asked} steered runs stay up and make a triple; {waving.NOTE} "
        "Offsets on the action "
        f"{told(action)}; on the servo target they {told(servo)}. Medians are over "
        "runs that stay up. Skills to add come from the corpus by the measured right "
        "shoulder pitch; a clip stands for its mean skill, where the paper may have "
        "played it."
    )

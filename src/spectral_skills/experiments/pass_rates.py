"""How often a goal is reached and the rest left alone, by the paper's rule.

The ways compared: directions for a goal, spectral directions, the pose of the steered
run forced on the servos, and directions found from skills without a predictor. Those
are also tried on a tracker of tokens (FSQ), where there is one. An amplitude of 1 is
there as many of that space's own deviations as it is of ours.
"""

from collections.abc import Iterator, Sequence

from spectral_skills.experiments.composition import candidates as ways
from spectral_skills.experiments.composition.candidates import Options
from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.composition.pass_rule import ENOUGH, SLOW, TARGETS
from spectral_skills.experiments.composition.trials import Bench, Chosen, Trial
from spectral_skills.experiments.effects import NOTICED
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

NAME = "pass_rates"
LARGER = (4.0, 6.0)
"""Amplitudes that the paper has not: what more would give."""
DIRECTED, MORE = "target-directed", "target-directed, larger"
SPECTRAL, FORCED = "spectral directions only", "joint offset (oracle)"
PCA, RIDGE = "PCA of skills", "ridge on skills"
FSQ_PCA, FSQ_RIDGE = "FSQ PCA", "FSQ ridge"
PAPER = {
    DIRECTED: ("9/12", "9/10", "4/12", "6/11", "28/45"),
    SPECTRAL: ("3/5", "0/5", "1/5", "2/5", "6/20"),
    FORCED: ("2/10", "8/9", "0/10", "5/10", "15/39"),
    PCA: ("4/5", "2/5", "0/5", "0/5", "6/20"),
    RIDGE: ("0/5", "0/5", "0/5", "4/5", "4/20"),
    FSQ_PCA: ("4/5", "2/5", "0/5", "0/5", "6/20"),
    FSQ_RIDGE: ("0/5", "0/5", "0/5", "4/5", "4/20"),
}
"""Of each target, and of all."""


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (),
    *,
    bases: Sequence[str] = BASES,
    amplitudes: Sequence[float] = (2.0, 3.0),
    larger: Sequence[float] = LARGER,
    candidates: int = 6,
    steps: int = STEPS,
    corpus: Corpus | None = None,
    tokens: Lab | None = None,
) -> Findings:
    """Pass rates of every way, on every base; directions are chosen on the first.

    `tokens` is a tracker of FSQ tokens, judged against its own unsteered runs.
    """
    bench = Bench(lab, bases, steps, None)
    directed = {t: (t.name, lab.direction(t.direction)) for t in TARGETS}
    rows = {DIRECTED: bench.steered(directed, amplitudes)}
    for seed in seeds:
        randomised = Bench(lab, bases, steps, seed)
        rows[f"{DIRECTED}, seed {seed}"] = randomised.steered(directed, amplitudes)
    rows[MORE] = bench.steered(directed, larger)
    arm = {TARGETS[0]: ("right arm part", lab.direction("right_arm_1"))}
    rows["part direction"] = bench.steered(arm, amplitudes)
    corpus = corpus or Corpus.open(embedded_corpus())
    skills = describe(lab.encoder, corpus)
    options = {
        SPECTRAL: ways.spectral(lab.directions, candidates),
        PCA: ways.components(skills, candidates),
        RIDGE: ways.fitted(skills),
    }
    chosen = _choose(bench, options, amplitudes[0])
    rows |= _follow(bench, chosen, amplitudes[0])
    rows[FORCED] = bench.forced(rows[DIRECTED])
    cells, note = [*_cells(lab, rows)], _note(lab, rows, chosen)
    if tokens is not None:
        theirs = Bench(tokens, bases, steps, None)
        found = describe(tokens.encoder, corpus)
        unit = found.spread / skills.spread
        options = {
            FSQ_PCA: ways.components(found, candidates, unit),
            FSQ_RIDGE: ways.fitted(found, unit),
        }
        chosen = _choose(theirs, options, amplitudes[0])
        of_tokens = _follow(theirs, chosen, amplitudes[0])
        cells += _cells(tokens, of_tokens)
        note += _token_note(theirs, chosen[FSQ_PCA], unit)
        rows |= of_tokens
    return Findings(
        NAME,
        "How often a goal is reached",
        tuple(cells),
        (_bars(rows), _reached([*rows[DIRECTED], *rows[MORE]])),
        _films(lab, bench, rows[DIRECTED]),
        note,
    )


def _choose(
    bench: Bench, options: dict[str, Options], amplitude: float
) -> dict[str, Chosen]:
    """The best of what each way offers."""
    return {way: bench.choose(some, amplitude) for way, some in options.items()}


def _follow(
    bench: Bench, chosen: dict[str, Chosen], amplitude: float
) -> dict[str, list[Trial]]:
    """What comes of the directions that each way has chosen."""
    return {way: bench.steered(one, [amplitude]) for way, one in chosen.items()}


def _cells(lab: Lab, rows: dict[str, list[Trial]]) -> Iterator[Result]:
    for row, trials in rows.items():
        paper = PAPER.get(row, ("",) * (len(TARGETS) + 1))
        for i, metric in enumerate([*(t.name for t in TARGETS), "all"]):
            of = [t for t in trials if metric in ("all", t.target.name)]
            if of:
                passed, seed = _passed(of), of[0].executed.run.seed or 0
                told = f"of {len(of)}", len(of), paper[i], seed
                yield lab.cell(NAME, row, metric, passed, *told)


def _passed(trials: list[Trial]) -> int:
    return sum(t.verdict.passes for t in trials)


def _bars(rows: dict[str, list[Trial]]) -> Chart:
    names = tuple(t.name for t in TARGETS)
    series = []
    for row, trials in rows.items():
        parts = [[t for t in trials if t.target is target] for target in TARGETS]
        if all(parts):
            shares = tuple(100.0 * _passed(part) / len(part) for part in parts)
            series.append(
                Series(row, tuple(map(float, range(len(names)))), shares, names)
            )
    return Chart("Runs that pass", "bar", "target", "passing runs, %", tuple(series))


def _reached(trials: list[Trial]) -> Chart:
    series = []
    for target in TARGETS:
        of = [t for t in trials if t.target is target]
        marks = [t.executed.run.base.name if t.executed.stands else "fall" for t in of]
        x, y = [t.amplitude for t in of], [100.0 * t.verdict.share for t in of]
        series.append(Series(target.name, tuple(x), tuple(y), tuple(marks)))
    note = f"From {100 * ENOUGH:.0f} % on a run passes if nothing else has changed."
    title, axes = "What target directions reach", ("amplitude", "of the goal, %")
    return Chart(title, "scatter", *axes, tuple(series), note)


def _films(lab: Lab, bench: Bench, trials: list[Trial]) -> tuple[Film, ...]:
    """The largest amplitude of each target on the first base."""
    first = bench.bases[0]
    last = {t.target: t.executed.run for t in trials if t.executed.run.base is first}
    base, films = lab.record(bench.plain[first.name].run), []
    for run in last.values():
        record = lab.record(run)
        if record is not None and base is not None:
            films.append(Film(f"{first.name}, {run.name}", record.name, base.name))
    return tuple(films)


def _note(lab: Lab, rows: dict[str, list[Trial]], chosen: dict[str, Chosen]) -> str:
    trials, more = rows[DIRECTED], rows[MORE]
    failures = [t.verdict.failure for t in trials if t.verdict.failure]
    why = ", ".join(f"{one} ({failures.count(one)})" for one in sorted(set(failures)))
    amplitudes = " and ".join(f"{a:g}" for a in sorted({t.amplitude for t in more}))
    best = ", ".join(_names(chosen[way]) for way in (SPECTRAL, PCA))
    return (
        f"Of {len(trials)} target-directed runs {_passed(trials)} pass (paper: 28 of "
        f"45, five of them in a second simulator); what fails: {why or 'nothing'}. At "
        f"a={amplitudes}, which the paper has not, {_passed(more)} of {len(more)} "
        f"pass. Speed is forward speed; on a base slower than {SLOW} m/s it may change "
        f"by {NOTICED['speed']} m/s. The paper's PCA and ridge are of SONIC's tokens, "
        f"ours of the lab's own skills ({lab.encoder.config.bottleneck.kind}). Chosen "
        f"on {trials[0].executed.run.base.name}: {best}."
    )


def _token_note(bench: Bench, components: Chosen, unit: float) -> str:
    falls = sum(not one.stands for one in bench.plain.values())
    return (
        f" The FSQ rows are of a tracker of tokens ({falls} of {len(bench.plain)} of "
        f"its unsteered runs fall). Its space is {unit:.2f} times as wide as ours, and "
        f"amplitudes there are {unit:.2f} times as large; what is steered is not "
        f"rounded to a token again. Chosen: {_names(components)}."
    )


def _names(chosen: Chosen) -> str:
    return ", ".join(f"{target.name} {name}" for target, (name, _) in chosen.items())

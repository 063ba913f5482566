"""Sequences of two to four skills: how smooth their switches are, and who falls.

The paper compares with SONIC over the same sequences; here a hard switch is the
yardstick and, where there are some, skill controllers of other models and an explicit
tracker, which follows the same motions as one reference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from spectral_skills.experiments.chained import (
    POOL,
    SEGMENT,
    SEQUENCES,
    SWITCHES,
    Outcome,
    chained,
    draw,
    execute,
    smoother,
)
from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.composition.runner import Runner
from spectral_skills.experiments.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.experiments.spliced import Explicit, spliced
from spectral_skills.results import Result

NAME = "chaining"
EXPLICIT = "explicit"
_METRICS = {
    "during": "acceleration in switches",
    "outside": "acceleration elsewhere",
    "peak": "peak acceleration",
}
_PAPER = "36 of 42 smoother than SONIC; 13 of 13 with 2 steps"


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (),
    *,
    others: Mapping[str, Lab] | None = None,
    explicit: Explicit | None = None,
    pool: Sequence[str] = POOL,
    sequences: int = SEQUENCES,
    switches: Sequence[int] = SWITCHES,
    steps: int = SEGMENT,
) -> Findings:
    """Chain drawn sequences; `others` are skill controllers of other models, `explicit`
    is a tracker of poses."""
    drawn, labs = draw(pool, sequences), {"": lab} | dict(others or {})
    found = {name: execute(one, drawn, switches, steps) for name, one in labs.items()}
    runners: dict[str, Runner] = dict(labs)
    if explicit is not None:
        runners[EXPLICIT] = explicit
        found[EXPLICIT] = execute(explicit, drawn, switches, steps, plan=spliced)
    results = [_cell(lab, "all", "sequences", len(drawn), paper=str(SEQUENCES))]
    for name, outcomes in found.items():
        results += _table(runners[name], name, outcomes, found[""])
    results += _against_hard(lab, found)
    alone = lab.execute([chained(lab, [name], 0, steps).run for name in pool])
    falls = sum(not one.stands for one in alone)
    results.append(_cell(lab, "each skill alone", "falls", falls, "runs", len(alone)))
    for seed in seeds:
        for switch, some in _by_switch(execute(lab, drawn, switches, steps, seed)):
            row, falls = f"switch {switch}, seed {seed}", _falls(some)
            results.append(
                _cell(lab, row, "falls", falls, "runs", len(some), seed=seed)
            )
    return Findings(
        NAME,
        "Skills one after the other",
        tuple(results),
        _charts(found),
        _films(lab, found[""]),
        _note(found, falls_alone=sum(not one.stands for one in alone)),
    )


def _cell(lab: Runner, row: str, metric: str, value: float, *more, **named) -> Result:
    made = lab.cell(NAME, row, metric, value, *more, **named)
    return replace(made, command=f"spectral evaluate {NAME}")


def _by_switch(outcomes: Sequence[Outcome]) -> list[tuple[int, list[Outcome]]]:
    lengths = dict.fromkeys(o.chained.switch for o in outcomes)
    return [(s, [o for o in outcomes if o.chained.switch == s]) for s in lengths]


def _by_skills(outcomes: Sequence[Outcome]) -> list[tuple[int, list[Outcome]]]:
    counts = sorted({len(o.chained.names) for o in outcomes})
    return [(n, [o for o in outcomes if len(o.chained.names) == n]) for n in counts]


def _falls(outcomes: Sequence[Outcome]) -> int:
    return sum(not o.done.stands for o in outcomes)


def _mean(outcomes: Sequence[Outcome], what: str) -> tuple[float, int]:
    """Mean over the sequences that have a value, and how many have; where all fell
    before a switch, none has."""
    values = [getattr(o.smooth, what) for o in outcomes]
    values = [value for value in values if np.isfinite(value)]
    return (float(np.mean(values)) if values else float("nan")), len(values)


def _table(
    lab: Runner, name: str, outcomes: Sequence[Outcome], ours: Sequence[Outcome]
) -> list[Result]:
    """A controller's rows; those of others (named) are compared with ours."""
    results, start = [], f"{name}, " if name else ""
    own = dict(_by_switch(ours))
    for switch, some in _by_switch(outcomes):
        row = f"{start}switch {switch}"
        for what, metric in _METRICS.items():
            value, n = _mean(some, what)
            if n:
                results.append(_cell(lab, row, metric, value, "rad/s^2", n))
        results.append(_cell(lab, row, "falls", _falls(some), "runs", len(some)))
        if name:
            count, n = smoother(own[switch], some)
            paper = "13 of 13 (SONIC)" if switch == 2 else ""
            cell = ("smoother with ours", count, "sequences", n, paper)
            results.append(_cell(lab, row, *cell))
        elif switch and 0 in own:
            count, n = smoother(some, own[0])
            cell = ("smoother than hard", count, "sequences", n)
            results.append(_cell(lab, row, *cell))
    for skills, some in _by_skills(outcomes):
        row = f"{start}{skills} skills"
        results.append(_cell(lab, row, "falls", _falls(some), "runs", len(some)))
    return results


def _against_hard(lab: Lab, found: Mapping[str, Sequence[Outcome]]) -> list[Result]:
    """Our switches of every length against the hard ones of each other tracker."""
    results = []
    for name, outcomes in found.items():
        hard = dict(_by_switch(outcomes)).get(0)
        if not name or hard is None:
            continue
        for switch, some in _by_switch(found[""]):
            count, n = smoother(some, hard)
            cell = (f"smoother than hard {name}", count, "sequences", n)
            results.append(_cell(lab, f"switch {switch}", *cell))
    return results


def _charts(found: Mapping[str, Sequence[Outcome]]) -> tuple[Chart, ...]:
    lines, bars = [], []
    for name, outcomes in found.items():
        start = f"{name}: " if name else ""
        for what, metric in _METRICS.items():
            means = [(s, *_mean(some, what)) for s, some in _by_switch(outcomes)]
            means = [(float(switch), mean) for switch, mean, n in means if n]
            if means and what != "peak":
                x, y = zip(*means, strict=True)
                lines.append(Series(start + metric, x, y))
        counts = _by_skills(outcomes)
        shares = tuple(100.0 * _falls(some) / len(some) for _, some in counts)
        bars.append(Series(start + "falls", tuple(float(n) for n, _ in counts), shares))
    return (
        Chart(
            "Joint acceleration by the length of a switch",
            "line",
            "steps of a switch",
            "joint acceleration, rad/s^2",
            tuple(lines),
        ),
        Chart(
            "Falls by the number of skills",
            "bar",
            "skills in a sequence",
            "runs that fall, %",
            tuple(bars),
        ),
    )


def _films(lab: Lab, outcomes: Sequence[Outcome], count: int = 2) -> tuple[Film, ...]:
    """The longest soft sequences without a fall, beside their first skill alone."""
    if lab.records is None:
        return ()
    soft = [o for o in outcomes if o.chained.switch and o.done.stands]
    soft.sort(key=lambda o: (-len(set(o.chained.names)), abs(o.chained.switch - 10)))
    films = []
    for outcome in soft[:count]:
        run, names = outcome.chained.run, outcome.chained.names
        plain = chained(lab, names[:1], 0, len(run.skills)).run
        lab.execute([plain])
        paths = lab.record(run), lab.record(plain)
        if paths[0] and paths[1]:
            films.append(Film(", ".join(names), paths[0].name, paths[1].name))
    return tuple(films)


def _note(found: Mapping[str, Sequence[Outcome]], falls_alone: int) -> str:
    ours = found[""]
    by = dict(_by_switch(ours))
    parts = [
        "The paper reports no accelerations, only that its switches are smoother than "
        f"SONIC's ({_PAPER}). All streams of skills are open loop and all sequences "
        f"are run with every length of switch; {_falls(ours)} of {len(ours)} runs "
        f"fall, and {falls_alone} skills fall alone."
    ]
    if 0 in by and len(by) > 1:
        soft = [smoother(some, by[0]) for switch, some in by.items() if switch]
        count, n = (sum(values) for values in zip(*soft, strict=True))
        parts.append(f"A blended switch is smoother than a hard one in {count} of {n}.")
    return " ".join([*parts, *_told(found)])


def _told(found: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """What there is to say of other trackers."""
    for name, outcomes in found.items():
        if name:
            count, n = smoother(found[""], outcomes)
            yield (
                f"Of the {n} runs that ours and {name} both finish, ours is smoother "
                f"in {count}; {_falls(outcomes)} of {len(outcomes)} of {name} fall."
            )
    if EXPLICIT in found:
        yield (
            "The explicit tracker has no skills to chain: it follows the same motions "
            "as one reference, each moved and turned to where the one before ends, and "
            "unlike a stream of skills it sees how far the robot is off."
        )
    else:
        yield "No explicit tracker was compared."

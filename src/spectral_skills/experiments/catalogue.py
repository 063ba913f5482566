"""The catalogue: every direction in both signs on a base, and the paper's knobs.

A direction is tried at a fixed amplitude, 2, and at one matched to its predicted gain:
so large that every direction is predicted to change the motion as much as the first
spectral direction does at 2, but at most `MOST`; where that is more than `LESS`, also
at `LESS`. Knobs, which are solved by what robots do, are tried at 2 and at half of it:
of them the predicted gain says little. At the matched amplitude a sign works if the
robot stands and something noticeable has changed; the outcome of a direction is

    both signs   both work, and their effects are opposite
    one sign     one works, or both do the same
    falls        the robot falls in both signs
    weak         anything else
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.control.batch import Runner
from spectral_skills.experiments.effects import (
    Effect,
    Steered,
    attempt,
    beside,
    falls,
    groups,
    hold,
    predicted,
)
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.corpus import FPS
from spectral_skills.spectral.catalogue import (
    NOTICED,
    UNITS,
    Parts,
    best_served,
    served,
)
from spectral_skills.spectral.direction_file import BY_PREDICTION, Directions

NAME = "catalogue"
GRID = grid(NAME)
FILE = "catalogue_entries.json"
AMPLITUDE = 2.0
MOST = 12.0
"""Largest amplitude, nearly twice the length of a skill. Directions of little gain get
it: the controller hardly reacts to them, and most robots stand."""
LESS = 6.0
"""An amplitude within the data: skills are about 6 long."""
BOTH = "both signs"
OUTCOMES = (BOTH, "one sign", "falls", "weak")
SIGNS = {BOTH: 2, "one sign": 1, "weak": 0, "falls": 0}
"""Number of signs that work, by outcome."""
_LATE = 10
"""Rank after which directions are nearly degenerate in the paper."""
_TURN_S = 4.0
"""Time over which the paper reports its turn."""


@dataclass(frozen=True)
class DirectionEntry:
    """A direction on one base."""

    direction: str
    family: str
    gain: float
    base: str
    amplitude: float
    """Amplitude matched to the gain."""
    attempts: dict[float, Steered]

    def effect(self, amplitude: float) -> Effect | None:
        """Effect, or None where this robot or the unsteered one has fallen."""
        one = self.attempts[amplitude]
        return None if falls((one, one.plain)) else one.effect

    @property
    def signs(self) -> tuple[Effect | None, Effect | None]:
        """Effects of the matched amplitude and of its opposite."""
        return self.effect(self.amplitude), self.effect(-self.amplitude)

    @property
    def best(self) -> Effect | None:
        """The stronger of the two; None where both fall."""
        return max((e for e in self.signs if e), key=lambda e: e.strength, default=None)

    @property
    def outcome(self) -> str:
        return outcome(*self.signs)

    @property
    def safe(self) -> tuple[float, float]:
        """The largest amplitude on each side without a fall up to it."""
        reach = {-1: 0.0, 1: 0.0}
        for sign in reach:
            for amplitude in sorted(a * sign for a in self.attempts if a * sign > 0):
                if not self.attempts[amplitude * sign].stands:
                    break
                reach[sign] = amplitude * sign
        return reach[-1], reach[1]

    def limited(self, most: float) -> "DirectionEntry":
        """The same entry with a smaller limit of the matched amplitude."""
        return replace(self, amplitude=min(self.amplitude, most))

    def as_dict(self) -> dict:
        runs = []
        for amplitude, one in self.attempts.items():
            found = self.effect(amplitude)
            name = found.full_name if found else ""
            changes = found.changes | {"arm_rms": found.arm_rms} if found else None
            known = {"amplitude": amplitude, "fell": not one.stands}
            runs.append(known | {"name": name, "effects": changes})
        return {
            "direction": self.direction,
            "family": self.family,
            "base": self.base,
            "names": [e.full_name if e else "" for e in self.signs],
            "amplitude": self.amplitude,
            "outcome": self.outcome,
            "safe": list(self.safe),
            "runs": runs,
        }


def brief(entry: dict) -> dict:
    """An entry as a file of directions carries it: noticeable effects only."""
    effects = {}
    for one in entry["runs"]:
        changes = one["effects"]
        noticed = {
            k: round(v, 3)
            for k, v in (changes or {}).items()
            if abs(v) >= NOTICED.get(k, np.inf)
        }
        effects[f"{one['amplitude']:+g}"] = None if changes is None else noticed
    kept = ("direction", "base", "names", "outcome", "safe")
    return {key: entry[key] for key in kept} | {"effects": effects}


def outcome(plus: Effect | None, minus: Effect | None) -> str:
    """Outcome of a direction whose two signs have these effects; None is a fall."""
    works = [e for e in (plus, minus) if e is not None and e.strength >= 1.0]
    if len(works) == 2 and works[0].pattern @ works[1].pattern < 0:
        return BOTH
    if works:
        return "one sign"
    return "falls" if plus is None and minus is None else "weak"


def matched(directions: Directions, most: float = MOST) -> np.ndarray:
    """(k,) amplitudes of equal predicted gain, that of the first spectral at 2; of
    knobs 2."""
    aim = AMPLITUDE * directions.gains[directions.family("spectral")[0]]
    found = np.minimum(aim / directions.gains.astype(float).clip(1e-9), most).round(2)
    found[directions.family("robot")] = AMPLITUDE
    return found


def survey(
    runner: Runner, base_name: str, names: Sequence[str] = (), seed: int | None = None
) -> list[DirectionEntry]:
    directions, base = runner.directions, runner.base(base_name)
    chosen = [directions.index(one) for one in names or directions.names]
    aims, runs = matched(directions), {}
    for i in chosen:
        sizes = sorted({AMPLITUDE, min(aims[i], LESS), aims[i]})
        if directions.families[i] == "robot":
            sizes = [AMPLITUDE / 2, AMPLITUDE]
        for size, sign in product(sizes, (1, -1)):
            run = attempt(runner, base, directions.names[i], sign * size, seed)
            runs[i, float(sign * size)] = run
    done = beside(runner, base, runs, f"survey of {base_name}", seed)
    return [
        DirectionEntry(
            *(directions.names[i].split(" ")[0], directions.families[i]),
            *(float(directions.gains[i]), base_name, float(aims[i])),
            attempts={a: one for (k, a), one in done.items() if k == i},
        )
        for i in chosen
    ]


def choose(
    entries: Sequence[DirectionEntry], parts: Parts
) -> tuple[DirectionEntry, int] | None:
    """The entry and sign that serve a knob best at 2: of those that mainly change its
    measures, each of them by half of what people notice, the one that changes them
    most. None where there is none."""
    effects = {
        (i, sign): found.changes
        for i, entry in enumerate(entries)
        for sign in (1, -1)
        if (found := entry.effect(sign * AMPLITUDE)) is not None
        and served(found.changes, parts)[0] >= 0.5
    }
    best = best_served(effects, parts)
    return None if best is None else (entries[best[0]], best[1])


def catalogue(runner: Runner, seeds: tuple[int, ...] = (), **changes: Any) -> Findings:
    """Try all directions on the first base, on others those of parts and targets; or
    those of some names.

    Knobs are chosen on the first base. Seeds repeat the directions of parts and
    targets there.
    """
    run, report = grid(NAME, **changes), Draft(NAME, runner)
    base, *others = run.bases
    first = survey(runner, base, run.names)
    chosen = [one.direction for one in first if one.family != "spectral"]
    surveys = {base: first}
    for other in others:
        surveys[other] = survey(runner, other, run.names or chosen)
    if runner.records is not None:
        listed = [one.as_dict() for entries in surveys.values() for one in entries]
        write_file(runner.records.parent / FILE, json.dumps(listed, indent=1) + "\n")
    for most in (MOST, LESS):
        _add_outcomes(report, base, first, most)
    for one, entries in surveys.items():
        _add_falls(report, one, entries)
    for seed in seeds if chosen else ():
        _add_falls(report, base, survey(runner, base, chosen, seed), seed)
    unserved = _add_knobs(report, base, first)
    _add_charts(report, base, first)
    return report.findings(
        **{"most": MOST, "less": LESS, "amplitude": AMPLITUDE, "count": len(first)},
        capped=sum(one.amplitude >= MOST for one in first),
        unserved=f"; none does for {', '.join(unserved)}" if unserved else "",
    )


def _add_outcomes(
    report: Draft, base: str, entries: Sequence[DirectionEntry], most: float
) -> None:
    """How many spectral directions work, and what those of late rank do."""
    ours = [one.limited(most) for one in entries if one.family == "spectral"]
    counts, late = Counter(one.outcome for one in ours), ours[_LATE:]
    # Directions that fall or are weak have no effect to be grouped by.
    works = [e.pattern for one in ours if (e := one.best) and e.strength >= 1.0]
    kinds = len(set(groups(np.stack(works)).tolist())) if works else 0
    main = Counter(one.best.dominant for one in late if one.best)
    after = {
        "mainly turn": main["heading"],
        "mainly change speed": main["speed"],
        "falls": sum(one.outcome == "falls" for one in late),
    }
    for suffix, values, n in (
        ("", {kind: counts[kind] for kind in OUTCOMES}, len(ours)),
        ("", {"groups": kinds}, len(works)),
        (f", after rank {_LATE}", after, len(late)),
    ):
        # The paper's counts are of 64 directions.
        papers = paper(NAME, f"spectral on {base}{suffix}") if len(ours) == 64 else {}
        row = f"spectral on {base}, a up to {most:g}{suffix}"
        report.add(row, values, n, papers=papers)


def _add_falls(
    report: Draft, base: str, entries: Sequence[DirectionEntry], seed: int | None = None
) -> None:
    """Falls at the fixed amplitude, by family; the goal is none."""
    for kind, families in (
        ("parts and targets", ("part", "target")),
        ("knobs", ("robot",)),
        ("spectral", ("spectral",)),
    ):
        ones = [one for one in entries if one.family in families]
        runs = [one.attempts[s * AMPLITUDE] for one in ones for s in (1, -1)]
        if runs:
            row = f"{kind} on {base}" + ("" if seed is None else f", seed {seed}")
            metric = f"falls at a={AMPLITUDE:g}"
            report.add(row, {metric: falls(runs)}, len(runs), seed=seed)


def foretold(directions: Directions, parts: Parts, steps: slice) -> tuple[str, int]:
    """The spectral direction, and its sign, that is predicted to serve a knob best: by
    what it does for it, and by its share in all that it does."""
    known = predicted(directions, steps)

    def merit(i: int, sign: int) -> float:
        changes = {name: sign * float(rows[i]) for name, rows in known.items()}
        return math.prod(served(changes, parts))

    places = directions.family("spectral").tolist()
    _, i, sign = max((merit(*key), *key) for key in product(places, (1, -1)))
    return directions.names[i].split(" ")[0], sign


def _add_knobs(
    report: Draft, base_name: str, entries: Sequence[DirectionEntry]
) -> list[str]:
    """A row for each sign of each knob that a direction serves: of one that was solved
    for it where there is one, and beside it of the best by prediction alone and of the
    spectral direction that is predicted to serve it. Gives knobs that none serves."""
    runner, unserved = report.runner, []
    base, by_name = runner.base(base_name), {one.direction: one for one in entries}
    solved = [one for one in entries if one.family == "robot"]
    alone = [one for one in entries if one.direction.startswith(BY_PREDICTION)]
    for title, parts in GRID.knobs.items():
        kinds = {}
        if (best := choose(solved, parts) or choose(entries, parts)) is None:
            unserved.append(title)
        else:
            kinds[title] = best
        if best := choose(alone, parts):
            kinds[f"{title}, predicted"] = best
        name, sign = foretold(runner.directions, parts, hold(base))
        if name in by_name:
            kinds[f"{title}, spectral"] = by_name[name], sign
        for label, (entry, sign) in kinds.items():
            size = GRID.larger.get(title, AMPLITUDE)
            amplitudes = sign * size, -sign * size
            if size == AMPLITUDE:
                both = {a: entry.attempts[a] for a in amplitudes}
            else:
                plain = entry.attempts[AMPLITUDE].plain
                runs = [attempt(runner, base, entry.direction, a) for a in amplitudes]
                done = zip(amplitudes, runner.execute(runs, title), strict=True)
                both = {a: Steered(one, plain) for a, one in done}
            for amplitude, one in both.items():
                row = f"{label} by {entry.direction} on {base_name}, a={amplitude:+g}"
                if one.stands:
                    _add_knob(report, row, title, one)
                report.add(row, {"falls": not one.stands}, unit="runs")
            if label in GRID.filmed:
                one = both[sign * size]
                report.film(f"{label} on {base_name}", one.run, one.plain.run)
    return unserved


def _add_knob(report: Draft, row: str, title: str, one: Steered) -> None:
    parts, base = GRID.knobs[title], one.run.base
    value, unit, steps = one.effect.along(parts), UNITS[next(iter(parts))], hold(base)
    if unit == "deg":
        value *= _TURN_S * FPS / (steps.stop - steps.start - 1)
        unit = f"deg in {_TURN_S:g} s"
    # The paper's numbers are of the walk, and some of them of one sign only.
    known = paper(NAME, title)
    like = base.name == "walk" and (value > 0 or "±" in known["effect"])
    papers = known if like else {}
    report.add(row, {"effect": value}, unit=unit, papers=papers)
    report.add(row, {"heading": one.effect.changes["heading"]}, papers=papers)


def _add_charts(report: Draft, base: str, entries: Sequence[DirectionEntry]) -> None:
    """The paper's chart of all spectral directions, and the strongest effects."""
    spectral = [one for one in entries if one.family == "spectral"]
    bars, bests = [], []
    for kind in OUTCOMES:
        ranked = enumerate(spectral, 1)
        ours = {rank: one.gain for rank, one in ranked if one.outcome == kind}
        if ours:
            marks = ["fall"] * len(ours) if kind == "falls" else ()
            bars.append(Series.of(kind, ours, ours.values(), marks))
    for which, sign in enumerate("+-"):
        effects = [one.signs[which] for one in entries]
        strengths = [e.strength if e else 0.0 for e in effects]
        names = [e.full_name if e else "fall" for e in effects]
        places = range(1, len(entries) + 1)
        bests.append(Series.of(f"a {sign}", places, strengths, names))
    report.chart("outcomes", bars, base=base)
    report.chart("strongest", bests, base=base)

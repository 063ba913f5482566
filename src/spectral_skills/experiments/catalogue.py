"""The catalogue: every direction in both signs on a base, and the paper's knobs.

A direction is tried at a fixed amplitude, 2, and at one matched to its predicted gain:
so large that every direction is predicted to change the motion as much as the first
spectral direction does at 2, but at most `MOST`; where that is more than `LESS`, also
at `LESS`. At the matched amplitude a sign works if the robot stands and something
noticeable has changed; the outcome of a direction is

    both signs   both work, and their effects are opposite
    one sign     one works, or both do the same
    falls        the robot falls in both signs
    weak         anything else
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.experiments.effects import Effect, effect, groups, hold
from spectral_skills.experiments.findings import Draft, Findings, Series, grid, paper
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.spectral.catalogue import NOTICED, UNITS, Parts, best_served
from spectral_skills.spectral.direction_file import Directions

NAME = "catalogue"
FILE = "catalogue_entries.json"
AMPLITUDE = 2.0
MOST = 12.0
"""Largest amplitude, nearly twice the length of a skill. Directions of little gain get
it: the controller hardly reacts to them, and most robots stand."""
LESS = 6.0
"""An amplitude within the data: skills are about 7 long."""
OUTCOMES = ("both signs", "one sign", "falls", "weak")
_LATE = 10
"""Rank after which directions are nearly degenerate in the paper."""
_TURN_S = 4.0
"""Time over which the paper reports its turn."""
_FILMED = ("right arm raise", "arms out", "high steps", "turn")
PAPER_KNOBS: dict[str, Parts] = grid(NAME)["knobs"]
_LARGER = {"speed": 3.0}
"""Amplitudes of knobs that the paper does not report at 2."""


@dataclass(frozen=True)
class Attempt:
    """A direction at one amplitude."""

    amplitude: float
    executed: Executed
    effect: Effect | None
    """Effect, or None where this robot or the unsteered one has fallen."""


@dataclass(frozen=True)
class DirectionEntry:
    """A direction on one base."""

    direction: str
    family: str
    gain: float
    base: str
    amplitude: float
    """Amplitude matched to the gain."""
    attempts: tuple[Attempt, ...]

    def at(self, amplitude: float) -> Attempt:
        """The attempt at an amplitude."""
        return next(one for one in self.attempts if one.amplitude == amplitude)

    @property
    def signs(self) -> tuple[Effect | None, Effect | None]:
        """Effects of the matched amplitude and of its opposite."""
        return self.at(self.amplitude).effect, self.at(-self.amplitude).effect

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
            side = (one for one in self.attempts if one.amplitude * sign > 0)
            for one in sorted(side, key=lambda one: abs(one.amplitude)):
                if not one.executed.stands:
                    break
                reach[sign] = one.amplitude
        return reach[-1], reach[1]

    def limited(self, most: float) -> "DirectionEntry":
        """The same entry with a smaller limit of the matched amplitude."""
        return replace(self, amplitude=min(self.amplitude, most))

    def as_dict(self) -> dict:
        """Plain data for other tools."""
        runs = [
            {
                "amplitude": one.amplitude,
                "fell": not one.executed.stands,
                "name": one.effect.full_name if one.effect else "",
                "effects": one.effect.changes | {"arm_rms": one.effect.arm_rms}
                if one.effect
                else None,
            }
            for one in self.attempts
        ]
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
        return "both signs"
    if works:
        return "one sign"
    return "falls" if plus is None and minus is None else "weak"


def matched(directions: Directions, most: float = MOST) -> np.ndarray:
    """(k,) amplitudes of equal predicted gain, that of the first spectral at 2."""
    aim = AMPLITUDE * directions.gains[directions.family("spectral")[0]]
    return np.minimum(aim / directions.gains.astype(float).clip(1e-9), most).round(2)


def attempt(
    runner: Runner, base: Base, direction: str, amplitude: float, seed=None
) -> Run:
    """A base steered along a direction, named after both."""
    short = direction.split(" ")[0]
    change = runner.direction(short, amplitude)
    return runner.steered(base, change, f"{short} a={amplitude:+.4g}", seed=seed)


def survey(
    runner: Runner,
    base_name: str,
    names: Sequence[str] | None = None,
    seed: int | None = None,
) -> list[DirectionEntry]:
    """Try all directions, or those of some names, on a base."""
    directions, base = runner.directions, runner.base(base_name)
    chosen = [directions.index(one) for one in names or directions.names]
    aims = matched(directions)
    tries = [
        (i, sign * size)
        for i in chosen
        for size in sorted({AMPLITUDE, min(aims[i], LESS), aims[i]})
        for sign in (1, -1)
    ]
    runs = [runner.plain(base, seed)]
    runs += [attempt(runner, base, directions.names[i], a, seed) for i, a in tries]
    plain, *made = runner.execute(runs, f"survey of {base_name}")
    attempts: dict[int, list[Attempt]] = {i: [] for i in chosen}
    for (i, amplitude), one in zip(tries, made, strict=True):
        found = effect(one, plain) if one.stands and plain.stands else None
        attempts[i].append(Attempt(float(amplitude), one, found))
    return [
        DirectionEntry(
            *(directions.names[i].split(" ")[0], directions.families[i]),
            *(float(directions.gains[i]), base_name, float(aims[i]), tuple(ones)),
        )
        for i, ones in attempts.items()
    ]


def choose(
    entries: Sequence[DirectionEntry], parts: Parts
) -> tuple[DirectionEntry, int] | None:
    """The entry and sign that serve a knob best at 2: of those that mainly change its
    measures, the one that changes them most. None where there is none."""
    effects = {
        (i, sign): found.changes
        for i, entry in enumerate(entries)
        for sign in (1, -1)
        if (found := entry.at(sign * AMPLITUDE).effect) is not None
    }
    best = best_served(effects, parts)
    return None if best is None else (entries[best[0]], best[1])


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    bases: tuple[str, ...] = ("walk",),
    names: Sequence[str] | None = None,
) -> Findings:
    """Try all directions, or those of some names.

    Knobs are chosen on the first base. Seeds repeat the directions of parts and
    targets there.
    """
    surveys = {base: survey(runner, base, names) for base in bases}
    if runner.records is not None:
        listed = [one.as_dict() for entries in surveys.values() for one in entries]
        path = runner.records.parent / FILE
        write_file(path, json.dumps(listed, indent=1) + "\n")
    report = Draft.begin(NAME, runner)
    first = surveys[bases[0]]
    for base, entries in surveys.items():
        for most in (MOST, LESS):
            _add_outcomes(report, base, entries, most)
    for base, entries in surveys.items():
        _add_falls(report, base, entries)
    chosen = [one.direction for one in first if one.family != "spectral"]
    for seed in seeds if chosen else ():
        again = survey(runner, bases[0], chosen, seed)
        _add_falls(report, bases[0], again, seed)
    unserved = _add_knobs(report, bases[0], first)
    _add_charts(report, bases[0], first)
    capped = sum(one.amplitude >= MOST for one in first)
    return report.findings(
        **{"most": MOST, "less": LESS, "amplitude": AMPLITUDE},
        capped=capped,
        count=len(first),
        unserved=f"; none does for {', '.join(unserved)}" if unserved else "",
    )


def _add_outcomes(
    report: Draft, base: str, entries: Sequence[DirectionEntry], most: float
) -> None:
    """How many spectral directions work, and what those of late rank do."""
    ours = [one.limited(most) for one in entries if one.family == "spectral"]
    late = ours[_LATE:]
    counts = Counter(one.outcome for one in ours)
    # Directions that fall or are weak have no effect to be grouped by.
    works = [e.pattern for one in ours if (e := one.best) and e.strength >= 1.0]
    kinds = len(set(groups(np.stack(works)).tolist())) if works else 0
    main = Counter(one.best.dominant for one in late if one.best)
    fallen = sum(one.outcome == "falls" for one in late)
    after = f", after rank {_LATE}"
    for suffix, metric, value, n in (
        *(("", kind, counts[kind], len(ours)) for kind in OUTCOMES),
        ("", "groups", kinds, len(works)),
        (after, "mainly turn", main["heading"], len(late)),
        (after, "mainly change speed", main["speed"], len(late)),
        (after, "falls", fallen, len(late)),
    ):
        # The paper's counts are of 64 directions.
        known = paper(NAME, f"spectral on {base}{suffix}", metric)
        row = f"spectral on {base}, a up to {most:g}{suffix}"
        printed = known if len(ours) == 64 else ""
        report.add(row, metric, value, "directions", n, paper_value=printed)


def _add_falls(
    report: Draft, base: str, entries: Sequence[DirectionEntry], seed: int | None = None
) -> None:
    """Falls at the fixed amplitude, by family; the goal is none."""
    for kind, spectral in (("parts and targets", False), ("spectral", True)):
        ones = [one for one in entries if (one.family == "spectral") == spectral]
        runs = [one.at(s * AMPLITUDE).executed for one in ones for s in (1, -1)]
        if runs:
            row = f"{kind} on {base}" + ("" if seed is None else f", seed {seed}")
            down = sum(not run.stands for run in runs)
            report.add(row, f"falls at a={AMPLITUDE:g}", down, "runs", len(runs), seed)


def _add_knobs(
    report: Draft, base_name: str, entries: Sequence[DirectionEntry]
) -> list[str]:
    """A row for each sign of each knob that a direction serves; gives the others."""
    runner, unserved = report.runner, []
    base = runner.base(base_name)
    (plain,) = runner.execute([runner.plain(base)], base_name)
    for title, parts in PAPER_KNOBS.items():
        size = _LARGER.get(title, AMPLITUDE)
        if (served := choose(entries, parts)) is None:
            unserved.append(title)
            continue
        entry, sign = served
        amplitudes = [side * sign * size for side in (1, -1)]
        if size == AMPLITUDE:
            both = [entry.at(a).executed for a in amplitudes]
        else:
            runs = [attempt(runner, base, entry.direction, a) for a in amplitudes]
            both = runner.execute(runs, title)
        for amplitude, one in zip(amplitudes, both, strict=True):
            row = f"{title} by {entry.direction} on {base_name}, a={amplitude:+g}"
            if one.stands:
                _add_knob(report, row, title, one, plain)
            report.add(row, "falls", not one.stands, "runs", paper_value="")
        if title in _FILMED:
            report.film(f"{title} on {base_name}", both[0].run, plain.run)
    return unserved


def _add_knob(
    report: Draft, row: str, title: str, one: Executed, plain: Executed
) -> None:
    parts = PAPER_KNOBS[title]
    found, steps = effect(one, plain), hold(plain.run.base)
    value, unit = found.along(parts), UNITS[next(iter(parts))]
    if unit == "deg":
        value *= _TURN_S * FPS / (steps.stop - steps.start - 1)
        unit = f"deg in {_TURN_S:g} s"
    # The paper's numbers are of the walk, and some of them of one sign only.
    signed = value > 0 or "±" in paper(NAME, title, "effect")
    like = plain.run.base.name == "walk" and signed
    for metric, number, units in (
        ("effect", value, unit),
        ("heading", found.changes["heading"], "deg"),
    ):
        printed = paper(NAME, title, metric) if like else ""
        report.add(row, metric, number, units, paper_value=printed)


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

"""The catalogue: what every direction of a file does, and the paper's table of knobs.

What is tried, and when a direction works, is told in `survey`.
"""

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.experiments.composition.knob_table import KNOBS, knob_table
from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.composition.survey import (
    AMPLITUDE,
    LESS,
    MOST,
    Entry,
    dominant,
    name,
    pattern,
    strength,
    survey,
)
from spectral_skills.experiments.effects import groups
from spectral_skills.experiments.findings import (
    Chart,
    Findings,
    Series,
)
from spectral_skills.results import Result

FILE = "catalogue_entries.json"
_PAPER = {"both signs": "30", "one sign": "26", "falls": "", "weak": ""}
"""Outcomes, and how many of 64 the paper has."""
_LATE = 10
"""Ranks after this are nearly degenerate in the paper."""


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (),
    *,
    bases: tuple[str, ...] = ("walk",),
    names: Sequence[str] | None = None,
) -> Findings:
    """Try all directions, or those of some names, and say what they do.

    Knobs are chosen on the first base. Seeds repeat the directions of parts and
    targets there.
    """
    surveys = {base: survey(lab, base, names) for base in bases}
    if lab.records is not None:
        listed = entries([one for found in surveys.values() for one in found])
        write_file(lab.records.parent / FILE, json.dumps(listed, indent=1) + "\n")
    first = surveys[bases[0]]
    rows, films = knob_table(lab, "catalogue", bases[0], first)
    results = [
        cell
        for base in bases
        for most in (MOST, LESS)
        for cell in _outcomes(lab, base, surveys[base], most)
    ]
    results += [cell for base in bases for cell in _falls(lab, base, surveys[base])]
    chosen = [one.direction for one in first if one.family != "spectral"]
    for seed in seeds if chosen else ():
        again = survey(lab, bases[0], chosen, seed)
        results += _falls(lab, bases[0], again, seed)
    capped = sum(one.amplitude >= MOST for one in first)
    served = {row.row.split(" by ")[0] for row in rows}
    idle = ", ".join(knob for knob in KNOBS if knob not in served)
    return Findings(
        "catalogue",
        "Every direction in both signs",
        (*results, *rows),
        _charts(bases[0], first),
        tuple(films),
        f"Amplitudes are matched to the predicted gain up to {MOST:g}: {capped} of "
        f"{len(first)} directions would need more, and are tried there. Outcomes hang "
        f"on that limit, so they are also counted with {LESS:g}; the paper tells "
        "neither its limit nor when an effect is weak. Here it is weak if one would "
        "not notice it. A knob is the direction of the file that mainly changes its "
        f"attribute, and changes it most at {AMPLITUDE:g}"
        + (f"; none does for {idle}." if idle else "."),
    )


def entries(found: Sequence[Entry]) -> list[dict]:
    """The catalogue as plain data, for other tools."""
    return [one.plain() for one in found]


def _outcomes(lab: Lab, base: str, found: list[Entry], most: float) -> list[Result]:
    """How many spectral directions work, and what those of late rank do."""
    ours = [one.limited(most) for one in found if one.family == "spectral"]
    like = base == "walk" and len(ours) == 64

    def cell(row: str, metric: str, value: int, n: int, paper: str) -> Result:
        told = paper if like else ""
        return lab.cell("catalogue", row, metric, value, "directions", n, told)

    row, counts = (
        f"spectral on {base}, a up to {most:g}",
        Counter(one.outcome for one in ours),
    )
    cells = [cell(row, o, counts[o], len(ours), paper) for o, paper in _PAPER.items()]
    # What falls or is weak has no best effect, or none to be grouped by.
    works = [pattern(e) for one in ours if (e := one.best) and strength(e) >= 1.0]
    kinds = len(set(groups(np.stack(works)).tolist())) if works else 0
    cells.append(cell(row, "groups", kinds, len(works), "22"))
    late = ours[_LATE:]
    row = f"spectral on {base}, a up to {most:g}, after rank {_LATE}"
    main = Counter(dominant(one.best) for one in late if one.best)
    fallen = sum(one.outcome == "falls" for one in late)
    return [
        *cells,
        cell(row, "mainly turn", main["heading"], len(late), "36"),
        cell(row, "mainly change speed", main["speed"], len(late), "7"),
        cell(row, "falls", fallen, len(late), "6"),
    ]


def _falls(
    lab: Lab, base: str, found: list[Entry], seed: int | None = None
) -> list[Result]:
    """Falls at 2, by family; the goal is none."""
    cells, told = [], "" if seed is None else f", seed {seed}"
    for row, spectral in (("parts and targets", False), ("spectral", True)):
        ones = [one for one in found if (one.family == "spectral") == spectral]
        runs = [one.at(s * AMPLITUDE).executed for one in ones for s in (1, -1)]
        if runs:
            down = sum(not run.stands for run in runs)
            row, metric = f"{row} on {base}{told}", f"falls at a={AMPLITUDE:g}"
            paper = "" if spectral or base != "walk" else "0 of 66"
            more = {"n": len(runs), "paper": paper, "seed": seed or 0}
            cells.append(lab.cell("catalogue", row, metric, down, "runs", **more))
    return cells


def _charts(base: str, found: list[Entry]) -> tuple[Chart, ...]:
    """The paper's chart of all spectral directions, and the strongest effects."""
    spectral = [one for one in found if one.family == "spectral"]
    bars = []
    for outcome in _PAPER:
        ranked = [(i + 1, one) for i, one in enumerate(spectral)]
        ours = [(rank, one.gain) for rank, one in ranked if one.outcome == outcome]
        if ours:
            ranks, gains = zip(*ours, strict=True)
            marks = ("fall",) * len(ranks) if outcome == "falls" else ()
            bars.append(Series(outcome, ranks, gains, marks))
    return (
        Chart(
            f"Spectral directions on {base}, both signs",
            "bar",
            "rank",
            "predicted gain",
            tuple(bars),
            "Colour: what became of the robot. Marked: it falls in both signs.",
        ),
        Chart(
            f"Strongest effect of each direction on {base}",
            "bar",
            "place in the file",
            "largest change, in smallest changes that one notices",
            (_strongest("+", found, 0), _strongest("-", found, 1)),
            "At the amplitude matched to the predicted gain; less than 1 is weak.",
        ),
    )


def _strongest(sign: str, found: list[Entry], which: int) -> Series:
    """What the directions do most in one sign, with its name."""
    effects = [one.signs[which] for one in found]
    return Series(
        f"a {sign}",
        tuple(range(1, len(found) + 1)),
        tuple(strength(e) if e else 0.0 for e in effects),
        tuple(name(e) if e else "fall" for e in effects),
    )

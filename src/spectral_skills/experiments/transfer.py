"""Does a direction work on other bases, and does a steered walk bear a push?

What counts as working is the catalogue's rule (`survey.outcome`).
"""

from collections.abc import Sequence

from spectral_skills.experiments.composition import pushes
from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.composition.survey import attempt, outcome
from spectral_skills.experiments.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.motion.synthetic.bases import BASES
from spectral_skills.results import Result

NAME = "transfer"
AMPLITUDE = 2.0
ARMS = (
    *("left_arm_1", "left_arm_2", "right_arm_1", "right_arm_2"),
    *("left_arm", "right_arm", "spread"),
)
DIRECTIONS = (
    *ARMS,
    *("left_leg_1", "right_leg_1", "speed", "turn", "stance_height", "foot_clearance"),
    *("s01", "s02", "s03", "s04", "s05", "s06"),
)
"""19, as in the paper: limbs, targets, and the first of the spectrum."""
BOTH = "both signs"
_SIGNS = {BOTH: 2, "one sign": 1, "weak": 0, "falls": 0}
OUTCOMES = tuple(_SIGNS)
PAPER = {("walk", BOTH): "13", ("squat", BOTH): "7", ("carry", BOTH): "14"}


def experiment(
    lab: Lab,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    *,
    bases: Sequence[str] = BASES,
    directions: Sequence[str] = DIRECTIONS,
    steps: int = 400,
) -> Findings:
    """Every direction on every base without chance; pushes once a seed."""
    results: list[Result] = []
    films: list[Film] = []
    found: dict[str, dict[str, str]] = {}
    for name in bases:
        base = lab.base(name, steps)
        runs = [lab.plain(base)]
        for direction in directions:
            for amplitude in (AMPLITUDE, -AMPLITUDE):
                runs.append(attempt(lab, base, direction, amplitude))
        plain, *steered = lab.execute(runs, f"{NAME}, {name}")
        signs = [lab.effect(one, plain) if one.stands else None for one in steered]
        found[name] = {
            direction: outcome(*signs[2 * i : 2 * i + 2])
            for i, direction in enumerate(directions)
        }
        fallen = signs.count(None)
        results += _counts(lab, name, found[name], fallen)
        if (run := lab.record(runs[1])) and (other := lab.record(plain.run)):
            films.append(Film(f"{runs[1].name} on the {name}", run.name, other.name))
    everywhere = [d for d in directions if all(found[b][d] == BOTH for b in bases)]
    results += _everywhere(lab, directions, everywhere)
    results += [
        lab.cell(NAME, direction, f"signs that work on {name}", _SIGNS[one[direction]])
        for direction in directions
        for name, one in found.items()
    ]
    pushed = pushes.walk(lab, NAME, seeds)
    return Findings(
        *(NAME, "On other bases, and under pushes", (*results, *pushed.results)),
        charts=(_counted(found), _each(found), *pushed.charts),
        films=(*films[:3], *pushed.films),
        note=_note(everywhere, directions),
    )


def _counts(lab: Lab, base: str, outcomes: dict[str, str], fallen: int) -> list[Result]:
    """How many directions came out how."""
    n, told = len(outcomes), list(outcomes.values())
    cells = [
        lab.cell(
            NAME,
            base,
            one,
            told.count(one),
            "directions",
            n,
            PAPER.get((base, one), ""),
        )
        for one in OUTCOMES
    ]
    return [*cells, lab.cell(NAME, base, "runs that fell", fallen, "", 2 * n)]


def _everywhere(
    lab: Lab, directions: Sequence[str], everywhere: Sequence[str]
) -> list[Result]:
    arms = [name for name in directions if name in ARMS]
    working = [name for name in everywhere if name in ARMS]
    row, metric = "all bases", "both signs"
    return [
        lab.cell(NAME, row, metric, len(everywhere), "directions", len(directions)),
        lab.cell(
            *(NAME, row, f"{metric}, arms", len(working), "directions", len(arms)), "5"
        ),
    ]


def _counted(found: dict[str, dict[str, str]]) -> Chart:
    """Outcomes by base, beside the paper's."""
    at, names = tuple(float(i) for i in range(len(found))), tuple(found)
    series = [
        Series(
            one,
            at,
            tuple(float([*found[name].values()].count(one)) for name in names),
            names,
        )
        for one in OUTCOMES
    ]
    known = [(i, name) for i, name in enumerate(names) if (name, BOTH) in PAPER]
    series.append(
        Series(
            "both signs, paper",
            tuple(float(i) for i, _ in known),
            tuple(float(PAPER[name, BOTH]) for _, name in known),
            tuple(name for _, name in known),
        )
    )
    return Chart("Directions that work", "bar", "", "directions", tuple(series))


def _each(found: dict[str, dict[str, str]]) -> Chart:
    """Signs that work, by direction and base."""
    series = tuple(
        Series(
            name,
            tuple(float(i) for i in range(len(one))),
            tuple(float(_SIGNS[value]) for value in one.values()),
            tuple(one),
        )
        for name, one in found.items()
    )
    return Chart("What works where", "bar", "", "signs that work", series)


def _note(everywhere: Sequence[str], directions: Sequence[str]) -> str:
    listed = ", ".join(everywhere) or "none"
    return (
        f"Of {len(directions)} directions these work in both signs on all bases: "
        f"{listed}. A sign works if the robot stands and something that one notices "
        "changes; both do if their effects are opposed. The paper gives no "
        f"numbers for its rule and does not list its directions. {pushes.NOTE}"
    )

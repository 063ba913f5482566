"""Two instructions at once that no clip holds: one is planned, the other is added.

The first sentence is planned; the second one picks a direction and an amplitude from
the catalogue of what directions did to a robot, and is added to the planned skills. The
pairs are those that the embedded corpus leaves out on purpose, as far as the second can
be said in words and held; what counts is told in `composition/unseen.py`.
"""

from dataclasses import dataclass

import numpy as np

from spectral_skills.control.run import SteeredSource, Tracker
from spectral_skills.control.schedules import (
    MARGIN_STEPS,
    Knob,
    full_amplitude,
    schedule,
)
from spectral_skills.experiments import unseen
from spectral_skills.experiments.findings import Findings
from spectral_skills.experiments.planning import Table, sentences
from spectral_skills.experiments.stage import Stage, fell
from spectral_skills.experiments.unseen import PairVerdict
from spectral_skills.models import Models
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.planner.model import Planner
from spectral_skills.planner.routes import PlannedSource
from spectral_skills.planner.text import TextEncoder
from spectral_skills.planner.understand import base_of, choose_knob
from spectral_skills.results import Result
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions

STEPS = 400
EPISODES = 3
SAID = {
    "raise": "raise the right arm",
    "spread": "spread the arms",
    "reach": "reach forward with the right hand",
    "reach_up": "reach up with the right hand",
    "turn": "turn left",
    "arc": "turn right",
    "high": "higher steps",
    "crouch": "crouch lower",
}
"""The second sentence of each factor that can be held; others go up and down."""


@dataclass(frozen=True)
class Pair:
    """A planned motion, and what is added to it."""

    factors: tuple[str, str]
    motion: str
    """Name of the clip."""
    choice: Choice | None
    """None where the catalogue has nothing to offer."""


def experiment(
    stage: Stage,
    encoder: TextEncoder,
    actor: Models,
    planner: Planner,
    directions: Directions,
    every: int = 30,
    run: str = "",
) -> Findings:
    """Try every pair, some episodes each, beside the same motion without the second."""
    assert actor.encoder is not None
    directions.check(actor.encoder.fingerprint())
    pairs = found_pairs(stage, encoder, directions)
    names = [pair.motion for pair in pairs]
    # Once with what is added, once without.
    place = stage.of([*names, *names], EPISODES, STEPS)
    tracker, text = (
        Tracker(actor.controller),
        place.text(encoder, sentences(planner, place)),
    )
    source = SteeredSource(
        PlannedSource(planner, tracker, text, every, actor.encoder, seed=stage.seed),
        directions.vectors,
        _amplitudes(pairs, directions),
    )
    rows = place.execute(tracker, source, "pairs").robot
    down = fell(rows).cpu().numpy().reshape(2, len(pairs), EPISODES)
    apart = rows.cpu().numpy().reshape(STEPS + 1, 2, len(pairs), EPISODES, -1)
    table = Table("pairs", place, encoder, run)
    results = []
    for i, pair in enumerate(pairs):
        steered, plain = apart[:, 0, i], apart[:, 1, i]
        results += _cells(table, pair, steered, plain, bool(down[0, i].any()))
    met = [r.value for r in results if r.metric == "success"]
    falls = float(down[0].any(axis=1).sum())
    row, n = "all pairs", len(pairs)
    results.insert(0, table.cell(row, "falls", falls, "pairs", n, "0"))
    results.insert(0, table.cell(row, "met", 100 * float(np.mean(met)), "%", n))
    return Findings(
        "pairs",
        "Two instructions at once",
        tuple(results),
        note="The second sentence is added to the plan of the first. No clip has both.",
    )


def found_pairs(
    stage: Stage, encoder: TextEncoder, directions: Directions
) -> list[Pair]:
    """Pairs whose first factor is planned and whose second can be said."""
    found = []
    for base, added in unseen.PAIRS:
        motion = _motion(stage, base)
        if motion is not None and added in SAID:
            like = base_of(stage.clips.sentences()[stage.names.index(motion)][0])
            choice = choose_knob(SAID[added], directions, encoder, like)
            found.append(Pair((base, added), motion, choice))
    if not found:
        raise ValueError("no pair has a base among the motions that were learned")
    return found


def _motion(stage: Stage, factor: str) -> str | None:
    """The motion that shows a factor, alone or while walking forward."""
    for wanted in ({factor}, {"forward", factor}):
        for name in stage.names:
            if factors_of(name) == wanted:
                return name
    return None


def _amplitudes(pairs: list[Pair], directions: Directions) -> np.ndarray:
    """(T, n, k) of every robot; those of the second half are left alone."""
    found = np.zeros((STEPS, 2, len(pairs), EPISODES, len(directions)))
    for i, pair in enumerate(pairs):
        if pair.choice is not None:
            turned = Knob(pair.choice.direction, pair.choice.amplitude, MARGIN_STEPS)
            found[:, 0, i] = schedule([turned], STEPS, directions.names)[:, None]
    return found.reshape(STEPS, -1, len(directions))


def _cells(
    table: Table, pair: Pair, steered: np.ndarray, plain: np.ndarray, fallen: bool
) -> list[Result]:
    """Of one pair; runs are (T, episodes, 36)."""
    row = f"{pair.factors[0]}: {SAID[pair.factors[1]]}"
    judged = PairVerdict(0.0, False, False)
    if not fallen and np.isfinite(steered).all():
        judged = unseen.judge(pair.factors, _means(steered), _means(plain))
    amplitude = 0.0 if pair.choice is None else pair.choice.amplitude
    return [
        table.cell(row, "success", float(judged.success), "", EPISODES),
        table.cell(row, "share of the least change", judged.share, "", EPISODES),
        table.cell(row, "base goes on", float(judged.goes_on), "", EPISODES),
        table.cell(row, "amplitude", amplitude, "", EPISODES),
    ]


def _means(runs: np.ndarray) -> dict[str, float]:
    """Means over episodes of what runs (T, episodes, 36) measure."""
    steps = full_amplitude(STEPS)
    each = [unseen.measure(runs[steps, i]) for i in range(runs.shape[1])]
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}

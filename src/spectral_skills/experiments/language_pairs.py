"""Two instructions at once.

The first sentence is planned; the second one chooses a direction and an amplitude from
the catalogue, which are added to the planned skills. The pairs are those that the
embedded corpus omits on purpose, as far as the second can be said in words and held;
`unseen.py` says what counts as success.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.run import SteeredSource
from spectral_skills.control.steering import (
    MARGIN_STEPS,
    Knob,
    full_amplitude,
    schedule,
)
from spectral_skills.experiments import unseen
from spectral_skills.experiments.findings import Findings, grid
from spectral_skills.experiments.stage import ScoreTable, Stage, fell, sentences
from spectral_skills.experiments.unseen import PairVerdict
from spectral_skills.models import Models
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.understand import base_of, choose_knob
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions

PAIR_STEPS, PAIR_EPISODES = 400, 3
SAID: dict[str, str] = grid("pairs").said
"""Second sentence of each factor that can be held; the others go up and down."""


@dataclass(frozen=True)
class SpokenPair:
    """A planned motion, and the knob that is added to it."""

    factors: tuple[str, str]
    motion: str
    """Name of the clip."""
    choice: Choice | None
    """Knob from the catalogue; None where it has nothing to offer."""


def pairs(stage: Stage, models: Models, every: int = CHUNK) -> Findings:
    """Run some episodes of every pair, and of its base without the second sentence."""
    directions = models.known_directions
    directions.check(models.skill_encoder.fingerprint())
    found = spoken_pairs(stage, directions)
    names, count = [pair.motion for pair in found], len(found)
    # The first half of the robots is steered, the second half is not.
    place = stage.of([*names, *names], PAIR_EPISODES, PAIR_STEPS)
    text = place.text(sentences(models, place))
    tracker, source = place.source(models, text, every)
    steered = SteeredSource(source, directions.vectors, amplitudes(found, directions))
    rows = place.execute(tracker, steered, "pairs").robot
    down = fell(rows).cpu().numpy().reshape(2, count, PAIR_EPISODES)[0].any(axis=1)
    runs = rows.cpu().numpy().reshape(PAIR_STEPS + 1, 2, count, PAIR_EPISODES, -1)
    judged = [
        judge_pair(pair, runs[:, 0, i], runs[:, 1, i], bool(down[i]))
        for i, pair in enumerate(found)
    ]
    report = ScoreTable("pairs", place, models)
    share = 100 * float(np.mean([float(one.success) for one in judged]))
    report.add("all pairs", {"met": share}, count)
    report.add("all pairs", {"falls": down.sum()}, count)
    for pair, one in zip(found, judged, strict=True):
        values = {
            "success": one.success,
            "share of the least change": one.share,
            "base goes on": one.goes_on,
            "amplitude": 0.0 if pair.choice is None else pair.choice.amplitude,
        }
        row = f"{pair.factors[0]}: {SAID[pair.factors[1]]}"
        report.add(row, values, PAIR_EPISODES)
    return report.findings()


def spoken_pairs(stage: Stage, directions: Directions) -> list[SpokenPair]:
    """Pairs whose first factor is planned and whose second can be said."""
    found = []
    for base, added in unseen.PAIRS:
        # The motion that shows a factor alone, or else while walking forward.
        shown = [
            name
            for wanted in ({base}, {"forward", base})
            for name in stage.names
            if factors_of(name) == wanted
        ]
        if shown and added in SAID:
            motion = shown[0]
            like = base_of(stage.clips.sentences[stage.names.index(motion)][0])
            choice = choose_knob(SAID[added], directions, stage.words, like)
            found.append(SpokenPair((base, added), motion, choice))
    if not found:
        raise ValueError("no pair has a base among the motions that were learned")
    return found


def amplitudes(found: Sequence[SpokenPair], directions: Directions) -> np.ndarray:
    """(T, n, k) amplitudes of every robot; the second half is not steered."""
    values = np.zeros((PAIR_STEPS, 2, len(found), PAIR_EPISODES, len(directions)))
    for i, pair in enumerate(found):
        if pair.choice is not None:
            knob = Knob(pair.choice.direction, pair.choice.amplitude, MARGIN_STEPS)
            values[:, 0, i] = schedule([knob], PAIR_STEPS, directions.names)[:, None]
    return values.reshape(PAIR_STEPS, -1, len(directions))


def judge_pair(
    pair: SpokenPair, steered: np.ndarray, plain: np.ndarray, fallen: bool
) -> PairVerdict:
    """Judge the means over episodes of runs (T, episodes, 36)."""
    if fallen or not np.isfinite(steered).all():
        return PairVerdict(0.0, False, False)

    def means(runs: np.ndarray) -> dict[str, float]:
        steps = full_amplitude(PAIR_STEPS)
        each = [unseen.measure(runs[steps, i]) for i in range(runs.shape[1])]
        return {name: float(np.mean([one[name] for one in each])) for name in each[0]}

    return unseen.judge(pair.factors, means(steered), means(plain))

"""Beyond the paper: words that a planner never learned, that change, or that add up.

Whether a robot obeys is read from its motion: the executed motion is encoded, and the
robot does the motion that most of its skills are nearest to.

For two instructions at once, the first sentence is planned; the second one chooses a
direction and an amplitude from the catalogue, which are added to the planned skills.
The pairs are those that the embedded corpus omits on purpose, as far as the second can
be said in words and held; `experiments/unseen.py` says what counts as success.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.run import SteeredSource, encode_clip
from spectral_skills.control.schedules import (
    MARGIN_STEPS,
    Knob,
    full_amplitude,
    schedule,
)
from spectral_skills.experiments import planning, unseen
from spectral_skills.experiments.findings import Findings, grid
from spectral_skills.experiments.planning import ScoreTable, Stage, fell, sentences
from spectral_skills.experiments.unseen import PairVerdict
from spectral_skills.models import Models
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.planner.model import check_text
from spectral_skills.planner.text import TextStates, text_encoder
from spectral_skills.planner.understand import base_of, choose_knob
from spectral_skills.skill.encoder import encode_rows
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions

EVERY = 30
"""Number of steps between plans."""
PERIOD, SETTLED = 200, 60
"""Steps for which an instruction lasts, and after which a robot should follow it."""
PAIR_STEPS, PAIR_EPISODES = 400, 3
SAID: dict[str, str] = grid("pairs")["said"]
"""Second sentence of each factor that can be held; the others go up and down."""


class Recogniser:
    """Names the motions that robots do, by the nearest skills of known motions."""

    def __init__(self, models: Models, stage: Stage):
        self.encoder = models.skill_encoder
        clips = [torch.tensor(stage.clips.qpos(i)) for i in range(len(stage.names))]
        self.skills = torch.cat([encode_clip(self.encoder, clip) for clip in clips])
        self.motion = torch.repeat_interleave(
            torch.arange(len(clips)), torch.tensor([len(clip) for clip in clips])
        ).to(stage.device)
        self.count = len(clips)

    def __call__(self, rows: Tensor, every: int = 5) -> Tensor:
        """(n,) motion that most of the skills of rows (T, n, 36) are nearest to."""
        votes = torch.zeros((rows.shape[1], self.count), device=rows.device)
        for robot in range(rows.shape[1]):
            skills = encode_rows(self.encoder, rows[:, robot])[::every]
            near = self.motion[torch.cdist(skills, self.skills).argmin(dim=1)]
            votes[robot] = torch.bincount(near, minlength=self.count).float()
        return votes.argmax(dim=1)


def evaluate(
    table: str,
    models: Models,
    corpus: Corpus,
    device: str,
    episodes: int = planning.EPISODES,
    steps: int = planning.STEPS,
    seed: int = 0,
    **options: Any,
) -> Findings:
    """Measure one of the tables of planners: this module's two or the paper's two."""
    words = text_encoder()
    check_text(models.skill_planner, words)
    stage = Stage(corpus, words, device, episodes, steps, seed)
    tables = {"language": language, "pairs": pairs}
    return (tables.get(table) or getattr(planning, table))(stage, models, **options)


def language(stage: Stage, models: Models, every: int = EVERY) -> Findings:
    """Success with learned words, with other words, and with words that change."""
    if stage.steps < 2 * PERIOD:
        raise ValueError(
            f"{stage.steps} steps are too few for words to change; take at least "
            f"{2 * PERIOD}"
        )
    table = ScoreTable("language", stage, models)
    for row, held_out in (("learned sentences", False), ("other words", True)):
        text = stage.text(sentences(models, stage, held_out))
        table.add(row, stage.planned(models, text, every))
    learned, others = (scores.success for scores in table.rows.values())
    lost = 100 * float(learned.mean() - others.mean())
    table.report.add("other words", "points lost", lost, "points", len(others))
    add_changes(table, models, every)
    table.by_motion(list(table.rows))
    return table.report.findings()


def add_changes(table: ScoreTable, models: Models, every: int) -> None:
    """Add falls, and the share of robots that obey, when words change."""
    stage = table.stage
    asked, texts = instructions(stage, sentences(models, stage))
    first = texts.pop(0)
    rows = stage.execute(*stage.source(models, first, every, later=texts)).robot
    recognise = Recogniser(models, stage)
    right, total = 0, 0
    for number, motion in enumerate(asked):
        begin, end = number * PERIOD, (number + 1) * PERIOD
        stands = ~fell(rows[:end])
        done = recognise(rows[begin + SETTLED : end, stands])
        right += int((done == motion[stands]).sum())
        total += int(stands.sum())
    n, row = (len(asked) - 1) * len(stage.motion), "instructions that change"
    table.report.add(row, "changes", n, n=n)
    table.report.add(row, "falls", fell(rows).sum(), n=n)
    table.report.add(row, "done as told", right / max(1, total), n=total)


def instructions(
    stage: Stage, said: Sequence[tuple[str, ...]]
) -> tuple[list[Tensor], dict[int, TextStates]]:
    """Motions (n,) of each period, and the sentences by its first step.

    Robots begin with their own motion; after it comes any.
    """
    random = np.random.default_rng(stage.seed)
    own = stage.motion.cpu().numpy()
    asked, texts = [], {}
    for number in range(stage.steps // PERIOD):
        motion = own if number == 0 else random.integers(len(said), size=len(own))
        words = [said[m][int(random.integers(len(said[m])))] for m in motion]
        asked.append(torch.from_numpy(motion).to(stage.device))
        texts[number * PERIOD] = stage.words.encode(words).to(stage.device)
    return asked, texts


@dataclass(frozen=True)
class SpokenPair:
    """A planned motion, and the knob that is added to it."""

    factors: tuple[str, str]
    motion: str
    """Name of the clip."""
    choice: Choice | None
    """Knob from the catalogue; None where it has nothing to offer."""


def pairs(stage: Stage, models: Models, every: int = EVERY) -> Findings:
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
    report = ScoreTable("pairs", place, models).report
    share = 100 * float(np.mean([float(one.success) for one in judged]))
    report.add("all pairs", "met", share, "%", count)
    report.add("all pairs", "falls", down.sum(), "pairs", count)
    for pair, one in zip(found, judged, strict=True):
        for metric, value in (
            ("success", one.success),
            ("share of the least change", one.share),
            ("base goes on", one.goes_on),
            ("amplitude", 0.0 if pair.choice is None else pair.choice.amplitude),
        ):
            row = f"{pair.factors[0]}: {SAID[pair.factors[1]]}"
            report.add(row, metric, value, n=PAIR_EPISODES)
    return report.findings()


def spoken_pairs(stage: Stage, directions: Directions) -> list[SpokenPair]:
    """Pairs whose first factor is planned and whose second can be said."""
    found = []
    for base, added in unseen.PAIRS:
        motion = _motion(stage, base)
        if motion is not None and added in SAID:
            like = base_of(stage.clips.sentences()[stage.names.index(motion)][0])
            choice = choose_knob(SAID[added], directions, stage.words, like)
            found.append(SpokenPair((base, added), motion, choice))
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
    return unseen.judge(pair.factors, _means(steered), _means(plain))


def _means(runs: np.ndarray) -> dict[str, float]:
    steps = full_amplitude(PAIR_STEPS)
    each = [unseen.measure(runs[steps, i]) for i in range(runs.shape[1])]
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}

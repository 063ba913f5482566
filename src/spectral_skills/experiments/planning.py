"""The paper's two tables on which commands a planner should plan, and two on its words.

A row is one route at one replanning interval: 20 episodes of every described motion.
The tables beyond the paper are of words that were never learned or that change, and of
two instructions at once.

Whether a robot obeys changing words is read from its motion: the executed motion is
encoded, and the robot does the motion that most of its skills are nearest to.

Of two instructions the first is planned; the second one chooses a direction and an
amplitude from the catalogue, which are added to the planned skills. The pairs are those
that the embedded corpus omits on purpose, as far as the second can be said in words and
held; `unseen.py` says what counts as success.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.run import SteeredSource, encode_clip
from spectral_skills.control.steering import (
    MARGIN_STEPS,
    Knob,
    full_amplitude,
    schedule,
)
from spectral_skills.experiments import unseen
from spectral_skills.experiments.findings import Findings, Series, grid
from spectral_skills.experiments.stage import (
    EPISODES,
    STEPS,
    ScoreTable,
    Stage,
    fell,
    sentences,
)
from spectral_skills.experiments.unseen import PairVerdict
from spectral_skills.models import Models
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.lookup import KnownSentences
from spectral_skills.planner.model import check_text
from spectral_skills.planner.motions import learned
from spectral_skills.planner.routes import Route, longest
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates
from spectral_skills.planner.understand import Interpreter, base_of, choose_knob
from spectral_skills.skill.encoder import encode_rows
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions

PERIOD, SETTLED = 200, 60
"""Steps for which an instruction lasts, and after which a robot should follow it."""


class Recogniser:
    """Names the motions that robots do, by the nearest skills of known motions."""

    def __init__(self, models: Models, stage: Stage):
        self.encoder = models.skill_encoder
        clips = [torch.tensor(rows) for rows in stage.clips.rows]
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


def language(stage: Stage, models: Models, every: int = CHUNK) -> Findings:
    """Success with learned words, with other words, and with words that change.

    Other words are read by the planner itself, and looked up as `spectral say` does.
    """
    if stage.steps < 2 * PERIOD:
        raise ValueError(
            f"{stage.steps} steps are too few for words to change; take at least "
            f"{2 * PERIOD}"
        )
    table = ScoreTable("language", stage, models)
    learned, others = (
        stage.said(sentences(models, stage, held_out)) for held_out in (False, True)
    )
    found, refused = look_up(models, stage.words, others)
    rows = {"learned sentences": learned, "other words": others, "looked up": found}
    for row, said in rows.items():
        scores = stage.planned(models, stage.words.encode(said).to(stage.device), every)
        if row == "looked up":
            scores = replace(scores, success=scores.success & ~refused)
        table.score(row, scores)
    own, *rest = (scores.success for scores in table.rows.values())
    for row, success in zip(("other words", "looked up"), rest, strict=True):
        lost = 100 * float(own.mean() - success.mean())
        table.add(row, {"points lost": lost}, len(success))
    table.add("looked up", {"refused": refused.sum()}, len(refused))
    add_changes(table, models, every)
    table.by_motion(list(table.rows))
    return table.findings()


def look_up(
    models: Models, encoder: TextEncoder, said: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """The learned sentences by which others are understood, as by `spectral say`, and
    (n,) which are refused; several instructions instead of one count as refused."""
    about = models.skill_planner.config.about
    pairs = [(m.name, sentence) for m in about.motions for sentence in m.sentences]
    interpreter = Interpreter(KnownSentences(pairs, encoder))
    each = {text: interpreter.interpret(text) for text in dict.fromkeys(said)}
    refused = [len(each[s]) > 1 or not each[s][0].understood for s in said]
    return [each[text][0].nearest for text in said], np.array(refused)


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
    table.add(row, {"changes": n, "falls": fell(rows).sum()}, n)
    table.add(row, {"done as told": right / max(1, total)}, total)


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


PAIR_STEPS, PAIR_EPISODES = 400, 3
SAID: dict[str, str] = grid("pairs").said
"""Second sentence of each factor that can be held; the others go up and down."""


@dataclass(frozen=True)
class SpokenPair:
    """A planned motion, and the knob that is added to it."""

    factors: tuple[str, str]
    motion: str  # name of the clip
    choice: Choice | None  # knob from the catalogue; None where it has nothing to offer


def pairs(stage: Stage, models: Models, every: int = CHUNK) -> Findings:
    """Run some episodes of every pair, and of its base without the second sentence."""
    directions = models.known_directions
    directions.check(models.skill_encoder.fingerprint())
    found = spoken_pairs(stage, directions)
    names, count = [pair.motion for pair in found], len(found)
    # The first half of the robots is steered, the second half is not.
    place = stage.of([*names, *names], PAIR_EPISODES, PAIR_STEPS)
    tracker, source = place.source(models, place.text(sentences(models, place)), every)
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
        report.add(f"{pair.factors[0]}: {SAID[pair.factors[1]]}", values, PAIR_EPISODES)
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


EVERY = (1, 10, 21, CHUNK)
"""Numbers of steps between plans."""
_ROUTES: dict[Route, str] = {
    "skills": "Skills (z to z)",
    "re-encode": "Re-encode (o to z)",
    "explicit": "Explicit (o to o)",
}


def evaluate(
    table: str,
    models: Models,
    corpora: Sequence[Corpus],
    device: str,
    episodes: int = EPISODES,
    steps: int = STEPS,
    seed: int = 0,
    most: int | None = None,
    **options: Any,
) -> Findings:
    """Measure one of the four tables on the motions that a planner has learned, or on
    `most` of them at regular distances."""
    words = MiniLM()
    check_text(models.skill_planner, words)
    tables = {one.__name__: one for one in (interfaces, fsq, language, pairs)}
    about = models.skill_planner.config.about
    clips = learned(corpora, about.motions)
    if most is not None and most < len(clips):
        clips = clips.at(np.linspace(0, len(clips) - 1, most).astype(int).tolist())
    stage = Stage(clips, about.corpus, words, device, episodes, steps, seed)
    return tables[table](stage, models, **options)


def interfaces(
    stage: Stage,
    models: Models,
    poses: Models | None = None,
    explicit: Models | None = None,
    every: Sequence[int] = EVERY,
) -> Findings:
    """Table tab:planner-interface: skills, poses that are encoded again, poses.

    `poses` are the same models with a planner of poses, `explicit` a controller of
    poses with its planner.
    """
    table = ScoreTable("interfaces", stage, models)
    table.score("Skill tracker: oracle", stage.oracle(models))
    lines = _add_route(table, "skills", models, every)
    if poses is not None:
        lines |= _add_route(table, "re-encode", poses, every)
    if explicit is not None:
        table.score("Explicit tracker: oracle", stage.oracle(explicit))
        lines |= _add_route(table, "explicit", explicit, every)
    # Plain routes first, then those with odometry.
    ordered = sorted(lines.items(), key=lambda one: one[0].endswith("odometry"))
    series = [Series.of(name, one, one.values()) for name, one in ordered if one]
    table.chart("interval", series)
    table.by_motion([f"{_ROUTES[route]}, N=10" for route in ("skills", "re-encode")])
    return table.findings()


def _add_route(
    table: ScoreTable, route: Route, models: Models, every: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Add a row for every interval, and for poses the same with odometry; gives the
    success by label and interval."""
    stage, limit = table.stage, longest(route, models.encoder)
    text, found = stage.text(sentences(models, stage)), {}
    for odometry in (False, True)[: 1 + (route != "skills")]:
        label = f"{_ROUTES[route]}{', odometry' if odometry else ''}"
        found[label] = {}
        for steps in every:
            # A plan that is followed for one step needs no odometry.
            if 1 + odometry <= steps <= limit:
                scores = stage.planned(models, text, steps, odometry=odometry)
                table.score(f"{label}, N={steps}", scores)
                found[label][steps] = scores.success.mean()
    return found


def fsq(stage: Stage, models: Models, poses: Models, every: int = 10) -> Findings:
    """Table app-fsq-planner: an FSQ tracker that holds a skill for ten steps."""
    table = ScoreTable("fsq", stage, models)
    table.score("FSQ tracker: oracle", stage.oracle(models))
    text = stage.text(sentences(models, stage))
    for label, ensemble in (("temporal", True), ("no", False)):
        scores = stage.planned(models, text, every, ensemble=ensemble)
        table.score(f"FSQ latent, {label} ensembling", scores)
    text = stage.text(sentences(poses, stage))
    table.score("FSQ re-encode", stage.planned(poses, text, every))
    table.by_motion([row for row in table.rows if "oracle" not in row])
    return table.findings()

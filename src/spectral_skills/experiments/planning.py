"""Tables of planners: the paper's two on which commands a planner should plan, and two
beyond it on words that were never learned, that change, or that add up.

A row is one route at one replanning interval: 20 episodes of every described motion.
As in the paper, episodes begin on the reference, robots sense with noise, and nothing
ends an episode but a fall or its last step. Success and errors are those of the frames
that the reference has; after it, only a fall counts.

Whether a robot obeys changing words is read from its motion: the executed motion is
encoded, and the robot does the motion that most of its skills are nearest to. For two
instructions at once, the first sentence is planned; the second one chooses a direction
and an amplitude from the catalogue, which are added to the planned skills. The pairs
are those that the embedded corpus omits on purpose, as far as the second can be said in
words and held; `experiments/unseen.py` says what counts as success.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control import metrics
from spectral_skills.control.rollout import Rollout, fallen
from spectral_skills.control.run import (
    ReferenceSource,
    SkillSource,
    SteeredSource,
    Tracker,
    encode_clip,
    run,
)
from spectral_skills.control.steering import (
    MARGIN_STEPS,
    Knob,
    full_amplitude,
    schedule,
)
from spectral_skills.experiments import unseen
from spectral_skills.experiments.findings import (
    Draft,
    Findings,
    MeasuredWith,
    Series,
    grid,
)
from spectral_skills.experiments.unseen import PairVerdict
from spectral_skills.models import Models
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.planner.listener import FALLEN_M
from spectral_skills.planner.model import check_text
from spectral_skills.planner.motions import Motions, learned
from spectral_skills.planner.routes import PlannedSource, Route, longest
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates
from spectral_skills.planner.understand import base_of, choose_knob
from spectral_skills.skill.encoder import encode_rows
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import References

EPISODES, STEPS = 20, 2000
EVERY = (1, 10, 21, 30)
"""Numbers of steps between plans; tables of language have the last."""
PERIOD, SETTLED = 200, 60
"""Steps for which an instruction lasts, and after which a robot should follow it."""
PAIR_STEPS, PAIR_EPISODES = 400, 3
SAID: dict[str, str] = grid("pairs").said
"""Second sentence of each factor that can be held; the others go up and down."""
_ROUTES: dict[Route, str] = {
    "skills": "Skills (z to z)",
    "re-encode": "Re-encode (o to z)",
    "explicit": "Explicit (o to o)",
}


@dataclass(frozen=True)
class EpisodeScores:
    """Scores of the episodes of a row."""

    success: np.ndarray
    """(n,) whether the thresholds were kept as long as there was a reference."""
    local_mm: np.ndarray
    """(n,) mean over the frames before a fall."""
    global_mm: np.ndarray
    fell: np.ndarray
    """(n,) whether the robot fell, at any time."""
    refused: int = 0
    """Number of plans that were not finite."""


class Stage:
    """Motions, with robots for some episodes of each."""

    def __init__(
        self,
        clips: Motions,
        corpus: str,
        words: TextEncoder,
        device: str = "cpu",
        episodes: int = EPISODES,
        steps: int = STEPS,
        seed: int = 0,
    ):
        """`corpus` is the hash of what the motions are from."""
        if episodes < 1 or steps < 2:
            raise ValueError(f"{episodes} episodes of {steps} steps: nothing to run")
        self.clips, self.corpus, self.words = clips, corpus, words
        self.names = clips.names
        self.device, self.steps, self.seed = torch.device(device), steps, seed
        self.episodes = episodes
        self.references = References.build(self.clips.to(self.device))
        numbers = torch.arange(len(self.clips), device=self.device)
        self.motion = numbers.repeat_interleave(episodes)
        """(n,) motion of each robot."""
        self._physics: Physics | None = None

    def of(self, motions: Sequence[str], episodes: int, steps: int) -> "Stage":
        """A stage of some of these motions; one may be named several times."""
        some, rest = self.clips.select(motions), (episodes, steps, self.seed)
        return Stage(some, self.corpus, self.words, str(self.device), *rest)

    def text(self, sentences: Sequence[Sequence[str]]) -> TextStates:
        """A sentence for each robot: those of its motion in turn."""
        chosen = [own[i % len(own)] for own in sentences for i in range(self.episodes)]
        return self.words.encode(chosen).to(self.device)

    def reference(self, models: Models) -> ReferenceSource:
        """The motions themselves as a source of commands."""
        return ReferenceSource(
            *(self.references, self.motion, models.encoder),
            command=models.controller.config.command,
            names=[self.names[i] for i in self.motion.tolist()],
        )

    def oracle(self, models: Models) -> EpisodeScores:
        """Score the reference itself in place of a planner."""
        tracker = Tracker(models.controller)
        return self.score(self.execute(tracker, self.reference(models)))

    def source(
        self, models: Models, text: TextStates, every: int, **options
    ) -> tuple[Tracker, PlannedSource]:
        """A planner as a source of commands, with the tracker that it senses by."""
        tracker = Tracker(models.controller)
        parts = models.skill_planner, tracker, text, every, models.encoder
        return tracker, PlannedSource(*parts, seed=self.seed, **options)

    def planned(
        self, models: Models, text: TextStates, every: int, **options
    ) -> EpisodeScores:
        """Score a planner that plans every so many steps."""
        track = self.reference(models).track
        tracker, source = self.source(models, text, every, track=track, **options)
        return self.score(self.execute(tracker, source), int(source.refused))

    def execute(
        self, tracker: Tracker, source: SkillSource, label: str = "episodes"
    ) -> Rollout:
        """Run all robots from the first frames of their motions."""
        if self._physics is None:
            self._physics = simulate(self.device, len(self.motion))
        begin = self.references.at(self.motion, torch.zeros_like(self.motion))
        cuda = [self.device] if self.device.type == "cuda" else []
        bar = tqdm(total=self.steps, desc=label, unit=" steps", disable=None)
        with torch.random.fork_rng(devices=cuda), bar:
            torch.manual_seed(self.seed)
            return run(
                *(self._physics, tracker, source, (begin.rows, begin.qvel), self.steps),
                noise=RandomizationConfig(),
                keep=(),
                bar=bar,
            )

    def score(self, rollout: Rollout, refused: int = 0) -> EpisodeScores:
        """Score every episode of a record."""
        found = metrics.episodes(rollout)
        errors = found.upright_local_mm, found.upright_global_mm
        down = fell(rollout.robot).cpu().numpy()
        return EpisodeScores(found.success, *errors, down, refused)


def fell(rows: Tensor) -> Tensor:
    """(n,) which robots of rows (T, n, 36) were ever down; a broken one was."""
    return fallen(rows, FALLEN_M).any(dim=0)


def sentences(
    models: Models, stage: Stage, held_out: bool = False
) -> list[tuple[str, ...]]:
    """The learned sentences of each motion of a stage, or the held-out ones."""
    known = {m.name: m for m in models.skill_planner.config.about.motions}
    missing = [name for name in stage.names if name not in known]
    if missing:
        raise ValueError(
            f"the planner has not learned {missing[0]}; it was trained on other motions"
        )
    motions = [known[name] for name in stage.names]
    found = [m.held_out if held_out else m.sentences for m in motions]
    if not all(found):
        silent = stage.names[found.index(())]
        raise ValueError(f"the planner's rows hold no other words for {silent}")
    return found


class ScoreTable(Draft):
    """Rows of scores on a stage, and the findings that they become."""

    def __init__(self, name: str, stage: Stage, models: Models):
        measured = MeasuredWith.of(models, str(stage.device), "planner")
        about = stage.corpus, f"Planning: {name}", stage.seed
        super().__init__(name, measured, *about)
        self.stage, self.rows = stage, dict[str, EpisodeScores]()

    def score(self, row: str, scores: EpisodeScores) -> None:
        """Add a row; where all robots fell at once it has no errors."""
        self.rows[row] = scores
        errors = {
            "mpjpe_local_mm": scores.local_mm,
            "mpjpe_global_mm": scores.global_mm,
        }
        values: dict[str, Any] = {
            name: np.nanmean(one) if np.isfinite(one).any() else None
            for name, one in errors.items()
        }
        values["success_rate"] = scores.success.mean()
        values["fall_free_share"] = 1 - scores.fell.mean()
        values["plans_refused"] = scores.refused or None
        self.add(row, values, len(scores.success))

    def by_motion(self, rows: Sequence[str]) -> None:
        """Add a chart of the success of some rows, motion by motion."""
        names = self.stage.names
        shape, at = (len(names), self.stage.episodes), range(1, len(names) + 1)
        series = [
            Series.of(row, at, scores.success.reshape(shape).mean(axis=1), names)
            for row, scores in self.rows.items()
            if row in rows
        ]
        self.chart("motions", series)


def evaluate(
    table: str,
    models: Models,
    corpora: Sequence[Corpus],
    device: str,
    episodes: int = EPISODES,
    steps: int = STEPS,
    seed: int = 0,
    **options: Any,
) -> Findings:
    """Measure one of the four tables on the motions that a planner has learned."""
    words = MiniLM()
    check_text(models.skill_planner, words)
    tables = {one.__name__: one for one in (interfaces, fsq, language, pairs)}
    about = models.skill_planner.config.about
    clips = learned(corpora, about.motions)
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


def language(stage: Stage, models: Models, every: int = EVERY[-1]) -> Findings:
    """Success with learned words, with other words, and with words that change."""
    if stage.steps < 2 * PERIOD:
        raise ValueError(
            f"{stage.steps} steps are too few for words to change; take at least "
            f"{2 * PERIOD}"
        )
    table = ScoreTable("language", stage, models)
    for row, held_out in (("learned sentences", False), ("other words", True)):
        text = stage.text(sentences(models, stage, held_out))
        table.score(row, stage.planned(models, text, every))
    learned, others = (scores.success for scores in table.rows.values())
    lost = 100 * float(learned.mean() - others.mean())
    table.add("other words", {"points lost": lost}, len(others))
    add_changes(table, models, every)
    table.by_motion(list(table.rows))
    return table.findings()


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


@dataclass(frozen=True)
class SpokenPair:
    """A planned motion, and the knob that is added to it."""

    factors: tuple[str, str]
    motion: str
    """Name of the clip."""
    choice: Choice | None
    """Knob from the catalogue; None where it has nothing to offer."""


def pairs(stage: Stage, models: Models, every: int = EVERY[-1]) -> Findings:
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

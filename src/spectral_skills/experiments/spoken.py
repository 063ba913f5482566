"""A robot is told what to do, in words, and does it: one run on the CPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.mixer import RAMP_STEPS, Knob, schedule
from spectral_skills.control.rollout import QVEL_SIZE, Rollout
from spectral_skills.control.run import Tracker, run
from spectral_skills.control.source import SkillSource, SteeredSource
from spectral_skills.experiments.stage import FALLEN_M
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.synthetic import bases
from spectral_skills.physics.base import simulate
from spectral_skills.planner.matching import KnownSentences
from spectral_skills.planner.model import Planner, check_text
from spectral_skills.planner.routes import InstructedSource, PlannedSource
from spectral_skills.planner.text import TextEncoder, clean
from spectral_skills.planner.understand import Interpreter, duration_s
from spectral_skills.spectral.catalogue import Choice
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.workers import one_torch_thread

EVERY = 30
"""Steps after which is planned anew."""
MOST_S = 120.0
"""Of a run."""


@dataclass(frozen=True)
class Told:
    """A step of a run: what was said, and what the robot was told."""

    sentence: str
    """As it was said."""
    told: str
    """What the planner reads."""
    motion: str
    """Name of the motion that it is taken for."""
    nearest: str
    """Sentence that the planner has learned, and its cosine."""
    cosine: float
    knobs: tuple[Choice, ...]
    begin: int
    """First control step."""
    end: int
    """First control step after it."""
    why: str = ""
    """Why it was not understood."""

    @property
    def understood(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class Spoken:
    """A run of a robot that was told what to do."""

    text: str
    steps: tuple[Told, ...]
    rollout: Rollout
    """Of one robot."""
    fell_at_s: float | None
    refused: int
    """Plans that were not finite, and so were not followed."""
    plans: int
    plan_ms: float
    """Median wall time of a plan."""
    encoder: str
    """Fingerprint of the encoder of the skills; empty where there are none."""

    @property
    def fps(self) -> float:
        return self.rollout.fps

    @property
    def understood(self) -> bool:
        """Whether any step was."""
        return any(told.understood for told in self.steps)

    def told_at(self, frame: int) -> Told:
        """The step that a row of the record belongs to."""
        return next((t for t in self.steps if frame < t.end), self.steps[-1])


class _TimedSource(PlannedSource):
    """A planned source that knows how long its plans took."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.took_s: list[float] = []

    def _plan(self, step: int, qpos: Tensor) -> None:
        begun = perf_counter()
        super()._plan(step, qpos)
        self.took_s.append(perf_counter() - begun)


def speak(
    actor: Models,
    planner: Planner,
    encoder: TextEncoder,
    directions: Directions | None,
    text: str,
    every: int = EVERY,
    seconds: float | None = None,
    seed: int = 0,
) -> Spoken:
    """Tell a standing robot what to do.

    Every step of the text lasts as long as is said, else `seconds`, else as long as its
    motion takes. Without directions nothing is added to what is planned.
    """
    check_text(planner, encoder)
    _check(seconds)
    if directions is not None and actor.encoder is not None:
        directions.check(actor.encoder.fingerprint())
    hold = actor.controller.config.command.hold
    steps = told_steps(planner, encoder, directions, text, seconds, hold)
    tracker = Tracker(actor.controller)
    planned = _TimedSource(
        *(planner, tracker, encoder.encode([steps[0].told]), every, actor.encoder),
        seed=seed,
    )
    later = {told.begin: encoder.encode([told.told]) for told in steps[1:]}
    source: SkillSource = InstructedSource(planned, later)
    if directions is not None and any(told.knobs for told in steps):
        source = SteeredSource(source, directions.vectors, turned(steps, directions))
    rows = torch.from_numpy(bases.generate("stand", 1).rows[:1])
    start = rows, torch.zeros(1, QVEL_SIZE)
    with one_torch_thread():  # for one robot, several only wait for each other
        record = run(simulate("cpu", 1), tracker, source, start, steps[-1].end)
    return Spoken(
        text=clean(text),
        steps=steps,
        rollout=replace(record, names=(clean(text),)),
        fell_at_s=_fell_at_s(record),
        refused=int(planned.refused),
        plans=len(planned.took_s),
        plan_ms=1000 * float(np.median(planned.took_s)),
        encoder="" if actor.encoder is None else actor.encoder.fingerprint(),
    )


def _check(seconds: float | None) -> None:
    """Refuse what nobody could mean."""
    if seconds is not None and not 0.0 < seconds <= MOST_S:
        raise ValueError(
            f"{seconds:g} s a step, must be above 0 and at most {MOST_S:g}"
        )


def told_steps(
    planner: Planner,
    encoder: TextEncoder,
    directions: Directions | None,
    text: str,
    seconds: float | None = None,
    hold: int = 1,
) -> tuple[Told, ...]:
    """What a robot is told, and when; commands change every `hold` steps."""
    motions = planner.config.about.motions
    sentences = [(m.name, s) for m in motions for s in m.sentences]
    known = KnownSentences(sentences, encoder, planner.known)
    takes_s = {motion.name: motion.frames / FPS for motion in motions}
    found: list[Told] = []
    total_s = 0.0
    for one in Interpreter(known, encoder, directions).interpret(text):
        # The planner reads what it has learned: `wave` alone could be either hand.
        motion, sentence = one.motion, one.known
        if not one.understood:
            motion, sentence = known.standing()
        lasts_s = one.seconds or seconds or duration_s(takes_s[motion])
        total_s += lasts_s
        if total_s > MOST_S:
            raise ValueError(f"that takes longer than {MOST_S:g} s; say it in parts")
        count = max(2, round(lasts_s * FPS / hold)) * hold
        begin = found[-1].end if found else 0
        near = one.known, one.cosine, one.knobs
        span = begin, begin + count
        found.append(Told(one.sentence, sentence, motion, *near, *span, one.why_not))
    return tuple(found)


def turned(steps: Sequence[Told], directions: Directions) -> np.ndarray:
    """(T, k) amplitudes: every knob is up within its own step alone."""
    knobs = []
    for told in steps:
        ramp = min(RAMP_STEPS, (told.end - told.begin) // 2)
        for knob in told.knobs:
            span = told.begin, told.end, ramp
            knobs.append(Knob(knob.direction, knob.amplitude, *span))
    return schedule(knobs, steps[-1].end, directions.names)


def _fell_at_s(record: Rollout) -> float | None:
    """When a robot was down first; a broken one is."""
    down = (~(record.robot[:, 0, 2] > FALLEN_M)).nonzero()
    return float(down[0]) / record.fps if len(down) else None

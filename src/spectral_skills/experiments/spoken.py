"""A robot that is instructed in words: one run on the CPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from spectral_skills.control.rollout import QVEL_SIZE, Rollout, fell_at
from spectral_skills.control.run import SkillSource, SteeredSource, Tracker, run
from spectral_skills.control.schedules import RAMP_STEPS, Knob, schedule
from spectral_skills.experiments.planning import FALLEN_M
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.synthetic import bases
from spectral_skills.physics.base import simulate
from spectral_skills.planner.matching import KnownSentences
from spectral_skills.planner.model import Planner, check_text
from spectral_skills.planner.routes import PlannedSource
from spectral_skills.planner.text import TextEncoder, clean
from spectral_skills.planner.understand import Instruction, Interpreter, duration_s
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.workers import one_torch_thread

EVERY = 30
"""Number of control steps between plans."""
MOST_S = 120.0
"""Longest run."""


@dataclass(frozen=True)
class SpokenStep(Instruction):
    """An instruction during a run; `motion` is the one that was planned."""

    given: str = ""
    """Learned sentence that the planner reads; to stand if nothing was understood."""
    begin: int = 0
    """First control step."""
    end: int = 0
    """First control step after it."""


@dataclass(frozen=True)
class Spoken:
    """A run of a robot that was instructed in words."""

    text: str
    steps: tuple[SpokenStep, ...]
    rollout: Rollout
    """Record of the one robot."""
    fell_at_s: float | None
    refused: int
    """Number of plans that were not finite and so were not followed."""
    plans: int
    plan_ms: float
    """Median wall time of a plan."""
    encoder: str
    """Fingerprint of the encoder of the skills; empty if there are none."""

    @property
    def fps(self) -> float:
        return self.rollout.fps

    @property
    def understood(self) -> bool:
        """Whether any step was understood."""
        return any(step.understood for step in self.steps)


def speak(
    models: Models,
    encoder: TextEncoder,
    text: str,
    every: int = EVERY,
    seconds: float | None = None,
    seed: int = 0,
) -> Spoken:
    """Instruct a standing robot.

    Each step of the text lasts as long as the text says, else `seconds`, else as long
    as its motion takes. Without directions, and for a planner of poses, nothing is
    added to what is planned.
    """
    planner, hold = models.skill_planner, models.controller.config.command.hold
    directions = models.directions if planner.config.output == "skill" else None
    check_text(planner, encoder)
    if seconds is not None and not 0.0 < seconds <= MOST_S:
        raise ValueError(
            f"{seconds:g} s a step, must be above 0 and at most {MOST_S:g}"
        )
    steps = spoken_steps(planner, encoder, directions, text, seconds, hold)
    tracker = Tracker(models.controller)
    given = {step.begin: encoder.encode([step.given]) for step in steps}
    parts = planner, tracker, given.pop(0), every, models.encoder
    planned = PlannedSource(*parts, seed=seed, later=given)
    source: SkillSource = planned
    if directions is not None and any(step.knobs for step in steps):
        source = SteeredSource(source, directions.vectors, turned(steps, directions))
    rows = torch.from_numpy(bases.generate("stand", 1).rows[:1])
    start = rows, torch.zeros(1, QVEL_SIZE)
    with one_torch_thread():  # for one robot, more threads only wait for each other
        record = run(simulate("cpu", 1), tracker, source, start, steps[-1].end)
    # A broken simulation counts as a fall.
    down = fell_at(record.robot[:, 0], FALLEN_M)
    return Spoken(
        text=clean(text),
        steps=steps,
        rollout=replace(record, names=(clean(text),)),
        fell_at_s=None if down is None else down / record.fps,
        refused=int(planned.refused),
        plans=len(planned.took_s),
        plan_ms=1000 * float(np.median(planned.took_s)),
        encoder="" if models.encoder is None else models.encoder.fingerprint(),
    )


def spoken_steps(
    planner: Planner,
    encoder: TextEncoder,
    directions: Directions | None,
    text: str,
    seconds: float | None = None,
    hold: int = 1,
) -> tuple[SpokenStep, ...]:
    """The steps of a text; the robot stands for what is not understood.

    Steps begin and end at multiples of `hold`, for which commands are held.
    """
    motions = planner.config.about.motions
    sentences = [(m.name, s) for m in motions for s in m.sentences]
    known = KnownSentences(sentences, encoder, planner.known)
    takes_s = {motion.name: motion.frames / FPS for motion in motions}
    found: list[SpokenStep] = []
    total_s = 0.0
    for one in Interpreter(known, encoder, directions).interpret(text):
        # The planner reads what it has learned: `wave` alone could be either hand.
        motion, given = one.motion, one.nearest
        if not one.understood:
            motion, given = known.standing()
        lasts_s = one.seconds or seconds or duration_s(takes_s[motion])
        total_s += lasts_s
        if total_s > MOST_S:
            raise ValueError(f"that takes longer than {MOST_S:g} s; say it in parts")
        begin = found[-1].end if found else 0
        end = begin + max(2, round(lasts_s * FPS / hold)) * hold
        changes = {"motion": motion, "given": given, "begin": begin, "end": end}
        found.append(SpokenStep(**vars(one) | changes))
    return tuple(found)


def turned(steps: Sequence[SpokenStep], directions: Directions) -> np.ndarray:
    """(T, k) amplitudes: each knob is turned up within its own step only."""
    knobs = [
        Knob(
            *(knob.direction, knob.amplitude, step.begin, step.end),
            ramp=min(RAMP_STEPS, (step.end - step.begin) // 2),
        )
        for step in steps
        for knob in step.knobs
    ]
    return schedule(knobs, steps[-1].end, directions.names)

"""A robot that is instructed in words: one session on the CPU."""

from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import REST, Cue, LivePlanner
from spectral_skills.control.rollout import Rollout, fell_at
from spectral_skills.control.session import Session
from spectral_skills.experiments.planning import FALLEN_M
from spectral_skills.planner.listener import Listener
from spectral_skills.planner.text import TextEncoder, clean
from spectral_skills.planner.understand import Instruction
from spectral_skills.robot import g1

MOST_S = 120.0
"""Longest run."""


@dataclass(frozen=True)
class SpokenStep(Instruction):
    """An instruction during a run; `motion` is `stand` if it was not understood."""

    cue: Cue = Cue(REST)
    """What the session plays."""
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
    """Record of the one robot; `control.session.replay` runs it again."""
    fell_at_s: float | None
    refused: int
    """Number of plans that were not finite and so were not followed."""
    plans: int
    plan_ms: float
    """Median wall time of a plan; 0 if none was made."""
    encoder: str
    """Fingerprint of the encoder of the skills."""

    @property
    def fps(self) -> float:
        return self.rollout.fps

    @property
    def understood(self) -> bool:
        """Whether any step was understood."""
        return any(step.understood for step in self.steps)


def speak(
    bundle: Bundle,
    encoder: TextEncoder,
    text: str,
    every: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
) -> Spoken:
    """Instruct a standing robot.

    Each step of the text lasts as long as the text says, else `seconds`, else as long
    as its motion takes. `every` is how many steps of a plan are used: all by default.
    """
    manifest, planner = bundle.manifest, bundle.planner()
    if planner is None:
        raise ValueError(f"{bundle.folder}: a bundle without a planner")
    if seconds is not None and not 0.0 < seconds <= MOST_S:
        raise ValueError(
            f"{seconds:g} s a step, must be above 0 and at most {MOST_S:g}"
        )
    longest = manifest.plan_every
    if not 1 <= (every := longest if every is None else every) <= longest:
        raise ValueError(f"a plan every {every} steps, must be 1 to {longest}")
    steps = spoken_steps(Listener(bundle, encoder), text, seconds)
    live = LivePlanner(planner, seed, inline=True)
    frequent = replace(bundle, manifest=replace(manifest, plan_every=every))
    session = Session(frequent, live)
    session.record()
    for step in steps:
        session.play(step.cue)
        for _ in range(step.end - step.begin):
            session.step()
    record = session.stop_recording()
    assert record is not None
    # A broken simulation counts as a fall.
    down = fell_at(record.robot[:, 0], FALLEN_M)
    return Spoken(
        text=clean(text),
        steps=steps,
        rollout=replace(record, names=(clean(text),)),
        fell_at_s=None if down is None else down / record.fps,
        refused=live.refused,
        plans=len(live.took_s),
        plan_ms=1000 * float(np.median(live.took_s or [0.0])),
        encoder=manifest.encoder,
    )


def spoken_steps(
    listener: Listener, text: str, seconds: float | None = None
) -> tuple[SpokenStep, ...]:
    """The steps of a text; the robot stands for what is not understood."""
    found: list[SpokenStep] = []
    total_s = 0.0
    for one in listener.instructions(text):
        cue, _ = listener.cue(one, seconds)
        lasts_s = cue.seconds or 0.0
        total_s += lasts_s
        if total_s > MOST_S:
            raise ValueError(f"that takes longer than {MOST_S:g} s; say it in parts")
        begin = found[-1].end if found else 0
        end = begin + max(2, round(lasts_s * g1.CONTROL_HZ))
        changes = {
            "motion": one.motion if one.understood else cue.name,
            "cue": replace(cue, seconds=None),
            "begin": begin,
            "end": end,
        }
        found.append(SpokenStep(**vars(one) | changes))
    return tuple(found)

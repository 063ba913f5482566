"""Matched triples: a steered run that stays up, and its pose forced on the joints.

The mean joint deviation of the steered run is added to the action, or to the servo
target, in the same schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from spectral_skills.control.batch import Run
from spectral_skills.control.schedules import standard
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import Effect, measure
from spectral_skills.robot import g1

ARMS = ("right_arm_1", "left_arm_1", "spread")
TRAVELS = ("walk", "jog", "backward")
WAYS = ("steering", "offset on action", "offset on servo target")


@dataclass(frozen=True)
class Triple:
    """A steered run, and its pose on the action and on the servos."""

    direction: str
    amplitude: float
    plain: Executed
    runs: tuple[Executed, Executed, Executed]
    """As in `WAYS`."""
    effects: tuple[Effect, Effect, Effect]

    def pose_ratio(self, way: int) -> float:
        """How much of the steered pose a run has: 1 all of it, 0 nothing."""
        steered, ours = self.effects[0].pose, self.effects[way].pose
        return float(ours @ steered / (steered @ steered))


def offsets(run: Run, pose: np.ndarray, skills: np.ndarray) -> tuple[Run, Run]:
    """Runs of a base's own skills, a pose (29,) added to actions or joint targets; one
    of every step is (T, 29)."""
    servo = (standard(1.0, run.base.steps) * pose).astype(np.float32)
    action = (servo / g1.ACTION_SCALE).astype(np.float32)
    return (
        Run(f"{run.name} on action", run.base, skills, run.seed, action=action),
        Run(f"{run.name} on servo", run.base, skills, run.seed, servo=servo),
    )


def matched(
    lab: Lab,
    bases: Sequence[str],
    directions: Sequence[str],
    amplitudes: Sequence[float],
    steps: int,
) -> list[Triple]:
    """Triples of all steered runs that do not fall."""
    grounds = [lab.base(name, steps) for name in bases]
    plain = lab.execute([lab.plain(base) for base in grounds], "bases")
    keys = list(product(plain, directions, amplitudes))
    steered = lab.execute(
        [
            lab.steered(p.run.base, lab.direction(name, a), f"{name} a={a:+g}")
            for p, name, a in keys
        ],
        "steered",
    )
    up = [(*k, one) for k, one in zip(keys, steered, strict=True) if one.stands]
    forced = []
    for p, _, _, one in up:
        pose = lab.effect(one, p).pose
        forced += offsets(one.run, pose, lab.skills(one.run.base))
    made = iter(lab.execute(forced, "offsets"))
    return [
        triple_of(lab, name, a, p, (one, next(made), next(made)))
        for p, name, a, one in up
    ]


def reseeded(lab: Lab, triples: list[Triple], seed: int) -> list[Triple]:
    """The same commands and offsets for another robot."""
    grounds = {t.plain.run.base.name: t.plain.run.base for t in triples}
    plain = lab.execute([lab.plain(base, seed) for base in grounds.values()], "bases")
    of = dict(zip(grounds, plain, strict=True))
    again = [
        Run(r.name, r.base, r.skills, seed, r.action, r.servo)
        for t in triples
        for r in (one.run for one in t.runs)
    ]
    made = iter(lab.execute(again, f"seed {seed}"))
    return [
        triple_of(
            lab,
            t.direction,
            t.amplitude,
            of[t.plain.run.base.name],
            (next(made), next(made), next(made)),
        )
        for t in triples
    ]


def triple_of(
    lab: Lab,
    direction: str,
    amplitude: float,
    plain: Executed,
    runs: tuple[Executed, Executed, Executed],
) -> Triple:
    """With what each of its runs has changed."""
    first, second, third = (lab.effect(one, plain) for one in runs)
    return Triple(direction, amplitude, plain, runs, (first, second, third))


def summary(lab: Lab, triples: list[Triple], way: int) -> dict[str, tuple[float, int]]:
    """A row of the table: each metric and its runs; only falls count all of them."""
    up = [t for t in triples if t.runs[way].stands]
    speeds = []
    for t in up:
        base = t.plain.run.base
        if t.direction in ARMS and base.name in TRAVELS:
            both = (measure(one.rows, lab.hold(base)) for one in (t.runs[way], t.plain))
            ours, usual = (found["speed"] for found in both)
            speeds.append(ours / usual)
    headings = [(t.direction, t.effects[way].changes["heading"]) for t in up]
    columns = {
        "pose": [t.pose_ratio(way) for t in up if t.runs[0].stands],
        "speed": speeds,
        "drift": [abs(heading) for name, heading in headings if name != "turn"],
        "turn": [heading for name, heading in headings if name == "turn"],
    }
    falls = {"falls": (float(len(triples) - len(up)), len(triples))}
    medians = {k: (float(np.median(v)), len(v)) for k, v in columns.items() if v}
    return falls | medians

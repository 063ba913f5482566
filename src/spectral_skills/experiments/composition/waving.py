"""A wave while walking: steered, and the same wave forced on the joints.

The right arm is raised and swings, all along one direction. Forced is the deviation of
the joints from the unsteered walk, its mean and its swing in the rhythm of the wave.
"""

from collections.abc import Iterator

import numpy as np

from spectral_skills.control.schedules import standard
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.composition.triples import (
    WAYS,
    Triple,
    offsets,
    triple_of,
)
from spectral_skills.experiments.effects import measure
from spectral_skills.motion.corpus import FPS
from spectral_skills.results import Result
from spectral_skills.robot import g1

NAME = "wave"
DIRECTION, RAISED, SWING = "right_arm_1", 3.0, 1.5
"""The direction, the amplitude that is held, and how far it swings from it."""
HZ = 1.0
PAPER = ("1.15", "0.01", "")
"""Speed of base, by way."""
NOTE = (
    "one more is a wave on the walk, if it stays up. The paper does not say how it "
    "waves: ours raises the right arm and swings it once a second."
)
_JOINT = g1.joint_index("right_shoulder_pitch")


def rhythm(steps: int) -> np.ndarray:
    """(T, 3) one, and a sine and a cosine of the wave."""
    turn = 2 * np.pi * HZ * np.arange(steps) / FPS
    return np.stack((np.ones(steps), np.sin(turn), np.cos(turn)), axis=1)


def parts(run: Executed, plain: Executed, hold: slice) -> np.ndarray:
    """(3, 29) mean, sine and cosine of the joints' deviation, fitted, rad."""
    deviation = run.rows[hold, 7:] - plain.rows[hold, 7:]
    # A row shows what came of the step before it.
    steps = slice(hold.start - 1, hold.stop - 1)
    return np.linalg.lstsq(rhythm(hold.stop)[steps], deviation)[0]


def triple(lab: Lab, steps: int) -> list[Triple]:
    """The one triple; none where the robot falls, waving or not."""
    base = lab.base("walk", steps)
    swing = standard(1.0, steps) * (rhythm(steps) @ (RAISED, SWING, 0.0))[:, None]
    wave = lab.steered(base, swing * lab.direction(DIRECTION), NAME)
    plain, waved = lab.execute([lab.plain(base), wave], NAME)
    if not (plain.stands and waved.stands):
        return []
    pose = rhythm(steps) @ parts(waved, plain, lab.hold(base))
    action, servo = lab.execute([*offsets(wave, pose, lab.skills(base))], NAME)
    return [triple_of(lab, NAME, RAISED, plain, (waved, action, servo))]


def cells(lab: Lab, experiment: str, waves: list[Triple]) -> Iterator[Result]:
    """Whether the robot goes on while it waves, and whether it does wave."""
    for one in waves:
        hold = lab.hold(one.plain.run.base)
        usual = measure(one.plain.rows, hold)["speed"]
        for way, run, paper in zip(WAYS, one.runs, PAPER, strict=True):
            row = f"wave on the walk, {way}"
            yield lab.cell(experiment, row, "falls", not run.stands, "of 1")
            if run.stands:
                speed = measure(run.rows, hold)["speed"] / usual
                yield lab.cell(experiment, row, "speed", speed, "of base", paper=paper)
                mean, *swing = parts(run, one.plain, hold)[:, _JOINT]
                swing = float(np.hypot(*swing))
                yield lab.cell(experiment, row, "right shoulder", mean, "rad")
                yield lab.cell(experiment, row, "swing of it", swing, "rad")

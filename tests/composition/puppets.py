"""A runner without physics: a rule says what a robot does, by direction and amplitude.

Heading in degrees over the steps that are measured, shoulders in rad; a robot may also
fall.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from released import released

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.experiments.effects import hold
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.robot import g1

STEPS = 200
FALL_STEP = 150
Rule = Callable[[str, float], Mapping[str, float]]


class Puppets(Runner):
    """Robots that do as a rule says: changes by name, for a direction at an amplitude.

    A name is that of a joint (rad), `heading` (degrees), or `fall`.
    """

    def __init__(self, rule: Rule, records=None):
        super().__init__(*released(), records=records)
        self.rule = rule

    def base(self, name: str, steps: int = STEPS) -> Base:
        rows = np.tile(g1.DEFAULT_QPOS, (STEPS + 1, 1)).astype(np.float32)
        rows[:, 0] = 0.8 * np.arange(STEPS + 1) / g1.CONTROL_HZ
        return Base(name, rows)

    def execute(self, runs: Sequence[Run], label: str = "") -> list[Executed]:
        return [Executed(run, self._rows(run)) for run in runs]

    def _rows(self, run: Run) -> np.ndarray:
        rows = run.base.rows.astype(float)
        direction, _, amplitude = run.name.partition(" a=")
        changes = self.rule(direction, float(amplitude)) if amplitude else {}
        steps = hold(run.base)
        for name, change in changes.items():
            if name == "fall":
                rows[FALL_STEP:, 2] = 0.2
            elif name == "heading":
                t = np.arange(STEPS + 1) - steps.start
                t = t / (steps.stop - steps.start - 1)
                yaw = np.radians(change) * t.clip(0, 1)
                rows[:, 3], rows[:, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
            else:
                rows[:, 7 + g1.joint_index(name)] += change
        return rows

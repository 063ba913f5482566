"""A runner without physics: robots do what a rule makes of their skills and offsets."""

from collections.abc import Callable, Sequence

import numpy as np
from released import released

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions


class Obedient(Runner):
    """Joints move by `follow` (d, 29) times the change of the skill, and by offsets."""

    def __init__(self, follow: np.ndarray, records=None):
        super().__init__(*released(), records=records)
        self.follow, self.made = follow, list[Run]()

    def execute(self, runs: Sequence[Run], label: str = "") -> list[Executed]:
        self.made += runs
        return [Executed(run, self._rows(run)) for run in runs]

    def _rows(self, run: Run) -> np.ndarray:
        move = (run.skills - self.skills(run.base)) @ self.follow
        if run.servo is not None:
            move = move + run.servo
        if run.action is not None:
            move = move + run.action * g1.ACTION_SCALE
        rows = run.base.rows.astype(np.float64)
        rows[1:, 7:] += move
        return rows


def follow(directions: Directions, effects: dict[str, tuple[str, float]]) -> np.ndarray:
    """(d, 29): a unit along a direction, by name, moves a joint by so many rad."""
    found = np.zeros((directions.vectors.shape[1], g1.NUM_JOINTS))
    for name, (joint, rad) in effects.items():
        vector = directions.vectors[directions.index(name)]
        found[:, g1.joint_index(joint)] += rad * vector
    return found


def turned(turn: Callable[[np.ndarray], np.ndarray], speed: float, steps: int):
    """(T + 1, 36) a robot in its default pose that goes at a speed, its heading rad
    `turn(t)` of the time in s."""
    t = np.arange(steps + 1) / g1.CONTROL_HZ
    yaw, rows = turn(t), np.tile(g1.DEFAULT_QPOS, (steps + 1, 1))
    ahead = np.stack((np.cos(yaw), np.sin(yaw)), axis=1)
    rows[1:, :2] = np.cumsum(speed / g1.CONTROL_HZ * ahead, axis=0)[:-1]
    rows[:, 3], rows[:, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
    return rows

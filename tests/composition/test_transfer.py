"""Transfer: which directions, what a push is, and a short run."""

import numpy as np

from spectral_skills.experiments import transfer
from spectral_skills.experiments.catalogue import SIGNS
from spectral_skills.spectral.direction_file import Directions


def test_directions_are_nineteen_and_exist():
    directions = Directions.load("base")
    assert len(set(transfer.GRID.directions)) == 19
    assert len({directions.index(name) for name in transfer.GRID.directions}) == 19


def test_pushes_stay_in_their_ranges():
    drawn = [transfer.draw_push(seed) for seed in range(300)]
    steps = np.array([step for step, _ in drawn])
    speeds = np.stack([velocity for _, velocity in drawn])
    assert steps.min() >= 200 and steps.max() <= 290
    limits = np.array([0.5, 0.5, 0.2, 0.52, 0.52, 0.78])
    assert (np.abs(speeds) <= limits).all()
    assert (np.abs(speeds).max(axis=0) > 0.9 * limits).all()
    assert transfer.draw_push(3)[0] == drawn[3][0]
    assert (transfer.draw_push(3)[1] == drawn[3][1]).all()


def test_short_run_on_the_released_controller(lab):
    found = transfer.transfer(
        lab, (0,), bases=("walk",), directions=("right_arm", "turn"), steps=200
    )
    values = {(r.row, r.metric): r for r in found.results}
    counted = [values["walk", outcome] for outcome in SIGNS]
    assert sum(cell.value for cell in counted) == 2
    assert counted[0].paper == "13"
    assert values["walk pushed, steered", "runs that fell"].n == 1
    assert values["walk pushed, unsteered", "speed, lowest"].value > 0.3

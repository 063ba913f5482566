"""Adding directions: cosine, size and headings, by hand and on a short run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spectral_skills.experiments import linearity
from spectral_skills.experiments.effects import Effect
from spectral_skills.experiments.linearity import Sum, combined, cosine
from spectral_skills.spectral.catalogue import UNITS

PAIR = ("right arm", "turn left")


def _effect(pose: list[float], heading: float = 0.0) -> Effect:
    return Effect(dict.fromkeys(UNITS, 0.0) | {"heading": heading}, np.array(pose))


def test_cosine_knows_angles_and_nothing():
    assert cosine(np.array([2.0, 0.0]), np.array([3.0, 0.0])) == pytest.approx(1.0)
    assert cosine(np.array([1.0, 1.0]), np.array([-1.0, 1.0])) == pytest.approx(0.0)
    assert cosine(np.array([1.0, 0.0]), np.zeros(2)) == 0.0


def test_sum_compares_with_both_parts():
    alone = (_effect([3.0, 0.0], 10.0), _effect([0.0, 4.0], 20.0))
    one = Sum("walk", PAIR, _effect([4.0, 3.0], 27.0), alone)
    assert list(one.values.values()) == pytest.approx([24 / 25, 1.0, 27.0, 30.0])
    assert one.label == "walk: right arm + turn left"


@pytest.mark.parametrize("fallen", ["plain", ("turn left",), PAIR])
def test_what_fell_is_not_compared(fallen):
    def stands(key, now: bool) -> Any:
        return SimpleNamespace(stands=now or key != fallen, effect=_effect([1.0]))

    def compared(now: bool) -> list[Sum]:
        keys = (("right arm",), ("turn left",), PAIR)
        runs: Any = {key: stands(key, now) for key in keys}
        for run in runs.values():
            run.plain = stands("plain", now)
        return combined("walk", runs, [PAIR])

    assert compared(False) == []
    assert len(compared(True)) == 1


def test_four_directions_are_never_all_on():
    curves = linearity.overlap_curves(linearity.SUMS.overlap_steps)
    on = np.stack([curve > 0 for curve in curves.values()]).sum(axis=0)
    assert on.max() == 3
    assert all(curve.max() == 1.0 for curve in curves.values())


def test_short_run_on_the_released_controller(lab):
    found = linearity.additivity(
        lab, bases=("walk",), combinations=(PAIR,), steps=190, overlap_steps=160
    )
    values = {(r.row, r.metric): r for r in found.results}
    one = values["walk: right arm + turn left", "cosine"]
    assert one.table == "Composition: additivity"
    assert one.paper == "0.992 to 0.996"
    assert 0.7 < one.value < 1.0
    assert values["walk: all", "runs that fell"].value == 0
    assert [chart.kind for chart in found.charts] == ["scatter", "bar", "line", "path"]

"""Every fault once, at a random time, in simulated time: what motors get is safe.

`python benchmarks/faults.py simulated` does so 1,100 times.
"""

from dataclasses import replace

import faults_in_simulation
import numpy as np
import pytest
from faults import simulated_results
from faults_in_simulation import CASES, WITHIN_MS, FaultCase

from spectral_skills.control import safety
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.safety import Order


@pytest.fixture(scope="module")
def bundle(bundle_folder) -> Bundle:
    return Bundle.open(bundle_folder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault(case, bundle):
    """Nothing is wrong with what came of it."""
    if case.planned and bundle.planner() is None:
        pytest.skip("the language model is not installed")
    found = faults_in_simulation.run(bundle, case, seed=7)
    assert not found.wrong, found
    assert found.safe_ms <= WITHIN_MS


def test_a_drive_without_reflexes_is_found_out(bundle, monkeypatch):
    """The same checks tell when a guard lets everything pass."""
    monkeypatch.setattr(safety, "danger", lambda sensed, limits, must_hold: None)
    case = next(case for case in CASES if case.name == "tilted too far")
    assert faults_in_simulation.run(bundle, case, seed=1).wrong


def test_orders_beyond_limits_are_found_out(bundle, monkeypatch):
    """Even if all of the program takes them for sendable."""
    far = Order(np.full(29, 9.0), np.ones(29), np.ones(29))
    monkeypatch.setattr(safety, "sendable", lambda *_: True)

    def inject(case):
        case.rig.loop.pilot.order = lambda action: far

    found = faults_in_simulation.run(
        bundle, FaultCase("far", "goes on", inject), seed=1
    )
    assert "out of limits" in found.wrong


def test_results_have_a_row_for_every_fault(bundle):
    """Wrong ones are counted, and times are the largest."""
    one = faults_in_simulation.run(bundle, CASES[0], seed=2)
    message = simulated_results([one, replace(one, wrong="x", safe_ms=19)], "hash")
    values = {r.metric: r.value for r in message}
    assert values["wrong"] == 1 and values["safe within"] == 19.0
    assert values["braking within"] == one.damped_ms

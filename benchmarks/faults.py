"""Inject every fault many times, in simulated and in real time, and report the results.

`python benchmarks/faults.py simulated` injects 25 faults 44 times each into drives in
simulated time; `python benchmarks/faults.py real_time` injects faults into the program
that drives a robot, with its own processes, DDS on the loopback interface and the clock
of this machine. The faults themselves are in tests/rigs.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
from report import main
from tqdm import tqdm

from spectral_skills.api import bundle as base_bundle
from spectral_skills.control.bundle import Bundle
from spectral_skills.results import Result
from spectral_skills.runtime.guard import raise_priority

sys.path.append(str(Path(__file__).parents[1] / "tests" / "rigs"))
from faults_in_simulation import CASES, WITHIN_MS, FaultCase, Outcome, run  # noqa: E402
from live_faults import CASES as LIVE_CASES  # noqa: E402
from live_faults import LiveCase, LiveOutcome, inject  # noqa: E402
from live_rig import Driver, LiveRobot  # noqa: E402
from loopback import free_domain  # noqa: E402
from stalls import Stalls  # noqa: E402

EACH, LIVE_EACH = 44, 8
"""Injections of each fault, in simulated and in real time."""
_TRIES = 20
"""Attempts at one injection on a machine that keeps standing still."""
_QUIET_S, _PATIENCE_S = 2.0, 120.0
"""Time that the machine must not stand still before a drive, and the longest wait."""


def simulated(device: str) -> list[Result]:
    """Inject every fault at random times into drives in simulated time."""
    folder = base_bundle()
    jobs = [(folder, case.name, seed) for seed in range(EACH) for case in CASES]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(_one, *zip(*jobs, strict=True), chunksize=5)
        outcomes = list(tqdm(found, total=len(jobs), unit=" injections", disable=None))
    for one in outcomes:
        if one.wrong:
            print(f"wrong     {one.case}, at {one.onset_ms} ms: {one.wrong}")
    return simulated_results(outcomes, Bundle.open(folder).manifest.controller)


@cache
def _bundle(folder: Path) -> Bundle:
    return Bundle.open(folder)


def _one(folder: Path, name: str, seed: int) -> Outcome:
    case = next(case for case in CASES if case.name == name)
    return run(_bundle(folder), case, seed)


def simulated_results(outcomes: Sequence[Outcome], controller: str) -> list[Result]:
    """Return one row for every fault."""
    return _rows(
        "Faults injected, in simulated time", CASES, outcomes, controller, "safe within"
    )


def real_time(device: str) -> list[Result]:
    """Inject faults into a drive over DDS in real time."""
    folder = base_bundle()
    outcomes = live_campaign(folder, LIVE_EACH)
    return live_results(outcomes, Bundle.open(folder).manifest.controller)


def live_campaign(
    folder: Path, each: int, cases: Sequence[LiveCase] = LIVE_CASES
) -> list[LiveOutcome]:
    """Inject each fault so many times, again where the machine stood still."""
    raise_priority(60)  # a robot does not wait for programs, nor do its DDS threads
    domain = free_domain()
    robot, found = LiveRobot(domain), []
    with tempfile.TemporaryDirectory() as out, Stalls() as stalls:
        jobs = [case for _ in range(each) for case in cases]
        for case in tqdm(jobs, unit=" injections", disable=None):
            for _ in range(_TRIES):
                stalls.await_quiet(_QUIET_S, _PATIENCE_S)
                draw = np.random.default_rng(len(found))
                with Driver(folder, domain, Path(out) / str(len(found))) as driver:
                    one = inject(robot, stalls, driver, case, draw)
                found.append(one)
                if one.wrong:
                    still = " while the machine stood still" * one.stood_still
                    tqdm.write(f"wrong     {case.name}{still}: {one.wrong}")
                if not one.stood_still:
                    break
    return found


def live_results(outcomes: Sequence[LiveOutcome], controller: str) -> list[Result]:
    """Return one row for every fault, and one for a machine that stood still."""
    table = "Faults injected, in real time over DDS"
    good = [one for one in outcomes if not one.stood_still]
    found = _rows(table, LIVE_CASES, good, controller, "last order or braking within")
    for case in LIVE_CASES:
        ours = [one for one in good if one.case == case.name]
        if ours:
            gap = float(max(one.gap_ms for one in ours))
            row, metric = f"{case.name}: {case.reaction}", "longest without a command"
            found.append(
                Result(table, row, metric, gap, "ms", len(ours), run=controller[:8])
            )
    still = [one for one in outcomes if one.stood_still]
    wrong = float(sum(bool(one.wrong) for one in still))
    row = "the machine stood still, made again"
    return [
        *found,
        Result(table, row, "wrong", wrong, n=len(still), run=controller[:8]),
    ]


def _rows(
    table: str,
    cases: Sequence[FaultCase] | Sequence[LiveCase],
    outcomes: Sequence[Outcome] | Sequence[LiveOutcome],
    controller: str,
    safe: str,
) -> list[Result]:
    found = []
    for case in cases:
        ours = [one for one in outcomes if one.case == case.name]
        if not ours:
            continue
        damped = [one.damped_ms for one in ours if one.damped_ms is not None]
        logged = [one.logged_ms for one in ours if one.logged_ms is not None]
        cells = {
            "wrong": (sum(bool(one.wrong) for one in ours), "", "0"),
            safe: (max(one.safe_ms for one in ours), "ms", str(WITHIN_MS)),
        }
        if damped:
            cells["braking within"] = max(damped), "ms", ""
        if logged:
            cells["logged within"] = max(logged), "ms", ""
        row = f"{case.name}: {case.reaction}"
        found += [
            Result(
                *(table, row, metric, float(value), unit, len(ours)),
                run=controller[:8],
                paper=goal,
            )
            for metric, (value, unit, goal) in cells.items()
        ]
    return found


if __name__ == "__main__":
    main(simulated, real_time)

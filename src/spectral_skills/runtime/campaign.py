"""Many injections of every fault, and what is told of them."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from tqdm import tqdm

from spectral_skills.control.bundle import Bundle
from spectral_skills.results import Result, hardware
from spectral_skills.runtime.faults import CASES, WITHIN_MS, FaultCase, Outcome, run

EACH = 44
"""Injections of each fault: 1,100 of all 25."""
TABLE = "Faults injected, in made time"


def faults(device: str) -> list[Result]:
    """Inject every fault at random times; says what motors got and when."""
    from spectral_skills.runtime.released import base_bundle

    folder = base_bundle()
    outcomes = campaign(folder, EACH)
    for one in outcomes:
        if one.wrong:
            print(f"wrong     {one.case}, at {one.onset_ms} ms: {one.wrong}")
    return results(outcomes, Bundle.open(folder).manifest.controller)


def campaign(folder: Path, each: int, cases: Sequence[FaultCase] = CASES):
    """`each` injections of all faults, on all cores."""
    jobs = [(folder, case.name, seed) for seed in range(each) for case in cases]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(_one, *zip(*jobs, strict=True), chunksize=5)
        return list(tqdm(found, total=len(jobs), unit=" injections", disable=None))


@cache
def _bundle(folder: Path) -> Bundle:
    return Bundle.open(folder)


def _one(folder: Path, name: str, seed: int) -> Outcome:
    case = next(case for case in CASES if case.name == name)
    return run(_bundle(folder), case, seed)


def results(outcomes: Sequence[Outcome], controller: str) -> list[Result]:
    """One row for every fault."""
    found = []
    for case in CASES:
        ours = [one for one in outcomes if one.case == case.name]
        if not ours:
            continue
        damped = [one.damped_ms for one in ours if one.damped_ms is not None]
        logged = [one.logged_ms for one in ours if one.logged_ms is not None]
        cells = {
            "wrong": (float(sum(bool(one.wrong) for one in ours)), "", "0"),
            "safe within": (
                *(float(max(one.safe_ms for one in ours)), "ms"),
                str(WITHIN_MS),
            ),
        }
        if damped:
            cells["braking within"] = float(max(damped)), "ms", ""
        if logged:
            cells["logged within"] = float(max(logged)), "ms", ""
        found += [
            Result(
                *(TABLE, f"{case.name}: {case.reaction}", metric, value, unit),
                n=len(ours),
                run=controller[:8],
                paper=goal,
                command="spectral bench faults",
                hardware=hardware("cpu"),
            )
            for metric, (value, unit, goal) in cells.items()
        ]
    return found

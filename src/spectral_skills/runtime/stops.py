"""Many injections of every fault in real time, and what is told of them."""

import random
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from spectral_skills.control.bundle import Bundle
from spectral_skills.results import Result, hardware
from spectral_skills.runtime.faults import WITHIN_MS
from spectral_skills.runtime.live import CASES, LiveCase, Outcome, inject
from spectral_skills.runtime.live_rig import Driver, LiveRobot
from spectral_skills.runtime.priority import come_first
from spectral_skills.runtime.stalls import Stalls

EACH = 8
"""Injections of each fault."""
TABLE = "Faults injected, in real time over DDS"
_TRIES = 20
"""Of one injection, on a machine that stands still again and again."""
_QUIET_S, _PATIENCE_S = 2.0, 120.0
"""Before a drive the machine should not have stood still; so long is waited for it."""


def stops(device: str) -> list[Result]:
    """Inject faults into a drive over DDS in real time; says what motors got."""
    from spectral_skills.runtime.released import base_bundle

    folder = base_bundle()
    return results(campaign(folder, EACH), Bundle.open(folder).manifest.controller)


def campaign(
    folder: Path, each: int, cases: Sequence[LiveCase] = CASES
) -> list[Outcome]:
    """`each` injections of all faults, with those that had to be made again."""
    come_first(60)  # a robot does not wait for programs, nor do its threads of DDS
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


def free_domain() -> int:
    """A DDS domain whose first port nobody uses."""
    for domain in random.sample(range(100, 200), 100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", 7400 + 250 * domain + 10))
            except OSError:
                continue
            return domain
    raise OSError("no UDP port of DDS can be bound on the loopback interface")


def results(outcomes: Sequence[Outcome], controller: str) -> list[Result]:
    """One row for every fault, and one for a machine that stood still."""
    found, machine = [], hardware("cpu")

    def add(row: str, metric: str, value: float, unit: str, n: int, goal: str = ""):
        found.append(
            Result(
                *(TABLE, row, metric, float(value), unit, n),
                run=controller[:8],
                paper=goal,
                command="spectral bench stops",
                hardware=machine,
            )
        )

    for case in CASES:
        ours = [o for o in outcomes if o.case == case.name and not o.stood_still]
        if not ours:
            continue
        row, n = f"{case.name}: {case.reaction}", len(ours)
        add(row, "wrong", sum(bool(one.wrong) for one in ours), "", n, "0")
        safe = max(one.safe_ms for one in ours)
        add(row, "last order or braking within", safe, "ms", n, str(WITHIN_MS))
        damped = [one.damped_ms for one in ours if one.damped_ms is not None]
        if damped:
            add(row, "braking within", max(damped), "ms", n)
            add(row, "braking, median", float(np.median(damped)), "ms", n)
        add(row, "longest without a command", max(o.gap_ms for o in ours), "ms", n)
        logged = [one.logged_ms for one in ours if one.logged_ms is not None]
        if logged:
            add(row, "logged within", max(logged), "ms", n)
    still = [one for one in outcomes if one.stood_still]
    row = "the machine stood still, made again"
    add(row, "wrong", sum(bool(one.wrong) for one in still), "", len(still))
    return found

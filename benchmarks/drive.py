"""How long a control step takes on one core, and how well a loop keeps its time."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from report import main

from spectral_skills.api import bundle as base_bundle
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.loop import PERIOD_S, SETTLE_S, ControlLoop, Timing
from spectral_skills.control.loop import drive as run
from spectral_skills.control.mixer import REST, Cue, Mixer
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.control.streams import LivePlanner
from spectral_skills.results import Result
from spectral_skills.runtime.guard import raise_priority

MINUTES = 10.0
PACED_S = 60.0
_EVERY = 200
"""Steps from one change to the next."""
_GOAL_MS = 4.0
_LIES_M = 0.3
"""Height of the pelvis of a robot that lies."""


def drive(device: str) -> list[Result]:
    """Ten minutes of simulated driving on one core, then a minute in real time, with
    the priority that a robot's drive asks for, and one with a planner beside."""
    bundle = Bundle.open(base_bundle())
    with one_core():
        fast, falls = measure(bundle, 60.0 * MINUTES)
        live = LivePlanner.of(bundle)  # its thread keeps the usual priority
        raise_priority(40)
        paced, _ = measure(bundle, PACED_S, paced=True)
        rows = {"ten minutes, as fast as they go": fast, "a minute in real time": paced}
        if live is not None:
            row = "a minute in real time, planning beside on the same core"
            rows[row], _ = measure(bundle, PACED_S, paced=True, live=live)

    def result(row: str, metric: str, value: float, unit: str, n: int, goal: str = ""):
        return Result(
            *("Driving: time of a control step", row, metric, value, unit, n),
            run=bundle.manifest.controller[:8],
            paper=goal,
        )

    found = []
    for row, timing in rows.items():
        compute, n = 1000 * np.array(timing.compute), len(timing.compute)
        goal = f"under {_GOAL_MS:g}"
        for metric, share, limit in (
            ("median", 0.5, ""),
            ("99.9th percentile", 0.999, goal),
            ("longest", 1.0, ""),
        ):
            value = float(np.quantile(compute, share))
            found.append(result(row, metric, value, "ms", n, limit))
        if any(timing.late):
            late = float(np.quantile(timing.late, 0.999))
            found.append(result(row, "late, 99.9th percentile", 1000 * late, "ms", n))
    name = "ten minutes, as fast as they go"
    return [*found, result(name, "falls", falls, "", len(fast.compute), "0")]


def measure(
    bundle: Bundle,
    seconds: float,
    *,
    paced: bool = False,
    live: LivePlanner | None = None,
    seed: int = 0,
) -> tuple[Timing, int]:
    """Drive with something new every four seconds; gives times and falls.

    A robot that is stopped, because it fell or for another reason, is put on its feet
    and started again.
    """
    robot = SimulatedRobot(noise=1.0, seed=seed)
    change = _changes(bundle, np.random.default_rng(seed), live is not None)
    timing, falls, steps = Timing([], []), 0, round(seconds / PERIOD_S)
    while len(timing.compute) < steps:
        robot.reset(bundle.base(REST).rows[0])
        loop = ControlLoop(bundle, live, ramp_s=0.1)
        done, last = 0, REST

        def after(loop: ControlLoop) -> bool:
            nonlocal done, last
            done += 1
            if done > SETTLE_S * 100 and done % _EVERY == 0:
                last = loop.mixer.playing
                change(loop.mixer)
            return loop.fault is not None or robot.qpos[2] < _LIES_M

        left = (steps - len(timing.compute)) * PERIOD_S
        part = run(loop, robot, left, after, lambda: robot.time_s, paced)
        timing.compute.extend(part.compute)
        timing.late.extend(part.late)
        if loop.fault is not None or robot.qpos[2] < _LIES_M:
            falls += 1
            why = loop.fault or "fallen"
            print(f"fell      from {last} to {loop.mixer.playing}: {why}")
    return timing, falls


def _changes(
    bundle: Bundle, random: np.random.Generator, planned: bool
) -> Callable[[Mixer], None]:
    """What happens every four seconds: another base or sentence, and faders."""
    measured = () if bundle.directions is None else bundle.directions.measured
    ranges: dict[str, list[tuple[float, float]]] = {}
    for one in measured:
        ranges.setdefault(one["direction"], []).append(one["safe"])
    safe = {  # on all bases that were tried, where it was more than one
        name: (max(low for low, _ in found), min(high for _, high in found))
        for name, found in ranges.items()
        if len(found) > 1
    }

    def change(mixer: Mixer) -> None:
        if planned:
            sentences = bundle.manifest.sentences
            _, sentence = sentences[int(random.integers(len(sentences)))]
            mixer.play(Cue(sentence, planned=True))
            return
        bases = bundle.bases.values()
        name = random.choice([b.name for b in bases if mixer.upright(b)])
        mixer.play(Cue(str(name), fade=int(random.integers(5, 31))))
        mixer.release()
        for direction in random.permutation(list(safe))[:2].tolist():
            low, high = safe[direction]
            mixer.move(direction, 0.5 * float(random.uniform(low, high)))

    return change


@contextmanager
def one_core() -> Iterator[None]:
    """Keep to one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    main(drive)

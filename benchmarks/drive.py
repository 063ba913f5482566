"""How long a control step takes on one core, and how well a loop keeps its time."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from report import main

from spectral_skills.api import bundle as base_bundle
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.loop import SETTLE_S, ControlLoop, Timing
from spectral_skills.control.loop import drive as run
from spectral_skills.control.mixer import Cue, LivePlanner, Mixer
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.results import Result

MINUTES = 10.0
PACED_S = 60.0
_EVERY = 200
"""Steps from one change to the next."""
_GOAL_MS = 4.0


def drive(device: str) -> list[Result]:
    """Ten minutes of simulated driving on one core, then a minute in real time."""
    bundle = Bundle.open(base_bundle())
    with one_core():
        fast, falls = measure(bundle, 60.0 * MINUTES)
        paced, _ = measure(bundle, PACED_S, paced=True)
        planned, _ = measure(bundle, PACED_S, paced=True, planned=True)
    rows = {
        "ten minutes, as fast as they go": fast,
        "a minute in real time": paced,
        "a minute in real time, planning beside on the same core": planned,
    }

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
    planned: bool = False,
    seed: int = 0,
) -> tuple[Timing, int]:
    """Drive with something new every four seconds; gives times and falls."""
    live = LivePlanner.of(bundle) if planned else None
    robot = SimulatedRobot(noise=1.0, seed=seed)
    loop = ControlLoop(bundle, live, ramp_s=0.1)
    change = _changes(bundle, np.random.default_rng(seed), planned)
    falls = steps = 0

    def after(loop: ControlLoop) -> None:
        nonlocal falls, steps
        steps += 1
        if steps > SETTLE_S * 100 and steps % _EVERY == 0:
            change(loop.mixer)
        if robot.qpos[2] < 0.3:
            falls += 1
            robot.reset(bundle.base("stand").rows[0])

    timing = run(loop, robot, seconds, after, lambda: robot.time_s, paced)
    if loop.fault is not None:
        falls += 1
    return timing, falls


def _changes(
    bundle: Bundle, random: np.random.Generator, planned: bool
) -> Callable[[Mixer], None]:
    """What happens every four seconds: another base or sentence, and faders."""
    measured = () if bundle.directions is None else bundle.directions.measured
    safe = {one["direction"]: one["safe"] for one in measured if one["base"] == "walk"}

    def change(mixer: Mixer) -> None:
        if planned:
            sentences = bundle.manifest.sentences
            _, sentence = sentences[int(random.integers(len(sentences)))]
            mixer.play(Cue(sentence, planned=True))
            return
        name = str(random.choice(list(bundle.bases)))
        mixer.play(Cue(name, fade=int(random.integers(5, 31))))
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

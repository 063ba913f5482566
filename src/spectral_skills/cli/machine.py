"""Verbs about this machine. Each imports what it needs when it runs."""

from pathlib import Path
from typing import Literal

from spectral_skills.cli.shared import device_or_best

What = Literal[
    "kinematics",
    "windows",
    "corpus",
    "ik",
    "synth",
    "pretrain",
    "support",
    "physics",
    "track",
    "evaluate",
    "planner",
    "drive",
    "faults",
    "stops",
]


def doctor() -> int:
    """Check the installation: versions, devices, rendering, missing parts."""
    from spectral_skills.doctor import examine

    return examine()


def bench(
    what: What,
    /,
    *,
    device: str = "cpu",
    learner: Literal["ppo", "sac"] | None = None,
    record: Path | None = None,
) -> None:
    """Measure speed against the physical limit of this machine.

    Args:
        what: The part to measure.
        device: cpu or cuda.
        learner: Of `track` alone: what learns, ppo by default; sac as in the recipe
            lafan1.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from importlib import import_module

    from spectral_skills.plots.tables import publish, show

    if learner is not None and what != "track":
        raise ValueError(f"--learner is for `bench track`; leave it away for {what}")
    rooms = {
        "ik": "motion.bench_ik",
        "pretrain": "skill.bench",
        "support": "spectral.bench",
        "physics": "physics.bench",
        "track": "tracking.bench",
        "evaluate": "evaluation.bench",
        "planner": "planner.bench",
        "drive": "deploy.bench",
        "faults": "deploy.campaign",
        "stops": "deploy.stops",
    }
    room = rooms.get(what, "motion.bench")
    measure = getattr(import_module(f"spectral_skills.{room}"), what)
    chosen = [] if learner is None else [learner]
    results = measure(device_or_best(device), *chosen)
    show(results)
    if record is not None:
        publish(results, record)

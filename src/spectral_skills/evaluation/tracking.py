"""Tracking scores of a controller: rows for all clips and for each kind of motion."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.evaluation import metrics
from spectral_skills.evaluation.course import Course
from spectral_skills.evaluation.errors import CAUSES
from spectral_skills.evaluation.metrics import Episodes, Measure
from spectral_skills.motion import kinds
from spectral_skills.motion.bench import hardware
from spectral_skills.results import Result
from spectral_skills.tracking import terminations
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.terminations import TerminationConfig

TABLE = "tracking"
PAPER = {
    ("all", "success_rate"): "0.983",
    ("all", "mpjpe_local_mm"): "20.55",
    ("all", "mpjpe_global_mm"): "70.13",
    ("all", "root_drift_mm"): "63.20",
    ("all", "root_and_local_mm"): "66.46",
    ("all", "final_error_mm"): "17",
    ("all", "drift_slope_mm_s"): "10",
    ("all", "across_mm"): "12",
    ("windows", "complete_share"): "0.743 at 6 B frames, 0.799 at 27 B",
    ("windows", "fall_free_share"): "0.831 at 6 B frames, 0.835 at 27 B",
}
"""Whole clips: the paper's 4,096 of BONES-SEED after 50 B frames; windows: LAFAN1."""
CONTRACT = ("success_rate", "mpjpe_local_mm", "mpjpe_global_mm", "root_drift_mm")
"""What a row `all` has in every file of results."""


@dataclass(frozen=True)
class ClipOutcome:
    """What became of one clip or window."""

    name: str
    kind: str
    frames: int
    success: bool
    cause: str
    """Empty where nothing failed."""
    failed_at: int
    """First failing frame from the start on; 0: none."""
    mpjpe_local_mm: float | None
    """Over the frames before the failure; None where there is none."""
    mpjpe_global_mm: float | None
    root_drift_mm: float | None
    final_error_mm: float | None
    """Root error at the last frame, whatever happened before."""


@dataclass(frozen=True)
class Evaluation:
    """Scores, and what they are made of."""

    results: list[Result]
    outcomes: list[ClipOutcome]
    episodes: Episodes


def evaluate(
    controller: Controller,
    course: Course,
    command: str = "",
    run_hash: str = "",
) -> Evaluation:
    """Score a controller on every clip of a course, or on its windows."""
    episodes = course.episodes(controller)
    names = course.kinds()
    kind_of = np.array(names)
    every = np.ones(len(kind_of), bool)
    rows = {"all": every} | {k: kind_of == k for k in kinds.KINDS if k in kind_of}
    found = {}
    for row, chosen in rows.items():
        some = episodes.select(chosen)
        if course.whole:
            found[row] = metrics.summary(some)
        else:
            row = "windows" if row == "all" else f"windows, {row}"
            found[row] = window_summary(some)
    whole = next(iter(found))
    found[whole] = found[whole] + failures(episodes)
    if not course.whole:
        # As every file of results has it, of windows that end well.
        found["all"] = [m for m in metrics.summary(episodes) if m.name in CONTRACT]
    results = [
        Result(
            TABLE,
            row,
            m.name,
            m.value,
            m.unit,
            n=m.n,
            paper=PAPER.get((row, m.name), "") if row == whole else "",
            run=run_hash or course.corpus.hash[:8],
            command=command,
            hardware=hardware(str(course.device)),
        )
        for row, measures in found.items()
        for m in measures
    ]
    return Evaluation(results, outcomes(episodes, names), episodes)


def strict() -> TerminationConfig:
    """The paper's rules and SONIC's: a foot must be within 0.2 m of its place."""
    return replace(
        terminations.evaluation(),
        foot_position_m=TerminationConfig().foot_position_m,
    )


def failures(episodes: Episodes) -> list[Measure]:
    """How many episodes failed for each cause."""
    n = len(episodes.names)
    counts = np.bincount(episodes.cause[episodes.cause >= 0], minlength=len(CAUSES))
    named = zip(CAUSES, counts.tolist(), strict=True)
    return [Measure(f"failed_{name}", float(c), "", n) for name, c in named if c]


def window_summary(episodes: Episodes) -> list[Measure]:
    """Windows that end well, and errors before failures and before falls."""
    n = len(episodes.names)
    complete = int(episodes.success.sum())
    fall_free = int((episodes.fell_at == 0).sum())
    found = [
        Measure("complete", complete, "", n),
        Measure("complete_share", complete / n, "", n),
        Measure("fall_free", fall_free, "", n),
        Measure("fall_free_share", fall_free / n, "", n),
        metrics.relative_falls(episodes),
    ]
    survived = np.where(episodes.success, episodes.frames, episodes.failed_at - 1)
    some = survived > 0
    if some.any():
        for name in ("local", "global"):
            values = getattr(episodes, f"{name}_mm")[some]
            mean = float(np.average(values, weights=survived[some]))
            found.append(Measure(f"mpjpe_{name}_mm", mean, "mm", int(some.sum())))
    for name in ("local", "global"):
        values = getattr(episodes, f"upright_{name}_mm")
        values = values[np.isfinite(values)]
        if len(values):
            mean, median = float(values.mean()), float(np.median(values))
            label = f"upright_mpjpe_{name}"
            found.append(Measure(f"{label}_mean_mm", mean, "mm", len(values)))
            found.append(Measure(f"{label}_median_mm", median, "mm", len(values)))
    return found


def outcomes(episodes: Episodes, kind_of: Sequence[str]) -> list[ClipOutcome]:
    """One line for every episode."""

    def number(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return [
        ClipOutcome(
            name=episodes.names[i],
            kind=kind,
            frames=int(episodes.frames[i]) + 1,
            success=bool(episodes.success[i]),
            cause=CAUSES[episodes.cause[i]] if episodes.cause[i] >= 0 else "",
            failed_at=int(episodes.failed_at[i]),
            mpjpe_local_mm=number(episodes.local_mm[i]),
            mpjpe_global_mm=number(episodes.global_mm[i]),
            root_drift_mm=number(episodes.root_mm[i]),
            final_error_mm=number(episodes.final_mm[i]),
        )
        for i, kind in enumerate(kind_of)
    ]


def save_outcomes(path: Path, outcomes: Sequence[ClipOutcome]) -> None:
    """Write outcomes as JSON lines."""
    write_file(path, "".join(json.dumps(asdict(o)) + "\n" for o in outcomes))

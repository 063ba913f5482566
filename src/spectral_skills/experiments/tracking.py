"""Tracking scores of a controller: rows for all clips and for each kind of motion."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.control import metrics
from spectral_skills.control.metrics import CAUSES, Episodes, Measure
from spectral_skills.experiments.course import Course
from spectral_skills.motion import kinds
from spectral_skills.results import Result, hardware
from spectral_skills.tracking import terminations
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.terminations import TerminationConfig

TABLE = "tracking"
PAPER = {
    "success_rate": "0.983",
    "mpjpe_local_mm": "20.55",
    "mpjpe_global_mm": "70.13",
    "root_drift_mm": "63.20",
    "root_and_local_mm": "66.46",
    "final_error_mm": "17",
    "drift_slope_mm_s": "10",
    "across_mm": "12",
}
"""Of all clips: the paper's 4,096 of BONES-SEED after 50 B frames."""
PAPER_CAUSES = ("anchor_orientation", "end_effector_height", "anchor_height")
"""By which an episode fails under the paper's rules, in the paper's order."""


@dataclass(frozen=True)
class ClipOutcome:
    """What became of one clip or window."""

    name: str
    kind: str
    start: int
    """Frame of the clip it begins at."""
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
    fell_at: int
    """First frame with a low torso over a reference that stands; 0: none."""
    sank_at: int
    """First frame of half a second far below the reference; 0: none."""
    whole_local_mm: float | None
    """MPJPE-L over all frames, those after a failure included."""
    whole_global_mm: float | None
    broken: int
    """Frames at which the simulation was broken, which no error counts."""
    setting: str = ""
    """Where several are measured: windows, whole clips or first 15 s."""


@dataclass(frozen=True)
class Evaluation:
    """Scores, and what they are made of."""

    results: list[Result]
    outcomes: list[ClipOutcome]


def evaluate(
    controller: Controller,
    course: Course,
    command: str = "",
    run_hash: str = "",
) -> Evaluation:
    """Score a controller on every clip of a course."""
    episodes = course.episodes(controller)
    names = course.kinds()
    found = {"all": metrics.summary(episodes) + failures(episodes)}
    for kind, some in by_kind(episodes, names).items():
        found[kind] = metrics.summary(some)
    results = [
        Result(
            TABLE,
            row,
            m.name,
            m.value,
            m.unit,
            n=m.n,
            paper=PAPER.get(m.name, "") if row == "all" else "",
            run=run_hash or course.corpus.hash[:8],
            command=command,
            hardware=hardware(str(course.device)),
        )
        for row, measures in found.items()
        for m in measures
    ]
    return Evaluation(results, outcomes(episodes, names, course.spans[:, 1]))


def by_kind(episodes: Episodes, kind_of: Sequence[str]) -> dict[str, Episodes]:
    """The episodes of every kind of motion that there is."""
    names = np.array(kind_of)
    return {k: episodes.select(names == k) for k in kinds.KINDS if k in names}


def strict() -> TerminationConfig:
    """The paper's rules and SONIC's: a foot must be within 0.2 m of its place."""
    return replace(
        terminations.evaluation(),
        foot_position_m=TerminationConfig().foot_position_m,
    )


def failures(episodes: Episodes) -> list[Measure]:
    """How many episodes failed first for each of the paper's causes, and for others
    where there are any."""
    n = len(episodes.names)
    counts = np.bincount(episodes.cause[episodes.cause >= 0], minlength=len(CAUSES))
    named = zip(CAUSES, counts.tolist(), strict=True)
    return [
        Measure(f"failed_{name}", float(count), "", n)
        for name, count in named
        if count or name in PAPER_CAUSES
    ]


def outcomes(
    episodes: Episodes, kind_of: Sequence[str], starts: np.ndarray, setting: str = ""
) -> list[ClipOutcome]:
    """One line for every episode."""

    def number(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return [
        ClipOutcome(
            name=episodes.names[i],
            kind=kind,
            start=int(starts[i]),
            frames=int(episodes.frames[i]) + 1,
            success=bool(episodes.success[i]),
            cause=CAUSES[episodes.cause[i]] if episodes.cause[i] >= 0 else "",
            failed_at=int(episodes.failed_at[i]),
            mpjpe_local_mm=number(episodes.local_mm[i]),
            mpjpe_global_mm=number(episodes.global_mm[i]),
            root_drift_mm=number(episodes.root_mm[i]),
            final_error_mm=number(episodes.final_mm[i]),
            fell_at=int(episodes.fell_at[i]),
            sank_at=int(episodes.sank_at[i]),
            whole_local_mm=number(episodes.whole_local_mm[i]),
            whole_global_mm=number(episodes.whole_global_mm[i]),
            broken=int(episodes.broken[i]),
            setting=setting,
        )
        for i, kind in enumerate(kind_of)
    ]


def save_outcomes(path: Path, outcomes: Sequence[ClipOutcome]) -> None:
    """Write outcomes as JSON lines."""
    write_file(path, "".join(json.dumps(asdict(o)) + "\n" for o in outcomes))

"""The paper's two tables of LAFAN1: windows, whole clips and their first 15 s.

Two runs suffice. 20 windows of each clip are judged by the rules and by two tests of a
fall. The 40 clips are run once from their first frame to their last, whatever happens
in between: that one record shows where a rule would end an episode, where a robot fell,
and how the first 15 s went. `LINES` holds the paper's numbers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes, Measure
from spectral_skills.experiments.findings import paper
from spectral_skills.experiments.tracking import (
    WINDOW_FRAMES,
    Course,
    Evaluation,
    Rows,
    by_kind,
    failures,
    outcomes,
    results,
)
from spectral_skills.models import Models
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.physics.base import Physics

TABLE = "LAFAN1"
STARTS, SEED = 20, 0
"""Number of windows of each clip, and the seed of their start frames."""
FIRST_FRAMES = 15 * FPS
"""Number of frames of the first 15 s, including the start, as of a window."""
WINDOWS, WHOLE, FIRST = "windows", "whole clips", "first 15 s"
"""Settings, as rows and outcomes name them."""
GET_UP = "fall"
"""Kind of the six clips that fall and get up."""


class Line(NamedTuple):
    """A number of the paper's tables."""

    row: str
    metric: str
    label: str
    few: str = ""
    """The paper after 6.0 B frames."""
    many: str = ""
    """The paper after 27.0 B frames."""
    bfm: str = ""
    """BFM-Zero as the paper measured it, in another simulator."""

    @property
    def section(self) -> str:
        return WINDOWS if self.row == "all" else self.row.split(":")[0]

    @property
    def paper(self) -> str:
        both = (self.few, "6 B"), (self.many, "27 B")
        return ", ".join(f"{value} at {frames}" for value, frames in both if value)


LINES = tuple(Line(*values) for values in paper("lafan1", "lines"))


def evaluate(
    models: Models,
    corpus: Corpus,
    device: str = "cpu",
    whole: bool = True,
    physics: Callable[[int], Physics] | None = None,
) -> Evaluation:
    """Score a controller on windows of the 40 clips and, with `whole`, on the clips."""
    corpus = corpus.select(motion_sets.lafan1(corpus))
    starts = motion_sets.lafan1_windows(corpus, STARTS, WINDOW_FRAMES / FPS, SEED)
    course = Course(corpus, device, starts, WINDOW_FRAMES, physics)
    windows, kind_of = course.episodes(models), course.kinds()
    rows = window_rows(windows, kind_of)
    found = outcomes(windows, kind_of, course.spans[:, 1], WINDOWS)
    if whole:
        course = Course(corpus, device, physics=physics)
        lasts, kind_of = [int(corpus.lengths.max()), FIRST_FRAMES], course.kinds()
        clips, beginnings = course.beginnings(models, lasts)
        rows |= whole_rows(clips, kind_of) | first_rows(beginnings)
        for episodes, setting in ((clips, WHOLE), (beginnings, FIRST)):
            found += outcomes(episodes, kind_of, course.spans[:, 1], setting)
    return Evaluation(results(TABLE, rows, models, course, _paper), found)


def _paper(row: str) -> dict[str, str]:
    return {line.metric: line.paper for line in LINES if line.row == row}


def window_rows(windows: Episodes, kind_of: Sequence[str]) -> Rows:
    """All windows, the complete ones, and those of every kind of motion."""
    complete = windows.select(windows.success)
    wanted = ("success_rate", "mpjpe_local_mm", "mpjpe_global_mm", "root_drift_mm")
    wanted += ("path_share", "joint_correlation")
    found = {
        WINDOWS: _stood(windows, "complete")
        + _spread(windows, "upright_")
        + failures(windows)
        + _broken(windows),
        # Of complete windows, as in every file of results.
        "all": [m for m in metrics.summary(windows) if m.name in wanted]
        + metrics.steadiness(complete),
    }
    for kind, some in by_kind(windows, kind_of).items():
        found[f"{WINDOWS}, {kind}"] = _stood(some, "complete") + failures(some)
    return found


def whole_rows(clips: Episodes, kind_of: Sequence[str]) -> Rows:
    """Whole clips that end at the first failure, and those that never end early."""
    complete = clips.select(clips.success)
    downs = np.array([kind == GET_UP for kind in kind_of])
    free, total = clips.sank_at == 0, clips.frames - clips.broken
    survived = float(clips.survived.mean())
    ended, endless = f"{WHOLE}, terminating", f"{WHOLE}, no termination"
    found = {
        ended: [
            _count("success", clips.success),
            _count("followed", clips.followed),
            Measure("survived_steps", survived, "", len(clips.names)),
            *failures(clips),
            *_weighted(complete, "", complete.frames),
            _count("get_ups", clips.success[downs]),
            *metrics.steadiness(complete),
        ],
        endless: [
            _count("fall_free_relative", free),
            _count("fall_free_relative_without_get_ups", free[~downs]),
            *_spread(clips, "whole_"),
            *_weighted(clips, "whole_", total),
            *_broken(clips),
        ],
        f"{endless}: without a fall": _weighted(clips, "whole_", total, free),
        f"{endless}: fall and get up": _weighted(clips, "whole_", total, downs),
        f"{endless}: before a fall": _weighted(clips, "afloat_", clips.afloat),
    }
    for kind, some in by_kind(clips, kind_of).items():
        progress = Measure("progress", float(some.progress.mean()), "", len(some.names))
        rows = _stood(some, "success") + failures(some)
        found[f"{WHOLE}, {kind}"] = [*rows, progress]
    return found


def first_rows(clips: Episodes) -> Rows:
    complete = clips.select(clips.success)
    high, total = clips.low_at == 0, clips.frames - clips.broken
    means = _weighted(complete, "", complete.frames)
    highs = _weighted(clips, "whole_", total, high)
    endless = f"{FIRST}, no termination"
    return {
        f"{FIRST}, terminating": [_count("success", clips.success), *means],
        endless: _weighted(clips, "whole_", total),
        f"{endless}: torso never below 0.4 m": [_count("clips", high), *highs],
    }


def _count(name: str, happened: np.ndarray) -> Measure:
    return Measure(name, float(happened.sum()), "", len(happened))


def _broken(episodes: Episodes) -> list[Measure]:
    """Number of broken frames, if any: means over all frames omit only these."""
    broken, n = int(episodes.broken.sum()), len(episodes.names)
    return [Measure("broken_frames", float(broken), "", n)] if broken else []


def _stood(episodes: Episodes, success: str) -> list[Measure]:
    """Number of episodes without a failure, those followed, and those without a fall by
    either test."""
    return [
        _count(success, episodes.success),
        _count("followed", episodes.followed),
        _count("fall_free", episodes.fell_at == 0),
        _count("fall_free_relative", episodes.sank_at == 0),
    ]


def _weighted(
    episodes: Episodes, kind: str, frames: np.ndarray, chosen: np.ndarray | bool = True
) -> list[Measure]:
    """Mean errors over the frames of the chosen episodes that have any."""
    some, found = (frames > 0) & chosen, []
    for name in ("local", "global") if some.any() else ():
        values = getattr(episodes, f"{kind}{name}_mm")[some]
        mean = float(np.average(values, weights=frames[some]))
        found.append(Measure(f"mpjpe_{name}_mm", mean, "mm", len(values)))
    return found


def _spread(episodes: Episodes, kind: str) -> list[Measure]:
    """Mean and median errors over the n episodes that have one."""
    found = []
    for name in ("local", "global"):
        values = getattr(episodes, f"{kind}{name}_mm")
        values = values[np.isfinite(values)]
        for by in (np.mean, np.median) if len(values) else ():
            label = f"mpjpe_{name}_{by.__name__}_mm"
            found.append(Measure(label, float(by(values)), "mm", len(values)))
    return found

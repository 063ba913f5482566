"""The paper's two tables of LAFAN1: windows, whole clips and their first 15 s.

Two runs say it all. 20 windows a clip are judged by the rules and by two tests of a
fall. The 40 clips are run once from their first frame to their last, whatever happens
on the way: where a rule ends an episode, where a robot has fallen and what became of
the first 15 s are told from that one record. `LINES` has the paper's numbers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes, Measure
from spectral_skills.experiments.course import WINDOW_FRAMES, Course
from spectral_skills.experiments.tracking import (
    Evaluation,
    by_kind,
    failures,
    outcomes,
)
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.physics.base import Physics
from spectral_skills.results import Result, hardware
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.policy import Controller

TABLE = "LAFAN1"
STARTS, SEED = 20, 0
"""Windows a clip, and what their starts are drawn with."""
FIRST_FRAMES = 15 * FPS
"""Like a window's, with the start among them."""
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
        told = (f"{self.few} at 6 B", f"{self.many} at 27 B")
        return ", ".join(t for t in told if not t.startswith(" "))


def _errors(row: str, label: str, *papers: tuple[str, ...]) -> tuple[Line, ...]:
    """MPJPE-L and MPJPE-G, weighted by frames."""
    return tuple(
        Line(row, f"mpjpe_{name}_mm", f"MPJPE-{name[0].upper()}, {label}", *told)
        for name, told in zip(("local", "global"), papers, strict=True)
    )


def _means(row: str, label: str, *papers: tuple[str, ...]) -> tuple[Line, ...]:
    """Means and medians of MPJPE-L and MPJPE-G over episodes."""
    names = [(e, by) for e in ("local", "global") for by in ("mean", "median")]
    return tuple(
        Line(row, f"mpjpe_{e}_{by}_mm", f"MPJPE-{e[0].upper()}, {by} {label}", *told)
        for (e, by), told in zip(names, papers, strict=True)
    )


def _steady(row: str, label: str) -> tuple[Line, ...]:
    return (
        Line(row, "joint_acceleration", f"joint acceleration, {label} (rad/s^2)"),
        Line(row, "reference_acceleration", "the same of their references"),
        Line(row, "action_rate", f"change of joint targets a step, {label} (rad)"),
    )


_ENDED, _ALL = f"{WHOLE}, terminating", f"{WHOLE}, no termination"
_FREE, _DOWN, _BEFORE = (
    f"{_ALL}: {name}" for name in ("without a fall", "fall and get up", "before a fall")
)
_FIRST_ENDED, _FIRST_ALL = f"{FIRST}, terminating", f"{FIRST}, no termination"
_HIGH = f"{_FIRST_ALL}: torso never below 0.4 m"
LINES: tuple[Line, ...] = (
    Line(WINDOWS, "complete", "complete", "594", "639"),
    Line(WINDOWS, "fall_free", "no fall by the torso", "665", "668"),
    Line(WINDOWS, "fall_free_relative", "no fall by the reference", "", "688"),
    *_means(
        *(WINDOWS, "over windows, before the torso falls"),
        *(("41.0", "32.5"), ("31.0", "25.5"), ("157.1", "101.6"), ("127.6", "78.6")),
    ),
    *_errors("all", "complete windows", (), ()),
    Line("all", "root_drift_mm", "root drift, complete windows"),
    *_steady("all", "complete windows"),
    Line(WINDOWS, "broken_frames", "frames without a simulation"),
    Line(_ENDED, "success", "complete", "10", "17", "0"),
    Line(_ENDED, "survived_steps", "mean steps before the end", "", "7,904", "1,028"),
    Line(_ENDED, "failed_anchor_orientation", "first by orientation", "", "2", "24"),
    Line(_ENDED, "failed_end_effector_height", "first by end effector", "", "19", "15"),
    Line(_ENDED, "failed_anchor_height", "first by pelvis height", "", "2", "1"),
    *_errors(_ENDED, "complete clips", ("22.5", "22.1"), ("85.2", "77.7")),
    Line(_ENDED, "get_ups", "fall-and-get-up clips complete", "", "0", "0"),
    *_steady(_ENDED, "complete clips"),
    Line(_ALL, "fall_free_relative", "no fall by the reference", "23", "24", "30"),
    Line(
        *(
            _ALL,
            "fall_free_relative_without_get_ups",
            "the same without fall-and-get-up clips",
        ),
        *("", "24", "30"),
    ),
    *_means(
        *(_ALL, "over clips"),
        *(("110.9", "98.7"), ("42.7", "27.8"), ("829.9", "578.3"), ("398.4", "142.0")),
    ),
    *_errors(_ALL, "all clips", ("", "85.0", "211.1"), ("", "501.9", "6,372")),
    *_errors(
        _FREE, "clips without a fall", ("", "23.4", "196.4"), ("", "89.4", "6,601")
    ),
    *_errors(
        *(_DOWN, "fall-and-get-up clips"),
        ("", "353.0", "295.7"),
        ("", "2,259", "3,777"),
    ),
    *_errors(
        *(_BEFORE, "before the first fall"),
        ("", "25.8", "201.7"),
        ("", "108.1", "6,462"),
    ),
    Line(_ALL, "broken_frames", "frames without a simulation"),
    Line(_FIRST_ENDED, "success", "complete", "", "34", "19"),
    *_errors(_FIRST_ENDED, "complete clips", ("", "19.6", "42.5"), ("", "52.2", "298")),
    *_errors(_FIRST_ALL, "all clips", ("", "35.7", "72.0"), ("", "183.7", "567")),
    Line(_HIGH, "clips", "torso never below 0.4 m", "", "34", "35"),
    *_errors(_HIGH, "those clips", ("", "19.5", "62.7"), ("", "78.7", "513")),
)


def evaluate(
    controller: Controller,
    corpus: Corpus,
    encoder: SkillEncoder | None,
    device: str = "cpu",
    whole: bool = True,
    physics: Callable[[int], Physics] | None = None,
    command: str = "",
    run_hash: str = "",
) -> Evaluation:
    """Score a controller on windows of the 40 clips and, with `whole`, on the clips."""
    corpus = corpus.select(motion_sets.lafan1(corpus))
    seconds = WINDOW_FRAMES / FPS
    starts = motion_sets.lafan1_windows(corpus, STARTS, seconds, SEED)
    course = Course(corpus, encoder, device, starts, WINDOW_FRAMES, physics)
    windows, names = course.episodes(controller), course.kinds()
    found = window_rows(windows, names)
    told = outcomes(windows, names, course.spans[:, 1], WINDOWS)
    if whole:
        course = Course(corpus, encoder, device, physics=physics)
        lasts, names = [int(corpus.lengths.max()), FIRST_FRAMES], course.kinds()
        clips, beginnings = course.beginnings(controller, lasts)
        found |= whole_rows(clips, names) | first_rows(beginnings)
        for episodes, setting in ((clips, WHOLE), (beginnings, FIRST)):
            told += outcomes(episodes, names, course.spans[:, 1], setting)
    papers = {(line.row, line.metric): line.paper for line in LINES}
    results = [
        Result(
            *(TABLE, row, m.name, m.value, m.unit, m.n, SEED),
            run=run_hash or corpus.hash[:8],
            paper=papers.get((row, m.name), ""),
            command=command,
            hardware=hardware(str(course.device)),
        )
        for row, measures in found.items()
        for m in measures
    ]
    return Evaluation(results, told)


Rows = dict[str, list[Measure]]


def window_rows(windows: Episodes, kind_of: Sequence[str]) -> Rows:
    """All windows, the complete ones, and the windows of every kind of motion."""
    upright = windows.upright_local_mm, windows.upright_global_mm
    complete = windows.select(windows.success)
    wanted = ("success_rate", "mpjpe_local_mm", "mpjpe_global_mm", "root_drift_mm")
    found = {
        WINDOWS: [
            *_stood(windows, "complete"),
            *_spread(*upright),
            *failures(windows),
            *_broken(windows),
        ],
        # As every file of results has it, of what ended well.
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
    free, survived = clips.sank_at == 0, float(clips.survived.mean())
    total = clips.frames - clips.broken
    every = clips.whole_local_mm, clips.whole_global_mm
    afloat = clips.afloat_local_mm, clips.afloat_global_mm
    found = {
        _ENDED: [
            _count("success", clips.success),
            Measure("survived_steps", survived, "", len(clips.names)),
            *failures(clips),
            *_weighted(complete.local_mm, complete.global_mm, complete.frames),
            _count("get_ups", clips.success[downs]),
            *metrics.steadiness(complete),
        ],
        _ALL: [
            _count("fall_free_relative", free),
            _count("fall_free_relative_without_get_ups", free[~downs]),
            *_spread(*every),
            *_weighted(*every, total),
            *_broken(clips),
        ],
        _FREE: _weighted(*every, np.where(free, total, 0)),
        _DOWN: _weighted(*every, np.where(downs, total, 0)),
        _BEFORE: _weighted(*afloat, clips.afloat),
    }
    for kind, some in by_kind(clips, kind_of).items():
        progress = Measure("progress", float(some.progress.mean()), "", len(some.names))
        rows = _stood(some, "success") + failures(some)
        found[f"{WHOLE}, {kind}"] = [*rows, progress]
    return found


def first_rows(clips: Episodes) -> Rows:
    """The first 15 s of all clips."""
    complete = clips.select(clips.success)
    high, total = clips.low_at == 0, clips.frames - clips.broken
    every = clips.whole_local_mm, clips.whole_global_mm
    return {
        _FIRST_ENDED: [
            _count("success", clips.success),
            *_weighted(complete.local_mm, complete.global_mm, complete.frames),
        ],
        _FIRST_ALL: _weighted(*every, total),
        _HIGH: [_count("clips", high), *_weighted(*every, np.where(high, total, 0))],
    }


def _count(name: str, happened: np.ndarray) -> Measure:
    return Measure(name, float(happened.sum()), "", len(happened))


def _broken(episodes: Episodes) -> list[Measure]:
    """Frames without an error, if any: means over all frames leave only these out."""
    broken, n = int(episodes.broken.sum()), len(episodes.names)
    return [Measure("broken_frames", float(broken), "", n)] if broken else []


def _stood(episodes: Episodes, ended_well: str) -> list[Measure]:
    """How many episodes nothing happened to."""
    return [
        _count(ended_well, episodes.success),
        _count("fall_free", episodes.fell_at == 0),
        _count("fall_free_relative", episodes.sank_at == 0),
    ]


def _weighted(
    local_mm: np.ndarray, global_mm: np.ndarray, frames: np.ndarray
) -> list[Measure]:
    """Errors over the frames of all episodes that have any; n tells how many do."""
    some = frames > 0
    if not some.any():
        return []
    return [
        Measure(
            f"mpjpe_{name}_mm",
            float(np.average(values[some], weights=frames[some])),
            "mm",
            int(some.sum()),
        )
        for name, values in (("local", local_mm), ("global", global_mm))
    ]


def _spread(local_mm: np.ndarray, global_mm: np.ndarray) -> list[Measure]:
    """Mean and median over the episodes that have an error; n tells how many do."""
    found = []
    for name, values in (("local", local_mm), ("global", global_mm)):
        values = values[np.isfinite(values)]
        for by in (np.mean, np.median) if len(values) else ():
            label = f"mpjpe_{name}_{by.__name__}_mm"
            found.append(Measure(label, float(by(values)), "mm", len(values)))
    return found

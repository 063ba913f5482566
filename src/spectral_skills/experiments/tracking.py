"""How well a controller tracks: episodes of a corpus, and their scores by kind.

A `Course` is a list of episodes that robots follow with mean actions and nothing
random. `probe_of` measures the same few episodes again and again during training.

The paper's two tables of LAFAN1 are of windows, whole clips and their first 15 s. Two
runs suffice. 20 windows of each clip are judged by the rules and by two tests of a
fall. The 40 clips are run once from their first frame to their last, whatever happens
in between: that one record shows where a rule would end an episode, where a robot fell,
and how the first 15 s went. `LINES` holds the paper's numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from spectral_skills.control import metrics
from spectral_skills.control.batch import ROBOTS
from spectral_skills.control.metrics import CAUSES, Episodes, Measure
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.run import ReferenceSource, Tracker, check_match, run
from spectral_skills.experiments.findings import Draft, MeasuredWith, paper
from spectral_skills.models import Models
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.motion_sets import MAX_FRAMES, name_order
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.results import Result
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import References

TABLE, LAFAN1 = "tracking", "LAFAN1"
WINDOW_FRAMES = 10 * FPS
PAPER_CAUSES = ("anchor_orientation", "end_effector_height", "anchor_height")
"""Causes of failure under the paper's rules, in the paper's order."""
PROBED = ("success_rate", "followed", "mpjpe_local_mm", "mpjpe_global_mm")
STARTS, SEED = 20, 0
"""Number of windows of each clip of LAFAN1, and the seed of their start frames."""
FIRST_FRAMES = 15 * FPS
"""Number of frames of the first 15 s, including the start, as of a window."""
WINDOWS, WHOLE, FIRST = "windows", "whole clips", "first 15 s"
"""Settings, as rows and outcomes name them."""
GET_UP = "fall"
"""Kind of the six clips that fall and get up."""
Rows = dict[str, list[Measure]]


class Course:
    """Every clip of a corpus from its first frame, or windows of its clips.

    Episodes are sorted by length and run in groups of as many robots as the device
    takes, so that few robots wait for others; one simulation serves all groups.
    """

    def __init__(
        self,
        corpus: Corpus,
        device: torch.device | str = "cpu",
        windows: np.ndarray | Sequence[tuple[int, int]] | None = None,
        frames: int = WINDOW_FRAMES,
        physics: Callable[[int], Physics] | None = None,
        robots: int | None = None,
        keep: bool = False,
    ):
        """`windows` are clips and start frames (n, 2), or these and numbers of frames
        (n, 3); all clips without them.

        `physics` builds the simulation of a number of robots. With `keep` the
        references stay on the device from one controller to the next.
        """
        self.corpus, self.device = corpus, torch.device(device)
        self.spans = _spans(corpus, windows, frames)
        limit = robots or ROBOTS[self.device.type]
        rounds = -(-len(self.spans) // limit)
        self.robots = -(-len(self.spans) // rounds)
        # Longest first, so that what does not fit into memory fails at once.
        order = np.argsort(-self.spans[:, 2], kind="stable")
        self.groups = [
            order[i : i + self.robots] for i in range(0, len(order), self.robots)
        ]
        self._make = physics or (lambda count: simulate(self.device, count))
        self._physics: Physics | None = None
        self._keep, self._kept = keep, dict[int, References]()

    def episodes(self, models: Models) -> Episodes:
        """Measures of all episodes, in the order of the clips or windows."""
        return self.beginnings(models, [int(self.spans[:, 2].max())])[0]

    def beginnings(self, models: Models, frames: Sequence[int]) -> list[Episodes]:
        """Run all episodes once; for every number of frames measure the first ones of
        each episode, including the start."""
        check_match(models.controller, models.encoder)
        if self._physics is None:
            self._physics = self._make(self.robots)
        steps = [int(self.spans[group, 2].max()) - 1 for group in self.groups]
        parts = []
        with tqdm(total=sum(steps), desc=TABLE, unit=" steps", disable=None) as bar:
            for number, count in enumerate(steps):
                record = self._run(number, count, models, bar)
                parts.append([metrics.episodes(record.first(n)) for n in frames])
        order = np.argsort(np.concatenate(self.groups))
        return [Episodes.join(p).select(order) for p in zip(*parts, strict=True)]

    def _run(self, number: int, steps: int, models: Models, bar: tqdm) -> Rollout:
        # The last group may be smaller; its last episode is then run several times.
        group = self.groups[number]
        again = np.repeat(group[-1:], self.robots - len(group))
        spans = self.spans[np.concatenate((group, again))]
        chosen, clips = np.unique(spans[:, 0], return_inverse=True)
        clips, starts, lengths = (
            torch.as_tensor(column, dtype=torch.long, device=self.device)
            for column in (clips, spans[:, 1], spans[:, 2])
        )
        references = self._kept.get(number)
        if references is None:
            references = References.build(self.corpus.select(chosen).to(self.device))
        if self._keep:
            self._kept[number] = references
        command = models.controller.config.command
        names = [self.corpus.names[clip] for clip in spans[:, 0]]
        about = models.encoder, starts, command, names
        source = ReferenceSource(references, clips, *about)
        assert self._physics is not None
        rollout = run(
            *(self._physics, Tracker(models.controller), source, source.start, steps),
            keep=("actions",),
            bar=bar,
        )
        rollout = replace(rollout, lengths=rollout.lengths.minimum(lengths))
        return rollout.select(slice(len(group)))

    def kinds(self, known: Mapping[str, str] | None = None) -> list[str]:
        """The kind of every episode: by the words of its clip, or where kinds are
        known by the names of clips, that one."""
        entries = {c: self.corpus.entry(c) for c in set(self.spans[:, 0].tolist())}
        if known is None:
            of_clip = {c: motion_sets.kind(e.name, e.text) for c, e in entries.items()}
        else:
            of_clip = {c: known.get(e.name, "") for c, e in entries.items()}
            if lack := [entries[c].name for c, kind in of_clip.items() if not kind]:
                some = ", ".join(sorted(lack)[:3])
                raise ValueError(f"{len(lack)} clips have no kind in the table: {some}")
        return [of_clip[clip] for clip in self.spans[:, 0].tolist()]


def _spans(corpus: Corpus, windows, frames: int) -> np.ndarray:
    """(n, 3) clip, first frame and number of frames of each episode."""
    if windows is None:
        clips = np.flatnonzero(corpus.lengths >= 2)
        if not len(clips):
            raise ValueError("no clip has the two frames that tracking needs")
        zero = np.zeros_like(clips)
        return np.stack((clips, zero, corpus.lengths[clips]), axis=1)
    spans = np.asarray(windows, dtype=np.int64)
    if spans.size and spans.shape[-1] == 2:
        spans = np.pad(spans, ((0, 0), (0, 1)), constant_values=frames)
    if not spans.size or spans[:, 2].min() < 2:
        raise ValueError(f"{len(spans)} windows of {frames} frames: nothing to run")
    clips, starts, counts = spans.T
    if clips.min() < 0 or clips.max() >= len(corpus):
        raise ValueError(f"no clip {clips.max()}; there are {len(corpus)}, from 0")
    short = (starts < 0) | (starts + counts > corpus.lengths[clips])
    if short.any():
        clip, start, count = spans[short][0].tolist()
        raise ValueError(
            f"{corpus.names[clip]} has {corpus.lengths[clip]} frames, too few for "
            f"{count} from frame {start} on"
        )
    return spans


@dataclass(frozen=True)
class ClipOutcome:
    """Scores of one clip or window."""

    name: str
    kind: str
    start: int
    """Frame of the clip at which the episode begins."""
    frames: int
    success: bool
    cause: str
    """Cause of the failure; empty where nothing failed."""
    failed_at: int
    """First failing frame, counted from the start; 0 for none."""
    followed: bool
    """Success, at least 80 % of the path gone, and MPJPE-G under 0.5 m."""
    path_m: float | None
    """Length of the reference's path; under 0.3 m, or 0, it goes nowhere."""
    path_share: float | None
    """Share of the path gone before the failure."""
    joint_correlation: float | None
    """Of the joints that move; None where none does."""
    mpjpe_local_mm: float | None
    """Mean over the frames before the failure; None where there are none."""
    mpjpe_global_mm: float | None
    root_drift_mm: float | None
    final_error_mm: float | None
    """Root error at the last frame, whatever happened before."""
    fell_at: int
    """First frame with a low torso over a reference that stands; 0 for none."""
    sank_at: int
    """First frame of half a second far below the reference; 0 for none."""
    whole_local_mm: float | None
    """MPJPE-L over all frames, including those after a failure."""
    whole_global_mm: float | None
    broken: int
    """Number of frames with a broken simulation, which no error counts."""
    setting: str = ""
    """Where several are measured: windows, whole clips or first 15 s."""


_COLUMNS = {
    "mpjpe_local_mm": "local_mm",
    "mpjpe_global_mm": "global_mm",
    "root_drift_mm": "root_mm",
    "final_error_mm": "final_mm",
    **{n: n for n in ("success", "failed_at", "fell_at", "sank_at", "broken")},
    **{n: n for n in ("followed", "path_m", "path_share", "joint_correlation")},
    **{n: n for n in ("whole_local_mm", "whole_global_mm")},
}
"""Columns of `Episodes` by the fields of an outcome."""


@dataclass(frozen=True)
class Evaluation:
    """Scores, and the outcomes that they summarise."""

    results: list[Result]
    outcomes: list[ClipOutcome]
    note: str = ""
    """How the clips were chosen."""


def evaluate(
    models: Models, course: Course, kinds: Mapping[str, str] | None = None
) -> Evaluation:
    """Score a controller on all episodes, and on those of every kind of motion; `kinds`
    by the names of clips replace what their words say."""
    kind_of = course.kinds(kinds)
    episodes = course.episodes(models)
    rows = {"all": metrics.summary(episodes) + failures(episodes)}
    for kind, some in by_kind(episodes, kind_of).items():
        rows[kind] = metrics.summary(some)
    found = outcomes(episodes, kind_of, course.spans[:, 1])
    return Evaluation(results(TABLE, rows, models, course), found)


def results(table: str, rows: Rows, models: Models, course: Course) -> list[Result]:
    """Measures by row as results, beside the paper's numbers."""
    measured = MeasuredWith.of(models, str(course.device))
    report = Draft(table, measured, course.corpus.hash, table)
    for row, measures in rows.items():
        known = paper(table, row)
        if table == LAFAN1:
            known = {line.metric: line.paper for line in LINES if line.row == row}
        for m in measures:
            report.add(row, {m.name: m.value}, m.n, unit=m.unit, papers=known)
    return report.results


def by_kind(episodes: Episodes, kind_of: Sequence[str]) -> dict[str, Episodes]:
    """Episodes of every kind there is, in the order of KINDS; other kinds come last."""
    names, known = np.array(kind_of), motion_sets.KINDS
    order = sorted(
        set(kind_of), key=lambda k: (k not in known, (*known, k).index(k), k)
    )
    return {k: episodes.select(names == k) for k in order}


def failures(episodes: Episodes) -> list[Measure]:
    """Number of episodes that failed first by each of the paper's causes, and by other
    causes where there are any."""
    n = len(episodes.names)
    counts = np.bincount(episodes.cause[episodes.cause >= 0], minlength=len(CAUSES))
    return [
        Measure(f"failed_{name}", float(count), "", n)
        for name, count in zip(CAUSES, counts.tolist(), strict=True)
        if count or name in PAPER_CAUSES
    ]


def outcomes(
    episodes: Episodes, kind_of: Sequence[str], starts: np.ndarray, setting: str = ""
) -> list[ClipOutcome]:
    found = []
    for i, kind in enumerate(kind_of):
        row = {n: getattr(episodes, column)[i] for n, column in _COLUMNS.items()}
        values: dict[str, Any] = {
            n: v.item() if np.isfinite(v) else None for n, v in row.items()
        }
        cause, frames = int(episodes.cause[i]), int(episodes.frames[i]) + 1
        about = episodes.names[i], kind, int(starts[i]), frames
        failure = CAUSES[cause] if cause >= 0 else ""
        found.append(ClipOutcome(*about, cause=failure, setting=setting, **values))
    return found


def probe_of(
    corpora: Sequence[Corpus],
    encoder: SkillEncoder | None,
    clips: int,
    device: str,
    physics: PhysicsConfig,
) -> Callable[[Controller], dict[str, float]]:
    """Return a function that measures a controller on about `clips` clips.

    Of a corpus with clips that last minutes, windows of 10 s are run beside the clips
    shorter than that: one failure would end the measurement of a whole clip.
    """

    def make(count: int) -> Physics:
        return simulate(device, count, physics)

    total = sum(len(corpus) for corpus in corpora)
    courses = []
    for corpus in corpora:
        share = max(1, round(clips * len(corpus) / total))
        if corpus.lengths.max() > MAX_FRAMES:
            chosen, windows = corpus, spread_pieces(corpus, share)
        else:
            chosen, windows = corpus.select(spread_clips(corpus, share)), None
        courses.append(Course(chosen, device, windows, physics=make, keep=True))

    def probe(controller: Controller) -> dict[str, float]:
        models = Models(controller, encoder)
        parts = [course.episodes(models) for course in courses]
        found = metrics.summary(Episodes.join(parts))
        return {m.name: m.value for m in found if m.name in PROBED}

    return probe


def spread_clips(corpus: Corpus, count: int) -> np.ndarray:
    """Indices of clips drawn with a fixed seed, however the corpus is ordered."""
    order = name_order(corpus)
    drawn = np.random.default_rng(0).permutation(len(order))[:count]
    return np.sort(order[drawn])


def spread_windows(corpus: Corpus, count: int) -> np.ndarray:
    """(count, 2) clips and first frames, evenly over all that is long enough."""
    order = name_order(corpus)
    order = order[corpus.lengths[order] >= WINDOW_FRAMES]
    room = corpus.lengths[order] - WINDOW_FRAMES + 1
    ends = np.cumsum(room)
    places = ((np.arange(count) + 0.5) / count * ends[-1]).astype(np.int64)
    which = np.searchsorted(ends, places, side="right")
    return np.stack((order[which], places - (ends - room)[which]), axis=1)


def spread_pieces(corpus: Corpus, count: int) -> np.ndarray:
    """(about count, 3) clips, first frames and numbers of frames: whole clips that are
    shorter than a window, and windows of the others, as many as their shares."""
    short = np.flatnonzero(corpus.lengths < WINDOW_FRAMES)
    share = round(count * len(short) / len(corpus))
    whole = short[spread_clips(corpus.select(short), share)]
    ends = np.stack((whole, 0 * whole, corpus.lengths[whole]), axis=1)
    windows = spread_windows(corpus, max(1, count - share))
    windows = np.pad(windows, ((0, 0), (0, 1)), constant_values=WINDOW_FRAMES)
    return np.concatenate((ends, windows))


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


def evaluate_lafan1(
    models: Models,
    corpus: Corpus,
    device: str = "cpu",
    whole: bool = True,
    physics: Callable[[int], Physics] | None = None,
) -> Evaluation:
    """Score a controller on windows of the 40 clips and, with `whole`, on the clips."""
    corpus = corpus.select(motion_sets.lafan1(corpus))
    seconds = WINDOW_FRAMES / FPS
    starts = motion_sets.lafan1_windows(corpus, STARTS, seconds, SEED)
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
    return Evaluation(results(LAFAN1, rows, models, course), found)


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

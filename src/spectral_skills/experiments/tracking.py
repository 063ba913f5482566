"""How well a controller tracks: episodes of a corpus, and their scores by kind.

A `Course` is a list of episodes that robots follow with mean actions and nothing
random. `probe_of` measures the same few episodes again and again during training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

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

TABLE = "tracking"
WINDOW_FRAMES = 10 * FPS
PAPER_CAUSES = ("anchor_orientation", "end_effector_height", "anchor_height")
"""Causes of failure under the paper's rules, in the paper's order."""
PROBED = ("success_rate", "followed", "mpjpe_local_mm", "mpjpe_global_mm")
Rows = dict[str, list[Measure]]
Papers = Callable[[str], Mapping[str, str]]
"""Gives the paper's numbers of a row, by their metrics."""


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
    known = partial(paper, TABLE)
    return Evaluation(results(TABLE, rows, models, course, known), found)


def results(
    table: str, rows: Rows, models: Models, course: Course, papers: Papers
) -> list[Result]:
    """Measures by row as results, beside the paper's numbers of each row."""
    measured = MeasuredWith.of(models, str(course.device))
    report = Draft(table, measured, course.corpus.hash, table)
    for row, measures in rows.items():
        for m in measures:
            report.add(row, {m.name: m.value}, m.n, unit=m.unit, papers=papers(row))
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
        count = next(m.n for m in found if m.name == "success_rate")
        return {m.name: m.value for m in found if m.name in PROBED} | {"probed": count}

    return probe


def spread_clips(corpus: Corpus, count: int) -> np.ndarray:
    """Indices of clips drawn with a fixed seed, however the corpus is ordered."""
    order = name_order(corpus)
    return np.sort(order[np.random.default_rng(0).permutation(len(order))[:count]])


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

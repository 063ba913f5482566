"""Clips or windows to track, and robots to run them.

Sorted by length and run in groups of as many robots as the device takes, so that few
wait for others; the simulation is made once for all groups. Mean actions, nothing
random.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from tqdm import tqdm

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.run import ReferenceSource, Tracker, check_match, run
from spectral_skills.motion import kinds
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.motion_sets import MAX_FRAMES, name_order
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import References
from spectral_skills.tracking.terminations import TerminationConfig

WINDOW_FRAMES = 10 * FPS
Windows = np.ndarray | Sequence[tuple[int, int]]
"""(n, 2) clips and start frames."""
_ROBOTS = {"cuda": 4096, "cpu": 16}
"""At once, by kind of device."""


class Course:
    """Every clip of a corpus from its first frame, or windows of its clips."""

    def __init__(
        self,
        corpus: Corpus,
        encoder: SkillEncoder | None,
        device: torch.device | str = "cpu",
        windows: Windows | None = None,
        frames: int = WINDOW_FRAMES,
        physics: Callable[[int], Physics] | None = None,
        robots: int | None = None,
        rules: TerminationConfig | None = None,
        keep: bool = False,
    ):
        """`windows` are clips and start frames; without them all clips are run whole.

        `rules` are the paper's unless others are given. `physics` makes the simulation
        for a number of robots. With `keep` the references stay on the device from one
        controller to the next.
        """
        self.corpus, self.encoder = corpus, encoder
        self.device = torch.device(device)
        self.rules = rules
        self.spans = _spans(corpus, windows, frames)
        limit = robots or _ROBOTS[self.device.type]
        rounds = -(-len(self.spans) // limit)
        self.robots = -(-len(self.spans) // rounds)
        # Longest first: what does not fit into memory is known at once.
        order = np.argsort(-self.spans[:, 2], kind="stable")
        self.groups = [
            order[i : i + self.robots] for i in range(0, len(order), self.robots)
        ]
        self._make = physics or (lambda count: simulate(self.device, count))
        self._physics: Physics | None = None
        self._kept: dict[int, References] | None = {} if keep else None

    def episodes(self, controller: Controller) -> Episodes:
        """Run everything and measure it, in the order of the clips or windows."""
        return self.beginnings(controller, [int(self.spans[:, 2].max())])[0]

    def beginnings(
        self, controller: Controller, frames: Sequence[int]
    ) -> list[Episodes]:
        """Run everything once, and measure the first so many frames of each episode,
        the start included, for every number of frames."""
        check_match(controller, self.encoder)
        if self._physics is None:
            self._physics = self._make(self.robots)
        parts = []
        steps = [int(self.spans[group, 2].max()) - 1 for group in self.groups]
        with tqdm(
            total=sum(steps), desc="tracking", unit=" steps", disable=None
        ) as bar:
            for number, group in enumerate(self.groups):
                record = self._run(number, group, steps[number], controller, bar)
                parts.append(
                    [metrics.episodes(record.first(f), self.rules) for f in frames]
                )
        order = np.argsort(np.concatenate(self.groups))
        return [Episodes.join(p).select(order) for p in zip(*parts, strict=True)]

    def _run(
        self, number: int, group: np.ndarray, steps: int, controller, bar: tqdm
    ) -> Rollout:
        # The last group may be smaller; its last episode is run several times.
        again = np.repeat(group[-1:], self.robots - len(group))
        spans = self.spans[np.concatenate((group, again))]
        chosen, clips = np.unique(spans[:, 0], return_inverse=True)
        references = self._references(number, chosen)
        clips, starts, lengths = (
            torch.as_tensor(column, dtype=torch.long, device=self.device)
            for column in (clips, spans[:, 1], spans[:, 2])
        )
        names = [self.corpus.names[clip] for clip in spans[:, 0]]
        command = controller.config.command
        source = ReferenceSource(
            references, clips, self.encoder, starts, command, names
        )
        begin = references.at(clips, starts)
        assert self._physics is not None
        rollout = run(
            self._physics,
            Tracker(controller),
            source,
            (begin.rows, begin.qvel),
            steps,
            poses_only=True,
            keep_actions=True,
            bar=bar,
        )
        rollout = replace(rollout, lengths=rollout.lengths.minimum(lengths))
        return rollout.select(slice(len(group)))

    def _references(self, number: int, clips: np.ndarray) -> References:
        if self._kept is not None and number in self._kept:
            return self._kept[number]
        references = References.build(self.corpus.select(clips).to(self.device))
        if self._kept is not None:
            self._kept[number] = references
        return references

    def kinds(self) -> list[str]:
        """Kind of the motion of every clip or window."""
        entries = {c: self.corpus.entry(c) for c in set(self.spans[:, 0].tolist())}
        of_clip = {c: kinds.kind(e.name, e.text) for c, e in entries.items()}
        return [of_clip[clip] for clip in self.spans[:, 0].tolist()]


def _spans(corpus: Corpus, windows: Windows | None, frames: int) -> np.ndarray:
    """(n, 3) clip, first frame and number of frames of each episode."""
    if windows is None:
        clips = np.flatnonzero(corpus.lengths >= 2)
        if not len(clips):
            raise ValueError("no clip has the two frames that tracking needs")
        zero = np.zeros_like(clips)
        return np.stack((clips, zero, corpus.lengths[clips]), axis=1)
    windows = np.asarray(windows, dtype=np.int64).reshape(-1, 2)
    if not len(windows) or frames < 2:
        raise ValueError(f"{len(windows)} windows of {frames} frames: nothing to run")
    clips, starts = windows.T
    if clips.min() < 0 or clips.max() >= len(corpus):
        raise ValueError(f"no clip {clips.max()}; there are {len(corpus)}, from 0")
    short = (starts < 0) | (starts + frames > corpus.lengths[clips])
    if short.any():
        clip, start = windows[short][0].tolist()
        raise ValueError(
            f"{corpus.names[clip]} has {corpus.lengths[clip]} frames, too few for "
            f"{frames} from frame {start} on"
        )
    return np.concatenate((windows, np.full((len(windows), 1), frames)), axis=1)


PROBED = ("success_rate", "mpjpe_local_mm", "mpjpe_global_mm")
"""Measures that are taken while a controller learns."""


def probe_of(
    corpora: Sequence[Corpus],
    encoder: SkillEncoder | None,
    clips: int,
    device: str,
    physics: PhysicsConfig,
) -> Callable[[Controller], dict[str, float]]:
    """A function that measures a controller on about so many clips of corpora.

    Where clips last minutes, it takes windows of 10 s instead: a failure would end the
    measurement of a whole clip.
    """
    total = sum(len(corpus) for corpus in corpora)
    courses = []
    for corpus in corpora:
        share = max(1, round(clips * len(corpus) / total))
        if corpus.lengths.max() > MAX_FRAMES:
            chosen, windows = corpus, spread_windows(corpus, clips)
        else:
            chosen, windows = corpus.select(spread_clips(corpus, share)), None
        courses.append(
            Course(
                chosen,
                encoder,
                device,
                windows,
                physics=lambda count: simulate(device, count, physics),
                keep=True,
            )
        )

    def probe(controller: Controller) -> dict[str, float]:
        parts = [course.episodes(controller) for course in courses]
        found = metrics.summary(Episodes.join(parts))
        return {m.name: m.value for m in found if m.name in PROBED}

    return probe


def spread_clips(corpus: Corpus, count: int) -> np.ndarray:
    """Indices of clips that are always the same, however they were ingested."""
    order = name_order(corpus)
    drawn = np.random.default_rng(0).permutation(len(order))[:count]
    return np.sort(order[drawn])


def spread_windows(
    corpus: Corpus, count: int, frames: int = WINDOW_FRAMES
) -> np.ndarray:
    """(count, 2) clips and first frames, evenly over all clips that are long enough."""
    order = name_order(corpus)
    order = order[corpus.lengths[order] >= frames]
    room = corpus.lengths[order] - frames + 1
    ends = np.cumsum(room)
    places = ((np.arange(count) + 0.5) / count * ends[-1]).astype(np.int64)
    which = np.searchsorted(ends, places, side="right")
    return np.stack((order[which], places - (ends - room)[which]), axis=1)

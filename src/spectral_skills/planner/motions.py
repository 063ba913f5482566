"""The part of a clip that a planner can plan, and how it goes on for ever.

A planner sees a fifth of a second. Where two moments of a clip look alike and go on
differently, it cannot know which one it is in: how long a robot still stands, when a
raised arm comes down. So of a clip the longest part is taken in which what is alike
goes on alike, and in which something happens. When it is over, it goes on from an
earlier moment that looks like its end: a walk walks on, a raised arm stays raised.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.phrases import WORDS
from spectral_skills.robot import g1

ALIKE_RAD, ALIKE_RAD_S = 0.1, 1.0
"""Moments look alike whose joints differ by less, root mean square."""
APART_M = 0.125
"""They go on differently if pelvis, hands or feet are so far apart in height within a
chunk: half of what the rules of success allow."""
APART_RAD_S = 0.3
"""Or if joints then move faster by so much, root mean square: one stands, one walks."""
_LATER = (CHUNK // 3, 2 * CHUNK // 3, CHUNK)
_STILL = 0.2
"""What a frame is worth before which nothing moves."""
_BETTER = 1.1
"""A later part is taken if it is worth more by this factor."""


class Section(NamedTuple):
    """Frames of a clip."""

    first: int
    end: int
    """First one after it."""
    loop: int
    """Frame, counted from the first, from which it goes on when it is over."""
    worth: float
    """Frames, of which those count less in which hardly anything moves."""


def section(rows: np.ndarray, most: int) -> Section:
    """The part of rows (T, 36) that is planned, of at most so many frames."""
    state, speed = _moments(rows)
    busy = _busy(speed)
    alike = (_apart(state) < ALIKE_RAD) & (_apart(speed) < ALIKE_RAD_S)
    differs = _diverges(rows) | (np.abs(busy[:, None] - busy) > APART_RAD_S)
    worth = np.clip(busy / APART_RAD_S, _STILL, 1.0)
    first, end = _longest(alike & differs, worth, most)
    loop = _loop(state[first:end], speed[first:end])
    return Section(first, end, loop, float(worth[first:end].sum()))


def _moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T, 32) joints, height and tilt, and how fast the joints move."""
    quaternion = torch.from_numpy(np.ascontiguousarray(rows[:, 3:7]))
    up = rotation.rotate_inverse(quaternion, torch.tensor((0.0, 0.0, 1.0)))
    state = np.concatenate((rows[:, 7:], rows[:, 2:3], up[:, :2].numpy()), axis=1)
    speed = np.gradient(rows[:, 7:], axis=0) * FPS
    return state.astype(np.float32), speed.astype(np.float32)


def _apart(values: np.ndarray) -> np.ndarray:
    """(T, T) root mean square difference of rows."""
    tensor = torch.from_numpy(values)
    # By differences: products of rows would lose the digits of those that are alike.
    apart = torch.cdist(tensor, tensor, compute_mode="donot_use_mm_for_euclid_dist")
    return (apart / values.shape[1] ** 0.5).numpy()


def _diverges(rows: np.ndarray) -> np.ndarray:
    """(T, T) whether heights differ after two frames; frames past the end hold on."""
    links = _links()(torch.from_numpy(np.asarray(rows, np.float32))).position
    heights, last = links[..., 2], len(rows) - 1
    found = np.zeros((len(rows), len(rows)), bool)
    for ahead in _LATER:
        then = heights[(torch.arange(len(rows)) + ahead).clamp_max(last)]
        found |= (torch.cdist(then, then, p=torch.inf) > APART_M).numpy()
    return found


@cache
def _links() -> Kinematics:
    return Kinematics(("pelvis", *g1.END_EFFECTORS))


def _busy(speed: np.ndarray) -> np.ndarray:
    """(T,) how fast joints move in the chunk that follows each frame."""
    now = np.pad(np.square(speed).mean(axis=1), (0, CHUNK), mode="edge")
    total = np.cumsum(np.pad(now, (1, 0)))
    return np.sqrt((total[CHUNK:] - total[:-CHUNK])[: len(speed)] / CHUNK)


def _longest(conflicts: np.ndarray, worth: np.ndarray, most: int) -> tuple[int, int]:
    """First frame and end of the part of most worth without two frames in conflict.

    What follows a frame counts as far as it lies in the part: so the last chunk of a
    part is in conflict with nothing. A later part must be worth clearly more.
    """
    total = np.cumsum(np.pad(worth, (1, 0)))
    best, most_worth, first = (0, min(len(conflicts), CHUNK)), 0.0, 0
    for end in range(CHUNK + 1, len(conflicts) + 1):
        before = np.flatnonzero(conflicts[end - CHUNK - 1, : end - CHUNK - 1])
        if len(before):
            first = max(first, int(before[-1]) + 1)
        first = max(first, end - most)
        found = total[end] - total[first]
        if found > (_BETTER if first > best[0] else 1.0) * most_worth:
            best, most_worth = (first, end), found
    return best


def _loop(state: np.ndarray, speed: np.ndarray) -> int:
    """Of the frames whose chunk lies in the part, the one most like the last frame."""
    scaled = np.concatenate((state / ALIKE_RAD, speed / ALIKE_RAD_S), axis=1)
    earlier = scaled[: max(1, len(scaled) - CHUNK)]
    return int(np.linalg.norm(earlier - scaled[-1], axis=1).argmin())


# The motions of a corpus that a planner learns: each with words of its own.
#
# Of generated corpora one clip for each of 28 things to say, as many as the paper's; of
# others every clip that is described.

STEPS = 500
"""Frames of a motion at most, as in the paper."""


class Motions:
    """Clips with words of their own, cut to the parts that a planner can plan."""

    def __init__(self, clips: Corpus, sections: Sequence[Section]):
        self.clips, self.sections = clips, tuple(sections)
        self.names = tuple(clips.names)
        self.lengths = np.array([s.end - s.first for s in sections])
        self.loops = np.array([s.loop for s in sections])
        """Frames from which motions go on when they are over."""

    def __len__(self) -> int:
        return len(self.sections)

    def select(self, names: Sequence[str]) -> "Motions":
        """Some of them, in the given order; one may be named several times."""
        chosen = [self.clips.index(name) for name in names]
        return Motions(self.clips.select(chosen), [self.sections[i] for i in chosen])

    def qpos(self, index: int) -> np.ndarray:
        """(T, 36) rows of a motion."""
        one = self.sections[index]
        return self.clips.qpos(index)[one.first : one.end]

    def to(self, device: torch.device | str) -> MotionTensors:
        """All of them on a device."""
        whole = self.clips.to(device)
        first = torch.tensor([s.first for s in self.sections], device=device)
        lengths = torch.from_numpy(self.lengths).to(whole.lengths)
        return replace(whole, starts=whole.starts + first, lengths=lengths)

    def sentences(self) -> list[list[str]]:
        """What the corpus says of each of them."""
        texts = [self.clips.entry(i).text for i in range(len(self))]
        return [[s.strip() for s in text.splitlines() if s.strip()] for text in texts]


def described(corpus: Corpus) -> Motions:
    """The motions to plan; of a generated corpus also mirror images."""
    both = corpus.with_mirror()
    if found := _one_of_each(both):
        return Motions(both.select(list(found)), list(found.values()))
    chosen = [i for i in range(len(corpus)) if corpus.entry(i).text.strip()]
    if not chosen:
        raise ValueError("no clip of this corpus is described in words")
    return Motions(
        corpus.select(chosen), [section(corpus.qpos(i), STEPS) for i in chosen]
    )


def _one_of_each(corpus: Corpus) -> dict[int, Section]:
    """Of each thing to say the clip with the best part; none if one lacks."""
    found: dict[int, Section] = {}
    for factors, said, unsaid in WORDS["corpus"]["motions"]:
        wanted = frozenset(factors.split())
        fits = [
            i
            for i, name in enumerate(corpus.names)
            if factors_of(name) == wanted
            and re.search(said, corpus.entry(i).text)
            and not (unsaid and re.search(unsaid, corpus.entry(i).text))
        ]
        if not fits:
            return {}
        parts = {i: section(corpus.qpos(i), STEPS) for i in fits}
        best = max(parts, key=lambda i: parts[i].worth)
        found[best] = parts[best]
    return found

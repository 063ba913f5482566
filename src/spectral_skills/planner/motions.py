"""The motions that a planner learns, and what people call them.

A motion is a part of one clip with wordings of its own. Several clips may show what is
meant: all recordings of somebody who walks like a zombie, and their mirror images where
a side is named. They are its candidates, and the one is taken that a controller follows
best; if it follows none of them, it is no motion.

From a generated corpus, 28 things to say are found by factors and words (`words.toml`).
Recordings that `motions.toml` names have their wordings there. From other corpora,
every described clip is a motion of its own.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from spectral_skills import workers
from spectral_skills.config import read_table
from spectral_skills.motion.corpus import Corpus, Entry
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.motion_sets import name_hash
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.planner import phrases
from spectral_skills.planner.data import CHUNK, Motion
from spectral_skills.planner.sections import ClipSection, beginning, section
from spectral_skills.robot import g1

CANDIDATES = 4
"""Number of clips that are tried for a motion."""
_LOOKED_AT, _LONGEST = 48, 1500
"""Number of clips whose parts are compared for a motion, and of frames of a clip."""
_LOWEST_M = 0.35
"""Height of the pelvis below which somebody sits, lies or has fallen."""
_FLAWS = ("jump_share", "sunk_share", "inside_share", "skating_share", "limb_off_share")
"""Shares of the frames of a retargeted clip that no robot can follow."""
_CMU = "mocap.cs.cmu.edu"
_SIDES = (("left", "right"), ("right", "left"))
_NAMED = [one for source in read_table(__file__).values() for one in source]


class Saying(NamedTuple):
    """Something to say, and the clips that show it."""

    corpus: Corpus
    """With mirror images, which follow the clips."""
    clips: tuple[int, ...]
    say: tuple[str, ...] = ()
    """Wordings to learn; if there are none, each clip has its own."""
    test: tuple[str, ...] = ()

    def wordings(self, clip: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sentences to train with and to test with."""
        if self.say:
            return phrases.with_frames(self.say, self.test)
        own = _lines(self.corpus.entry(clip))
        return phrases.training(own), phrases.held_out(own)


@dataclass(frozen=True)
class Motions:
    """Parts of clips; several may be candidates for one motion."""

    names: tuple[str, ...]
    """Names of the clips."""
    rows: tuple[np.ndarray, ...]
    """(T, 36) of each part."""
    sentences: tuple[tuple[str, ...], ...]
    """Sentences to train with."""
    held_out: tuple[tuple[str, ...], ...]
    firsts: tuple[int, ...]
    """First frames of the parts in their clips."""
    loops: tuple[int, ...]
    """Frames from which parts continue at their ends."""
    worths: tuple[float, ...]
    """Numbers of frames; those in which hardly anything moves count less."""
    meanings: tuple[int, ...]
    """Which motion each is a candidate for."""

    @classmethod
    def of(cls, parts: Iterable[tuple]) -> "Motions":
        columns = list(zip(*parts, strict=True)) or [()] * len(fields(cls))
        return cls(*columns)

    def __len__(self) -> int:
        return len(self.names)

    def at(self, indices: Sequence[int]) -> "Motions":
        return Motions(*(tuple(v[i] for i in indices) for v in vars(self).values()))

    def select(self, names: Sequence[str]) -> "Motions":
        """Some of them in the given order; a name may be repeated."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ValueError(f"no motion named {missing[0]!r} among {len(self)}")
        return self.at([self.names.index(name) for name in names])

    def best(self, follows: np.ndarray) -> "Motions":
        """For each motion, the candidate of most worth that is followed (n,)."""
        chosen: dict[int, int] = {}
        for i in sorted(range(len(self)), key=lambda i: -self.worths[i]):
            taken = {self.names[one] for one in chosen.values()}
            if follows[i] and self.names[i] not in taken:
                chosen.setdefault(self.meanings[i], i)
        return self.at([chosen[meaning] for meaning in sorted(chosen)])

    def to(self, device: torch.device | str) -> MotionTensors:
        clips = [torch.from_numpy(np.array(rows)).to(device) for rows in self.rows]
        return MotionTensors.of_clips(clips)

    def about(self) -> tuple[Motion, ...]:
        """What rows and planners say of them."""
        columns = self.names, self.sentences, self.held_out, self.rows
        parts = zip(*columns, self.firsts, self.loops, strict=True)
        return tuple(
            Motion(name, own, others, len(rows), first, loop)
            for name, own, others, rows, first, loop in parts
        )


def described(corpora: Corpus | Sequence[Corpus]) -> Motions:
    """The motions to plan, each by its candidate of most worth."""
    found = candidates(corpora, count=1)
    return found.best(np.ones(len(found), bool))


def candidates(
    corpora: Corpus | Sequence[Corpus],
    held_out: float = 0.0,
    whole: bool = False,
    count: int = CANDIDATES,
    most: int | None = None,
) -> Motions:
    """Parts of clips that show the motions of some corpora.

    Clips are held out by the hash of their names. With `whole`, clips are not cut to
    what can be planned. Of each motion there are at most `count` candidates; `most`
    motions are taken at regular distances of all.
    """
    corpora = [corpora] if isinstance(corpora, Corpus) else corpora
    found = [one for corpus in corpora for one in meanings(corpus, held_out)]
    if not found:
        raise ValueError("no clip of these corpora is described in words")
    if most is not None and most < len(found):
        found = [found[i] for i in np.linspace(0, len(found) - 1, most).astype(int)]
    shown = [(n, i) for n, one in enumerate(found) for i in _least_flawed(one)]
    cut = partial(_cut, whole=whole)
    clips = (found[n].corpus.qpos(i)[:_LONGEST] for n, i in shown)
    sections = workers.in_order(cut, clips, workers.few_or_all(len(shown)))
    of_motion: dict[int, list[tuple[int, ClipSection]]] = defaultdict(list)
    for (number, clip), part in zip(shown, sections, strict=True):
        if part is not None:
            of_motion[number].append((clip, part))
    parts = []
    for number, some in of_motion.items():
        meaning = found[number]
        for i, part in sorted(some, key=lambda one: -one[1].worth)[:count]:
            rows = meaning.corpus.qpos(i)[part.first : part.end]
            place = part.first, part.loop, part.worth, number
            words = meaning.wordings(i)
            parts.append((meaning.corpus.names[i], rows, *words, *place))
    return Motions.of(parts)


def learned(corpora: Corpus | Sequence[Corpus], motions: Sequence[Motion]) -> Motions:
    """The motions of a planner again, as it has learned them."""
    corpora = [corpora] if isinstance(corpora, Corpus) else corpora
    both = [corpus.with_mirror() for corpus in corpora]
    parts = []
    for number, one in enumerate(motions):
        corpus = next((c for c in both if one.name in c.names), None)
        if corpus is None:
            raise ValueError(
                f"the planner has learned {one.name}, which no corpus holds; name the "
                "corpora of its rows"
            )
        whole = corpus.qpos(corpus.index(one.name))
        first, loop = one.first, one.loop
        if first is None or loop is None:
            first, _, loop, _ = section(whole)
        rows = whole[first : first + one.frames]
        place = first, loop, float(len(rows)), number
        parts.append((one.name, rows, one.sentences, one.held_out, *place))
    return Motions.of(parts)


def meanings(corpus: Corpus, held_out: float = 0.0) -> list[Saying]:
    """What a corpus has to say; its held-out clips are left out."""
    both = corpus.with_mirror()
    own = [i for i, name in enumerate(corpus.names) if name_hash(name, 0) >= held_out]
    entries = {i: corpus.entry(i) for i in own}
    if found := _generated(both, own, len(corpus)):
        return found
    if found := _named(both, entries, len(corpus)):
        return found
    return [Saying(both, (i,)) for i, entry in entries.items() if _lines(entry)]


def _lines(entry: Entry) -> list[str]:
    """The sentences of a clip's description."""
    return [line.strip() for line in entry.text.splitlines() if line.strip()]


def _generated(both: Corpus, own: Sequence[int], count: int) -> list[Saying]:
    """The 28 things to say; none if one of them has no clip."""
    texts = {i: both.entry(i).text for one in own for i in (one, one + count)}
    found = []
    for factors, said, unsaid in phrases.WORDS["corpus"]["motions"]:
        wanted = frozenset(factors.split())
        fits = tuple(
            i
            for i, text in sorted(texts.items())
            if factors_of(both.names[i]) == wanted
            and re.search(said, text)
            and not (unsaid and re.search(unsaid, text))
        )
        if not fits:
            return []
        found.append(Saying(both, fits))
    return found


def _named(both: Corpus, entries: dict[int, Entry], count: int) -> list[Saying]:
    """Motions of `motions.toml`."""
    labelled: dict[str, list[int]] = defaultdict(list)
    for i, entry in entries.items():
        labelled[entry.name].append(i)
        if entry.source == _CMU:
            labelled[entry.text].append(i)
    found = []
    for one in _NAMED:
        sided = any("{side}" in way for way in one["say"])
        for side, other in _SIDES if sided else (("", ""),):
            clips: list[int] = []
            for of in one["of"]:
                clips += labelled[of.format(side=side, other=other)]
                if "{side}" in of:
                    twins = labelled[of.format(side=other, other=side)]
                    clips += [i + count for i in twins]
            if limb := one.get("limb"):
                raised = [_raised(both.qpos(i), limb) for i in clips]
                pairs = zip(clips, raised, strict=True)
                clips = [i if shown == side else i + count for i, shown in pairs]
            say, test = (
                tuple(phrases.plain(way.format(side=side)) for way in one[kind])
                for kind in ("say", "test")
            )
            if clips:
                found.append(Saying(both, tuple(clips), say, test))
    return found


def _raised(rows: np.ndarray, limb: str) -> str:
    """The side whose hand or foot rises higher."""
    links = Kinematics({"hand": g1.WRISTS, "foot": g1.FEET}[limb])
    heights = links(torch.as_tensor(np.array(rows))).position[..., 2]
    return _SIDES[int(heights.amax(dim=0).argmax())][0]


def _least_flawed(one: Saying) -> list[int]:
    """Clips of a motion, those with the fewest flaws first."""
    flaws = {i: _flaws(one.corpus.entry(i)) for i in one.clips}
    return sorted(flaws, key=lambda i: flaws[i])[:_LOOKED_AT]


def _flaws(entry: Entry) -> float:
    quality: dict[str, Any] = json.loads(entry.quality) if entry.quality else {}
    return sum(quality.get(name, 0.0) for name in _FLAWS)


def _cut(rows: np.ndarray, whole: bool) -> ClipSection | None:
    """The part of a clip to plan; None if it is too short or too low."""
    rows = np.asarray(rows)
    if len(rows) <= CHUNK + 1:
        return None
    part = beginning(rows) if whole else section(rows)
    low = rows[part.first : part.end, 2].min() < _LOWEST_M
    return None if low or part.end - part.first <= CHUNK else part

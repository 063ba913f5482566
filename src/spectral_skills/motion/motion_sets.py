"""Which clips to train on and which to evaluate on, by rules and seeds.

Every set depends on clip names and motions only, never on their order in the
corpus: the same library gives the same set however it was ingested.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from spectral_skills.motion import kinds
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.robot import g1

MIN_FRAMES, MAX_FRAMES = 100, 1500
EASIEST_DROPPED = 4
"""One clip in this many is dropped as too easy."""
EVALUATION_SIZE = 4096
CAPABILITY_SIZE = 124
CAPABILITY_QUOTAS = {
    "locomotion": 30,
    "gesture": 15,
    "dance": 5,
    "jump or kick": 5,
    "injured": 5,
    "ground": 4,
    "boxing": 1,
}
"""Least clips of each group among CAPABILITY_SIZE."""

# A corpus may be far larger than memory (47 M frames are 6.8 GB), so motions are
# read in groups of whole clips; one group with its differences takes about 100 MB.
_GROUP_FRAMES = 200_000


@dataclass(frozen=True)
class Difficulty:
    """Four measures of how hard each clip is, in the order of the corpus."""

    min_pelvis_height_m: np.ndarray
    peak_root_speed_m_s: np.ndarray
    joint_speed_p99_rad_s: np.ndarray
    peak_foot_height_m: np.ndarray
    """Of the ankle roll links' origins."""

    def select(self, indices: np.ndarray) -> "Difficulty":
        """The measures of some clips."""
        return Difficulty(*(values[indices] for values in vars(self).values()))

    def percentile(self) -> np.ndarray:
        """Mean percentile of each clip among these, 0 easiest to 1 hardest.

        Equal values share the middle of their ranks. Ranks are added as integers:
        what is equal stays equal.
        """
        low_is_hard = -self.min_pelvis_height_m
        values = (low_is_hard, *list(vars(self).values())[1:])
        return sum(map(_twice_rank, values)) / (2 * len(values) * max(1, len(low_is_hard)))


def _twice_rank(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return below + np.searchsorted(ordered, values, side="right")


def measure_difficulty(corpus: Corpus, device: str = "cpu") -> Difficulty:
    """Measure every clip; speeds are differences of neighbouring frames at 50 Hz."""
    # Imported here so that naming a set does not wait for torch.
    from spectral_skills.motion.kinematics import Kinematics

    feet = Kinematics(links=g1.FEET, device=device)
    parts = [np.empty((4, 0))]
    bar = tqdm(
        total=corpus.frames,
        unit="frame",
        unit_scale=True,
        desc="difficulty",
        disable=None,  # silent when the output is no terminal
    )
    with bar:
        for clips in corpus.shards(_GROUP_FRAMES):
            parts.append(_measure(clips, feet, device))
            bar.update(clips.frames)
    return Difficulty(*np.concatenate(parts, axis=1))


def _measure(clips: Corpus, feet: Callable, device: str) -> np.ndarray:
    """(4, clips) measures, all clips at once."""
    import torch

    rows = np.concatenate([clips.qpos(i) for i in range(len(clips))])
    ends = np.cumsum(clips.lengths)
    starts = ends - clips.lengths
    positions = feet(torch.as_tensor(rows, device=device)).position
    foot_height = positions[..., 2].amax(dim=-1).cpu().numpy()
    velocity = np.diff(rows, axis=0, prepend=rows[:1]) * FPS
    velocity[starts] = 0.0  # the step from another clip's last frame
    root_speed = np.linalg.norm(velocity[:, :3], axis=1)
    joint_speed = np.abs(velocity[:, 7:])
    p99 = [
        # All joints of all steps together; a clip of one frame has no step.
        np.percentile(joint_speed[start + 1 : end], 99) if end > start + 1 else 0.0
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return np.stack(
        (
            np.minimum.reduceat(rows[:, 2], starts),
            np.maximum.reduceat(root_speed, starts),
            np.array(p99),
            np.maximum.reduceat(foot_height, starts),
        )
    )


def free_of_absent_objects(corpus: Corpus) -> np.ndarray:
    """Filter (i): which clips need no object or terrain, by their names."""
    return np.array([not kinds.needs_absent_object(n) for n in corpus.names], bool)


def of_usable_length(corpus: Corpus) -> np.ndarray:
    """Filter (ii), first half: which clips have 100 to 1,500 frames."""
    return (corpus.lengths >= MIN_FRAMES) & (corpus.lengths <= MAX_FRAMES)


def above_floor(corpus: Corpus, difficulty: Difficulty | None = None) -> np.ndarray:
    """Filter (ii), second half: which clips never have the pelvis under the floor."""
    difficulty = difficulty or measure_difficulty(corpus)
    return difficulty.min_pelvis_height_m >= 0.0


def harder_part(corpus: Corpus, difficulty: Difficulty | None = None) -> np.ndarray:
    """Filter (iii): all but the easiest quarter, rounded down; names break ties."""
    percentile = (difficulty or measure_difficulty(corpus)).percentile()
    by_name = name_order(corpus)
    easiest_first = by_name[np.argsort(percentile[by_name], kind="stable")]
    keep = np.ones(len(corpus), bool)
    keep[easiest_first[: len(corpus) // EASIEST_DROPPED]] = False
    return keep


@dataclass(frozen=True)
class Filtered:
    """What the three filters leave, and how many clips each dropped."""

    keep: np.ndarray
    absent_objects: int
    length: int
    under_floor: int
    easiest: int

    def lines(self) -> list[str]:
        """The count of each filter, in the order they are applied."""
        return [
            f"clips              {len(self.keep):,}",
            f"absent objects     -{self.absent_objects:,}",
            f"not {MIN_FRAMES}-{MAX_FRAMES} frames -{self.length:,}",
            f"under the floor    -{self.under_floor:,}",
            f"easiest quarter    -{self.easiest:,}",
            f"kept               {int(self.keep.sum()):,}",
        ]


def apply_filters(corpus: Corpus, difficulty: Difficulty | None = None) -> Filtered:
    """Apply the paper's three filters one after the other.

    Without a `difficulty` of the corpus, only clips that pass (i) and the length
    limits are measured.
    """
    no_objects, fits = free_of_absent_objects(corpus), of_usable_length(corpus)
    left = np.flatnonzero(no_objects & fits)
    clips = corpus.select(left)
    measured = difficulty.select(left) if difficulty else measure_difficulty(clips)
    above = np.flatnonzero(above_floor(clips, measured))
    hard = harder_part(clips.select(above), measured.select(above))
    keep = np.zeros(len(corpus), bool)
    keep[left[above[hard]]] = True
    return Filtered(
        keep=keep,
        absent_objects=int((~no_objects).sum()),
        length=int((no_objects & ~fits).sum()),
        under_floor=len(left) - len(above),
        easiest=int((~hard).sum()),
    )


def name_order(corpus: Corpus) -> np.ndarray:
    """Indices in the order of the names, the same for every order of ingestion.

    Which of several clips of one name got `~2` does depend on that order, so those
    are sorted by the hash of their motion.
    """
    plain = [re.sub(r"~\d+(?=(_mirror)?$)", "", name) for name in corpus.names]
    count = Counter(plain)

    def key(index: int) -> tuple[str, str]:
        name = plain[index]
        return name, corpus.entry(index).hash if count[name] > 1 else ""

    return np.array(sorted(range(len(corpus)), key=key), dtype=np.int64)


@dataclass(frozen=True)
class MotionSet:
    """A chosen set of clips, in the order of their names."""

    indices: np.ndarray
    requested: int
    notes: tuple[str, ...]
    """How the set came about."""

    @property
    def complete(self) -> bool:
        """Whether the library had as many clips as were asked for."""
        return len(self.indices) == self.requested


def evaluation_set(
    corpus: Corpus,
    size: int = EVALUATION_SIZE,
    seed: int = 0,
    difficulty: Difficulty | None = None,
) -> MotionSet:
    """Draw clips that pass the three filters; all of them where there are fewer."""
    filtered = apply_filters(corpus, difficulty)
    pool = _in_name_order(corpus, filtered.keep)
    if len(pool) < size:
        note = f"only {len(pool):,} clips pass, {size:,} were asked for: all are taken"
    else:
        note = f"{size:,} of {len(pool):,} clips drawn with seed {seed}"
    indices = _draw(pool, min(size, len(pool)), np.random.default_rng(seed))
    return MotionSet(indices, size, (*filtered.lines(), note))


def _in_name_order(corpus: Corpus, keep: np.ndarray) -> np.ndarray:
    order = name_order(corpus)
    return order[keep[order]]


def _draw(pool: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    return pool[np.sort(rng.choice(len(pool), size, replace=False))]


def capability_set(
    corpus: Corpus,
    size: int = CAPABILITY_SIZE,
    seed: int = 0,
    accept: Callable[[np.ndarray], bool] | None = None,
    max_tries: int = 100_000,
) -> MotionSet:
    """The first of a seeded row of random subsets that meets quotas and `accept`.

    The pool is every clip that passes filter (i) and the length limits. For other
    sizes the quotas of 124 clips are scaled and rounded up. `accept` gets the
    indices of a subset; the paper asked it whether SONIC tracks the subset well.
    """
    keep = free_of_absent_objects(corpus) & of_usable_length(corpus)
    pool = _in_name_order(corpus, keep)
    groups = np.array([_group_number(corpus, i) for i in pool.tolist()], np.int64)
    need = np.zeros(len(kinds.GROUPS), np.int64)
    for name, quota in CAPABILITY_QUOTAS.items():
        need[kinds.GROUPS.index(name)] = math.ceil(quota * size / CAPABILITY_SIZE)
    _check_quotas(np.bincount(groups, minlength=len(need)), need, size)
    rng = np.random.default_rng(seed)
    missed, refused = np.zeros(len(need), np.int64), 0
    for number in range(1, max_tries + 1):
        chosen = _draw(np.arange(len(pool)), size, rng)
        short = np.bincount(groups[chosen], minlength=len(need)) < need
        missed += short
        if short.any():
            continue
        if accept is None or accept(pool[chosen]):
            note = f"subset {number:,} of {len(pool):,} clips, seed {seed}"
            return MotionSet(pool[chosen], size, (note,))
        refused += 1
    rarest = kinds.GROUPS[int(missed.argmax())]
    raise ValueError(
        f"no subset of {size} clips in {max_tries:,} tries: {refused:,} met the quotas "
        f"but were not accepted; the quota most often missed is {rarest}, by "
        f"{int(missed.max()):,}"
    )


def _group_number(corpus: Corpus, index: int) -> int:
    name = corpus.names[index]
    found = kinds.kind(name)
    if found == kinds.OTHER:
        found = kinds.kind(name, corpus.entry(index).text)
    return kinds.GROUPS.index(kinds.group(found))


def _check_quotas(have: np.ndarray, need: np.ndarray, size: int) -> None:
    if have.sum() < size:
        raise ValueError(
            f"{int(have.sum()):,} clips have no absent objects and {MIN_FRAMES} to "
            f"{MAX_FRAMES} frames; a capability set needs {size:,}"
        )
    if need.sum() > size:
        raise ValueError(f"{size} clips cannot meet quotas of {need.sum()} in all")
    numbers = zip(kinds.GROUPS, have.tolist(), need.tolist(), strict=True)
    short = [f"{name} (have {h}, need {n})" for name, h, n in numbers if h < n]
    if short:
        raise ValueError(f"the library cannot meet the quota of {', '.join(short)}")

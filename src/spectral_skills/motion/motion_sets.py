"""Which clips to train on and which to evaluate on, by rules and seeds.

Every set depends on clip names and motions only, never on their order in the
corpus: the same library gives the same set however it was ingested.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from spectral_skills.motion import kinds
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinds import LAFAN1_CLIPS
from spectral_skills.robot import g1

MIN_FRAMES, MAX_FRAMES = 100, 1500
CAPABILITY_SIZE = 124
CAPABILITY_QUOTAS = {
    **{"locomotion": 30, "gesture": 15, "dance": 5, "jump or kick": 5},
    **{"injured": 5, "ground": 4, "boxing": 1},
}
"""Least number of clips of each group among CAPABILITY_SIZE."""

# A corpus may be far larger than memory (47 M frames are 6.8 GB), so motions are
# read in groups of whole clips; one group with its differences takes about 100 MB.
_GROUP_FRAMES = 200_000


@dataclass(frozen=True)
class Difficulty:
    """Four measures of how hard each clip is, in the order of the corpus."""

    min_pelvis_height_m: np.ndarray
    peak_root_speed_m_s: np.ndarray
    joint_speed_p99_rad_s: np.ndarray  # over all joints of all steps together
    peak_foot_height_m: np.ndarray  # greatest height of the ankle roll links

    def select(self, indices: np.ndarray) -> "Difficulty":
        """The measures of some clips."""
        return Difficulty(*(values[indices] for values in vars(self).values()))

    def percentile(self) -> np.ndarray:
        """Mean percentile of each clip among these, 0 easiest to 1 hardest.

        Equal values share the middle of their ranks; integers keep them equal.
        """
        height, *others = vars(self).values()
        total = np.zeros(len(height), np.int64)
        for values in (-height, *others):  # a low pelvis is hard
            ordered = np.sort(values)
            total += np.searchsorted(ordered, values, side="left")
            total += np.searchsorted(ordered, values, side="right")
        return total / (8 * max(1, len(height)))


def measure_difficulty(corpus: Corpus, device: str = "cpu") -> Difficulty:
    """Measure every clip; speeds are differences of neighbouring frames at 50 Hz."""
    # Imported here so that splitting a corpus does not wait for torch.
    from spectral_skills.motion.kinematics import Kinematics

    feet = Kinematics(links=g1.FEET, device=device)
    parts = [np.empty((4, 0))]
    # disable=None: silent when the output is no terminal.
    with tqdm(total=corpus.frames, desc="difficulty", disable=None) as bar:
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
    foot_position = feet(torch.as_tensor(rows, device=device)).position
    foot_height = foot_position[..., 2].amax(dim=-1).cpu().numpy()
    velocity = np.diff(rows, axis=0, prepend=rows[:1]) * FPS
    velocity[starts] = 0.0  # that step came from another clip's last frame
    root_speed = np.linalg.norm(velocity[:, :3], axis=1)
    joint_speed = np.abs(velocity[:, 7:])
    steps = zip((starts + 1).tolist(), ends.tolist(), strict=True)
    return np.array(
        [
            np.minimum.reduceat(rows[:, 2], starts),
            np.maximum.reduceat(root_speed, starts),
            [np.percentile(joint_speed[first:end], 99) for first, end in steps],
            np.maximum.reduceat(foot_height, starts),
        ]
    )


def free_of_absent_objects(corpus: Corpus) -> np.ndarray:
    """Filter (i): which clips need no object or terrain, by their names."""
    return np.array([not kinds.needs_absent_object(n) for n in corpus.names], bool)


def of_usable_length(corpus: Corpus) -> np.ndarray:
    """Filter (ii), first half: which clips have 100 to 1,500 frames."""
    return (corpus.lengths >= MIN_FRAMES) & (corpus.lengths <= MAX_FRAMES)


def harder_part(corpus: Corpus, difficulty: Difficulty) -> np.ndarray:
    """Filter (iii): all but the easiest quarter, rounded down; names break ties."""
    by_name = name_order(corpus)
    percentile = difficulty.percentile()[by_name]
    easiest_first = by_name[np.argsort(percentile, kind="stable")]
    keep = np.ones(len(corpus), bool)
    keep[easiest_first[: len(corpus) // 4]] = False
    return keep


@dataclass(frozen=True)
class Filtered:
    """What the three filters leave, and how many clips each of them dropped."""

    keep: np.ndarray
    dropped: dict[str, int]

    def __str__(self) -> str:
        dropped = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items())
        return f"{self.keep.sum():,} of {len(self.keep):,} clips kept, {dropped}"


def apply_filters(corpus: Corpus, difficulty: Difficulty | None = None) -> Filtered:
    """Apply the paper's three filters one after the other.

    The second half of (ii) drops clips whose pelvis is ever under the floor. Without
    the `difficulty` of the corpus, only clips that pass (i) and the length limits are
    measured.
    """
    no_objects, fits = free_of_absent_objects(corpus), of_usable_length(corpus)
    left = np.flatnonzero(no_objects & fits)
    clips = corpus.select(left)
    measured = difficulty.select(left) if difficulty else measure_difficulty(clips)
    above = np.flatnonzero(measured.min_pelvis_height_m >= 0.0)
    hard = harder_part(clips.select(above), measured.select(above))
    keep = np.zeros(len(corpus), bool)
    keep[left[above[hard]]] = True
    dropped = {
        "need absent objects or terrain": int((~no_objects).sum()),
        f"not of {MIN_FRAMES} to {MAX_FRAMES} frames": int((no_objects & ~fits).sum()),
        "under the floor": len(left) - len(above),
        "easiest": int((~hard).sum()),
    }
    return Filtered(keep, dropped)


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
    note: str  # how the set came about, and whether it is smaller than requested


def evaluation_set(
    corpus: Corpus,
    size: int = 4096,
    seed: int = 0,
    difficulty: Difficulty | None = None,
) -> MotionSet:
    """Draw clips that pass the three filters; all of them where there are fewer."""
    filtered = apply_filters(corpus, difficulty)
    order = name_order(corpus)
    pool = order[filtered.keep[order]]
    taken = min(size, len(pool))
    drawn = np.random.default_rng(seed).choice(len(pool), taken, replace=False)
    note = f"{filtered}; {taken:,} drawn with seed {seed}"
    if taken < size:
        note = f"{filtered}; all taken, fewer than the {size:,} requested"
    return MotionSet(pool[np.sort(drawn)], size, note)


def capability_set(
    corpus: Corpus,
    size: int = CAPABILITY_SIZE,
    seed: int = 0,
    accept: Callable[[np.ndarray], bool] | None = None,
    max_tries: int = 100_000,
) -> MotionSet:
    """The first in a seeded series of random subsets that meets quotas and `accept`.

    The pool is every clip that passes filter (i) and the length limits. For other
    sizes the quotas of 124 clips are scaled and rounded up. `accept` gets the
    indices of a subset; the paper asked whether SONIC tracks the subset well.
    """
    order = name_order(corpus)
    pool = order[(free_of_absent_objects(corpus) & of_usable_length(corpus))[order]]
    entries = map(corpus.entry, pool.tolist())
    groups = [kinds.group(kinds.kind(entry.name, entry.text)) for entry in entries]
    numbers = np.array([kinds.GROUPS.index(group) for group in groups], np.int64)
    quotas = [CAPABILITY_QUOTAS.get(group, 0) for group in kinds.GROUPS]
    need = np.array([math.ceil(quota * size / CAPABILITY_SIZE) for quota in quotas])
    _check_possible(np.bincount(numbers, minlength=len(need)), need, size)
    rng, met = np.random.default_rng(seed), 0
    for number in range(1, max_tries + 1):
        chosen = np.sort(rng.choice(len(pool), size, replace=False))
        if (np.bincount(numbers[chosen], minlength=len(need)) < need).any():
            continue
        met += 1
        if accept is None or accept(pool[chosen]):
            return MotionSet(pool[chosen], size, f"draw {number:,}, seed {seed}")
    raise ValueError(
        f"{met:,} of {max_tries:,} random subsets meet the quotas, none is accepted"
    )


def _check_possible(have: np.ndarray, need: np.ndarray, size: int) -> None:
    names = (*(f"{group} clips" for group in kinds.GROUPS), "usable clips in all")
    numbers = zip(names, (*have, have.sum()), (*need, size), strict=True)
    if lack := [f"{name} (have {h}, need {n})" for name, h, n in numbers if h < n]:
        raise ValueError(f"this library has not enough {', '.join(lack)}")
    if need.sum() > size:
        raise ValueError(f"{size} clips cannot meet quotas of {need.sum()} in all")


def lafan1(corpus: Corpus) -> np.ndarray:
    """Indices of LAFAN1's clips, in the order of LAFAN1_CLIPS."""
    if missing := sorted(set(LAFAN1_CLIPS) - set(corpus.names)):
        raise ValueError(f"LAFAN1 clips are missing: {', '.join(missing)}")
    return np.array([corpus.index(name) for name in LAFAN1_CLIPS])


def lafan1_windows(
    corpus: Corpus, per_clip: int = 20, seconds: float = 10.0, seed: int = 0
) -> np.ndarray:
    """(40 * per_clip, 2) clip indices and uniformly drawn start frames."""
    frames = round(seconds * FPS)
    windows = []
    for number, clip in enumerate(lafan1(corpus).tolist()):
        last = int(corpus.lengths[clip]) - frames
        if last < 0:
            raise ValueError(f"{corpus.names[clip]} is shorter than {seconds:g} s")
        # A stream for each clip: what one clip gets does not depend on the others.
        rng = np.random.default_rng((seed, number))
        windows += [(clip, start) for start in rng.integers(0, last + 1, per_clip)]
    return np.array(windows, dtype=np.int64)


def split(corpus: Corpus, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and to hold out, by a hash of names, twins together.

    A share below 1 never moves others between sides when clips are added; otherwise it
    is the number of base names, of lowest hash, held out with all their twins.
    """
    hashes = np.array([kinds.name_hash(name, seed) for name in corpus.names])
    if share < 1:
        held_out = hashes < share
    else:
        held_out = np.unique(hashes, return_inverse=True)[1] < int(share)
    if held_out.all() or not held_out.any():
        raise ValueError(
            f"{held_out.sum()} of {len(corpus)} clips would be held out; every corpus "
            "needs clips to train on and clips to hold out"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)

"""What kind a clip is, and which clips to train on and which to evaluate on.

Kinds come from the words in a clip's name: camelCase, digits and underscores separate
words, and `jumps`, `jumped` and `jumping` are all `jump`. motion_sets.toml lists them.
Sets are chosen by rules and seeds. They depend on clip names and motions only, never on
their order in the corpus: the same library gives the same set however it was ingested.
"""

import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from spectral_skills.config import read_table
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.robot import g1

_LISTS = read_table(__file__)
_WORDS = {kind: frozenset(words.split()) for kind, words in _LISTS["kinds"].items()}
_GROUP_OF_KIND = {k: group for group, kinds in _LISTS["groups"].items() for k in kinds}
_ABSENT_OBJECTS = sum(_LISTS["absent_objects"].values(), [])
OTHER = "other"
KINDS: tuple[str, ...] = (*_WORDS, OTHER)
GROUPS: tuple[str, ...] = (*_LISTS["groups"], OTHER)
LAFAN1_CLIPS: tuple[str, ...] = tuple(
    f"{take}_subject{subject}"
    for take, subjects in _LISTS["lafan1"].items()
    for subject in subjects
)
"""Names of LAFAN1's 40 clips as retargeted to the G1."""
CAPABILITY_QUOTAS: dict[str, int] = _LISTS["capability_quotas"]
"""Least number of clips of each group among CAPABILITY_SIZE."""
CAPABILITY_SIZE = 124
MIN_FRAMES, MAX_FRAMES = 100, 1500
# A corpus may be far larger than memory (47 M frames are 6.8 GB), so motions are
# read in groups of whole clips; one group with its differences takes about 100 MB.
_GROUP_FRAMES = 200_000
_MAX_DRAWS = 100_000


def text_from_name(name: str) -> str:
    """Words hidden in a file name: `fallAndGetUp1_subject4` is `fall and get up`.

    A name without words, such as `35_22`, is taken as it is, with spaces.
    """
    whole = " ".join(re.split(r"[\s_]+", name)).strip()
    name = re.sub(r"__A\d+", "", name)  # BONES-SEED: the actor
    name = re.sub(r"(?i)\d+[ _-]?(hz|fps)", "", name)
    name = re.sub(r"_M$", " mirrored", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = [w.lower() for w in re.findall(r"[^\W\d_]+", name)]
    noise = _LISTS["file_names"]["noise"]
    kept = [w for w in words if w not in noise and len(w) > 1]
    found = " ".join(dict.fromkeys(kept))
    return found if len(found) > 2 else whole


def kind(name: str, text: str = "") -> str:
    """The kind of a clip, one of KINDS; its text counts where its name is silent."""
    for source in (text_from_name(name), text):
        words = re.findall("[a-z]+", source.lower())
        found = {form for word in words for form in _base_forms(word)}
        for kind, known in _WORDS.items():
            if known & found:
                return kind
    return OTHER


def read_kinds(path: Path) -> dict[str, str]:
    """Kinds by the names of clips, from a table (.csv) with columns name and kind, such
    as the index of the CMU pack."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        if missing := {"name", "kind"} - set(rows.fieldnames or ()):
            raise ValueError(f"{path}: no column {' and no column '.join(missing)}")
        return {row["name"]: row["kind"] for row in rows}


def _base_forms(word: str) -> Iterator[str]:
    """What the word may be an inflection of, among words that do not exist."""
    yield word
    for ending in ("s", "es", "ed", "er", "ing"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 1:
            yield root
            yield root + "e"  # dancing
            if root[-1] == root[-2]:
                yield root[:-1]  # running


def group(kind: str) -> str:
    """The coverage group of a kind, one of GROUPS."""
    return _GROUP_OF_KIND.get(kind, OTHER)


def needs_absent_object(name: str) -> bool:
    """Whether a clip's name speaks of things or ground that an empty scene lacks."""
    words = f"_{'_'.join(text_from_name(name).split())}_"
    return any(part in words for part in _ABSENT_OBJECTS)


def base_name(name: str) -> str:
    """The name without what marks twins of one motion.

    `_mirror` is our mirror image, `_M` that of BONES-SEED, `~2` a second clip of
    the same name.
    """
    return re.sub(r"(_mirror|_M|~\d+)+$", "", name)


def name_hash(name: str, seed: int) -> float:
    """A number in [0, 1) that depends on nothing but the base name and the seed."""
    key = f"{seed}/{base_name(name)}".encode()
    # A float has 53 bits below one.
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) >> 11) / 2**53


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


def measure_difficulty(corpus: Corpus) -> np.ndarray:
    """(4, clips) measures of how hard a clip is, the harder the greater.

    Depth of the pelvis (its least height, negated, m), its peak speed (m/s), the 99th
    percentile of joint speeds (rad/s) and the greatest height of an ankle (m). Speeds
    are differences of neighbouring frames at 50 Hz.
    """
    # Imported here so that splitting a corpus does not wait for torch.
    from spectral_skills.motion.kinematics import Kinematics

    feet, parts = Kinematics(links=g1.FEET), [np.empty((4, 0))]
    # disable=None: silent when the output is no terminal.
    with tqdm(total=corpus.frames, desc="difficulty", disable=None) as bar:
        for clips in corpus.shards(_GROUP_FRAMES):
            parts.append(_measure(clips, feet))
            bar.update(clips.frames)
    return np.concatenate(parts, axis=1)


def _measure(clips: Corpus, feet: Callable) -> np.ndarray:
    import torch

    rows = np.concatenate([clips.qpos(i) for i in range(len(clips))])
    ends = np.cumsum(clips.lengths)
    starts = ends - clips.lengths
    foot_height = feet(torch.as_tensor(rows)).position[..., 2].amax(dim=-1).numpy()
    velocity = np.diff(rows, axis=0, prepend=rows[:1]) * FPS
    velocity[starts] = 0.0  # that step came from another clip's last frame
    root_speed = np.linalg.norm(velocity[:, :3], axis=1)
    joint_speed = np.abs(velocity[:, 7:])
    steps = zip((starts + 1).tolist(), ends.tolist(), strict=True)
    return np.array(
        [
            -np.minimum.reduceat(rows[:, 2], starts),
            np.maximum.reduceat(root_speed, starts),
            [np.percentile(joint_speed[first:end], 99) for first, end in steps],
            np.maximum.reduceat(foot_height, starts),
        ]
    )


def mean_percentile(difficulty: np.ndarray) -> np.ndarray:
    """Mean percentile of each clip among these, 0 easiest to 1 hardest.

    Equal values share the middle of their ranks; integers keep them equal.
    """
    total = np.zeros(difficulty.shape[1], np.int64)
    for values in difficulty:
        ordered = np.sort(values)
        total += np.searchsorted(ordered, values, side="left")
        total += np.searchsorted(ordered, values, side="right")
    return total / (8 * max(1, len(total)))


def harder_part(corpus: Corpus, difficulty: np.ndarray) -> np.ndarray:
    """Filter (iii): all but the easiest quarter, rounded down; names break ties."""
    by_name = name_order(corpus)
    percentile = mean_percentile(difficulty)[by_name]
    easiest_first = by_name[np.argsort(percentile, kind="stable")]
    keep = np.ones(len(corpus), bool)
    keep[easiest_first[: len(corpus) // 4]] = False
    return keep


def usable(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """Filter (i), clips that need no object or terrain by their names; and the first
    half of (ii), clips of 100 to 1,500 frames."""
    no_objects = np.array([not needs_absent_object(n) for n in corpus.names], bool)
    return no_objects, (corpus.lengths >= MIN_FRAMES) & (corpus.lengths <= MAX_FRAMES)


@dataclass(frozen=True)
class Filtered:
    """What the three filters leave, and how many clips each of them dropped."""

    keep: np.ndarray
    dropped: dict[str, int]

    def __str__(self) -> str:
        dropped = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items())
        return f"{self.keep.sum():,} of {len(self.keep):,} clips kept, {dropped}"


def apply_filters(corpus: Corpus) -> Filtered:
    """Apply the paper's three filters one after the other.

    The second half of (ii) drops clips whose pelvis is ever under the floor.
    """
    no_objects, fits = usable(corpus)
    left = np.flatnonzero(no_objects & fits)
    clips = corpus.select(left)
    measured = measure_difficulty(clips)
    above = np.flatnonzero(measured[0] <= 0.0)
    hard = harder_part(clips.select(above), measured[:, above])
    keep = np.zeros(len(corpus), bool)
    keep[left[above[hard]]] = True
    dropped = {
        "need absent objects or terrain": int((~no_objects).sum()),
        f"not of {MIN_FRAMES} to {MAX_FRAMES} frames": int((no_objects & ~fits).sum()),
        "under the floor": len(left) - len(above),
        "easiest": int((~hard).sum()),
    }
    return Filtered(keep, dropped)


@dataclass(frozen=True)
class MotionSet:
    """A chosen set of clips, in the order of their names."""

    indices: np.ndarray
    note: str  # how the set came about, and whether it is smaller than requested


def evaluation_set(corpus: Corpus, size: int = 4096, seed: int = 0) -> MotionSet:
    """Draw clips that pass the three filters; all of them where there are fewer."""
    filtered, order = apply_filters(corpus), name_order(corpus)
    pool = order[filtered.keep[order]]
    taken = min(size, len(pool))
    drawn = np.random.default_rng(seed).choice(len(pool), taken, replace=False)
    note = f"{filtered}; {taken:,} drawn with seed {seed}"
    if taken < size:
        note = f"{filtered}; all taken, fewer than the {size:,} requested"
    return MotionSet(pool[np.sort(drawn)], note)


def capability_set(
    corpus: Corpus, size: int = CAPABILITY_SIZE, seed: int = 0
) -> MotionSet:
    """The first in a seeded series of random subsets that meets the quotas.

    The pool is every clip that passes filter (i) and the length limits. For other
    sizes the quotas of 124 clips are scaled and rounded up.
    """
    order = name_order(corpus)
    pool = order[np.logical_and(*usable(corpus))[order]]
    entries = map(corpus.entry, pool.tolist())
    groups = [group(kind(entry.name, entry.text)) for entry in entries]
    numbers = np.array([GROUPS.index(group) for group in groups], np.int64)
    quotas = [CAPABILITY_QUOTAS.get(group, 0) for group in GROUPS]
    need = np.array([math.ceil(quota * size / CAPABILITY_SIZE) for quota in quotas])
    have = np.bincount(numbers, minlength=len(need))
    labels = (*(f"{group} clips" for group in GROUPS), "usable clips in all")
    counts = zip(labels, (*have, have.sum()), (*need, size), strict=True)
    if lack := [f"{what} (have {h}, need {n})" for what, h, n in counts if h < n]:
        raise ValueError(f"this library has not enough {', '.join(lack)}")
    if need.sum() > size:
        raise ValueError(f"{size} clips cannot meet quotas of {need.sum()} in all")
    rng = np.random.default_rng(seed)
    for number in range(1, _MAX_DRAWS + 1):
        chosen = np.sort(rng.choice(len(pool), size, replace=False))
        if (np.bincount(numbers[chosen], minlength=len(need)) >= need).all():
            return MotionSet(pool[chosen], f"draw {number:,}, seed {seed}")
    raise ValueError(f"none of {_MAX_DRAWS:,} random subsets meets the quotas")


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
    held_out = _held_out(corpus, share, seed)
    if held_out.all() or not held_out.any():
        raise ValueError(
            f"{held_out.sum()} of {len(corpus)} clips would be held out; every corpus "
            "needs clips to train on and clips to hold out"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def hold_out(
    corpora: Sequence[Corpus], share: float
) -> tuple[list[Corpus], list[Corpus]]:
    """Views of the clips to train on and of those held out, without empty ones.

    The split is that of seed 0, whatever a run's own seed is: models that are trained
    one after the other, such as a skill space and its controller, hold out the same
    clips. A share of a small corpus may be none of its clips, or all of them, as long
    as all corpora together have both; with 0 nothing is held out.
    """
    if share == 0:
        return list(corpora), []
    if share >= 1:
        pairs = [split(corpus, share) for corpus in corpora]
    else:
        chosen = [_held_out(corpus, share, 0) for corpus in corpora]
        pairs = [(np.flatnonzero(~held), np.flatnonzero(held)) for held in chosen]
    sides: tuple[list[Corpus], list[Corpus]] = ([], [])
    for corpus, pair in zip(corpora, pairs, strict=True):
        for side, indices in zip(sides, pair, strict=True):
            side.extend([corpus.select(indices)] if len(indices) else [])
    if not all(sides):
        which = "none" if sides[0] else "every one"
        count = sum(len(corpus) for corpus in corpora)
        raise ValueError(
            f"with --held-out {share:g}, {which} of {count:,} clips would be held out; "
            "give a larger share, a number of clips such as 1, or 0"
        )
    return sides


def _held_out(corpus: Corpus, share: float, seed: int) -> np.ndarray:
    hashes = np.array([name_hash(name, seed) for name in corpus.names])
    if share < 1:
        return hashes < share
    return np.unique(hashes, return_inverse=True)[1] < int(share)

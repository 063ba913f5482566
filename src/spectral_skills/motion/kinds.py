"""The kind of a clip from the words in its name, and whose twin it is.

Names are read word by word: camelCase, digits and underscores separate words, and
`jumps`, `jumped` and `jumping` are all `jump`. The words are listed in kinds.toml.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_WORDS = {kind: frozenset(words.split()) for kind, words in _LISTS["kinds"].items()}
_GROUP_OF_KIND = {k: group for group, kinds in _LISTS["groups"].items() for k in kinds}
_ABSENT_OBJECTS = tuple(
    part for parts in _LISTS["absent_objects"].values() for part in parts
)
_NOISE = frozenset(_LISTS["file_names"]["noise"])
OTHER = "other"
KINDS: tuple[str, ...] = (*_WORDS, OTHER)
GROUPS: tuple[str, ...] = (*_LISTS["groups"], OTHER)
LAFAN1_CLIPS: tuple[str, ...] = tuple(
    f"{take}_subject{subject}"
    for take, subjects in _LISTS["lafan1"].items()
    for subject in subjects
)
"""Names of LAFAN1's 40 clips as retargeted to the G1."""


def text_from_name(name: str) -> str:
    """Words hidden in a file name: `fallAndGetUp1_subject4` is `fall and get up`."""
    name = re.sub(r"__A\d+", "", name)  # BONES-SEED: the actor
    name = re.sub(r"(?i)\d+[ _-]?(hz|fps)", "", name)
    name = re.sub(r"_M$", " mirrored", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = [w.lower() for w in re.findall(r"[^\W\d_]+", name)]
    kept = [w for w in words if w not in _NOISE and len(w) > 1]
    return " ".join(dict.fromkeys(kept)) or " ".join(words)


def kind(name: str, text: str = "") -> str:
    """The kind of a clip, one of KINDS; its text counts where its name is silent."""
    return _kind(text_from_name(name)) or _kind(text) or OTHER


def group(kind: str) -> str:
    """The coverage group of a kind, one of GROUPS."""
    return _GROUP_OF_KIND.get(kind, OTHER)


def _kind(text: str) -> str:
    words = re.findall("[a-z]+", text.lower())
    found = {form for word in words for form in _base_forms(word)}
    return next((k for k, known in _WORDS.items() if known & found), "")


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


def needs_absent_object(name: str) -> bool:
    """Whether a clip's name speaks of things or ground that an empty scene lacks."""
    words = f"_{'_'.join(text_from_name(name).split())}_"
    return any(part in words for part in _ABSENT_OBJECTS)


def passes_sonic_filter(name: str) -> bool:
    """Whether SONIC's training library would have the clip, by its name."""
    lower = name.lower()
    return not any(part.lower() in lower for part in _LISTS["sonic"]["name_filter"])


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

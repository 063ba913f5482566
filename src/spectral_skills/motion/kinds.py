"""What is known of a clip in words: its description, its kind, whose twin it is.

Descriptions come from a sidecar file or from the clip's name. Names are read word by
word: camelCase, digits and underscores separate words, and `jumps`, `jumped` and
`jumping` are all `jump`. The words are listed in kinds.toml.
"""

import csv
import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

NAME_LENGTH = 255
TEXT_LENGTH = 4000
MAX_SENTENCES = 64
_MAX_TEXT = 100_000
TABLE = "metadata.csv"
_NAME_COLUMNS = ("name", "filename", "file_name", "move_name")
_TEXT_COLUMNS = (
    "text",
    *(f"content_natural_desc_{i}" for i in range(1, 5)),
    "content_short_description",
)

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


def printable(value: object, limit: int = 80) -> str:
    """Untrusted text on one printable line, which any encoding can write."""
    shown = (c if c.isprintable() else " " for c in str(value)[: 4 * limit])
    text = " ".join("".join(shown).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def sentences(values: Iterable[str]) -> str:
    """Untrusted descriptions of a clip, one a line."""
    lines = (line for value in values for line in str(value)[:_MAX_TEXT].splitlines())
    shown = (printable(line, TEXT_LENGTH) for line in islice(lines, MAX_SENTENCES))
    return "\n".join(filter(None, shown))


@dataclass(frozen=True)
class Description:
    """What a sidecar says about a clip; empty where it is silent."""

    text: str = ""
    source: str = ""
    licence: str = ""


class Sidecars:
    """Looks for NAME.txt beside a motion and metadata.csv there or one folder up."""

    def __init__(self):
        self._tables: dict[Path, dict[str, Description]] = {}
        self.problems: list[str] = []  # sidecars that could not be used, and why

    def describe(self, path: Path, name: str) -> Description:
        """The description of clip `name` that was read from `path`."""
        tables = map(self._table, (path.parent, path.parent.parent))
        rows = (table.get(_key(name)) for table in tables)
        found = next((row for row in rows if row is not None), Description())
        text = self._note(path.parent, name) or found.text
        return Description(text, found.source, found.licence)

    def _note(self, folder: Path, name: str) -> str:
        # A name from inside a library may look like a path: it must not lead away.
        if Path(name).name != name:
            return ""
        try:
            text = (folder / f"{name}.txt").read_text("utf-8-sig", "replace")
        except OSError:
            return ""
        return sentences([text])

    def _table(self, folder: Path) -> dict[str, Description]:
        if folder not in self._tables:
            path = folder / TABLE
            self._tables[folder] = {}
            try:
                if path.is_file():
                    self._tables[folder] = read_table(path)
            except (OSError, ValueError, csv.Error) as error:
                self.problems.append(f"{path}: not used: {printable(error, 200)}")
        return self._tables[folder]


def read_table(path: Path) -> dict[str, Description]:
    """Rows of a metadata table by clip name; BONES-SEED's columns are known too."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        keys = [c for c in _NAME_COLUMNS if c in columns]
        texts = [c for c in _TEXT_COLUMNS if c in columns]
        if not keys or not texts:
            has = ", ".join(columns) or "none"
            raise ValueError(f"it needs the columns name and text, and has {has}")
        table = {}
        for row in reader:
            licence = row.get("licence") or row.get("license") or ""
            description = Description(
                text=sentences(dict.fromkeys(row[c] or "" for c in texts)),
                source=printable(row.get("source") or "", TEXT_LENGTH),
                licence=printable(licence, TEXT_LENGTH),
            )
            for key in keys:
                if row[key]:
                    table.setdefault(_key(row[key]), description)
    return table


def _key(name: str) -> str:
    """Table rows name clips with or without an ending or folders."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1]
    return re.sub(r"\.(csv|npz|pkl|joblib)$", "", stem)


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

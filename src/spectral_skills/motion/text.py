"""What a clip is called in words: from a sidecar file, or from its file name."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from spectral_skills.motion.readers.assemble import TEXT_LENGTH, plain, sentences

TABLE = "metadata.csv"
_NAME_COLUMNS = ("name", "filename", "file_name", "move_name")
_TEXT_COLUMNS = (
    "text",
    *(f"content_natural_desc_{i}" for i in range(1, 5)),
    "content_short_description",
)


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
        self.problems: list[str] = []
        """Sidecars that could not be used, and why."""

    def describe(self, path: Path, name: str) -> Description:
        """The description of clip `name` that was read from `path`."""
        for folder in (path.parent, path.parent.parent):
            if (found := self._table(folder).get(_key(name))) is not None:
                break
        else:
            found = Description()
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
                self.problems.append(f"{path}: not used: {plain(error, 200)}")
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
            description = Description(
                text=sentences(dict.fromkeys(row[c] or "" for c in texts)),
                source=plain(row.get("source") or "", TEXT_LENGTH),
                licence=plain(
                    row.get("licence") or row.get("license") or "", TEXT_LENGTH
                ),
            )
            for key in keys:
                if row[key]:
                    table.setdefault(_key(row[key]), description)
    return table


def _key(name: str) -> str:
    """Table rows name clips with or without an ending or folders."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1]
    return re.sub(r"\.(csv|npz|pkl|joblib)$", "", stem)


_NOISE = {
    *("subject", "poses", "stageii", "retargeted", "amass", "bvh", "level"),
    *("filter", "smpl", "video", "motions", "raw", "mj", "dof", "hz", "fps", "g1"),
    *("mirror", "v"),
}


def text_from_name(name: str) -> str:
    """Words hidden in a file name: `fallAndGetUp1_subject4` is `fall and get up`."""
    name = re.sub(r"__A\d+", "", name)  # BONES-SEED: the actor
    name = re.sub(r"(?i)\d+[ _-]?(hz|fps)", "", name)
    name = re.sub(r"_M$", " mirrored", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = [w.lower() for w in re.findall(r"[^\W\d_]+", name)]
    kept = [w for w in words if w not in _NOISE and len(w) > 1]
    return " ".join(dict.fromkeys(kept)) or " ".join(words)

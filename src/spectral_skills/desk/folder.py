"""The run folder, and file names that somebody types on a page."""

import re
from pathlib import Path

_LONGEST = 60
_RESERVED = {"con", "prn", "aux", "nul"} | {
    f"{device}{number}" for device in ("com", "lpt") for number in range(10)
}
"""Names that some systems keep for themselves."""
UNNAMED = "untitled"


def safe_stem(typed: str) -> str:
    """A name that is a file's in any folder: letters, digits, `-` and `_`."""
    stem = re.sub(r"[^\w-]+", "-", typed, flags=re.ASCII).strip("-_")
    stem = stem[:_LONGEST].rstrip("-_") or UNNAMED
    return f"{stem}-file" if stem.lower() in _RESERVED else stem


class RunFolder:
    """Where a desk keeps its files; nothing is read or written elsewhere."""

    def __init__(self, path: Path):
        if path.is_file():
            raise ValueError(f"{path}: a file; name a folder")
        self.path = path

    def file(self, typed: str, suffix: str) -> Path:
        """The file of a typed name."""
        return self.path / f"{safe_stem(typed)}{suffix}"

    def free(self, typed: str, suffix: str) -> Path:
        """The file of a typed name, numbered if it is taken."""
        path, number = self.file(typed, suffix), 1
        while path.exists():
            number += 1
            path = self.path / f"{safe_stem(typed)}-{number}{suffix}"
        return path

    def stems(self, suffix: str) -> list[str]:
        """Names of all files of a kind."""
        return sorted(path.stem for path in self.path.glob(f"*{suffix}"))

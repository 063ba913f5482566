"""What an experiment has found: numbers for tables, charts, and runs worth a film.

One JSON file an experiment, beside the folder of its records; the report reads nothing
else.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.results import Result

RECORDS = "records"
"""Folder of the runs, beside the findings."""
EXPERIMENTS = (
    *("catalogue", "dose", "additivity", "ladder", "transfer"),
    *("pass_rates", "alternatives", "hands", "unseen", "chaining"),
    *("interfaces", "fsq", "language", "pairs"),
)
"""In the order in which one wants to read of them."""


@dataclass(frozen=True)
class Series:
    """Points of a chart that belong together."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marks: tuple[str, ...] = ()
    """One a point where something is to be said of some, else none: `fall`, a name."""
    role: Literal["", "behind", "trail"] = ""
    """`behind` is grey, for others to be seen against; a `trail` joins points of a
    scatter or a map and lies over all others."""


@dataclass(frozen=True)
class Chart:
    """A picture, described; how it is drawn is not said here."""

    title: str
    kind: Literal["line", "scatter", "bar", "path", "map"]
    """A path is seen from above: metres, both axes alike. Of a map, only who is near
    whom means something."""
    x: str
    """Label, with its unit."""
    y: str
    series: tuple[Series, ...]
    note: str = ""
    """What to see in it."""


@dataclass(frozen=True)
class Film:
    """A run beside its base, by the names of their records."""

    title: str
    run: str
    base: str


@dataclass(frozen=True)
class Findings:
    """All that an experiment leaves behind."""

    experiment: str
    title: str
    results: tuple[Result, ...]
    charts: tuple[Chart, ...] = ()
    films: tuple[Film, ...] = ()
    note: str = ""
    """What differs from the paper, and what to make of the numbers."""
    model: str = ""
    """How the controller was made: frames, data, command."""

    def save(self, folder: Path) -> Path:
        """Write `<experiment>.json` into a folder."""
        path = folder / f"{self.experiment}.json"
        write_file(path, json.dumps(configs.to_dict(self), indent=1) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> "Findings":
        """Read a file; says what is wrong with it."""
        return configs.from_dict(
            cls, configs.parse(path.read_text(), str(path)), str(path)
        )

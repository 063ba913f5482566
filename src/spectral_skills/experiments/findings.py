"""What an experiment has found: numbers for tables, charts, and runs worth a film.

Each experiment writes one JSON file beside the folder of its records, and the page of
all findings is made from these files alone. A `Draft` collects the findings
while an experiment runs.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.models import Models
from spectral_skills.results import Result, current_command, hardware, model_hashes

if TYPE_CHECKING:
    from spectral_skills.control.batch import Run

RECORDS = "records"
"""Folder of the recorded runs, beside the findings."""
Role = Literal["", "behind", "trail"]


@dataclass(frozen=True)
class Series:
    """Points of a chart that belong together."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marks: tuple[str, ...] = ()
    """Labels, one per point (`fall`, a name, or nothing), or none at all."""
    role: Role = ""
    """`behind` is drawn in grey behind the others; a `trail` joins points of a scatter
    or a map and is drawn over all others."""

    @classmethod
    def of(
        cls,
        name: str,
        x: Iterable[float],
        y: Iterable[float],
        marks: Iterable[str] = (),
        role: Role = "",
    ) -> "Series":
        """A series of arrays or other iterables of numbers."""
        points = tuple(map(float, x)), tuple(map(float, y))
        return cls(name, *points, tuple(marks), role)


@dataclass(frozen=True)
class Chart:
    """A description of a picture; how to draw it is decided elsewhere."""

    title: str
    kind: Literal["line", "scatter", "bar", "path", "map"]
    """A path is seen from above, in metres, with equal axes. On a map only
    neighbourhoods have a meaning."""
    x: str
    """Label with its unit."""
    y: str
    series: tuple[Series, ...]
    note: str = ""
    """What to see in the chart."""


@dataclass(frozen=True)
class Film:
    """A run beside its base, by the file names of their records."""

    title: str
    run: str
    base: str


@dataclass(frozen=True)
class Findings:
    """Everything that an experiment leaves behind."""

    experiment: str
    title: str
    results: tuple[Result, ...]
    charts: tuple[Chart, ...] = ()
    films: tuple[Film, ...] = ()
    note: str = ""
    """How the experiment differs from the paper, and what the numbers mean."""
    model: str = ""
    """How the controller was trained: frames, data, command."""

    def save(self, folder: Path) -> Path:
        """Write `<experiment>.json` into a folder."""
        path = folder / f"{self.experiment}.json"
        write_file(path, json.dumps(configs.to_dict(self), indent=1) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> "Findings":
        """Read a file of findings, or say what is wrong with it."""
        values = configs.parse(path.read_text(), str(path))
        return configs.from_dict(cls, values, str(path))


@cache
def _table(name: str) -> dict:
    return configs.read_table(__file__, f"{name}.toml")


EXPERIMENTS: dict[str, str] = {
    name: about.get("module", name) for name, about in _table("texts").items()
}
"""Names of the experiments in reading order, and the modules of their functions, which
are named alike."""


def grid(experiment: str, **changes: Any) -> Any:
    """What an experiment runs: bases, directions, amplitudes, rules, with changes."""
    known = _table("grids")[experiment]
    options = known.get("options", ())
    if unknown := changes.keys() - set(options):
        raise TypeError(
            f"{experiment} has no option {min(unknown)!r}; it has {', '.join(options)}"
        )
    return SimpleNamespace(**known | changes)


def paper(table: str, row: str) -> Any:
    """The numbers that the paper has in a row, by metric."""
    return _table("paper").get(table, {}).get(row, {})


@dataclass(frozen=True)
class MeasuredWith:
    """Models and a device, where nothing else of a `Runner` is needed."""

    fingerprint: str
    models: str
    hardware: str

    @classmethod
    def of(cls, models: Models, device: str, role: str = "controller"):
        """The fingerprint is that of the model with this role."""
        hashes = model_hashes(**models.hashes)
        return cls(models.hashes.get(role, ""), hashes, hardware(device))


@dataclass
class Draft:
    """Findings of an experiment that is still running.

    Titles, notes, units and charts are described in `texts.toml`; values fill the
    fields in their braces.
    """

    experiment: str
    runner: Any
    """The `Runner` of the runs, or what they were `MeasuredWith`."""
    corpus: str = ""
    """Hash of the corpus that was used, where there is one."""
    table: str = ""
    """Title of the table of results; `Composition: <experiment>` by default."""
    seed: int = 0
    """Seed of the numbers that are added without one."""
    results: list[Result] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    films: list[Film] = field(default_factory=list)

    def add(
        self,
        row: str,
        values: Mapping[str, SupportsFloat | None],
        n: int = 1,
        *,
        seed: int | None = None,
        unit: str | None = None,
        papers: Mapping[str, str] | None = None,
        runner: Any = None,
    ) -> None:
        """Add the values of a row by metric; None and what is not a number is omitted.

        Units are those of `texts.toml`: `speed, lowest` and `side effect: speed` have
        that of `speed` if they have none themselves. `papers` are the paper's numbers
        where they are not under the name of the row; `runner` is what was used instead
        of this one's.
        """
        units = _table("texts").get(self.experiment, {}).get("units", {})
        known = paper(self.experiment, row) if papers is None else papers
        used = runner or self.runner
        models = used.models, model_hashes(corpus=self.corpus)
        for metric, value in values.items():
            if value is None or math.isnan(float(value)):
                continue
            of = metric.split(",")[0].removeprefix("side effect: ")
            usual = units.get(metric, units.get(of, ""))
            self.results.append(
                Result(
                    *(self.table or f"Composition: {self.experiment}", row, metric),
                    value=float(value),
                    unit=usual.format(n=n) if unit is None else unit,
                    n=n,
                    seed=self.seed if seed is None else seed,
                    run=(used.fingerprint or self.corpus)[:8],
                    paper=known.get(metric, ""),
                    command=current_command(),
                    hardware=used.hardware,
                    models=", ".join(filter(None, models)),
                )
            )

    def text(self, name: str, **values) -> str:
        """A text of the experiment, filled in."""
        return _table("texts")[self.experiment][name].format(**values)

    def chart(self, name: str, series: Iterable[Series], **values) -> None:
        """Add a chart by its name in `texts.toml`."""
        spec = _table("texts")[self.experiment]["charts"][name]
        texts = {key: text.format(**values) for key, text in spec.items()}
        self.charts.append(Chart(series=tuple(series), **texts))

    def film(self, title: str, run: "Run", base: "Run") -> None:
        """Add a film of two runs; nothing where runs are not kept."""
        kept = self.runner.record(run), self.runner.record(base)
        if kept[0] is not None and kept[1] is not None:
            self.films.append(Film(title, kept[0].name, kept[1].name))

    def findings(self, **values: Any) -> Findings:
        """Everything that was added; values fill the note."""
        parts = tuple(self.results), tuple(self.charts), tuple(self.films)
        title, note = self.text("title"), self.text("note", **values)
        return Findings(self.experiment, title, *parts, note)

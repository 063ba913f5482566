"""Results as tables: on the terminal, in HTML pages, and as docs/results.md.

The results live in a JSON-lines file. Beside it are written a page of headlines and a
folder with one page per topic; results.toml says which table belongs to which.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

from spectral_skills.atomic import write_file
from spectral_skills.config import from_dict, read_table, to_dict
from spectral_skills.results import Result

_SHARED = 0.4
"""Share of all columns that a row must have in common with the others of its table."""

_PERCENT = ("success_rate", "followed", "path_share", "fall_free_relative_share")
"""Shares that are printed as percentages."""


def number(value: float) -> str:
    """Four significant digits, thousands separated; a dash if it is not finite."""
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value + 0.0:.4g}"


def text(cells: Sequence[Sequence[str]], side: str = ">") -> str:
    """Aligned lines; all columns but the first are at this side, `<` or `>`."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    formats = [f"{'<' if not i else side}{width}" for i, width in enumerate(widths)]
    lines = [map(format, line, formats) for line in cells]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def markdown(cells: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first line is its head."""
    head, *lines = (f"| {' | '.join(line)} |" for line in cells)
    return "\n".join([head, "|---" * len(cells[0]) + "|", *lines])


@dataclass(frozen=True)
class Row:
    label: str
    n: int
    """Number of samples behind most of its values."""
    cells: dict[tuple[str, str], Result]


@dataclass(frozen=True)
class Table:
    """Results with a line for every row and a column for every metric and unit."""

    columns: list[tuple[str, str]]
    rows: list[Row]

    @classmethod
    def of(cls, results: Iterable[Result]) -> "Table":
        own = list(results)
        columns = list(dict.fromkeys((r.metric, r.unit) for r in own))
        found: dict[tuple[str, int, str], list[Result]] = {}
        for r in own:
            found.setdefault((r.row, r.seed, r.hardware), []).append(r)
        seeds, places = len({k[1] for k in found}) > 1, len({k[2] for k in found}) > 1
        rows = []
        for (label, seed, place), members in found.items():
            label += f", {place}" if places and place else ""
            label += f", seed {seed}" if seeds else ""
            n = Counter(r.n for r in members).most_common(1)[0][0]
            rows.append(Row(label, n, {(r.metric, r.unit): r for r in members}))
        return cls(columns, rows)

    def strings(self) -> list[list[str]]:
        """Head and lines, with the paper's values in brackets."""
        lines = [["", "n", *(head(*column) for column in self.columns)]]
        for row in self.rows:
            found = [row.cells.get(column) for column in self.columns]
            cells = [
                "" if r is None else number(r.value) + f" ({r.paper})" * bool(r.paper)
                for r in found
            ]
            lines.append([row.label, f"{row.n:,}", *cells])
        return lines


def head(metric: str, unit: str) -> str:
    """Name of a column; a unit that the metric's name ends with is written once."""
    name = metric.removesuffix("_" + unit.replace("/", "_")).replace("_", " ")
    return f"{name} ({unit})" if unit else name


def blocks(results: Sequence[Result]) -> list[list[Result]]:
    """Results in groups whose rows have columns in common: no table full of holes."""
    rows: dict[tuple, list[Result]] = {}
    for result in results:
        key = result.row, result.seed, result.hardware
        rows.setdefault(key, []).append(result)
    found: list[tuple[set[str], list[Result]]] = []
    for own in rows.values():
        metrics = {r.metric for r in own}
        for columns, block in found:
            if len(metrics & columns) >= _SHARED * len(metrics | columns):
                columns |= metrics
                block += own
                break
        else:
            found.append((metrics, own))
    return [block for _, block in found]


def measured_with(results: Iterable[Result]) -> str:
    """Return the commands, machines, models and seeds behind some results."""
    results = list(results)
    sources = dict.fromkeys((r.command, r.hardware, r.models) for r in results)
    runs = [
        f"`{command}`" + f" on {machine}" * bool(machine) + f" ({used})" * bool(used)
        for command, machine, used in sources
    ]
    seeds = sorted({r.seed for r in results})
    return f"{', '.join(runs)}; seed {', '.join(map(str, seeds))}"


def show(results: Sequence[Result]) -> None:
    """Print results, one per line, beside the paper's."""
    if not results:
        return
    print(f"{results[0].table} ({results[0].hardware})")
    rows = [(r.row, r.metric, _percent(r), r.paper) for r in results]
    if any(r.paper for r in results):
        rows.insert(0, ("", "", "measured", "paper"))
    print(indent(text(rows, "<"), "  "))


def show_tracking(results: Sequence[Result]) -> None:
    """Print a line per kind of motion, and below it the other metrics of all clips."""
    table, names = Table.of(results), _layout()["tracking"]
    columns = [c for metric in names for c in table.columns if c[0] == metric]
    cells = [["", "n", *(names[metric] for metric, _ in columns)]]
    for row in table.rows:
        n = max(result.n for result in row.cells.values())
        found = [row.cells.get(column) for column in columns]
        values = ["-" if r is None else _percent(r) for r in found]
        cells.append([row.label, f"{n:,}", *values])
    print(text(cells))
    for (metric, _), result in table.rows[0].cells.items() if table.rows else ():
        if metric not in names:
            name = metric.removesuffix("_s").removesuffix("_mm").replace("_", " ")
            print(f"  {name}: {_with_unit(result)} (n {result.n:,})")


def _with_unit(result: Result) -> str:
    return f"{number(result.value)} {result.unit}".strip()


def _percent(result: Result) -> str:
    if result.metric in _PERCENT and not result.unit:
        return f"{100 * result.value:.1f} %"
    return _with_unit(result)


def load(path: Path) -> list[Result]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [
        from_dict(Result, json.loads(line), f"{path}:{i + 1}")
        for i, line in enumerate(lines)
    ]


def publish(results: Sequence[Result], path: Path) -> None:
    """Put results into a JSON-lines file, newer over older, and rewrite its pages."""

    def identity(result: Result) -> tuple:
        return result.table, result.row, result.metric, result.hardware

    merged = {identity(r): r for r in load(path)}
    merged.update({identity(r): r for r in results})
    kept = sorted(merged.values(), key=lambda r: r.table)
    write_file(path, "".join(json.dumps(to_dict(r)) + "\n" for r in kept))
    for name, page in pages(kept, path.stem).items():
        write_file(path.parent / name, page)


def pages(results: Sequence[Result], stem: str = "results") -> dict[str, str]:
    """Markdown pages by their file names: STEM.md, and STEM/TOPIC.md."""
    by_topic: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        tables = by_topic.setdefault(_topic(result.table), {})
        tables.setdefault(result.table, []).append(result)
    found = {f"{stem}.md": _front(results, by_topic, stem)}
    for topic, details in _layout()["topics"].items():
        if topic in by_topic:
            parts = [f"# {details['title']}\n", f"[All results](../{stem}.md)\n"]
            for table, own in by_topic[topic].items():
                parts += [f"## {table}\n", *_section(own)]
            found[f"{stem}/{topic}.md"] = "\n".join(parts)
    return found


@cache
def _layout() -> dict[str, Any]:
    return read_table(__file__, "results.toml")


def _topic(table: str) -> str:
    fits = {
        prefix: topic
        for topic, details in _layout()["topics"].items()
        for prefix in details["tables"]
        if table.startswith(prefix)
    }
    return fits[max(fits, key=len)]


def _front(results: Sequence[Result], by_topic: dict, stem: str) -> str:
    cells = [["what", "measured", "other seeds", "paper or goal", "n", "details"]]
    for line in _layout()["headlines"]:
        table, row, metric = line["cell"]
        place = line.get("hardware", "")
        own = {
            r.row: r
            for r in results
            if (r.table, r.metric) == (table, metric) and r.hardware.startswith(place)
        }
        if row not in own:
            continue
        main, topic = own[row], _topic(table)
        seeds = [own[other] for other in line.get("seeds", ()) if other in own]
        more = ", ".join(number(r.value) for r in seeds)
        link = f"[{topic}]({stem}/{topic}.md)"
        value, n = _with_unit(main), f"{main.n:,}"
        cells.append([line["what"], value, more, main.paper, n, link])
    parts = [_layout()["introduction"]]
    if len(cells) > 1:
        parts += [markdown(cells), ""]
    topics = _layout()["topics"].items()
    for topic, details in topics:
        if topic in by_topic:
            n = len(by_topic[topic])
            count = f"{n} table{'' if n == 1 else 's'}"
            parts.append(f"- [{details['title']}]({stem}/{topic}.md): {count}")
    return "\n".join([*parts, ""])


def _section(results: Sequence[Result]) -> list[str]:
    """Markdown of one table: single numbers in lines, rows of several in columns."""
    wide = [b for b in blocks(results) if len({r.metric for r in b}) > 2]
    wide = [block for block in wide if len({(r.row, r.hardware) for r in block}) > 1]
    single = [r for r in results if not any(r in block for block in wide)]
    parts = []
    if single:
        cells = [["", "measured", "paper or goal", "n"]]
        for r in single:
            cells.append([f"{r.row}: {r.metric}", _with_unit(r), r.paper, f"{r.n:,}"])
        parts += [markdown(cells), "", f"Measured with {measured_with(single)}.", ""]
    for block in wide:
        note = f"Measured with {measured_with(block)}."
        if any(r.paper for r in block):
            note += " In brackets: the paper or the goal."
        parts += [markdown(Table.of(block).strings()), "", note, ""]
    return parts

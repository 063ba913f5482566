"""Results as tables: on the terminal, and as the page docs/results.md."""

import json
from pathlib import Path

from spectral_skills.atomic import write_file
from spectral_skills.config import from_dict, to_dict
from spectral_skills.results import Result

_INTRODUCTION = """\
# Results

Every number was measured with the command in its row; the goal or the paper's number
stands beside it. The page is written from results.jsonl, to which `spectral bench`,
`corpus check`, `evaluate` and `report` add with `--record docs/results.jsonl`.
"""


def number(value: float) -> str:
    """Four significant digits, thousands separated."""
    if value and abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def show(results: list[Result]) -> None:
    """Print results as aligned rows."""
    rows = [
        (r.row, r.metric, f"{number(r.value)} {r.unit}".strip(), r.paper)
        for r in results
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if results:
        print(f"{results[0].table} ({results[0].hardware})")
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  " + "  ".join(cells).rstrip())


def load(path: Path) -> list[Result]:
    """Results of a JSON-lines file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [
        from_dict(Result, json.loads(line), f"{path}:{i + 1}")
        for i, line in enumerate(lines)
    ]


def publish(results: list[Result], path: Path) -> None:
    """Put results into a JSON-lines file, newer over older, and rewrite its page."""

    def identity(result: Result) -> tuple:
        return result.table, result.row, result.metric, result.hardware

    merged = {identity(r): r for r in load(path)}
    merged.update({identity(r): r for r in results})
    kept = sorted(merged.values(), key=lambda r: r.table)
    write_file(path, "".join(json.dumps(to_dict(r)) + "\n" for r in kept))
    write_file(path.with_suffix(".md"), page(kept))


def page(results: list[Result]) -> str:
    """The Markdown page of all results."""
    parts = [_INTRODUCTION]
    for table in dict.fromkeys(r.table for r in results):
        rows = [r for r in results if r.table == table]
        parts.append(f"## {table}\n")
        parts += _wide(rows) if _is_wide(rows) else _long(rows)
        parts.append("")
    return "\n".join(parts)


def _long(results: list[Result]) -> list[str]:
    """A line for every number."""
    lines = [
        "| what | measured | paper or goal | n | command | hardware |",
        "|---|---|---|---|---|---|",
    ]
    for r in results:
        lines.append(
            f"| {r.row}: {r.metric} | {number(r.value)} {r.unit} | {r.paper} "
            f"| {r.n:,} | `{r.command}` | {r.hardware} |"
        )
    return lines


def _is_wide(results: list[Result]) -> bool:
    """Whether several rows have most of more than two metrics each."""
    metrics = {r.metric for r in results}
    rows = {(r.row, r.hardware) for r in results}
    filled = len(results) / (len(metrics) * len(rows))
    return len(metrics) > 2 and len(rows) > 1 and filled > 0.5


def _wide(results: list[Result]) -> list[str]:
    """A line for every row, a column for every metric."""
    units = {r.metric: r.unit for r in results}
    heads = [_head(metric, unit) for metric, unit in units.items()]
    lines = [f"| what | n | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    several = len({r.hardware for r in results}) > 1
    for row, hardware in dict.fromkeys((r.row, r.hardware) for r in results):
        found = [r for r in results if (r.row, r.hardware) == (row, hardware)]
        cells = {r.metric: _cell(r) for r in found}
        values = [cells.get(metric, "") for metric in units]
        name = f"{row}, {hardware}" if several else row
        lines.append(f"| {name} | {found[0].n:,} | {' | '.join(values)} |")
    commands = dict.fromkeys(f"`{r.command}` {r.hardware}".strip() for r in results)
    told = f"Measured with {', '.join(commands)}."
    if any(r.paper for r in results):
        told += " In brackets: the paper or the goal."
    return [*lines, "", told]


def _head(metric: str, unit: str) -> str:
    """Name of a column; units that names of metrics end with are said once."""
    name = metric.removesuffix("_" + unit.replace("/", "_")).replace("_", " ")
    return f"{name} ({unit})" if unit else name


def _cell(result: Result) -> str:
    told = f" ({result.paper})" if result.paper else ""
    return number(result.value) + told

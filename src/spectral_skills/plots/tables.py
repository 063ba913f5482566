"""Results as tables: on the terminal, and as the page docs/results.md."""

import json
from collections.abc import Sequence
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


_SHARED = 0.4
"""Of all columns, those that a row must have in common with others of its table."""


def number(value: float) -> str:
    """Four significant digits, thousands separated."""
    if value and abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells as wide as their columns, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        rest = [c.rjust(w) for c, w in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *rest]).rstrip())
    return lines


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
        shared = [block for block in blocks(rows) if _is_wide(block)]
        single = [r for r in rows if not any(r in block for block in shared)]
        for lines in [_long(single)][: bool(single)] + [_wide(b) for b in shared]:
            parts += [*lines, ""]
    return "\n".join(parts)


def blocks(results: Sequence[Result]) -> list[list[Result]]:
    """Results apart where their rows have few columns in common: no table of holes."""
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


def _long(results: list[Result]) -> list[str]:
    """A line for every number."""
    # What all have in common is said once.
    alike = len({(r.command, r.hardware) for r in results}) == 1
    head = "| what | measured | paper or goal | n |"
    head += "" if alike else " command | hardware |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for r in results:
        line = f"| {r.row}: {r.metric} | {number(r.value)} {r.unit} | {r.paper} "
        line += f"| {r.n:,} |"
        lines.append(line + ("" if alike else f" `{r.command}` | {r.hardware} |"))
    return [*lines, "", f"Measured with {_commands(results)}."] if alike else lines


def _commands(results: list[Result]) -> str:
    told = dict.fromkeys(f"`{r.command}` {r.hardware}".strip() for r in results)
    return ", ".join(told)


def _is_wide(results: list[Result]) -> bool:
    """Whether there are several rows of more than two metrics."""
    metrics = {r.metric for r in results}
    return len(metrics) > 2 and len({(r.row, r.hardware) for r in results}) > 1


def _wide(results: list[Result]) -> list[str]:
    """A line for every row, a column for every metric."""
    units: dict[str, set[str]] = {}
    for r in results:
        units.setdefault(r.metric, set()).add(r.unit)
    # A unit that not all cells of a column have is said in each.
    heads = [_head(m, *(us if len(us) == 1 else ("",))) for m, us in units.items()]
    lines = [f"| what | n | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    several = len({r.hardware for r in results}) > 1
    for row, hardware in dict.fromkeys((r.row, r.hardware) for r in results):
        found = [r for r in results if (r.row, r.hardware) == (row, hardware)]
        cells = {r.metric: _cell(r, len(units[r.metric]) > 1) for r in found}
        values = [cells.get(metric, "") for metric in units]
        name = f"{row}, {hardware}" if several else row
        lines.append(f"| {name} | {found[0].n:,} | {' | '.join(values)} |")
    told = f"Measured with {_commands(results)}."
    if any(r.paper for r in results):
        told += " In brackets: the paper or the goal."
    return [*lines, "", told]


def _head(metric: str, unit: str) -> str:
    """Name of a column; units that names of metrics end with are said once."""
    name = metric.removesuffix("_" + unit.replace("/", "_")).replace("_", " ")
    return f"{name} ({unit})" if unit else name


def _cell(result: Result, with_unit: bool) -> str:
    value = f"{number(result.value)} {result.unit if with_unit else ''}".rstrip()
    return f"{value} ({result.paper})" if result.paper else value

"""Tables of findings: a line for every row, the paper's numbers below ours."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from spectral_skills.plots.tables import blocks
from spectral_skills.results import Result

STYLE = """
.box { overflow: auto; max-height: 34rem; margin: .8rem 0; background: var(--card);
  border: 1px solid var(--line); border-radius: 10px }
.box table { width: 100% }
.box td, .box th { padding: .35rem .9rem; text-align: right; white-space: nowrap }
.box th { font-weight: 600; background: var(--card) }
.box thead th { position: sticky; top: 0; z-index: 1; font-size: .85rem;
  white-space: normal; vertical-align: bottom }
.box tbody th { position: sticky; left: 0; text-align: left; white-space: normal;
  min-width: 11rem; max-width: 18rem }
.box thead th:first-child { left: 0; z-index: 2 }
.box small { display: block; font-weight: 400; color: var(--soft) }
@media (max-width: 30rem) { .box { font-size: .9rem }
  .box td, .box th { padding: .3rem .6rem } .box tbody th { min-width: 7rem } }
@media print { .box { max-height: none; overflow: visible; border: 0; font-size: 8pt }
  .box td, .box th { padding: .1rem .3rem; position: static !important }
  .box tbody th { min-width: 0 } .box thead th { font-size: 7pt } }
"""
_MOST_DECIMALS = 4


def tables(results: Sequence[Result], name: str) -> list[str]:
    """HTML of results, and below it how they were measured."""
    parts = [_table(block, name) for block in blocks(results)]
    commands = dict.fromkeys(r.command for r in results if r.command)
    told = ", ".join(f"<code>{escape(command)}</code>" for command in commands)
    places = ", ".join(dict.fromkeys(r.hardware for r in results if r.hardware))
    seeds = ", ".join(str(seed) for seed in sorted({r.seed for r in results}))
    where = f" on {escape(places)}" if places else ""
    measured = f"Measured with {told or 'an unknown command'}{where}; seed {seeds}."
    return [*parts, f'<p class="small">{measured}</p>']


def _table(results: Sequence[Result], name: str) -> str:
    columns: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        columns.setdefault((result.metric, result.unit), []).append(result)
    decimals = {column: _decimals(own) for column, own in columns.items()}
    seeded = len({r.seed for r in results}) > 1
    heads = ["", "n", *["seed"][:seeded], *(_head(*column) for column in columns)]
    lines = []
    for row, seed in dict.fromkeys((r.row, r.seed) for r in results):
        own = {(r.metric, r.unit): r for r in results if (r.row, r.seed) == (row, seed)}
        n = Counter(r.n for r in own.values()).most_common(1)[0][0]
        cells = [f"{n:,}", *[str(seed)][:seeded]]
        cells += [_cell(own.get(column), n, decimals[column]) for column in columns]
        inner = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(row)}</th>{inner}</tr>')
    head = "".join(f'<th scope="col">{told}</th>' for told in heads)
    # A box that scrolls must be reachable by keyboard, and then it needs a name.
    box = f'<div class="box" tabindex="0" role="region" aria-label="{escape(name)}">'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f"{box}{table}</table></div>"


def _head(metric: str, unit: str) -> str:
    told = f"<small>{escape(unit)}</small>" if unit else ""
    return escape(metric.replace("_", " ")) + told


def _decimals(results: list[Result]) -> int:
    """So many that the largest number of a column has three digits."""
    values = [abs(r.value) for r in results if math.isfinite(r.value)]
    if all(value == round(value) for value in values):
        return 0
    return min(max(2 - math.floor(math.log10(max(values))), 0), _MOST_DECIMALS)


def _cell(result: Result | None, n: int, decimals: int) -> str:
    if result is None:
        return ""
    told = "–"
    if math.isfinite(result.value):
        # Not -0.00.
        told = f"{round(result.value, decimals) + 0.0:,.{decimals}f}"
        told = told.replace("-", "−")
    if result.paper:
        told += f"<small>paper {escape(result.paper)}</small>"
    if result.n != n:
        told += f"<small>n {result.n:,}</small>"
    return told

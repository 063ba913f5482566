"""Tracking results on the terminal: a line for each kind of motion."""

from spectral_skills.plots.tables import aligned, number
from spectral_skills.results import Result

_COLUMNS = {
    "success_rate": ("success", lambda v: f"{100 * v:.1f} %"),
    "fall_free_relative_share": ("fall-free (rel.)", lambda v: f"{100 * v:.1f} %"),
    "mpjpe_local_mm": ("MPJPE-L", lambda v: f"{v:.1f} mm"),
    "mpjpe_global_mm": ("MPJPE-G", lambda v: f"{v:.1f} mm"),
    "root_drift_mm": ("root drift", lambda v: f"{v:.1f} mm"),
}


def table(results: list[Result]) -> list[str]:
    """Lines: all clips first, then their kinds; then the rest about all clips."""
    by_row: dict[str, dict[str, Result]] = {}
    for result in results:
        by_row.setdefault(result.row, {})[result.metric] = result
    found = {r.metric for r in results}
    shown = [metric for metric in _COLUMNS if metric in found]
    cells = [["", "n", *(_COLUMNS[metric][0] for metric in shown)]]
    for row, values in by_row.items():
        n = max(result.n for result in values.values())
        told = [_COLUMNS[m][1](values[m].value) if m in values else "-" for m in shown]
        cells.append([row, f"{n:,}", *told])
    lines = aligned(cells)
    whole = next(iter(by_row.values()), {})
    for metric, result in whole.items():
        if metric not in _COLUMNS:
            told = f"{number(result.value)} {result.unit}".strip()
            lines.append(f"  {metric.replace('_', ' ')}: {told} (n {result.n:,})")
    return lines


def show(results: list[Result]) -> None:
    """Print them."""
    print("\n".join(table(results)))

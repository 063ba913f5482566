"""Results of training runs, from their logs, and of the directions of a skill space."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from spectral_skills.results import Result
from spectral_skills.runs import read_about, read_log
from spectral_skills.spectral.direction_file import Directions

RANKS = (1, 2, 3, 5, 10, 14, 21, 41, 64)
"""Ranks whose predicted gain is among the results."""
_TRACKING = {
    "time": ("seconds", "min", 1 / 60),
    "success": ("success_rate", "%", 100.0),
    "MPJPE-L": ("mpjpe_local_mm", "mm", 1.0),
    "MPJPE-G": ("mpjpe_global_mm", "mm", 1.0),
    "failures in training": ("failures_per_s", "1/s", 1.0),
    "episode in training": ("episode_s", "s", 1.0),
    "rate": ("frames_per_s", "frames/s", 1.0),
}
"""Key of the log, unit and factor of each metric."""
_PREDICTION = {
    "held out": "held_out",
    "trained on": "prediction",
    "skills exchanged": "shuffled",
    "SIGReg": "sigreg",
    "skill std": "skill_std",
}


def _traced(results: list[Result], run: Path, command: str = "") -> list[Result]:
    """Results with the seed, data, command and hardware of a run."""
    about = read_about(run)
    facts = {"seed": about["config"]["seed"], "run": about["data"][:8]}
    facts |= {"command": about["command"] + command, "hardware": about["hardware"]}
    return [replace(result, **facts) for result in results]


def tracking_results(run: Path, label: str) -> list[Result]:
    """A row for every probe of a controller's training."""
    probed = [row for row in read_log(run) if "mpjpe_local_mm" in row]
    n = read_about(run)["config"]["probe_clips"]
    if not probed:
        raise ValueError(f"{run}: no probe in its log that tracked a clip to the end")
    table = f"Tracking: learning on {label}"
    found = [
        Result(table, f"{row['frames'] / 1e6:,.0f} M frames", metric, value, unit, n)
        for row in probed
        for metric, (key, unit, factor) in _TRACKING.items()
        for value in [factor * row[key]]
    ]
    return _traced(found, run)


def skill_space_results(
    run: Path, directions: Directions | None, label: str
) -> list[Result]:
    """All rows for a pretraining run and its directions."""
    windows = read_about(run)["config"]["evaluation_windows"]
    rows = read_log(run)
    if not rows:
        raise ValueError(f"{run}: no log of a pretraining run")
    best = min(rows, key=lambda row: row["held_out"])
    shown = {row["update"]: row for row in (best, rows[-1])}
    shown |= {row["update"]: row for row in rows if _is_round(row["update"])}
    table, found = f"Skill space of {label}: prediction", []
    for update, row in sorted(shown.items()):
        values = {metric: row[key] for metric, key in _PREDICTION.items()}
        values |= {f"level {i + 1}": v for i, v in enumerate(row["held_out_levels"])}
        for metric, value in values.items():
            found.append(Result(table, f"update {update:,}", metric, value, n=windows))
    paper = "2,000 to 3,000" if label == "LAFAN1" else ""
    table, std = f"Skill space of {label}: statements", best["skill_std"]
    cell = table, "best held-out error", "update", float(best["update"])
    found.append(Result(*cell, n=windows, paper=paper))
    cell = table, "corpus skills", "std of a dimension", std
    found.append(Result(*cell, n=windows, paper="0.80 (BONES-SEED)"))
    traced = _traced(found, run)
    if directions is not None:
        more = direction_results(directions, label)
        traced += _traced(more, run, "; spectral directions")
    return traced


def _is_round(update: int) -> bool:
    """Whether an update is 500, 1,000, 2,000, 5,000 and so on."""
    return update >= 500 and str(update).rstrip("0") in ("1", "2", "5")


def direction_results(directions: Directions, label: str) -> list[Result]:
    """Rows for the spectrum of a skill space, without the ranks it does not have."""
    chosen = directions.family("spectral")
    limbs, determined = directions.single_limb[chosen], directions.determined[chosen]
    arms = np.array([limb.endswith("_arm") for limb in limbs])
    alike, ratios = directions.sameness[chosen], directions.eigenvalue_ratios
    common = "share of the effect that is common"
    arms_paper = "top directions are single arm gestures"
    low_paper = "nearly degenerate"
    neighbours = "mean ratio of neighbouring eigenvalues"
    agreed = "directions that halves of the contexts agree on"
    statements = [
        ("ranks 1 to 10", "single arm directions", np.sum, arms[:10], arms_paper),
        ("ranks 1 to 64", "single limb directions", np.sum, limbs != "", ""),
        ("ranks 11 to 64", neighbours, np.mean, ratios[10:], low_paper),
        ("ranks 11 to 64", agreed, np.sum, determined[10:], low_paper),
        ("ranks 1 to 10", common, np.mean, alike[:10], ""),
        ("ranks 41 to 64", common, np.mean, alike[40:], ""),
    ]
    table, n = f"Skill space of {label}: statements", directions.contexts
    found = [
        Result(table, row, metric, float(of(values)), n=n, paper=paper)
        for row, metric, of, values, paper in statements
        if len(values)
    ]
    gains = {r: directions.gains[chosen][r - 1] for r in RANKS if r <= len(chosen)}
    table = "Skill space: predicted gain by rank"
    for rank, gain in gains.items():
        found.append(Result(table, label, f"{rank}", float(gain), n=n))
    return found

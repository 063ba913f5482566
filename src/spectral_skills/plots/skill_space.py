"""What the paper says of a skill space, measured: loss by update, spread, spectrum."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spectral_skills.results import Result
from spectral_skills.runs import read_about, read_log
from spectral_skills.spectral.direction_file import Directions

RANKS = (1, 2, 3, 5, 10, 14, 21, 41, 64)
"""Ranks whose gain is told."""


def skill_space_results(
    run: Path, directions: Directions | None, label: str
) -> list[Result]:
    """All rows for a pretraining run and its directions, traced to the run."""
    about = read_about(run)
    results = training_results(run, label, about["config"]["evaluation_windows"])
    command = about["command"]
    traced = [_traced(result, about, command) for result in results]
    if directions is not None:
        command = f"{command}; spectral directions"
        found = direction_results(directions, label)
        traced += [_traced(result, about, command) for result in found]
    return traced


def _traced(result: Result, about: dict[str, Any], command: str) -> Result:
    return replace(
        result,
        seed=about["config"]["seed"],
        run=about["data"][:8],
        command=command,
        hardware=about["hardware"],
    )


def training_results(run: Path, label: str, windows: int) -> list[Result]:
    """Rows for a pretraining run, from its log."""
    rows = read_log(run)
    if not rows:
        raise ValueError(f"{run}: no log of a pretraining run")
    best = min(rows, key=lambda row: row["held_out"])
    shown = {row["update"]: row for row in (best, rows[-1])}
    shown |= {row["update"]: row for row in rows if _round(row["update"])}
    results = []
    for update, row in sorted(shown.items()):
        values = {
            "held out": row["held_out"],
            "trained on": row["prediction"],
            "skills exchanged": row["shuffled"],
            **{f"level {i + 1}": v for i, v in enumerate(row["held_out_levels"])},
            "SIGReg": row["sigreg"],
            "skill std": row["skill_std"],
        }
        table = f"Skill space of {label}: prediction"
        for metric, value in values.items():
            results.append(
                Result(table, f"update {update:,}", metric, value, n=windows)
            )
    paper = "2,000 to 3,000" if label == "LAFAN1" else ""
    return [
        *results,
        _statement(
            label, "best held-out error", "update", best["update"], paper, windows
        ),
        _statement(
            label,
            "corpus skills",
            "std of a dimension",
            best["skill_std"],
            "0.80 (BONES-SEED)",
            windows,
        ),
    ]


def _round(update: int) -> bool:
    """500, 1,000, 2,000, 5,000 and so on."""
    digits = str(update).rstrip("0")
    return update >= 500 and digits in ("1", "2", "5")


def _statement(
    label: str, row: str, metric: str, value: float, paper: str, n: int
) -> Result:
    table = f"Skill space of {label}: statements"
    return Result(table, row, metric, float(value), n=n, paper=paper)


def direction_results(directions: Directions, label: str) -> list[Result]:
    """Rows for the spectrum of a skill space, without ranks that it has not."""
    chosen = directions.family("spectral")
    limbs, determined = directions.single_limb[chosen], directions.determined[chosen]
    arms = np.array([limb.endswith("_arm") for limb in limbs])
    alike, ratios = directions.sameness[chosen], directions.eigenvalue_ratios
    common = "share of the effect that is common"
    statements = [
        (
            *("ranks 1 to 10", "single arm directions", np.sum, arms[:10]),
            "top directions are single arm gestures",
        ),
        ("ranks 1 to 64", "single limb directions", np.sum, limbs != "", ""),
        (
            *("ranks 11 to 64", "mean ratio of neighbouring eigenvalues"),
            *(np.mean, ratios[10:], "nearly degenerate"),
        ),
        (
            *("ranks 11 to 64", "directions that halves of the contexts agree on"),
            *(np.sum, determined[10:], "nearly degenerate"),
        ),
        ("ranks 1 to 10", common, np.mean, alike[:10], ""),
        ("ranks 41 to 64", common, np.mean, alike[40:], ""),
    ]
    gains = {r: directions.gains[chosen][r - 1] for r in RANKS if r <= len(chosen)}
    spectrum = "Skill space: predicted gain by rank"
    return [
        *(
            _statement(label, row, metric, of(values), paper, directions.contexts)
            for row, metric, of, values, paper in statements
            if len(values)
        ),
        *(
            Result(spectrum, label, f"{rank}", float(gain), n=directions.contexts)
            for rank, gain in gains.items()
        ),
    ]

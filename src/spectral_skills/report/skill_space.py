"""What the paper says of a skill space, measured: loss by update, spread, spectrum."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from spectral_skills.results import Result
from spectral_skills.skill.run_folder import read_log
from spectral_skills.spectral.direction_file import Directions

RANKS = (1, 2, 3, 5, 10, 14, 21, 41, 64)
"""Ranks whose gain is printed."""


def training_results(run: Path, label: str) -> list[Result]:
    """Rows for a pretraining run, from its log."""
    rows = read_log(run)
    if not rows:
        raise ValueError(f"{run}: no log of a pretraining run")
    best = min(rows, key=lambda row: row["held_out"])
    table = f"Skill space of {label}: prediction"

    def result(row: str, metric: str, value: float, paper: str = "") -> Result:
        return Result(table, row, metric, value, n=len(rows), paper=paper)

    shown = [row for row in rows if _round(row["update"])]
    shown += [row for row in (best, rows[-1]) if row not in shown]
    results = []
    for row in sorted(shown, key=lambda row: row["update"]):
        name = f"update {row['update']:,}"
        results.append(result(name, "held out", row["held_out"]))
        results.append(result(name, "trained on", row["prediction"]))
        results.append(result(name, "skills exchanged", row["shuffled"]))
        for i, value in enumerate(row["held_out_levels"]):
            results.append(result(name, f"level {i + 1}", value))
        results.append(result(name, "SIGReg", row["sigreg"]))
        results.append(result(name, "skill std", row["skill_std"]))
    about = f"Skill space of {label}: statements"
    paper_best = "2,000 to 3,000" if label == "LAFAN1" else ""
    results.append(
        replace(
            result("best held-out error", "update", best["update"], paper_best),
            table=about,
        )
    )
    results.append(
        replace(
            result("corpus skills", "std of a dimension", best["skill_std"], "0.80"),
            table=about,
        )
    )
    return results


def _round(update: int) -> bool:
    """500, 1,000, 2,000, 5,000 and so on."""
    digits = str(update).rstrip("0")
    return update >= 500 and digits in ("1", "2", "5")


def direction_results(directions: Directions, label: str) -> list[Result]:
    """Rows for the spectrum of a skill space."""
    chosen = directions.family("spectral")
    gains = directions.gains[chosen].astype(float)
    limbs, determined = directions.single_limb[chosen], directions.determined[chosen]
    arms = np.array([limb.endswith("_arm") for limb in limbs])
    ratios = directions.eigenvalue_ratios
    single = ", ".join(
        f"{k + 1} {limb.replace('_', ' ')}" for k, limb in enumerate(limbs) if limb
    )
    table = f"Skill space of {label}: statements"

    def result(row: str, metric: str, value: float, paper: str = "") -> Result:
        return Result(
            table,
            row,
            metric,
            float(value),
            n=directions.contexts,
            seed=directions.seed,
            paper=paper,
        )

    top = slice(0, 10)
    results = [
        result(
            "ranks 1 to 10",
            "single arm directions",
            arms[top].sum(),
            "top directions are single arm gestures",
        ),
        result("ranks 1 to 10", "single limb directions", (limbs[top] != "").sum()),
        result(
            f"ranks with a single limb ({single})" if single else "ranks",
            "count",
            (limbs != "").sum(),
        ),
        result(
            "ranks that two halves of the contexts agree on", "count", determined.sum()
        ),
        result(
            "ranks 11 to 64 that they do not agree on",
            "count",
            (~determined[10:]).sum(),
            "ranks 11 to 64 nearly degenerate (54)",
        ),
        result(
            "ranks 11 to 64",
            "mean ratio of neighbouring eigenvalues",
            ratios[10:].mean(),
            "near 1",
        ),
        result(
            "ranks 1 to 10",
            "effect that is the same in all contexts",
            directions.sameness[chosen][top].mean(),
        ),
        result(
            "ranks 41 to 64",
            "effect that is the same in all contexts",
            directions.sameness[chosen][40:].mean(),
        ),
    ]
    for rank in RANKS:
        if rank <= len(gains):
            results.append(result(f"rank {rank}", "predicted gain", gains[rank - 1]))
    return results

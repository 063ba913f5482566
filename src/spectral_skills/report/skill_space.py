"""What the paper says of a skill space, measured: loss by update, spread, spectrum."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from spectral_skills.config import parse
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
        for metric, value in values.items():
            name = f"Skill space of {label}: prediction"
            results.append(Result(name, f"update {update:,}", metric, value))
    table = f"Skill space of {label}: statements"
    paper = "2,000 to 3,000" if label == "LAFAN1" else ""
    name = "best held-out error"
    results.append(Result(table, name, "update", best["update"], paper=paper))
    name, spread = "corpus skills", best["skill_std"]
    results.append(Result(table, name, "std of a dimension", spread, paper="0.80"))
    return results


def traced(results: list[Result], run: Path) -> list[Result]:
    """The same, with the run they come from."""
    path = run / "config.json"
    about = parse(path.read_text(), str(path))
    return [
        replace(
            result,
            seed=about["config"]["seed"],
            run=about["data"][:8],
            command=about["command"],
            hardware=about["hardware"],
        )
        for result in results
    ]


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

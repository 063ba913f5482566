"""How plausible a corpus is, kind by kind, as tables."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from spectral_skills.motion.checks import Plausibility, measure_corpus
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.plots.gait import Gaits, gait_results, gait_table, gaits
from spectral_skills.plots.groups import ORDER, corpus_label, groups
from spectral_skills.plots.tables import publish
from spectral_skills.results import Result

ALL = "all"

# Of these a group has its worst; of all others the mean over its frames.
_WORST = {
    *("sole_depth_mm", "slide_max", "limit_excess", "speed_ratio", "balance_max"),
    *("pelvis_acceleration", "foot_acceleration"),
}

# Title, then columns: heading, field, factor, decimals.
_Column = tuple[str, str, float, int]
_TABLES: tuple[tuple[str, tuple[_Column, ...]], ...] = (
    (
        "Soles: under the floor (worst, mm), above it (median, mm), sliding (m/s)",
        (
            ("under", "sole_depth_mm", 1, 1),
            ("above", "sole_gap_mm", 1, 1),
            ("slide 50%", "slide_50", 1, 3),
            ("slide 99%", "slide_99", 1, 3),
            ("worst", "slide_max", 1, 3),
            ("airborne %", "airborne_share", 100, 1),
        ),
    ),
    (
        "Balance: zero-moment point outside the soles (cm), within 1 cm of them (%)",
        (
            ("outside 95%", "balance_95", 100, 1),
            ("worst", "balance_max", 100, 1),
            ("inside %", "balanced_share", 100, 1),
        ),
    ),
    (
        "What no floor contact explains: force (% of weight), moment (Nm)",
        (
            ("force 50%", "residual_force_50", 100, 2),
            ("force 95%", "residual_force_95", 100, 2),
            ("moment 50%", "residual_moment_50", 1, 2),
            ("moment 95%", "residual_moment_95", 1, 2),
        ),
    ),
    (
        "Motors: frames with all torques in limits (%); worst motor (% of its limit)",
        (
            ("in limits %", "torque_share", 100, 1),
            ("torque 95%", "torque_ratio_95", 100, 0),
            ("speed worst", "speed_ratio", 100, 0),
        ),
    ),
    (
        "Beyond soft limits (worst, rad); accelerations (worst, m/s^2)",
        (
            ("limits", "limit_excess", 1, 3),
            ("pelvis", "pelvis_acceleration", 1, 0),
            ("foot", "foot_acceleration", 1, 0),
        ),
    ),
)

# What the page of results shows: name, unit, then as above.
_RECORDED = (
    ("sole under the floor, worst", "mm", "sole_depth_mm", 1, 1),
    ("slide, 99 %", "m/s", "slide_99", 1, 3),
    ("slide, worst", "m/s", "slide_max", 1, 3),
    ("ZMP outside, worst", "cm", "balance_max", 100, 1),
    ("torques in limits", "% of frames", "torque_share", 100, 2),
    ("unexplained force, 95 %", "% of weight", "residual_force_95", 100, 2),
    ("unexplained moment, 95 %", "Nm", "residual_moment_95", 1, 2),
)
_RECORDED_OF_OTHERS = ("walk", "run")

Summary = dict[str, dict[str, float]]
"""Numbers of each group of clips, and of all together."""


@dataclass(frozen=True)
class _Check:
    """All that is measured of a corpus."""

    corpus: Corpus
    label: str
    clips: list[Plausibility]
    summary: Summary
    gaits: Gaits

    @classmethod
    def of(cls, folder: Path, label: str = "") -> "_Check":
        corpus = Corpus.open(folder)
        clips = measure_corpus(corpus)
        label = label or corpus_label(corpus, folder.resolve().name)
        summary = summarise(clips, groups(corpus))
        return cls(corpus, label, clips, summary, gaits(corpus))


def summarise(measured: list[Plausibility], groups: list[str]) -> Summary:
    """Numbers of each group of clips and of all together.

    Groups of generated clips come in their order, others most frames first.
    """
    frames = np.array([m.frames for m in measured])
    members = {
        group: [i for i, g in enumerate(groups) if g == group]
        for group in dict.fromkeys(groups)
    }
    ordered = sorted(members, key=lambda group: -frames[members[group]].sum())
    if members.keys() <= set(ORDER):
        ordered.sort(key=ORDER.index)
    found = {}
    for group in [*ordered, ALL]:
        rows = list(range(len(measured))) if group == ALL else members[group]
        found[group] = {"clips": len(rows), "frames": int(frames[rows].sum())}
        for field in fields(Plausibility)[1:]:
            values = np.array([getattr(measured[i], field.name) for i in rows])
            worst = field.name in _WORST
            value = values.max() if worst else np.average(values, weights=frames[rows])
            found[group][field.name] = round(float(value), 6)
    return found


def print_check(
    folder: Path,
    *,
    as_json: bool = False,
    label: str = "",
    against: Path | None = None,
    record: Path | None = None,
) -> None:
    """Measure a corpus and print it by group, beside another one where given.

    `record` is a file of results to update; `label` names the corpus there.
    """
    checks = [_Check.of(folder, label)]
    if against is not None:
        checks.append(_Check.of(against))
    if as_json:
        print(json.dumps(_as_json(*checks), indent=2))
    else:
        for check in checks:
            hours = check.corpus.hours
            print(f"{check.label}: {len(check.corpus):,} clips, {hours:.2f} h\n")
            print("\n\n".join(tables(check.summary)), end="\n\n")
        print(gait_table({c.label: c.gaits for c in checks}))
        print(
            "\n50%, 95% and 99% are percentiles over frames. A kind has the worst of "
            "its clips where\nit says so, else their mean. Only soles are contacts."
        )
    if record is not None:
        publish(_results(checks), record)


def _as_json(check: _Check, *others: _Check) -> dict:
    clips = zip(check.corpus.names, check.clips, strict=True)
    found = {
        "groups": check.summary,
        "gait": check.gaits,
        "clips": {name: asdict(measured) for name, measured in clips},
    }
    for other in others:
        found["against"] = _as_json(other)
    return found


def tables(summary: Summary) -> list[str]:
    """The numbers of `summarise` as aligned text."""
    width = max(map(len, summary))
    parts = []
    for title, columns in _TABLES:
        lines = [title, "  " + " " * width + "   clips       h"]
        lines[-1] += "".join(f"{heading:>12}" for heading, *_ in columns)
        for name, row in summary.items():
            hours = row["frames"] / FPS / 3600
            line = f"  {name:<{width}}  {row['clips']:6,.0f}  {hours:6.3f}"
            for _, field, factor, decimals in columns:
                line += f"{factor * row[field]:z12.{decimals}f}"
            lines.append(line)
        parts.append("\n".join(lines))
    return parts


def recorded_table(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the numbers that matter most, as text."""
    header = ["", "clips", *(f"{name} ({unit})" for name, unit, *_ in _RECORDED)]
    rows = [
        [group, f"{row['clips']:,.0f}"]
        + [
            f"{factor * row[field]:z.{digits}f}"
            for *_, field, factor, digits in _RECORDED
        ]
        for group, row in summary.items()
    ]
    return header, rows


def _results(checks: list[_Check]) -> list[Result]:
    """Every group of the first corpus; walks and runs of the others."""
    first, *others = checks
    run, command = first.corpus.hash, "spectral corpus check"
    for other in others:
        command += f" --against {other.label.split()[0]}"
    rows = dict(first.summary)
    for other in others:
        for group in _RECORDED_OF_OTHERS:
            if group in other.summary:
                rows[f"{group}, {other.label}"] = other.summary[group]
    found = [
        Result(
            table=f"{first.label}: plausibility",
            row=name,
            metric=metric,
            value=round(factor * row[field], digits),
            unit=unit,
            n=int(row["frames"]),
            run=run,
            command=command,
        )
        for name, row in rows.items()
        for metric, unit, field, factor, digits in _RECORDED
    ]
    gaits_of = {check.label: check.gaits for check in checks}
    return found + gait_results(gaits_of, f"{first.label}: gait", run, command)

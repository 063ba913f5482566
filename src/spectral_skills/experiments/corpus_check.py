"""How plausible the motions of a corpus are, by group, and how their gaits compare.

Generated clips are grouped by their factors, others by their kind.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path

import numpy as np

from spectral_skills.experiments.findings import grid
from spectral_skills.motion.checks import Plausibility, measure_corpus
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.gait import Stride, strides
from spectral_skills.motion.motion_sets import LAFAN1_CLIPS, kind
from spectral_skills.motion.synthetic.factors import (
    BODY,
    FACTORS,
    GESTURES,
    TRAVELS,
    factors_of,
)
from spectral_skills.results import Result
from spectral_skills.workers import few_or_all, in_order

ALL = "all"
STRIDES = "strides"
Summary = dict[str, dict[str, float]]
"""Numbers of each group of clips, and of all together."""
_GRID = grid("corpus_check")
_ALONE, _SEVERAL, RECORDED = _GRID.alone, _GRID.several, _GRID.recorded
"""Name, unit, factor and decimals of the measurements among the results."""
SPEEDS, GAIT = _GRID.speeds, _GRID.gait
"""Ranges of speed; unit, attribute, factor and decimals of measurements of strides."""
ORDER = (
    "stand",
    *(_ALONE.get(factor, factor) for factor in (*TRAVELS, *BODY)),
    *_SEVERAL.values(),
)
"""Groups of generated clips: one factor first, then several."""
_WORST = {
    *("sole_depth_mm", "slide_max", "limit_excess", "speed_ratio", "balance_max"),
    *("pelvis_acceleration", "foot_acceleration", "floor_depth_mm", "self_depth_mm"),
}
"""Measurements of which a group has its worst; of others it has the mean of frames."""
_FLIGHT_SHARE = 0.05
"""Share of a stride in the air from which it is a run."""


@dataclass(frozen=True)
class Check:
    """All measurements of a corpus."""

    corpus: Corpus
    label: str
    clips: list[Plausibility]
    summary: Summary
    gaits: Summary
    """Number of strides and medians of each range of speed that has any."""

    @classmethod
    def of(cls, folder: Path, label: str = "") -> "Check":
        corpus = Corpus.open(folder)
        clips = measure_corpus(corpus)
        known = set(corpus.names) <= set(LAFAN1_CLIPS)
        name = "LAFAN1 (retargeted)" if known else folder.resolve().name
        gaits = plain_gaits(corpus)
        motions = (np.array(corpus.qpos(i)) for i in gaits)  # may not fit into memory
        measured = in_order(strides, motions, few_or_all(len(gaits)))
        found = [s for clip in measured for s in clip]
        summary = summarise(clips, groups(corpus))
        return cls(corpus, label or name, clips, summary, medians(found))

    def as_dict(self) -> dict:
        clips = zip(self.corpus.names, self.clips, strict=True)
        measured = {name: asdict(one) for name, one in clips}
        return {"groups": self.summary, "gait": self.gaits, "clips": measured}


def groups(corpus: Corpus) -> list[str]:
    if is_generated(corpus):
        return [factor_group(factors_of(name)) for name in corpus.names]
    entries = [corpus.entry(i) for i in range(len(corpus))]
    return [kind(entry.name, entry.text) for entry in entries]


def is_generated(corpus: Corpus) -> bool:
    """Whether all clips are named by their factors."""
    return all(factors_of(name) <= set(FACTORS) for name in corpus.names)


def factor_group(factors: frozenset[str]) -> str:
    """The group of a set of factors, one of ORDER."""
    travels, body = factors & set(TRAVELS), factors & set(BODY)
    if not factors:
        return "stand"
    if len(factors) == 1:
        (only,) = factors
        return _SEVERAL["gesture"] if only in GESTURES else _ALONE.get(only, only)
    if len(factors) > 2:
        key = "three"
    elif not travels:
        key = "body"
    elif body:
        key = "spot" if body <= {"squat", "bow"} else "manner"
    else:
        key = "travels" if len(travels) == 2 else "travel"
    return _SEVERAL[key]


def plain_gaits(corpus: Corpus) -> list[int]:
    """Clips that walk or run and do nothing else: their strides can be compared."""
    if is_generated(corpus):
        pairs = enumerate(map(factors_of, corpus.names))
        return [i for i, factors in pairs if factors and factors <= set(TRAVELS)]
    walks = ("walk", "run", "sprint")
    return [i for i, group in enumerate(groups(corpus)) if group in walks]


def summarise(measured: list[Plausibility], groups: list[str]) -> Summary:
    """Numbers of each group of clips and of all together.

    Groups of generated clips are in their order, others by their number of frames.
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
            if field.type is str:
                continue
            values = np.array([getattr(measured[i], field.name) for i in rows])
            worst = field.name in _WORST
            value = values.max() if worst else np.average(values, weights=frames[rows])
            found[group][field.name] = round(float(value), 6)
    return found


def medians(found: list[Stride]) -> Summary:
    """Medians of strides by speed; walks and runs differ by their flight."""
    result: Summary = {}
    for row, (slowest, fastest) in SPEEDS.items():
        runs = row.startswith("run")
        inside = [s for s in found if slowest <= s.speed < fastest]
        chosen = [s for s in inside if (s.flight_share > _FLIGHT_SHARE) == runs]
        if chosen:
            result[row] = {STRIDES: len(chosen)}
            for name, (_, field, factor, decimals) in GAIT.items():
                median = float(np.median([getattr(s, field) for s in chosen]))
                result[row][name] = round(factor * median, decimals)
    return result


def results(checks: Sequence[Check]) -> list[Result]:
    """Every group of the first corpus, and the walks and runs of the others; rows of
    others are marked as theirs."""
    first, *others = checks
    found, rows, command = [], dict(first.summary), "spectral corpus check"
    for other in others:
        command += f" --against {other.label.split()[0]}"
        for group in ("walk", "run"):
            if group in other.summary:
                rows[f"{group}, {other.label}"] = other.summary[group]

    def add(table: str, n: float, *cell) -> None:
        traced = {"n": int(n), "run": first.corpus.hash, "command": command}
        found.append(Result(f"{first.label}: {table}", *cell, **traced))

    for name, row in rows.items():
        for field, (metric, unit, factor, digits) in RECORDED.items():
            value = round(factor * row[field], digits)
            add("plausibility", row["frames"], name, metric, value, unit)
    for row, check in product(SPEEDS, checks):
        gait = check.gaits.get(row, {})
        label = row if check is first else f"{row}, {check.label}"
        for name, (unit, *_) in GAIT.items() if gait else ():
            add("gait", gait[STRIDES], label, name, gait[name], unit)
    return found

"""Gait of a corpus beside another's: medians over strides of like speed."""

import numpy as np

from spectral_skills.motion.checks import Stride, strides
from spectral_skills.motion.corpus import Corpus
from spectral_skills.plots.groups import plain_gaits
from spectral_skills.results import Result
from spectral_skills.workers import in_order

_DEGREES = 180 / np.pi
_FLIGHT_SHARE = 0.05
"""A stride with more of it in the air is a run."""
# Row, whether it has flight, slowest and fastest, m/s.
_BINS = (
    ("walk 0.3 to 0.6 m/s", False, 0.3, 0.6),
    ("walk 0.6 to 0.9 m/s", False, 0.6, 0.9),
    ("walk 0.9 to 1.35 m/s", False, 0.9, 1.35),
    ("run 1.35 to 2.1 m/s", True, 1.35, 2.1),
)
# Name, field, unit, factor, decimals.
_MEASURES = (
    ("speed", "speed", "m/s", 1, 2),
    ("cadence", "cadence", "steps/s", 1, 2),
    ("step length", "step_length", "m", 1, 2),
    ("double support", "double_support_share", "%", 100, 0),
    ("flight", "flight_share", "%", 100, 0),
    ("knee range", "knee_range", "deg", _DEGREES, 0),
    ("hip pitch range", "hip_pitch_range", "deg", _DEGREES, 0),
    ("ankle pitch range", "ankle_pitch_range", "deg", _DEGREES, 0),
    ("shoulder pitch range", "shoulder_pitch_range", "deg", _DEGREES, 0),
    ("pelvis height", "pelvis_height", "m", 1, 3),
    ("pelvis bob", "pelvis_bob", "cm", 100, 1),
    ("foot clearance", "clearance", "cm", 100, 1),
)
STRIDES = "strides"

Gaits = dict[str, dict[str, float]]
"""Strides and medians of each speed range that has any."""


def gaits(corpus: Corpus, workers: int | None = None) -> Gaits:
    """Measure the clips of a corpus that only walk or run."""
    clips = (np.array(corpus.qpos(i)) for i in plain_gaits(corpus))
    found = [s for clip in in_order(strides, clips, workers) for s in clip]
    return medians(found)


def medians(found: list[Stride]) -> Gaits:
    """Medians of strides by speed; walks and runs are told apart by their flight."""
    result = {}
    for row, runs, slowest, fastest in _BINS:
        chosen = [
            s
            for s in found
            if slowest <= s.speed < fastest and (s.flight_share > _FLIGHT_SHARE) == runs
        ]
        if chosen:
            result[row] = {STRIDES: len(chosen)} | {
                name: round(
                    factor * float(np.median([getattr(s, field) for s in chosen])),
                    decimals,
                )
                for name, field, _, factor, decimals in _MEASURES
            }
    return result


def gait_table(labelled: dict[str, Gaits]) -> str:
    """Aligned text: a column per speed, in it the corpora one beside the other."""
    rows = [bin[0] for bin in _BINS if any(bin[0] in g for g in labelled.values())]
    if not rows:
        return "Gait: no clip has steady strides straight ahead"
    title = f"Gait, medians over steady straight strides: {' | '.join(labelled)}"
    lines = [title, " " * 32 + "".join(f"{row:>22}" for row in rows)]
    for name, unit, decimals in (
        (STRIDES, "", 0),
        *((name, unit, decimals) for name, _, unit, _, decimals in _MEASURES),
    ):
        cells = [
            " | ".join(
                f"{g[row][name]:.{decimals}f}" if row in g else "-"
                for g in labelled.values()
            )
            for row in rows
        ]
        heading = f"{name} ({unit})" if unit else name
        lines.append(f"  {heading:<30}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join(lines)


def gait_results(
    labelled: dict[str, Gaits], table: str, run: str = "", command: str = ""
) -> list[Result]:
    """Rows for the page of results, like speeds of all corpora together.

    The first corpus is the one the table is about; the others say whose row it is.
    """
    found = []
    for row, *_ in _BINS:
        for place, (label, measured) in enumerate(labelled.items()):
            if row not in measured:
                continue
            values = measured[row]
            for name, _, unit, _, _ in _MEASURES:
                found.append(
                    Result(
                        table=table,
                        row=f"{row}, {label}" if place else row,
                        metric=name,
                        value=values[name],
                        unit=unit,
                        n=int(values[STRIDES]),
                        run=run,
                        command=command,
                    )
                )
    return found

"""Pictures of a ladder: each measure over time, distance to the corpus, the path."""

from collections.abc import Mapping

import numpy as np

from spectral_skills.evaluation.composition.effects import measure
from spectral_skills.evaluation.composition.findings import Chart, Series
from spectral_skills.evaluation.composition.lab import Executed
from spectral_skills.evaluation.composition.neighbours import Neighbours
from spectral_skills.motion.corpus import FPS

WINDOW = FPS
"""Steps that a point over time is the mean of."""
EVERY = 10
"""Steps between points."""
_CURVES = {
    "speed": ("speed (m/s)", ("speed",), 1.0),
    "yaw rate": ("yaw rate (deg/s)", ("heading",), 1.0),
    "right shoulder": ("right shoulder pitch (rad)", ("right_shoulder_pitch",), 1.0),
    "swing apex": ("apex (cm)", ("left_apex", "right_apex"), 100.0),
}
"""Label, measures, and how many of its unit are one of the measure's."""
Marks = Mapping[int, str]
"""What changes at which step."""


def charts(
    base: str, plain: Executed, steered: Executed, near: Neighbours, marks: Marks
) -> list[Chart]:
    """All pictures of a base, up to where a robot fell."""
    runs = {
        "steered": steered.rows[: steered.fell_at],
        "unsteered": plain.rows[: plain.fell_at],
    }
    kept = {name: rows for name, rows in runs.items() if len(rows) > 2 * WINDOW}
    time = {name: over_time(rows) for name, rows in kept.items()}
    found = []
    for what, (label, measures, scale) in _CURVES.items():
        series = tuple(
            _series(
                name if len(measures) == 1 else f"{name}, {one.split('_')[0]}",
                time[name][0],
                scale * time[name][1][one],
                marks,
            )
            for name in kept
            for one in measures
        )
        title = f"Ladder on the {base}: {what}"
        found.append(Chart(title, "line", "time (s)", label, series))
    distances = tuple(
        _series(name, *smoothed(near.distances(rows), -near.encoder.first), marks)
        for name, rows in kept.items()
    )
    title, label = f"Ladder on the {base}: distance to the corpus", "distance"
    found.append(Chart(title, "line", "time (s)", label, distances, _DISTANCE))
    paths = tuple(_path(name, rows, marks) for name, rows in kept.items())
    title = f"Ladder on the {base}: path from above"
    found.append(Chart(title, "path", "x (m)", "y (m)", paths))
    return found


_DISTANCE = (
    "From the skill of the executed motion to the nearest of the corpus; mean over a "
    "second."
)


def over_time(rows: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Steps in the middle of windows, and all measures there."""
    starts = np.arange(0, len(rows) - WINDOW, EVERY)
    seen = [measure(rows, slice(s, s + WINDOW + 1)) for s in starts.tolist()]
    # A window is a second long, so its turn is a rate.
    found = {name: np.array([one[name] for one in seen]) for name in seen[0]}
    return starts + WINDOW // 2, found


def smoothed(values: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and means over a second of values that begin at a step."""
    mean = np.convolve(values, np.full(WINDOW, 1 / WINDOW), "valid")[::EVERY]
    return first + WINDOW // 2 + EVERY * np.arange(len(mean)), mean


def _series(name: str, steps: np.ndarray, values: np.ndarray, marks: Marks) -> Series:
    times = tuple((steps / FPS).tolist())
    return Series(name, times, tuple(values.tolist()), _marked(name, steps, marks))


def _path(name: str, rows: np.ndarray, marks: Marks) -> Series:
    steps = np.arange(0, len(rows), EVERY)
    x, y = rows[steps, :2].T.tolist()
    return Series(name, tuple(x), tuple(y), _marked(name, steps, marks))


def _marked(name: str, steps: np.ndarray, marks: Marks) -> tuple[str, ...]:
    """Names of the changes at the first point after each, on steered runs."""
    if not name.startswith("steered"):
        return ()
    found = [""] * len(steps)
    for at, told in marks.items():
        later = np.flatnonzero(steps >= at)
        if len(later):
            found[later[0]] = told
    return tuple(found)

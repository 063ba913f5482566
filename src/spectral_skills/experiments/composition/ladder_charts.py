"""Pictures of a ladder over time: measures, distance to the corpus, path and drift."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spectral_skills.experiments.composition.lab import Executed
from spectral_skills.experiments.composition.neighbours import Neighbours
from spectral_skills.experiments.effects import headings, measure
from spectral_skills.experiments.findings import Chart, Series
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
                marks if one == measures[0] else {},
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
    wanted = plain.run.base.rows
    paths = [_path(name, rows, marks) for name, rows in kept.items()]
    paths.append(replace(_path("the base's motion", wanted, {}), role="behind"))
    title = f"Ladder on the {base}: path from above"
    found.append(Chart(title, "path", "x (m)", "y (m)", tuple(paths)))
    away = tuple(
        _series(name, *_every(distance_away(rows, wanted)), marks)
        for name, rows in kept.items()
    )
    title, label = f"Ladder on the {base}: drift from the base's motion", "distance (m)"
    found.append(Chart(title, "line", "time (s)", label, away, _DRIFT))
    return found


def turned_away(plain: Mapping[str, Executed]) -> Chart:
    """How far unsteered runs turn away from their bases' headings, up to a fall."""
    series = []
    for name, one in plain.items():
        rows, wanted = one.rows[: one.fell_at], one.run.base.rows
        count = min(len(rows), len(wanted))
        turned = headings(rows[:count]) - headings(wanted[:count])
        series.append(_series(name, *_every(np.degrees(turned - turned[0])), {}))
    labels = "time (s)", "heading (deg)"
    title = "Drift of the heading, unsteered"
    return Chart(title, "line", *labels, tuple(series), _TURNED)


def distance_away(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(T,) along the ground, from where a motion has the root at the same time, m."""
    count = min(len(rows), len(wanted))
    return np.linalg.norm(rows[:count, :2] - wanted[:count, :2], axis=1)


_DISTANCE = (
    "From the skill of the executed motion to the nearest of the corpus; mean over a "
    "second."
)
_DRIFT = (
    "From where the base's motion has its root at the same time. Skills are played "
    "open loop: nothing leads the robot back."
)
_TURNED = "Of the robot's pelvis, beyond that of the motion whose skills it was given."


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


def _every(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some of the steps, and the values there."""
    steps = np.arange(0, len(values), EVERY)
    return steps, values[steps]


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

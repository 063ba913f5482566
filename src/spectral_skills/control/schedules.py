"""Amplitudes over time: knobs, the paper's schedule, and automation files.

Steps are control steps at 50 Hz. Amplitudes are in raw skill units, one column per
direction. Only NumPy is needed here, so that a robot can steer without torch.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import position

RAMP_STEPS = 25
"""Half a second from zero to full amplitude, and back."""
MARGIN_STEPS = 40
"""Unsteered steps at each end of the paper's runs."""
TIME_COLUMN = "time_s"


@dataclass(frozen=True)
class Knob:
    """One direction turned up, held, and released."""

    direction: int | str
    """Column or name of the direction."""
    amplitude: float
    start: int = 0
    """Last step without effect."""
    end: int | None = None
    """First step without effect again; None: never released."""
    ramp: int = RAMP_STEPS
    """Number of steps from zero to full amplitude, and back."""

    def __post_init__(self):
        about = f"knob of direction {self.direction!r}"
        if not math.isfinite(self.amplitude):
            raise ValueError(f"{about}: amplitude {self.amplitude}, must be finite")
        if self.start < 0:
            raise ValueError(f"{about}: start {self.start}, must be at least 0")
        if self.ramp < 1:
            raise ValueError(f"{about}: ramp {self.ramp}, must be at least 1 step")
        if self.end is not None and self.end < self.start + 2 * self.ramp:
            raise ValueError(
                f"{about}: from {self.start} to {self.end} is too short for two ramps "
                f"of {self.ramp} steps; end it later or take a shorter ramp"
            )

    def curve(self, steps: int) -> np.ndarray:
        """(steps,) amplitude at every step."""
        t = np.arange(steps)
        rise = t - self.start
        fall = self.ramp if self.end is None else self.end - t
        return self.amplitude * np.clip(np.minimum(rise, fall) / self.ramp, 0.0, 1.0)


def schedule(knobs: Sequence[Knob], steps: int, names: Sequence[str]) -> np.ndarray:
    """(steps, k) amplitudes of the named directions; knobs on the same one add."""
    amplitudes = np.zeros((steps, len(names)))
    for knob in knobs:
        column = knob.direction
        if isinstance(column, str):
            column = position(column, names)
        elif not 0 <= column < len(names):
            raise ValueError(f"no direction {column}; there are {len(names)}, from 0")
        amplitudes[:, column] += knob.curve(steps)
    return amplitudes


def standard(amplitudes: ArrayLike, steps: int) -> np.ndarray:
    """(steps, k) the paper's schedule of a run: from step 40 to 40 before the end."""
    full_amplitude(steps)
    curve = Knob(0, 1.0, MARGIN_STEPS, steps - MARGIN_STEPS).curve(steps)
    return curve[:, None] * np.atleast_1d(np.asarray(amplitudes, dtype=float))


def full_amplitude(steps: int) -> slice:
    """The steps of `standard` over which effects are measured, 65 to n - 65."""
    edge = MARGIN_STEPS + RAMP_STEPS
    if steps <= 2 * edge:
        raise ValueError(
            f"a run of {steps} steps never reaches full amplitude; "
            f"take at least {2 * edge + 1}"
        )
    return slice(edge, steps - edge)


@dataclass(frozen=True)
class Automation:
    """Amplitudes at given times; linear between them, constant outside."""

    times: np.ndarray
    """(n,) increasing times, s."""
    amplitudes: np.ndarray
    """(n, k)"""

    def schedule(self, steps: int) -> np.ndarray:
        """(steps, k) amplitudes of a run."""
        t = np.arange(steps) / g1.CONTROL_HZ
        curves = [np.interp(t, self.times, curve) for curve in self.amplitudes.T]
        return np.stack(curves, axis=1) if curves else np.zeros((steps, 0))


def write_automation(amplitudes: np.ndarray, names: Sequence[str]) -> str:
    """Amplitudes (T, k) of every step as the text that `read_automation` reads.

    Directions that were never up are omitted, and so are rows between equal rows.
    """
    used = np.flatnonzero(amplitudes.any(axis=0))
    values = amplitudes[:, used]
    changed = (values[1:] != values[:-1]).any(axis=1)
    kept = np.r_[True, changed] | np.r_[changed, True]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([TIME_COLUMN, *(names[i].split(" ")[0] for i in used.tolist())])
    for step in np.flatnonzero(kept).tolist():
        row = [repr(float(value)) for value in values[step]]
        writer.writerow([repr(step / g1.CONTROL_HZ), *row])
    return out.getvalue()


def read_automation(path: Path | str, names: Sequence[str]) -> Automation:
    """Read automation from a CSV file; directions that it does not name stay at zero.

    The header is `time_s` and names of directions; each row is a time in seconds and
    an amplitude for each.
    """
    # Spreadsheets write a byte order mark first. A file that is not text has no header.
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.reader(file)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    number, header = lines[0] if lines else (1, [])
    header = [cell.strip() for cell in header]
    if header[:1] != [TIME_COLUMN]:
        raise ValueError(
            f"{path}, line {number}: the header is {','.join(header)!r}; begin it with "
            f"`{TIME_COLUMN},` and names of directions, separated by commas"
        )
    columns: list[int] = []
    for name in header[1:]:
        try:
            column = position(name, names)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if column in columns:
            raise ValueError(
                f"{path}, line {number}: direction {name!r} appears twice; keep one"
            )
        columns.append(column)
    table: list[list[float]] = []
    for number, cells in lines[1:]:
        where = f"{path}, line {number}"
        table.append(_numbers(where, cells, header))
        time, before = table[-1][0], table[-2][0] if len(table) > 1 else -math.inf
        if time < 0 or time <= before:
            rule = "must not be negative" if time < 0 else f"follows {before:g}"
            raise ValueError(
                f"{where}: {TIME_COLUMN} {time:g} {rule}; times must increase from row "
                "to row"
            )
    if not table:
        raise ValueError(f"{path}: no row after the header; add at least one")
    values = np.array(table)
    amplitudes = np.zeros((len(values), len(names)))
    amplitudes[:, columns] = values[:, 1:]
    return Automation(values[:, 0], amplitudes)


def _numbers(where: str, cells: list[str], header: list[str]) -> list[float]:
    """The finite numbers of one row of a table."""
    if len(cells) != len(header):
        raise ValueError(
            f"{where}: {len(cells)} values under {len(header)} columns; give one for "
            f"each of {', '.join(header)}"
        )
    numbers = []
    for name, cell in zip(header, cells, strict=True):
        try:
            numbers.append(float(cell))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise ValueError(
                f"{where}: {name} is {cell.strip()!r}; write a finite number"
            )
    return numbers

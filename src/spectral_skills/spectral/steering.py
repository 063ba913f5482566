"""Composition is addition: skills, directions and amplitudes over time.

    z_steer(t) = z_base(t) + V eta(t)          eq. latent-steering

Steps are control steps at 50 Hz. Amplitudes are in raw skill units, one column per
direction. Only NumPy is needed here, so that a robot can steer without torch.
"""

import csv
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from spectral_skills.robot import g1

RAMP_STEPS = 25
"""Half a second from nothing to full amplitude, and back."""
MARGIN_STEPS = 40
"""Unsteered steps at each end of the paper's runs."""
PHASE_SIZE = 2
"""Numbers of a command after its skill."""
TIME_COLUMN = "time_s"


@dataclass(frozen=True)
class Knob:
    """One direction turned up, held, and released."""

    direction: int | str
    """Column, or name, of the direction."""
    amplitude: float
    start: int = 0
    """Last step without effect."""
    end: int | None = None
    """First step without effect again; None: never released."""
    ramp: int = RAMP_STEPS
    """Steps from nothing to full amplitude, and back."""

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
        amplitudes[:, _column(knob.direction, names)] += knob.curve(steps)
    return amplitudes


def position(name: str, names: Sequence[str]) -> int:
    """Where a direction is, by its name or by the part of it before a space.

    The rest of a name tells what is predicted, which another file may tell otherwise.
    """
    short = [other.split(" ")[0] for other in names]
    for known in (list(names), short):
        if name in known:
            return known.index(name)
    near = difflib.get_close_matches(name, {*names, *short}, n=3, cutoff=0.3)
    hint = f"close to it: {', '.join(near)}"
    if not near:
        hint = f"there are {', '.join([*short[:5], *['...'][: len(short) > 5]])}"
    raise ValueError(f"no direction {name!r} among {len(names)}; {hint}")


def _column(direction: int | str, names: Sequence[str]) -> int:
    if isinstance(direction, str):
        return position(direction, names)
    if not 0 <= direction < len(names):
        raise ValueError(f"no direction {direction}; there are {len(names)}, from 0")
    return direction


def standard(amplitudes: ArrayLike, steps: int) -> np.ndarray:
    """(steps, k) the paper's schedule for a run: from step 40 to 40 before the end."""
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


class Fader:
    """A live amplitude that takes `ramp` steps to reach a new target."""

    def __init__(self, value: float = 0.0, ramp: int = RAMP_STEPS):
        if ramp < 1:
            raise ValueError(f"ramp {ramp}, must be at least 1 step")
        self.value = self.target = _finite(value)
        self.ramp = ramp
        self._origin, self._left = self.value, 0

    def move(self, target: float) -> None:
        """Start towards a target from wherever the fader stands."""
        self.target = _finite(target)
        self._origin, self._left = self.value, self.ramp

    def step(self) -> float:
        """Amplitude at the next control step."""
        if self._left:
            self._left -= 1
            # Written from the target backwards, it ends there exactly.
            rest = (self.target - self._origin) * (self._left / self.ramp)
            self.value = self.target - rest
        return self.value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"amplitude {value}, must be finite")
    return float(value)


@dataclass(frozen=True)
class Automation:
    """Amplitudes at given times; linear between them, constant outside."""

    times: np.ndarray
    """(n,) increasing, s."""
    amplitudes: np.ndarray
    """(n, k)."""

    def schedule(self, steps: int) -> np.ndarray:
        """(steps, k) amplitudes of a run."""
        t = np.arange(steps) / g1.CONTROL_HZ
        curves = [np.interp(t, self.times, curve) for curve in self.amplitudes.T]
        return np.stack(curves, axis=1) if curves else np.zeros((steps, 0))


def read_automation(path: Path | str, names: Sequence[str]) -> Automation:
    """Automation in a CSV file; directions that it does not name stay at zero.

    The header is `time_s` and names of directions; each row is a time in seconds
    and an amplitude for each.
    """
    # Spreadsheets write a byte order mark first; what is no text at all has no header.
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
    table = [_numbers(f"{path}, line {n}", cells, header) for n, cells in lines[1:]]
    if not table:
        raise ValueError(f"{path}: no row after the header; add at least one")
    values = np.array(table)
    times = values[:, 0]
    for i in range(len(times)):
        before = times[i - 1] if i else -math.inf
        if times[i] < 0 or times[i] <= before:
            rule = "must not be negative" if times[i] < 0 else f"follows {before:g}"
            raise ValueError(
                f"{path}, line {lines[i + 1][0]}: {TIME_COLUMN} {times[i]:g} {rule}; "
                "times must increase from row to row"
            )
    amplitudes = np.zeros((len(values), len(names)))
    amplitudes[:, columns] = values[:, 1:]
    return Automation(times, amplitudes)


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
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(
                f"{where}: {name} is {cell.strip()!r}; write a finite number"
            )
        numbers.append(number)
    return numbers


def steer(
    skills: np.ndarray, directions: np.ndarray, amplitudes: np.ndarray
) -> np.ndarray:
    """Skills (T, d) moved along directions (k, d) by amplitudes (T, k)."""
    if skills.ndim != 2 or not np.issubdtype(skills.dtype, np.floating):
        raise ValueError(
            f"skills are {skills.dtype} of shape {skills.shape}, must be floats (T, d)"
        )
    T, d = skills.shape
    if directions.ndim != 2 or directions.shape[1] != d:
        raise ValueError(
            f"directions have shape {directions.shape}, must be (k, {d}), one "
            f"direction a row, for skills of shape {skills.shape}"
        )
    k = len(directions)
    if amplitudes.shape != (T, k):
        raise ValueError(
            f"amplitudes have shape {amplitudes.shape}, must be ({T}, {k}): a row "
            "for every step, a column for every direction"
        )
    inputs = {"skills": skills, "directions": directions, "amplitudes": amplitudes}
    for name, values in inputs.items():
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, column = bad[0].tolist()
            raise ValueError(f"{name}[{row}, {column}] is {values[row, column]}")
    steered = skills.copy()
    # Steps without amplitude are not touched: even -0.0 + 0.0 is another number.
    active = amplitudes.any(axis=1)
    steered[active] = skills[active] + amplitudes[active] @ directions
    return steered


def steer_command(
    command: np.ndarray, directions: np.ndarray, amplitudes: np.ndarray
) -> np.ndarray:
    """Commands (T, d + 2) with steered skills and their own phases."""
    if command.ndim != 2 or command.shape[1] <= PHASE_SIZE:
        raise ValueError(f"commands have shape {command.shape}, must be (T, d + 2)")
    skills, phase = np.split(command, [command.shape[1] - PHASE_SIZE], axis=1)
    return np.concatenate((steer(skills, directions, amplitudes), phase), axis=1)

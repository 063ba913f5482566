"""Skills over time, made offline: knobs, the paper's schedule, cross-fades and chains.

    z(t) = z_base(t) + V eta(t)      eq. latent-steering

Steps are control steps at 50 Hz. Amplitudes are in raw skill units, one column per
direction. Only NumPy is needed here, so that a robot can steer without torch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectral_skills.spectral.direction_file import position

RAMP_STEPS = 25
"""Half a second from zero to full amplitude, and back."""
MARGIN_STEPS = 40
"""Unsteered steps at each end of the paper's runs."""


@dataclass(frozen=True)
class Knob:
    """One direction turned up, held, and released."""

    direction: str
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
        t = np.arange(steps)
        rise = t - self.start
        fall = self.ramp if self.end is None else self.end - t
        return self.amplitude * np.clip(np.minimum(rise, fall) / self.ramp, 0.0, 1.0)


def schedule(knobs: Sequence[Knob], steps: int, names: Sequence[str]) -> np.ndarray:
    """(steps, k) amplitudes of the named directions; knobs on the same one add."""
    amplitudes = np.zeros((steps, len(names)))
    for knob in knobs:
        amplitudes[:, position(knob.direction, names)] += knob.curve(steps)
    return amplitudes


def standard(amplitudes: ArrayLike, steps: int) -> np.ndarray:
    """(steps, k) the paper's schedule of a run: from step 40 to 40 before the end."""
    full_amplitude(steps)
    curve = Knob("", 1.0, MARGIN_STEPS, steps - MARGIN_STEPS).curve(steps)
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


def fade_weight(step: int | np.ndarray, steps: int) -> float | np.ndarray:
    """Weight of the new stream at a step of a cross-fade: never 0, never 1."""
    return (step + 1) / (steps + 1)


def crossfade(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Arrays (n, ...) of two streams over the n steps of a cross-fade, blended."""
    steps = len(before)
    weight = np.asarray(fade_weight(np.arange(steps), steps), before.dtype)
    weight = weight.reshape(-1, *(1,) * (before.ndim - 1))
    change = (after - before).astype(np.float64)
    # Rounded once, and from the nearer end, as the recorded results were made.
    near, far = before + weight * change, after - (1 - weight) * change
    return np.where(weight < 0.5, near, far).astype(before.dtype)


def chain(
    streams: Sequence[np.ndarray], switch_steps: int
) -> tuple[np.ndarray, list[slice]]:
    """One stream (T, d) made of several, and the steps at which it switches.

    The last `switch_steps` of a stream and the first of the next are played together.
    """
    if switch_steps < 0:
        raise ValueError(f"a switch of {switch_steps} steps, must not be negative")
    ends = (1, *(2,) * max(0, len(streams) - 2), 1)
    for number, (stream, switches) in enumerate(zip(streams, ends, strict=False)):
        if len(streams) > 1 and len(stream) < switches * switch_steps:
            raise ValueError(
                f"stream {number} has {len(stream)} steps, too few for {switches} "
                f"switches of {switch_steps}"
            )
    total, switches = streams[0], []
    for stream in streams[1:]:
        begin = len(total) - switch_steps
        blend = crossfade(total[begin:], stream[:switch_steps])
        total = np.concatenate((total[:begin], blend, stream[switch_steps:]))
        switches.append(slice(begin, begin + switch_steps))
    return total, switches

"""Smooth curves over time: ramps, levels, wandering, and a soft filter."""

import numpy as np

FPS = 50


def ease(x: np.ndarray) -> np.ndarray:
    """From 0 at x <= 0 to 1 at x >= 1 with least jerk."""
    x = np.clip(x, 0.0, 1.0)
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


def bump(t: np.ndarray, rise: float, fall: float, ramp_s: float) -> np.ndarray:
    """Up to one from `rise` on, back to zero at `fall`, each within `ramp_s`."""
    return ease((t - rise) / ramp_s) * ease((fall - t) / ramp_s)


def wander(
    rng: np.random.Generator, t: np.ndarray, slowest_s: float = 6.0, fastest_s=1.2
) -> np.ndarray:
    """Smooth random variation of about unit size that never repeats."""
    periods = np.geomspace(slowest_s, fastest_s, 5) * rng.uniform(0.85, 1.15, 5)
    phases = rng.uniform(0, 2 * np.pi, 5)
    weights = rng.normal(size=5) * np.sqrt(periods)
    weights /= np.linalg.norm(weights) / np.sqrt(2)
    return (weights * np.sin(2 * np.pi * t[:, None] / periods + phases)).sum(axis=1)


def soften(values: np.ndarray, sigma_frames: float) -> np.ndarray:
    """Gaussian filter along time; the ends repeat."""
    radius = int(np.ceil(4 * sigma_frames))
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma_frames) ** 2)
    kernel /= kernel.sum()
    flat = values.reshape(len(values), -1)
    padded = np.pad(flat, ((radius, radius), (0, 0)), mode="edge")
    columns = [np.convolve(column, kernel, mode="valid") for column in padded.T]
    return np.stack(columns, axis=1).reshape(values.shape)

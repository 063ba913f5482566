"""What a run does, in words people use, and what steering has changed.

Measures are means over the steps of full amplitude. An effect is a measure of a run
less that of the unsteered run of the same base.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import NOTICED, SHOULDERS, SIDES
from spectral_skills.spectral.support import ATTRIBUTES as DESCRIBED
from spectral_skills.spectral.support import describe_run

ARM_JOINTS = np.array(
    [
        i
        for i, name in enumerate(g1.JOINTS)
        if any(part in name for part in ("shoulder", "elbow", "wrist"))
    ]
)
UNITS: dict[str, str] = {
    **dict.fromkeys(SHOULDERS, "rad"),
    **{f"{side}_apex": "m" for side in SIDES},
    "heading": "deg",
    "speed": "m/s",
    "root_height": "m",
    "stride": "Hz",
}
"""Measures and their units. Apex: how far the ankle rises within a second. Heading:
turned from the first step to the last. Speed: along the path. Stride: of one leg."""
_NAMES: dict[str, tuple[str, str]] = {
    "shoulder_pitch": ("arm lower", "arm raise"),
    "shoulder_roll": ("arm out", "arm in"),
    "shoulder_yaw": ("forearm out", "forearm in"),
    "apex": ("high steps", "low steps"),
    "heading": ("turn left", "turn right"),
    "speed": ("faster", "slower"),
    "root_height": ("rise", "crouch"),
    "stride": ("quick steps", "long steps"),
}
"""What a growing and a falling measure are called, on the left side."""


@dataclass(frozen=True)
class Effect:
    """What steering has changed."""

    changes: dict[str, float]
    """Of every measure of `UNITS`."""
    pose: np.ndarray
    """(29,) change of the mean joint angles, rad."""

    @property
    def arm_rms(self) -> float:
        """Root mean square change of the arm joints, rad."""
        return float(np.sqrt(np.square(self.pose[ARM_JOINTS]).mean()))

    def in_scales(self) -> np.ndarray:
        """Changes as multiples of what one notices, in the order of `UNITS`."""
        return np.array([self.changes[name] / NOTICED[name] for name in UNITS])

    def along(self, parts: Mapping[str, float]) -> float:
        """Mean of some changes, each with its own sign."""
        return float(np.mean([sign * self.changes[n] for n, sign in parts.items()]))

    @property
    def name(self) -> str:
        """What people would call it; empty where nothing is noticed."""
        return named(self.changes)


def measure(rows: np.ndarray, steps: slice = slice(None)) -> dict[str, float]:
    """Measures of a run's rows (T + 1, 36) over some steps."""
    rows = np.asarray(rows, np.float64)[steps]
    described = dict(zip(DESCRIBED, describe_run(rows).tolist(), strict=True))
    joints = {
        name: float(rows[:, 7 + g1.joint_index(name)].mean()) for name in SHOULDERS
    }
    yaw = headings(rows)
    half = FPS // 2
    path = np.linalg.norm(rows[half:, :2] - rows[:-half, :2], axis=1) * FPS / half
    return joints | {
        "left_apex": described["left_apex"],
        "right_apex": described["right_apex"],
        "heading": float(np.degrees(yaw[-1] - yaw[0])),
        "speed": float(path.mean()),
        "root_height": float(rows[:, 2].mean()),
        "stride": stride_hz(rows),
    }


def effect(run: np.ndarray, base: np.ndarray, steps: slice) -> Effect:
    """What a run has that the unsteered one has not."""
    ours, theirs = measure(run, steps), measure(base, steps)
    pose = (run[steps, 7:] - base[steps, 7:]).mean(axis=0)
    return Effect({name: ours[name] - theirs[name] for name in UNITS}, pose)


def headings(rows: np.ndarray) -> np.ndarray:
    """(T,) yaw of the pelvis without jumps, rad."""
    yaw = rotation.yaw(torch.as_tensor(np.asarray(rows)[:, 3:7]))
    return np.unwrap(yaw.numpy())


def stride_hz(rows: np.ndarray) -> float:
    """Strides a second of one leg; 0 where the thighs do not swing."""
    left, right = (rows[:, 7 + g1.joint_index(f"{side}_hip_pitch")] for side in SIDES)
    swing = (left - right) - (left - right).mean()
    if swing.std() < 0.05:
        return 0.0
    size = 8 * len(swing)
    power = np.abs(np.fft.rfft(swing * np.hanning(len(swing)), size))
    hz = np.fft.rfftfreq(size, 1 / FPS)
    power[(hz < 0.3) | (hz > 4.0)] = 0.0
    return float(hz[power.argmax()])


def named(changes: Mapping[str, float]) -> str:
    """The strongest change in words: `right arm raise`, `turn left`, `high steps`."""
    scaled = {name: changes[name] / NOTICED[name] for name in UNITS}
    best = max(scaled, key=lambda name: abs(scaled[name]))
    if abs(scaled[best]) < 1.0:
        return ""
    side, _, part = best.partition("_")
    if side not in SIDES:
        return _word(best, scaled[best])
    other = f"{'right' if side == 'left' else 'left'}_{part}"
    ours, theirs = _outward(best, scaled[best]), _outward(other, scaled[other])
    word = _word(part, ours)
    if part == "apex":
        return word if theirs / ours >= 0.5 else f"{side} {word}"
    if abs(theirs) < 0.5 * abs(ours):
        return f"{side} {word}"
    limb, *rest = word.split()
    both = "both" if ours * theirs > 0 else "opposed"
    return " ".join((both, f"{limb}s", *rest))


def _word(part: str, change: float) -> str:
    grows, falls = _NAMES[part]
    return grows if change > 0 else falls


def _outward(name: str, change: float) -> float:
    """A change as it would be on the left side: rolls and yaws are mirrored."""
    mirrored = name.startswith("right") and name.endswith(("roll", "yaw"))
    return -change if mirrored else change


def groups(effects: np.ndarray, alike: float = 0.7) -> np.ndarray:
    """(n,) number of the group of each effect (n, m): |correlation| of at least
    `alike` with the strongest of the group."""
    unit = effects / np.linalg.norm(effects, axis=1, keepdims=True).clip(1e-12)
    order = np.argsort(-np.linalg.norm(effects, axis=1))
    found = np.full(len(effects), -1)
    heads: list[int] = []
    for i in order:
        near = [g for g, head in enumerate(heads) if abs(unit[i] @ unit[head]) >= alike]
        if near:
            found[i] = near[0]
        else:
            found[i] = len(heads)
            heads.append(i)
    return found

"""What a run does in measures that people use, and what steering changes of them.

Measures are means over the steps of full amplitude. An effect is a measure of a run
less that of the unsteered run of the same base.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.steering import full_amplitude
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import (
    NOTICED,
    SHOULDERS,
    SIDES,
    UNITS,
    named,
    predictors,
)
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.support import ATTRIBUTES as DESCRIBED
from spectral_skills.spectral.support import describe_run

Key = TypeVar("Key")
_ARM = ("shoulder", "elbow", "wrist")
ARM_JOINTS = [i for i, name in enumerate(g1.JOINTS) if any(p in name for p in _ARM)]
_FOREARMS = [i for i in ARM_JOINTS if g1.JOINTS[i] not in SHOULDERS]
_FOREARM_NOTICED_RAD = 0.3


@dataclass(frozen=True)
class Effect:
    """What steering has changed."""

    changes: dict[str, float]
    """Changes of every measure of `UNITS`."""
    pose: np.ndarray
    """(29,) change of the mean joint angles, rad."""

    @property
    def arm_rms(self) -> float:
        """Root mean square change of the arm joints, rad."""
        return float(np.sqrt(np.square(self.pose[ARM_JOINTS]).mean()))

    def in_scales(self) -> np.ndarray:
        """Changes as multiples of what people notice, in the order of `UNITS`."""
        return np.array([self.changes[name] / NOTICED[name] for name in UNITS])

    def along(self, parts: Mapping[str, float]) -> float:
        """Mean of some changes, each with its own sign."""
        return float(np.mean([sign * self.changes[n] for n, sign in parts.items()]))

    @property
    def pattern(self) -> np.ndarray:
        """Noticeable changes of the measures, then of elbows and wrists."""
        forearms = self.pose[_FOREARMS] / _FOREARM_NOTICED_RAD
        return np.concatenate((self.in_scales(), forearms))

    @property
    def strength(self) -> float:
        """The largest change, as a multiple of what people notice."""
        return float(np.abs(self.pattern).max())

    @property
    def dominant(self) -> str:
        """The measure that changes most; empty where no change is noticeable."""
        scaled = np.abs(self.in_scales())
        return tuple(UNITS)[scaled.argmax()] if scaled.max() >= 1.0 else ""

    @property
    def name(self) -> str:
        """What people would call it; empty where no measure changes noticeably."""
        return named(self.changes)

    @property
    def full_name(self) -> str:
        """The name, or else the joint of a forearm that moves noticeably."""
        forearm = max(_FOREARMS, key=lambda i: abs(self.pose[i]))
        if self.name or abs(self.pose[forearm]) < _FOREARM_NOTICED_RAD:
            return self.name
        return g1.JOINTS[forearm].replace("_", " ")


def measure(rows: np.ndarray, steps: slice = slice(None)) -> dict[str, float]:
    """Measures of a run's rows (T + 1, 36) over some steps."""
    rows = np.asarray(rows, np.float64)[steps]
    described = dict(zip(DESCRIBED, describe_run(rows).tolist(), strict=True))
    joints = {
        name: float(rows[:, 7 + g1.joint_index(name)].mean()) for name in SHOULDERS
    }
    yaw, half = headings(rows), FPS // 2
    path = np.linalg.norm(rows[half:, :2] - rows[:-half, :2], axis=1) * FPS / half
    return joints | {
        "left_apex": described["left_apex"],
        "right_apex": described["right_apex"],
        "heading": float(np.degrees(yaw[-1] - yaw[0])),
        "speed": float(path.mean()),
        "root_height": float(rows[:, 2].mean()),
        "stride": stride_hz(rows),
    }


def hold(base: Base) -> slice:
    """Rows over which the effects of a run are measured."""
    return full_amplitude(base.steps)


def effect(steered: Executed, plain: Executed, steps: slice | None = None) -> Effect:
    steps = hold(steered.run.base) if steps is None else steps
    ours, theirs = measure(steered.rows, steps), measure(plain.rows, steps)
    pose = (steered.rows[steps, 7:] - plain.rows[steps, 7:]).mean(axis=0)
    return Effect({name: ours[name] - theirs[name] for name in UNITS}, pose)


@dataclass(frozen=True)
class Steered:
    """A run beside the unsteered run of the same base and robot."""

    executed: Executed
    plain: Executed

    @property
    def run(self) -> Run:
        return self.executed.run

    @property
    def stands(self) -> bool:
        return self.executed.stands

    @cached_property
    def effect(self) -> Effect:
        return effect(self.executed, self.plain)


def beside(
    runner: Runner,
    base: Base,
    runs: Mapping[Key, Run],
    label: str,
    seed: int | None = None,
) -> dict[Key, Steered]:
    plain, *done = runner.execute([runner.plain(base, seed), *runs.values()], label)
    return {key: Steered(one, plain) for key, one in zip(runs, done, strict=True)}


def attempt(
    runner: Runner,
    base: Base,
    direction: str,
    amplitude: float,
    seed: int | None = None,
) -> Run:
    """A base steered along a direction, named after both."""
    short = direction.split(" ")[0]
    change = runner.direction(short, amplitude)
    return runner.steered(base, change, f"{short} a={amplitude:+.4g}", seed=seed)


def falls(runs: Iterable[Executed | Steered]) -> int:
    return sum(not one.stands for one in runs)


def predicted(
    directions: Directions, steps: slice, vectors: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """(k,) change of each measure that is predicted per unit of every direction, or of
    other vectors (k, d): effects are linear, and spectral directions are a basis."""
    effects = directions.effect_mean
    if vectors is not None:
        basis = directions.family("spectral")
        effects = vectors @ directions.vectors[basis].T @ effects[basis]
    seconds = (steps.stop - steps.start - 1) / FPS
    known = predictors(directions, seconds).items()
    return {measure: factor * effects[:, column] for measure, (column, factor) in known}


def headings(rows: np.ndarray) -> np.ndarray:
    """(T,) yaw of the pelvis without jumps, rad."""
    return np.unwrap(rotation.yaw(torch.as_tensor(np.asarray(rows)[:, 3:7])).numpy())


def stride_hz(rows: np.ndarray) -> float:
    """Strides per second of one leg; 0 where the thighs do not swing."""
    left, right = (rows[:, 7 + g1.joint_index(f"{side}_hip_pitch")] for side in SIDES)
    swing = (left - right) - (left - right).mean()
    if swing.std() < 0.05:
        return 0.0
    size = 8 * len(swing)
    power = np.abs(np.fft.rfft(swing * np.hanning(len(swing)), size))
    hz = np.fft.rfftfreq(size, 1 / FPS)
    power[(hz < 0.3) | (hz > 4.0)] = 0.0
    return float(hz[power.argmax()])


def groups(effects: np.ndarray, alike: float = 0.7) -> np.ndarray:
    """(n,) group of each effect (n, m): those with an absolute correlation of at least
    `alike` with the strongest of the group."""
    unit = effects / np.linalg.norm(effects, axis=1, keepdims=True).clip(1e-12)
    found = np.full(len(effects), -1)
    heads: list[int] = []
    for i in np.argsort(-np.linalg.norm(effects, axis=1)):
        near = [g for g, head in enumerate(heads) if abs(unit[i] @ unit[head]) >= alike]
        found[i] = near[0] if near else len(heads)
        if not near:
            heads.append(i)
    return found

"""The record of a run: where robots were, and where they should have been.

Row t of robot and reference is the state after t control steps and the reference frame
of the same time; row 0 is the start. All metrics are computed from records. Their
arrays are NumPy arrays or, after a batched run, tensors on any device.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.robot import g1

VERSION = 3
QVEL_SIZE = g1.QPOS_SIZE - 1
FALL_M = 0.40
"""Height of the pelvis below which a robot has fallen, unless its base goes lower.

Bases below 0.60 m (a squat) have fallen at 0.22 m (`Base.fall_m`), as has what is
planned at the desk where a bundle has such a base. The planner's episodes use 0.35 m,
the drive benchmark 0.30 m, the robot simulator 0.45 m or a tilt of 0.8 rad. Tracking
metrics compare with a reference instead (`control/metrics.py`).
"""
Array = Any
"""NumPy array or tensor."""
_PER_STEP = ("robot", "robot_velocity", "reference", "actions", "skills")
_ARRAYS = (*_PER_STEP, "lengths")


@dataclass(frozen=True)
class Rollout:
    """T control steps of n robots."""

    robot: Array
    """(T + 1, n, 36) poses; not a number where the simulation broke."""
    names: tuple[str, ...]
    """(n,) names of the clips or bases."""
    lengths: Array
    """(n,) number of rows that count; in later ones the robot's clip is over."""
    reference: Array = None
    """(T + 1, n, 36) poses, or None where robots follow skills alone."""
    robot_velocity: Array = None
    """(T + 1, n, 35) velocities in MuJoCo's convention."""
    actions: Array = None
    """(T, n, 29)"""
    skills: Array = None
    """(T, n, s) what commands were made of."""
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Further columns, such as the amplitudes and the events of a take."""
    fps: float = float(g1.CONTROL_HZ)
    reach: float = 1.0
    """That of the controller, which says what targets its actions became."""

    def __post_init__(self):
        rows, n = self.robot.shape[:2]
        expected = {
            "robot": (rows, n, g1.QPOS_SIZE),
            "robot_velocity": (rows, n, None),
            "reference": (rows, n, g1.QPOS_SIZE),
            "actions": (rows - 1, n, None),
            "skills": (rows - 1, n, None),
            "lengths": (n,),
        }
        for name, wanted in expected.items():
            if (values := getattr(self, name)) is None:
                continue
            shape = tuple(values.shape)
            if len(shape) != len(wanted) or any(
                want not in (None, have)
                for have, want in zip(shape, wanted, strict=True)
            ):
                raise ValueError(f"{name} has shape {shape}, must be {wanted}")
        if len(self.names) != n:
            raise ValueError(f"{len(self.names)} names for {n} robots")

    @classmethod
    def of_rows(
        cls,
        name: str,
        robot: np.ndarray,
        reference: np.ndarray | None = None,
        skills: np.ndarray | None = None,
        extra: Mapping[str, np.ndarray] | None = None,
    ) -> "Rollout":
        """The record of one robot, from arrays without the axis of robots."""

        def one(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else np.asarray(values)[:, None]

        return cls(
            robot=one(robot),
            names=(name,),
            lengths=np.array([len(robot)]),
            reference=one(reference),
            skills=one(skills),
            extra=extra or {},
        )

    @property
    def count(self) -> int:
        return self.robot.shape[1]

    @property
    def steps(self) -> int:
        return self.robot.shape[0] - 1

    @property
    def seconds(self) -> float:
        return self.steps / self.fps

    def select(self, robots: Sequence[int] | slice) -> "Rollout":
        """The record of some robots."""
        where = list(range(self.count)[robots] if isinstance(robots, slice) else robots)
        changes = self._each(_PER_STEP, lambda values: values[:, where])
        names = tuple(self.names[i] for i in where)
        return replace(self, **changes, lengths=self.lengths[where], names=names)

    def first(self, frames: int) -> "Rollout":
        """The record of the first frames, including the start."""
        rows = min(frames, len(self.robot))
        if rows < 1:
            raise ValueError(f"the first {frames} frames of a record, must be above 0")
        changes = self._each(
            _PER_STEP, lambda values: values[: rows - (len(values) == self.steps)]
        )
        return replace(self, **changes, lengths=self.lengths.clip(max=rows))

    def numpy(self) -> "Rollout":
        """The same record in NumPy arrays."""
        return replace(
            self,
            **self._each(
                _ARRAYS, lambda v: v.cpu().numpy() if hasattr(v, "cpu") else v
            ),
        )

    def tensors(self) -> "Rollout":
        """The same record in tensors; poses in single precision."""
        import torch

        def tensor(values: Array) -> Array:
            found = torch.as_tensor(values)
            return found.float() if found.is_floating_point() else found

        return replace(self, **self._each(_ARRAYS, tensor))

    def _each(self, names: Sequence[str], change: Callable[[Array], Array]) -> dict:
        values = {name: getattr(self, name) for name in names}
        return {n: change(v) for n, v in values.items() if v is not None}

    def save(self, path: Path) -> None:
        """Write a .npz file without pickles."""
        file = io.BytesIO()
        np.savez_compressed(
            file,
            allow_pickle=False,
            version=np.array(VERSION),
            names=np.array(self.names, dtype=np.str_),
            fps=np.array(self.fps, dtype=np.float64),
            reach=np.array(self.reach, dtype=np.float64),
            **self.numpy()._each(_ARRAYS, np.asarray),
            **{f"extra.{name}": values for name, values in self.extra.items()},
        )
        write_file(path, file.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Rollout":
        try:
            # Opened here because NumPy would leave a damaged file open.
            with path.open("rb") as file:
                if not is_zipfile(file):
                    raise ValueError("no .npz file, or a damaged one")
                file.seek(0)
                arrays = dict(np.load(file, allow_pickle=False))
            version = int(arrays.pop("version"))
            if version > VERSION:
                raise ValueError(
                    f"version {version} is newer than this package understands "
                    f"({VERSION}); upgrade spectral-skills"
                )
            names = tuple(arrays.pop("names").tolist())
            fps = float(arrays.pop("fps"))
            reach = float(arrays.pop("reach", 1.0))  # until version 2 all had this one
            extra = {n: arrays.pop(n) for n in list(arrays) if n.startswith("extra.")}
            # Files of version 1 have arrays of width 0 for what was not recorded.
            kept = {n: v for n, v in arrays.items() if n == "lengths" or v.size}
            extra = {name.removeprefix("extra."): v for name, v in extra.items()}
            return cls(names=names, fps=fps, reach=reach, extra=extra, **kept)
        except (ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
            raise ValueError(f"{path}: not a rollout ({error})") from error


def fallen(rows: Array, limit_m: float = FALL_M) -> Array:
    """(...) whether the pelvis of rows (..., 36) is below a height or not a number."""
    return ~(rows[..., 2] >= limit_m)


def fell_at(rows: Array, limit_m: float = FALL_M) -> int | None:
    """First of the rows (T, 36) of one robot at which it has fallen; None: never."""
    down = np.flatnonzero(fallen(rows, limit_m))
    return int(down[0]) if len(down) else None

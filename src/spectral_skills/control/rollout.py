"""The record of a run: where robots were, and where they should have been.

Row t of robot and reference is the state after t control steps and the reference frame
of that same moment; row 0 is the start. This pairing is made in `control/run.py` and
nowhere else; all metrics are computed from records.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from spectral_skills.atomic import write_file
from spectral_skills.robot import g1

VERSION = 1
QVEL_SIZE = g1.QPOS_SIZE - 1


@dataclass(frozen=True)
class Track:
    """What robots should follow, from the frame they start at."""

    rows: Tensor
    """(T + 1, n, 36); a clip that is over stays at its last frame."""
    lengths: Tensor
    """(n,) frames that count, at most T + 1."""
    names: tuple[str, ...]


@dataclass(frozen=True)
class Rollout:
    """T control steps of n robots, on any device."""

    robot: Tensor
    """(T + 1, n, 36); not a number where the simulation broke."""
    robot_velocity: Tensor
    """(T + 1, n, 35) as MuJoCo counts; width 0 where it was not kept."""
    reference: Tensor | None
    """(T + 1, n, 36), or None where robots follow skills alone."""
    lengths: Tensor
    """(n,) rows that count; what follows is a robot whose clip is over."""
    actions: Tensor
    """(T, n, 29); width 0 where it was not kept."""
    skills: Tensor
    """(T, n, s) what commands were made of; width 0 where it was not kept."""
    names: tuple[str, ...]
    """(n,) of the clips."""
    fps: float = float(g1.CONTROL_HZ)

    def __post_init__(self):
        rows, n = self.robot.shape[:2]
        shapes = {
            "robot": (rows, n, g1.QPOS_SIZE),
            "robot_velocity": (rows, n, None),
            "reference": (rows, n, g1.QPOS_SIZE),
            "lengths": (n,),
            "actions": (rows - 1, n, None),
            "skills": (rows - 1, n, None),
        }
        for name, expected in shapes.items():
            values = getattr(self, name)
            if values is None:
                continue
            shape = tuple(values.shape)
            fits = len(shape) == len(expected) and all(
                want in (None, have) for have, want in zip(shape, expected, strict=True)
            )
            if not fits:
                raise ValueError(f"{name} has shape {shape}, must be {expected}")
        if len(self.names) != n:
            raise ValueError(f"{len(self.names)} names for {n} robots")

    @classmethod
    def of_rows(
        cls, name: str, robot: np.ndarray, reference: np.ndarray | None = None
    ) -> "Rollout":
        """Poses (T + 1, 36) of one robot, and where they should have been."""
        rows = len(robot)

        def one(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.asarray(values, np.float32))[:, None]

        return cls(
            robot=one(robot),
            robot_velocity=torch.empty((rows, 1, 0)),
            reference=None if reference is None else one(reference),
            lengths=torch.tensor([rows]),
            actions=torch.empty((rows - 1, 1, 0)),
            skills=torch.empty((rows - 1, 1, 0)),
            names=(name,),
        )

    @property
    def count(self) -> int:
        return self.robot.shape[1]

    @property
    def steps(self) -> int:
        return self.robot.shape[0] - 1

    def select(self, robots: Sequence[int] | slice) -> "Rollout":
        """The record of some robots."""
        where = range(self.count)[robots] if isinstance(robots, slice) else robots
        index = torch.as_tensor(list(where), device=self.robot.device)
        return replace(
            self,
            robot=self.robot[:, index],
            robot_velocity=self.robot_velocity[:, index],
            reference=None if self.reference is None else self.reference[:, index],
            lengths=self.lengths[index],
            actions=self.actions[:, index],
            skills=self.skills[:, index],
            names=tuple(self.names[i] for i in where),
        )

    def first(self, frames: int) -> "Rollout":
        """The record of the first frames, the start included."""
        rows = min(frames, len(self.robot))
        if rows < 1:
            raise ValueError(f"the first {frames} frames of a record, must be above 0")
        reference = None if self.reference is None else self.reference[:rows]
        return replace(
            self,
            robot=self.robot[:rows],
            robot_velocity=self.robot_velocity[:rows],
            reference=reference,
            lengths=self.lengths.clamp_max(rows),
            actions=self.actions[: rows - 1],
            skills=self.skills[: rows - 1],
        )

    def save(self, path: Path) -> None:
        """Write as .npz, without pickle."""
        arrays = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                arrays[field.name] = value.cpu().numpy()
        file = io.BytesIO()
        np.savez(
            file,
            allow_pickle=False,
            version=np.array(VERSION),
            names=np.array(self.names, dtype=np.str_),
            fps=np.array(self.fps, dtype=np.float64),
            **arrays,
        )
        write_file(path, file.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Rollout":
        """Read a record."""
        try:
            # Opened here: numpy would leave a damaged file open.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
            version = int(arrays.pop("version"))
            if version > VERSION:
                raise ValueError(
                    f"version {version} is newer than this package understands "
                    f"({VERSION}); upgrade spectral-skills"
                )
            names = tuple(arrays.pop("names").tolist())
            fps = float(arrays.pop("fps"))
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            reference = tensors.pop("reference", None)
            return cls(names=names, fps=fps, reference=reference, **tensors)
        except (ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
            raise ValueError(f"{path}: not a rollout ({error})") from error

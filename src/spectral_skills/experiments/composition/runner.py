"""Where runs are made: many at once, each kept on disk once it is done.

Everything that decides a run's outcome is in the name of its record, so an interrupted
experiment goes on where it was.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.experiments.composition.batch import Run, together
from spectral_skills.experiments.effects import fell
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import STEPS, Base
from spectral_skills.results import Result, hardware
from spectral_skills.tracking.policy import Controller

_ROBOTS = {"cpu": 16, "cuda": 4096}
"""At once, by kind of device."""


@dataclass(frozen=True)
class Executed:
    """What became of a run."""

    run: Run
    rows: np.ndarray
    """(T + 1, 36)"""

    @property
    def fell_at(self) -> int | None:
        return fell(self.rows, self.run.base.fall_m)

    @property
    def stands(self) -> bool:
        return self.fell_at is None


class Runner:
    """A controller, on a device."""

    commands = ""
    """Kind of commands that it must follow; any by default."""

    def __init__(
        self,
        controller: Controller,
        device: str = "cpu",
        records: Path | None = None,
        robots: int | None = None,
    ):
        """`records` is where runs are kept; `robots` how many run at once."""
        kind = controller.config.command.kind
        if self.commands not in ("", kind):
            raise ValueError(
                f"this needs a controller of {self.commands} commands, not of {kind!r}"
            )
        self.controller, self.device = controller, torch.device(device)
        self.records = records
        self.robots = robots or _ROBOTS[self.device.type]
        self._weights = _fingerprint(controller)
        self._bases: dict[tuple[str, int], Base] = {}

    def base(self, name: str, steps: int = STEPS) -> Base:
        """A generated base."""
        key = name, steps
        if key not in self._bases:
            self._bases[key] = bases.generate(name, steps)
        return self._bases[key]

    def cell(
        self,
        experiment: str,
        row: str,
        metric: str,
        value: float,
        unit: str = "",
        n: int = 1,
        paper: str = "",
        seed: int = 0,
    ) -> Result:
        """A number of an experiment's table, traced to controller and command."""
        return Result(
            *(f"Composition: {experiment}", row, metric, float(value), unit, n, seed),
            run=self._weights[:8],
            paper=paper,
            command=f"spectral evaluate composition {experiment}",
            hardware=hardware(str(self.device)),
        )

    def execute(self, runs: Sequence[Run], told: str = "runs") -> list[Executed]:
        """All runs, in their order; those that were made before are read."""
        found: dict[int, np.ndarray] = {}
        for i, one in enumerate(runs):
            if (rows := self._read(one)) is not None:
                found[i] = rows
        todo = [i for i in range(len(runs)) if i not in found]
        # Alike in seed and length, so that few wait for others.
        todo.sort(key=lambda i: (str(runs[i].seed), -len(runs[i].skills)))
        bar = tqdm(
            total=len(runs), initial=len(found), desc=told, unit=" runs", disable=None
        )
        with bar:
            while todo:
                seed = runs[todo[0]].seed
                batch = [i for i in todo[: self.robots] if runs[i].seed == seed]
                todo = todo[len(batch) :]
                rows = together(self.controller, [runs[i] for i in batch], self.device)
                for i, made in zip(batch, rows, strict=True):
                    found[i] = made
                    self._write(runs[i], made)
                bar.update(len(batch))
        return [Executed(one, found[i]) for i, one in enumerate(runs)]

    def record(self, one: Run) -> Path | None:
        """Where a run is kept."""
        if self.records is None:
            return None
        digest = hashlib.blake2b(self._weights.encode(), digest_size=8)
        # Of a base that is not followed only the start decides.
        seen = one.base.rows[: None if one.follows else 2]
        parts = (seen, one.skills, one.action, one.servo)
        for part in (*parts, *(one.push or ())):
            digest.update(
                repr(None).encode() if part is None else np.asarray(part).tobytes()
            )
        digest.update(f"{one.seed} {self.device.type}".encode())
        name = "".join(c if c.isalnum() or c in "+-._" else "_" for c in one.name)
        return self.records / f"{one.base.name}-{name}-{digest.hexdigest()}.npz"

    def _read(self, one: Run) -> np.ndarray | None:
        path = self.record(one)
        if path is None or not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                return file["rows"]
        except (OSError, ValueError, KeyError):
            return None  # damaged: made again

    def _write(self, one: Run, rows: np.ndarray) -> None:
        path = self.record(one)
        if path is not None:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, rows=rows)
            write_file(path, buffer.getvalue())


def _fingerprint(controller: Controller) -> str:
    """Names the weights that decide what a robot does."""
    digest = hashlib.blake2b(digest_size=8)
    for value in controller.state_dict().values():
        digest.update(value.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()

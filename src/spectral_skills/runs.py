"""What a training run writes, so that it can be followed, killed and continued.

config.json     the whole configuration
log.jsonl       one line for every evaluation
curves.png      the same as a picture
tensorboard/    the same for TensorBoard
checkpoint/     everything needed to go on
model/          the model: a skill space, or a controller
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from spectral_skills import artifact, distributed
from spectral_skills import config as configs
from spectral_skills.artifact import Provenance
from spectral_skills.atomic import replacing_folder, write_file


class RunFolder:
    """A folder that belongs to one configuration.

    Runs are counted in `counter`, a key of every line of the log. Fields that
    `may_change` may be others when the run goes on, such as its length; those of
    `amounts` too, unless they were None or become None.
    """

    def __init__(
        self,
        path: Path,
        config: Any,
        data_hash: str,
        about: dict[str, str],
        writes: bool = True,
        counter: str = "update",
        may_change: Sequence[str] = (),
        amounts: Sequence[str] = (),
    ):
        self.path, self.config, self.writes = path, config, writes
        self.counter, self.may_change, self.amounts = counter, may_change, amounts
        self.log_path, self.model_folder = path / "log.jsonl", path / "model"
        self._writer = self._lock = None
        self._known = path / "config.json"
        values = {"config": configs.to_dict(config), "data": data_hash} | about
        self._text = json.dumps(values, indent=2) + "\n"
        # Looked at once: another process may be about to begin. Hidden files are
        # those of a write that is not done, or never was.
        names = os.listdir(path) if path.exists() else []
        names = [name for name in names if not name.startswith(".")]
        if self._known.name in names:
            self._check_same(self._known, data_hash)
        elif names:
            raise ValueError(
                f"{path}: not empty, and no training run; choose another folder"
            )

    def _check_same(self, known: Path, data_hash: str) -> None:
        if not (self.path / "checkpoint").exists():
            return  # it never came to anything
        stored = read_about(self.path)
        old = configs.from_dict(type(self.config), stored["config"], str(known))
        now = {name: getattr(self.config, name) for name in self.may_change}
        for name in self.amounts:
            if None not in (getattr(old, name), getattr(self.config, name)):
                now[name] = getattr(self.config, name)
        old = replace(old, **now)
        different = [
            name
            for name, value in vars(old).items()
            if value != getattr(self.config, name)
        ]
        if stored["data"] != data_hash:
            different.append("corpus")
        if different:
            raise ValueError(
                f"{self.path}: holds a run with another {', '.join(different)}; "
                "choose another folder for this one"
            )

    def claim(self) -> None:
        """Keep other processes out, before anything is read that they could change."""
        if not self.writes:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{self.path}: another process trains here") from None

    def load_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and plain values of the last checkpoint, if there is one."""
        from safetensors.torch import load_file

        folder = self.path / "checkpoint"
        if not folder.exists():
            return None
        try:
            values = configs.parse((folder / "state.json").read_text(), str(folder))
            return load_file(folder / "state.safetensors"), values
        except (SafetensorError, OSError, ValueError) as error:
            raise ValueError(
                f"{folder}: damaged ({error}); without this folder the run begins anew"
            ) from error

    def save_checkpoint(
        self, tensors: dict[str, Tensor], values: dict[str, Any]
    ) -> None:
        """Write a checkpoint in the place of the last one."""
        from safetensors.torch import save_file

        if not self.writes:
            return
        with replacing_folder(self.path / "checkpoint") as folder:
            flat = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
            try:
                save_file(flat, folder / "state.safetensors")
            except SafetensorError as error:
                raise OSError(
                    f"{self.path}: no checkpoint written ({error})"
                ) from error
            (folder / "state.json").write_text(json.dumps(values, indent=2) + "\n")

    def save_model(
        self, config: Any, weights: dict[str, Tensor], provenance: Provenance
    ) -> None:
        """Write the model in the place of the last one."""
        if self.writes:
            artifact.save(self.model_folder, config, weights, provenance)

    def begin_log(self, done: int, goes_on: bool) -> None:
        """Forget what was logged later than `done`: it will come again.

        A run that does not go on keeps its record of what was done before.
        """
        if not self.writes:
            return
        for left in self.path.glob(".*-*"):  # by a run that was killed
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        if goes_on:
            write_file(self._known, self._text)
        rows = [row for row in self.read_log() if row[self.counter] <= done]
        write_file(self.log_path, "".join(json.dumps(row) + "\n" for row in rows))
        from torch.utils.tensorboard import SummaryWriter

        place = self.path / "tensorboard"
        if done == 0:
            shutil.rmtree(place, ignore_errors=True)
        self._writer = SummaryWriter(str(place), purge_step=done + 1)

    def log(self, row: dict[str, Any]) -> None:
        """Add one line, here and to TensorBoard."""
        if self._writer is None:
            return
        with self.log_path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        done = row[self.counter]
        for name, value in row.items():
            if isinstance(value, list | tuple):
                for i, part in enumerate(value):
                    self._writer.add_scalar(f"{name}/{i}", part, done)
            elif name != self.counter:
                self._writer.add_scalar(name, value, done)
        self._writer.flush()

    def read_log(self) -> list[dict[str, Any]]:
        """All lines so far; a last one that was cut off is left away."""
        return read_log(self.path)

    def close(self) -> None:
        """Let go of open files."""
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            (self.path / ".lock").unlink(missing_ok=True)
            self._lock.close()
            with suppress(OSError):  # as it was, if nothing came of it
                self.path.rmdir()


@contextmanager
def between_steps() -> Iterator[Callable[[], bool]]:
    """Let an interrupt wait for the end of a step; gives whether there was one.

    A second one does not wait. Several processes would not stop at the same step:
    there it ends the run as usual, and the last checkpoint stays.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or distributed.world_size() > 1:
        yield lambda: False
        return
    asked: list[int] = []

    def ask(number: int, _) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        print("stopping after this step", file=sys.stderr)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def read_about(run: Path) -> dict[str, Any]:
    """Configuration, data, command and hardware of a run folder."""
    path = run / "config.json"
    if not path.is_file():
        raise ValueError(f"{run}: no training run here (config.json is missing)")
    about = configs.parse(path.read_text(), str(path))
    if not isinstance(about, dict) or not {"config", "data"} <= set(about):
        raise ValueError(f"{path}: damaged, it does not say config and data")
    return about


def read_log(run: Path) -> list[dict[str, Any]]:
    """Evaluations of a run folder."""
    path = run / "log.jsonl"
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break  # killed while writing
    return rows


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as named tensors."""
    return {
        f"optimizer.{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
    whole = optimizer.state_dict() | {"state": state}
    optimizer.load_state_dict(whole)

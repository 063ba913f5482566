"""The folder of a training run; `training.py` has the loop that fills it.

    config.json     configuration, data hash, command, hardware and versions
    log.jsonl       one line for every report
    curves.png      the log as a picture
    tensorboard/    the log for TensorBoard
    checkpoint/     everything needed to continue
    model/          the trained model

A run can be watched, killed at any time and continued from its last checkpoint.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from spectral_skills import artifact
from spectral_skills import config as configs
from spectral_skills.artifact import Provenance
from spectral_skills.atomic import replacing_folder, write_file


class RunFolder:
    """The folder of one run; as a context it is locked against other processes.

    Progress is counted in `counter`, a key of every line of the log. Fields named in
    `may_change` may differ when a run is continued, such as its length; so may those in
    `amounts`, unless they change from or to None.
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
        values["versions"] = artifact.installed_versions()
        self._text = json.dumps(values, indent=2) + "\n"
        # Listed once: another process may be about to begin. Hidden files belong to a
        # write that is unfinished or was abandoned.
        names = os.listdir(path) if path.exists() else []
        names = [name for name in names if not name.startswith(".")]
        if self._known.name in names:
            self._check_same(data_hash)
        elif names:
            raise ValueError(
                f"{path}: not empty, and no training run; choose another folder"
            )

    def _check_same(self, data_hash: str) -> None:
        if not (self.path / "checkpoint").exists():
            return  # the run ended before it saved anything
        stored = read_about(self.path)
        kind = type(self.config)
        old = configs.from_dict(kind, stored["config"], str(self._known))
        now = {name: getattr(self.config, name) for name in self.may_change}
        for name in self.amounts:
            if None not in (getattr(old, name), getattr(self.config, name)):
                now[name] = getattr(self.config, name)
        different = [
            name
            for name, value in vars(replace(old, **now)).items()
            if value != getattr(self.config, name)
        ]
        if stored["data"] != data_hash:
            different.append("corpus")
        if different:
            raise ValueError(
                f"{self.path}: holds a run with another {', '.join(different)}; "
                "choose another folder for this one"
            )

    def __enter__(self) -> "RunFolder":
        """Lock the folder before anything is read that another process could change."""
        if self.writes:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / ".lock").open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path}: another process trains here") from None
        return self

    def __exit__(self, *_) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            (self.path / ".lock").unlink(missing_ok=True)
            self._lock.close()
            with suppress(OSError):  # an empty folder need not stay
                self.path.rmdir()

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
        """Replace the last checkpoint."""
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
        """Replace the model."""
        if self.writes:
            artifact.save(self.model_folder, config, weights, provenance)

    def begin_log(self, done: int, continues: bool) -> None:
        """Drop log lines later than `done`, which will be written again.

        A run with nothing left to do keeps its old config.json.
        """
        if not self.writes:
            return
        for leftover in self.path.glob(".*-*"):  # from a run that was killed
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        if continues:
            write_file(self._known, self._text)
        rows = [row for row in read_log(self.path) if row[self.counter] <= done]
        write_file(self.log_path, "".join(json.dumps(row) + "\n" for row in rows))
        from torch.utils.tensorboard import SummaryWriter

        place = self.path / "tensorboard"
        if done == 0:
            shutil.rmtree(place, ignore_errors=True)
        self._writer = SummaryWriter(str(place), purge_step=done + 1)

    def log(self, row: dict[str, Any]) -> None:
        """Append one line to the log, and its numbers to TensorBoard."""
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


def read_about(run: Path) -> dict[str, Any]:
    """Configuration, data hash, command and hardware of a run folder."""
    path = run / "config.json"
    if not path.is_file():
        raise ValueError(f"{run}: no training run here (config.json is missing)")
    about = configs.parse(path.read_text(), str(path))
    if not isinstance(about, dict) or not {"config", "data"} <= set(about):
        raise ValueError(f"{path}: damaged, it has no config and data")
    return about


def read_log(run: Path) -> list[dict[str, Any]]:
    """Lines of a run folder's log, without one that was cut off by a kill."""
    path = run / "log.jsonl"
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors."""
    return {
        f"optimizer.{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Restore what `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with a prefix, under names without it."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}

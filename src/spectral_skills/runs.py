"""A training run: its folder, and the loop that skill models, controllers and planners
share.

    config.json     configuration, data hash, command, hardware and versions
    log.jsonl       one line for every report
    curves.png      the log as a picture
    tensorboard/    the log for TensorBoard
    checkpoint/     everything needed to continue
    model/          the trained model

A run can be watched, killed at any time and continued from its last checkpoint. A `Job`
trains one step at a time; `train` calls it, shows progress, logs its reports, saves
checkpoints and handles interrupts and time limits.
"""

import fcntl
import json
import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from spectral_skills import artifact, distributed
from spectral_skills import config as configs
from spectral_skills.artifact import Provenance
from spectral_skills.atomic import replacing_folder, write_file
from spectral_skills.results import hardware


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
        command: str,
        device: str,
        counter: str = "update",
        may_change: Sequence[str] = (),
        amounts: Sequence[str] = (),
    ):
        self.path, self.config = path, config
        self.writes = distributed.rank() == 0
        """Whether this process writes; all others only read."""
        self.counter, self.may_change, self.amounts = counter, may_change, amounts
        self.log_path, self.model_folder = path / "log.jsonl", path / "model"
        self._writer = self._lock = None
        self._known = path / "config.json"
        self.command = command
        """Commands that made the run, in their order."""
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
        values = {
            "config": configs.to_dict(config),
            "data": data_hash,
            "command": self.command,
            "hardware": hardware(device),
            "versions": artifact.installed_versions(),
        }
        self._text = json.dumps(values, indent=2) + "\n"

    def _check_same(self, data_hash: str) -> None:
        if not (self.path / "checkpoint").exists():
            return  # the run ended before it saved anything
        stored = read_about(self.path)
        old = configs.from_dict(type(self.config), stored["config"], str(self._known))
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
        before = stored.get("command", "")
        again = f"; {before}".endswith(f"; {self.command}")
        commands = (before, "" if again else self.command)
        self.command = "; ".join(filter(None, commands))

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
        if not self.writes:
            return
        with replacing_folder(self.path / "checkpoint") as folder:
            artifact.write_tensors(folder / "state.safetensors", tensors)
            (folder / "state.json").write_text(json.dumps(values, indent=2) + "\n")

    def save_model(
        self, config: Any, weights: dict[str, Tensor], provenance: Provenance
    ) -> None:
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


class LogEntry(NamedTuple):
    """What a run says about itself at one point."""

    row: dict[str, Any]
    line: str
    draw: bool = True
    """Whether the curves are worth drawing again."""


class Job(Protocol):
    """One kind of training, driven by `train`."""

    state: dict[str, Any]
    """Plain values of a checkpoint, among them the counter and `seconds`."""

    def step(self, until: float) -> None:
        """Train once and advance the counter; the run ends at `until` seconds."""

    def report(self, before: int, ended: bool) -> LogEntry | None:
        """A report if one is due; the counter was `before` a step ago."""

    def save(self) -> None:
        """Write model and checkpoint."""

    def stopped(self) -> str:
        """Why training should end early, or an empty string."""
        return ""


def crossed(before: int, now: int, every: int) -> bool:
    """Whether a counter has passed a multiple of `every`."""
    return before // every != now // every


def train(
    run: RunFolder,
    job: Job,
    total: int,
    checkpoint_every: int,
    minutes: float | None = None,
    watch: Callable[[Path], None] = lambda run: None,
) -> None:
    """Call `job.step` until the counter reaches `total` or the time is up.

    The first interrupt ends the run after its step and a checkpoint. `watch` is called
    with the folder when there is something new to draw.
    """
    state, counter, first = job.state, run.counter, run.writes
    began = time.monotonic() - state["seconds"]
    until = math.inf if minutes is None else state["seconds"] + 60 * minutes

    def over() -> bool:
        out_of_time = state["seconds"] >= until
        return state[counter] >= total or out_of_time or bool(job.stopped())

    run.begin_log(state[counter], continues=not over())
    bar = ProgressBar(counter, total, until, state, silent=not first)
    try:
        with between_steps() as interrupted:
            if over() and not job.stopped():
                done = f"{state[counter]:,} {counter.removesuffix('s')}s are done"
                bar.write(f"nothing left to do: {done}")
            ended = over()
            while not ended:
                before = state[counter]
                job.step(until)
                state["seconds"] = time.monotonic() - began
                if minutes is not None:  # clocks differ, and all must decide alike
                    state["seconds"] = distributed.of_first(state["seconds"])
                bar.show(state)
                report = job.report(before, over())
                if report is not None:
                    run.log(report.row)
                    bar.write(report.line)
                ended = over()  # a report may find that nothing improves any more
                # Asked once: a later interrupt waits for another step.
                stop = interrupted()
                saved = crossed(before, state[counter], checkpoint_every)
                saved = saved or ended or stop
                if saved:
                    job.save()
                if first and (saved or (report is not None and report.draw)):
                    watch(run.path)
                if stop:
                    raise KeyboardInterrupt
            if job.stopped():
                bar.write(job.stopped())
    finally:
        bar.bar.close()


class ProgressBar:
    """How far a run is: by its counter, or by time where that is limited."""

    def __init__(
        self,
        counter: str,
        total: int,
        until: float,
        state: dict[str, Any],
        silent: bool,
    ):
        self.counter, self.timed, self.silent = counter, until < math.inf, silent
        self.began = state[counter], state["seconds"]
        if self.timed:
            shape = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            options = {"total": until - state["seconds"], "bar_format": shape}
        else:
            unit = f" {counter.removesuffix('s')}s"
            options = {"total": total, "initial": state[counter], "unit": unit}
            options["unit_scale"] = True
        # disable=None: no bar where there is no terminal.
        self.bar = tqdm(**options, disable=silent or None)

    def show(self, state: dict[str, Any]) -> None:
        """Move to where the run is."""
        if self.bar.disable:
            return
        done, seconds = state[self.counter], state["seconds"] - self.began[1]
        if self.timed:
            rate = short((done - self.began[0]) / max(seconds, 1e-9))
            text = f"{short(done)} {self.counter}, {rate} a second"
            self.bar.set_postfix_str(text, refresh=False)
        # The last step may go beyond the end, which a bar cannot show.
        now = min(seconds if self.timed else done, self.bar.total)
        self.bar.update(now - self.bar.n)

    def write(self, text: str) -> None:
        """Print a line above the bar."""
        if not self.silent:
            tqdm.write(text)


def short(count: float) -> str:
    """A count with three digits and k, M or B."""
    for size, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f}"


@contextmanager
def between_steps() -> Iterator[Callable[[], bool]]:
    """Delay an interrupt, or a request to end, to the end of a step; yields whether
    there was one.

    A second one is not delayed. Several processes would not stop at the same step:
    there an interrupt ends the run at once, and the last checkpoint remains.
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

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, ask) for one in signals]
    try:
        yield lambda: bool(asked)
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)

"""The training loop that skill models, controllers and planners share.

A `Job` trains one step at a time; `train` calls it, shows progress, logs its reports,
saves checkpoints and handles interrupts and time limits.
"""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import distributed
from spectral_skills.runs import RunFolder


class Means:
    """Means of training figures since the last report, kept on the device."""

    def __init__(self, names: Sequence[str], device: torch.device):
        self.names, self.count = names, 0
        self.total = torch.zeros(len(names), device=device)
        self._bad = torch.full((), -1, device=device)

    def add(self, update: int, values: Sequence[Tensor]) -> None:
        """Add the figures of an update without waiting for the device."""
        row = torch.stack([value.detach().float() for value in values])
        broken = ~row.isfinite().all() & (self._bad < 0)
        self._bad = torch.where(broken, update, self._bad)
        self.total, self.count = self.total + row, self.count + 1

    def take(self) -> dict[str, float]:
        """Means by name over all processes; the next ones start from here."""
        total = distributed.all_reduce_sum(self.total) / distributed.world_size()
        values = (total / max(self.count, 1)).tolist()
        self.total, self.count = torch.zeros_like(self.total), 0
        return dict(zip(self.names, values, strict=True))

    def check(self, run: Path, explain: Callable[[int], str]) -> None:
        """Stop the run if a figure was not finite; `explain` says why, by update."""
        if (update := int(self._bad)) >= 0:
            raise ValueError(
                f"{run}: the loss of update {update:,} is not finite; "
                f"{explain(update)}. The last checkpoint is as it was"
            )

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"sums": self.total.tolist(), "count": self.count}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned, where a checkpoint has it."""
        if "sums" in state:
            self.total = torch.tensor(state["sums"]).to(self.total.device)
            self.count = state["count"]


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
        ...

    def report(self, before: int, ended: bool) -> LogEntry | None:
        """A report if one is due; the counter was `before` a step ago."""
        ...

    def save(self) -> None:
        """Write model and checkpoint."""
        ...

    def stopped(self) -> str:
        """Why training should end early, or an empty string."""
        ...


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
    state, counter, first = job.state, run.counter, distributed.rank() == 0
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
        bar.close()


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
        disable = silent or None  # None: no bar where there is no terminal
        if self.timed:
            self.bar = tqdm(
                total=until - state["seconds"],
                bar_format="{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}",
                disable=disable,
            )
        else:
            unit = f" {counter.removesuffix('s')}s"
            count = {"total": total, "initial": state[counter], "unit": unit}
            self.bar = tqdm(**count, unit_scale=True, disable=disable)

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

    def close(self) -> None:
        self.bar.close()


def short(count: float) -> str:
    """A count with three digits and k, M or B."""
    for size, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f}"


@contextmanager
def between_steps() -> Iterator[Callable[[], bool]]:
    """Delay an interrupt to the end of a step; yields whether there was one.

    A second interrupt is not delayed. Several processes would not stop at the same
    step: there an interrupt ends the run at once, and the last checkpoint remains.
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

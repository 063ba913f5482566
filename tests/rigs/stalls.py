"""Whether this machine stands still: one process for each core looks at the clock.

A core of a virtual machine is at times not there for tens of milliseconds. What a
program could have done about a fault in that time is nothing.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PERIOD_S = 0.001
_LATE_S = 0.002
"""What is noted."""
_QUIET_S = 0.010
"""Shorter ones than this there always are."""


class Stalls:
    """Notes when a core was not there; ends when left."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        cores = [str(core) for core in os.sched_getaffinity(0)]
        paths = [Path(self._folder.name) / core for core in cores]
        command = [sys.executable, __file__]
        self._watchmen = [
            subprocess.Popen([*command, path.name, str(path)]) for path in paths
        ]
        self._files = [path.open("a+") for path in paths]
        self._rests = ["" for _ in self._files]
        self._found: list[tuple[float, float]] = []
        """When each ended, and how long it was."""

    def __enter__(self) -> "Stalls":
        return self

    def __exit__(self, *_) -> None:
        for watchman in self._watchmen:
            watchman.kill()
            watchman.wait()
        for file in self._files:
            file.close()
        self._folder.cleanup()

    def longest_s(self, begin: float, end: float) -> float:
        """Of those that ended between two times of the monotonic clock."""
        for number, file in enumerate(self._files):
            # The last line may not be whole yet.
            *lines, self._rests[number] = (self._rests[number] + file.read()).split(";")
            for line in lines:
                when, late_s = line.split()
                self._found.append((float(when), float(late_s)))
        return max((s for when, s in self._found if begin <= when <= end), default=0.0)

    def await_quiet(self, quiet_s: float, patience_s: float) -> None:
        """Until all cores have been there for some time, or patience is at its end."""
        begun = now = time.monotonic()
        while now < begun + patience_s:
            if self.longest_s(now - quiet_s, now) < _QUIET_S:
                break
            time.sleep(0.1)
            now = time.monotonic()


def _watch(core: int, file: Path) -> None:
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError, AttributeError):
        # Before everything that is being watched.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(80))
    with file.open("ab", buffering=0) as noted:
        due, parent = time.monotonic(), os.getppid()
        while os.getppid() == parent:
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            now = time.monotonic()
            if now - due > _LATE_S:
                noted.write(f"{now} {now - due};".encode())
            due = max(due + _PERIOD_S, now)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), Path(sys.argv[2]))

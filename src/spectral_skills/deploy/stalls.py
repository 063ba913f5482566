"""Whether this machine stands still: one process for each core looks at the clock.

A core of a virtual machine is at times not there for tens of milliseconds. What a
program could have done about a fault in that time is nothing.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from spectral_skills.deploy.priority import come_first

_PERIOD_S = 0.001
_LATE_S = 0.002
"""What is noted."""


class Stalls:
    """Notes when a core was not there; ends when left."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        cores = [str(core) for core in os.sched_getaffinity(0)]
        self._files = [Path(self._folder.name) / core for core in cores]
        command = [sys.executable, "-m", __name__]
        self._watchmen = [
            subprocess.Popen([*command, file.name, str(file)]) for file in self._files
        ]

    def __enter__(self) -> "Stalls":
        return self

    def __exit__(self, *_) -> None:
        for watchman in self._watchmen:
            watchman.kill()
            watchman.wait()
        self._folder.cleanup()

    def longest_s(self, begin: float, end: float) -> float:
        """Of those that ended between two times of the monotonic clock."""
        found = [0.0]
        for file in self._files:
            for line in file.read_text().splitlines() if file.exists() else ():
                when, late_s = (float(word) for word in line.split())
                if begin <= when <= end:
                    found.append(late_s)
        return max(found)


def _watch(core: int, file: Path) -> None:
    os.sched_setaffinity(0, {core})
    come_first(80)  # before everything that is being watched
    with file.open("w", buffering=1) as noted:
        due = time.monotonic()
        while True:
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            now = time.monotonic()
            if now - due > _LATE_S:
                noted.write(f"{now} {now - due}\n")
            due = max(due + _PERIOD_S, now)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), Path(sys.argv[2]))

"""A measured number, with everything needed to measure it again."""

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ELSEWHERE = ("--out", "--record")
"""Options that only say where output goes; they are no part of a recorded command."""


@dataclass(frozen=True)
class Result:
    """One cell of a table."""

    table: str
    row: str
    metric: str
    value: float
    unit: str = ""
    n: int = 1
    """Number of samples behind the value: frames, clips, repetitions."""
    seed: int = 0
    run: str = ""
    """Hash of the run or data behind the value; empty where there is none."""
    paper: str = ""
    """Value that the paper, or our goal, has for the same cell."""
    command: str = ""
    """Command line that measures the value again, with its options."""
    hardware: str = ""
    models: str = ""
    """Hashes of the models and corpora that were used; see `model_hashes`."""


_command = ""


def set_command(words: Sequence[str]) -> None:
    """Remember the command line that is running; the command line calls this once."""
    global _command
    kept: list[str] = []
    skipping = False
    for word in words:
        if word.startswith("-"):
            skipping = word in _ELSEWHERE
            if skipping or word.split("=")[0] in _ELSEWHERE:
                continue
        elif skipping:
            skipping = False
            continue
        kept.append(word)
    _command = shlex.join(kept)


def current_command() -> str:
    """The command line that is running; empty in a program that uses the package."""
    return _command


def model_hashes(**hashes: str) -> str:
    """Names and hashes in one line, such as `controller 1f2e3d4c, corpus 3268f5c4`."""
    return ", ".join(f"{name} {value[:8]}" for name, value in hashes.items() if value)


def hardware(device: str) -> str:
    """Name of the processor that a measurement runs on."""
    import torch

    if torch.device(device).type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError("there is no CUDA device here; use --device cpu")
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        name = lines[0].split(":", 1)[1].strip() if lines else name
    threads = torch.get_num_threads()
    return f"{name}, {threads} thread" + "s" * (threads != 1)

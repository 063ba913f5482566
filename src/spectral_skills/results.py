"""A measured number, with all that is needed to measure it again."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One cell of a table."""

    table: str
    row: str
    metric: str
    value: float
    unit: str = ""
    n: int = 1
    """Samples behind the value: frames, clips, repetitions."""
    seed: int = 0
    run: str = ""
    """Hash of the run or data behind the value; empty where there is none."""
    paper: str = ""
    """What the paper, or the goal, says about the same cell."""
    command: str = ""
    hardware: str = ""

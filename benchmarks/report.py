"""The command line that all benchmarks share: measure, print, record."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from spectral_skills.plots.tables import publish, show
from spectral_skills.results import Result, current_command, hardware, set_command

Measure = Callable[[str], list[Result]]


def stamped(results: Sequence[Result], device: str) -> list[Result]:
    """The results with the command that is running and the machine it runs on."""
    where, command = hardware(device), current_command()
    return [replace(r, command=command, hardware=where) for r in results]


def main(*measures: Measure) -> None:
    """Run one of the measurements and report what it found."""
    by_name = {measure.__name__: measure for measure in measures}
    module = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=module.__doc__)
    parser.add_argument("what", choices=by_name)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--record",
        type=Path,
        help="file of results to update; the page beside it is rewritten",
    )
    given = parser.parse_args()
    set_command(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    results = stamped(by_name[given.what](given.device), given.device)
    show(results)
    if given.record is not None:
        publish(results, given.record)

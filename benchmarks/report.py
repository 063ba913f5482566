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


def models_parser() -> argparse.ArgumentParser:
    """The options of a benchmark of a controller that its user names."""
    module = sys.modules["__main__"]
    parser = argparse.ArgumentParser(
        description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--controller", default="base", help="folder of a controller")
    parser.add_argument("--skill", default="base", help="folder of its skill model")
    parser.add_argument("--label", default="the release", help="name in tables")
    _add_record(parser)
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What was typed; results will have it as their command."""
    given = parser.parse_args()
    set_command(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    return given


def report(results: Sequence[Result], device: str, record: Path | None) -> None:
    """Print results, and record them if a file is named."""
    results = stamped(results, device)
    show(results)
    if record is not None:
        publish(results, record)


def main(*measures: Measure) -> None:
    """Run one of the measurements and report what it found."""
    by_name = {measure.__name__: measure for measure in measures}
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("what", choices=by_name)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    _add_record(parser)
    given = parsed(parser)
    report(by_name[given.what](given.device), given.device, given.record)


def _add_record(parser: argparse.ArgumentParser) -> None:
    words = "file of results to update; the page beside it is rewritten"
    parser.add_argument("--record", type=Path, help=words)

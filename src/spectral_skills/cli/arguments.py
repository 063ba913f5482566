"""Checks and endings that several verbs share; heavy imports happen inside."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectral_skills.models import BASE as BASE

if TYPE_CHECKING:
    from spectral_skills.artifact import Provenance

NOTHING_USABLE = 2
INTERRUPTED = 130
EMBEDDED = Path("embedded")
RECORDS = "records"
"""Folder under --out that keeps the runs of experiments."""


def check_file(out: Path, suffix: str) -> None:
    """Refuse a file that could not be written in the end."""
    if out.suffix != suffix:
        raise ValueError(f"{out}: name a file that ends in {suffix}")
    if out.is_dir():
        raise ValueError(f"{out}: a folder; name a file in it")
    check_folder(out.parent)


def check_folder(out: Path | None) -> None:
    """Refuse a folder that could not be made in the end."""
    if out is None:
        return
    whole = out.absolute()
    if (above := next(p for p in (whole, *whole.parents) if p.exists())).is_file():
        raise ValueError(f"{above}: a file; name a folder")


def check_length(option: str, seconds: float | None) -> None:
    """Refuse a length that is not above zero; None is no length."""
    if seconds is not None and not seconds > 0:
        raise ValueError(f"{option} is {seconds}, must be above 0")


def refuse_overlap(target: Path, other: Path) -> None:
    """Refuse to write a folder over, into or around another."""
    one, two = target.resolve(), other.resolve()
    if one == two or one in two.parents or two in one.parents:
        raise ValueError(f"{target}: inside or around {other}; choose another folder")


def check_training(corpus: list[Path], out: Path, release: Path | None) -> None:
    """Refuse folders that training could not read or write in the end."""
    from spectral_skills.artifact import refuse_foreign

    if not corpus:
        raise ValueError("--corpus needs a folder; `embedded` is made on first use")
    check_folder(out)
    if release is not None:
        for folder in (out, *corpus):
            refuse_overlap(release, folder)
        refuse_foreign(release)


def run_training(
    train: Callable[[], Any],
    out: Path,
    release: Path | None,
    write: "Callable[[Any, Path, Provenance], None] | None" = None,
) -> int:
    """Train to the end or to an interrupt, and print where everything is.

    `write` releases a model that needs more for it than its provenance.
    """
    from spectral_skills import distributed
    from spectral_skills.artifact import load_provenance

    try:
        model = train()
    except KeyboardInterrupt:
        saved = (out / "checkpoint").exists()
        state = "the same command continues it" if saved else "nothing was saved"
        print(f"stopped; {state}", file=sys.stderr)
        return INTERRUPTED
    if distributed.rank() == 0:
        print(f"model     {out / 'model'}")
        print(f"curves    {out / 'curves.png'}")
        if release is not None:
            write = write or type(model).release
            write(model, release, load_provenance(out / "model"))
            print(f"release   {release}")
    distributed.leave()
    return 0


def finish(findings, controller: Path, out: Path, record: Path | None) -> None:
    """Write findings, print their numbers and add them to the file `record`."""
    from dataclasses import replace

    from spectral_skills.artifact import load_provenance
    from spectral_skills.plots.tables import publish, show
    from spectral_skills.tracking.policy import KIND

    made = load_provenance(controller, KIND)
    trained = f"{made.frames / 1e6:,.0f} M frames, data {made.data_hash[:8]}"
    path = replace(findings, model=f"{trained}, {made.command}").save(out)
    show(list(findings.results))
    print(f"findings  {path}")
    if record is not None:
        publish(list(findings.results), record)

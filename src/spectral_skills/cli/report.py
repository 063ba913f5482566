"""Verbs that report: a page of findings, results of training, the card of a release.

Each verb imports what it needs when it runs.
"""

from pathlib import Path

from spectral_skills import api
from spectral_skills.cli.arguments import check_folder


def report(results: list[Path], /, *, out: Path, films: bool = True) -> None:
    """Make one page of what experiments have found: tables, charts, films.

    Args:
        results: Folders that `spectral evaluate composition`, `chaining` and
            `planning` wrote.
        out: Folder for the page, index.html; it needs no other file.
        films: Draw the films too; they take most of the time.
    """
    from spectral_skills.plots.page import findings_page

    check_folder(out)
    print(f"page      {findings_page(results, out, films)}")


def report_skill(
    *, run: Path, label: str, directions: Path | None = None, record: Path
) -> None:
    """Add what a pretraining run reached to a file of results.

    Args:
        run: Folder of the run.
        label: Name of the corpus in the tables.
        directions: Its direction file, if there is one.
    """
    from spectral_skills.experiments.skills import skill_space_results
    from spectral_skills.plots.tables import publish, show
    from spectral_skills.spectral.direction_file import Directions

    found = None if directions is None else Directions.load(directions)
    results = skill_space_results(run, found, label)
    show(results)
    publish(results, record)


def report_tracking(*, run: Path, label: str, record: Path) -> None:
    """Add what a training run of a controller reached to a file of results.

    Args:
        run: Folder of the run.
        label: Name of the corpus in the tables.
    """
    from spectral_skills.experiments.skills import tracking_results
    from spectral_skills.plots.tables import publish, show

    results = tracking_results(run, label)
    show(results)
    publish(results, record)


def report_card(
    folder: Path,
    /,
    *,
    corpus: list[Path] | None = None,
    held_out: float = 0.05,
    results: Path,
) -> None:
    """Write the card of a release: data, models, numbers and limits.

    Args:
        folder: Folder of the release: skill, controller, planner and directions.
        corpus: Folders of the corpora that the models were trained on, where they are
            at hand; what they are is kept in the release (data.json).
        held_out: Share, or number, of the clips of each that were not trained on.
        results: File of results (.jsonl), of which the card shows those of the release.
    """
    from spectral_skills.plots.card import write_card, write_data

    if not (folder / "controller").is_dir():
        raise ValueError(f"{folder}: no controller here, so this is no release")
    if corpus:
        folders = [api.corpus_folder(one) for one in corpus]
        print(f"data      {write_data(folder, folders, held_out)}")
    print(f"card      {write_card(folder, results)}")

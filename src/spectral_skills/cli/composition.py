"""Verbs about composition. Each imports what it needs when it runs."""

from pathlib import Path
from typing import Literal

from spectral_skills.cli.shared import check_file, device_or_best, open_corpora

Experiment = Literal[
    "catalogue",
    "dose",
    "additivity",
    "ladder",
    "transfer",
    "pass_rates",
    "alternatives",
    "hands",
    "unseen",
]
_DIRECTIONS = Path("base")


def evaluate_composition(
    experiment: Experiment,
    /,
    *,
    controller: Path = Path("base"),
    skill: Path = Path("base"),
    directions: Path = _DIRECTIONS,
    seeds: list[int] | None = None,
    bases: list[str] | None = None,
    device: str | None = None,
    out: Path,
    record: Path | None = None,
    release: Path | None = None,
    fsq: tuple[Path, Path] | None = None,
) -> None:
    """Steer a frozen controller and measure what comes of it: the paper's experiments.

    Runs are kept in OUT/records: what is there is not run again, so an interrupted
    experiment goes on. `spectral report OUT --out PAGE` makes a page of all findings.

    Args:
        experiment: Which of the experiments.
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        directions: File of `spectral directions`; `base` comes with the package.
        seeds: Randomised repeats, for the experiments that have them.
        bases: Of the catalogue: what is steered, `walk` by default; names are chosen
            on the first.
        device: cpu or cuda; cuda where there is one.
        out: Folder for findings (.json) and records.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
        release: Of the catalogue: also write the directions with what was measured
            of them here (.safetensors).
        fsq: Of pass_rates: a controller of FSQ tokens and its skill model, on which
            PCA and ridge directions are tried as well.
    """
    from importlib import import_module

    if release is not None:
        check_file(release, ".safetensors")
    for option, value, owner in (
        ("release", release, "catalogue"),
        ("bases", bases, "catalogue"),
        ("fsq", fsq, "pass_rates"),
    ):
        if value is not None and experiment != owner:
            raise ValueError(f"--{option} is for {owner}")
    room = "spectral_skills.experiments"
    lab = _lab(controller, skill, directions, device, out)
    run = import_module(f"{room}.{experiment}").experiment
    given: dict = {} if seeds is None else {"seeds": tuple(seeds)}
    if bases is not None:
        given["bases"] = tuple(bases)
    if fsq is not None:
        given["tokens"] = _token_lab(*fsq, device, out)
    finish(run(lab, **given), controller, out, record)
    if release is not None:
        _attach(lab.directions, out, release)


def evaluate_chaining(
    *,
    controller: Path = Path("base"),
    skill: Path = Path("base"),
    directions: Path = _DIRECTIONS,
    seeds: list[int] | None = None,
    device: str | None = None,
    out: Path,
    record: Path | None = None,
    fsq: tuple[Path, Path] | None = None,
    explicit: Path | None = None,
) -> None:
    """Switch from skill to skill without a transition policy, and measure the switches.

    Args:
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        directions: File of `spectral directions`; `base` comes with the package.
        seeds: Randomised repeats.
        device: cpu or cuda; cuda where there is one.
        out: Folder for findings (.json) and records.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
        fsq: A controller of FSQ tokens and its skill model, to compare with.
        explicit: A controller of poses, to compare with.
    """
    from spectral_skills.experiments.chaining import experiment

    lab = _lab(controller, skill, directions, device, out)
    others = {} if fsq is None else {"FSQ": _token_lab(*fsq, device, out)}
    poses = None if explicit is None else _explicit(explicit, device, out)
    found = experiment(lab, tuple(seeds or ()), others=others, explicit=poses)
    finish(found, controller, out, record)


def steer(
    *,
    base: str = "walk",
    direction: list[str] | None = None,
    amplitude: list[float] | None = None,
    at: list[float] | None = None,
    until: list[float] | None = None,
    seconds: float = 8.0,
    controller: Path = Path("base"),
    skill: Path = Path("base"),
    directions: Path = _DIRECTIONS,
    corpus: Path = Path("embedded"),
    seed: int | None = None,
    take: Path | None = None,
    bundle: Path | None = None,
    out: Path,
    film: bool = True,
    json: bool = False,
) -> None:
    """Add directions to a base skill, and see what the robot makes of it.

    With --take, run again what was recorded at the desk, and tell if it differs.

    Args:
        base: walk, jog, squat, carry, backward, stand, turn-left, turn-right, or the
            name of a clip.
        direction: Names of directions, such as `"right arm"` or `s03`.
        amplitude: How much of each, in skill units; 2 is a lot.
        at: When each is turned up, s; all at 0.8 by default.
        until: When each is released, s; all 0.8 before the end by default.
        seconds: Length of the run.
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        directions: File of `spectral directions`; `base` comes with the package.
        corpus: Folder of the corpus that clips are taken from and distances are
            measured to.
        seed: Of another friction, mass and start; nothing is random without it.
        take: File (.npz) that `spectral desk` recorded.
        bundle: Folder of the bundle that the desk had; the released models by default.
        out: Folder for the record (.npz), the picture and the film.
        film: Draw a film too; it takes longer than the simulation.
        json: Print everything as JSON and nothing else.
    """
    from spectral_skills.experiments import steer as one_run
    from spectral_skills.plots import steered_run

    if out.is_file():
        raise ValueError(f"{out}: a file; name a folder")
    if take is not None:
        if direction or amplitude:
            raise ValueError("--take or --direction, not both")
        return _replay(take, bundle, out, film, json)
    if not direction or not amplitude:
        raise ValueError("name what to add: --direction NAME --amplitude 2")
    lab = _lab(controller, skill, directions, "cpu", out)
    (clips,) = open_corpora([corpus])
    knobs = one_run.knobs(direction, amplitude, at, until, seconds)
    found = one_run.steer(lab, clips, base, knobs, seconds, seed)
    told = "blue: the same without steering"
    drawn = found.title, found.steered, found.plain, out, told, film
    if json:
        print(steered_run.as_json(found))
        steered_run.draw(*drawn, silent=True)
    else:
        steered_run.show(found)
        steered_run.draw(*drawn)


def _replay(path: Path, bundle: Path | None, out: Path, film: bool, json: bool) -> None:
    """Run a take again, and show it."""
    import json as text

    import numpy as np

    from spectral_skills.cli.driving import released
    from spectral_skills.control.record import Rollout
    from spectral_skills.desk.takes import Take, replay
    from spectral_skills.plots import rollout_film
    from spectral_skills.runtime.bundle import Bundle

    take = Take.load(path)
    rows = replay(Bundle.open(bundle or released()), take)
    off = float(np.abs(rows - take.rows).max())
    record = Rollout.of_rows(path.stem, rows, take.ghosts)
    out.mkdir(parents=True, exist_ok=True)
    record.save(out / "run.npz")
    if json:
        print(text.dumps({"seconds": take.seconds, "largest_difference": off}))
    else:
        print(f"take      {path.name}, {take.seconds:.1f} s")
        told = "none: the very same run" if off == 0 else f"{off:.2g} (m or rad)"
        print(f"differs   {told}")
    rollout_film.strip(record, out / "run.png", subtitle="blue: the base alone")
    paths = [("picture", out / "run.png")]
    if film:
        made = rollout_film.film(record, out / "run", told="blue: the base alone")
        paths += [("film", one) for one in made]
    for what, one in [] if json else paths:
        print(f"{what:10s}{one}")


def chain(
    names: list[str],
    /,
    *,
    switch: int = 10,
    controller: Path = Path("base"),
    skill: Path = Path("base"),
    directions: Path = _DIRECTIONS,
    out: Path,
    film: bool = True,
) -> None:
    """Play one skill after another, blended over each switch.

    The same skills switched at once are run beside them.

    Args:
        names: walk, jog, squat, carry, backward, stand, turn-left, turn-right, or
            names of clips of the embedded corpus.
        switch: Control steps of a switch.
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        directions: File of `spectral directions`; `base` comes with the package.
        out: Folder for the record (.npz), the picture and the film.
        film: Draw a film too; it takes longer than the simulation.
    """
    from spectral_skills.experiments.chained import execute
    from spectral_skills.plots import steered_run

    if out.is_file():
        raise ValueError(f"{out}: a file; name a folder")
    if len(names) < 2 or switch < 1:
        raise ValueError("a chain needs two skills and a switch of at least a step")
    lab = _lab(controller, skill, directions, "cpu", out)
    blended, hard = execute(lab, [names], (switch, 0))
    steered_run.show_chain(blended, hard)
    title, told = " - ".join(names), "blue: switched at once"
    steered_run.draw(title, blended.done, hard.done, out, told, film)


def report(results: list[Path], /, *, out: Path, films: bool = True) -> None:
    """Make one page of what experiments have found: tables, charts, films.

    Args:
        results: Folders that `spectral evaluate composition`, `chaining` and
            `planning` wrote.
        out: Folder for the page, index.html; it needs no other file.
        films: Draw the films too; they take most of the time.
    """
    from spectral_skills.plots.findings_page import build

    if out.is_file():
        raise ValueError(f"{out}: a file; name a folder")
    print(f"page      {build(results, out, films)}")


def _lab(
    controller: Path,
    skill: Path,
    directions: Path | None,
    device: str | None,
    out: Path,
):
    """Where runs are made, with records under OUT."""
    from spectral_skills.experiments.composition.lab import Lab
    from spectral_skills.experiments.findings import RECORDS
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.spectral.direction_file import Directions
    from spectral_skills.tracking.policy import Controller

    where = device_or_best(device)
    return Lab(
        Controller.load(controller, where),
        SkillModel.load(skill, where).encoder,
        None if directions is None else Directions.load(directions),
        where,
        out / RECORDS,
    )


def _token_lab(controller: Path, skill: Path, device: str | None, out: Path):
    """A lab of FSQ tokens; they have no directions."""
    lab = _lab(controller, skill, None, device, out)
    if (kind := lab.encoder.config.bottleneck.kind) != "fsq":
        raise ValueError(f"{skill}: its skills are {kind}; --fsq wants those of fsq")
    return lab


def _explicit(controller: Path, device: str | None, out: Path):
    """A tracker of poses, with records under OUT."""
    from spectral_skills.experiments.findings import RECORDS
    from spectral_skills.experiments.spliced import Explicit
    from spectral_skills.tracking.policy import Controller

    where = device_or_best(device)
    return Explicit(Controller.load(controller, where), where, out / RECORDS)


def _attach(directions, out: Path, release: Path) -> None:
    """Directions with the catalogue's entries."""
    import json
    from dataclasses import replace

    from spectral_skills.experiments.catalogue import FILE
    from spectral_skills.experiments.composition.survey import brief

    entries = json.loads((out / FILE).read_text())
    measured = tuple(brief(entry) for entry in entries)
    replace(directions, measured=measured).save(release)
    print(f"file      {release}")


def finish(findings, controller: Path, out: Path, record: Path | None) -> None:
    """Write findings, print their numbers and put them where results are kept."""
    from dataclasses import replace

    from spectral_skills.artifact import load_provenance
    from spectral_skills.plots.tables import publish, show
    from spectral_skills.skill.model import place
    from spectral_skills.tracking.policy import KIND

    made = load_provenance(place(controller, KIND))
    told = f"{made.frames / 1e6:,.0f} M frames, data {made.data_hash[:8]}"
    path = replace(findings, model=f"{told}, {made.command}").save(out)
    show(list(findings.results))
    print(f"findings  {path}")
    if record is not None:
        publish(list(findings.results), record)

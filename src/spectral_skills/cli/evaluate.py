"""Verbs that measure: the tables of the paper.

Each verb imports what it needs when it runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from spectral_skills import api
from spectral_skills.cli.arguments import EMBEDDED, check_file, check_folder, finish
from spectral_skills.models import (
    RELEASED,
    RELEASED_STEERING,
    RELEASED_TRACKER,
    ModelPaths,
    Models,
    SteeringPaths,
    TrackerPaths,
)


def evaluate_tracking(
    *,
    models: TrackerPaths = RELEASED_TRACKER,
    corpus: Path,
    set: Literal["all", "evaluation", "capability", "lafan1", "lafan1-windows"] = "all",
    held_out: float = 0.0,
    kinds: Path | None = None,
    device: str | None = None,
    out: Path,
    clips: Path | None = None,
    label: str = "",
    record: Path | None = None,
) -> None:
    """Measure how well a controller tracks: success, errors, drift, by kind of motion.

    Success is the paper's: no rule is broken, wherever the robot went. Followed means
    success with at least 80 % of the path gone and an MPJPE-G under 0.5 m.

    Args:
        set: All clips; the paper's evaluation or capability set; LAFAN1 as in the
            paper's two tables (20 windows of 10 s from each of its 40 clips, whole
            clips, and their first 15 s), or those windows alone. LAFAN1 also gets a
            page (.md) and two pictures beside OUT.
        held_out: Only the clips that training with the same share (or number) holds
            out.
        kinds: Table (.csv) with columns name and kind, such as the index of the CMU
            pack; without it kinds come from the words of clips.
        out: File of results to write (.jsonl), one a line.
        clips: File for the outcome of each clip or window (.jsonl); for LAFAN1 it is
            beside OUT by default.
        label: Name of the table; by default it is that of the folder, the set and
            whether clips were held out.
    """
    from dataclasses import replace

    from spectral_skills.plots import lafan1
    from spectral_skills.plots.tables import publish, show_tracking

    for path in (out, clips):
        if path is not None:
            check_file(path, ".jsonl")
    where = api.best_device(device)
    loaded = Models.at(models, where)
    options = {"set": set, "held_out": held_out, "kinds": kinds}
    found = api.evaluate("tracking", loaded, corpus=corpus, device=where, **options)
    if found.note:
        print(found.note)
    _write_lines(out, found.results)
    if set in ("lafan1", "lafan1-windows"):
        clips = clips or out.with_name(f"{out.stem}_clips.jsonl")
        lafan1.show(found.results)
        lafan1.write(found.results, found.outcomes, out)
        print(f"page      {out.with_suffix('.md')}")
    else:
        show_tracking(found.results)
    print(f"results   {out}")
    if clips is not None:
        _write_lines(clips, found.outcomes)
        print(f"clips     {clips}")
    if record is not None:
        told = corpus.name + ("" if set == "all" else f", {set}")
        told += ", held out" if held_out else ""
        table = f"Tracking: {label or told}"
        publish([replace(r, table=table) for r in found.results], record)


def evaluate_composition(
    experiment: api.Composition,
    /,
    *,
    models: SteeringPaths = RELEASED_STEERING,
    seeds: list[int] | None = None,
    bases: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    device: str | None = None,
    out: Path,
    record: Path | None = None,
    release: Path | None = None,
    fsq: tuple[Path, Path] | None = None,
    others: list[Path] | None = None,
) -> None:
    """Steer a frozen controller and measure the effects: the paper's experiments.

    Runs are kept in OUT/records: what is there is not run again, so an interrupted
    experiment continues. `spectral report OUT --out PAGE` makes a page of all findings.

    Args:
        experiment: Which of the experiments.
        seeds: Randomised repeats, for the experiments that have them.
        bases: For the catalogue: bases to steer, `walk` by default. Directions are
            named by their effects on the first; on others spectral ones are not tried
            unless they are among the names.
        names: For the catalogue: directions to try, all by default.
        out: Folder for findings (.json) and records.
        release: For the catalogue: file (.safetensors) for the directions with their
            measured effects.
        fsq: For pass_rates: a controller of FSQ tokens and its skill model, on which
            PCA and ridge directions are tried as well.
        others: For dose: direction files of the same skill model found at other noise
            levels, whose predictions are compared with the robot as well.
    """
    check_folder(out)
    if release is not None:
        check_file(release, ".safetensors")
    for option, value, owner in (
        ("release", release, "catalogue"),
        ("bases", bases, "catalogue"),
        ("names", names, "catalogue"),
        ("fsq", fsq, "pass_rates"),
        ("others", others, "dose"),
    ):
        if value and experiment != owner:
            raise ValueError(f"--{option} is for {owner}")
    where = api.best_device(device)
    loaded = Models.at(models, where)
    options: dict = {} if seeds is None else {"seeds": tuple(seeds)}
    options |= {"bases": bases} if bases else {}
    options |= {"names": names} if names else {}
    if fsq is not None:
        options["tokens"] = _fsq(*fsq, where)
    if others:
        from spectral_skills.spectral.direction_file import Directions

        options["others"] = [Directions.load(path) for path in others]
    found = api.evaluate(experiment, loaded, out=out, device=where, **options)
    finish(found, models.controller, out, record)
    if release is not None:
        _attach(loaded.known_directions, out, release)


def evaluate_chaining(
    *,
    models: SteeringPaths = RELEASED_STEERING,
    seeds: list[int] | None = None,
    device: str | None = None,
    out: Path,
    record: Path | None = None,
    fsq: tuple[Path, Path] | None = None,
    explicit: Path | None = None,
) -> None:
    """Switch from skill to skill without a transition policy, and measure the switches.

    Args:
        seeds: Randomised repeats.
        out: Folder for findings (.json) and records.
        fsq: A controller of FSQ tokens and its skill model, to compare with.
        explicit: A controller of poses, to compare with.
    """
    from spectral_skills.tracking.policy import Controller

    check_folder(out)
    where = api.best_device(device)
    options: dict = {} if fsq is None else {"others": {"FSQ": _fsq(*fsq, where)}}
    if explicit is not None:
        options["explicit"] = Models(Controller.load(explicit, where))
    options |= {"seeds": tuple(seeds or ()), "device": where, "out": out}
    found = api.evaluate("chaining", Models.at(models, where), **options)
    finish(found, models.controller, out, record)


def evaluate_planning(
    experiment: api.Planning,
    /,
    *,
    models: ModelPaths = RELEASED,
    poses: Path | None = None,
    explicit: tuple[Path, Path] | None = None,
    corpus: list[Path] | None = None,
    episodes: int = 20,
    steps: int = 2000,
    most: int | None = None,
    planned: bool = False,
    seed: int = 0,
    device: str | None = None,
    out: Path,
    record: Path | None = None,
) -> None:
    """Measure planners: the paper's two tables, other words and words that change.

    Table `interfaces` compares planned skills with planned poses, `fsq` does so for an
    FSQ tracker, `language` tries words that were not learned and words that change,
    `pairs` adds what a second sentence asks for to what the first one plans, `everyday`
    says nine lists of sixty requests to a robot as `spectral say` does.

    Args:
        experiment: Which of the tables.
        poses: Planner of poses for the same controller (`spectral plan --output pose`).
        explicit: For interfaces: a controller of poses and its planner.
        corpus: Folders of the corpora whose motions were learned; the embedded one by
            default.
        episodes: Number of episodes of each motion.
        steps: Length of an episode, if the robot does not fall.
        most: Largest number of motions, at regular distances of all.
        planned: For everyday: plan all motions but those that a base shows.
        seed: Seed of the noise in sensors and plans.
        out: Folder for findings (.json).
    """
    check_folder(out)
    if explicit is not None and experiment != "interfaces":
        raise ValueError("--explicit is for interfaces")
    if poses is None and experiment == "fsq":
        raise ValueError("fsq needs a planner of poses too: --poses DIR")
    where = api.best_device(device)
    paths = models.controller, models.skill
    knobs = models.directions if experiment in ("pairs", "everyday") else None
    loaded = Models.load(*paths, knobs, models.planner, where, plans="skill")
    if experiment == "everyday":
        found = api.evaluate(experiment, loaded, seed=seed, planned=planned)
        return finish(found, models.controller, out, record)
    options: dict = {"episodes": episodes, "steps": steps, "seed": seed, "most": most}
    if poses is not None and experiment in ("interfaces", "fsq"):
        options["poses"] = Models.load(*paths, None, poses, where, plans="pose")
    if explicit is not None:
        paths = explicit[0], models.skill, None, explicit[1]
        options["explicit"] = Models.load(*paths, where, plans="pose")
    place = {"corpora": corpus or [EMBEDDED], "device": where}
    found = api.evaluate(experiment, loaded, **place, **options)
    finish(found, models.controller, out, record)


def evaluate_readout(
    *,
    skill: list[Path],
    corpus: list[Path],
    held_out: float = 4,
    seed: int = 0,
    device: str | None = None,
    record: Path | None = None,
) -> None:
    """Measure what a linear map reads from skills, and how far drift moves them.

    The map reads poses, now and later, and root motion. Drift is a robot that is 10 cm
    off, 0.1 rad off, or both; it is compared with the distance between skills of
    different times.

    Args:
        skill: Skill models, one row each; `base` comes with the package.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        held_out: Clips to score on, as in training: a share below 1 or a number of
            clips; 0 scores the clips that were fitted.
        seed: Seed of the windows.
    """
    from spectral_skills.plots.tables import publish, show

    options = {"held_out": held_out, "seed": seed, "device": device}
    for results in api.evaluate("readout", skill=skill, corpora=corpus, **options):
        show(results)
        if record is not None:
            publish(results, record)


def _write_lines(path: Path, items: Sequence[Any]) -> None:
    """Write dataclasses as JSON, one per line."""
    import json

    from spectral_skills.atomic import write_file
    from spectral_skills.config import to_dict

    write_file(path, "".join(json.dumps(to_dict(item)) + "\n" for item in items))


def _fsq(controller: Path, skill: Path, device: str) -> Models:
    """Load a controller of FSQ tokens; there are no directions of tokens."""
    loaded = Models.load(controller, skill, device=device)
    kind = loaded.skill_encoder.config.bottleneck.kind
    if kind != "fsq":
        raise ValueError(f"{skill}: its skills are {kind}; --fsq needs fsq ones")
    return loaded


def _attach(directions, out: Path, release: Path) -> None:
    """Write directions with the catalogue's entries."""
    import json
    from dataclasses import replace

    from spectral_skills.experiments.catalogue import FILE, brief

    entries = json.loads((out / FILE).read_text())
    measured = tuple(brief(entry) for entry in entries)
    replace(directions, measured=measured).save(release)
    print(f"file      {release}")

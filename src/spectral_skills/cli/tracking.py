"""Verbs about controllers. Each imports what it needs when it runs."""

import re
import time
from pathlib import Path
from typing import Any, Literal

from spectral_skills.cli.shared import (
    check_file,
    check_training,
    command_of,
    device_or_best,
    models,
    open_corpora,
    trained,
)


def track(
    recipe: str,
    /,
    *,
    corpus: list[Path],
    skill: Path | None = None,
    out: Path,
    init: Path | None = None,
    resume: bool = False,
    release: Path | None = None,
    device: str | None = None,
    config: Any = None,
) -> int:
    """Train a controller that executes the skills of a skill model.

    Recipes: paper (combo), hub, base, refine, lafan1, deploy, smoke, ablation, hold10,
    explicit, joint-* (an unknown name lists all). Every setting of a recipe is an
    option too, such as `--frames 200M`, `--minutes 30` and `--robots 4096`: `spectral
    track base --help`. A killed run goes on with the same command; `torchrun` starts
    several processes.

    Args:
        recipe: Name of a recipe.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        skill: Skill model whose skills are the commands; `base` comes with the
            package.
        out: Folder of the run: model, log, curves, checkpoint.
        init: Controller whose weights a new run begins with; `base` comes with the
            package. What its weights dictate is as it has it; where the recipe or an
            option sets something else, the run is refused.
        resume: Go on with the run at OUT, and refuse to begin a new one.
        release: Also write what run time needs, without the critic, here.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills import recipes
    from spectral_skills.experiments.probe import probe_of
    from spectral_skills.plots.tracking_curves import draw_curves
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.tracking import start
    from spectral_skills.tracking.train import train

    check_training(corpus, out, release)
    if resume and not (out / "checkpoint").exists():
        raise ValueError(f"{out}: no checkpoint to go on from")
    settings = config or recipes.track(recipe)
    where = device_or_best(device)
    corpora = open_corpora(corpus)
    encoder = None
    if skill is not None:
        encoder = SkillModel.load(skill, where).encoder
    start.commanded(settings.controller, encoder, init)  # ask before work is done
    probe = None
    if settings.probe_clips:
        usable = start.usable(corpora)
        probe = probe_of(usable, encoder, settings.probe_clips, where, settings.physics)
    words = ["spectral track", recipe, "--corpus", *(c.name for c in corpus)]
    words += [] if skill is None else ["--skill", skill.name]
    words += [] if init is None else ["--init", init.name]
    told = command_of(words, settings, recipes.track(recipe))

    def run():
        rest = init, probe, draw_curves, told
        return train(settings, corpora, encoder, out, where, *rest)

    return trained(run, out, release)


def rollout(
    name: str,
    /,
    *,
    controller: Path = Path("base"),
    skill: Path = Path("base"),
    corpus: Path = Path("embedded"),
    out: Path,
    film: bool = True,
    film_seconds: float = 10.0,
) -> None:
    """Let a controller follow a clip in MuJoCo, and film it beside its reference.

    Args:
        name: Name of the clip, as `corpus list` prints it.
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        corpus: Folder of the corpus; `embedded` is the one this package makes.
        out: Folder for the record (.npz), the film (.gif, .mp4) and a picture.
        film: Draw a film and a picture; both take longer than the simulation.
        film_seconds: Film at most so much, from the beginning.
    """
    from spectral_skills.control.clip import follow
    from spectral_skills.experiments.errors import CAUSES
    from spectral_skills.experiments.metrics import episodes
    from spectral_skills.plots import rollout_film

    if out.is_file():
        raise ValueError(f"{out}: a file; name a folder")
    if not film_seconds > 0:
        raise ValueError(f"--film-seconds is {film_seconds}, must be above 0")
    (clips,) = open_corpora([corpus])
    index = clips.index(name)
    actor, encoder = models(controller, skill, "cpu")
    began = time.perf_counter()
    record = follow(actor, encoder, clips.select([index]))
    took_s = time.perf_counter() - began
    done, lasted_s = episodes(record), record.steps / record.fps
    told = "tracked to the end"
    if not done.success[0]:
        failed_s = done.failed_at[0] / record.fps
        told = f"fails by {CAUSES[done.cause[0]]} at {failed_s:.2f} of {lasted_s:.2f} s"
    error = (
        f"MPJPE-L {done.local_mm[0]:.1f} mm, MPJPE-G {done.global_mm[0]:.1f} mm, "
        f"root drift {done.root_mm[0]:.1f} mm"
    )
    print(f"success   {'yes' if done.success[0] else 'no'}, {told}")
    print(f"error     {error}")
    print(
        f"speed     {lasted_s / took_s:.1f} x real time "
        f"({lasted_s:.1f} s in {took_s:.1f} s)"
    )
    place = out / re.sub(r"[^\w.~ +-]", "_", name)
    path = place.with_name(f"{place.name}.npz")
    record.save(path)
    print(f"record    {path}")
    if film:
        for path in rollout_film.film(record, place, most_s=film_seconds):
            print(f"film      {path}")
        path = place.with_name(f"{place.name}.png")
        rollout_film.strip(record, path, subtitle=f"{told}; {error}")
        print(f"picture   {path}")


def evaluate_tracking(
    *,
    controller: Path = Path("base"),
    skill: Path = Path("base"),
    corpus: Path,
    set: Literal["all", "evaluation", "capability", "lafan1", "lafan1-windows"] = "all",
    device: str | None = None,
    out: Path,
    clips: Path | None = None,
    label: str = "",
    record: Path | None = None,
) -> None:
    """Measure how well a controller tracks: success, errors, drift, by kind of motion.

    Args:
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        corpus: Folder of the corpus; `embedded` is the one this package makes.
        set: All clips, the paper's evaluation or capability set, or LAFAN1 as the
            paper's two tables of it have it: 20 windows of 10 s of each of its 40
            clips, whole clips, their first 15 s; or the windows alone. LAFAN1 makes a
            page (.md) and two pictures beside OUT too.
        device: cpu or cuda; cuda where there is one.
        out: File of results to write (.jsonl), one a line.
        clips: Also write what became of each clip or window (.jsonl); of LAFAN1 by
            default beside OUT.
        label: Name of the corpus in tables; the folder's by default.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    import json
    from dataclasses import replace

    from spectral_skills.artifact import load_provenance
    from spectral_skills.atomic import write_file
    from spectral_skills.config import to_dict
    from spectral_skills.experiments import lafan1, tracking
    from spectral_skills.experiments.course import Course
    from spectral_skills.motion import motion_sets
    from spectral_skills.plots import lafan1_page
    from spectral_skills.plots.tables import publish
    from spectral_skills.plots.tracking_table import show
    from spectral_skills.skill.model import place
    from spectral_skills.tracking.policy import KIND

    for path in (out, clips):
        if path is not None:
            check_file(path, ".jsonl")
    (motions,) = open_corpora([corpus])
    where = device_or_best(device)
    actor, encoder = models(controller, skill, where)
    words = f"spectral evaluate tracking --controller {controller.name}"
    words += f" --corpus {corpus.name} --set {set}"
    weights = load_provenance(place(controller, KIND)).weights_hash[:8]
    paper = set in ("lafan1", "lafan1-windows")
    if paper:
        found = lafan1.evaluate(
            *(actor, motions, encoder, where),
            whole=set == "lafan1",
            command=words,
            run_hash=weights,
        )
        clips = clips or out.with_name(f"{out.stem}_clips.jsonl")
    else:
        if set != "all":
            chosen = getattr(motion_sets, f"{set}_set")(motions)
            print(chosen.note)
            motions = motions.select(chosen.indices)
        course = Course(motions, encoder, where)
        found = tracking.evaluate(actor, course, words, weights)
    lines = [json.dumps(to_dict(result)) + "\n" for result in found.results]
    write_file(out, "".join(lines))
    if paper:
        lafan1_page.show(found.results)
        lafan1_page.write(found.results, found.outcomes, out)
        print(f"page      {out.with_suffix('.md')}")
    else:
        show(found.results)
    print(f"results   {out}")
    if clips is not None:
        tracking.save_outcomes(clips, found.outcomes)
        print(f"clips     {clips}")
    if record is not None:
        table = f"Tracking: {label or corpus.name}"
        table += "" if set == "all" else f", {set}"
        publish([replace(r, table=table) for r in found.results], record)


def report_tracking(*, run: Path, label: str, record: Path) -> None:
    """Put what a training run of a controller reached into a file of results.

    Args:
        run: Folder of the run.
        label: Name of the corpus in the tables.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from spectral_skills.plots.tables import publish, show
    from spectral_skills.plots.tracking_run import tracking_results

    results = tracking_results(run, label)
    show(results)
    publish(results, record)

"""Verbs about language. Each imports what it needs when it runs."""

from pathlib import Path
from typing import Any, Literal

from spectral_skills.cli.shared import (
    apart,
    command_of,
    device_or_best,
    models,
    open_corpora,
    trained,
)

_BASE = Path("base")
_EMBEDDED = Path("embedded")


def collect(
    *,
    controller: Path = _BASE,
    skill: Path = _BASE,
    corpus: Path = _EMBEDDED,
    out: Path,
    robots: int = 93,
    steps: int = 500,
    seed: int = 0,
    device: str | None = None,
) -> None:
    """Let robots execute described motions, and keep rows to learn planning from.

    A row is what a robot has sensed, what its motion is called, and the thirty commands
    that came next. Of the embedded corpus 28 motions are executed, of others every
    clip that is described.

    Args:
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        corpus: Folder of the corpus; `embedded` is the one this package makes.
        out: Folder for the rows.
        robots: For each motion.
        steps: Control steps of each robot.
        seed: Of noise, and of which motion follows which.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills.artifact import load_provenance
    from spectral_skills.planner import collect as collecting
    from spectral_skills.skill.model import place
    from spectral_skills.tracking.policy import KIND

    if out.exists():
        raise ValueError(f"{out}: there already; name a new folder")
    (clips,) = open_corpora([corpus])
    where = device_or_best(device)
    actor, encoder = models(controller, skill, where)
    config = collecting.CollectConfig(robots=robots, steps=steps, seed=seed)
    name = load_provenance(place(controller, KIND)).weights_hash
    rows = collecting.collect(config, actor, encoder, clips, name, where)
    rows.save(out)
    motions = rows.about.motions
    print(f"motions   {len(motions)}, in {len(rows.about.sentences)} sentences")
    print(f"rows      {len(rows):,} of {rows.robots:,} robots")
    print(f"upright   {rows.upright:.1%} of the robots at the end")
    print(f"folder    {out}")


def plan(
    recipe: str,
    /,
    *,
    rows: Path,
    out: Path,
    release: Path | None = None,
    device: str | None = None,
    config: Any = None,
) -> int:
    """Train a planner: from what a robot senses and a sentence to thirty commands.

    Recipes: paper, base, smoke. Every setting of a recipe is an option too, such as
    `--output pose` and `--updates 6000`: `spectral plan base --help`. A killed run
    goes on with the same command.

    Args:
        recipe: Name of a recipe.
        rows: Folder of `spectral collect`.
        out: Folder of the run: model, log, curves, checkpoint.
        release: Also write what run time needs, in half the size, here.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills import recipes
    from spectral_skills.artifact import refuse_foreign
    from spectral_skills.planner.rows import Rows
    from spectral_skills.planner.text import text_encoder
    from spectral_skills.planner.train import train
    from spectral_skills.plots.planner_curves import draw_curves

    apart(out, rows)
    if release is not None:
        apart(release, out)
        refuse_foreign(release)
    settings = config or recipes.plan(recipe)
    where = device_or_best(device)
    examples = Rows.open(rows, where)
    words = ["spectral plan", recipe, "--rows", rows.name]
    told = command_of(words, settings, recipes.plan(recipe))

    def run():
        return train(settings, examples, text_encoder(), out, where, told, draw_curves)

    return trained(run, out, release)


def evaluate_planning(
    experiment: Literal["interfaces", "fsq", "language", "pairs"],
    /,
    *,
    planner: Path = _BASE,
    controller: Path = _BASE,
    skill: Path = _BASE,
    directions: Path = _BASE,
    poses: Path | None = None,
    explicit: tuple[Path, Path] | None = None,
    corpus: Path = _EMBEDDED,
    episodes: int = 20,
    steps: int = 2000,
    seed: int = 0,
    device: str | None = None,
    out: Path,
    record: Path | None = None,
) -> None:
    """Measure what comes of plans: the paper's two tables, and words that change.

    `interfaces` compares planned skills with planned poses, `fsq` does so for an FSQ
    tracker, `language` tells words that were not learned and words that change, `pairs`
    adds what a second sentence asks for to what the first one plans.

    Args:
        experiment: Which of the tables.
        planner: Planner of skills; `base` is the one that comes with the package.
        controller: Controller it was trained for; `base` comes with the package.
        skill: Skill model of both; `base` comes with the package.
        directions: Of pairs: file of `spectral directions` with its catalogue.
        poses: Planner of poses for the same controller (`spectral plan --output pose`).
        explicit: Of interfaces: a controller of poses and its planner.
        corpus: Folder of the corpus whose motions were learned.
        episodes: For each motion.
        steps: Of an episode, if the robot does not fall.
        seed: Of noise in sensors and plans.
        device: cpu or cuda; cuda where there is one.
        out: Folder for findings (.json).
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from spectral_skills.artifact import load_provenance
    from spectral_skills.cli.composition import finish
    from spectral_skills.experiments import instructions, pairs, planning
    from spectral_skills.experiments.stage import Stage
    from spectral_skills.planner.model import KIND, check_text
    from spectral_skills.planner.text import text_encoder
    from spectral_skills.skill.model import place
    from spectral_skills.spectral.direction_file import Directions

    if explicit is not None and experiment != "interfaces":
        raise ValueError("--explicit is for interfaces")
    where = device_or_best(device)
    (clips,) = open_corpora([corpus])
    encoder = text_encoder()
    actor, found = matched(planner, controller, skill, where, "skill")
    other = None
    if poses is not None:
        other = matched(poses, controller, skill, where, "pose")[1]
    check_text(found, encoder)
    stage = Stage(clips, where, episodes, steps, seed)
    name = load_provenance(place(planner, KIND)).weights_hash
    if experiment == "interfaces":
        third = None
        if explicit is not None:
            third = matched(explicit[1], explicit[0], skill, where, "pose")
        rest = (actor, found), other, third
        result = planning.interfaces(stage, encoder, *rest, run=name)
    elif experiment == "fsq":
        if other is None:
            raise ValueError("fsq needs a planner of poses too: --poses DIR")
        result = planning.fsq(stage, encoder, actor, found, other, run=name)
    elif experiment == "language":
        result = instructions.experiment(stage, encoder, actor, found, run=name)
    else:
        knobs = Directions.load(directions)
        result = pairs.experiment(stage, encoder, actor, found, knobs, run=name)
    finish(result, controller, out, record)


def matched(
    planner: Path,
    controller: Path,
    skill: Path,
    device: str,
    output: str | None = None,
):
    """A controller with its encoder, and a planner that was made for them; of skills
    or poses, if it matters."""
    from spectral_skills.artifact import load_provenance
    from spectral_skills.experiments.stage import Actor
    from spectral_skills.planner.model import Planner, check_match
    from spectral_skills.skill.model import place
    from spectral_skills.tracking.policy import KIND

    actor = Actor(*models(controller, skill, device))
    found = Planner.load(planner, device)
    if output not in (None, found.config.output):
        raise ValueError(f"{planner}: plans {found.config.output}s, not {output}s")
    encoder = "" if actor.encoder is None else actor.encoder.fingerprint()
    check_match(found, load_provenance(place(controller, KIND)).weights_hash, encoder)
    return actor, found

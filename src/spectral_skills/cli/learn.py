"""Verbs that learn: skill spaces, directions, controllers and planners.

Each verb imports what it needs when it runs.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectral_skills import api
from spectral_skills.cli.arguments import (
    BASE,
    EMBEDDED,
    check_file,
    check_folder,
    check_training,
    refuse_overlap,
    run_training,
)
from spectral_skills.models import RELEASED_TRACKER, Models, TrackerPaths

if TYPE_CHECKING:
    from spectral_skills.artifact import Provenance
    from spectral_skills.skill.model import SkillModel


def pretrain(
    recipe: str,
    /,
    *,
    corpus: list[Path],
    out: Path,
    release: Path | None = None,
    device: str | None = None,
    config: Any = None,
) -> int:
    """Learn a skill space from corpora of motion.

    Recipes: release, paper, lafan1, lafan1-all, authors, lafan1-authors, hub,
    smoke, and ablation-* (an unknown name lists all).
    Every setting of a recipe is an option too: `spectral pretrain release --help`. A
    killed run continues with the same command; `torchrun` starts several processes.

    Args:
        corpus: Folders of corpora; `embedded` is the one this package makes.
        out: Folder of the run: model, log, curves, checkpoint.
        release: Folder for a small copy: what run time needs, and a contracted
            predictor, from which `spectral directions` finds directions.
    """
    check_training(corpus, out, release)

    def train():
        return api.pretrain(recipe, corpus, out, settings=config, device=device)

    def write(model: "SkillModel", folder: Path, provenance: "Provenance") -> None:
        from spectral_skills import recipes
        from spectral_skills.skill.pretrain import release as write_release

        settings = config or recipes.pretrain(recipe)
        opened = [api.open_corpus(one) for one in corpus]
        errors = write_release(model, settings, opened, folder, provenance)
        if errors:
            most = f"{min(errors):.1%} to {max(errors):.1%}"
            print(f"responses {most} from the whole predictor's, by noise level")

    return run_training(train, out, release, write)


def directions(
    *,
    skill: Path = BASE,
    corpus: list[Path] = [EMBEDDED],  # noqa: B006
    target: tuple[str, ...] = (),
    out: Path,
    contexts: int = 4096,
    seed: int = 0,
    level: int = 2,
    held_out: float = 0.0,
    controller: Path | None = None,
    device: str | None = None,
) -> None:
    """Find the directions of a skill space and what each is predicted to move.

    Spectral, body-part and target directions and the hand maps go into one file, with
    a picture of all ranks and one of predicted poses beside it. `--target
    right_elbow=-0.5 speed=0.2,turn=0.3` adds two directions of your own: the first
    bends the elbow, the second goes faster and turns. To the directions of `base`, and
    to what was measured of them, they are added unchanged.

    Args:
        skill: Skill model; `base` comes with the package.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        target: Changes to find a direction for, one word for each direction: names of
            attributes or of known targets, with sizes in their units. An unknown name
            lists all.
        out: File to write, such as directions.safetensors; pictures have its name.
        contexts: Recorded windows that responses are averaged over.
        seed: Seed of the choice of windows.
        level: Noise level of the predictor at which responses are taken; 0 is the
            paper's.
        held_out: Clips that are left out, as in training: a share below 1, or a number
            of clips of each corpus.
        controller: Controller of these skills. Targets are then solved by what its
            robots do as well, on clips that walk; `predicted_turn` is by prediction
            alone. Takes some minutes on a CPU.
    """
    from spectral_skills.plots.skills import all_ranks, draw_poses, effect_table

    check_file(out, ".safetensors")
    options: Any = {
        "contexts": contexts,
        "seed": seed,
        "targets": target,
        "level": level,
        "held_out": held_out,
        "controller": controller,
    }
    found = api.find_directions(skill, corpus, **options, device=device)
    found.save(out)
    print(effect_table(found))
    print(f"file      {out}")
    all_ranks(found, out.with_suffix(".png"))
    print(f"ranks     {out.with_suffix('.png')}")
    poses = out.with_name(f"{out.stem}_poses.png")
    try:
        draw_poses(found, poses)
        print(f"poses     {poses}")
    except ValueError as error:
        print(f"poses     none: {error}")


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

    Recipes: release, lafan1, deploy-first, deploy, paper (combo), hub, smoke,
    ablation, hold10, explicit, joint-* (an unknown name lists all). Every setting of a
    recipe is an option too, such as `--frames 200M`, `--minutes 30` and
    `--robots 4096`: `spectral track release --help`. A killed run continues with the
    same command; `torchrun` starts several processes.

    Args:
        corpus: Folders of corpora; `embedded` is the one this package makes.
        skill: Skill model whose skills are the commands; `base` comes with the
            package.
        out: Folder of the run: model, log, curves, checkpoint.
        init: Controller whose weights a new run begins with; `base` comes with the
            package. Settings that its weights fix are taken from it; a recipe or an
            option that contradicts them is refused.
        resume: Continue the run at OUT, and refuse to begin a new one.
        release: Folder for a copy with only what run time needs: no critic.
    """
    check_training(corpus, out, release)
    if resume and not (out / "checkpoint").exists():
        raise ValueError(f"{out}: no checkpoint to continue from")

    def train():
        options = {"init": init, "settings": config, "device": device}
        return api.track(recipe, corpus, skill, out, **options)

    return run_training(train, out, release)


def adapt(
    *,
    controller: Path = BASE,
    old_skill: Path = BASE,
    skill: Path | None = None,
    explicit: bool = False,
    corpus: Path = EMBEDDED,
    out: Path,
    release: Path | None = None,
    updates: int = 4000,
    device: str | None = None,
) -> None:
    """Move a controller to another skill space, without training it again.

    A small network learns from a corpus which old skill stands for each new one, or for
    each reference pose. This takes minutes on a CPU; `spectral track --init OUT` trains
    the result further.

    Args:
        controller: Controller; `base` is the one that comes with the package.
        old_skill: Skill model it was trained with; `base` comes with the package.
        skill: Skill model whose skills the controller will follow.
        explicit: Follow the next pose of the reference instead of skills.
        corpus: Folder of the corpus to learn from, with its mirror image; `embedded`
            is the one this package makes.
        out: Folder for the controller.
        release: Folder for a copy with only what run time needs: no critic.
        updates: Number of training steps.
    """
    from spectral_skills.artifact import Provenance, load_provenance
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.tracking import adapt as adapting
    from spectral_skills.tracking.policy import KIND

    if (skill is None) != explicit:
        raise ValueError("give either --skill DIR or --explicit")
    _check_new(out, release)
    motions = api.open_corpus(corpus)
    where, settings = api.best_device(device), adapting.AdaptConfig(updates=updates)
    loaded = Models.load(controller, old_skill, device=where)
    actor, old = loaded.controller, loaded.encoder
    if old is None or actor.config.command.kind != "skill":
        raise ValueError(f"{controller}: follows no skills, so needs no adapting")
    new = None if skill is None else SkillModel.load(skill, where).encoder
    found = adapting.adapt(actor, old, new, motions.with_mirror(), settings)
    parent = load_provenance(controller, KIND)
    parents = {} if new is None else {"skill": new.fingerprint()}
    words = ["spectral adapt --controller", controller.name]
    words += ["--explicit"] if skill is None else ["--skill", skill.name]
    provenance = Provenance(
        KIND,
        api.command_line(
            [*words, "--corpus", corpus.name], settings, adapting.AdaptConfig()
        ),
        settings.seed,
        motions.hash,
        parents | {"controller": parent.weights_hash},
        frames=parent.frames,
    )
    explained = f"{found.explained:.1%} of the old skills of held-out clips"
    if math.isnan(found.explained):
        explained = "not measured: the held-out clips stand still"
    print(f"explained {explained}")
    # The old critic knows only the old commands, so a new one must be trained.
    if found.controller.config.released:
        found.controller.release(out, provenance)
    else:
        found.controller.save(out, provenance, {})
    print(f"model     {out}")
    if release is not None:
        found.controller.release(release, provenance)
        print(f"release   {release}")


def _check_new(*folders: Path | None) -> None:
    """Refuse folders that exist already."""
    for folder in folders:
        if folder is not None and folder.exists():
            raise ValueError(f"{folder}: there already; name a new folder")


def collect(
    *,
    models: TrackerPaths = RELEASED_TRACKER,
    corpus: list[Path] | None = None,
    out: Path,
    robots: int = 93,
    steps: int = 500,
    along: float = 0.0,
    directions: Path | None = None,
    held_out: float = 0.0,
    whole: bool = False,
    follow: bool = True,
    candidates: int = 4,
    most: int | None = None,
    seed: int = 0,
    device: str | None = None,
) -> None:
    """Let robots execute described motions, and keep rows to learn planning from.

    A row is what a robot has sensed, what its motion is called, and the thirty commands
    that came next. Robots execute 28 motions of the embedded corpus, those of CMU's and
    g1-moves' recordings that `planner/motions.toml` has words for, and every described
    clip of other corpora; of these, those that the controller follows.

    Args:
        corpus: Folders of corpora; the embedded one by default.
        out: Folder for the rows.
        robots: Number of robots for each motion.
        steps: Number of control steps of each robot.
        along: Share of the robots whose commands are moved along directions, as a
            second instruction moves them.
        directions: File of these directions; by default the one of the release.
        held_out: Share of the clips of each corpus that are left out.
        whole: Use clips from their beginning; do not cut them to what can be planned.
        follow: Leave out motions that the controller does not follow.
        candidates: Number of clips that are tried for each motion.
        most: Largest number of motions.
        seed: Seed of the noise and of the order of motions.
    """
    from spectral_skills.planner import collect as collecting
    from spectral_skills.spectral.direction_file import RELEASED_FILE, Directions

    _check_new(out)
    clips = [api.open_corpus(folder) for folder in corpus or [EMBEDDED]]
    where = api.best_device(device)
    loaded = Models.at(models, where)
    config = collecting.CollectConfig(
        robots=robots,
        steps=steps,
        along=along,
        held_out=held_out,
        whole=whole,
        follow=follow,
        candidates=candidates,
        most=most,
        seed=seed,
    )
    moved = Directions.load(directions or RELEASED_FILE) if along else None
    name, both = loaded.hashes["controller"], (loaded.controller, loaded.encoder)
    rows = collecting.collect(config, *both, clips, name, where, moved)
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
    """Train a planner, which turns a sentence and what a robot senses into commands.

    Recipes: release, paper, smoke. Every setting of a recipe is an option too, such as
    `--output pose` and `--updates 6000`: `spectral plan release --help`. A killed run
    continues with the same command.

    Args:
        rows: Folder of `spectral collect`.
        out: Folder of the run: model, log, curves, checkpoint.
        release: Folder for a copy with only what run time needs, half the size.
    """
    from spectral_skills import recipes
    from spectral_skills.artifact import refuse_foreign
    from spectral_skills.planner.data import Rows
    from spectral_skills.planner.text import MiniLM
    from spectral_skills.planner.train import train
    from spectral_skills.plots.curves import draw_curves

    check_folder(out)
    refuse_overlap(out, rows)
    if release is not None:
        refuse_overlap(release, out)
        refuse_foreign(release)
    settings = config or recipes.plan(recipe)
    where = api.best_device(device)
    examples = Rows.open(rows, where)
    words = ["spectral plan", recipe, "--rows", rows.name]
    command = api.command_line(words, settings, recipes.plan(recipe))

    def run():
        return train(settings, examples, MiniLM(), out, where, command, draw_curves)

    return run_training(run, out, release)

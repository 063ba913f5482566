"""Verbs about skill spaces. Each imports what it needs when it runs."""

from pathlib import Path
from typing import Any

from spectral_skills.cli.shared import (
    check_file,
    check_training,
    command_of,
    device_or_best,
    open_corpora,
    trained,
)


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

    Recipes: paper, base, lafan1, lafan1-all, authors, lafan1-authors, hub, smoke, and
    ablation-* (an unknown name lists all).
    Every setting of a recipe is an option too: `spectral pretrain base --help`. A
    killed run goes on with the same command; `torchrun` starts several processes.

    Args:
        recipe: Name of a recipe.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        out: Folder of the run: model, log, curves, checkpoint.
        release: Also write what run time needs, without the predictor, here.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills import recipes
    from spectral_skills.plots.training import draw_curves
    from spectral_skills.skill import pretrain as training

    check_training(corpus, out, release)
    settings = config or recipes.pretrain(recipe)
    where = device_or_best(device)
    corpora = open_corpora(corpus)
    words = ["spectral pretrain", recipe, "--corpus", *(c.name for c in corpus)]
    command = command_of(words, settings, recipes.pretrain(recipe))

    def train():
        return training.pretrain(settings, corpora, out, where, command, draw_curves)

    return trained(train, out, release)


def directions(
    *,
    skill: Path,
    corpus: list[Path],
    out: Path,
    contexts: int = 4096,
    seed: int = 0,
    device: str | None = None,
) -> None:
    """Find the directions of a skill space and what each is predicted to move.

    Spectral, body-part and target directions and the hand maps go into one file, with
    a picture of all ranks and one of predicted poses beside it.

    Args:
        skill: Skill model with its predictor, as `spectral pretrain` wrote it.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        out: File to write, such as directions.safetensors; pictures have its name.
        contexts: Recorded windows that responses are averaged over.
        seed: Seed of the choice of windows.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills.motion.windows import MotionTensors, WindowSampler
    from spectral_skills.plots.direction_poses import draw_poses
    from spectral_skills.plots.directions import all_ranks, effect_table
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.spectral.directions import find

    check_file(out, ".safetensors")
    where, corpora = device_or_best(device), open_corpora(corpus)
    model = SkillModel.load(skill, where)
    motions = MotionTensors.join([c.to(where) for c in corpora])
    sampler = WindowSampler(motions, model.config.windows)
    found = find(model, sampler, contexts, seed, "+".join(c.hash for c in corpora))
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


def skills_encode(
    name: str,
    /,
    *,
    skill: Path = Path("base"),
    corpus: Path = Path("embedded"),
    out: Path,
) -> None:
    """Encode a clip into its stream of skills, one for every control step.

    Args:
        name: Name of the clip, as `corpus list` prints it.
        skill: Skill model; `base` is the one that comes with the package.
        corpus: Folder of the corpus; `embedded` is the one this package makes.
        out: File to write (.npz).
    """
    from spectral_skills.motion.corpus import FPS
    from spectral_skills.skill.codes import SkillStream, encode_rows, save_stream
    from spectral_skills.skill.model import SkillModel

    check_file(out, ".npz")
    encoder = SkillModel.load(skill).encoder
    (clips,) = open_corpora([corpus])
    skills = encode_rows(encoder, clips.qpos(clips.index(name))).cpu().numpy()
    save_stream(out, SkillStream(skills, name, FPS, encoder.fingerprint()))
    print(f"{len(skills):,} skills of {skills.shape[1]} numbers    {out}")


def skills_map(
    *,
    skill: Path = Path("base"),
    corpus: Path = Path("embedded"),
    out: Path = Path("skill_map.png"),
    device: str | None = None,
) -> None:
    """Draw a corpus as the skill space sees it: one dot a clip, coloured by kind.

    Args:
        skill: Skill model; `base` is the one that comes with the package.
        corpus: Folder of the corpus; `embedded` is the one this package makes.
        out: Picture to write.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills.plots.skill_map import draw_map
    from spectral_skills.skill.codes import SkillBank
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.spectral.nearest import leave_one_clip_out

    check_file(out, ".png")
    encoder = SkillModel.load(skill, device_or_best(device)).encoder
    (clips,) = open_corpora([corpus])
    bank = SkillBank.build(encoder, clips)
    draw_map(clips, bank, out)
    distance = leave_one_clip_out(bank.skills, bank.clips)
    print(f"{len(bank.skills):,} skills, std of a dimension {bank.spread():.2f}")
    print(
        f"to the nearest skill of another clip: median {distance.median:.2f}, "
        f"90 % {distance.p90:.2f}, 99 % {distance.p99:.2f}"
    )
    print(f"picture   {out}")


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

    Read are poses now and later and root motion. Drift is a robot that is 10 cm off,
    0.1 rad off, or both; beside it stand the ways between skills of other times.

    Args:
        skill: Skill models, one row each; `base` comes with the package.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        held_out: Clips to score on, as in training: a share, or a number from 1 on;
            with 0 those that were fitted on.
        seed: Seed of the split, as in training, and of the windows.
        device: cpu or cuda; cuda where there is one.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from spectral_skills.experiments.skill_table import tables
    from spectral_skills.plots.tables import publish, show

    where = device_or_best(device)
    for results in tables(skill, open_corpora(corpus), held_out, seed, where):
        show(results)
        if record is not None:
            publish(results, record)


def report_skill(
    *, run: Path, label: str, directions: Path | None = None, record: Path
) -> None:
    """Put what a pretraining run reached into a file of results.

    Args:
        run: Folder of the run.
        label: Name of the corpus in the tables.
        directions: Its direction file, if there is one.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from spectral_skills.plots.skill_space import skill_space_results
    from spectral_skills.plots.tables import publish, show
    from spectral_skills.spectral.direction_file import Directions

    found = None if directions is None else Directions.load(directions)
    results = skill_space_results(run, found, label)
    show(results)
    publish(results, record)

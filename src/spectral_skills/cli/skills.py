"""Verbs about skills: encode clips, bases and motions, and draw a map of a corpus.

Each verb imports what it needs when it runs.
"""

from pathlib import Path

from spectral_skills import api
from spectral_skills.cli.arguments import BASE, EMBEDDED, check_file
from spectral_skills.models import RELEASED_TRACKER, Models, TrackerPaths


def skills_encode(
    name: str, /, *, skill: Path = BASE, corpus: Path = EMBEDDED, out: Path
) -> None:
    """Encode a clip into its stream of skills, one for every control step.

    Args:
        name: Name of the clip, as `corpus list` prints it.
        skill: Skill model; `base` is the one that comes with the package.
        out: File to write (.npz).
    """
    from spectral_skills.skill.encoder import encode_rows, save_stream
    from spectral_skills.skill.model import SkillModel

    check_file(out, ".npz")
    encoder = SkillModel.load(skill).encoder
    clips = api.open_corpus(corpus)
    skills = encode_rows(encoder, clips.qpos(clips.index(name))).cpu().numpy()
    save_stream(out, skills, name, encoder.fingerprint())
    print(f"{len(skills):,} skills of {skills.shape[1]} numbers    {out}")


def skills_bases(
    *, chosen: Path | None = None, skill: Path = BASE, corpus: Path, out: Path
) -> None:
    """Encode recorded motions into bases that a robot can play, without the motions.

    Args:
        chosen: List of clips and frames (.toml); by default the one of the package, for
            CMU's motions by `spectral retarget`.
        skill: Skill model; `base` is the one that comes with the package.
        out: File to write (.safetensors).
    """
    from spectral_skills.control import recorded
    from spectral_skills.skill.model import SkillModel

    check_file(out, ".safetensors")
    encoder = SkillModel.load(skill).encoder
    wanted = recorded.chosen(chosen or recorded.CHOSEN)
    made = recorded.make(encoder, api.open_corpus(corpus), wanted)
    recorded.write(out, made, encoder.fingerprint())
    for base in made.values():
        begin, end = base.loop
        seconds = f"{end / 50:.1f} s, repeated from {begin / 50:.1f} s"
        print(f"{base.name:16}{seconds:32}{base.origin.split(' (')[0]}")
    print(f"bases     {out}")


def skills_motions(
    *,
    models: TrackerPaths = RELEASED_TRACKER,
    planner: Path = BASE,
    corpus: list[Path],
    robots: int = 4,
    device: str | None = None,
    out: Path,
) -> None:
    """Encode the motions that a planner knows into skills that are played instead.

    `spectral say`, the desk and a robot then play them as they were recorded. Generated
    gestures are added to them. Robots try each motion, standing before and after; it
    is left out if one of them falls.

    Args:
        planner: Folder of the planner; `base` comes with the package.
        corpus: Folders of the corpora whose motions it has learned.
        robots: Number of robots that try a motion, the first as it is, the others with
            other masses, friction and starts; 0 tries none.
        out: File to write (.safetensors).
    """
    from spectral_skills.control import played
    from spectral_skills.planner import library

    check_file(out, ".safetensors")
    loaded = Models.load(models.controller, models.skill, None, planner, plans="skill")
    corpora = [api.open_corpus(folder) for folder in corpus]
    known = loaded.skill_planner.config.about.motions
    made = list(library.played(loaded.skill_encoder, corpora, known))
    kept = made
    if robots:
        kept = library.on_their_feet(api.runner(loaded, device), made, robots)
    if not kept:
        raise ValueError(f"robots fall on all {len(made)} motions; try --robots 0")
    played.write(out, kept, loaded.skill_encoder.fingerprint())
    stood = {one.name for one in kept}
    for one in made:
        if one.name not in stood:
            print(f"left out, a robot falls: {one.name}")
    print(f"{len(kept)} of {len(made)} motions    {out}")


def skills_map(
    *,
    skill: Path = BASE,
    corpus: Path = EMBEDDED,
    out: Path = Path("skill_map.png"),
    device: str | None = None,
) -> None:
    """Draw a corpus as the skill space sees it: a dot for each clip, coloured by kind.

    Args:
        skill: Skill model; `base` is the one that comes with the package.
        out: Picture to write.
    """
    from spectral_skills.plots.skills import draw_map
    from spectral_skills.skill.encoder import SkillBank
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.spectral.support import leave_one_clip_out

    check_file(out, ".png")
    encoder = SkillModel.load(skill, api.best_device(device)).encoder
    clips = api.open_corpus(corpus)
    bank = SkillBank.build(encoder, clips)
    draw_map(clips, bank, out)
    distance = leave_one_clip_out(bank.skills, bank.clips)
    print(f"{len(bank.skills):,} skills, std of a dimension {bank.spread():.2f}")
    print(
        f"to the nearest skill of another clip: median {distance.median:.2f}, "
        f"90 % {distance.p90:.2f}, 99 % {distance.p99:.2f}"
    )
    print(f"picture   {out}")

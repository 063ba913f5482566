"""What people call: `import spectral_skills as ss`, then `ss.load()` and so on.

Every function imports what it needs when it is called. Folders may be given as strings;
`"base"` names the released models and `"embedded"` the corpus that the package makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from spectral_skills.models import Models

if TYPE_CHECKING:
    from spectral_skills.control.rollout import Rollout
    from spectral_skills.experiments.chaining import ChainRun
    from spectral_skills.experiments.steer import Composed
    from spectral_skills.motion.corpus import Corpus
    from spectral_skills.motion.intake import Summary
    from spectral_skills.planner.listener import Spoken
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.spectral.direction_file import Directions
    from spectral_skills.tracking.policy import Controller

Folder = Path | str
Composition = Literal[
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
Planning = Literal["interfaces", "fsq", "language", "pairs", "everyday"]
"""Names of the paper's experiments on composition and on planning."""


# Motions


def open_corpus(folder: Folder = "embedded") -> "Corpus":
    """Open a corpus; `embedded` is made when it is first asked for."""
    from spectral_skills.motion.corpus import Corpus

    return Corpus.open(corpus_folder(folder))


def corpus_folder(folder: Folder) -> Path:
    """Return the folder of a corpus; that of `embedded` is made on first use."""
    if str(folder) != "embedded":
        return Path(folder)
    from spectral_skills.motion.synthetic.generate import embedded_corpus

    return embedded_corpus()


def ingest(paths: Folder | Sequence[Folder], out: Folder, **options: Any) -> "Corpus":
    """Read motion files and folders into the corpus `out`, and open it.

    Options are those of `motion.ingest.ingest`: fps, strict, pad_wrists, workers.
    Unusable files are skipped; if none is usable, nothing is written.
    """
    from spectral_skills.motion.ingest import ingest as read

    found = _paths(paths)
    return _made(read(found, Path(out), **options), found, out)


def retarget(paths: Folder | Sequence[Folder], out: Folder, **options: Any) -> "Corpus":
    """Bring human motion onto the robot, as the corpus `out`, and open it.

    Options are those of `motion.human.retarget.retarget`: text, map, fps, units, up,
    body_model, balance, workers. Unusable motions are skipped; if none is usable,
    nothing is written.
    """
    from spectral_skills.motion.human.retarget import retarget as run

    for name in {"text", "map", "body_model"} & options.keys():
        options[name] = Path(options[name]) if options[name] else None
    found = _paths(paths)
    return _made(run(found, Path(out), **options), found, out)


def _paths(given: Folder | Sequence[Folder]) -> list[Path]:
    """Files and folders to read; one alone needs no list."""
    alone = isinstance(given, str | Path)
    if not (paths := [Path(path) for path in ([given] if alone else given)]):
        raise ValueError("name files or folders of motions to read")
    return paths


def _made(summary: "Summary", paths: list[Path], out: Folder) -> "Corpus":
    if not summary.clips:
        raise ValueError(f"{out}: no usable motion in {', '.join(map(str, paths))}")
    return open_corpus(out)


def synth(
    out: Folder,
    recipe: str = "base",
    *,
    clips: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
) -> "Corpus":
    """Generate a corpus of G1 motion with text; the same seed gives the same bytes on
    one machine, and elsewhere what differs by rounding."""
    from spectral_skills import recipes
    from spectral_skills.motion.synthetic.generate import synthesise

    changes = {"clips": clips, "seed": seed}
    config = replace(
        recipes.synth(recipe),
        **{name: value for name, value in changes.items() if value is not None},
    )
    synthesise(Path(out), config, workers)
    return open_corpus(out)


# Learning


def best_device(name: str | None = None) -> str:
    """Return the device asked for, or the best one there is."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.split(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"no device {name!r}; there are cpu and cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device here; run it with --device cpu")
    return name


def pretrain(
    recipe: str,
    corpora: Sequence[Folder],
    out: Folder,
    *,
    settings: Any = None,
    device: str | None = None,
) -> "SkillModel":
    """Learn a skill space; a killed run continues with the same call.

    `settings` is the recipe's configuration with changes: `recipes.pretrain(recipe)`.
    """
    from spectral_skills import recipes
    from spectral_skills.plots.curves import draw_curves
    from spectral_skills.skill import pretrain as training

    default = recipes.pretrain(recipe)
    words = ["spectral pretrain", recipe, "--corpus", *_names(corpora)]
    return training.pretrain(
        settings or default,
        [open_corpus(folder) for folder in corpora],
        Path(out),
        best_device(device),
        command_line(words, settings or default, default),
        draw_curves,
    )


def find_directions(
    skill: Folder = "base",
    corpora: Sequence[Folder] = ("embedded",),
    *,
    targets: Sequence[str] = (),
    contexts: int = 4096,
    seed: int = 0,
    level: int = 2,
    held_out: float = 0.0,
    controller: Folder | None = None,
    device: str | None = None,
) -> "Directions":
    """Find the directions of a skill space; no window is of a clip held out.

    With a controller, every target is also solved by what a robot was measured to do on
    clips of these corpora that walk.

    Each of `targets`, such as `"right_elbow=-0.5"` or `"speed=0.2,turn=0.3"`, asks for
    one more; to the released directions they are added, and those are not computed
    again.
    """
    import numpy as np

    from spectral_skills.motion import motion_sets
    from spectral_skills.motion.windows import MotionTensors, WindowSampler
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.spectral.direction_file import Directions
    from spectral_skills.spectral.directions import TARGETS, find
    from spectral_skills.spectral.wishes import wished

    where = best_device(device)
    wanted = wished(targets)
    model = SkillModel.load(skill, where)
    model.predictor  # noqa: B018  say at once if it is missing
    opened = [open_corpus(folder) for folder in corpora]
    used, _ = motion_sets.hold_out(opened, held_out)
    motions = MotionTensors.join([corpus.to(where) for corpus in used])
    sampler = WindowSampler(motions, model.config.windows)
    data_hash = "+".join(corpus.hash for corpus in opened)
    rest = contexts, seed, data_hash
    robot = None
    if controller is not None:
        from spectral_skills.experiments.identify import identify

        lab = runner(Models.load(controller, skill, None, None, where), device=where)
        robot = partial(identify, lab, used, seed=seed)
    if not wanted or str(skill) != "base":
        own = [target.name for target in wanted]
        known = [target for target in TARGETS if target.name not in own]
        return find(model, sampler, *rest, (*known, *wanted), level, robot)
    found = find(model, sampler, *rest, wanted, level, robot)
    new = np.isin(found.families, ("target", "robot"))
    return Directions.load(skill).extended(found.select(new))


def track(
    recipe: str,
    corpora: Sequence[Folder],
    skill: Folder | None,
    out: Folder,
    *,
    init: Folder | None = None,
    settings: Any = None,
    device: str | None = None,
) -> "Controller":
    """Train a controller; a killed run continues with the same call.

    `settings` is the recipe's configuration with changes: `recipes.track(recipe)`.
    """
    from spectral_skills import recipes
    from spectral_skills.experiments.tracking import probe_of
    from spectral_skills.plots.curves import draw_curves
    from spectral_skills.skill.model import SkillModel
    from spectral_skills.tracking.start import commanded, sides
    from spectral_skills.tracking.train import train

    default = recipes.track(recipe)
    settings = settings or default
    where = best_device(device)
    opened = [open_corpus(folder) for folder in corpora]
    encoder = None if skill is None else SkillModel.load(skill, where).encoder
    begin = None if init is None else Path(init)
    commanded(settings.controller, encoder, begin)  # refuse misfits at once
    probe = None
    if settings.probe_clips:
        trained_on, unseen = sides(opened, settings.held_out)
        clips = unseen or trained_on
        probe = probe_of(clips, encoder, settings.probe_clips, where, settings.physics)
    words = ["spectral track", recipe, "--corpus", *_names(corpora)]
    words += [] if skill is None else ["--skill", *_names([skill])]
    words += [] if init is None else ["--init", *_names([init])]
    command = command_line(words, settings, default)
    rest = begin, probe, draw_curves, command
    return train(settings, opened, encoder, Path(out), where, *rest)


def command_line(words: Sequence[str], settings: Any, recipe: Any) -> str:
    """Return a command without folders: words, and what differs from a recipe."""
    from spectral_skills.config import differences

    changes = differences(settings, recipe)
    options = [f"--{name.replace('_', '-')} {v}" for name, v in changes.items()]
    return " ".join([*words, *options])


def _names(folders: Sequence[Folder]) -> list[str]:
    return [Path(folder).name for folder in folders]


# Running


def load(
    controller: Folder = "base",
    skill: Folder = "base",
    directions: Folder | None = "base",
    planner: Folder | None = "base",
    device: str = "cpu",
) -> Models:
    """Load models that belong together: the released ones by default."""
    return Models.load(controller, skill, directions, planner, device)


def follow(models: Models, clip: str, corpus: Folder = "embedded") -> "Rollout":
    """Let a robot follow a clip in MuJoCo on the CPU."""
    from spectral_skills.control.run import follow as run

    clips = open_corpus(corpus)
    return run(models.controller, models.encoder, clips.select([clips.index(clip)]))


def steer(
    models: Models,
    base: str = "walk",
    knobs: Mapping[str, float] | Sequence[Any] = (),
    *,
    seconds: float = 8.0,
    corpus: Folder = "embedded",
    seed: int | None = None,
    records: Path | None = None,
) -> "Composed":
    """Run a base with knobs and without, and measure what the knobs changed.

    Knobs are amplitudes by the names of directions, or `control.steering.Knob`s, which
    also say when they rise and fall.
    """
    from spectral_skills.experiments import steer as steering

    if isinstance(knobs, Mapping):
        names, amplitudes = list(knobs), list(knobs.values())
        knobs = steering.knobs(names, amplitudes, seconds)
    lab, clips = runner(models, records=records), open_corpus(corpus)
    return steering.steer(lab, clips, base, knobs, seconds, seed)


def chain(
    models: Models,
    names: Sequence[str],
    switch: int = 10,
    *,
    records: Path | None = None,
) -> "tuple[ChainRun, ChainRun]":
    """Play one skill after another: blended over each switch, and switched at once."""
    from spectral_skills.experiments.chaining import execute

    if len(names) < 2 or switch < 1:
        raise ValueError("a chain needs two skills and a switch of at least a step")
    blended, hard = execute(runner(models, records=records), [names], (switch, 0))
    return blended, hard


def say(models: Models, text: str, **options: Any) -> "Spoken":
    """Let a standing robot do what a sentence says.

    The models run as a bundle does on a robot; it is made when they are first used.
    Options are those of `planner.listener.speak`: every, seconds, seed.
    """
    from spectral_skills.control.bundle import Bundle
    from spectral_skills.planner.listener import speak
    from spectral_skills.planner.model import check_text
    from spectral_skills.planner.text import MiniLM

    words = MiniLM()
    check_text(models.skill_planner, words)
    words.encode([text])  # say at once if the language model is missing
    return speak(Bundle.open(bundle(models)), words, text, **options)


def runner(models: Models, device: str | None = None, records: Path | None = None):
    """Return what executes runs of these models, keeping them under `records`."""
    from spectral_skills.control.batch import Runner

    where = best_device(device or "cpu")
    parts = models.controller, models.encoder, models.directions
    return Runner(*parts, where, records, hashes=models.hashes)


def film(run: Any, path: Folder, caption: str = "") -> list[Path]:
    """Write a film of a rollout, or of a steered, chained or spoken run.

    Returns the files: a .gif and, where imageio-ffmpeg is installed, an .mp4.
    """
    from spectral_skills.control.rollout import Rollout
    from spectral_skills.plots.film import write_film

    record = run
    if hasattr(run, "rollout"):  # what was planned has no reference
        record = replace(run.rollout, reference=None)
    elif hasattr(run, "steered"):
        record = Rollout.of_rows(run.title, run.steered.rows, run.plain.rows)
        caption = caption or "blue: the same without steering"
    elif hasattr(run, "executed"):
        record = Rollout.of_rows(run.executed.run.base.name, run.executed.rows)
    return write_film(record, Path(path), caption=caption)


# Measuring and taking away


def evaluate(
    table: str,
    models: Models | None = None,
    *,
    out: Folder | None = None,
    corpus: Folder = "embedded",
    device: str | None = None,
    **options: Any,
) -> Any:
    """Measure a table of the paper, with the released models by default.

    `tracking` measures how well the models track a corpus, or the named `set` of it,
    and returns results with the outcome of every clip (an `Evaluation`). `readout`
    measures skill models (`skill`) on `corpora` and returns two lists of results.
    All other tables return findings: those on planning (`interfaces`, `fsq`,
    `language`, `pairs`, `everyday`), those on composition (`dose`, `ladder`, ...) and
    `chaining`. The last two kinds keep their runs under `out`, so that an interrupted
    experiment continues. Options are those of the experiment; models to compare with
    are `Models`.
    """
    from importlib import import_module

    from spectral_skills.experiments.findings import EXPERIMENTS, RECORDS

    known = "tracking", "readout", "chaining", *get_args(Planning)
    known += get_args(Composition)
    if table not in known:
        raise ValueError(f"no table {table!r}; there are {', '.join(known)}")
    where = best_device(device)
    if table == "readout":
        from spectral_skills.experiments.skills import tables

        folders = options.pop("corpora", ["embedded"])
        corpora = [open_corpus(folder) for folder in folders]
        return tables(corpora=corpora, device=where, **options)
    models = models or load(device=where)
    if table == "tracking":
        return _tracking(models, open_corpus(corpus), where, **options)
    if table == "everyday":
        from spectral_skills.control.bundle import Bundle
        from spectral_skills.experiments.everyday import everyday

        return everyday(models, Bundle.open(bundle(models)), **options)
    if table in get_args(Planning):
        from spectral_skills.experiments.planning import evaluate as plan

        corpora = [open_corpus(one) for one in options.pop("corpora", [corpus])]
        return plan(table, models, corpora, where, **options)
    records = None if out is None else Path(out) / RECORDS

    def as_runner(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: as_runner(one) for name, one in value.items()}
        return runner(value, where, records) if isinstance(value, Models) else value

    module = import_module(f"spectral_skills.experiments.{EXPERIMENTS[table]}")
    return getattr(module, table)(as_runner(models), **as_runner(options))


def _tracking(
    models: Models,
    clips: "Corpus",
    device: str,
    set: str = "all",
    held_out: float = 0.0,
    kinds: Path | None = None,
):
    from spectral_skills.experiments import lafan1, tracking
    from spectral_skills.motion import motion_sets

    if set in ("lafan1", "lafan1-windows"):
        if held_out or kinds is not None:
            raise ValueError(f"{set} has clips and kinds of its own")
        return lafan1.evaluate(models, clips, device, whole=set == "lafan1")
    notes = []
    if held_out:
        total, (clips,) = len(clips), motion_sets.hold_out([clips], held_out)[1]
        notes.append(f"{len(clips):,} of {total:,} clips, held out by {held_out:g}")
    if set != "all":
        chosen = getattr(motion_sets, f"{set}_set")(clips)
        clips = clips.select(chosen.indices)
        notes.append(chosen.note)
    known = None if kinds is None else motion_sets.read_kinds(kinds)
    found = tracking.evaluate(models, tracking.Course(clips, device), known)
    return replace(found, note="; ".join(notes))


def bundle(models: Models | None = None) -> Path:
    """Return the folder of a bundle of models, by default of the released ones.

    It is made on first use; nothing heavy is imported if it exists already.
    """
    from spectral_skills.runtime.kept import kept_bundle

    return kept_bundle(models)


def export(models: Models, out: Folder, **options: Any) -> Path:
    """Write a bundle that drives a robot or the desk without torch.

    Options are those of `runtime.export.export`: bases, corpora, joint_order, words,
    streams, motions.
    """
    from spectral_skills.runtime.export import export as write

    write(models, Path(out), **options)
    return Path(out)


def __getattr__(name: str) -> Any:
    if name == "Session":
        from spectral_skills.control.session import Session

        return Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

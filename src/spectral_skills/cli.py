"""The command line. Each verb imports what it needs when it runs, so that help is
instant."""

import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

NOTHING_USABLE = 2
INTERRUPTED = 130


def doctor() -> int:
    """Check the installation: versions, devices, rendering, missing parts."""
    from spectral_skills.doctor import examine

    return examine()


def ingest(
    paths: list[Path],
    /,
    *,
    out: Path,
    fps: float | None = None,
    strict: bool = False,
    pad_wrists: bool = False,
    workers: int | None = None,
) -> int:
    """Read motion files of any known format into a corpus.

    Folders are searched; formats are told apart by content. What is broken is
    refused with a reason, the rest is taken. A corpus already at OUT is replaced.
    Exit code 2 if nothing was usable.

    Args:
        paths: Files and folders of motions.
        out: Folder of the corpus.
        fps: Frame rate of the files, where they do not say or say it wrong.
        strict: Stop at the first file that is refused.
        pad_wrists: Take 23-joint clips and hold their wrists at zero.
        workers: Reading processes; all cores by default.
    """
    from spectral_skills.motion.clip import ClipError
    from spectral_skills.motion.ingest import ingest as run

    try:
        summary = run(
            paths,
            out,
            fps=fps,
            strict=strict,
            pad_wrists=pad_wrists,
            workers=workers,
        )
    except ClipError as error:
        raise ValueError(f"stopped by --strict: {error}") from None
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    if not summary.files:
        print("no motion files there: csv, npz, pkl, joblib", file=sys.stderr)
        return NOTHING_USABLE
    print("\n".join(summary.lines()))
    if not summary.clips:
        print("nothing was usable; no corpus was written", file=sys.stderr)
        return NOTHING_USABLE
    print(f"corpus    {out}")
    return 0


def corpus_info(corpus: Path | None = None, /, *, json: bool = False) -> None:
    """Count clips, frames and hours, by source, licence and kind.

    Args:
        corpus: Folder of the corpus; by default the embedded one, made on first use.
        json: Print one JSON object instead of a table.
    """
    from spectral_skills.report.corpus import print_info

    print_info(_or_embedded(corpus), as_json=json)


def corpus_list(
    corpus: Path | None = None,
    /,
    *,
    match: str = "",
    limit: int | None = None,
    notes: bool = False,
) -> None:
    """List clips: name, seconds, source, text.

    Args:
        corpus: Folder of the corpus; by default the embedded one, made on first use.
        match: Only clips with this in their name or text.
        limit: At most so many.
        notes: Also print what is remarkable about each clip.
    """
    from spectral_skills.report.corpus import print_list

    print_list(_or_embedded(corpus), match=match, limit=limit, notes=notes)


def corpus_show(
    name: str, corpus: Path | None = None, /, *, out: Path | None = None
) -> None:
    """Draw a clip: contact sheet, foot heights, root and joint curves.

    Args:
        name: Name of the clip, as `corpus list` prints it.
        corpus: Folder of the corpus; by default the embedded one, made on first use.
        out: Picture to write; NAME.png here by default.
    """
    from spectral_skills.report.corpus import draw_clip

    file_name = re.sub(r"[^\w.~ +-]", "_", name)
    draw_clip(_or_embedded(corpus), name, out or Path(f"{file_name}.png"))


def corpus_check(
    corpus: Path | None = None,
    /,
    *,
    against: Path | None = None,
    record: Path | None = None,
    json: bool = False,
) -> None:
    """Measure how plausible the motions are: soles, balance, forces, motors, gait.

    Args:
        corpus: Folder of the corpus; by default the embedded one, made on first use.
        against: Folder of another corpus, to show the same of it.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
        json: Print one JSON object, with every clip, instead of tables.
    """
    from spectral_skills.report.plausibility import print_check

    print_check(
        _or_embedded(corpus),
        as_json=json,
        label="Embedded corpus" if corpus is None else "",
        against=against,
        record=record,
    )


def _or_embedded(corpus: Path | None) -> Path:
    """The given corpus, or the one that is made when first asked for."""
    if corpus is not None:
        return corpus
    from spectral_skills.motion.synthetic.generate import embedded_corpus

    return embedded_corpus()


def synth(
    recipe: Literal["base", "smoke"] = "base",
    /,
    *,
    out: Path,
    clips: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
) -> int:
    """Generate a corpus of G1 motion with text; nothing is downloaded.

    The same recipe, size and seed give the same bytes. A killed run goes on where
    it was. A corpus already at OUT is replaced.

    Args:
        recipe: base is the embedded corpus, about an hour; smoke takes seconds.
        out: Folder of the corpus.
        clips: Number of clips instead of the recipe's.
        seed: Seed instead of the recipe's.
        workers: Working processes; all cores by default.
    """
    import time
    from dataclasses import replace

    from spectral_skills import recipes
    from spectral_skills.motion.corpus import Corpus
    from spectral_skills.motion.synthetic.generate import synthesise

    config = getattr(recipes, f"synth_{recipe}")()
    asked = {"clips": clips, "seed": seed}
    config = replace(config, **{k: v for k, v in asked.items() if v is not None})
    start = time.perf_counter()
    try:
        synthesise(out, config, workers)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    corpus = Corpus.open(out)
    print(
        f"{len(corpus):,} clips, {corpus.frames:,} frames, {corpus.hours:.2f} h "
        f"in {time.perf_counter() - start:.0f} s"
    )
    print(f"corpus    {out}")
    print(f"look      spectral corpus show {corpus.names[0]} {out}")
    return 0


def demo(*, out: Path = Path("demo")) -> None:
    """Draw the embedded corpus, read motion files, write a page with pictures.

    Args:
        out: Folder for the page and everything it shows.
    """
    from spectral_skills.report.demo import build

    print(f"open {build(_or_embedded(None), out)}")


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

    Recipes: paper, lafan1, base, smoke, and ablation-* (an unknown name lists all).
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
    from spectral_skills.motion.corpus import Corpus
    from spectral_skills.report.training import draw_curves
    from spectral_skills.skill import pretrain as training
    from spectral_skills.skill.distributed import rank

    settings = config or recipes.pretrain(recipe)
    where = _device(device)
    corpora = [Corpus.open(_corpus(folder)) for folder in corpus]
    command = " ".join(["spectral pretrain", recipe, *sys.argv[3:]])
    try:
        model = training.pretrain(settings, corpora, out, where, command, draw_curves)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    if rank() == 0:
        print(f"model     {out / 'model'}")
        print(f"curves    {out / 'curves.png'}")
        if release is not None:
            from spectral_skills.artifact import load_provenance

            model.release(release, load_provenance(out / "model"))
            print(f"release   {release}")
    return 0


def evaluate_readout(
    *,
    skill: list[Path],
    corpus: list[Path],
    held_out: float = 4,
    seed: int = 0,
    device: str | None = None,
    record: Path | None = None,
) -> None:
    """Measure what a linear map reads from skills: poses now and later, root motion.

    Args:
        skill: Skill models, one row each.
        corpus: Folders of corpora; `embedded` is the one this package makes.
        held_out: Clips to score on, as in training: a share, or a number from 1 on.
        seed: Seed of the split, as in training, and of the windows.
        device: cpu or cuda; cuda where there is one.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from spectral_skills.evaluation.readout import table
    from spectral_skills.motion.corpus import Corpus
    from spectral_skills.report.tables import publish, show

    corpora = [Corpus.open(_corpus(folder)) for folder in corpus]
    results = table(skill, corpora, held_out, seed, _device(device))
    show(results)
    if record is not None:
        publish(results, record)


def _corpus(folder: Path) -> Path:
    return _or_embedded(None if str(folder) == "embedded" else folder)


def _device(name: str | None) -> str:
    """The device asked for, or the best there is."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device here; run it with --device cpu")
    return name


def bench(
    what: Literal["kinematics", "windows", "corpus", "ik", "synth", "pretrain"],
    /,
    *,
    device: str = "cpu",
    record: Path | None = None,
) -> None:
    """Measure speed against the physical limit of this machine.

    Args:
        what: The part to measure.
        device: cpu or cuda.
        record: File of results to update (docs/results.jsonl); the page beside it
            is rewritten.
    """
    from importlib import import_module

    from spectral_skills.report.tables import publish, show

    room = {"ik": "motion.bench_ik", "pretrain": "skill.bench"}.get(
        what, "motion.bench"
    )
    measure = getattr(import_module(f"spectral_skills.{room}"), what)
    results = measure(_device(device))
    show(results)
    if record is not None:
        publish(results, record)


VERBS: dict[str, Callable] = {
    "doctor": doctor,
    "ingest": ingest,
    "synth": synth,
    "corpus info": corpus_info,
    "corpus list": corpus_list,
    "corpus show": corpus_show,
    "corpus check": corpus_check,
    "pretrain": pretrain,
    "evaluate readout": evaluate_readout,
    "demo": demo,
    "bench": bench,
}


def usage() -> str:
    """What `spectral --help` prints."""
    width = max(map(len, VERBS))
    lines = [
        "Spectral Skills: a skill space for humanoids, with knobs that add.",
        "",
        "usage: spectral VERB [options]        spectral VERB --help",
        "",
    ]
    for verb, function in VERBS.items():
        summary = (inspect.getdoc(function) or "").splitlines()[0]
        lines.append(f"  {verb:<{width}}  {summary}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run a verb."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(version("spectral-skills"))
        return
    for words in (2, 1):
        verb = " ".join(arguments[:words])
        if verb in VERBS:
            sys.exit(_run(verb, arguments[words:]))
    inner = [v for v in VERBS if v.startswith(f"{arguments[0]} ")]
    asked = f"unknown verb {arguments[0]!r}"
    if inner:
        asked = f"{arguments[0]} needs one of: {', '.join(v.split()[1] for v in inner)}"
        if {"-h", "--help"} & set(arguments):
            print(usage())
            return
    print(f"{asked}\n\n{usage()}", file=sys.stderr)
    sys.exit(1)


def _with_recipe(verb: str, arguments: list[str]) -> tuple[Callable, list[str]]:
    """A verb's function and arguments; every field of a named recipe is an option."""
    import tyro

    function = VERBS[verb]
    parameters = dict(inspect.signature(function).parameters)
    if "config" not in parameters:
        return function, arguments
    given = {}
    settings, default = Annotated[Any, tyro.conf.Suppress], None
    if arguments and not arguments[0].startswith("-"):
        from spectral_skills import recipes

        given["recipe"], *arguments = arguments
        del parameters["recipe"]
        default = getattr(recipes, verb)(given["recipe"])
        settings = Annotated[type(default), tyro.conf.arg(name="")]
    parameters["config"] = parameters["config"].replace(
        default=default, annotation=settings
    )

    def run(*args, **kwargs):
        return function(*given.values(), *args, **kwargs)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore
    run.__annotations__ = {p.name: p.annotation for p in parameters.values()}
    run.__doc__ = function.__doc__
    return run, arguments


def _run(verb: str, arguments: list[str]) -> int:
    import tyro

    try:
        function, arguments = _with_recipe(verb, arguments)
        code = tyro.cli(function, args=arguments, prog=f"spectral {verb}")
    except SystemExit as stop:
        # 2 means that nothing was usable; a mistyped option is another matter.
        return 1 if stop.code == 2 else int(stop.code or 0)
    except BrokenPipeError:
        # The reader of our output, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ModuleNotFoundError) as error:
        # These are written for users; anything else is a bug and shows its trace.
        if os.environ.get("SPECTRAL_DEBUG"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    return code or 0

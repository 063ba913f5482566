"""Verbs about motions: read, generate, list, draw and check them.

Each verb imports what it needs when it runs.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spectral_skills import api
from spectral_skills.cli.arguments import (
    EMBEDDED,
    INTERRUPTED,
    NOTHING_USABLE,
    check_file,
    check_folder,
    check_length,
)

if TYPE_CHECKING:
    from spectral_skills.motion.intake import Summary


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

    Folders are searched; formats are recognised by content. Broken files are
    refused with a reason, and the rest is read. A corpus already at OUT is replaced.
    Exit code 2 if nothing was usable.

    Args:
        paths: Files and folders of motions.
        out: Folder of the corpus.
        fps: Frame rate of files that do not state it or state it wrongly.
        strict: Stop at the first file that is refused.
        pad_wrists: Take 23-joint clips and hold their wrists at zero.
    """
    from spectral_skills.motion.clip import ClipError
    from spectral_skills.motion.ingest import SUFFIXES
    from spectral_skills.motion.ingest import ingest as run

    if not paths:
        raise ValueError("name files or folders of motions to read")
    check_folder(out)
    options = {"strict": strict, "pad_wrists": pad_wrists, "workers": workers}
    try:
        return _made(lambda: run(paths, out, fps=fps, **options), paths, SUFFIXES, out)
    except ClipError as error:
        raise ValueError(f"stopped by --strict: {error}") from None


def retarget(
    paths: list[Path],
    /,
    *,
    out: Path,
    text: Path | None = None,
    map: Path | None = None,
    fps: float | None = None,
    units: str | None = None,
    up: str | None = None,
    body_model: Path | None = None,
    balance: bool = False,
    page: bool = True,
    jobs: int | None = None,
) -> int:
    """Bring human motion onto the robot: BVH files, joint positions, the CMU set.

    Folders are searched. Skeleton, units, up axis, frame rate and floor are found from
    the motion, and `corpus list --notes` says what was found. Motions that cannot be
    read, or that come out bad, are refused with a reason. A killed run continues where
    it stopped. A corpus already at OUT is replaced. Exit code 2 if nothing was usable.

    Args:
        paths: Files and folders of human motion.
        out: Folder of the corpus.
        text: Table (.csv) with the columns name and text, one row for each motion.
        map: Which joint is which point of the body (.toml), for skeletons that are
            not understood; the message about one has a template.
        fps: Frame rate of the files, if they state it wrongly or not at all.
        units: Unit of length of the files: m, dm, cm, mm, in, cmu (that of
            CMU's BVH files), or metres for one unit as a number.
        up: Axis of the files that points up: x, y, z, -x, -y or -z.
        body_model: Your own SMPL model, or a folder of them, for AMASS files.
        balance: Shift the hips so that the weight is over the feet; takes three times
            as long.
        page: Write retarget.html into OUT: measures, films, every clip and refusal.
    """
    from spectral_skills.motion.human.retarget import measured
    from spectral_skills.motion.human.retarget import retarget as run
    from spectral_skills.motion.human.sources import SUFFIXES

    if not paths:
        raise ValueError("name files or folders of human motion to read")
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs {jobs}: at least 1")
    check_folder(out)

    def make() -> "Summary":
        return run(
            paths,
            out,
            text=text,
            map=map,
            fps=fps,
            units=units,
            up=up,
            body_model=body_model,
            balance=balance,
            workers=jobs,
        )

    def show(summary: "Summary") -> None:
        corpus = api.open_corpus(out)
        print("\n".join(f"measured  {line}" for line in measured(corpus)))
        print(f"look      spectral corpus show {corpus.names[0]} {out}")
        if page:
            # Films take longer than the motions do where these are few.
            print("the page is being drawn; --no-page leaves it out", file=sys.stderr)
            from spectral_skills.motion.corpus import PAGE
            from spectral_skills.plots.human_page import write_page

            start = time.perf_counter()
            path = write_page(out, out / PAGE, summary.refusals, jobs)
            print(f"page      {path}, drawn in {time.perf_counter() - start:.1f} s")

    return _made(make, paths, SUFFIXES, out, show, "motions")


def _made(
    make: "Callable[[], Summary]",
    paths: list[Path],
    endings: Sequence[str],
    out: Path,
    show: "Callable[[Summary], None]" = lambda summary: None,
    what: str = "files",
) -> int:
    """Make a corpus of files, and print what became of them."""
    try:
        summary = make()
    except KeyboardInterrupt:
        print("stopped; the same command continues it", file=sys.stderr)
        return INTERRUPTED
    if not summary.files:
        where, known = ", ".join(map(str, paths)), ", ".join(endings)
        print(f"{where}: no motion files, which end in {known}", file=sys.stderr)
        return NOTHING_USABLE
    print("\n".join(summary.lines(what)))
    if not summary.clips:
        print("nothing was usable; no corpus was written", file=sys.stderr)
        return NOTHING_USABLE
    print(f"corpus    {out}")
    try:
        show(summary)
    except KeyboardInterrupt:
        print("stopped; the corpus is whole", file=sys.stderr)
        return INTERRUPTED
    return 0


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

    On one machine the same recipe, size and seed give the same bytes; on another
    they may differ by rounding. A killed run continues where it stopped. A corpus
    already at OUT is replaced.

    Args:
        recipe: base is the embedded corpus, about an hour; smoke takes seconds.
        out: Folder of the corpus.
        clips: Number of clips instead of the recipe's.
        seed: Seed instead of the recipe's.
    """
    check_folder(out)
    start = time.perf_counter()
    try:
        corpus = api.synth(out, recipe, clips=clips, seed=seed, workers=workers)
    except KeyboardInterrupt:
        print("stopped; the same command continues it", file=sys.stderr)
        return INTERRUPTED
    print(
        f"{len(corpus):,} clips, {corpus.frames:,} frames, {corpus.hours:.2f} h "
        f"in {time.perf_counter() - start:.0f} s"
    )
    print(f"corpus    {out}")
    print(f"look      spectral corpus show {corpus.names[0]} {out}")
    return 0


def corpus_info(corpus: Path = EMBEDDED, /, *, json: bool = False) -> None:
    """Count clips, frames and hours, by source, licence and kind.

    Args:
        json: Print one JSON object instead of a table.
    """
    from spectral_skills.plots.corpus import print_info

    print_info(api.corpus_folder(corpus), as_json=json)


def corpus_list(
    corpus: Path = EMBEDDED,
    /,
    *,
    match: str = "",
    limit: int | None = None,
    notes: bool = False,
) -> None:
    """List clips: name, seconds, source, text.

    Args:
        match: Only clips with this in their name or text.
        limit: Largest number of clips to list.
        notes: Also print what is remarkable about each clip.
    """
    from spectral_skills.plots.corpus import print_list

    print_list(api.corpus_folder(corpus), match=match, limit=limit, notes=notes)


def corpus_show(
    name: str,
    corpus: Path = EMBEDDED,
    /,
    *,
    out: Path | None = None,
    film: bool = False,
    film_seconds: float = 20.0,
) -> None:
    """Draw a clip: contact sheet, foot heights, root and joint curves.

    Where it was made from a person's motion, the person is drawn beside the robot.

    Args:
        name: Name of the clip, as `corpus list` prints it.
        out: Picture to write (.png); NAME.png here by default.
        film: Draw a film too (.gif, .mp4), beside the picture.
        film_seconds: Length of the film at most.
    """
    from spectral_skills.plots.corpus import draw_clip

    picture = out or Path(re.sub(r"[^\w.~ +-]", "_", name) + ".png")
    check_file(picture, ".png")
    check_length("--film-seconds", film_seconds)
    seconds = film_seconds if film else None
    draw_clip(api.corpus_folder(corpus), name, picture, seconds)


def corpus_check(
    corpus: Path = EMBEDDED,
    /,
    *,
    against: Path | None = None,
    record: Path | None = None,
    json: bool = False,
) -> None:
    """Measure how plausible the motions are: soles, balance, forces, motors, gait.

    Args:
        against: Folder of another corpus to compare it with.
        json: Print one JSON object, with every clip, instead of tables.
    """
    from spectral_skills.plots.corpus import print_check

    print_check(
        api.corpus_folder(corpus),
        as_json=json,
        label="Embedded corpus" if corpus == EMBEDDED else "",
        against=against,
        record=record,
    )

"""Files in, a corpus out: what `spectral ingest` and `spectral retarget` share.

A file that cannot be used costs that file only, and the reason is reported. Words come
from a table that is given, from a sidecar file, from the motion's own file, or from
the clip's name.
"""

import csv
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.corpus_writer import CorpusWriter, Refusal
from spectral_skills.motion.human.rows import HumanRows
from spectral_skills.motion.motion_sets import text_from_name
from spectral_skills.motion.readers.assemble import TEXT_LENGTH, printable, sentences
from spectral_skills.workers import in_order

TABLE = "metadata.csv"
_ENDING = re.compile(r"\.(csv|npz|npy|pkl|joblib|bvh)$", re.IGNORECASE)
_CMU_LIKE = re.compile(r"\D*(\d{2,3}_\d{2})")
_NAME_COLUMNS = ("name", "filename", "file_name", "move_name")
_TEXT_COLUMNS = (
    "text",
    *(f"content_natural_desc_{i}" for i in range(1, 5)),
    "content_short_description",
)


def walk(
    paths: Iterable[Path], whole: Callable[[Path], bool], wanted: Callable[[Path], bool]
) -> list[Path]:
    """The files among paths, and in folders those that are `wanted`.

    Given files are kept whatever they are called; a `whole` folder counts as one file.
    The order is that of the paths, sorted within a folder.
    """
    found: dict[Path, None] = {}
    seen: set[str] = set()

    def expand(folder: Path) -> Iterator[Path]:
        # Links may lead round in circles: each folder is entered once.
        here = os.path.realpath(folder)
        if here in seen:
            return
        seen.add(here)
        try:
            one = whole(folder)
            children = [] if one else sorted(folder.iterdir())
        except OSError:
            one, children = True, []  # whoever reads it will say why
        if one:
            yield folder
        for child in children:
            if child.name.startswith("."):
                continue
            if child.is_dir():
                yield from expand(child)
            elif wanted(child):
                yield child

    for path in map(Path, paths):
        # A link that leads nowhere is refused with its reason, as within a folder.
        if not path.exists() and not path.is_symlink():
            raise FileNotFoundError(f"{path}: no such file or folder")
        found.update(dict.fromkeys(expand(path) if path.is_dir() else [path]))
    return list(found)


class Description(NamedTuple):
    """What a sidecar says about a clip; empty where it is silent."""

    text: str = ""
    source: str = ""
    licence: str = ""


class Sidecars:
    """Looks for NAME.txt beside a motion and metadata.csv there or one folder up.

    A table of words that is given goes before them.
    """

    def __init__(self, given: Path | None = None):
        try:
            self._given = {} if given is None else read_table(given)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{given}: {error}") from None
        self._tables: dict[Path, dict[str, Description]] = {}
        self.problems: list[str] = []  # sidecars that could not be used, and why

    def knows(self, name: str) -> bool:
        """Whether the given table describes a clip."""
        return self._row(name) is not None

    def describe(self, path: Path, name: str) -> Description:
        """The description of clip `name` that was read from `path`."""
        given = self._row(name) or Description()
        beside = self._beside(path, name)
        return Description(*(a or b for a, b in zip(given, beside, strict=True)))

    def _row(self, name: str) -> Description | None:
        """Of the given table; cmu_35_22 is 35_22, as CMU's index has it."""
        key = _table_key(name)
        number = _CMU_LIKE.fullmatch(key)
        return self._given.get(key) or self._given.get(number[1] if number else key)

    def _beside(self, path: Path, name: str) -> Description:
        near_and_far = map(self._table, (path.parent, path.parent.parent))
        rows = (table.get(_table_key(name)) for table in near_and_far)
        found = next((row for row in rows if row is not None), Description())
        # A name from inside a library may look like a path: it must not lead away.
        if Path(name).name != name:
            return found
        try:
            note = (path.parent / f"{name}.txt").read_text("utf-8-sig", "replace")
        except OSError:
            return found
        return found._replace(text=sentences([note]) or found.text)

    def _table(self, folder: Path) -> dict[str, Description]:
        if folder not in self._tables:
            path = folder / TABLE
            self._tables[folder] = {}
            try:
                if path.is_file():
                    self._tables[folder] = read_table(path)
            except (OSError, ValueError, csv.Error) as error:
                self.problems.append(f"{path}: not used: {printable(error, 200)}")
        return self._tables[folder]


def read_table(path: Path) -> dict[str, Description]:
    """Rows of a metadata table by clip name; BONES-SEED's columns are known too."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        keys = [c for c in _NAME_COLUMNS if c in columns]
        texts = [c for c in _TEXT_COLUMNS if c in columns]
        if not keys or not texts:
            has = ", ".join(columns) or "none"
            raise ValueError(f"it needs the columns name and text, and has {has}")
        table = {}
        for row in reader:
            licence = row.get("licence") or row.get("license") or ""
            # CMU's index calls the file a clip was read from its source.
            source = printable(row.get("source") or "", TEXT_LENGTH)
            description = Description(
                text=sentences(dict.fromkeys(row[c] or "" for c in texts)),
                source="" if _ENDING.search(source) else source,
                licence=printable(licence, TEXT_LENGTH),
            )
            for key in keys:
                if row[key]:
                    table.setdefault(_table_key(row[key]), description)
    return table


def _table_key(name: str) -> str:
    """Table rows name clips with or without an ending or folders."""
    return _ENDING.sub("", name.replace("\\", "/").rsplit("/", 1)[-1])


def stamp(path: Path) -> str:
    """State of a file, so that what has changed is read again."""
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_size},{status.st_mtime_ns}"


def key(path: Path, *inside: Path) -> str:
    """Name of a file and the state of all that it is made of and described by."""
    described = [folder / TABLE for folder in (path.parent, path.parent.parent)]
    note = path.parent / f"{path.stem}.txt"
    stamps = map(stamp, (path, note, *described, *inside))
    return "|".join((os.path.abspath(path), *stamps))


class Made(NamedTuple):
    """What a worker made of one motion."""

    clip: Clip
    human: HumanRows | None = None
    facts: dict[str, str] = {}  # what the corpus keeps about the person


@dataclass(frozen=True)
class Summary:
    files: int = 0
    clips: int = 0
    frames: int = 0
    noted: int = 0  # number of clips taken with a note about their quality or origin
    refusals: list[Refusal] = field(default_factory=list)
    seconds: float = 0.0
    frames_now: int = 0  # those that this run made; a killed one may have made others
    done_before: int = 0  # number of files that a killed run had done

    def lines(self, what: str = "files") -> list[str]:
        hours = self.frames / FPS / 3600
        lines = [
            f"accepted  {self.clips:,} clips, {self.frames:,} frames at {FPS} Hz, "
            f"{hours:.2f} h, from {self.files:,} {what} in {self.seconds:.1f} s"
        ]
        if self.done_before:
            before = f"{self.done_before:,} of the {what} were done before"
            lines.append(f"          {before}, by a run that was stopped")
        if self.frames_now:
            rate = self.frames_now / max(self.seconds, 1e-3)
            lines.append(f"          {rate:,.0f} frames a second")
        if self.noted:
            lines.append(f"          {self.noted:,} with a note: corpus list --notes")
        lines.append(f"refused   {len(self.refusals):,}")
        kinds = Counter(refusal.kind for refusal in self.refusals)
        return lines + [f"          {n:,} {kind}" for kind, n in kinds.most_common()]


@dataclass(frozen=True)
class Intake:
    """How a verb makes clips of its inputs."""

    verb: str
    options: dict  # whatever else decides the outcome
    make: Callable[[Path], list[Made | ClipError]]
    unit: str = "file"  # of the progress bar
    size: Callable[[Path], int] = lambda path: 1  # of an input, in that unit
    strict: bool = False  # the first refusal raises ClipError
    human: bool = False  # every clip comes with a person


def build(
    out: Path,
    job: Intake,
    inputs: dict[str, Path],
    sidecars: Sidecars,
    workers: int | None = None,
) -> Summary:
    """Make the corpus `out` of inputs, by their keys; a killed run is continued.

    If nothing was usable, or a strict job was stopped, an older corpus stays.
    """
    start = time.perf_counter()
    writer = CorpusWriter(out, job.options, list(inputs), human=job.human)
    todo = {key: path for key, path in inputs.items() if key not in writer.done}
    few = min(workers or os.cpu_count() or 1, max(1, len(todo)))
    sizes = {key: job.size(path) for key, path in inputs.items()}
    total, left = sum(sizes.values()), sum(sizes[key] for key in todo)
    frames_before = _frames(writer)
    # disable=None: silent when the output is no terminal.
    look = {"unit": job.unit, "desc": job.verb, "disable": None, "smoothing": 0.05}
    look |= {"unit_scale": job.unit != "file"}
    try:
        with tqdm(total=total, initial=total - left, **look) as bar:
            said: set[str] = set()

            def say(message: str) -> None:
                # A tree of joints is printed once, not for every file that has it.
                first, _, rest = message.partition("\n")
                again = bool(rest) and rest in said
                said.add(rest)
                bar.write(f"{first} (as above)" if again else message, file=sys.stderr)

            for refusal in writer.refused:
                say(str(refusal))
            persons = {c["person"]: c["name"] for c in writer.clips if "person" in c}
            results = in_order(job.make, todo.values(), few)
            for (key, path), found in zip(todo.items(), results, strict=True):
                made, errors = _without_copies(found, persons)
                if job.strict and errors:
                    raise ClipError(errors[0].kind, f"{path}: {errors[0]}")
                refused = [Refusal(str(path), e.kind, str(e)) for e in errors]
                clips = [_described(m.clip, path, sidecars) for m in made]
                for message in (*map(str, refused), *sidecars.problems):
                    say(message)
                sidecars.problems.clear()
                humans = [m.human for m in made if m.human is not None]
                facts = [m.facts for m in made]
                writer.add(key, path.name, clips, refused, humans, facts)
                bar.update(sizes[key])
        summary = Summary(
            files=len(inputs),
            clips=len(writer.clips),
            frames=_frames(writer),
            noted=sum(bool(clip["notes"]) for clip in writer.clips),
            refusals=writer.refused,
            seconds=time.perf_counter() - start,
            frames_now=_frames(writer) - frames_before,
            done_before=len(inputs) - len(todo),
        )
        if summary.clips:
            writer.finish()
        else:
            writer.discard()
        return summary
    except OSError as error:
        error.filename = error.filename or str(out)  # a full disk names no file
        raise
    finally:
        writer.close()


def _frames(writer: CorpusWriter) -> int:
    return sum(clip["length"] for clip in writer.clips)


def _without_copies(
    found: list[Made | ClipError], persons: dict[str, str]
) -> tuple[list[Made], list[ClipError]]:
    """What was made and what was not; a person who was there before is a copy."""
    made, errors = [], []
    for item in found:
        if isinstance(item, ClipError):
            errors.append(item)
            continue
        person = item.facts.get("person")
        if person in persons:
            same = f"{item.clip.name} is a copy of {persons[person]}, which is taken"
            errors.append(ClipError("duplicate", same))
            continue
        if person is not None:
            persons[person] = item.clip.name
        made.append(item)
    return made, errors


def _described(clip: Clip, path: Path, sidecars: Sidecars) -> Clip:
    found = sidecars.describe(path, clip.name)
    return clip.described(
        text=found.text or clip.text or text_from_name(clip.name),
        source=found.source or clip.source,
        licence=found.licence or clip.licence,
    )

"""`spectral ingest`: files of mixed formats in, one corpus out."""

import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tqdm import tqdm

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.corpus_writer import CorpusWriter, Refusal
from spectral_skills.motion.formats import ReadOptions, find, read
from spectral_skills.motion.kinds import TABLE, Sidecars, text_from_name
from spectral_skills.workers import in_order


@dataclass(frozen=True)
class Summary:
    """What an ingest took and what it refused."""

    files: int
    clips: int
    frames: int
    noted: int
    """Clips taken with a note about their quality or origin."""
    refusals: list[Refusal]
    seconds: float

    @property
    def refused(self) -> Counter[str]:
        """How many were refused, by kind."""
        return Counter(refusal.kind for refusal in self.refusals)

    def lines(self) -> list[str]:
        hours = self.frames / FPS / 3600
        lines = [
            f"accepted  {self.clips:,} clips, {self.frames:,} frames at {FPS} Hz, "
            f"{hours:.2f} h, from {self.files:,} files in {self.seconds:.1f} s"
        ]
        if self.noted:
            lines.append(f"          {self.noted:,} with a note: corpus list --notes")
        lines.append(f"refused   {len(self.refusals):,}")
        lines += [f"          {n:,} {kind}" for kind, n in self.refused.most_common()]
        return lines


def ingest(
    paths: list[Path],
    out: Path,
    *,
    fps: float | None = None,
    strict: bool = False,
    pad_wrists: bool = False,
    workers: int | None = None,
) -> Summary:
    """Read motion files and folders into the corpus `out`, which is replaced.

    With `strict` the first refusal raises ClipError. Then, and if nothing was
    usable, an older corpus at `out` stays as it was.
    """
    start = time.perf_counter()
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers}: at least 1")
    if fps is not None and not 1.0 <= fps <= 1000.0:
        raise ValueError(f"--fps {fps}: not in 1..1000 Hz")
    files = find(paths)
    if not files:
        return Summary(0, 0, 0, 0, [], 0.0)
    options = ReadOptions(fps=fps, pad_wrists=pad_wrists)
    keys = {_key(path): path for path in files}
    job = {"fps": fps, "pad_wrists": pad_wrists, "strict": strict}
    writer = CorpusWriter(out, job, list(keys))
    sidecars = Sidecars()
    try:
        todo = {key: path for key, path in keys.items() if key not in writer.done}
        bar = tqdm(
            total=len(keys),
            initial=len(keys) - len(todo),
            unit="file",
            desc="ingest",
            disable=None,  # silent when the output is no terminal
        )
        with bar:
            for refusal in writer.refused:
                _tell(bar, refusal)
            reading = partial(read_at_corpus_rate, options=options)
            few = min(workers or os.cpu_count() or 1, max(1, len(todo)))
            results = in_order(reading, todo.values(), few)
            for (key, path), found in zip(todo.items(), results, strict=True):
                errors = [e for e in found if isinstance(e, ClipError)]
                if strict and errors:
                    raise ClipError(errors[0].kind, f"{path}: {errors[0]}")
                refused = [Refusal(str(path), e.kind, str(e)) for e in errors]
                for refusal in refused:
                    _tell(bar, refusal)
                clips = [c for c in found if isinstance(c, Clip)]
                clips = [_described(c, path, sidecars) for c in clips]
                while sidecars.problems:
                    bar.write(sidecars.problems.pop(), file=sys.stderr)
                writer.add(key, path.name, clips, refused)
                bar.update()
        return _finish(writer, len(keys), time.perf_counter() - start)
    finally:
        writer.close()


def _finish(writer: CorpusWriter, files: int, seconds: float) -> Summary:
    summary = Summary(
        files=files,
        clips=len(writer.clips),
        frames=sum(clip["length"] for clip in writer.clips),
        noted=sum(bool(clip["notes"]) for clip in writer.clips),
        refusals=writer.refused,
        seconds=seconds,
    )
    if summary.clips:
        writer.finish()
    else:
        writer.discard()
    return summary


def _tell(bar: tqdm, refusal: Refusal) -> None:
    bar.write(str(refusal), file=sys.stderr)


def _key(path: Path) -> str:
    """Names a file and its state, so that what has changed is read again."""
    inside = sorted(path.glob("*.csv")) if path.is_dir() else []
    tables = [folder / TABLE for folder in (path.parent, path.parent.parent)]
    note = path.parent / f"{path.stem}.txt"
    stamps = map(_stamp, (path, note, *tables, *inside))
    return "|".join((os.path.abspath(path), *stamps))


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_size},{status.st_mtime_ns}"


def _described(clip: Clip, path: Path, sidecars: Sidecars) -> Clip:
    found = sidecars.describe(path, clip.name)
    return clip.described(
        text=found.text or clip.text or text_from_name(clip.name),
        source=found.source or clip.source,
        licence=found.licence or clip.licence,
    )


Found = list[Clip | ClipError]


def read_at_corpus_rate(path: Path, options: ReadOptions) -> Found:
    """Clips of one file at 50 Hz."""
    found: Found = []
    for item in read(path, options):
        try:
            if isinstance(item, Clip) and item.duration_s * FPS <= 1.0:
                raise ClipError("empty", f"{item.name} lasts {item.duration_s:.3f} s")
            found.append(item.resampled(FPS) if isinstance(item, Clip) else item)
        except ClipError as error:
            found.append(error)
    return found

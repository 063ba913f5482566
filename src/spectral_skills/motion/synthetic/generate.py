"""`spectral synth`: a corpus of generated motion, and the one that is always there."""

import fcntl
import os
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import FPS, HEADER
from spectral_skills.motion.corpus_writer import CorpusWriter
from spectral_skills.motion.synthetic.compose import Piece, compose
from spectral_skills.motion.workers import in_order, one_torch_thread

SOURCE = "spectral-skills generator"
LICENCE = "Apache-2.0"
GENERATOR = 1
"""Version of the generator. Raise it whenever its motions change: caches are named
after it, and a test compares some clips with recorded numbers."""


@dataclass(frozen=True)
class SynthConfig:
    """What to generate."""

    clips: int = 512
    """Number of clips; 512 are about an hour."""
    seed: int = 0
    """Another seed, another corpus."""


@cache
def _body():
    from spectral_skills.motion.synthetic.body import Body

    return Body()


def perform(piece: Piece) -> Clip:
    """The motion of a piece."""
    with one_torch_thread():
        rows = _body().perform(piece.score)[slice(*piece.crop)]
    return Clip.from_qpos(
        rows,
        name=piece.name,
        fps=float(FPS),
        text=piece.text,
        source=SOURCE,
        licence=LICENCE,
    )


def clip(number: int, seed: int = 0) -> Clip:
    """Clip `number` of the corpus of a seed, whatever its size."""
    return perform(compose(seed, number))


def synthesise(out: Path, config: SynthConfig, workers: int | None = None) -> None:
    """Write a generated corpus to `out`; a killed run is continued."""
    from tqdm import tqdm

    if config.clips < 1:
        raise ValueError(f"--clips {config.clips}: at least 1")
    if config.seed < 0:
        raise ValueError(f"--seed {config.seed}: not negative")
    numbers = [str(number) for number in range(config.clips)]
    job = asdict(config) | {"generator": fingerprint()}
    writer = CorpusWriter(out, job, numbers)
    try:
        todo = [int(number) for number in numbers if number not in writer.done]
        made = in_order(partial(clip, seed=config.seed), todo, workers)
        bar = tqdm(
            zip(todo, made, strict=True),
            total=config.clips,
            initial=config.clips - len(todo),
            unit="clip",
            desc="synth",
            disable=None,
        )
        for number, motion in bar:
            writer.add(str(number), "", [motion], [])
        writer.finish()
    finally:
        writer.close()


def fingerprint() -> str:
    """Name of what decides the motions: the generator and the robot's model."""
    return f"{GENERATOR}-mjlab{version('mjlab')}"


def embedded_corpus() -> Path:
    """Folder of the corpus that needs no download; made when first asked for.

    It is kept in the folder that SPECTRAL_CACHE names, ~/.cache/spectral-skills by
    default.
    """
    usual = Path.home() / ".cache" / "spectral-skills"
    cache_folder = Path(os.environ.get("SPECTRAL_CACHE") or usual)
    folder = cache_folder / f"embedded-{fingerprint()}"
    if (folder / HEADER).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".making").open("w") as lock:
        message = f"making the embedded corpus in {folder}, once: about two minutes"
        print(message, file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second waits
        if not (folder / HEADER).exists():
            start = time.perf_counter()
            synthesise(folder, SynthConfig())
            print(f"made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return folder

"""`spectral bench support`: speed of describing a corpus."""

import tempfile
import time
from pathlib import Path

import numpy as np

from spectral_skills.motion.corpus import COLUMNS, FPS, FRAMES, Corpus
from spectral_skills.motion.corpus_writer import write_header, write_index
from spectral_skills.results import Result, hardware
from spectral_skills.robot import g1
from spectral_skills.spectral.support import describe

_CLIPS, _CLIP_FRAMES = 10_000, 400
"""Many clips, as short as those of large libraries."""
_GOAL_WINDOWS = 2_000_000
_ROUNDS = 3


def support(device: str) -> list[Result]:
    """Windows a second described, and the time that the largest corpus takes."""
    where = hardware(device)
    with tempfile.TemporaryDirectory() as temporary:
        corpus = _random_corpus(Path(temporary))
        times, count = [], 0
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            count = len(describe(corpus, device=device).values)
            times.append(time.perf_counter() - start)
    # The best of them: other programs only ever make it longer.
    seconds = min(times)
    command = "spectral bench support" + ("" if device == "cpu" else " --device cuda")
    about = {"n": count, "command": command, "hardware": where}
    row = f"{_CLIPS:,} clips, {corpus.frames:,} frames"
    goal = f"{_GOAL_WINDOWS:,} windows, from these"
    share = _GOAL_WINDOWS / count
    return [
        Result("Support", row, "speed", count / seconds, "windows/s", **about),
        Result(
            "Support", goal, "time", share * seconds, "s", paper="under 60", **about
        ),
    ]


def _random_corpus(folder: Path) -> Corpus:
    """Motions that swing at random frequencies."""
    write_large_index(folder, _CLIPS, _CLIPS * _CLIP_FRAMES)
    corpus = Corpus.open(folder)
    file = np.memmap(
        folder / corpus.hash / FRAMES, np.float32, "r+", shape=corpus.rows.shape
    )
    random = np.random.default_rng(0)
    t = np.arange(_CLIP_FRAMES, dtype=np.float32)[:, None] / FPS
    for start in range(0, len(file), _CLIP_FRAMES):
        rate = random.uniform(0, 6, g1.QPOS_SIZE).astype(np.float32)
        rows = np.sin(rate * (t + 1))
        rows[:, 3:7] /= np.linalg.norm(rows[:, 3:7], axis=1, keepdims=True)
        file[start : start + _CLIP_FRAMES] = rows
    return corpus


def write_large_index(folder: Path, clips: int, frames: int) -> None:
    """A corpus of any size without motions: its frames file is a hole."""
    generation = folder / f"{0:032x}"
    generation.mkdir(parents=True)
    lengths = np.diff(np.linspace(0, frames, clips + 1).astype(np.int64)).tolist()
    index = [
        {"length": length} | {column: f"{column} {i:06d}" for column in COLUMNS}
        for i, length in enumerate(lengths)
    ]
    write_index(generation, index)
    with (generation / FRAMES).open("wb") as file:
        file.truncate(frames * 4 * g1.QPOS_SIZE)
    write_header(folder, generation.name, index)

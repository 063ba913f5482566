"""Speed of describing the windows of a corpus."""

import tempfile
import time
from pathlib import Path

import numpy as np
from motion import write_large_index
from report import main

from spectral_skills.motion.corpus import FPS, FRAMES, Corpus
from spectral_skills.results import Result
from spectral_skills.robot import g1
from spectral_skills.spectral.support import describe

_CLIPS, _CLIP_FRAMES = 10_000, 400
"""Many clips, as short as those of large libraries."""
_GOAL_WINDOWS = 2_000_000
_ROUNDS = 3


def support(device: str) -> list[Result]:
    """Windows a second described, and the time that the largest corpus takes."""
    with tempfile.TemporaryDirectory() as temporary:
        corpus = _random_corpus(Path(temporary))
        times, count = [], 0
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            count = len(describe(corpus, device=device).values)
            times.append(time.perf_counter() - start)
    # The best of them: other programs only ever make it longer.
    seconds = min(times)
    row = f"{_CLIPS:,} clips, {corpus.frames:,} frames"
    goal = f"{_GOAL_WINDOWS:,} windows, from these"
    share = _GOAL_WINDOWS / count
    return [
        Result("Support", row, "speed", count / seconds, "windows/s", n=count),
        Result(
            "Support", goal, "time", share * seconds, "s", paper="under 60", n=count
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


if __name__ == "__main__":
    main(support)

"""How long it takes to measure how well a controller tracks."""

import time

import numpy as np
from report import main

from spectral_skills.experiments.tracking import Course
from spectral_skills.experiments.tracking import evaluate as scores
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.results import Result

_GPU = ((4096, "120", ""),)
_CPU = ((1, "", "1"), (16, "", ""))
"""Clips, and goals of time and speed."""


def evaluate(device: str) -> list[Result]:
    """Seconds for clips of the embedded corpus, from models on the device to scores;
    physics is built in that time."""
    corpus = Corpus.open(embedded_corpus())
    cuda = device.startswith("cuda")
    models = Models.load(device=device)
    results = []
    for count, *goals in _GPU if cuda else _CPU:
        clips = corpus.select(np.resize(np.arange(len(corpus)), count))
        began = time.perf_counter()
        scores(models, Course(clips, device))
        seconds = time.perf_counter() - began
        played = float(clips.lengths.sum()) / FPS / seconds
        cells = ("time", seconds, "s"), ("speed", played, "x real time")
        results += [
            Result(
                *("Tracking: evaluation", f"{count:,} clip{'s' * (count > 1)}", *cell),
                n=count,
                paper=goal,
            )
            for cell, goal in zip(cells, goals, strict=True)
        ]
    return results


if __name__ == "__main__":
    main(evaluate)

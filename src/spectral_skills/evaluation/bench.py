"""`spectral bench evaluate`: how long it takes to measure a controller."""

import time

import numpy as np

from spectral_skills.evaluation.course import Course
from spectral_skills.evaluation.tracking import evaluate as scores
from spectral_skills.motion.bench import hardware
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.results import Result
from spectral_skills.skill.model import SkillModel
from spectral_skills.tracking.policy import Controller


def evaluate(device: str) -> list[Result]:
    """Seconds for many clips of the embedded corpus, from models on the device to
    scores; physics is built in that time."""
    corpus = Corpus.open(embedded_corpus())
    count = 4096 if device.startswith("cuda") else 16
    clips = corpus.select(np.resize(np.arange(len(corpus)), count))
    encoder = SkillModel.load("base", device).encoder
    controller = Controller.load("base", device)
    began = time.perf_counter()
    scores(controller, Course(clips, encoder, device))
    seconds = time.perf_counter() - began
    flag = " --device cuda" if device.startswith("cuda") else ""
    played = float(clips.lengths.sum()) / 50 / seconds
    rows = [("time", seconds, "s", "120"), ("speed", played, "x real time", "")]
    return [
        Result(
            *("Tracking: evaluation", f"{count:,} clips", metric, value, unit),
            n=count,
            paper=goal if flag else "",
            command=f"spectral bench evaluate{flag}",
            hardware=hardware(device),
        )
        for metric, value, unit, goal in rows
    ]

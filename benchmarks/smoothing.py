"""What smoother actions cost: the same clips with a growing share of the last action.

Clips are followed whole, by robots as they are modelled, and by robots with other
masses, friction, gains and delays, drawn as in the recipe `deploy`. A share that is to
be used should be chosen on clips that were trained on, and then be judged on others.

    python benchmarks/smoothing.py --corpus corpora/cmu --trained --clips 72 \
        --smoothing 0 0.3 0.4 0.5 0.6
    python benchmarks/smoothing.py --corpus corpora/cmu --smoothing 0 0.5 --other-robots
"""

from dataclasses import replace

import numpy as np
import torch
from report import models_parser, parsed, report

from spectral_skills import api, recipes
from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.experiments.tracking import Course, spread_clips
from spectral_skills.models import Models
from spectral_skills.motion.motion_sets import hold_out
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.results import Result, model_hashes
from spectral_skills.tracking import randomization

TABLE = "Tracking: smoother actions"
COUNTED = ("success_rate", "followed")
MEASURED = (
    *("root_drift_mm", "mpjpe_local_mm", "joint_jerk", "reference_jerk"),
    "action_rate",
)


def other_robots(count: int) -> Physics:
    """Robots that differ from the model and from each other, and are late."""
    physics = simulate("cpu", count)
    config = recipes.track("deploy").env.randomization
    seed = torch.Generator().manual_seed(0)
    variation, _, delay = randomization.robots(config, count, "cpu", seed)
    physics.vary(variation)
    physics.delay.copy_(delay)
    return physics


def results(found: dict[float, Episodes]) -> list[Result]:
    """How many succeed and are followed; the rest is of clips that always succeed."""
    always = np.logical_and.reduce([episodes.success for episodes in found.values()])
    rows = []
    for share, every in found.items():
        cells = [m for m in metrics.summary(every) if m.name in COUNTED]
        same = metrics.summary(every.select(always))
        cells += [m for m in same if m.name in MEASURED]
        row = f"smoothing {share:g}"
        rows += [Result(TABLE, row, m.name, m.value, m.unit, m.n) for m in cells]
    return rows


def main() -> None:
    parser = models_parser()
    parser.add_argument("--corpus", required=True, help="folder of a corpus")
    parser.add_argument("--held-out", type=float, default=0.05, help="share held out")
    parser.add_argument(
        "--trained", action="store_true", help="clips that are not held out"
    )
    parser.add_argument("--clips", type=int, help="how many clips; all by default")
    parser.add_argument(
        "--smoothing", type=float, nargs="+", default=[0.0], help="shares to try"
    )
    parser.add_argument(
        "--other-robots", action="store_true", help="robots that differ from the model"
    )
    given = parsed(parser)
    trained, held_out = hold_out([api.open_corpus(given.corpus)], given.held_out)
    (corpus,) = trained if given.trained else held_out
    if given.clips:
        corpus = corpus.select(spread_clips(corpus, given.clips))
    build = other_robots if given.other_robots else None
    course, found = Course(corpus, physics=build, keep=True), {}
    for share in given.smoothing:
        models = Models.load(given.controller, given.skill, smoothing=share)
        found[share] = course.episodes(models)
    used = model_hashes(**models.hashes, corpus=corpus.hash)
    which = "trained on" if given.trained else "held out"
    robots = ", other robots" if given.other_robots else ""
    label = f"{TABLE}, {given.label}, {which}{robots}"
    about = {"table": label, "models": used}
    report([replace(r, **about) for r in results(found)], "cpu", given.record)


if __name__ == "__main__":
    main()

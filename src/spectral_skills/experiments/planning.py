"""The paper's two tables on which commands a planner should plan.

A row is one route at one replanning interval: 20 episodes of every described motion.
`language.py` has the tables beyond the paper: words that were never learned, that
change, or that add up.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectral_skills.experiments.findings import Findings, Series
from spectral_skills.experiments.language import language, pairs
from spectral_skills.experiments.stage import (
    EPISODES,
    STEPS,
    ScoreTable,
    Stage,
    sentences,
)
from spectral_skills.models import Models
from spectral_skills.motion.corpus import Corpus
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.model import check_text
from spectral_skills.planner.motions import learned
from spectral_skills.planner.routes import Route, longest
from spectral_skills.planner.text import MiniLM

EVERY = (1, 10, 21, CHUNK)  # numbers of steps between plans
_ROUTES: dict[Route, str] = {
    "skills": "Skills (z to z)",
    "re-encode": "Re-encode (o to z)",
    "explicit": "Explicit (o to o)",
}


def evaluate(
    table: str,
    models: Models,
    corpora: Sequence[Corpus],
    device: str,
    episodes: int = EPISODES,
    steps: int = STEPS,
    seed: int = 0,
    most: int | None = None,
    **options: Any,
) -> Findings:
    """Measure one of the four tables on the motions that a planner has learned, or on
    `most` of them at regular distances."""
    words = MiniLM()
    check_text(models.skill_planner, words)
    tables = {one.__name__: one for one in (interfaces, fsq, language, pairs)}
    about = models.skill_planner.config.about
    clips = learned(corpora, about.motions)
    if most is not None and most < len(clips):
        clips = clips.at(np.linspace(0, len(clips) - 1, most).astype(int).tolist())
    stage = Stage(clips, about.corpus, words, device, episodes, steps, seed)
    return tables[table](stage, models, **options)


def interfaces(
    stage: Stage,
    models: Models,
    poses: Models | None = None,
    explicit: Models | None = None,
    every: Sequence[int] = EVERY,
) -> Findings:
    """Table tab:planner-interface: skills, poses that are encoded again, poses.

    `poses` are the same models with a planner of poses, `explicit` a controller of
    poses with its planner.
    """
    table = ScoreTable("interfaces", stage, models)
    table.score("Skill tracker: oracle", stage.oracle(models))
    lines = _add_route(table, "skills", models, every)
    if poses is not None:
        lines |= _add_route(table, "re-encode", poses, every)
    if explicit is not None:
        table.score("Explicit tracker: oracle", stage.oracle(explicit))
        lines |= _add_route(table, "explicit", explicit, every)
    # Plain routes first, then those with odometry.
    ordered = sorted(lines.items(), key=lambda one: one[0].endswith("odometry"))
    series = [Series.of(name, one, one.values()) for name, one in ordered if one]
    table.chart("interval", series)
    table.by_motion([f"{_ROUTES[route]}, N=10" for route in ("skills", "re-encode")])
    return table.findings()


def _add_route(
    table: ScoreTable, route: Route, models: Models, every: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Add a row for every interval, and for poses the same with odometry; gives the
    success by label and interval."""
    stage, limit = table.stage, longest(route, models.encoder)
    text, found = stage.text(sentences(models, stage)), {}
    for odometry in (False, True)[: 1 + (route != "skills")]:
        label = f"{_ROUTES[route]}{', odometry' if odometry else ''}"
        found[label] = {}
        for steps in every:
            # A plan that is followed for one step needs no odometry.
            if 1 + odometry <= steps <= limit:
                scores = stage.planned(models, text, steps, odometry=odometry)
                table.score(f"{label}, N={steps}", scores)
                found[label][steps] = scores.success.mean()
    return found


def fsq(stage: Stage, models: Models, poses: Models, every: int = 10) -> Findings:
    """Table app-fsq-planner: an FSQ tracker that holds a skill for ten steps."""
    table = ScoreTable("fsq", stage, models)
    table.score("FSQ tracker: oracle", stage.oracle(models))
    text = stage.text(sentences(models, stage))
    for label, ensemble in (("temporal", True), ("no", False)):
        scores = stage.planned(models, text, every, ensemble=ensemble)
        table.score(f"FSQ latent, {label} ensembling", scores)
    text = stage.text(sentences(poses, stage))
    table.score("FSQ re-encode", stage.planned(poses, text, every))
    table.by_motion([row for row in table.rows if "oracle" not in row])
    return table.findings()

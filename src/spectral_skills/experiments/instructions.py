"""Beyond the paper: words a planner never learned, and words that change on the way.

Whether a robot does what it is told is read off what it does: its executed motion is
encoded, and the motion that most of its skills are nearest to is the one it does.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.run import Tracker, encode_clip
from spectral_skills.experiments.findings import Findings
from spectral_skills.experiments.planning import Table, sentences
from spectral_skills.experiments.stage import Stage, fell
from spectral_skills.models import Models
from spectral_skills.planner.model import Planner
from spectral_skills.planner.routes import PlannedSource
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.results import Result
from spectral_skills.skill.codes import encode_rows
from spectral_skills.skill.encoder import SkillEncoder

GOAL_POINTS = 5.0
"""By which success may be lower with words that were not learned."""
PERIOD = 200
"""Steps for which an instruction lasts."""
SETTLED = 60
"""Steps after a change until a robot should do what it is told."""


class Recogniser:
    """Names what robots do, by the nearest skills of known motions."""

    def __init__(self, encoder: SkillEncoder, stage: Stage):
        self.encoder = encoder
        clips = [torch.tensor(stage.clips.qpos(i)) for i in range(len(stage.names))]
        lengths = [len(clip) for clip in clips]
        self.skills = torch.cat([encode_clip(encoder, clip) for clip in clips])
        self.motion = torch.repeat_interleave(
            torch.arange(len(clips)), torch.tensor(lengths)
        ).to(stage.device)
        self.count = len(clips)

    def __call__(self, rows: Tensor, every: int = 5) -> Tensor:
        """(n,) motion that most of the skills of rows (T, n, 36) are nearest to."""
        votes = torch.zeros((rows.shape[1], self.count), device=rows.device)
        for robot in range(rows.shape[1]):
            skills = encode_rows(self.encoder, rows[:, robot])[::every]
            near = self.motion[torch.cdist(skills, self.skills).argmin(dim=1)]
            votes[robot] = torch.bincount(near, minlength=self.count).float()
        return votes.argmax(dim=1)


def experiment(
    stage: Stage,
    encoder: TextEncoder,
    actor: Models,
    planner: Planner,
    every: int = 30,
    run: str = "",
) -> Findings:
    """Success with learned and with other words, and with words that change."""
    if stage.steps < 2 * PERIOD:
        raise ValueError(
            f"{stage.steps} steps are too few for words to change; take at least "
            f"{2 * PERIOD}"
        )
    table = Table("language", stage, encoder, run)
    for told, held_out in (("learned sentences", False), ("other words", True)):
        text = stage.text(encoder, sentences(planner, stage, held_out))
        table.add(told, stage.planned(actor, planner, text, every))
    learned, others = (row.score for row in table.rows)
    lost = 100 * float(learned.success.mean() - others.success.mean())
    results = table.results()
    n, goal = len(others.success), f"within {GOAL_POINTS:g}"
    results.append(table.cell("other words", "points lost", lost, "points", n, goal))
    results += changes(table, actor, planner, every)
    return Findings(
        "language",
        "Other words, and words that change",
        tuple(results),
        (table.by_motion([row.name for row in table.rows]),),
        note="Other words: wordings that no learned sentence holds.",
    )


def changes(table: Table, actor: Models, planner: Planner, every: int) -> list[Result]:
    """Falls, and whether robots do what they are told, when words change."""
    stage, encoder = table.stage, actor.encoder
    assert encoder is not None
    asked, texts = instructions(stage, table.encoder, sentences(planner, stage))
    tracker = Tracker(actor.controller)
    first = texts.pop(0)
    source = PlannedSource(
        planner, tracker, first, every, encoder, seed=stage.seed, later=texts
    )
    rollout = stage.execute(tracker, source)
    down = fell(rollout.robot)
    recognise = Recogniser(encoder, stage)
    right, total = 0, 0
    for number, motion in enumerate(asked):
        begin = number * PERIOD
        rows = rollout.robot[begin + SETTLED : begin + PERIOD]
        stands = ~fell(rollout.robot[: begin + PERIOD])
        done = recognise(rows[:, stands])
        right += int((done == motion[stands]).sum())
        total += int(stands.sum())
    n = (len(asked) - 1) * len(stage.motion)
    row = "instructions that change"
    return [
        table.cell(row, "changes", n, "", n),
        table.cell(row, "falls", float(down.sum()), "", n, "0"),
        table.cell(row, "done as told", right / max(1, total), "", total),
    ]


def instructions(
    stage: Stage, encoder: TextEncoder, said: Sequence[tuple[str, ...]]
) -> tuple[list[Tensor], dict[int, TextStates]]:
    """Motions (n,) of each period and the sentences at its first step.

    Robots begin with their own motion; after it comes any.
    """
    random = np.random.default_rng(stage.seed)
    periods = stage.steps // PERIOD
    own = stage.motion.cpu().numpy()
    asked, texts = [], {}
    for number in range(periods):
        motion = own if number == 0 else random.integers(len(said), size=len(own))
        words = [said[m][int(random.integers(len(said[m])))] for m in motion]
        asked.append(torch.from_numpy(motion).to(stage.device))
        texts[number * PERIOD] = encoder.encode(words).to(stage.device)
    return asked, texts

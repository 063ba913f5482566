"""A planner's words: those that were never learned, and those that change.

Whether a robot obeys changing words is read from its motion: the executed motion is
encoded, and the robot does the motion that most of its skills are nearest to.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.run import encode_clip
from spectral_skills.experiments.findings import Findings
from spectral_skills.experiments.stage import ScoreTable, Stage, fell, sentences
from spectral_skills.models import Models
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.lookup import KnownSentences
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.planner.understand import Interpreter
from spectral_skills.skill.encoder import encode_rows

PERIOD, SETTLED = 200, 60
"""Steps for which an instruction lasts, and after which a robot should follow it."""


class Recogniser:
    """Names the motions that robots do, by the nearest skills of known motions."""

    def __init__(self, models: Models, stage: Stage):
        self.encoder = models.skill_encoder
        clips = [torch.tensor(rows) for rows in stage.clips.rows]
        self.skills = torch.cat([encode_clip(self.encoder, clip) for clip in clips])
        self.motion = torch.repeat_interleave(
            torch.arange(len(clips)), torch.tensor([len(clip) for clip in clips])
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


def language(stage: Stage, models: Models, every: int = CHUNK) -> Findings:
    """Success with learned words, with other words, and with words that change.

    Other words are read by the planner itself, and looked up as `spectral say` does.
    """
    if stage.steps < 2 * PERIOD:
        raise ValueError(
            f"{stage.steps} steps are too few for words to change; take at least "
            f"{2 * PERIOD}"
        )
    table = ScoreTable("language", stage, models)
    learned, others = (
        stage.said(sentences(models, stage, held_out)) for held_out in (False, True)
    )
    found, refused = look_up(models, stage.words, others)
    rows = {"learned sentences": learned, "other words": others, "looked up": found}
    for row, said in rows.items():
        text = stage.words.encode(said).to(stage.device)
        scores = stage.planned(models, text, every)
        if row == "looked up":
            scores = replace(scores, success=scores.success & ~refused)
        table.score(row, scores)
    own, *rest = (scores.success for scores in table.rows.values())
    for row, success in zip(("other words", "looked up"), rest, strict=True):
        lost = 100 * float(own.mean() - success.mean())
        table.add(row, {"points lost": lost}, len(success))
    table.add("looked up", {"refused": refused.sum()}, len(refused))
    add_changes(table, models, every)
    table.by_motion(list(table.rows))
    return table.findings()


def look_up(
    models: Models, encoder: TextEncoder, said: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """The learned sentences by which others are understood, as by `spectral say`, and
    (n,) which are refused; several instructions instead of one count as refused."""
    about = models.skill_planner.config.about
    pairs = [(m.name, sentence) for m in about.motions for sentence in m.sentences]
    interpreter = Interpreter(KnownSentences(pairs, encoder))
    each = {text: interpreter.interpret(text) for text in dict.fromkeys(said)}
    refused = [len(each[s]) > 1 or not each[s][0].understood for s in said]
    return [each[text][0].nearest for text in said], np.array(refused)


def add_changes(table: ScoreTable, models: Models, every: int) -> None:
    """Add falls, and the share of robots that obey, when words change."""
    stage = table.stage
    asked, texts = instructions(stage, sentences(models, stage))
    first = texts.pop(0)
    rows = stage.execute(*stage.source(models, first, every, later=texts)).robot
    recognise = Recogniser(models, stage)
    right, total = 0, 0
    for number, motion in enumerate(asked):
        begin, end = number * PERIOD, (number + 1) * PERIOD
        stands = ~fell(rows[:end])
        done = recognise(rows[begin + SETTLED : end, stands])
        right += int((done == motion[stands]).sum())
        total += int(stands.sum())
    n, row = (len(asked) - 1) * len(stage.motion), "instructions that change"
    table.add(row, {"changes": n, "falls": fell(rows).sum()}, n)
    table.add(row, {"done as told": right / max(1, total)}, total)


def instructions(
    stage: Stage, said: Sequence[tuple[str, ...]]
) -> tuple[list[Tensor], dict[int, TextStates]]:
    """Motions (n,) of each period, and the sentences by its first step.

    Robots begin with their own motion; after it comes any.
    """
    random = np.random.default_rng(stage.seed)
    own = stage.motion.cpu().numpy()
    asked, texts = [], {}
    for number in range(stage.steps // PERIOD):
        motion = own if number == 0 else random.integers(len(said), size=len(own))
        words = [said[m][int(random.integers(len(said[m])))] for m in motion]
        asked.append(torch.from_numpy(motion).to(stage.device))
        texts[number * PERIOD] = stage.words.encode(words).to(stage.device)
    return asked, texts

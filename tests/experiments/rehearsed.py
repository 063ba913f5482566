"""Planners that know the motions of a stage by heart."""

import torch
from obliging import Letters, Obliging, actor
from torch import Tensor

from spectral_skills.control.run import ReplaySource, encode_clip
from spectral_skills.experiments.stage import Stage
from spectral_skills.planner.data import CHUNK, Motion
from spectral_skills.planner.text import pooled


def motions(stage: Stage) -> tuple[Motion, ...]:
    """Those of a stage, each with two sentences and one that is not learned."""
    return tuple(
        Motion(name, (f"do {name}", f"now {name} please"), (f"perform {name} anew",))
        for name in stage.names
    )


class Rehearsed(Obliging):
    """Plans the skills of the motions that robots should do, from their first frames.

    It is asked every so many steps; another sentence begins anew.
    """

    def __init__(self, stage: Stage, every: int):
        super().__init__(motions(stage))
        clips = [torch.tensor(rows) for rows in stage.clips.rows]
        encoder = actor().encoder
        assert encoder is not None
        streams = [encode_clip(encoder, clip) for clip in clips]
        self.skills = ReplaySource(streams).skills
        self.every, self.text, self.next = every, None, 0
        self.words: list[list[str]] = []
        """Sentence of each robot, plan by plan."""

    def plan(self, history, text, noise=None) -> Tensor:
        if text is not self.text:
            self.text, self.next = text, 0
        about = self.config.about.motions
        every = [(s, i) for i, m in enumerate(about) for s in m.sentences + m.held_out]
        near = pooled(Letters().encode([s for s, _ in every])) @ pooled(text).T
        best = [every[row] for row in near.argmax(dim=0).tolist()]
        self.words.append([sentence for sentence, _ in best])
        frames = (self.next + torch.arange(CHUNK)).clamp_max(len(self.skills) - 1)
        self.next += self.every
        chunk = self.skills[frames][:, [motion for _, motion in best]]
        return chunk.transpose(0, 1).clone()


class Broken(Rehearsed):
    """Plans nonsense for the first robot from the second plan on."""

    def plan(self, history, text, noise=None) -> Tensor:
        chunk = super().plan(history, text, noise)
        if len(self.words) > 1:
            chunk[0, 3] = torch.nan
        return chunk


class Stuck(Rehearsed):
    """Lets the first robot go on with the last skill of the first plan it followed."""

    def plan(self, history, text, noise=None) -> Tensor:
        chunk = super().plan(history, text, noise)
        if len(self.words) > 1:
            chunk[0] = self.skills[self.every - 1, 0]
        return chunk

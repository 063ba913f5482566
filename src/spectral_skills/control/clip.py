"""One clip, one robot, one call: the shortest way from a controller to a record."""

import torch

from spectral_skills.control.controller import Tracker
from spectral_skills.control.record import Rollout
from spectral_skills.control.run import run
from spectral_skills.control.source import ReferenceSource
from spectral_skills.motion.corpus import Corpus
from spectral_skills.physics.base import simulate
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import References


def follow(
    controller: Controller, encoder: SkillEncoder | None, clips: Corpus
) -> Rollout:
    """Robots that follow whole clips, one each, simulated on the CPU."""
    steps = int(clips.lengths.max()) - 1
    if steps < 1:
        raise ValueError(f"{clips.names[0]}: one frame; there is nothing to follow")
    references = References.build(clips.to("cpu"))
    chosen = torch.arange(len(clips))
    source = ReferenceSource(
        references,
        chosen,
        encoder,
        command=controller.config.command,
        names=clips.names,
    )
    begin = references.at(chosen, torch.zeros_like(chosen))
    physics = simulate("cpu", len(clips))
    start = begin.rows, begin.qvel
    return run(physics, Tracker(controller), source, start, steps)

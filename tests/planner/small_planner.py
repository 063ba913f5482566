"""A small planner, and robots that do one of two things for it to learn from."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from spectral_skills.planner.data import About, Motion, Output, Rows
from spectral_skills.planner.model import HeadConfig, Planner, PlannerConfig
from spectral_skills.planner.text import TextStates
from spectral_skills.planner.train import PlanConfig

SKILL, TEXT, ROBOTS = 3, 8, 100
HEAD = HeadConfig(
    *(2, 2, 32, 2),
    state_hidden=16,
    output=24,
    dropout=0.1,
    positions=30,
    action=SKILL,
    text=TEXT,
    normal_queries=True,
)
ABOUT = About(
    controller="the controller",
    encoder="the encoder",
    command="skill",
    hold=1,
    corpus="the corpus",
    motions=(
        Motion("walk", ("walk", "go forward now"), ("stroll",)),
        Motion("turn", ("turn around",), ("spin",)),
    ),
)
CONFIG = PlanConfig(
    head=HEAD,
    updates=6,
    batch=8,
    learning_rate=1e-3,
    evaluate_every=2,
    evaluation_rows=6,
    checkpoint_every=2,
)


class Letters:
    """Every word is a vector that its letters determine."""

    name, width = "letters", TEXT

    def encode(self, sentences: Sequence[str]) -> TextStates:
        split = [sentence.split() for sentence in sentences]
        longest = max(map(len, split))
        states = torch.zeros(len(split), longest, TEXT)
        for row, words in enumerate(split):
            for place, word in enumerate(words):
                states[row, place] = _vector(word)
        mask = torch.tensor([[i < len(w) for i in range(longest)] for w in split])
        return TextStates(states, mask)


def _vector(word: str) -> Tensor:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest())
    return torch.randn(TEXT, generator=torch.Generator().manual_seed(seed))


def make_rows() -> Rows:
    """One row of each robot; even robots walk, odd ones turn, all sense the same."""
    generator = torch.Generator().manual_seed(0)
    steps, motion = 31, torch.arange(ROBOTS) % 2
    sensed = torch.randn((steps, 1, 93), generator=generator)
    skills = torch.randn((steps, 2, SKILL), generator=generator)
    frames = {
        "proprio": sensed.expand(-1, ROBOTS, -1).clone(),
        "skill": skills[:, motion],
        "root": torch.eye(7)[3].expand(steps, ROBOTS, 7),
        "reference": torch.ones(steps, ROBOTS, 36),
        "motion": motion.to(torch.int16).expand(steps, -1),
        "valid": torch.ones((steps, ROBOTS), dtype=torch.bool),
    }
    return Rows(ABOUT, frames)


def make_planner(seed: int = 0, output: Output = "skill") -> Planner:
    """One that was never trained."""
    torch.manual_seed(seed)
    head = replace(HEAD, action=make_rows().width(output))
    planner = Planner(PlannerConfig(head, output, Letters.name, ABOUT)).eval()
    planner.fit(make_rows().batch(torch.arange(20), output))
    return planner

"""A planner that plans what a test wants, words that need no language model, and the
released controller."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from spectral_skills.control.run import encode_clip
from spectral_skills.models import Models
from spectral_skills.motion.synthetic import bases
from spectral_skills.planner.data import About, Motion
from spectral_skills.planner.model import HeadConfig, Planner, PlannerConfig
from spectral_skills.planner.text import TextStates, pooled
from spectral_skills.spectral.direction_file import Directions

WIDTH = 64
MOTIONS = (
    Motion("stand_1", ("stand still", "stand on the spot"), frames=500),
    Motion("walk_1", ("walk forward", "walk straight ahead"), frames=150),
    Motion("turn_1", ("turn left",), frames=20),
    Motion("bow_1", ("stand up from a bow",), frames=100),
)


class Letters:
    """Every word is a vector that its letters determine."""

    name, width = "letters", WIDTH

    def encode(self, sentences: Sequence[str]) -> TextStates:
        split = [sentence.split() for sentence in sentences]
        longest = max(map(len, split), default=0)
        states = torch.zeros(len(split), longest, WIDTH)
        mask = torch.zeros(len(split), longest, dtype=torch.bool)
        for row, words in enumerate(split):
            for place, word in enumerate(words):
                states[row, place], mask[row, place] = _vector(word), True
        return TextStates(states, mask)


def _vector(word: str) -> Tensor:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest())
    return torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed))


class Obliging(Planner):
    """Plans the skill of standing still, and keeps the sentences that it read."""

    def __init__(self, motions: Sequence[Motion] = MOTIONS, broken_from: int = 10_000):
        head = HeadConfig(
            *(2, 2, 16, 2), state_hidden=8, output=8, positions=30, text=WIDTH
        )
        about = About("controller", "", "skill", 1, "corpus", tuple(motions))
        super().__init__(PlannerConfig(head, "skill", Letters.name, about))
        self.known = pooled(Letters().encode(about.sentences))
        self.broken_from, self.heard = broken_from, []

    def plan(self, history, text, noise=None) -> Tensor:
        """The first skill of a stance, or nonsense from some plan on."""
        known = self.config.about.sentences
        self.heard.append(known[int((self.known @ pooled(text)[0]).argmax())])
        chunk = stance().expand(len(history), 30, -1).clone()
        if len(self.heard) > self.broken_from:
            chunk[:, 7] = torch.nan
        return chunk


@cache
def actor() -> Models:
    return Models.load()


def with_planner(planner: Planner) -> Models:
    """The released controller with another planner."""
    return replace(actor(), planner=planner)


@cache
def stance() -> Tensor:
    """(64,) skill of standing still."""
    encoder = actor().encoder
    assert encoder is not None
    rows = torch.from_numpy(bases.generate("stand", 20).rows)
    return encode_clip(encoder, rows)[5]


@cache
def directions() -> Directions:
    """Those of the package, of which one raises the right arm."""
    found = Directions.load("base")
    raises = {
        "direction": found.names[0],
        "base": "walk",
        "names": ["right arm raise", ""],
        "outcome": "one sign",
        "safe": [-2.0, 2.0],
        "effects": {"+2": {"right_shoulder_pitch": -0.8}},
    }
    return replace(found, measured=(raises,))
